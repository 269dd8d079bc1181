/* SPDX-License-Identifier: Apache-2.0
 *
 *   key -> round: KV_LIST, page by page; for each subscription, one after the other:
 *          [LIST: new streams that its pattern matches] -> GET_MANY: where its streams end -> decide -> KV_PUT
 *              -> tell: POST to a webhook, or APPEND to a wake stream
 *       -> pause, or with no subscription at all KV_WATCH -> round ...
 *
 * What was decided is stored before anybody is told, so a crash between tells late and never twice with one
 * wake. A change that somebody else was faster with is not done: the next round looks again.
 */
#include "worker-hook/hook.h"

#include <inttypes.h>
#include <stdlib.h>

#include "common/json_scan.h"
#include "common/log.h"
#include "common/must.h"
#include "common/record_batch.h"
#include "common/subscription.h"
#include "common/topic_name.h"
#include "worker-hook/deliver.h"
#include "worker-hook/sign.h"

#define ROUND_MS 200
#define FAILED_MS 1000                  /* after a call that failed */
#define IDLE_MS 30000                   /* of a watch with no subscription */
#define CALL_MS 10000
#define PAGE 100
#define LIST_PAGE 1000
#define BACKOFF_MIN_MS 1000
#define BACKOFF_MAX_MS 60000
#define OUTCOME_TRIES 10

/* One of the page that is gone through. */
struct entry {
	char *id;
	Sub__Subscription *s;
	uint64_t version;
};

static struct hook {
	struct worker *worker;
	struct env *env;
	struct deliver *deliver;
	struct topics_call *call;       /* one at a time, but for outcomes */
	struct env_timer timer;
	Sub__HookKey *key;
	bool stopped;

	struct entry entry[PAGE];
	size_t n, at;
	bool has_more;
	char *after;                    /* key of the last entry of the page */
	uint64_t version, n_round;      /* of the list; subscriptions seen in this round */
	char *list_after;               /* of the LIST under way */
	bool changed;                   /* the subscription at hand */
	char token[SUB_TOKEN_TEXT];
} h;

static void round_begin(void *arg);
static void next_entry(void);

/* ------------------------------------------------------------------ calls */

static uint64_t deadline(void)
{
	return env_now_ms(h.env) + CALL_MS;
}

static void call(enum ipc_type type, ProtobufCMessage *m, topics_cb *cb)
{
	if (!h.stopped)
		h.call = topics_call(h.worker->topics, type, m, slice_of(NULL, 0), deadline(), cb, NULL);
}

static void again_in(uint64_t ms, void (*what)(void *arg))
{
	h.timer.on_fire = what;
	if (!h.stopped)
		env_timer_start(h.env, &h.timer, env_now_ms(h.env) + ms);
}

/* ------------------------------------------------------------------ what is told */

static void put_member(struct buf *out, const char *name, const char *text)
{
	buf_printf(out, ",\"%s\":", name);
	json_put_string(out, slice_str(text));
}

static void put_streams(struct buf *out, const Sub__Subscription *s)
{
	buf_put_str(out, ",\"streams\":[");
	for (size_t i = 0, n = 0; i < s->n_link; i++) {
		const Sub__Link *l = s->link[i];
		if (!l->exists)
			continue;
		buf_put_str(out, n++ > 0 ? ",{\"path\":" : "{\"path\":");
		json_put_string(out, slice_str(l->path));
		buf_printf(out, ",\"link_type\":\"%s\",\"acked_offset\":\"%020" PRIu64 "\",\"tail_offset\":\"%020" PRIu64
			   "\",\"has_pending\":%s}", l->named ? "explicit" : "glob", l->acked, l->tail,
			   l->tail > l->acked ? "true" : "false");
	}
	buf_put_u8(out, ']');
}

