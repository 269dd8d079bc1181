/* SPDX-License-Identifier: Apache-2.0
 *
 * GET /: the topics in order of name. A long list is asked for page by page as its reader takes it.
 */
#include <stdlib.h>

#include "common/json_scan.h"
#include "common/must.h"
#include "worker-http/pico.h"
#include "worker-http/pico_topic.h"

#define LIST_DEFAULT 1000
#define LIST_MAX 10000
#define LIST_PAGE 100                   /* topics in one answer of storaged: each may have 1,024 partitions */

struct list {
	char *prefix;           /* owned */
	char *after;            /* owned: the last name shown, or start_after */
	uint64_t left;          /* topics that may still be shown */
	bool any;
};

static void list_free(void *state)
{
	struct list *l = state;
	free(l->prefix);
	free(l->after);
	free(l);
}

static void list_page(struct request *r, const Ipc__ListAnswer *a)
{
	struct list *l = r->state;
	struct buf *out = &r->answer.body;
	buf_reset(out, 65536);
	if (r->answer.status == 0) {
		answer_field(r, "Content-Type", "application/json");
		answer_begin_stream(r, 200, false, 0);
		buf_put_str(out, "{\"streams\":[");
	}
	size_t n = a->n_topics < l->left ? a->n_topics : (size_t)l->left;
	for (size_t i = 0; i < n; i++) {
		if (l->any)
			buf_put_u8(out, ',');
		l->any = true;
		pico_topic_json(out, a->topics[i]);
	}
	l->left -= n;
	if (n > 0) {
		free(l->after);
		l->after = must_strdup(a->topics[n - 1]->name);
	}
	bool more = a->has_more || n < a->n_topics;
	bool ended = !more || l->left == 0 || n == 0;
	if (ended)
		buf_put_str(out, more ? "],\"has_more\":true}\n" : "],\"has_more\":false}\n");
	answer_more(r, ended);
}

static void on_listed(void *arg, const struct pico_error *error, const ProtobufCMessage *m,
		      struct topics_pieces *pieces)
{
	struct request *r = arg;
	r->call = NULL;
	if (error->kind == PICO_OK)
		list_page(r, (const Ipc__ListAnswer *)m);
	else if (r->answer.status == 0)
		pico_answer_error(r, error);
	else
		answer_break(r);
}

static void list_call(struct request *r)
{
	struct list *l = r->state;
	Ipc__ListRequest m = IPC__LIST_REQUEST__INIT;
	m.prefix = l->prefix;
	m.start_after = l->after;
	m.limit = (uint32_t)(l->left < LIST_PAGE ? l->left : LIST_PAGE);
	m.deadline_ms = request_deadline(r);
	request_call(r, IPC_LIST, &m.base, slice_of(NULL, 0), m.deadline_ms, on_listed);
}

/* A parameter as an owned string; one with a NUL byte ends there and matches nothing else. */
static char *text_param(struct request *r, const char *key, const char *otherwise)
{
	struct buf value;
	buf_init(&value, PICO_PARAM_MAX);
	bool given = query_find(r->query, key, &value) && buf_len(&value) > 0;
	buf_put_u8(&value, '\0');
	char *text = must_strdup(given && !value.failed ? (const char *)buf_head(&value) : otherwise);
	buf_done(&value);
	return text;
}

void pico_list(struct request *r)
{
	struct buf value;
	uint64_t limit = 0;
	buf_init(&value, PICO_PARAM_MAX);
	bool given = query_find(r->query, "limit", &value) && buf_len(&value) > 0;
	bool good = !given || strict_u64(buf_slice(&value), &limit);
	buf_done(&value);
	if (!good) {
		answer_bad_request(r, "limit must be a number without sign or leading zeros");
		return;
	}
	struct list *l = must_calloc(1, sizeof(*l));
	l->left = limit == 0 ? LIST_DEFAULT : limit > LIST_MAX ? LIST_MAX : limit;
	l->prefix = text_param(r, "prefix", "/");
	l->after = text_param(r, "start_after", "");
	r->state = l;
	r->state_free = list_free;
	r->produce = list_call;
	list_call(r);
}
