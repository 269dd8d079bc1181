/* SPDX-License-Identifier: Apache-2.0
 *
 * Hash tables of uthash keep the order in which things were added, and that is all the order there is: sessions stand
 * in that of their last use; partitions of a session in that in which they are read, and who had records goes to the
 * end, so that a bound on the bytes of an answer starves none.
 *
 * Between plan and answer a session may go, or go on elsewhere: nothing of it is held, and its epoch says whether it
 * is still the one that was asked.
 */
#include "worker-kafka/fetch_session.h"

#include <stdlib.h>

#define uthash_fatal(msg) abort()
#include <uthash.h>

#include "common/metrics.h"
#include "common/must.h"

#define EPOCH_FIRST 0                   /* all partitions are named, and a session may begin */
#define EPOCH_LAST (-1)                 /* the same, and none begins */
#define BY_ID 13

struct session_topic {
	UT_hash_handle hh;
	unsigned n_parts;
	uint32_t n;
	uint8_t key[];                  /* a name, or the 16 bytes of an id */
};

/* Hashed as it stands: no padding. */
struct place {
	struct session_topic *topic;
	int64_t partition;
};

struct session_part {
	struct place place;
	int64_t fetch_offset;
	int32_t max_bytes, leader_epoch;
	int64_t high_watermark, log_start_offset;       /* as told; -1: not, or an error was */
	UT_hash_handle hh;
};

struct session {
	int32_t id;
	int32_t epoch;                  /* of the next request */
	bool by_id;
	uint64_t created_ms, used_ms;
	struct session_topic *topics;
	struct session_part *parts;
	UT_hash_handle hh;
};

struct fetch_sessions {
	struct server *server;
	struct session *sessions;
	size_t n_parts;                 /* of all */
};

/* ------------------------------------------------------------------ partitions */

static struct slice key_of(struct slice name, const struct kmsg_uuid *id, bool by_id)
{
	return by_id ? slice_of(id->bytes, 16) : name;
}

static struct session_topic *topic_find(const struct session *s, struct slice key)
{
	struct session_topic *t;
	HASH_FIND(hh, s->topics, key.p, key.n, t);
	return t;
}

static struct session_topic *topic_take(struct session *s, struct slice key)
{
	struct session_topic *t = topic_find(s, key);
	if (t != NULL)
		return t;
	t = must_calloc(1, sizeof(*t) + key.n);
	t->n = (uint32_t)key.n;
	memcpy(t->key, key.p, key.n);
	HASH_ADD_KEYPTR(hh, s->topics, t->key, t->n, t);
	return t;
}

static struct session_part *part_find(const struct session *s, struct session_topic *topic, int32_t partition)
{
	struct place place = { topic, partition };
	struct session_part *p = NULL;
	if (topic != NULL)
		HASH_FIND(hh, s->parts, &place, sizeof(place), p);
	return p;
}

static void part_drop(struct fetch_sessions *all, struct session *s, struct session_part *p)
{
	struct session_topic *t = p->place.topic;
	HASH_DEL(s->parts, p);
	free(p);
	all->n_parts--;
	if (--t->n_parts > 0)
		return;
	HASH_DEL(s->topics, t);
	free(t);
}

/* As the client wants it read from now on. A new one is told of whatever comes. */
static void part_set(struct fetch_sessions *all, struct session *s, struct slice key,
		     const struct kmsg_fetch_request_partition *in)
{
	struct session_topic *t = topic_take(s, key);
	struct session_part *p = part_find(s, t, in->partition);
	if (p == NULL) {
		p = must_calloc(1, sizeof(*p));
		p->place = (struct place){ t, in->partition };
		p->high_watermark = p->log_start_offset = -1;
		HASH_ADD(hh, s->parts, place, sizeof(p->place), p);
		t->n_parts++;
		all->n_parts++;
	}
	p->fetch_offset = in->fetch_offset;
	p->max_bytes = in->partition_max_bytes;
	p->leader_epoch = in->current_leader_epoch;
}

static void set_parts(struct fetch_sessions *all, struct session *s, const struct kmsg_fetch_request_topic *topics, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++)
		for (uint32_t j = 0; j < topics[i].n_partitions; j++)
			part_set(all, s, key_of(topics[i].topic, &topics[i].topic_id, s->by_id), &topics[i].partitions[j]);
}

static void forget_parts(struct fetch_sessions *all, struct session *s, const struct kmsg_fetch_request *q)
{
	for (uint32_t i = 0; i < q->n_forgotten_topics_data; i++) {
		const struct kmsg_fetch_request_forgotten_topic *f = &q->forgotten_topics_data[i];
		for (uint32_t j = 0; j < f->n_partitions; j++) {
			struct session_topic *t = topic_find(s, key_of(f->topic, &f->topic_id, s->by_id));
			struct session_part *p = part_find(s, t, f->partitions[j]);
			if (p != NULL)
				part_drop(all, s, p);
		}
	}
}

