/* SPDX-License-Identifier: Apache-2.0
 *
 * Uploads in parts on S3. The first part begins the upload; parts that come before its id is known wait. A part may
 * be sent again, for it replaces itself.
 *
 * Invariant: an upload is completed with the parts that were answered OK here, by their ETags and CRCs.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/must.h"
#include "storaged/objstore/s3_call.h"

#define XML_MAX ((uint64_t)4 << 20)
#define PAGE_MAX 1000u

struct part {
	char *etag;                     /* without quotes; NULL until it is stored */
	char crc[9];
};

/* A part on its way. */
struct s3_part {
	struct s3_part *next;           /* waiting for the id */
	struct s3_upload *u;
	unsigned number;                /* from 0 */
	struct s3_call *call;           /* made when it is given, begun when there is an id */
	obj_done_cb *cb;
	void *arg;
};

struct s3_upload {
	struct obj_upload upload;       /* first */
	struct s3_upload *next;         /* of the store's handles */
	char *key, *id;
	bool creating;
	struct part *part;
	unsigned n_parts, n_parts_out;
	uint64_t size;
	struct s3_part *waiting, **waiting_tail;
};

/* The handle */

struct obj_upload *s3_upload_new(struct objstore *store, const char *key)
{
	struct s3_store *s = s3_store_of(store);
	struct s3_upload *u = must_calloc(1, sizeof(*u));
	must(objstore_key_is_legal(key));
	*u = (struct s3_upload){ .upload = { store }, .key = must_strdup(key), .next = s->uploads };
	u->waiting_tail = &u->waiting;
	s->uploads = u;
	return &u->upload;
}

static void upload_free(struct s3_upload *u)
{
	struct s3_upload **at = &s3_store_of(u->upload.store)->uploads;
	while (*at != u)
		at = &(*at)->next;
	*at = u->next;
	for (unsigned i = 0; i < u->n_parts; i++)
		free(u->part[i].etag);
	free(u->part);
	free(u->key);
	free(u->id);
	free(u);
}

void s3_uploads_free(struct s3_store *s)
{
	while (s->uploads != NULL)
		upload_free(s->uploads);
}

static struct s3_upload *upload_of(struct obj_upload *u)
{
	must(s3_store_of(u->store) != NULL);
	return (struct s3_upload *)u;
}

static void nothing_to_drop(void *op)
{
}

/* Parts */

static void part_end(struct s3_part *p, struct obj_result result)
{
	obj_done_cb *cb = p->cb;
	void *arg = p->arg;
	p->u->n_parts_out--;
	free(p);
	cb(arg, result);
}

/* The tag without its quotes, or NULL for one that could not stand in XML. */
static char *etag_take(const char *etag)
{
	size_t n = strlen(etag);
	if (n >= 2 && etag[0] == '"' && etag[n - 1] == '"') {
		etag++;
		n -= 2;
	}
	for (size_t i = 0; i < n; i++) {
		if (strchr("<>&\"'", etag[i]) != NULL)
			return NULL;
	}
	return n > 0 ? strndup(etag, n) : NULL;
}

static void on_part_end(void *op, const struct s3_call *call, const struct s3_end *end)
{
	struct s3_part *p = op;
	struct obj_result result = { .outcome = end->outcome, .err = end->err, .what = end->what };
	if (end->outcome == OUTCOME_OK) {
		p->u->part[p->number].etag = etag_take(end->x->etag);
		if (p->u->part[p->number].etag == NULL) {
			result.outcome = OUTCOME_UNKNOWN;
			result.err = -EBADMSG;
		}
	}
	part_end(p, result);
}

/* Query and header need the id, so a call that waits has its body only. */
static void part_begin(struct s3_part *p)
{
	char number[16];
	snprintf(number, sizeof(number), "%u", p->number + 1);
	s3_request_query(&p->call->request, "partNumber", number);
	s3_request_query(&p->call->request, "uploadId", p->u->id);
	s3_request_header(&p->call->request, "x-amz-checksum-crc32c", "%s", p->u->part[p->number].crc);
	s3_call_begin(p->call);
}

static struct s3_part *waiting_take(struct s3_upload *u)
{
	struct s3_part *p = u->waiting;
	if (p != NULL && (u->waiting = p->next) == NULL)
		u->waiting_tail = &u->waiting;
	return p;
}

