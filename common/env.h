/* SPDX-License-Identifier: Apache-2.0
 *
 * The world as a role sees it: clock, timers, random, memory segments, jobs, and the end of the
 * process. No role calls the OS but through this table; common/env_uv.c is the real one, t/sim/ has
 * the simulated one. Object stores (storaged/objstore/objstore.h) and the metadata database
 * (storaged/meta/sql_log.h) are tables of their own beside it.
 *
 * One thread, the loop, calls everything here except env_post().
 */
#ifndef COMMON_ENV_H
#define COMMON_ENV_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct env;

/* Embedded in its owner; zero-initialised. Fires once. */
struct env_timer {
	uint64_t at_ms;                 /* CLOCK_BOOTTIME; 0 when not started */
	void (*on_fire)(void *arg);
	void *arg;
	uint64_t order;                 /* private: ties in the order they were started */
	uint32_t heap_index;            /* private */
};

/* Something to run later on the loop. Embedded in its owner; zero-initialised. */
struct env_task {
	struct env_task *next;          /* private */
	void (*run)(void *arg);
	void *arg;
	bool queued;                    /* private */
};

/* A pure function over immutable input, run on another thread; `done` runs on the loop. */
struct env_job {
	void (*work)(void *arg);
	void (*done)(void *arg);
	void *arg;
	void *impl;                     /* private */
};

/* Memory that can be passed to workers: a memfd, sealed so that nobody else can write or shrink it. */
struct env_segment {
	uint8_t *base;
	size_t size;
	int fd;                         /* -1 in simulation */
};

enum env_segment_kind {
	ENV_SEGMENT_SHARED_READ,        /* F_SEAL_FUTURE_WRITE | SHRINK | GROW | SEAL after mapping */
	ENV_SEGMENT_INBOX,              /* SHRINK | GROW | SEAL: a worker writes, storaged reads */
};

struct env_ops {
	uint64_t (*now_ms)(struct env *);               /* CLOCK_BOOTTIME */
	uint64_t (*now_ns)(struct env *);               /* the same, for measuring */
	int64_t (*wall_ms)(struct env *);               /* CLOCK_REALTIME; may step */
	void (*random)(struct env *, void *p, size_t n);
	void (*timer_start)(struct env *, struct env_timer *, uint64_t at_ms);  /* moves a started one */
	void (*timer_stop)(struct env *, struct env_timer *);                   /* fine when not started */
	void (*defer)(struct env *, struct env_task *);  /* once, at the end of this loop turn */
	void (*post)(struct env *, struct env_task *);   /* once, on the loop; from any thread */
	void (*job)(struct env *, struct env_job *);
	int (*segment_new)(struct env *, enum env_segment_kind, size_t size, struct env_segment *ret);
	void (*segment_free)(struct env *, struct env_segment *);
	/* The process leaves at once (fenced, fsync of a directory failed). In simulation this returns:
	 * the caller returns, too, and only _free functions are called afterwards. */
	void (*die)(struct env *, const char *why);
};

struct env {
	const struct env_ops *ops;
};

static inline uint64_t env_now_ms(struct env *e) { return e->ops->now_ms(e); }
static inline uint64_t env_now_ns(struct env *e) { return e->ops->now_ns(e); }
static inline int64_t env_wall_ms(struct env *e) { return e->ops->wall_ms(e); }
static inline void env_random(struct env *e, void *p, size_t n) { e->ops->random(e, p, n); }
static inline void env_timer_start(struct env *e, struct env_timer *t, uint64_t at_ms) { e->ops->timer_start(e, t, at_ms); }
static inline void env_timer_stop(struct env *e, struct env_timer *t) { e->ops->timer_stop(e, t); }
static inline void env_defer(struct env *e, struct env_task *t) { e->ops->defer(e, t); }
static inline void env_post(struct env *e, struct env_task *t) { e->ops->post(e, t); }

/* An outcome of storage or SQL. UNKNOWN is neither success nor failure: it may still happen. */
enum outcome {
	OUTCOME_OK,
	OUTCOME_NOT_APPLIED,
	OUTCOME_UNKNOWN,
};

#endif
