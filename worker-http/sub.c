/* SPDX-License-Identifier: Apache-2.0
 *
 * Subscriptions: from path and method to a change of one; PUT, GET, DELETE, their streams, the keys of webhooks.
 */
#include "worker-http/sub_change.h"

#include <stdio.h>
#include <stdlib.h>

#include "common/hook_url.h"
#include "common/json_scan.h"
#include "common/must.h"
#include "common/topic_name.h"
#include "worker-http/ds.h"
#include "worker-http/server.h"

#define LEASE_MIN_MS 1000
#define LEASE_MAX_MS 600000
#define LEASE_DEFAULT_MS 30000

static void invalid(struct request *r, const char *message)
{
	sub_answer_error(r, 400, "INVALID_REQUEST", message, NULL);
}

/* ------------------------------------------------------------------ PUT */

static const char *text_or_empty(const char *s)
{
	return s != NULL ? s : "";
}

static bool path_is_good(const char *path)
{
	char name[TOPIC_PATH_MAX + 2];
	if (path[0] == '/' || snprintf(name, sizeof(name), "/%s", path) >= (int)sizeof(name))
		return false;
	return topic_path_fault(slice_str(name)) == NULL && !topic_path_is_reserved(slice_str(name));
}

/* What is wrong with a new configuration; NULL. */
static const char *config_fault(const struct sub_body *b)
{
	bool hook = b->type != NULL && strcmp(b->type, "webhook") == 0;
	if (!hook && (b->type == NULL || strcmp(b->type, "pull-wake") != 0))
		return "type is webhook or pull-wake";
	if (hook && b->url == NULL)
		return "a webhook needs webhook.url";
	if (!hook && (b->wake_stream == NULL || !path_is_good(b->wake_stream)))
		return "pull-wake needs wake_stream, the path of a stream";
	if (b->pattern == NULL && b->n_streams == 0)
		return "give a pattern, or streams";
	if (b->pattern != NULL && (b->pattern[0] == '\0' || !path_is_good(b->pattern)))
		return "pattern is a path without a slash in front, with * and **";
	for (size_t i = 0; i < b->n_streams; i++)
		if (!path_is_good(b->stream[i]))
			return "streams are paths without a slash in front";
	if (b->has_lease_ttl && (b->lease_ttl_ms < LEASE_MIN_MS || b->lease_ttl_ms > LEASE_MAX_MS))
		return "lease_ttl_ms is from 1000 to 600000";
	return NULL;
}

static uint64_t lease_of(const struct sub_body *b)
{
	return b->has_lease_ttl ? b->lease_ttl_ms : LEASE_DEFAULT_MS;
}

static bool is_same(const Sub__Subscription *s, const struct sub_body *b)
{
	bool same = (s->type == SUB__TYPE__WEBHOOK) == (strcmp(b->type, "webhook") == 0) &&
		strcmp(s->pattern, text_or_empty(b->pattern)) == 0 && strcmp(s->webhook_url, text_or_empty(b->url)) == 0 &&
		strcmp(s->wake_stream, text_or_empty(b->wake_stream)) == 0 && s->lease_ttl_ms == lease_of(b) &&
		strcmp(s->description, text_or_empty(b->description)) == 0 && s->n_streams == b->n_streams;
	for (size_t i = 0; same && i < b->n_streams; i++)
		same = strcmp(s->streams[i], b->stream[i]) == 0;
	return same;
}

static void answer_subscription(struct request *r, int status)
{
	struct change *c = r->state;
	sub_put_json(&r->answer.body, c->id, c->s, c->kid);
	answer_field(r, "Content-Type", "application/json");
	answer_send(r, status);
}

/* The root as the client wrote it. */
static char *base_url(struct request *r)
{
	struct buf url;
	buf_init(&url, HTTP1_HEAD_MAX);
	ds_put_base(r, &url);
	buf_put(&url, r->path.p, r->path.n - r->name.n);
	buf_put_u8(&url, '\0');
	char *text = must_strdup((char *)buf_head(&url));
	buf_done(&url);
	return text;
}

