/* SPDX-License-Identifier: Apache-2.0
 *
 * Bodies of PUT and POST as a record batch. Of JSON the bytes of each message stay as they came: nothing is parsed into
 * numbers and written again. An array is taken apart by one level.
 */
#include <errno.h>
#include <stdio.h>

#include "common/json_scan.h"
#include "common/record_batch.h"
#include "worker-http/ds.h"

bool ds_is_json(struct slice content_type)
{
	return media_type_same(content_type, slice_str("application/json"));
}

static void add(struct record_batch_writer *w, struct slice value, uint32_t *count)
{
	record_batch_add(w, slice_of(NULL, 0), value, NULL, 0);
	(*count)++;
}

static bool is_space(uint8_t c)
{
	return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

static struct slice trim(struct slice s)
{
	while (s.n > 0 && is_space(s.p[0]))
		s = slice_of(s.p + 1, s.n - 1);
	while (s.n > 0 && is_space(s.p[s.n - 1]))
		s.n--;
	return s;
}

/* To the end of the document; what is wrong, or NULL. */
static const char *skip_to_end(struct json_scan *j)
{
	enum json_token token;
	do
		token = json_next(j);
	while (token != JSON_END && token != JSON_ERROR);
	return token == JSON_ERROR ? j->error : NULL;
}

/* Adds the messages; what is wrong, or NULL. */
static const char *add_messages(struct slice body, struct record_batch_writer *w, uint32_t *count)
{
	struct json_scan j;
	json_scan_init(&j, body);
	enum json_token token = json_next(&j);
	if (token != JSON_ARRAY) {
		add(w, trim(body), count);
		return token == JSON_ERROR ? j.error : skip_to_end(&j);
	}
	while ((token = json_skip(&j)) != JSON_ERROR && token != JSON_ARRAY_END)
		add(w, j.span, count);
	return token == JSON_ERROR ? j.error : skip_to_end(&j);
}

int ds_batch(struct slice body, bool json, struct buf *out, uint32_t *ret_count, char *fault, size_t fault_size)
{
	struct record_batch_writer w;
	const char *wrong = NULL;
	*ret_count = 0;
	if (body.n == 0)
		return 0;
	record_batch_begin(&w, out);
	if (json)
		wrong = add_messages(body, &w, ret_count);
	else
		add(&w, body, ret_count);
	if (wrong != NULL || *ret_count == 0) {
		buf_reset(out, 0);
		*ret_count = 0;
		if (wrong != NULL)
			snprintf(fault, fault_size, "the body is not JSON: %s", wrong);
		return wrong != NULL ? -EBADMSG : 0;
	}
	record_batch_end(&w);
	return 0;
}
