/* SPDX-License-Identifier: Apache-2.0
 *
 * An object's life: filling -> ready (sealed) -> flying -> stored -> reported -> freed when no put reads
 * its bytes. From flying it may go to looking (the key is taken: whose is it?) and to waiting (back-off).
 *
 *      filling --seal--> ready --slot--> flying --OK--> stored --in order--> reported
 *                                        ^    \--412--> looking --ours--> stored
 *                                        |                  \--seal, foreign--> the process ends
 *                                        +--- waiting <--- error, UNKNOWN, 409
 */
#include "storaged/engine/wal.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/control.h"
#include "common/crc32c.h"
#include "common/metrics.h"
#include "storaged/engine/backoff.h"
#include "storaged/planted.h"

#define HOUR_MS 3600000u
#define DAY_MS (24 * HOUR_MS)
#define HEARTBEAT_MS 30000u
#define THROTTLED_LONG_MS 800u          /* a back-off that says that 409 or 503 does not pass */
#define UNANSWERED_LONG_MS 5000u
#define HEDGE_MIN_MS 100u
#define HEDGE_FACTOR 4u
#define SAMPLES_MIN 20u
#define LOOK_FAULTS_MAX 8u

enum object_state { FILLING, READY, FLYING, LOOKING, WAITING, STORED, REPORTED };

struct attempt {
	struct wal_object *object;
	uint64_t started_ms, started_ns;
	bool busy;                      /* the store has it */
};

struct wal_object {
	struct wal *wal;
	struct wal_object *next;
	uint64_t seq;
	enum wal_kind kind;
	enum object_state state;
	uint32_t body_len, body_crc;
	uint64_t ticket_first, ticket_end;
	uint64_t extent_first, extent_end;
	uint8_t header[WAL_HEADER];
	struct attempt attempts[2];     /* the second is a hedge, or a retry beside a put that hangs */
	bool look_busy;                 /* a GET is out */
	bool look_next;                 /* after the back-off: look, not put */
	uint32_t backoff_ms, n_look_faults;
	struct env_timer timer;         /* flying: hedge; waiting: the end of the back-off */
};

static void object_put(struct wal_object *o);
static void object_look(struct wal_object *o);
static void wal_pump(struct wal *w);

/* ------------------------------------------------------------------ endings */

static void wal_end(struct wal *w, int code, const char *text)
{
	must(!w->dead);
	w->dead = true;
	w->config.on_fatal(w->config.arg, code, text);
}

static void wal_fatal(struct wal *w, const char *text)
{
	wal_end(w, 1, text);
}

static bool puts_are_young(const struct wal *w, uint64_t now)
{
	for (const struct wal_object *o = w->oldest; o != NULL; o = o->next)
		for (int i = 0; i < 2; i++)
			if (o->attempts[i].busy && now - o->attempts[i].started_ms > DAY_MS)
				return false;
	return true;
}

bool wal_may_look(struct wal *w)
{
	if (w->dead)
		return false;
	uint64_t now = env_now_ms(w->env);
	uint64_t away = now - w->turn_ms;
	w->turn_ms = now;
	if (away > HOUR_MS)
		wal_fatal(w, "this process stood still for more than an hour: its session may be over; starting anew");
	else if (!puts_are_young(w, now))
		wal_fatal(w, "a WAL put has been unanswered for a day: its session may be over; starting anew");
	return !w->dead;
}

static void on_heartbeat(void *arg)
{
	struct wal *w = arg;
	if (wal_may_look(w))
		env_timer_start(w->env, &w->heartbeat, w->turn_ms + HEARTBEAT_MS);
}

/* ------------------------------------------------------------------ objects */

static struct wal_object *object_new(struct wal *w, uint64_t seq, enum wal_kind kind)
{
	struct wal_object *o = must_calloc(1, sizeof(*o));
	o->wal = w;
	o->seq = seq;
	o->kind = kind;
	o->ticket_first = o->ticket_end = w->tickets;
	o->attempts[0].object = o->attempts[1].object = o;
	o->timer.arg = o;
	return o;
}

static void object_free(struct wal_object *o)
{
	env_timer_stop(o->wal->env, &o->timer);
	free(o);
}

static void object_header(struct wal_object *o)
{
	struct wal_header h = {
		.kind = o->kind, .node = o->wal->config.node, .session = o->wal->session, .seq = o->seq,
		.body_len = o->body_len, .body_crc = o->body_crc,
	};
	memcpy(h.put_id, o->wal->config.put_id, 16);
	wal_header_encode(o->header, &h);
}

