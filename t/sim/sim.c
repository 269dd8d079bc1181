/* SPDX-License-Identifier: Apache-2.0
 *
 * Event heap, random source, trace and processes of the simulated world. Invariant: events run in
 * (time, order) order and nothing else decides what happens next: no pointer, no hash order, no real clock.
 */
#include "t/sim/sim.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/must.h"

const char *const sim_fault_text[SIM_FAULT_N] = {
#define X(name, text) [SIM_##name] = text,
	SIM_FAULTS(X)
#undef X
};

/* ------------------------------------------------------------------- random */

static uint64_t splitmix(uint64_t *x)
{
	uint64_t z = (*x += 0x9e3779b97f4a7c15);
	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
	z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
	return z ^ (z >> 31);
}

void sim_rand_seed(struct sim_rand *r, uint64_t seed)
{
	for (int i = 0; i < 4; i++)
		r->s[i] = splitmix(&seed);
}

static uint64_t rotl(uint64_t x, int k)
{
	return (x << k) | (x >> (64 - k));
}

/* xoshiro256** */
uint64_t sim_rand_next(struct sim_rand *r)
{
	uint64_t *s = r->s, ret = rotl(s[1] * 5, 7) * 9, t = s[1] << 17;
	s[2] ^= s[0];
	s[3] ^= s[1];
	s[1] ^= s[2];
	s[0] ^= s[3];
	s[2] ^= t;
	s[3] = rotl(s[3], 45);
	return ret;
}

uint64_t sim_below(struct sim *s, uint64_t n)
{
	must(n > 0);
	return sim_rand_next(&s->rand) % n;
}

uint64_t sim_between(struct sim *s, uint64_t low, uint64_t high)
{
	must(low <= high);
	return low + sim_below(s, high - low + 1);
}

bool sim_chance(struct sim *s, unsigned per_mille)
{
	return sim_below(s, 1000) < per_mille;
}

bool sim_inject(struct sim *s, enum sim_fault fault, unsigned per_mille)
{
	if (!sim_chance(s, per_mille * s->fault_scale) || !s->faulty)
		return false;
	s->faults[fault]++;
	return true;
}

/* -------------------------------------------------------------------- trace */

static void mix(struct sim *s, uint64_t v)
{
	s->hash = (s->hash ^ v) * 0x100000001b3;
	s->hash ^= s->hash >> 29;
}

void sim_trace(struct sim *s, const char *tag, uint64_t a, uint64_t b)
{
	mix(s, s->now_ns);
	for (const char *c = tag; *c != '\0'; c++)
		mix(s, (uint8_t)*c);
	mix(s, a);
	mix(s, b);
	if (s->verbose)
		printf("%12.6f %s %" PRIu64 " %" PRIu64 "\n", (double)s->now_ns / 1e9, tag, a, b);
}

/* --------------------------------------------------------------------- heap */

static bool before(const struct sim_event *a, const struct sim_event *b)
{
	return a->at_ns != b->at_ns ? a->at_ns < b->at_ns : a->order < b->order;
}

static void heap_set(struct sim *s, size_t i, struct sim_event *e)
{
	s->heap[i] = e;
	e->heap_index = i;
}

static void heap_up(struct sim *s, size_t i, struct sim_event *e)
{
	for (; i > 0 && before(e, s->heap[(i - 1) / 2]); i = (i - 1) / 2)
		heap_set(s, i, s->heap[(i - 1) / 2]);
	heap_set(s, i, e);
}

static void heap_down(struct sim *s, size_t i, struct sim_event *e)
{
	for (;;) {
		size_t child = 2 * i + 1;
		if (child >= s->n_heap)
			break;
		if (child + 1 < s->n_heap && before(s->heap[child + 1], s->heap[child]))
			child++;
		if (!before(s->heap[child], e))
			break;
		heap_set(s, i, s->heap[child]);
		i = child;
	}
	heap_set(s, i, e);
}

static void heap_push(struct sim *s, struct sim_event *e)
{
	if (s->n_heap == s->heap_room) {
		s->heap_room = s->heap_room > 0 ? 2 * s->heap_room : 256;
		s->heap = must_realloc(s->heap, s->heap_room * sizeof(struct sim_event *));
	}
	heap_up(s, s->n_heap++, e);
}

static void heap_remove(struct sim *s, struct sim_event *e)
{
	size_t i = e->heap_index;
	must(i < s->n_heap && s->heap[i] == e);
	struct sim_event *last = s->heap[--s->n_heap];
	if (last == e)
		return;
	if (i > 0 && before(last, s->heap[(i - 1) / 2]))
		heap_up(s, i, last);
	else
		heap_down(s, i, last);
}

/* ------------------------------------------------------------------- events */

#define HELD SIZE_MAX

struct sim_event *sim_after(struct sim *s, uint64_t delay_ns, struct sim_proc *proc, const char *tag,
			    void (*run)(void *arg), void (*drop)(void *arg), void *arg)
{
	struct sim_event *e = must_calloc(1, sizeof(*e));
	*e = (struct sim_event){ .at_ns = s->now_ns + delay_ns, .order = ++s->order, .proc = proc, .run = run,
				 .drop = drop, .arg = arg, .tag = tag };
	heap_push(s, e);
	return e;
}

static void event_drop(struct sim_event *e)
{
	if (e->drop != NULL)
		e->drop(e->arg);
	free(e);
}