static bool put_begin(struct request *r, struct change *c)
{
	struct sub_body *b = &c->body;
	if (c->s != NULL && is_same(c->s, b)) {
		answer_subscription(r, 200);
		return false;
	}
	if (c->s != NULL) {
		sub_answer_error(r, 409, "CONFLICT", "the subscription has another configuration", NULL);
		return false;
	}
	Sub__Subscription *s = c->s = must_calloc(1, sizeof(*s));
	sub__subscription__init(s);
	s->type = strcmp(b->type, "webhook") == 0 ? SUB__TYPE__WEBHOOK : SUB__TYPE__PULL_WAKE;
	sub_set_string(&s->pattern, slice_str(text_or_empty(b->pattern)));
	sub_set_string(&s->webhook_url, slice_str(text_or_empty(b->url)));
	sub_set_string(&s->wake_stream, slice_str(text_or_empty(b->wake_stream)));
	sub_set_string(&s->description, slice_str(text_or_empty(b->description)));
	s->base_url = base_url(r);
	s->lease_ttl_ms = lease_of(b);
	s->created_ms = env_wall_ms(r->server->env);
	s->streams = must_calloc(b->n_streams + 1, sizeof(char *));
	s->n_streams = b->n_streams;
	for (size_t i = 0; i < b->n_streams; i++) {
		s->streams[i] = must_strdup(b->stream[i]);
		if (sub_link_find(s, slice_str(b->stream[i])) == NULL)
			sub_link_add(s, slice_str(b->stream[i]), true);
	}
	return true;
}

static bool put_judge(struct request *r, struct change *c)
{
	for (size_t i = 0; i < c->s->n_link; i++)
		if (c->s->link[i]->named)
			c->s->link[i]->acked = c->s->link[i]->tail;
	return true;
}

static void put_answer(struct request *r, struct change *c)
{
	answer_subscription(r, 201);
}

static const struct change_kind put_kind = {
	.creates = true, .needs_tails = true, .begin = put_begin, .judge = put_judge, .answer = put_answer,
};

/* ------------------------------------------------------------------ GET, and streams of it */

static bool get_judge(struct request *r, struct change *c)
{
	answer_subscription(r, 200);
	return false;
}

static const struct change_kind get_kind = { .needs_tails = true, .begin = change_always, .judge = get_judge };

/* New ones begin at their end, once that is known. */
static bool add_begin(struct request *r, struct change *c)
{
	for (size_t i = 0; i < c->body.n_streams; i++) {
		struct slice path = slice_str(c->body.stream[i]);
		Sub__Link *link = sub_link_find(c->s, path);
		bool is_new = link == NULL;
		if (is_new)
			link = sub_link_add(c->s, path, true);
		if (link == NULL) {
			sub_answer_error(r, 429, "TOO_MANY_STREAMS", "a subscription has no room for so many streams", NULL);
			return false;
		}
		link->named = true;
		if (is_new)
			link->acked = UINT64_MAX;
	}
	return true;
}

static bool add_judge(struct request *r, struct change *c)
{
	for (size_t i = 0; i < c->s->n_link; i++)
		if (c->s->link[i]->acked == UINT64_MAX)
			c->s->link[i]->acked = c->s->link[i]->tail;
	return true;
}

static const struct change_kind add_kind = { .needs_tails = true, .begin = add_begin, .judge = add_judge, .answer = change_answer_done };

static bool remove_judge(struct request *r, struct change *c)
{
	Sub__Link *link = sub_link_find(c->s, slice_str(c->path));
	if (link == NULL) {
		sub_answer_error(r, 404, "NOT_FOUND", "the subscription has no such stream", NULL);
		return false;
	}
	sub_link_remove(c->s, link);
	return true;
}

static const struct change_kind remove_kind = { .begin = change_always, .judge = remove_judge, .answer = change_answer_done };

/* ------------------------------------------------------------------ DELETE, keys */

static void on_deleted(void *arg, const struct pico_error *error, const ProtobufCMessage *m, struct topics_pieces *pieces)
{
	struct request *r = arg;
	r->call = NULL;
	if (error->kind != PICO_OK)
		ds_answer_error(r, error);
	else if (!((const Ipc__KvDeleteAnswer *)m)->existed)
		sub_answer_error(r, 404, "NOT_FOUND", "no such subscription", NULL);
	else
		answer_send_empty(r, 204);
}

static void delete_subscription(struct request *r, const struct change *c)
{
	Ipc__KvDeleteRequest m = IPC__KV_DELETE_REQUEST__INIT;
	char key[sizeof(SUB_PREFIX) + SUB_ID_MAX];
	snprintf(key, sizeof(key), SUB_PREFIX "%s", c->id);
	m.key = key;
	m.deadline_ms = request_deadline(r);
	request_call(r, IPC_KV_DELETE, &m.base, slice_of(NULL, 0), m.deadline_ms, on_deleted);
}