static void wal_set_fault(struct wal *w, const char *what, int err)
{
	snprintf(w->fault, sizeof(w->fault), "%s: %s", what, strerror(-err));
}

static bool object_is_free(const struct wal_object *o)
{
	return o->state == REPORTED && !o->attempts[0].busy && !o->attempts[1].busy && !o->look_busy;
}

/* Frees what is reported and not read by any put. */
static void wal_reap(struct wal *w)
{
	for (struct wal_object **at = &w->oldest; *at != NULL;) {
		struct wal_object *o = *at;
		if (!object_is_free(o)) {
			at = &o->next;
			continue;
		}
		*at = o->next;
		arena_finish(w->arena, o->extent_first, o->extent_end);
		object_free(o);
	}
}

static struct wal_object *wal_first_unreported(const struct wal *w)
{
	struct wal_object *o = w->oldest;
	while (o != NULL && o->state == REPORTED)
		o = o->next;
	return o;
}

/* In order, and only as far as everything below is stored. */
static void wal_report(struct wal *w)
{
	struct wal_object *o;
	while (!w->dead && (o = wal_first_unreported(w)) != NULL && o->state == STORED) {
		o->state = REPORTED;
		w->stored_end = o->seq + 1;
		arena_stored(w->arena, o->body_len);
		if (o->kind == WAL_OPEN) {
			w->open = true;
			w->config.on_open(w->config.arg);
		} else {
			w->config.on_stored(w->config.arg, o->ticket_end);
		}
	}
}

static void object_stored(struct wal_object *o)
{
	struct wal *w = o->wal;
	must(o->state < STORED);
	o->state = STORED;
	env_timer_stop(w->env, &o->timer);
	w->inflight--;
	w->fault[0] = '\0';
	metric_add(METRIC_WAL_PUTS, 1);
	metric_add(METRIC_WAL_PUT_BYTES, WAL_HEADER + o->body_len);
	if (planted(PLANTED_ACK_OUT_OF_ORDER))
		w->config.on_early(w->config.arg, o->ticket_first, o->ticket_end, true);
	wal_report(w);
	wal_pump(w);
}

/* ------------------------------------------------------------------- timing */

static int compare_u32(const void *a, const void *b)
{
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
	return (x > y) - (x < y);
}

static void wal_sample(struct wal *w, uint64_t ns)
{
	uint64_t us = ns / 1000;
	histogram_observe(HISTOGRAM_WAL_PUT_SECONDS, ns);
	w->sample_us[w->n_samples++ % WAL_SAMPLES] = us < UINT32_MAX ? (uint32_t)us : UINT32_MAX;
	if (w->n_samples < SAMPLES_MIN || w->n_samples % 16 != 0)
		return;
	uint32_t sorted[WAL_SAMPLES];
	size_t n = w->n_samples < WAL_SAMPLES ? w->n_samples : WAL_SAMPLES;
	memcpy(sorted, w->sample_us, n * sizeof(sorted[0]));
	qsort(sorted, n, sizeof(sorted[0]), compare_u32);
	w->p95_us = sorted[n * 95 / 100] + 1;
}

/* Milliseconds until a token is there; 0: now. */
static uint64_t wal_token_wait(struct wal *w, uint64_t now)
{
	int64_t interval = (int64_t)w->config.batch_interval_ms;
	int64_t saved = (int64_t)now - WAL_TOKENS_SAVED * interval;
	if (w->token_at_ms < saved)
		w->token_at_ms = saved;
	int64_t ready = w->token_at_ms + interval;
	return ready <= (int64_t)now ? 0 : (uint64_t)(ready - (int64_t)now);
}

static void wal_token_take(struct wal *w)
{
	w->token_at_ms += (int64_t)w->config.batch_interval_ms;
}

/* ---------------------------------------------------------------- unhappy ends */

static void on_backoff_end(void *arg)
{
	struct wal_object *o = arg;
	if (o->wal->dead)
		return;
	must(o->state == WAITING);
	o->state = FLYING;
	if (o->look_next)
		object_look(o);
	else
		object_put(o);
}