/* What a wake says. Its streams are those of now, so it is made before the subscription is packed. */
static void put_wake(struct buf *out, const struct entry *e)
{
	const Sub__Subscription *s = e->s;
	buf_put_str(out, s->type == SUB__TYPE__WEBHOOK ? "{\"subscription_id\":" : "{\"type\":\"wake\",\"subscription_id\":");
	json_put_string(out, slice_str(e->id));
	buf_printf(out, ",\"wake_id\":\"%s\",\"generation\":%" PRIu64, s->wake_id, s->generation);
	put_streams(out, s);
	if (s->type == SUB__TYPE__WEBHOOK) {
		char url[8192];
		snprintf(url, sizeof(url), "%s/__ds/subscriptions/%s/callback", s->base_url, e->id);
		put_member(out, "callback_url", url);
		put_member(out, "callback_token", h.token);
	}
	buf_put_u8(out, '}');
}

/* ------------------------------------------------------------------ outcomes of webhooks */

/* How a delivery went, until it is stored. */
struct telling {
	char id[SUB_ID_MAX + 1], wake_id[40];
	uint64_t generation;
	bool taken, done;               /* 2xx; and worked on already */
	unsigned tries;
};

static void outcome_read(struct telling *o);

static void on_outcome_stored(void *arg, const struct pico_error *error, const ProtobufCMessage *m, struct topics_pieces *p)
{
	struct telling *o = arg;
	if (error->kind == PICO_CONFLICT && ++o->tries < OUTCOME_TRIES)
		outcome_read(o);
	else
		free(o); /* not stored: it is told again, when the time for that has come */
}

static uint64_t backoff_ms(uint32_t attempts)
{
	uint32_t random;
	uint64_t ms = attempts < 7 ? (uint64_t)BACKOFF_MIN_MS << (attempts - 1) : BACKOFF_MAX_MS;
	if (ms > BACKOFF_MAX_MS)
		ms = BACKOFF_MAX_MS;
	env_random(h.env, &random, sizeof(random));
	return ms * 4 / 5 + random % (ms * 2 / 5 + 1);
}

/* False: the wake is not under way any more. */
static bool outcome_apply(const struct telling *o, Sub__Subscription *s)
{
	int64_t now = env_wall_ms(h.env);
	if (s->phase != SUB__PHASE__WAKING || s->generation != o->generation || strcmp(s->wake_id, o->wake_id) != 0)
		return false;
	if (o->done) {
		sub_ack_snapshot(s);
		sub_idle(s);
	} else if (o->taken) {
		s->phase = SUB__PHASE__LEASED;
		s->until_ms = now + (int64_t)s->lease_ttl_ms;
		s->attempts = 0;
		sub_set_string(&s->holder, slice_str("webhook"));
	} else {
		s->attempts++;
		s->until_ms = now + (int64_t)backoff_ms(s->attempts);
	}
	return true;
}

static void on_outcome_read(void *arg, const struct pico_error *error, const ProtobufCMessage *m, struct topics_pieces *p)
{
	struct telling *o = arg;
	const Ipc__KvGetAnswer *a = (const Ipc__KvGetAnswer *)m;
	Sub__Subscription *s = error->kind == PICO_OK ? sub__subscription__unpack(NULL, a->entry->value.len, a->entry->value.data) : NULL;
	Ipc__KvPutRequest put = IPC__KV_PUT_REQUEST__INIT;
	char key[sizeof(SUB_PREFIX) + SUB_ID_MAX];
	struct buf packed;
	buf_init(&packed, SUB_PACKED_MAX);
	bool go = s != NULL && outcome_apply(o, s) && sub_pack(s, &packed) == 0 && !h.stopped;
	if (go) {
		snprintf(key, sizeof(key), SUB_PREFIX "%s", o->id);
		put.key = key;
		put.value = (ProtobufCBinaryData){ .data = buf_head(&packed), .len = buf_len(&packed) };
		put.check = true;
		put.version = a->entry->version;
		topics_call(h.worker->topics, IPC_KV_PUT, &put.base, slice_of(NULL, 0), deadline(), on_outcome_stored, o);
	} else {
		free(o);
	}
	if (s != NULL)
		sub__subscription__free_unpacked(s, NULL);
	buf_done(&packed);
}

