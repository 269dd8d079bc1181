/* SPDX-License-Identifier: Apache-2.0
 *
 * Lists of partitions with positions, for fetches. A list with a number stays until its connection ends, so that
 * later fetches say only what changed; one without lives as long as its fetch.
 *
 * Each entry is parked on its log all the time and is in one of three places: todo (something changed, nobody
 * looked yet), ready (it has something to be answered), or nowhere. So a fetch costs what changed, not what is in
 * the list. An entry's log is a pointer into the engine only while it is parked there.
 */
#ifndef STORAGED_WATCH_H
#define STORAGED_WATCH_H

#include "storaged/op.h"

#define WATCHES_MAX 10000u              /* with numbers, a node */
#define WATCHED_MAX 2000000u            /* entries in them */

enum watch_place { WATCH_NOWHERE, WATCH_TODO, WATCH_READY, WATCH_FORGOTTEN };

struct watch_entry {
	struct engine_wait wait;        /* log NULL: there is none here */
	struct watch *watch;
	struct watch_entry *prev, *next;        /* in the list of its place */
	uint64_t offset;
	uint64_t told;                  /* high watermark last answered; UINT64_MAX: none */
	uint8_t topic_id[16];
	uint32_t partition, index;      /* index: in the order of addition */
	uint32_t max_bytes;
	uint32_t bytes;                 /* there to be fetched, when last looked at */
	int32_t leader_epoch;
	uint8_t place;                  /* enum watch_place */
	bool failed;                    /* watch_entry_check() has an error */
};

struct watch_key {
	uint64_t peer, number;          /* number 0: of one fetch alone */
};

struct watch {
	UT_hash_handle hh;
	struct watch_key key;
	struct node *node;
	struct op *op;                  /* the fetch under way, or NULL */
	void (*on_change)(struct op *op);       /* an entry came to todo while op is under way */
	struct watch_entry *todo, *ready;
	uint64_t bytes;                 /* sum over ready */
	uint32_t n_failed;              /* of ready */
	struct watch_entry **entry;     /* by index */
	uint32_t n, capacity, n_live;   /* live: not forgotten */
	uint32_t *slots;                /* hash of index + 1; with a number only */
	uint32_t n_slots;
	struct watch_block *blocks;     /* memory of the entries; owned */
};

/* NULL when there is none. */
struct watch *watch_find(struct node *n, uint64_t peer, uint64_t number);
/* NULL: too many. Number 0: a list for one fetch. */
struct watch *watch_new(struct node *n, uint64_t peer, uint64_t number);
void watch_free(struct watch *w);

/* Adds entries, or changes those of the same partition (with a number only). -ENOBUFS: too many; the watch is half
 * done and must be freed. -ESTALE: so much was forgotten that the list must be made anew. */
int watch_add(struct watch *w, Ipc__FetchRequest__Part *const *parts, size_t n);
void watch_forget(struct watch *w, Ipc__FetchRequest__Part *const *parts, size_t n);

/* A new fetch: everything ready is looked at again. */
void watch_begin(struct watch *w);
/* Works todo off. */
void watch_look(struct watch *w);
/* An entry of ready was answered: to the end of the line. */
void watch_answered(struct watch_entry *e);

/* False: the entry has this error. Else it has a log and start <= offset <= confirm. */
bool watch_entry_check(struct watch_entry *e, struct pico_error *ret_error);

/* The connection is gone; none of its fetches is under way. */
void watches_drop_peer(struct node *n, uint64_t peer);
/* With the node, behind the engine: nothing is parked any more. */
void watches_free(struct node *n);

#endif
