/* SPDX-License-Identifier: Apache-2.0
 *
 * Documents of S3: elements are told apart by their own name and their parent's. What is unknown is skipped.
 *
 * Invariant: a document type ends the reading, so no entity is ever expanded; depth, items and texts are bounded.
 */
#include "storaged/objstore/s3_xml.h"

#include <errno.h>
#include <expat.h>
#include <stdlib.h>
#include <string.h>

#include "common/must.h"

#define DEPTH_MAX 12
#define NAME_MAX_BYTES 64

struct reader {
	XML_Parser parser;
	struct s3_document *d;
	char name[DEPTH_MAX][NAME_MAX_BYTES];   /* of the open elements */
	unsigned depth;
	char text[S3_XML_TEXT_MAX];             /* of the innermost one */
	size_t n_text;
	char *key, *id, code[64];               /* of the item that is open */
	uint64_t size;
	bool failed;
};

static void give_up(struct reader *r)
{
	r->failed = true;
	XML_StopParser(r->parser, XML_FALSE);
}

/* Growing by one, a power of two at a time. */
static void *item_add(void *items, size_t n, size_t size)
{
	return (n & (n + 1)) == 0 || n == 0 ? must_realloc(items, (2 * n + 1) * size) : items;
}

static void text_take(char **to, const char *text)
{
	free(*to);
	*to = must_strdup(text);
}

static void code_take(char to[64], const char *text)
{
	size_t n = 0;
	for (; *text != 0 && n < 63; text++) {
		bool plain = (*text >= 'A' && *text <= 'Z') || (*text >= 'a' && *text <= 'z') ||
			     (*text >= '0' && *text <= '9');
		if (plain)
			to[n++] = *text;
	}
	to[n] = 0;
}

static bool number_take(const char *text, uint64_t *ret)
{
	char *end;
	errno = 0;
	*ret = strtoull(text, &end, 10);
	return text[0] >= '0' && text[0] <= '9' && *end == 0 && errno == 0;
}

/* The ends of elements */

static void item_forget(struct reader *r)
{
	free(r->key);
	free(r->id);
	r->key = r->id = NULL;
	r->code[0] = 0;
	r->size = 0;
}

static void entry_end(struct reader *r)
{
	struct s3_document *d = r->d;
	if (r->key == NULL || d->n_entries >= S3_XML_ITEMS_MAX) {
		give_up(r);
		return;
	}
	d->entries = item_add(d->entries, d->n_entries, sizeof(d->entries[0]));
	d->entries[d->n_entries++] = (struct obj_entry){ r->key, r->size };
	r->key = NULL;
}

static void upload_end(struct reader *r)
{
	struct s3_document *d = r->d;
	if (r->key == NULL || r->id == NULL || d->n_uploads >= S3_XML_ITEMS_MAX) {
		give_up(r);
		return;
	}
	d->uploads = item_add(d->uploads, d->n_uploads, sizeof(d->uploads[0]));
	d->uploads[d->n_uploads++] = (struct obj_upload_entry){ r->key, r->id };
	r->key = r->id = NULL;
}

/* In a DeleteResult. */
static void error_end(struct reader *r)
{
	struct s3_document *d = r->d;
	if (d->failed_key != NULL || strcmp(r->code, "NoSuchKey") == 0)
		return;
	d->failed_key = must_strdup(r->key != NULL ? r->key : "");
	strcpy(d->failed_code, r->code);
}

static void item_element(struct reader *r, const char *name)
{
	if (strcmp(name, "Key") == 0)
		text_take(&r->key, r->text);
	else if (strcmp(name, "UploadId") == 0)
		text_take(&r->id, r->text);
	else if (strcmp(name, "Code") == 0)
		code_take(r->code, r->text);
	else if (strcmp(name, "Size") == 0 && !number_take(r->text, &r->size))
		give_up(r);
}

static void top_element(struct reader *r, const char *name)
{
	struct s3_document *d = r->d;
	bool is_error = strcmp(d->root, "Error") == 0;
	if (strcmp(name, "Contents") == 0)
		entry_end(r);
	else if (strcmp(name, "Upload") == 0)
		upload_end(r);
	else if (strcmp(name, "Error") == 0)
		error_end(r);
	else if (strcmp(name, "Code") == 0 && is_error)
		code_take(d->code, r->text);
	else if (strcmp(name, "IsTruncated") == 0)
		d->truncated = strcmp(r->text, "true") == 0;
	else if (strcmp(name, "NextContinuationToken") == 0 || strcmp(name, "NextKeyMarker") == 0)
		text_take(&d->next, r->text);
	else if (strcmp(name, "NextUploadIdMarker") == 0)
		text_take(&d->next_upload_id, r->text);
	else if (strcmp(name, "UploadId") == 0)
		text_take(&d->upload_id, r->text);
	item_forget(r);
}

/* expat's side */

static void on_start(void *arg, const XML_Char *name, const XML_Char **attributes)
{
	struct reader *r = arg;
	if (r->depth >= DEPTH_MAX || strlen(name) >= NAME_MAX_BYTES) {
		give_up(r);
		return;
	}
	strcpy(r->name[r->depth++], name);
	r->n_text = 0;
	if (r->depth == 1)
		strcpy(r->d->root, name);
}

static void on_text(void *arg, const XML_Char *text, int n)
{
	struct reader *r = arg;
	if (r->n_text + (size_t)n >= sizeof(r->text)) {
		give_up(r);
		return;
	}
	memcpy(r->text + r->n_text, text, (size_t)n);
	r->n_text += (size_t)n;
}

static void on_end(void *arg, const XML_Char *name)
{
	struct reader *r = arg;
	must(r->depth > 0);
	r->depth--;
	r->text[r->n_text] = 0;
	if (r->depth == 1)
		top_element(r, name);
	else if (r->depth == 2)
		item_element(r, name);
	r->n_text = 0;
}

static void on_doctype(void *arg, const XML_Char *name, const XML_Char *system_id, const XML_Char *public_id,
		       int has_internal_subset)
{
	give_up(arg);
}

int s3_document_parse(struct slice text, struct s3_document *ret)
{
	struct reader r = { .d = ret };
	*ret = (struct s3_document){ .root = "" };
	if (text.n > INT32_MAX)
		return -EBADMSG;
	r.parser = XML_ParserCreate(NULL);
	must(r.parser != NULL);
	XML_SetUserData(r.parser, &r);
	XML_SetElementHandler(r.parser, on_start, on_end);
	XML_SetCharacterDataHandler(r.parser, on_text);
	XML_SetStartDoctypeDeclHandler(r.parser, on_doctype);
	bool good = XML_Parse(r.parser, (const char *)text.p, (int)text.n, 1) == XML_STATUS_OK && !r.failed;
	XML_ParserFree(r.parser);
	item_forget(&r);
	return good ? 0 : -EBADMSG;
}

void s3_document_done(struct s3_document *d)
{
	for (size_t i = 0; i < d->n_entries; i++)
		free(d->entries[i].key);
	for (size_t i = 0; i < d->n_uploads; i++) {
		free(d->uploads[i].key);
		free(d->uploads[i].id);
	}
	free(d->entries);
	free(d->uploads);
	free(d->next);
	free(d->next_upload_id);
	free(d->upload_id);
	free(d->failed_key);
	*d = (struct s3_document){ .root = "" };
}
