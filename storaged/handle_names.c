/* SPDX-License-Identifier: Apache-2.0
 *
 * From names to topics, many at once: lists by path and by Kafka name, and topics by a list of references.
 * Answered from the applied state. An answer stays below IPC_MESSAGE_MAX however many partitions its topics have:
 * a list says that there is more, and a reference that finds no room is answered THROTTLED, to be asked again.
 */
#include <stdlib.h>

#include "common/topic_name.h"
#include "storaged/handle.h"

#define LIST_DEFAULT 1000
#define LIST_MAX 10000
#define GET_MANY_MAX 10000
#define ANSWER_BYTES_MAX (3u << 20)     /* of topics in an answer, below IPC_MESSAGE_MAX */

/* ---------------------------------------------------------------------- lists */

struct listing {
	struct topic_message *topic;
	Ipc__Topic **pointer;
	size_t n, limit, bytes;
	bool has_more, admin;
};

static void listing_init(struct listing *l, const struct call *c, uint32_t limit)
{
	*l = (struct listing){ .limit = limit == 0 ? LIST_DEFAULT : limit > LIST_MAX ? LIST_MAX : limit, .admin = c->admin };
	l->topic = must_calloc(l->limit, sizeof(*l->topic));
	l->pointer = must_calloc(l->limit, sizeof(*l->pointer));
	for (size_t i = 0; i < l->limit; i++)
		l->pointer[i] = &l->topic[i].m;
}

static void listing_done(struct listing *l)
{
	for (size_t i = 0; i < l->n; i++)
		topic_message_free(&l->topic[i]);
	free(l->topic);
	free(l->pointer);
}

/* False when the answer is full. */
static bool list_add(struct node *n, const struct state_topic *t, struct listing *l)
{
	if (!node_topic_is_there(n, t))
		return true;
	l->has_more = l->n == l->limit || l->bytes > ANSWER_BYTES_MAX;
	if (l->has_more)
		return false;
	topic_message_fill(n, t, ALL_PARTITIONS, &l->topic[l->n]);
	if (l->admin)
		topic_message_add_bytes(n, t, &l->topic[l->n]);
	l->bytes += ipc__topic__get_packed_size(&l->topic[l->n].m);
	l->n++;
	return true;
}

static bool has_prefix(const struct state_topic *t, struct slice prefix)
{
	return strncmp(t->name, (const char *)prefix.p, prefix.n) == 0;
}

static void list_collect(struct node *n, struct slice prefix, struct slice start_after, struct listing *l)
{
	const struct state *s = meta_state(n->meta);
	const struct state_topic *t = NULL;
	if (slice_cmp(start_after, prefix) < 0) {
		start_after = prefix;
		t = state_topic_by_name(s, prefix);
	}
	if (t == NULL)
		t = state_topic_next(s, start_after);
	while (t != NULL && has_prefix(t, prefix) &&
	       (topic_path_is_reserved(slice_str(t->name)) || list_add(n, t, l)))
		t = state_topic_next(s, slice_str(t->name));
}

void handle_list(struct node *n, struct call *c)
{
	const Ipc__ListRequest *r = (const Ipc__ListRequest *)c->request;
	struct slice prefix = slice_str(r->prefix);
	Ipc__ListAnswer a = IPC__LIST_ANSWER__INIT;
	if (prefix.n > TOPIC_PATH_MAX) {
		call_answer(c, &a.base);
		return;
	}
	struct listing l;
	listing_init(&l, c, r->limit);
	list_collect(n, prefix, slice_str(r->start_after), &l);
	a.n_topics = l.n;
	a.topics = l.pointer;
	a.has_more = l.has_more;
	call_answer(c, &a.base);
	listing_done(&l);
}

/* What Kafka clients made below reserved paths is listed, too: it has a Kafka name. */
void handle_list_kafka(struct node *n, struct call *c)
{
	const Ipc__ListKafkaRequest *r = (const Ipc__ListKafkaRequest *)c->request;
	const struct state *s = meta_state(n->meta);
	Ipc__ListKafkaAnswer a = IPC__LIST_KAFKA_ANSWER__INIT;
	struct listing l;
	listing_init(&l, c, r->limit);
	const struct state_topic *t = state_topic_next_alias(s, slice_str(r->start_after));
	while (t != NULL && list_add(n, t, &l))
		t = state_topic_next_alias(s, slice_str(t->kafka_topic));
	a.n_topics = l.n;
	a.topics = l.pointer;
	a.has_more = l.has_more;
	call_answer(c, &a.base);
	listing_done(&l);
}

/* ---------------------------------------------------------------------- many by reference */

struct found {
	Ipc__GetManyAnswer__One one;
	struct topic_message topic;
	struct pico_error words;
	Ipc__Error error;
};

static const struct state_topic *find(struct node *n, const Ipc__TopicRef *ref, bool kafka_names,
				      struct pico_error *e)
{
	const struct state *s = meta_state(n->meta);
	const struct state_topic *t = NULL;
	*e = (struct pico_error){ 0 };
	if (ref->topic_id.len == 16)
		t = state_topic_by_id(s, ref->topic_id.data);
	else if (ref->topic_id.len != 0 || ref->name[0] == '\0')
		pico_error_set(e, PICO_BAD_REQUEST, "name a topic, or give its 16-byte id");
	else if (kafka_names)
		t = state_topic_by_alias(s, slice_str(ref->name));
	else
		t = state_topic_find(s, slice_str(ref->name));
	if (t != NULL && node_topic_is_there(n, t))
		return t;
	if (e->kind == PICO_OK)
		node_no_topic(n, ref, e);
	return NULL;
}

static void get_one(struct node *n, const Ipc__TopicRef *ref, bool kafka_names, size_t *bytes, struct found *f)
{
	ipc__get_many_answer__one__init(&f->one);
	const struct state_topic *t = find(n, ref, kafka_names, &f->words);
	if (t != NULL && *bytes > ANSWER_BYTES_MAX) {
		pico_error_set(&f->words, PICO_THROTTLED, "the answer is full; ask for this one again");
		t = NULL;
	}
	if (t == NULL) {
		ipc_error_fill(&f->error, &f->words);
		f->one.error = &f->error;
		return;
	}
	topic_message_fill(n, t, ALL_PARTITIONS, &f->topic);
	*bytes += ipc__topic__get_packed_size(&f->topic.m);
	f->one.topic = &f->topic.m;
}

void handle_get_many(struct node *n, struct call *c)
{
	const Ipc__GetManyRequest *r = (const Ipc__GetManyRequest *)c->request;
	if (r->n_topic > GET_MANY_MAX) {
		call_fail(c, PICO_TOO_LARGE, "%zu topics at once; at most %d", r->n_topic, GET_MANY_MAX);
		return;
	}
	Ipc__GetManyAnswer a = IPC__GET_MANY_ANSWER__INIT;
	struct found *found = must_calloc(r->n_topic + 1, sizeof(*found));
	size_t bytes = 0;
	a.n_one = r->n_topic;
	a.one = must_calloc(r->n_topic + 1, sizeof(*a.one));
	for (size_t i = 0; i < a.n_one; i++) {
		get_one(n, r->topic[i], r->kafka_names, &bytes, &found[i]);
		a.one[i] = &found[i].one;
	}
	call_answer(c, &a.base);
	for (size_t i = 0; i < a.n_one; i++)
		topic_message_free(&found[i].topic);
	free(found);
	free(a.one);
}
