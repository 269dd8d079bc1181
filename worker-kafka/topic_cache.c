/* SPDX-License-Identifier: Apache-2.0
 *
 * A table by name with a bound: full, it is emptied.
 */
#include "worker-kafka/topic_cache.h"

#include <stdlib.h>

#define uthash_fatal(msg) abort()
#include <uthash.h>

#include "common/must.h"
#include "common/topic_name.h"
#include "worker-kafka/api.h"

#define FRESH_MS 1000
#define ENTRIES_MAX 20000
#define PAGE 10000                      /* topics in one question */

struct entry {
	struct topic_info info;
	uint64_t until_ms;
	UT_hash_handle hh;
	char name[];
};

struct topic_cache {
	struct server *server;
	struct entry *entries;
};

struct topic_cache *topic_cache_new(struct server *s)
{
	struct topic_cache *c = must_calloc(1, sizeof(*c));
	c->server = s;
	return c;
}

static void entry_free(struct topic_cache *c, struct entry *e)
{
	HASH_DEL(c->entries, e);
	free(e);
}

static void empty(struct topic_cache *c)
{
	struct entry *e, *next;
	HASH_ITER(hh, c->entries, e, next)
		entry_free(c, e);
}

void topic_cache_free(struct topic_cache *c)
{
	if (c == NULL)
		return;
	empty(c);
	free(c);
}

static struct entry *find(struct topic_cache *c, struct slice name)
{
	struct entry *e;
	HASH_FIND(hh, c->entries, name.p, name.n, e);
	return e;
}

bool topic_cache_has_news(struct topic_cache *c, struct slice name, const struct topic_info *known)
{
	const struct entry *e = find(c, name);
	return e != NULL && (memcmp(e->info.id, known->id, sizeof(known->id)) != 0 ||
			     e->info.settings_version > known->settings_version);
}

void topic_cache_drop(struct topic_cache *c, struct slice name)
{
	struct entry *e = find(c, name);
	if (e != NULL)
		entry_free(c, e);
}

static const char *config_of(const Ipc__Topic *topic, const char *name)
{
	for (size_t i = 0; i < topic->n_config; i++)
		if (strcmp(topic->config[i]->name, name) == 0)
			return topic->config[i]->value;
	return NULL;
}

static void info_fill(const struct server *s, const Ipc__Topic *topic, struct topic_info *ret)
{
	const char *time = config_of(topic, "message.timestamp.type"), *size = config_of(topic, "max.message.bytes");
	unsigned long long most = size != NULL ? strtoull(size, NULL, 10) : s->conf->max_message_size;
	*ret = (struct topic_info){
		.n_partitions = (uint32_t)topic->n_partitions,
		.settings_version = topic->settings_version,
		.log_append_time = time != NULL && strcmp(time, "LogAppendTime") == 0,
		.max_message_bytes = (uint32_t)(most < s->conf->max_message_size ? most : s->conf->max_message_size),
	};
	memcpy(ret->id, topic->topic_id.data, sizeof(ret->id));
}

void topic_cache_put(struct topic_cache *c, const Ipc__Topic *topic)
{
	struct slice name = slice_str(topic->kafka_topic);
	if (name.n == 0 || topic->topic_id.len != 16)
		return;
	struct entry *e = find(c, name);
	if (e == NULL) {
		if (HASH_COUNT(c->entries) >= ENTRIES_MAX)
			empty(c);
		e = must_calloc(1, sizeof(*e) + name.n + 1);
		memcpy(e->name, name.p, name.n);
		HASH_ADD_KEYPTR(hh, c->entries, e->name, name.n, e);
	}
	info_fill(c->server, topic, &e->info);
	e->until_ms = env_now_ms(c->server->env) + FRESH_MS;
}

/* ------------------------------------------------------------------ resolving */

struct resolve {
	struct topic_want *want;
	size_t n;
	size_t *asked;                  /* which are not known yet */
	size_t n_asked;
	size_t n_page;                  /* of them in the question under way */
	void (*done)(struct request *r);
};