static void on_created(void *op, const struct s3_call *call, const struct s3_end *end)
{
	struct s3_upload *u = op;
	bool ok = end->outcome == OUTCOME_OK && end->x->document.upload_id != NULL;
	int err = ok ? 0 : end->outcome == OUTCOME_OK ? -EBADMSG : end->err;
	enum outcome outcome = end->outcome == OUTCOME_OK ? OUTCOME_UNKNOWN : end->outcome;
	u->creating = false;
	if (ok)
		u->id = must_strdup(end->x->document.upload_id);
	for (struct s3_part *p; (p = waiting_take(u)) != NULL;) {
		if (ok)
			part_begin(p);
		else
			s3_call_end_later(p->call, outcome, err);
	}
}

static void upload_create(struct s3_upload *u)
{
	struct s3_call *c = s3_call_new(s3_store_of(u->upload.store), "POST", u->key);
	u->creating = true;
	s3_request_query(&c->request, "uploads", "");
	s3_request_header(&c->request, "x-amz-checksum-algorithm", "CRC32C");
	s3_request_body(&c->request, NULL, 0);
	c->request.answer_is_xml = true;
	c->request.answer_max = XML_MAX;
	c->root = "InitiateMultipartUploadResult";
	c->may_retry = true;
	c->op = u;
	c->on_end = on_created;
	c->drop = nothing_to_drop;
	s3_call_begin(c);
}

static void part_drop(void *op)
{
	free(op);
}

void s3_upload_part(struct obj_upload *handle, const struct iovec *iov, int n_iov, obj_done_cb *cb, void *arg)
{
	struct s3_upload *u = upload_of(handle);
	must(u->n_parts < OBJ_PARTS_MAX);
	struct s3_part *p = must_calloc(1, sizeof(*p));
	struct s3_call *c = s3_call_new(s3_store_of(handle->store), "PUT", u->key);
	*p = (struct s3_part){ .u = u, .number = u->n_parts++, .call = c, .cb = cb, .arg = arg };
	u->part = must_realloc(u->part, u->n_parts * sizeof(u->part[0]));
	u->part[p->number] = (struct part){ 0 };
	s3_request_body(&c->request, iov, n_iov);
	s3_request_crc(&c->request, u->part[p->number].crc);
	u->size += c->request.body_len;
	u->n_parts_out++;
	c->may_retry = true;
	c->op = p;
	c->on_end = on_part_end;
	c->drop = part_drop;
	if (u->id != NULL) {
		part_begin(p);
		return;
	}
	*u->waiting_tail = p;
	u->waiting_tail = &p->next;
	if (!u->creating)
		upload_create(u);
}

/* Ends */

struct s3_finish {
	struct s3_store *s;
	obj_done_cb *cb;
	void *arg;
	char *key;
	uint64_t size;
};

static void finish_free(void *op)
{
	struct s3_finish *f = op;
	free(f->key);
	free(f);
}

static void finish_end(struct s3_finish *f, struct obj_result result)
{
	obj_done_cb *cb = f->cb;
	void *arg = f->arg;
	finish_free(f);
	cb(arg, result);
}

/* The upload is gone after a try whose answer was lost: the object says whether that try was the one. */
static void on_looked(void *op, const struct s3_call *call, const struct s3_end *end)
{
	struct s3_finish *f = op;
	struct obj_result result = { .outcome = OUTCOME_UNKNOWN, .err = -ENOENT, .what = end->what };
	if (end->outcome == OUTCOME_OK && end->x->object_size == f->size)
		result = (struct obj_result){ .outcome = OUTCOME_OK, .what = end->what };
	else if (end->err != -ENOENT && end->outcome != OUTCOME_OK)
		result.err = end->err;
	finish_end(f, result);
}

static void finish_look(struct s3_finish *f)
{
	struct s3_call *c = s3_call_new(f->s, "GET", f->key);
	s3_request_header(&c->request, "range", "bytes=0-0");
	c->request.answer_max = 1;
	c->may_retry = true;
	c->op = f;
	c->on_end = on_looked;
	c->drop = finish_free;
	s3_call_begin(c);
}

static void on_finished(void *op, const struct s3_call *call, const struct s3_end *end)
{
	struct s3_finish *f = op;
	struct obj_result result = { .outcome = end->outcome, .err = end->err, .what = end->what };
	if (end->outcome == OUTCOME_NOT_APPLIED && call->maybe_applied) {
		if (end->err == -ENOENT) {
			finish_look(f);
			return;
		}
		result.outcome = OUTCOME_UNKNOWN;
	}
	finish_end(f, result);
}

static bool all_parts_are_stored(const struct s3_upload *u)
{
	for (unsigned i = 0; i < u->n_parts; i++) {
		if (u->part[i].etag == NULL)
			return false;
	}
	return u->n_parts > 0;
}

