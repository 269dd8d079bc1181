/* SPDX-License-Identifier: Apache-2.0
 *
 * Tops and pages of data objects, read on demand and kept while they are used: what a lookup needs beside the
 * catalogue. Every byte is checked before it is given out.
 *
 * The pattern: ask; NULL means that it is being read, and the waiter given runs once when asking again makes sense.
 * Bounds: --index-cache-size for what is kept (but for the last few), the least recently used goes; one read under way for each top or page
 * however many wait. Owned by the engine, loop thread only.
 */
#ifndef STORAGED_ENGINE_INDEX_CACHE_H
#define STORAGED_ENGINE_INDEX_CACHE_H

#include "common/env.h"
#include "storaged/data/data_format.h"
#include "storaged/objstore/objstore.h"

struct index_cache;

struct index_wait {
	/* fault: NULL, or why it cannot be had, which is final: missing says that the store has no such object. */
	void (*on_ready)(struct index_wait *w, const char *fault, bool missing);
	struct index_wait *next, **prev;        /* private; prev is NULL while it does not wait */
};

/* may_look is asked before an answer of the store is looked at; false: the process is leaving. */
struct index_cache *index_cache_new(struct env *env, struct objstore *store, uint64_t bytes_max,
				    bool (*may_look)(void *arg), void *arg);
/* The store is freed already, or has nothing of it outstanding. Nobody waits. */
void index_cache_free(struct index_cache *c);

/* What is given out is valid until the loop turns or another call of this cache. */
const struct data_top *index_cache_top(struct index_cache *c, struct object_id id, struct index_wait *w);
/* A page of that object's top. An empty slice: being read. */
struct slice index_cache_index_page(struct index_cache *c, struct object_id id, const struct data_page *p,
				    struct index_wait *w);
struct slice index_cache_state_page(struct index_cache *c, struct object_id id, const struct data_page *p,
				    struct index_wait *w);
/* The waiter will not run. Fine when it does not wait. */
void index_wait_stop(struct index_wait *w);

uint64_t index_cache_bytes(const struct index_cache *c);        /* kept, for metrics and tests */

#endif