static void outcome_read(struct telling *o)
{
	Ipc__KvGetRequest m = IPC__KV_GET_REQUEST__INIT;
	char key[sizeof(SUB_PREFIX) + SUB_ID_MAX];
	snprintf(key, sizeof(key), SUB_PREFIX "%s", o->id);
	m.key = key;
	topics_call(h.worker->topics, IPC_KV_GET, &m.base, slice_of(NULL, 0), deadline(), on_outcome_read, o);
}

/* {"done": true} */
static bool says_done(struct slice body)
{
	struct json_scan j;
	bool done = false;
	json_scan_init(&j, body);
	if (!json_is_valid(body) || json_next(&j) != JSON_OBJECT)
		return false;
	while (json_next(&j) == JSON_KEY) {
		bool is_done = json_string_is(j.span, "done");
		enum json_token token = json_skip(&j);
		if (is_done)
			done = token == JSON_TRUE;
	}
	return done;
}

static void on_delivered(void *arg, int status, struct slice body)
{
	struct telling *o = arg;
	o->taken = status >= 200 && status < 300;
	o->done = o->taken && says_done(body);
	if (!o->taken)
		log_warn("webhook not taken subscription=%s status=%d, trying again", o->id, status);
	if (h.stopped)
		free(o);
	else
		outcome_read(o);
}

static void tell_webhook(const struct entry *e, struct slice body)
{
	char signature[SIGN_TEXT];
	struct telling *o = must_calloc(1, sizeof(*o));
	snprintf(o->id, sizeof(o->id), "%s", e->id);
	snprintf(o->wake_id, sizeof(o->wake_id), "%s", e->s->wake_id);
	o->generation = e->s->generation;
	must(sign_text(h.key, env_wall_ms(h.env) / 1000, body, signature) == 0);
	deliver_post(h.deliver, e->s->webhook_url, signature, body, on_delivered, o);
}

/* ------------------------------------------------------------------ wake streams */

static void on_appended(void *arg, const struct pico_error *error, const ProtobufCMessage *m, struct topics_pieces *p)
{
	const struct entry *e = &h.entry[h.at];
	h.call = NULL;
	if (error->kind != PICO_OK)
		log_warn("wake event not written subscription=%s error=%s, again behind the lease", e->id, pico_error_word(error->kind));
	h.at++;
	next_entry();
}

static void tell_stream(const struct entry *e, struct slice event)
{
	Ipc__AppendRequest m = IPC__APPEND_REQUEST__INIT;
	Ipc__LogRef log = IPC__LOG_REF__INIT;
	Ipc__TopicRef topic = IPC__TOPIC_REF__INIT;
	char name[TOPIC_PATH_MAX + 2];
	struct record_batch_writer w;
	struct buf batch;
	buf_init(&batch, event.n + 1024);
	record_batch_begin(&w, &batch);
	record_batch_add(&w, slice_of(NULL, 0), event, NULL, 0);
	record_batch_end(&w);
	snprintf(name, sizeof(name), "/%s", e->s->wake_stream);
	topic.name = name;
	log.topic = &topic;
	m.log = &log;
	m.record_count = 1;
	m.only_partition = true;
	m.deadline_ms = deadline();
	if (!h.stopped)
		h.call = topics_call(h.worker->topics, IPC_APPEND, &m.base, buf_slice(&batch), m.deadline_ms, on_appended, NULL);
	buf_done(&batch);
}

/* ------------------------------------------------------------------ deciding */

/* What the stored change tells, made before it is packed. */
static struct buf wake_text = { .max = SIZE_MAX / 4 };

static void on_stored(void *arg, const struct pico_error *error, const ProtobufCMessage *m, struct topics_pieces *p)
{
	struct entry *e = &h.entry[h.at];
	bool told = error->kind == PICO_OK && buf_len(&wake_text) > 0;
	h.call = NULL;
	if (told && e->s->type == SUB__TYPE__PULL_WAKE) {
		tell_stream(e, buf_slice(&wake_text));
		return;
	}
	if (told)
		tell_webhook(e, buf_slice(&wake_text));
	h.at++;
	next_entry();
}

