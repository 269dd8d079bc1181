/* SPDX-License-Identifier: Apache-2.0
 *
 * Deadlines in a hash by topic id and in a heap by the time at which they are looked at: a touch moves the deadline alone,
 * and who comes up too early goes down again. Each topic has at most one command of its own under way.
 */
#include "storaged/expiry.h"

#include <inttypes.h>
#include <stdlib.h>

#include "common/metrics.h"
#include "storaged/planted.h"

#define SWEEP_MAX 256u                  /* a turn */
#define AGAIN_MS 1000                   /* a command that was refused, or found no room */
#define TIMER_MAX_MS 3600000
#define SLACK_MIN_MS 1000

struct expiring {
	UT_hash_handle hh;
	uint8_t id[16];
	struct node *node;
	size_t heap_index;
	int64_t look_ms;                /* stamp time, as the others */
	int64_t deadline_ms;            /* exact; never falls */
	int64_t touching_ms;            /* TouchExpiry with this time is under way; 0: none is */
	bool ending;                    /* ExpireTopic is */
	struct expiring *next, **prev;  /* removed: freed when what is under way is answered */
};

struct expiry {
	struct node *node;
	struct expiring *topics;        /* hash */
	struct expiring **heap;         /* by look_ms */
	size_t n, capacity;
	struct expiring *removed;
	struct env_timer timer;
};

/* --------------------------------------------------------------------- heap */

static void heap_put(struct expiry *x, size_t i, struct expiring *t)
{
	x->heap[i] = t;
	t->heap_index = i;
}

static void heap_up(struct expiry *x, size_t i)
{
	struct expiring *t = x->heap[i];
	for (; i > 0 && x->heap[(i - 1) / 2]->look_ms > t->look_ms; i = (i - 1) / 2)
		heap_put(x, i, x->heap[(i - 1) / 2]);
	heap_put(x, i, t);
}

static void heap_down(struct expiry *x, size_t i)
{
	struct expiring *t = x->heap[i];
	for (size_t child; (child = 2 * i + 1) < x->n; i = child) {
		if (child + 1 < x->n && x->heap[child + 1]->look_ms < x->heap[child]->look_ms)
			child++;
		if (x->heap[child]->look_ms >= t->look_ms)
			break;
		heap_put(x, i, x->heap[child]);
	}
	heap_put(x, i, t);
}

static void heap_add(struct expiry *x, struct expiring *t)
{
	if (x->n == x->capacity) {
		x->capacity = x->capacity == 0 ? 16 : x->capacity * 2;
		x->heap = must_realloc(x->heap, x->capacity * sizeof(struct expiring *));
	}
	heap_put(x, x->n++, t);
	heap_up(x, t->heap_index);
}

static void heap_remove(struct expiry *x, struct expiring *t)
{
	size_t i = t->heap_index;
	struct expiring *last = x->heap[--x->n];
	if (last == t)
		return;
	heap_put(x, i, last);
	heap_up(x, i);
	heap_down(x, last->heap_index);
}

/* --------------------------------------------------------------------- times */

static int64_t later(int64_t ms, uint64_t seconds)
{
	int64_t sum;
	if (seconds > INT64_MAX / 1000 || __builtin_add_overflow(ms, (int64_t)seconds * 1000, &sum))
		return INT64_MAX;
	return sum;
}

static int64_t slack_of(const struct state_topic *t)
{
	int64_t tenth = later(0, t->ttl_seconds) / 10;
	return tenth < SLACK_MIN_MS ? SLACK_MIN_MS : tenth;
}

/* What the metadata says, or will when what is under way is applied. */
static int64_t stored_of(const struct expiring *x, const struct state_topic *t)
{
	if (x->touching_ms != 0)
		return x->touching_ms;
	return t->expires_at_ms != 0 ? t->expires_at_ms : later(t->created_ms, t->ttl_seconds);
}

static bool expires(const struct state_topic *t)
{
	return t->ttl_seconds != 0 || t->expires_at_ms != 0;
}

/* Its partitions' last appends are uses that recovery found. */
static int64_t last_append(const struct node *n, const struct state_topic *t)
{
	int64_t last = INT64_MIN;
	for (uint32_t i = 0; i < t->n_partitions; i++) {
		const struct log *log = node_log(n, t, i);
		int64_t ms = log != NULL ? log_last_append_ms(log) : INT64_MIN;
		last = ms > last ? ms : last;
	}
	return last;
}

