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
#include "worker-kafka/ask_topics.h"

#define FRESH_MS 1000
#define ENTRIES_MAX 20000

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

static void want_name(struct request *r, size_t i, struct slice *ret_name, const uint8_t **ret_id)
{
	*ret_name = ((const struct resolve *)r->resolve)->want[i].name;
}

static bool want_take(struct request *r, size_t i, enum pico_error_kind kind, const Ipc__Topic *topic)
{
	struct topic_want *w = &((const struct resolve *)r->resolve)->want[i];
	w->kind = kind;
	if (topic != NULL) {
		topic_cache_put(r->server->cache, topic);
		take_known(r, w);
	} else if (kind == PICO_NOT_FOUND) {
		topic_cache_drop(r->server->cache, w->name);
	}
	return true;
}

static void want_done(struct request *r)
{
	((const struct resolve *)r->resolve)->done(r);
}

static void resolve(struct request *r, struct resolve v, size_t n, bool known_will_do)
{
	static const struct topics_question question = { want_name, want_take, want_done };
	struct resolve *kept = r->resolve = REQUEST_NEW(r, struct resolve, 1);
	size_t *asked = REQUEST_NEW(r, size_t, n), n_asked = 0;
	if (kept == NULL || asked == NULL) {
		request_close(r, "memory");
		return;
	}
	*kept = v;
	for (size_t i = 0; i < n; i++) {
		struct topic_want *w = &v.want[i];
		w->info = NULL;
		w->kind = PICO_NOT_FOUND;
		if (topic_alias_is_legal(w->name) && !(known_will_do && take_known(r, w)))
			asked[n_asked++] = i;
	}
	ask_topics(r, &question, asked, n_asked);
}

void topic_cache_resolve(struct request *r, struct topic_want *want, size_t n, void (*done)(struct request *r))
{
	resolve(r, (struct resolve){ .want = want, .done = done }, n, true);
}

void topic_cache_resolve_anew(struct request *r, struct topic_want *want, size_t n, void (*done)(struct request *r))
{
	resolve(r, (struct resolve){ .want = want, .done = done }, n, false);
}