static void store(struct entry *e)
{
	Ipc__KvPutRequest m = IPC__KV_PUT_REQUEST__INIT;
	char key[sizeof(SUB_PREFIX) + SUB_ID_MAX];
	struct buf packed;
	buf_init(&packed, SUB_PACKED_MAX);
	if (sub_pack(e->s, &packed) < 0) {
		log_warn("subscription has no room for more streams subscription=%s", e->id);
		h.at++;
		next_entry();
	} else {
		snprintf(key, sizeof(key), SUB_PREFIX "%s", e->id);
		m.key = key;
		m.value = (ProtobufCBinaryData){ .data = buf_head(&packed), .len = buf_len(&packed) };
		m.check = true;
		m.version = e->version;
		m.deadline_ms = deadline();
		call(IPC_KV_PUT, &m.base, on_stored);
	}
	buf_done(&packed);
}

/* Begins a wake, or the same again. */
static void wake(struct entry *e)
{
	Sub__Subscription *s = e->s;
	bool hook = s->type == SUB__TYPE__WEBHOOK;
	sub_wake(s, h.env);
	sub_token(s, h.env, h.token);
	/* Nobody heard of it by then: it is told again. */
	s->until_ms = env_wall_ms(h.env) + (int64_t)(hook ? DELIVER_TIMEOUT_MS + CALL_MS : s->lease_ttl_ms);
	put_wake(&wake_text, e);
}

static void decide(void)
{
	struct entry *e = &h.entry[h.at];
	Sub__Subscription *s = e->s;
	int64_t now = env_wall_ms(h.env);
	bool room = s->type == SUB__TYPE__PULL_WAKE || deliver_has_room(h.deliver);
	bool due = s->phase == SUB__PHASE__IDLE || (s->phase == SUB__PHASE__WAKING && now >= s->until_ms);
	buf_reset(&wake_text, 65536);
	if (s->phase == SUB__PHASE__LEASED && now >= s->until_ms) {
		sub_idle(s);
		h.changed = true;
	} else if (due && room && sub_is_pending(s)) {
		wake(e);
		h.changed = true;
	} else if (due && s->phase == SUB__PHASE__WAKING && !sub_is_pending(s)) {
		sub_idle(s); /* its streams went */
		h.changed = true;
	}
	if (h.changed) {
		store(e);
		return;
	}
	h.at++;
	next_entry();
}

/* ------------------------------------------------------------------ streams */

/* A stream that came again under its name begins anew; one that a pattern found goes with it. */
static void link_take(Sub__Subscription *s, size_t i, const Ipc__Topic *t)
{
	Sub__Link *l = s->link[i];
	sub_link_set_tail(l, t);
	if (l->exists && l->acked > l->tail) {
		l->acked = t->partitions[0]->start;
		h.changed = true;
	}
}

static void on_tails(void *arg, const struct pico_error *error, const ProtobufCMessage *m, struct topics_pieces *p)
{
	struct entry *e = &h.entry[h.at];
	const Ipc__GetManyAnswer *a = (const Ipc__GetManyAnswer *)m;
	h.call = NULL;
	if (error->kind != PICO_OK) {
		again_in(FAILED_MS, round_begin);
		return;
	}
	for (size_t i = a->n_one < e->s->n_link ? a->n_one : e->s->n_link; i-- > 0;) {
		const Ipc__Error *fault = a->one[i]->error;
		link_take(e->s, i, a->one[i]->topic);
		if (fault != NULL && fault->kind == PICO_NOT_FOUND && !e->s->link[i]->named) {
			sub_link_remove(e->s, e->s->link[i]);
			h.changed = true;
		}
	}
	decide();
}