/* ------------------------------------------------------------------ sessions */

static void count(const struct fetch_sessions *all)
{
	metric_set(METRIC_KAFKA_FETCH_SESSIONS, HASH_COUNT(all->sessions));
}

static struct session *session_find(const struct fetch_sessions *all, int32_t id)
{
	struct session *s;
	HASH_FIND_INT(all->sessions, &id, s);
	return s;
}

static void session_drop(struct fetch_sessions *all, struct session *s)
{
	struct session_part *p, *next;
	if (s == NULL)
		return;
	HASH_ITER(hh, s->parts, p, next)
		part_drop(all, s, p);
	HASH_DEL(all->sessions, s);
	free(s);
	count(all);
}

static void session_touch(struct fetch_sessions *all, struct session *s)
{
	HASH_DEL(all->sessions, s);
	HASH_ADD_INT(all->sessions, id, s);
	s->used_ms = env_now_ms(all->server->env);
	s->epoch = s->epoch == INT32_MAX ? 1 : s->epoch + 1;
}

/* One that may go for a session of n partitions; NULL. */
static struct session *victim(const struct fetch_sessions *all, size_t n)
{
	uint64_t now = env_now_ms(all->server->env);
	struct session *smallest = NULL;
	if (all->sessions != NULL && now - all->sessions->used_ms > FETCH_SESSION_KEPT_MS)
		return all->sessions;
	for (struct session *s = all->sessions; s != NULL; s = s->hh.next) {
		bool old = now - s->created_ms > FETCH_SESSION_KEPT_MS;
		if (old && (smallest == NULL || HASH_COUNT(s->parts) < HASH_COUNT(smallest->parts)))
			smallest = s;
	}
	return smallest != NULL && HASH_COUNT(smallest->parts) < n ? smallest : NULL;
}

static bool make_room(struct fetch_sessions *all, size_t n)
{
	uint64_t most = all->server->conf->max_fetch_sessions;
	if (n > FETCH_SESSION_PARTS_MAX || most == 0)
		return false;
	while (HASH_COUNT(all->sessions) >= most || all->n_parts + n > FETCH_SESSION_PARTS_MAX) {
		struct session *v = victim(all, n);
		if (v == NULL)
			return false;
		metric_add(METRIC_KAFKA_FETCH_SESSIONS_EVICTED, 1);
		session_drop(all, v);
	}
	return true;
}

static struct session *session_new(struct fetch_sessions *all, bool by_id)
{
	struct session *s = must_calloc(1, sizeof(*s));
	uint64_t now = env_now_ms(all->server->env);
	*s = (struct session){ .epoch = EPOCH_FIRST + 1, .by_id = by_id, .created_ms = now, .used_ms = now };
	do {
		env_random(all->server->env, &s->id, sizeof(s->id));
		s->id &= INT32_MAX;
	} while (s->id == 0 || session_find(all, s->id) != NULL);
	HASH_ADD_INT(all->sessions, id, s);
	count(all);
	return s;
}

struct fetch_sessions *fetch_sessions_new(struct server *s)
{
	struct fetch_sessions *all = must_calloc(1, sizeof(*all));
	all->server = s;
	count(all);
	return all;
}

void fetch_sessions_free(struct fetch_sessions *all)
{
	if (all == NULL)
		return;
	while (all->sessions != NULL)
		session_drop(all, all->sessions);
	free(all);
}

/* ------------------------------------------------------------------ plan */

/* Partitions of one topic that follow each other are one topic of the request. */
static bool plan_parts(struct request *r, const struct session *s, struct fetch_plan *plan)
{
	unsigned n = HASH_COUNT(s->parts);
	struct kmsg_fetch_request_topic *t = KMSG_NEW(&r->region, fetch_request_topic, n);
	struct kmsg_fetch_request_partition *part = KMSG_NEW(&r->region, fetch_request_partition, n);
	const struct session_topic *last = NULL;
	if (t == NULL || part == NULL)
		return false;
	plan->topics = t--;
	for (const struct session_part *p = s->parts; p != NULL; p = p->hh.next, part++) {
		if (p->place.topic != last) {
			last = p->place.topic;
			(++t)->partitions = part;
			plan->n_topics++;
			if (s->by_id)
				memcpy(t->topic_id.bytes, last->key, 16);
			else
				t->topic = region_copy(&r->region, slice_of(last->key, last->n));
		}
		t->n_partitions++;
		part->partition = (int32_t)p->place.partition;
		part->fetch_offset = p->fetch_offset;
		part->partition_max_bytes = p->max_bytes;
		part->current_leader_epoch = p->leader_epoch;
	}
	return !r->region.failed;
}

static size_t n_named(const struct kmsg_fetch_request *q)
{
	size_t n = 0;
	for (uint32_t i = 0; i < q->n_topics; i++)
		n += q->topics[i].n_partitions;
	return n;
}