static bool take_known(struct request *r, struct topic_want *w)
{
	struct entry *e = find(r->server->cache, w->name);
	if (e == NULL || e->until_ms < env_now_ms(r->server->env))
		return false;
	struct topic_info *copy = REQUEST_NEW(r, struct topic_info, 1);
	if (copy != NULL)
		*copy = e->info;
	w->info = copy;
	w->kind = copy != NULL ? PICO_OK : PICO_UNAVAILABLE;
	return true;
}

static void ask(struct request *r, struct resolve *v);

static void take_answer(struct request *r, struct topic_want *w, const struct pico_error *e,
			const Ipc__GetManyAnswer__One *one)
{
	w->kind = e->kind != PICO_OK ? e->kind
		: one != NULL && one->error != NULL ? (enum pico_error_kind)one->error->kind : PICO_UNAVAILABLE;
	if (one == NULL || one->topic == NULL)
		return;
	topic_cache_put(r->server->cache, one->topic);
	take_known(r, w);
}

/* Those for which the answer had no room are asked for again, as long as each answer brings something. */
static void on_topics(struct request *r, const struct pico_error *e, const ProtobufCMessage *answer,
		      struct topics_pieces *pieces)
{
	struct resolve *v = r->resolve;
	const Ipc__GetManyAnswer *a = (const Ipc__GetManyAnswer *)answer;
	size_t n = 0;
	for (size_t i = 0; i < v->n_asked; i++) {
		struct topic_want *w = &v->want[v->asked[i]];
		if (i < v->n_page || e->kind != PICO_OK)
			take_answer(r, w, e, a != NULL && i < a->n_one ? a->one[i] : NULL);
		if (i >= v->n_page || w->kind == PICO_THROTTLED)
			v->asked[n++] = v->asked[i];
	}
	bool progress = n < v->n_asked;
	v->n_asked = n;
	if (n > 0 && progress && e->kind == PICO_OK)
		ask(r, v);
	else
		v->done(r);
}

static void ask(struct request *r, struct resolve *v)
{
	Ipc__GetManyRequest m = IPC__GET_MANY_REQUEST__INIT;
	size_t n = v->n_page = v->n_asked < PAGE ? v->n_asked : PAGE;
	Ipc__TopicRef *ref = REQUEST_NEW(r, Ipc__TopicRef, n), **list = REQUEST_NEW(r, Ipc__TopicRef *, n);
	if (ref == NULL || list == NULL) {
		request_close(r, "memory");
		return;
	}
	for (size_t i = 0; i < n; i++) {
		ipc__topic_ref__init(&ref[i]);
		ref[i].name = request_string(r, v->want[v->asked[i]].name);
		list[i] = &ref[i];
		if (ref[i].name == NULL) {
			request_close(r, "memory");
			return;
		}
	}
	m.n_topic = n;
	m.topic = list;
	m.kafka_names = true;
	r->resolve = v;
	request_call(r, IPC_GET_MANY, &m.base, NO_PAYLOAD, request_deadline(r, 0), on_topics);
}

void topic_cache_resolve(struct request *r, struct topic_want *want, size_t n, void (*done)(struct request *r))
{
	struct resolve *v = REQUEST_NEW(r, struct resolve, 1);
	size_t *asked = REQUEST_NEW(r, size_t, n);
	if (v == NULL || asked == NULL) {
		request_close(r, "memory");
		return;
	}
	*v = (struct resolve){ .want = want, .n = n, .asked = asked, .done = done };
	for (size_t i = 0; i < n; i++) {
		want[i].info = NULL;
		want[i].kind = PICO_NOT_FOUND;
		if (topic_alias_is_legal(want[i].name) && !take_known(r, &want[i]))
			asked[v->n_asked++] = i;
	}
	if (v->n_asked > 0)
		ask(r, v);
	else
		done(r);
}