/* Again after a back-off of half to all of backoff_ms, which doubles. */
static void object_wait(struct wal_object *o, bool look_next)
{
	struct wal *w = o->wal;
	o->state = WAITING;
	o->look_next = look_next;
	o->timer.on_fire = on_backoff_end;
	env_timer_start(w->env, &o->timer, backoff_next(w->env, &backoff_write, &o->backoff_ms));
}

/* The key is taken. Kind before put id: a seal ends us whoever put it. */
static void object_judge(struct wal_object *o, const char *what, struct slice data)
{
	struct wal *w = o->wal;
	struct wal_header h;
	char text[800];
	const char *fault = wal_header_decode(data, &h);
	if (fault != NULL && ++o->n_look_faults < LOOK_FAULTS_MAX) {
		object_wait(o, true); /* the answer may have been damaged on its way */
	} else if (fault != NULL) {
		snprintf(text, sizeof(text), "%s stands where this process writes, and %s", what, fault);
		wal_fatal(w, text);
	} else if (h.kind == WAL_SEAL) {
		if (planted(PLANTED_IGNORE_SEAL)) {
			object_stored(o);
			return;
		}
		snprintf(text, sizeof(text), "%s is sealed: another process has taken over this session", what);
		wal_fatal(w, text);
	} else if (memcmp(h.put_id, w->config.put_id, 16) != 0 || h.session != w->session || h.seq != o->seq ||
		   h.node != w->config.node) {
		snprintf(text, sizeof(text), "%s was put by another process: two clusters use this prefix, or the metadata "
			 "database went back in time. Give each cluster its own --storage and --wal; in the place of an older "
			 "database put what `pico admin restore-metadata` makes", what);
		wal_end(w, CONTROL_EXIT_SHARED, text);
	} else {
		object_stored(o);
	}
}

static void on_look(void *arg, struct obj_result result, struct slice data, uint64_t size)
{
	struct wal_object *o = arg;
	struct wal *w = o->wal;
	o->look_busy = false;
	if (!wal_may_look(w))
		return;
	if (o->state == LOOKING) {
		if (result.outcome == OUTCOME_OK) {
			object_judge(o, result.what, data);
		} else if (result.outcome == OUTCOME_NOT_APPLIED && result.err == -ENOENT) {
			object_put(o);
		} else {
			wal_set_fault(w, result.what, result.err);
			object_wait(o, true);
		}
	}
	wal_reap(w);
}

static void object_look(struct wal_object *o)
{
	struct wal *w = o->wal;
	char key[WAL_KEY_MAX];
	o->state = LOOKING;
	env_timer_stop(w->env, &o->timer);
	must(!o->look_busy);
	o->look_busy = true;
	wal_key(key, w->config.node, w->session, o->seq);
	/* Whole: a store on files makes what is read whole durable in its directory first. */
	objstore_get(w->store, key, 0, 0, on_look, o);
}

/* ------------------------------------------------------------------ putting */

/* The open object is put twice: a store that takes the second does not honour the condition. */
static void object_put_ok(struct wal_object *o)
{
	struct wal *w = o->wal;
	if (o->kind != WAL_OPEN || w->config.allow_unfenced) {
		object_stored(o);
	} else if (w->probing) {
		wal_fatal(w, "the store of --wal ignores If-None-Match: two processes could overwrite each other; use another "
			     "store, or --allow-unfenced-store for a single node");
	} else {
		w->probing = true;
		object_put(o);
	}
}

static void object_put_unknown(struct wal_object *o, struct obj_result result)
{
	struct wal *w = o->wal;
	if (planted(PLANTED_UNKNOWN_AS_SUCCESS)) {
		object_stored(o);
		return;
	}
	if (planted(PLANTED_UNKNOWN_AS_FAILURE))
		w->config.on_early(w->config.arg, o->ticket_first, o->ticket_end, false);
	wal_set_fault(w, result.what, result.err);
	object_wait(o, false);
}

static void object_put_failed(struct wal_object *o, struct obj_result result)
{
	if (result.err == -EEXIST) {
		object_look(o);
		return;
	}
	if (result.err == -EOPNOTSUPP && o->kind == WAL_OPEN) {
		char text[600];
		snprintf(text, sizeof(text), "%.300s: the store of --wal does not know If-None-Match: use another store",
			 result.what);
		wal_fatal(o->wal, text);
		return;
	}
	if (result.err != -EAGAIN || o->backoff_ms >= THROTTLED_LONG_MS)
		wal_set_fault(o->wal, result.what, result.err);
	object_wait(o, false);
}

