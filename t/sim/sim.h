/* SPDX-License-Identifier: Apache-2.0
 *
 * The simulated world: one clock, one heap of events ordered by (time, order), one random source.
 * Everything that happens in a run follows from its seed, so a run can be played again: each event is
 * mixed into a trace hash that two runs of one seed share.
 *
 * A process (struct sim_proc) is a struct env. It may be paused (its events wait) and die at any I/O step; what it
 * does after its death in the turn it died in has no effect.
 */
#ifndef T_SIM_SIM_H
#define T_SIM_SIM_H

#include "common/env.h"
#include "t/sim/faults.h"

#define SIM_MS 1000000ull
#define SIM_S (1000 * SIM_MS)

struct sim_rand {
	uint64_t s[4];
};
void sim_rand_seed(struct sim_rand *r, uint64_t seed);
uint64_t sim_rand_next(struct sim_rand *r);

struct sim_proc;

struct sim_event {
	uint64_t at_ns, order;
	struct sim_proc *proc;          /* NULL: the world's own */
	void (*run)(void *arg);
	void (*drop)(void *arg);        /* instead of run when proc is dead; may be NULL */
	void *arg;
	const char *tag;                /* a literal, for the trace */
	size_t heap_index;
	struct sim_event *held_next;    /* of a paused process */
};

struct sim {
	uint64_t now_ns;
	uint64_t order;                 /* of the last event made */
	uint64_t n_events;              /* run so far */
	uint64_t hash;                  /* of the trace */
	struct sim_rand rand;
	struct sim_event **heap;
	size_t n_heap, heap_room;
	struct sim_proc *procs;         /* newest first; live until sim_done() */
	unsigned n_procs;
	uint64_t faults[SIM_FAULT_N];
	bool faulty;                    /* injections are on */
	unsigned fault_scale;           /* chances of injections are multiplied by it */
	uint64_t steps;                 /* I/O steps so far */
	uint64_t crash_at_step;         /* the process that makes this step dies; 0: never */
	uint64_t fail_from_step;        /* every operation from this step on fails until `faulty` ends; 0: never */
	unsigned crash_per_million;     /* chance that an I/O step kills */
	bool verbose;                   /* print the trace */
};

void sim_init(struct sim *s, uint64_t seed);
/* Drops every event and frees the processes. */
void sim_done(struct sim *s);

uint64_t sim_below(struct sim *s, uint64_t n);          /* 0..n-1 */
uint64_t sim_between(struct sim *s, uint64_t low, uint64_t high);
bool sim_chance(struct sim *s, unsigned per_mille);
/* A fault that is injected with that chance while injections are on; counted when it is. */
bool sim_inject(struct sim *s, enum sim_fault fault, unsigned per_mille);

/* An event after delay_ns; freed when it has run. */
struct sim_event *sim_after(struct sim *s, uint64_t delay_ns, struct sim_proc *proc, const char *tag,
			    void (*run)(void *arg), void (*drop)(void *arg), void *arg);
void sim_cancel(struct sim *s, struct sim_event *e);
/* Runs the next event. False when there is none. */
bool sim_turn(struct sim *s);

/* Mixes a fact into the trace. */
void sim_trace(struct sim *s, const char *tag, uint64_t a, uint64_t b);

/* ---------------------------------------------------------------- processes */

enum sim_proc_state { SIM_RUNNING, SIM_PAUSED, SIM_DEAD };

struct sim_proc {
	struct env env;                 /* first: the table's functions cast back */
	struct sim *sim;
	struct sim_proc *next;
	unsigned id;                    /* from 1, in order of start */
	enum sim_proc_state state;
	struct sim_rand rand;
	uint64_t boot_offset_ns;        /* CLOCK_BOOTTIME - the world's time */
	int64_t wall_offset_ms;
	struct env_task *deferred, **deferred_tail;
	struct sim_event *held, **held_tail;
	size_t n_segments;              /* not freed */
	const char *why;                /* it died */
	/* Once, after the turn in which it died: frees what ran in it. */
	void (*on_dead)(struct sim_proc *p, void *arg);
	void *arg;
	bool death_told;
};

struct sim_proc *sim_proc_new(struct sim *s, void (*on_dead)(struct sim_proc *p, void *arg), void *arg);
void sim_kill(struct sim_proc *p, const char *why);
void sim_pause(struct sim_proc *p);
void sim_resume(struct sim_proc *p);
/* Runs fn as a turn of p's loop, at once; fine when p is dead (nothing happens) or paused (it waits). */
void sim_in_turn(struct sim_proc *p, const char *tag, void (*fn)(void *arg), void (*drop)(void *arg), void *arg);

/* One I/O step of p: may kill it (false then: the step did not happen). */
bool sim_io_step(struct sim_proc *p);
/* Every operation fails from here on (fail-for-ever form of a crash at a step). */
bool sim_io_fails(const struct sim *s);

extern const struct env_ops sim_env_ops;

#endif