static void read_key(struct request *r, topics_cb *cb)
{
	struct change *c = r->state;
	c->on_key = cb;
	change_call_get(r, SUB_HOOK_KEY, cb);
}

static void on_key_there(void *arg, const struct pico_error *error, const ProtobufCMessage *m, struct topics_pieces *pieces)
{
	struct request *r = arg;
	struct change *c = r->state;
	r->call = NULL;
	if (error->kind == PICO_OK)
		read_key(r, c->on_key);
	else
		ds_answer_error(r, error);
}

/* A node that has just begun for the first time: worker-hook is making the pair. */
static void await_key(struct request *r)
{
	struct change *c = r->state;
	Ipc__KvWatchRequest m = IPC__KV_WATCH_REQUEST__INIT;
	c->key_awaited = true;
	m.prefix = SUB_HOOK_KEY;
	m.deadline_ms = request_deadline(r);
	request_call(r, IPC_KV_WATCH, &m.base, slice_of(NULL, 0), m.deadline_ms, on_key_there);
}

/* NULL: answered, or asked again later. Freed by the caller. */
static Sub__HookKey *take_key(struct request *r, const struct pico_error *error, const ProtobufCMessage *m)
{
	const struct change *c = r->state;
	const Ipc__KvGetAnswer *a = (const Ipc__KvGetAnswer *)m;
	struct pico_error e = *error;
	r->call = NULL;
	Sub__HookKey *key = e.kind == PICO_OK ? sub__hook_key__unpack(NULL, a->entry->value.len, a->entry->value.data) : NULL;
	if (key != NULL)
		return key;
	if (e.kind == PICO_NOT_FOUND && !c->key_awaited) {
		await_key(r);
		return NULL;
	}
	if (e.kind == PICO_OK || e.kind == PICO_NOT_FOUND)
		pico_error_set(&e, PICO_UNAVAILABLE, "the key that signs webhooks is not there yet; try again");
	ds_answer_error(r, &e);
	return NULL;
}

static void on_jwks(void *arg, const struct pico_error *error, const ProtobufCMessage *m, struct topics_pieces *pieces)
{
	struct request *r = arg;
	struct buf *out = &r->answer.body, x;
	Sub__HookKey *key = take_key(r, error, m);
	if (key == NULL)
		return;
	buf_init(&x, 256);
	base64_put(&x, slice_of(key->public_key.data, key->public_key.len));
	uint8_t *p = buf_head(&x);
	for (size_t i = 0; i < buf_len(&x); i++) /* RFC 4648 section 5, without padding */
		p[i] = p[i] == '+' ? '-' : p[i] == '/' ? '_' : p[i];
	buf_printf(out, "{\"keys\":[{\"kty\":\"OKP\",\"crv\":\"Ed25519\",\"alg\":\"EdDSA\",\"use\":\"sig\",\"kid\":\"%s\",\"x\":\"%.*s\"}]}\n",
		   key->kid, (int)strcspn((char *)p, "="), (char *)p);
	buf_done(&x);
	sub__hook_key__free_unpacked(key, NULL);
	r->answer.cache_control = "public, max-age=300";
	answer_field(r, "Content-Type", "application/jwk-set+json");
	answer_send(r, 200);
}

/* What a subscription shows of the key; then the change itself. */
static void on_kid(void *arg, const struct pico_error *error, const ProtobufCMessage *m, struct topics_pieces *pieces)
{
	struct request *r = arg;
	struct change *c = r->state;
	Sub__HookKey *key = take_key(r, error, m);
	if (key == NULL)
		return;
	snprintf(c->kid, sizeof(c->kid), "%s", key->kid);
	sub__hook_key__free_unpacked(key, NULL);
	change_start(r);
}

/* ------------------------------------------------------------------ routes */

static void change_go(struct request *r, const struct change_kind *kind)
{
	struct change *c = r->state;
	c->kind = kind;
	if (kind == &put_kind || kind == &get_kind)
		read_key(r, on_kid);
	else
		change_start(r);
}

static void put(struct request *r)
{
	const struct sub_body *b = &((struct change *)r->state)->body;
	const char *fault = config_fault(b);
	const char *url_fault = b->url != NULL ? hook_url_fault(b->url, !r->server->conf->insecure_allow_remote) : NULL;
	if (fault != NULL)
		invalid(r, fault);
	else if (url_fault != NULL)
		sub_answer_error(r, 400, "WEBHOOK_URL_REJECTED", url_fault, NULL);
	else
		change_go(r, &put_kind);
}