static struct buf finish_text(const struct s3_upload *u)
{
	struct buf b;
	buf_init(&b, XML_MAX);
	buf_put_str(&b, "<CompleteMultipartUpload xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\">");
	for (unsigned i = 0; i < u->n_parts; i++)
		buf_printf(&b, "<Part><PartNumber>%u</PartNumber><ETag>&quot;%s&quot;</ETag><ChecksumCRC32C>%s"
			   "</ChecksumCRC32C></Part>", i + 1, u->part[i].etag, u->part[i].crc);
	buf_put_str(&b, "</CompleteMultipartUpload>");
	return b;
}

void s3_upload_finish(struct obj_upload *handle, obj_done_cb *cb, void *arg)
{
	struct s3_upload *u = upload_of(handle);
	must(u->n_parts_out == 0 && u->n_parts > 0);
	struct s3_finish *f = must_calloc(1, sizeof(*f));
	struct s3_call *c = s3_call_new(s3_store_of(handle->store), "POST", u->key);
	*f = (struct s3_finish){ .s = c->s, .cb = cb, .arg = arg, .key = must_strdup(u->key), .size = u->size };
	c->op = f;
	c->on_end = on_finished;
	c->drop = finish_free;
	c->root = "CompleteMultipartUploadResult";
	c->request.answer_is_xml = true;
	c->request.answer_max = XML_MAX;
	c->may_retry = true;
	if (all_parts_are_stored(u)) {
		s3_request_query(&c->request, "uploadId", u->id);
		s3_request_text(&c->request, finish_text(u));
		s3_call_begin(c);
	} else {
		s3_call_end_later(c, OUTCOME_NOT_APPLIED, -ENODATA);
	}
	upload_free(u);
}

struct s3_abort {
	obj_done_cb *cb;
	void *arg;
};

static void on_aborted(void *op, const struct s3_call *call, const struct s3_end *end)
{
	struct s3_abort a = *(struct s3_abort *)op;
	struct obj_result result = { .outcome = end->outcome, .err = end->err, .what = end->what };
	free(op);
	if (end->outcome == OUTCOME_NOT_APPLIED && end->err == -ENOENT)
		result = (struct obj_result){ .outcome = OUTCOME_OK, .what = end->what };
	else if (end->outcome == OUTCOME_NOT_APPLIED && call->maybe_applied)
		result.outcome = OUTCOME_UNKNOWN;
	a.cb(a.arg, result);
}

static void abort_begin(struct s3_store *s, const struct obj_upload_entry *e, obj_done_cb *cb, void *arg)
{
	struct s3_abort *a = must_calloc(1, sizeof(*a));
	struct s3_call *c = s3_call_new(s, "DELETE", e->key);
	*a = (struct s3_abort){ cb, arg };
	c->op = a;
	c->on_end = on_aborted;
	c->drop = free;
	c->may_retry = true;
	if (e->id == NULL) {
		s3_call_end_later(c, OUTCOME_OK, 0);
		return;
	}
	s3_request_query(&c->request, "uploadId", e->id);
	s3_call_begin(c);
}

void s3_upload_abort(struct obj_upload *handle, obj_done_cb *cb, void *arg)
{
	struct s3_upload *u = upload_of(handle);
	must(u->n_parts_out == 0);
	abort_begin(s3_store_of(handle->store), &(struct obj_upload_entry){ u->key, u->id }, cb, arg);
	upload_free(u);
}

void s3_abort_upload(struct objstore *store, const struct obj_upload_entry *e, obj_done_cb *cb, void *arg)
{
	abort_begin(s3_store_of(store), e, cb, arg);
}

/* List */

struct s3_uploads_list {
	struct s3_store *s;
	obj_uploads_cb *cb;
	void *arg;
	char *prefix;
	char *key_marker, *id_marker;   /* with the store's prefix; NULL at the beginning */
	size_t limit;
	struct obj_upload_entry *entries;
	size_t n;
};

static void uploads_next(struct s3_uploads_list *l);

static void uploads_list_free(void *op)
{
	struct s3_uploads_list *l = op;
	for (size_t i = 0; i < l->n; i++) {
		free(l->entries[i].key);
		free(l->entries[i].id);
	}
	free(l->entries);
	free(l->prefix);
	free(l->key_marker);
	free(l->id_marker);
	free(l);
}

static int by_key(const void *a, const void *b)
{
	const struct obj_upload_entry *x = a, *y = b;
	int c = strcmp(x->key, y->key);
	return c != 0 ? c : strcmp(x->id, y->id);
}