/* Whatever clocks did before, no more than a TTL is left of it. */
static int64_t deadline_at_start(const struct node *n, const struct expiring *x, const struct state_topic *t)
{
	int64_t deadline = stored_of(x, t);
	if (t->ttl_seconds == 0)
		return deadline;
	int64_t appended = later(last_append(n, t), t->ttl_seconds);
	int64_t latest = later(engine_stamp_ms(n->engine) + slack_of(t), t->ttl_seconds);
	deadline = appended > deadline ? appended : deadline;
	return deadline < latest ? deadline : latest;
}

static void timer_set(struct expiry *x)
{
	struct node *n = x->node;
	if (x->n == 0) {
		env_timer_stop(n->env, &x->timer);
		return;
	}
	int64_t ms, now = engine_stamp_ms(n->engine);
	if (__builtin_sub_overflow(x->heap[0]->look_ms, now, &ms) || ms > TIMER_MAX_MS)
		ms = TIMER_MAX_MS;
	env_timer_start(n->env, &x->timer, env_now_ms(n->env) + (ms > 0 ? (uint64_t)ms : 1));
}

/* ------------------------------------------------------------------ commands */

static void maybe_free(struct expiring *x)
{
	if (x->prev == NULL || x->touching_ms != 0 || x->ending)
		return;
	*x->prev = x->next;
	if (x->next != NULL)
		x->next->prev = x->prev;
	free(x);
}

static void on_ended(void *arg, const Meta__Result__One *result)
{
	struct expiring *x = arg;
	x->ending = false;
	if (result != NULL && result->error == PICO_OK)
		metric_add(METRIC_TOPICS_EXPIRED, 1);
	maybe_free(x);
}

static void end_propose(struct expiring *x, const struct state_topic *t)
{
	Meta__Command command = META__COMMAND__INIT;
	Meta__ExpireTopic expire = META__EXPIRE_TOPIC__INIT;
	if (x->ending)
		return;
	command.kind_case = META__COMMAND__KIND_EXPIRE_TOPIC;
	command.expire_topic = &expire;
	expire.topic_id = (ProtobufCBinaryData){ .len = 16, .data = x->id };
	expire.expires_at_ms = x->touching_ms != 0 ? x->touching_ms : t->expires_at_ms;
	x->ending = meta_propose(x->node->meta, &command, on_ended, x) == 0;
}

static void touch_maybe_propose(struct expiring *x, const struct state_topic *t);

static void on_touched(void *arg, const Meta__Result__One *result)
{
	struct expiring *x = arg;
	x->touching_ms = 0;
	const struct state_topic *t = x->prev != NULL ? NULL : state_topic_by_id(meta_state(x->node->meta), x->id);
	if (t != NULL && result != NULL)
		touch_maybe_propose(x, t);
	maybe_free(x);
}

/* One that finds no room is tried with the next touch. */
static void touch_maybe_propose(struct expiring *x, const struct state_topic *t)
{
	Meta__Command command = META__COMMAND__INIT;
	Meta__TouchExpiry touch = META__TOUCH_EXPIRY__INIT;
	int64_t slack = slack_of(t);
	if (x->touching_ms != 0 || x->deadline_ms <= stored_of(x, t) - slack / 2 || x->deadline_ms > INT64_MAX - slack)
		return;
	command.kind_case = META__COMMAND__KIND_TOUCH_EXPIRY;
	command.touch_expiry = &touch;
	touch.topic_id = (ProtobufCBinaryData){ .len = 16, .data = x->id };
	touch.expires_at_ms = x->deadline_ms + slack;
	if (meta_propose(x->node->meta, &command, on_touched, x) == 0)
		x->touching_ms = touch.expires_at_ms;
}

/* --------------------------------------------------------------------- uses */

static struct expiring *find(const struct node *n, const uint8_t topic_id[16])
{
	struct expiring *x = NULL;
	if (n->expiry != NULL)
		HASH_FIND(hh, n->expiry->topics, topic_id, 16, x);
	return x;
}

static bool is_due(const struct expiring *x)
{
	return x->ending || x->deadline_ms <= engine_due_ms(x->node->engine);
}

bool expiry_is_over(struct node *n, const struct state_topic *t)
{
	struct expiring *x = expires(t) ? find(n, t->id) : NULL;
	if (x == NULL || !is_due(x))
		return false;
	end_propose(x, t);
	return true;
}