static void add_streams(struct request *r)
{
	const struct sub_body *b = &((struct change *)r->state)->body;
	bool good = b->n_streams > 0;
	for (size_t i = 0; good && i < b->n_streams; i++)
		good = path_is_good(b->stream[i]);
	if (good)
		change_go(r, &add_kind);
	else
		invalid(r, "streams are paths without a slash in front");
}

static void claim(struct request *r)
{
	const struct sub_body *b = &((struct change *)r->state)->body;
	if (b->worker != NULL && b->worker[0] != '\0')
		change_go(r, &sub_claim_kind);
	else
		invalid(r, "worker says who claims");
}

/* Below one subscription: what is behind its id. False: there is no such thing. */
static bool route_action(struct request *r, struct slice action)
{
	struct change *c = r->state;
	static const struct { const char *name; const struct change_kind *kind; } posts[] = {
		{ "callback", &sub_ack_kind }, { "ack", &sub_ack_kind }, { "release", &sub_release_kind },
	};
	if (slice_is(r->method, "DELETE") && action.n > 8 && memcmp(action.p, "streams/", 8) == 0) {
		struct buf path;
		buf_init(&path, TOPIC_PATH_MAX);
		percent_decode(slice_of(action.p + 8, action.n - 8), false, &path);
		buf_put_u8(&path, '\0');
		c->path = path.failed ? must_strdup("") : must_strdup((char *)buf_head(&path));
		buf_done(&path);
		change_go(r, &remove_kind);
		return true;
	}
	if (!slice_is(r->method, "POST"))
		return false;
	for (size_t i = 0; i < sizeof(posts) / sizeof(posts[0]); i++)
		if (slice_is(action, posts[i].name)) {
			change_go(r, posts[i].kind);
			return true;
		}
	if (slice_is(action, "streams"))
		add_streams(r);
	else if (slice_is(action, "claim"))
		claim(r);
	else
		return false;
	return true;
}

static bool route_subscription(struct request *r)
{
	if (slice_is(r->method, "PUT"))
		put(r);
	else if (slice_is(r->method, "GET"))
		change_go(r, &get_kind);
	else if (slice_is(r->method, "DELETE"))
		delete_subscription(r, r->state);
	else
		return false;
	return true;
}

/* The id behind `subscriptions/`, decoded. False: answered. */
static bool take_id(struct request *r, struct slice encoded)
{
	struct change *c = r->state;
	struct buf id;
	buf_init(&id, SUB_ID_MAX);
	percent_decode(encoded, false, &id);
	bool good = !id.failed && sub_id_is_legal(buf_slice(&id));
	if (good)
		memcpy(c->id, buf_head(&id), buf_len(&id));
	else
		invalid(r, "a subscription's id is 1 to 128 of A-Z a-z 0-9 . _ ~ -");
	buf_done(&id);
	return good;
}

static void route_below(struct request *r, struct slice rest)
{
	struct change *c = r->state;
	const char *fault;
	const uint8_t *slash = memchr(rest.p, '/', rest.n);
	struct slice id = slice_of(rest.p, slash != NULL ? (size_t)(slash - rest.p) : rest.n);
	if (!take_id(r, id))
		return;
	if (!sub_body_parse(buf_slice(&r->body), &c->body, &fault)) {
		invalid(r, fault);
		return;
	}
	bool known = slash == NULL ? route_subscription(r) : route_action(r, slice_of(slash + 1, rest.n - id.n - 1));
	if (!known)
		sub_answer_error(r, 404, "NOT_FOUND", "there is nothing of that name and method", NULL);
}

void sub_route(struct request *r)
{
	static const char subscriptions[] = "/__ds/subscriptions/";
	const size_t n = sizeof(subscriptions) - 1;
	r->state = must_calloc(1, sizeof(struct change));
	r->state_free = change_free;
	if (slice_is(r->name, "/__ds/jwks.json") && slice_is(r->method, "GET"))
		read_key(r, on_jwks);
	else if (r->name.n > n && memcmp(r->name.p, subscriptions, n) == 0)
		route_below(r, slice_of(r->name.p + n, r->name.n - n));
	else
		sub_answer_error(r, 404, "NOT_FOUND", "there is nothing of that name and method", NULL);
}