static void look_up_tails(void)
{
	const Sub__Subscription *s = h.entry[h.at].s;
	Ipc__GetManyRequest m = IPC__GET_MANY_REQUEST__INIT;
	if (s->n_link == 0) {
		decide();
		return;
	}
	sub_refs_fill(s, &m);
	m.deadline_ms = deadline();
	call(IPC_GET_MANY, &m.base, on_tails);
	sub_refs_free(&m);
}

static void list_matches(void);

/* All that were there when the subscription was made are linked: what is not is new, and nothing of it was worked on. */
static void link_topic(Sub__Subscription *s, const Ipc__Topic *t)
{
	Sub__Link *link = sub_topic_is_new_match(s, t) ? sub_link_add(s, slice_str(t->name + 1), false) : NULL;
	if (link == NULL)
		return;
	link->acked = t->partitions[0]->start;
	h.changed = true;
}

static void on_listed(void *arg, const struct pico_error *error, const ProtobufCMessage *m, struct topics_pieces *p)
{
	const Ipc__ListAnswer *a = (const Ipc__ListAnswer *)m;
	h.call = NULL;
	if (error->kind != PICO_OK) {
		again_in(FAILED_MS, round_begin);
		return;
	}
	for (size_t i = 0; i < a->n_topics; i++)
		link_topic(h.entry[h.at].s, a->topics[i]);
	free(h.list_after);
	h.list_after = a->has_more && a->n_topics > 0 ? must_strdup(a->topics[a->n_topics - 1]->name) : NULL;
	if (h.list_after != NULL)
		list_matches();
	else
		look_up_tails();
}

static void list_matches(void)
{
	Ipc__ListRequest m = IPC__LIST_REQUEST__INIT;
	struct slice prefix = sub_pattern_prefix(slice_str(h.entry[h.at].s->pattern));
	char text[TOPIC_PATH_MAX + 2];
	snprintf(text, sizeof(text), "/%.*s", (int)prefix.n, (const char *)prefix.p);
	m.prefix = text;
	m.start_after = h.list_after != NULL ? h.list_after : "";
	m.limit = LIST_PAGE;
	m.deadline_ms = deadline();
	call(IPC_LIST, &m.base, on_listed);
}

/* ------------------------------------------------------------------ rounds */

static void page_free(void)
{
	for (size_t i = 0; i < h.n; i++) {
		free(h.entry[i].id);
		sub__subscription__free_unpacked(h.entry[i].s, NULL);
	}
	h.n = h.at = 0;
}

static void on_changed(void *arg, const struct pico_error *error, const ProtobufCMessage *m, struct topics_pieces *p)
{
	h.call = NULL;
	if (error->kind == PICO_OK)
		round_begin(NULL);
	else
		again_in(FAILED_MS, round_begin);
}

static void call_list(const char *after);

static void page_end(void)
{
	Ipc__KvWatchRequest m = IPC__KV_WATCH_REQUEST__INIT;
	page_free();
	if (h.has_more) {
		call_list(h.after);
	} else if (h.n_round > 0) {
		again_in(ROUND_MS, round_begin);
	} else if (!h.stopped) {
		m.prefix = SUB_PREFIX;
		m.after = h.version;
		m.deadline_ms = env_now_ms(h.env) + IDLE_MS;
		h.call = topics_call(h.worker->topics, IPC_KV_WATCH, &m.base, slice_of(NULL, 0), m.deadline_ms, on_changed, NULL);
	}
}

static void next_entry(void)
{
	h.changed = false;
	if (h.at == h.n)
		page_end();
	else if (h.entry[h.at].s->pattern[0] != '\0')
		list_matches();
	else
		look_up_tails();
}