static enum kafka_error go_on(struct request *r, struct fetch_plan *plan)
{
	const struct kmsg_fetch_request *q = r->message;
	struct fetch_sessions *all = r->server->fetch_sessions;
	struct session *s = session_find(all, q->session_id);
	if (s == NULL)
		return KAFKA_FETCH_SESSION_ID_NOT_FOUND;
	if (s->epoch != q->session_epoch)
		return KAFKA_INVALID_FETCH_SESSION_EPOCH;
	if (s->by_id != (r->head.api_version >= BY_ID))
		return KAFKA_FETCH_SESSION_TOPIC_ID_ERROR;
	if (all->n_parts + n_named(q) > FETCH_SESSION_PARTS_MAX) {
		session_drop(all, s);
		return KAFKA_FETCH_SESSION_ID_NOT_FOUND; /* it begins again, with none */
	}
	set_parts(all, s, q->topics, q->n_topics);
	forget_parts(all, s, q);
	session_touch(all, s);
	plan->topics = NULL;
	plan->n_topics = 0;
	if (HASH_COUNT(s->parts) == 0) {
		session_drop(all, s);
		plan->topics = q->topics;
		return KAFKA_NONE;
	}
	plan->id = s->id;
	plan->epoch = s->epoch;
	if (!plan_parts(r, s, plan))
		plan->topics = NULL;
	return KAFKA_NONE;
}

enum kafka_error fetch_session_plan(struct request *r, struct fetch_plan *ret_plan)
{
	const struct kmsg_fetch_request *q = r->message;
	bool sessions = r->head.api_version >= 7;
	*ret_plan = (struct fetch_plan){ .topics = q->topics, .n_topics = q->n_topics };
	if (!sessions)
		return KAFKA_NONE;
	if (q->session_epoch != EPOCH_FIRST && q->session_epoch != EPOCH_LAST)
		return go_on(r, ret_plan);
	session_drop(r->server->fetch_sessions, session_find(r->server->fetch_sessions, q->session_id));
	ret_plan->begins = q->session_epoch == EPOCH_FIRST;
	return KAFKA_NONE;
}

/* ------------------------------------------------------------------ answer */

static bool has_records(const struct kmsg_fetch_response_partition *out)
{
	return out->records.n_external > 0 || out->records.bytes.n > 0;
}

/* Whether the client has to hear this; what it is told is kept. Who had records is read last the next time. */
static bool is_news(struct session *s, struct session_part *p, const struct kmsg_fetch_response_partition *out)
{
	bool news = has_records(out) || out->error_code != 0 || p->high_watermark != out->high_watermark ||
		p->log_start_offset != out->log_start_offset;
	p->high_watermark = out->error_code == 0 ? out->high_watermark : -1;
	p->log_start_offset = out->log_start_offset;
	if (has_records(out)) {
		HASH_DEL(s->parts, p);
		HASH_ADD(hh, s->parts, place, sizeof(p->place), p);
	}
	return news;
}

/* Looks at each partition of the answer; keeps what is news when `choose`, else all. */
static void tell(struct session *s, struct kmsg_fetch_response *m, bool choose)
{
	uint32_t n_topics = 0;
	for (uint32_t i = 0; i < m->n_responses; i++) {
		struct kmsg_fetch_response_topic *t = &m->responses[i];
		struct session_topic *topic = topic_find(s, key_of(t->topic, &t->topic_id, s->by_id));
		uint32_t n = 0;
		for (uint32_t j = 0; j < t->n_partitions; j++) {
			struct session_part *p = part_find(s, topic, t->partitions[j].partition_index);
			bool news = p == NULL || is_news(s, p, &t->partitions[j]);
			if (news || !choose)
				t->partitions[n++] = t->partitions[j];
		}
		t->n_partitions = n;
		if (n > 0 || !choose)
			m->responses[n_topics++] = *t;
	}
	m->n_responses = n_topics;
}

static void begin(struct request *r, struct kmsg_fetch_response *m)
{
	const struct kmsg_fetch_request *q = r->message;
	struct fetch_sessions *all = r->server->fetch_sessions;
	size_t n = n_named(q);
	if (n == 0 || !make_room(all, n))
		return;
	struct session *s = session_new(all, r->head.api_version >= BY_ID);
	set_parts(all, s, q->topics, q->n_topics);
	tell(s, m, false);
	m->session_id = s->id;
}

void fetch_session_answer(struct request *r, const struct fetch_plan *plan, struct kmsg_fetch_response *m)
{
	if (plan->begins)
		begin(r, m);
	if (plan->id == 0)
		return;
	struct session *s = session_find(r->server->fetch_sessions, plan->id);
	if (s != NULL && s->epoch == plan->epoch) {
		m->session_id = s->id;
		tell(s, m, true);
		return;
	}
	m->error_code = s == NULL ? KAFKA_FETCH_SESSION_ID_NOT_FOUND : KAFKA_INVALID_FETCH_SESSION_EPOCH;
	m->n_responses = 0;
}
