/* SPDX-License-Identifier: Apache-2.0
 *
 * Calls on the loop: tries, back-off with full jitter, hedges, the server's clock, and what an answer means.
 *
 * Invariants: on_end runs once, and not after the store is freed; an exchange stays in `out` until its answer has
 * been looked at, so that freeing the calls frees everything.
 */
#include "storaged/objstore/s3_call.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/metrics.h"
#include "common/must.h"

#define TRIES_MAX 6u
#define TRY_MS_MAX 30000u               /* no new try after that long */
#define BACKOFF_MIN_MS 50u
#define BACKOFF_MAX_MS 5000u

static void call_try(struct s3_call *c, unsigned slot);

/* Life */

struct s3_call *s3_call_new(struct s3_store *s, const char *method, const char *key)
{
	struct s3_call *c = must_calloc(1, sizeof(*c));
	c->s = s;
	c->timer.arg = c;
	s3_request_init(&c->request, method, s->config.prefix, key);
	c->next = s->calls;
	if (c->next != NULL)
		c->next->prev = c;
	s->calls = c;
	return c;
}

static void call_free(struct s3_call *c)
{
	struct s3_store *s = c->s;
	if (c->prev != NULL)
		c->prev->next = c->next;
	else
		s->calls = c->next;
	if (c->next != NULL)
		c->next->prev = c->prev;
	env_timer_stop(s->env, &c->timer);
	s3_exchange_free(c->out[0]);
	s3_exchange_free(c->out[1]);
	s3_request_done(&c->request);
	free(c);
}

void s3_calls_free(struct s3_store *s)
{
	while (s->calls != NULL) {
		struct s3_call *c = s->calls;
		if (!c->ended)
			c->drop(c->op);
		call_free(c);
	}
	s->starting = NULL;
}

static void store_defer(struct s3_store *s, struct env_task *task, bool *queued)
{
	if (*queued)
		return;
	*queued = true;
	s->n_refs++;
	env_defer(s->env, task);
}

/* What an answer means */

static struct s3_verdict judge(const struct s3_call *c, const struct s3_exchange *x)
{
	const struct s3_document *d = &x->document;
	static const struct s3_verdict garbled = { .outcome = OUTCOME_UNKNOWN, .err = -EBADMSG, .retry = true };
	if (x->status == 0)
		return s3_verdict_cut(x->sent, x->err);
	if (x->status >= 300)
		return s3_verdict_of(x->status, x->document_err == 0 ? d->code : "");
	if (!c->request.answer_is_xml)
		return s3_verdict_of(x->status, "");
	if (x->document_err == 0 && strcmp(d->root, "Error") == 0)
		return s3_verdict_of(x->status, d->code[0] != 0 ? d->code : "Error");
	return x->document_err == 0 && strcmp(d->root, c->root) == 0 ? s3_verdict_of(x->status, "") : garbled;
}

static void say_what(struct s3_call *c, const struct s3_exchange *x)
{
	struct s3_store *s = c->s;
	int n = snprintf(s->what, sizeof(s->what), "s3://%s%s%s", s->config.bucket, c->request.key != NULL ? "/" : "",
			 c->request.key != NULL ? c->request.key : "");
	if (n >= (int)sizeof(s->what) || x == NULL)
		return;
	if (x->status == 0)
		snprintf(s->what + n, sizeof(s->what) - (size_t)n, ": %s", x->why);
	else if (x->status >= 300 || x->document.code[0] != 0)
		snprintf(s->what + n, sizeof(s->what) - (size_t)n, ": %d %s", x->status, x->document.code);
}

/* End */

/* After this `c` may be gone; then the store is freed, too. */
static void call_end(struct s3_call *c, struct s3_verdict v, const struct s3_exchange *x)
{
	struct s3_store *s = c->s;
	say_what(c, x);
	struct s3_end end = { .outcome = v.outcome, .err = v.err, .what = s->what,
			      .x = x != NULL && x->status != 0 ? x : NULL };
	c->ended = true;
	env_timer_stop(s->env, &c->timer);
	for (int i = 0; i < 2; i++) {
		if (c->out[i] == NULL || c->out[i] == x)
			continue;
		atomic_store(&c->out[i]->cancelled, true);
		s3_transport_wake(s->transport, c->out[i]);
	}
	c->on_end(c->op, c, &end);
}

static void call_reap(struct s3_call *c)
{
	if (c->ended && c->out[0] == NULL && c->out[1] == NULL)
		call_free(c);
}

/* Tries */

static void on_retry(void *arg)
{
	struct s3_call *c = arg;
	metric_add(METRIC_STORE_RETRIES, 1);
	call_try(c, 0);
}

static void call_back_off(struct s3_call *c)
{
	struct s3_store *s = c->s;
	uint32_t r, shift = c->n_tries < 8 ? c->n_tries - 1 : 7;
	uint32_t bound = BACKOFF_MIN_MS << shift < BACKOFF_MAX_MS ? BACKOFF_MIN_MS << shift : BACKOFF_MAX_MS;
	env_random(s->env, &r, sizeof(r));
	c->timer.on_fire = on_retry;
	env_timer_start(s->env, &c->timer, env_now_ms(s->env) + r % (bound + 1));
}

static void on_slow(void *arg)
{
	struct s3_call *c = arg;
	bool waits = c->out[0] != NULL && c->out[1] == NULL && !atomic_load(&c->out[0]->has_begun_answer);
	if (!waits || !s3_latency_spend(&c->s->reads))
		return;
	metric_add(METRIC_STORE_HEDGES, 1);
	call_try(c, 1);
}