void expiry_touch(struct node *n, const struct state_topic *t)
{
	struct expiring *x = t->ttl_seconds != 0 ? find(n, t->id) : NULL;
	if (x == NULL || is_due(x) || planted(PLANTED_TTL_NOT_RENEWED))
		return;
	int64_t deadline = later(engine_stamp_ms(n->engine), t->ttl_seconds);
	if (deadline <= x->deadline_ms)
		return;
	x->deadline_ms = deadline;
	touch_maybe_propose(x, t);
}

void expiry_touch_id(struct node *n, const uint8_t topic_id[16])
{
	if (find(n, topic_id) == NULL)
		return;
	const struct state_topic *t = state_topic_by_id(meta_state(n->meta), topic_id);
	if (t != NULL)
		expiry_touch(n, t);
}

/* -------------------------------------------------------------------- sweep */

/* The one that is due first. Afterwards it is looked at later. */
static void look(struct expiry *x, struct expiring *e)
{
	const struct state_topic *t = state_topic_by_id(meta_state(x->node->meta), e->id);
	bool due = is_due(e);
	if (due && t != NULL)
		end_propose(e, t);
	int64_t again = engine_stamp_ms(x->node->engine) + AGAIN_MS;
	e->look_ms = due || e->deadline_ms < again - AGAIN_MS ? again : e->deadline_ms;
	heap_down(x, e->heap_index);
}

static void on_timer(void *arg)
{
	struct expiry *x = arg;
	if (x->node->phase != NODE_SERVING)
		return;
	int64_t now = engine_stamp_ms(x->node->engine);
	for (unsigned n = 0; n < SWEEP_MAX && x->n > 0 && x->heap[0]->look_ms <= now; n++)
		look(x, x->heap[0]);
	timer_set(x);
}

/* --------------------------------------------------------------------- life */

static struct expiry *expiry_of(struct node *n)
{
	if (n->expiry != NULL)
		return n->expiry;
	n->expiry = must_calloc(1, sizeof(*n->expiry));
	n->expiry->node = n;
	n->expiry->timer = (struct env_timer){ .on_fire = on_timer, .arg = n->expiry };
	return n->expiry;
}

static void add(struct node *n, const struct state_topic *t, bool is_new)
{
	if (!expires(t) || find(n, t->id) != NULL)
		return;
	struct expiry *x = expiry_of(n);
	struct expiring *e = must_calloc(1, sizeof(*e));
	memcpy(e->id, t->id, sizeof(e->id));
	e->node = n;
	e->deadline_ms = is_new && t->ttl_seconds != 0 ? later(engine_stamp_ms(n->engine), t->ttl_seconds)
						       : deadline_at_start(n, e, t);
	e->look_ms = e->deadline_ms;
	HASH_ADD(hh, x->topics, id, sizeof(e->id), e);
	heap_add(x, e);
	if (e->heap_index == 0)
		timer_set(x);
}

void expiry_add(struct node *n, const struct state_topic *t)
{
	if (n->phase == NODE_SERVING)
		add(n, t, true);
}

void expiry_begin(struct node *n)
{
	const struct state *s = meta_state(n->meta);
	const struct state_topic *t = state_topic_next(s, slice_of("", 0));
	for (; t != NULL; t = state_topic_next(s, slice_str(t->name)))
		add(n, t, false);
}

void expiry_remove(struct node *n, const uint8_t topic_id[16])
{
	struct expiring *e = find(n, topic_id);
	if (e == NULL)
		return;
	HASH_DEL(n->expiry->topics, e);
	heap_remove(n->expiry, e);
	e->next = n->expiry->removed;
	e->prev = &n->expiry->removed;
	if (e->next != NULL)
		e->next->prev = &e->next;
	n->expiry->removed = e;
	maybe_free(e);
}

void expiry_free(struct node *n)
{
	struct expiring *e, *next;
	if (n->expiry == NULL)
		return;
	for (e = n->expiry->removed; e != NULL; e = next) {
		next = e->next;
		free(e);
	}
	env_timer_stop(n->env, &n->expiry->timer);
	HASH_ITER(hh, n->expiry->topics, e, next) {
		HASH_DEL(n->expiry->topics, e);
		free(e);
	}
	free(n->expiry->heap);
	free(n->expiry);
	n->expiry = NULL;
}