void sim_cancel(struct sim *s, struct sim_event *e)
{
	if (e->heap_index != HELD) {
		heap_remove(s, e);
		free(e);
		return;
	}
	struct sim_event **at = &e->proc->held;
	while (*at != e)
		at = &(*at)->held_next;
	*at = e->held_next;
	if (e->proc->held_tail == &e->held_next)
		e->proc->held_tail = at;
	free(e);
}

static void tell_death(struct sim_proc *p)
{
	if (p->state != SIM_DEAD || p->death_told)
		return;
	p->death_told = true;
	p->deferred = NULL;
	while (p->held != NULL) {
		struct sim_event *e = p->held;
		p->held = e->held_next;
		event_drop(e);
	}
	p->held_tail = &p->held;
	if (p->on_dead != NULL)
		p->on_dead(p, p->arg);
}

static void run_deferred(struct sim_proc *p)
{
	while (p->deferred != NULL && p->state == SIM_RUNNING) {
		struct env_task *t = p->deferred;
		p->deferred = t->next;
		if (p->deferred == NULL)
			p->deferred_tail = &p->deferred;
		t->queued = false;
		t->run(t->arg);
	}
}

static void hold(struct sim_event *e)
{
	e->heap_index = HELD;
	e->held_next = NULL;
	*e->proc->held_tail = e;
	e->proc->held_tail = &e->held_next;
}

bool sim_turn(struct sim *s)
{
	if (s->n_heap == 0)
		return false;
	struct sim_event *e = s->heap[0];
	heap_remove(s, e);
	if (e->at_ns > s->now_ns)
		s->now_ns = e->at_ns;
	struct sim_proc *p = e->proc;
	if (p != NULL && p->state == SIM_DEAD) {
		event_drop(e);
		return true;
	}
	if (p != NULL && p->state == SIM_PAUSED) {
		hold(e);
		return true;
	}
	s->n_events++;
	sim_trace(s, e->tag, p != NULL ? p->id : 0, e->order);
	void (*run)(void *) = e->run;
	void *arg = e->arg;
	free(e);
	run(arg);
	if (p != NULL)
		run_deferred(p);
	for (p = s->procs; p != NULL; p = p->next)
		tell_death(p);
	return true;
}

/* ---------------------------------------------------------------- processes */

struct sim_proc *sim_proc_new(struct sim *s, void (*on_dead)(struct sim_proc *p, void *arg), void *arg)
{
	struct sim_proc *p = must_calloc(1, sizeof(*p));
	p->env.ops = &sim_env_ops;
	p->sim = s;
	p->id = ++s->n_procs;
	p->next = s->procs;
	s->procs = p;
	p->deferred_tail = &p->deferred;
	p->held_tail = &p->held;
	p->on_dead = on_dead;
	p->arg = arg;
	sim_rand_seed(&p->rand, sim_rand_next(&s->rand));
	p->boot_offset_ns = sim_between(s, 1, 1000) * SIM_S;
	p->wall_offset_ms = 1700000000000 + (int64_t)sim_below(s, 2000);
	return p;
}

void sim_kill(struct sim_proc *p, const char *why)
{
	if (p->state == SIM_DEAD)
		return;
	p->state = SIM_DEAD;
	p->why = why;
	sim_trace(p->sim, why, p->id, 0);
}

void sim_pause(struct sim_proc *p)
{
	if (p->state == SIM_RUNNING)
		p->state = SIM_PAUSED;
}

void sim_resume(struct sim_proc *p)
{
	if (p->state != SIM_PAUSED)
		return;
	p->state = SIM_RUNNING;
	while (p->held != NULL) {
		struct sim_event *e = p->held;
		p->held = e->held_next;
		e->at_ns = p->sim->now_ns;
		e->order = ++p->sim->order;
		heap_push(p->sim, e);
	}
	p->held_tail = &p->held;
}

void sim_in_turn(struct sim_proc *p, const char *tag, void (*fn)(void *arg), void (*drop)(void *arg), void *arg)
{
	sim_after(p->sim, 0, p, tag, fn, drop, arg);
}

bool sim_io_fails(const struct sim *s)
{
	return s->faulty && s->fail_from_step != 0 && s->steps >= s->fail_from_step;
}

bool sim_io_step(struct sim_proc *p)
{
	struct sim *s = p->sim;
	if (p->state == SIM_DEAD)
		return false;
	s->steps++;
	bool by_chance = s->crash_per_million > 0 && sim_below(s, 1000000) < s->crash_per_million && s->faulty;
	if (s->steps != s->crash_at_step && !by_chance)
		return true;
	s->faults[SIM_KILL_AT_IO]++;
	sim_kill(p, "killed at an I/O step");
	return false;
}

/* -------------------------------------------------------------------- world */

void sim_init(struct sim *s, uint64_t seed)
{
	*s = (struct sim){ .hash = 0xcbf29ce484222325 ^ seed, .now_ns = SIM_S, .fault_scale = 1 };
	sim_rand_seed(&s->rand, seed);
}

void sim_done(struct sim *s)
{
	for (struct sim_proc *p = s->procs; p != NULL; p = p->next) {
		sim_kill(p, "end of the run");
		tell_death(p);
	}
	while (s->n_heap > 0) {
		struct sim_event *e = s->heap[s->n_heap - 1];
		heap_remove(s, e);
		event_drop(e);
	}
	while (s->procs != NULL) {
		struct sim_proc *p = s->procs;
		s->procs = p->next;
		must(p->n_segments == 0);
		free(p);
	}
	free(s->heap);
	*s = (struct sim){ 0 };
}