static void call_try(struct s3_call *c, unsigned slot)
{
	struct s3_store *s = c->s;
	struct s3_exchange *x = must_calloc(1, sizeof(*x));
	must(c->out[slot] == NULL);
	x->request = &c->request;
	x->owner = c;
	x->wall_ms = env_wall_ms(s->env) + s->skew_ms;
	c->out[slot] = x;
	c->n_tries++;
	*s->starting_tail = x;
	s->starting_tail = &x->next;
	store_defer(s, &s->start_task, &s->start_queued);
	metric_add(METRIC_STORE_REQUESTS, 1);
	uint64_t slow_ms = c->may_hedge && slot == 0 ? s3_latency_slow_ms(&s->reads) : 0;
	if (slow_ms > 0) {
		c->timer.on_fire = on_slow;
		env_timer_start(s->env, &c->timer, env_now_ms(s->env) + slow_ms);
	}
}

void s3_call_begin(struct s3_call *c)
{
	must(!c->begun && c->on_end != NULL && c->drop != NULL);
	must(c->root == NULL || c->request.answer_is_xml);
	c->begun = true;
	c->began_ms = env_now_ms(c->s->env);
	if (c->may_hedge)
		s3_latency_earn(&c->s->reads);
	call_try(c, 0);
}

void s3_call_end_later(struct s3_call *c, enum outcome outcome, int err)
{
	must(!c->begun);
	c->begun = true;
	c->given = (struct s3_end){ .outcome = outcome, .err = err };
	c->n_tries = 0;
	store_defer(c->s, &c->s->end_task, &c->s->end_queued);
}

static bool may_try_again(const struct s3_call *c, struct s3_verdict v)
{
	return v.retry && c->may_retry && c->n_tries < TRIES_MAX &&
	       env_now_ms(c->s->env) - c->began_ms < TRY_MS_MAX;
}

static void exchange_drop(struct s3_call *c, unsigned slot)
{
	s3_exchange_free(c->out[slot]);
	c->out[slot] = NULL;
}

/* The server said what time it is there. The request was not done, so it may go again whatever it is. */
static bool call_set_clock(struct s3_call *c, const struct s3_exchange *x)
{
	if (x->server_ms == 0 || c->skew_tried)
		return false;
	c->skew_tried = true;
	c->s->skew_ms = x->server_ms - env_wall_ms(c->s->env);
	return true;
}

/* false: the store was freed. */
static bool call_on_answer(struct s3_call *c, unsigned slot)
{
	struct s3_store *s = c->s;
	struct s3_exchange *x = c->out[slot];
	if (c->ended) {
		exchange_drop(c, slot);
		call_reap(c);
		return true;
	}
	struct s3_verdict v = judge(c, x);
	if (c->may_hedge && x->first_byte_ns > 0)
		s3_latency_sample(&s->reads, x->first_byte_ns);
	if (v.skewed && call_set_clock(c, x)) {
		exchange_drop(c, slot);
		call_try(c, slot);
		return true;
	}
	bool other = c->out[1 - slot] != NULL;
	if (v.retry && (other || may_try_again(c, v))) {
		c->maybe_applied |= v.outcome == OUTCOME_UNKNOWN;
		exchange_drop(c, slot);
		if (!other)
			call_back_off(c);
		return true;
	}
	call_end(c, v, x);
	if (s->freed)
		return false;
	exchange_drop(c, slot);
	call_reap(c);
	return true;
}

/* Tasks */

void s3_calls_on_start(void *arg)
{
	struct s3_store *s = arg;
	s->start_queued = false;
	if (!s->freed && s->starting != NULL) {
		struct s3_exchange *list = s->starting;
		s->starting = NULL;
		s->starting_tail = &s->starting;
		s3_transport_start(s->transport, list);
	}
	s3_store_unref(s);
}

void s3_calls_on_end(void *arg)
{
	struct s3_store *s = arg;
	s->end_queued = false;
	/* What on_end begins stands before `c`; what it frees is calls that are ended, or all. */
	struct s3_call *next;
	for (struct s3_call *c = s->freed ? NULL : s->calls; c != NULL; c = next) {
		next = c->next;
		if (c->ended || !c->begun || c->n_tries > 0)
			continue;
		call_end(c, (struct s3_verdict){ .outcome = c->given.outcome, .err = c->given.err }, NULL);
		if (s->freed)
			break;
		next = c->next;
		call_reap(c);
	}
	s3_store_unref(s);
}

void s3_calls_on_done(void *store)
{
	struct s3_store *s = store;
	pthread_mutex_lock(&s->lock);
	if (!s->posted && !s->stop) {
		s->posted = true;
		env_post(s->env, &s->posted_task);
	}
	pthread_mutex_unlock(&s->lock);
}

void s3_calls_on_posted(void *arg)
{
	struct s3_store *s = arg;
	if (s->freed) {
		s3_store_unref(s);
		return;
	}
	s->n_refs++;
	pthread_mutex_lock(&s->lock);
	s->posted = false;
	pthread_mutex_unlock(&s->lock);
	struct s3_exchange *x = s3_transport_take(s->transport), *next;
	for (; x != NULL; x = next) {
		next = x->next;
		struct s3_call *c = x->owner;
		if (!call_on_answer(c, c->out[0] == x ? 0 : 1))
			break;
	}
	s3_store_unref(s);
}
