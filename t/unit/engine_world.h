/* SPDX-License-Identifier: Apache-2.0
 *
 * A small deterministic world for tests of the engine: a clock that the test moves, tasks, segments from
 * the heap, and an object store whose puts the test may hold and end one by one, in any order and way.
 */
#ifndef T_UNIT_ENGINE_WORLD_H
#define T_UNIT_ENGINE_WORLD_H

#include "storaged/objstore/objstore.h"

#define WORLD_OPS 4096

enum world_end {
	END_OK,                         /* by the rules: stored, or -EEXIST */
	END_LOST,                       /* UNKNOWN, no effect */
	END_ANSWER_LOST,                /* UNKNOWN, with its effect */
	END_ERROR,                      /* NOT_APPLIED with world.error */
	END_BLIND,                      /* stored although the key is taken */
};

struct world_object {
	char key[128];
	uint8_t *data;
	size_t n;
};

struct world_op {
	bool is_put, is_suffix, if_absent;
	char key[128];
	struct iovec iov[64];
	int n_iov;
	uint8_t *copy;                  /* of a put's bytes when it was sent */
	size_t n;
	uint64_t offset, length;
	obj_done_cb *on_done;
	obj_get_cb *on_get;
	obj_list_cb *on_list;
	obj_uploads_cb *on_uploads;
	void *arg;
};

struct world {
	struct env env;                 /* first */
	struct objstore store;
	uint64_t now_ms;
	int64_t wall_offset_ms;
	uint64_t random;
	struct env_timer *timers[WORLD_OPS];
	size_t n_timers;
	uint64_t order;
	struct env_task *tasks, **tasks_tail;
	size_t n_segments, n_segments_made;     /* now, and ever */
	struct world_object objects[WORLD_OPS];
	size_t n_objects;
	struct world_op *ops[WORLD_OPS];        /* outstanding, in the order they were sent */
	size_t n_ops;
	bool hold_puts, hold_gets;      /* else world_run() ends them by the rules */
	int error;                      /* of END_ERROR */
	size_t n_puts, n_gets;          /* sent */
	char upload[128];               /* key of one that nobody ended; "": none */
};

void world_init(struct world *w);
void world_done(struct world *w);       /* objects, too; every op outstanding is forgotten */
/* Forgets tasks, timers and ops, as the end of a process does; objects stay. */
void world_crash(struct world *w);

/* Tasks and answers until nothing is left to do at this time. */
void world_run(struct world *w);
/* Moves the clock, firing timers on the way, running everything. */
void world_advance(struct world *w, uint64_t ms);

/* The n-th outstanding put; NULL. */
struct world_op *world_put_at(struct world *w, size_t n);
size_t world_puts(struct world *w);
/* Ends an op and frees it; its callback runs. */
void world_end_op(struct world *w, struct world_op *op, enum world_end how);

struct world_object *world_find(struct world *w, const char *key);
void world_store(struct world *w, const char *key, const void *data, size_t n);
void world_remove(struct world *w, const char *key);

#endif