static void on_put(void *arg, struct obj_result result)
{
	struct attempt *t = arg;
	struct wal_object *o = t->object;
	struct wal *w = o->wal;
	bool may_look = wal_may_look(w);
	t->busy = false;
	if (!may_look)
		return;
	if (result.outcome == OUTCOME_OK)
		wal_sample(w, env_now_ns(w->env) - t->started_ns);
	else if (result.err != -EEXIST)
		metric_add(METRIC_WAL_PUT_ERRORS, 1);
	if (o->state == FLYING || (o->state < STORED && result.outcome == OUTCOME_OK)) {
		switch (result.outcome) {
		case OUTCOME_OK: object_put_ok(o); break;
		case OUTCOME_NOT_APPLIED: object_put_failed(o, result); break;
		case OUTCOME_UNKNOWN: object_put_unknown(o, result); break;
		}
	}
	wal_reap(w);
}

static void on_hedge(void *arg)
{
	struct wal_object *o = arg;
	struct wal *w = o->wal;
	if (w->dead)
		return;
	must(o->state == FLYING);
	uint64_t now = env_now_ms(w->env), wait = wal_token_wait(w, now);
	if (wait > 0) {
		env_timer_start(w->env, &o->timer, now + wait);
		return;
	}
	wal_token_take(w);
	object_put(o);
}

static void object_arm_hedge(struct wal_object *o, uint64_t now)
{
	struct wal *w = o->wal;
	uint64_t after = w->p95_us * HEDGE_FACTOR / 1000;
	if (w->p95_us == 0)
		return;
	o->timer.on_fire = on_hedge;
	env_timer_start(w->env, &o->timer, now + (after > HEDGE_MIN_MS ? after : HEDGE_MIN_MS));
}

/* Sends the object; with one put out already, a second one beside it; with two, waits for them. */
static void object_put(struct wal_object *o)
{
	struct wal *w = o->wal;
	struct attempt *t = !o->attempts[0].busy ? &o->attempts[0] : &o->attempts[1];
	o->state = FLYING;
	if (t->busy)
		return;
	t->busy = true;
	t->started_ms = env_now_ms(w->env);
	t->started_ns = env_now_ns(w->env);
	int n = (int)(o->extent_end - o->extent_first) + 1;
	struct iovec *iov = must_calloc((size_t)n, sizeof(*iov));
	iov[0] = (struct iovec){ .iov_base = o->header, .iov_len = WAL_HEADER };
	for (int i = 1; i < n; i++)
		iov[i] = arena_iovec(arena_extent(w->arena, o->extent_first + (uint64_t)i - 1));
	char key[WAL_KEY_MAX];
	wal_key(key, w->config.node, w->session, o->seq);
	objstore_put(w->store, key, iov, n, true, on_put, t);
	free(iov);
	if (t == &o->attempts[0])
		object_arm_hedge(o, t->started_ms);
}

static void object_send(struct wal_object *o)
{
	o->wal->inflight++;
	object_header(o);
	object_put(o);
	if (planted(PLANTED_ACK_BEFORE_STORE))
		o->wal->config.on_early(o->wal->config.arg, o->ticket_first, o->ticket_end, true);
}

/* ------------------------------------------------------------- group commit */

/* Ends the object being filled and begins the next. */
static void wal_seal(struct wal *w)
{
	struct wal_object *o = w->filling;
	must(o->state == FILLING && o->body_len > 0);
	o->state = READY;
	o->next = w->filling = object_new(w, o->seq + 1, WAL_DATA);
	w->sealed_ms = env_now_ms(w->env);
	w->config.on_position(w->config.arg, w->filling->seq);
}

static struct wal_object *wal_first_ready(const struct wal *w)
{
	struct wal_object *o = w->oldest;
	while (o != NULL && o->state != READY)
		o = o->next;
	return o;
}

/* Whether what has gathered may be sealed now; else when to ask again (0: when a put returns). */
static bool wal_may_seal(struct wal *w, uint64_t *ret_again_ms)
{
	uint64_t now = env_now_ms(w->env), interval = w->config.batch_interval_ms;
	if (w->filling->body_len >= w->config.max_bytes || w->stopping)
		return true;
	uint64_t wait = interval == 0 ? 0 : wal_token_wait(w, now);
	if (wait == 0 && w->inflight > 0 && now - w->sealed_ms < interval)
		wait = interval - (now - w->sealed_ms);
	if (wait == 0) {
		wal_token_take(w);
		return true;
	}
	*ret_again_ms = now + wait;
	return false;
}