static void on_page(void *arg, const struct pico_error *error, const ProtobufCMessage *m, struct topics_pieces *p)
{
	const Ipc__KvListAnswer *a = (const Ipc__KvListAnswer *)m;
	h.call = NULL;
	if (error->kind != PICO_OK) {
		again_in(FAILED_MS, round_begin);
		return;
	}
	for (size_t i = 0; i < a->n_entry && h.n < PAGE; i++) {
		const Ipc__KvEntry *from = a->entry[i];
		Sub__Subscription *s = sub__subscription__unpack(NULL, from->value.len, from->value.data);
		if (s != NULL)
			h.entry[h.n++] = (struct entry){ must_strdup(from->key + strlen(SUB_PREFIX)), s, from->version };
	}
	free(h.after);
	h.after = a->n_entry > 0 ? must_strdup(a->entry[a->n_entry - 1]->key) : NULL;
	h.has_more = a->has_more && h.after != NULL;
	h.version = a->version;
	h.n_round += h.n;
	next_entry();
}

static void call_list(const char *after)
{
	Ipc__KvListRequest m = IPC__KV_LIST_REQUEST__INIT;
	m.prefix = SUB_PREFIX;
	m.start_after = after != NULL ? (char *)after : "";
	m.limit = PAGE;
	m.deadline_ms = deadline();
	call(IPC_KV_LIST, &m.base, on_page);
}

static void round_begin(void *arg)
{
	page_free();
	free(h.list_after);
	h.list_after = NULL;
	h.n_round = 0;
	call_list(NULL);
}

/* ------------------------------------------------------------------ the key */

static void read_key(void *arg);

static void on_key_stored(void *arg, const struct pico_error *error, const ProtobufCMessage *m, struct topics_pieces *p)
{
	h.call = NULL;
	again_in(error->kind == PICO_OK || error->kind == PICO_CONFLICT ? 0 : FAILED_MS, read_key);
}

static void make_key(void)
{
	Ipc__KvPutRequest m = IPC__KV_PUT_REQUEST__INIT;
	Sub__HookKey key = SUB__HOOK_KEY__INIT;
	struct sign_pair pair;
	uint8_t packed[256];
	if (sign_pair_new(&pair) < 0)
		child_fatal(1, "cannot make the key that signs webhooks");
	key.private_key = (ProtobufCBinaryData){ .data = pair.private_key, .len = SIGN_KEY };
	key.public_key = (ProtobufCBinaryData){ .data = pair.public_key, .len = SIGN_KEY };
	key.kid = pair.kid;
	must(sub__hook_key__get_packed_size(&key) <= sizeof(packed));
	m.key = SUB_HOOK_KEY;
	m.value = (ProtobufCBinaryData){ .data = packed, .len = sub__hook_key__pack(&key, packed) };
	m.check = true;
	m.deadline_ms = deadline();
	call(IPC_KV_PUT, &m.base, on_key_stored);
}

static void on_key(void *arg, const struct pico_error *error, const ProtobufCMessage *m, struct topics_pieces *p)
{
	const Ipc__KvGetAnswer *a = (const Ipc__KvGetAnswer *)m;
	h.call = NULL;
	if (error->kind == PICO_OK)
		h.key = sub__hook_key__unpack(NULL, a->entry->value.len, a->entry->value.data);
	if (h.key != NULL)
		round_begin(NULL);
	else if (error->kind == PICO_NOT_FOUND)
		make_key();
	else
		again_in(FAILED_MS, read_key);
}

static void read_key(void *arg)
{
	Ipc__KvGetRequest m = IPC__KV_GET_REQUEST__INIT;
	m.key = SUB_HOOK_KEY;
	m.deadline_ms = deadline();
	call(IPC_KV_GET, &m.base, on_key);
}

/* ------------------------------------------------------------------ life */

void hook_start(struct worker *w)
{
	h.worker = w;
	h.env = w->env;
	h.deliver = deliver_new(w->loop, !w->child.conf.insecure_allow_remote);
	if (h.deliver == NULL)
		child_fatal(1, "libcurl cannot begin");
	read_key(NULL);
}

void hook_stop(void)
{
	h.stopped = true;
	env_timer_stop(h.env, &h.timer);
	if (h.call != NULL)
		topics_abandon(h.call);
	h.call = NULL;
}