/* Some servers give everything at every question: then what came with earlier pages is in the answer again. */
static bool is_all_again(const struct s3_uploads_list *l, const struct s3_document *d)
{
	if (d->truncated || l->key_marker == NULL || l->id_marker == NULL)
		return false;
	const struct obj_upload_entry after = { l->key_marker, l->id_marker };
	for (size_t i = 0; i < d->n_uploads; i++)
		if (strcmp(d->uploads[i].key, after.key) < 0 || by_key(&d->uploads[i], &after) == 0)
			return true;
	return false;
}

static void uploads_add(struct s3_uploads_list *l, const struct s3_document *d)
{
	const struct obj_upload_entry after = { l->key_marker, l->id_marker };
	bool all = is_all_again(l, d);
	l->entries = must_realloc(l->entries, (l->n + d->n_uploads + 1) * sizeof(l->entries[0]));
	for (size_t i = 0; i < d->n_uploads; i++) {
		const char *key = s3_key_of(l->s, d->uploads[i].key);
		if (key == NULL || (all && by_key(&d->uploads[i], &after) <= 0))
			continue;
		l->entries[l->n++] = (struct obj_upload_entry){ must_strdup(key), must_strdup(d->uploads[i].id) };
	}
}

/* Order and bound of an answer that is all there is: whatever the server thinks of them. Whether entries had to go. */
static bool uploads_cut(struct s3_uploads_list *l, bool truncated)
{
	bool over = l->n > l->limit;
	if (!truncated && l->n > 1)
		qsort(l->entries, l->n, sizeof(l->entries[0]), by_key);
	for (; l->n > l->limit; l->n--) {
		free(l->entries[l->n - 1].key);
		free(l->entries[l->n - 1].id);
	}
	return over;
}

static void on_uploads_end(void *op, const struct s3_call *call, const struct s3_end *end)
{
	struct s3_uploads_list *l = op;
	struct obj_result result = { .outcome = end->outcome, .err = end->err, .what = end->what };
	bool ok = end->outcome == OUTCOME_OK, more = false;
	if (ok) {
		const struct s3_document *d = &end->x->document;
		uploads_add(l, d);
		more = d->truncated && d->next != NULL;
		if (more && l->n < l->limit) {
			free(l->key_marker);
			free(l->id_marker);
			l->key_marker = must_strdup(d->next);
			l->id_marker = d->next_upload_id != NULL ? must_strdup(d->next_upload_id) : NULL;
			uploads_next(l);
			return;
		}
		more |= uploads_cut(l, more);
	}
	l->cb(l->arg, result, ok ? l->entries : NULL, ok ? l->n : 0, more);
	uploads_list_free(l);
}

static void uploads_next(struct s3_uploads_list *l)
{
	char text[2 * OBJ_KEY_MAX + 16];
	struct s3_call *c = s3_call_new(l->s, "GET", NULL);
	size_t n = l->limit - l->n < PAGE_MAX ? l->limit - l->n : PAGE_MAX;
	if (l->key_marker != NULL)
		s3_request_query(&c->request, "key-marker", l->key_marker);
	snprintf(text, sizeof(text), "%zu", n);
	s3_request_query(&c->request, "max-uploads", text);
	snprintf(text, sizeof(text), "%s%s", l->s->config.prefix, l->prefix);
	s3_request_query(&c->request, "prefix", text);
	if (l->id_marker != NULL)
		s3_request_query(&c->request, "upload-id-marker", l->id_marker);
	s3_request_query(&c->request, "uploads", "");
	c->request.answer_is_xml = true;
	c->request.answer_max = XML_MAX;
	c->root = "ListMultipartUploadsResult";
	c->may_retry = true;
	c->op = l;
	c->on_end = on_uploads_end;
	c->drop = uploads_list_free;
	s3_call_begin(c);
}

void s3_list_uploads(struct objstore *store, const char *prefix, const struct obj_upload_entry *after, size_t limit,
		     obj_uploads_cb *cb, void *arg)
{
	must(limit > 0);
	struct s3_uploads_list *l = must_calloc(1, sizeof(*l));
	*l = (struct s3_uploads_list){ .s = s3_store_of(store), .cb = cb, .arg = arg, .limit = limit,
				       .prefix = must_strdup(prefix) };
	if (after != NULL) {
		must(asprintf(&l->key_marker, "%s%s", l->s->config.prefix, after->key) >= 0);
		l->id_marker = must_strdup(after->id);
	}
	uploads_next(l);
}