/* Recovery concludes from an object that all those WAL_REACH and more below it are stored. */
static bool wal_reaches(const struct wal *w, const struct wal_object *o)
{
	return o->seq - wal_first_unreported(w)->seq < WAL_REACH;
}

static void wal_pump(struct wal *w)
{
	while (!w->dead && w->open && w->inflight < w->config.max_inflight) {
		struct wal_object *o = wal_first_ready(w);
		if (!wal_reaches(w, o != NULL ? o : w->filling))
			return; /* until the oldest put returns */
		if (o != NULL) {
			object_send(o);
			continue;
		}
		uint64_t again;
		if (w->filling->body_len == 0)
			return;
		if (!wal_may_seal(w, &again)) {
			env_timer_start(w->env, &w->pump_timer, again);
			return;
		}
		wal_seal(w);
	}
}

static void on_pump(void *arg)
{
	wal_pump(arg);
}

uint64_t wal_commit(struct wal *w, const uint8_t *at, uint32_t size, uint64_t *ret_seq, uint32_t *ret_body_position)
{
	must(w->open && !w->dead);
	if (w->filling->body_len > 0 && (uint64_t)w->filling->body_len + size > w->config.max_bytes)
		wal_seal(w);
	struct wal_object *o = w->filling;
	if (o->body_len == 0)
		o->extent_first = w->arena->extent_end;
	struct arena_place place = { .session = w->session_index, .seq = o->seq, .body_position = o->body_len };
	arena_commit(w->arena, size, place, false);
	o->extent_end = w->arena->extent_end;
	*ret_seq = o->seq;
	*ret_body_position = o->body_len;
	o->body_crc = crc32c_extend(o->body_crc, at, size);
	o->body_len += size;
	o->ticket_end = w->tickets + 1;
	env_defer(w->env, &w->pump);
	return w->tickets++;
}

/* --------------------------------------------------------------------- life */

void wal_init(struct wal *w, struct env *env, struct objstore *store, struct arena *arena,
	      const struct wal_config *config)
{
	*w = (struct wal){ .env = env, .store = store, .arena = arena, .config = *config, .tickets = 1 };
	w->turn_ms = env_now_ms(env);
	w->token_at_ms = (int64_t)w->turn_ms - WAL_TOKENS_SAVED * (int64_t)config->batch_interval_ms;
	w->pump = (struct env_task){ .run = on_pump, .arg = w };
	w->pump_timer = (struct env_timer){ .on_fire = on_pump, .arg = w };
	w->heartbeat = (struct env_timer){ .on_fire = on_heartbeat, .arg = w };
	env_timer_start(env, &w->heartbeat, w->turn_ms + HEARTBEAT_MS);
}

void wal_done(struct wal *w)
{
	w->dead = true;
	env_timer_stop(w->env, &w->pump_timer);
	env_timer_stop(w->env, &w->heartbeat);
	while (w->oldest != NULL) {
		struct wal_object *o = w->oldest;
		w->oldest = o->next;
		object_free(o);
	}
}

void wal_open(struct wal *w, uint64_t session, uint32_t index)
{
	must(w->oldest == NULL);
	w->session = session;
	w->session_index = index;
	w->oldest = object_new(w, 0, WAL_OPEN);
	w->oldest->next = w->filling = object_new(w, 1, WAL_DATA);
	object_send(w->oldest);
}

uint64_t wal_seq(const struct wal *w)
{
	return w->filling == NULL ? 0 : w->filling->seq;
}

const char *wal_fault(const struct wal *w)
{
	const struct wal_object *o = wal_first_unreported(w);
	if (w->fault[0] != '\0')
		return w->fault;
	if (o != NULL && o->state == FLYING && env_now_ms(w->env) - o->attempts[0].started_ms > UNANSWERED_LONG_MS)
		return "the store of --wal has not answered a put for 5 seconds";
	return NULL;
}

bool wal_is_idle(const struct wal *w)
{
	return w->filling == NULL || (wal_first_unreported(w) == w->filling && w->filling->body_len == 0);
}

void wal_flush(struct wal *w)
{
	w->stopping = true;
	wal_pump(w);
}
