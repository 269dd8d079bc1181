/* SPDX-License-Identifier: Apache-2.0
 *
 * A simulated object store. A bucket is what is durable and shared; a store is one process's handle on
 * it, a struct objstore. An operation has two moments: its effect on the bucket (which may come long after, even
 * after its sender died) and its answer (which may be lost or come before the effect as UNKNOWN).
 */
#ifndef T_SIM_SIM_STORE_H
#define T_SIM_SIM_STORE_H

#include "storaged/objstore/objstore.h"
#include "t/sim/sim.h"

#include <uthash.h>

/* What gets say of an object for a while. */
enum sim_rot { SIM_WHOLE, SIM_FLIPPED, SIM_CUT_OFF, SIM_GONE, SIM_FORGED };

struct sim_object {
	char *key;
	uint8_t *data;
	size_t size;
	enum sim_rot rot;
	size_t rot_at;                  /* flipped: the byte; cut off: the size */
	uint64_t rot_number;
	uint8_t *forged;                /* of the same size; owned */
	UT_hash_handle hh;
};

/* Of an upload that has not ended. */
struct sim_part {
	struct sim_part *next;
	uint64_t upload_id;
	unsigned part;
	char *key;
	uint8_t *data;
	size_t size;
};

enum sim_weather { SIM_FAIR, SIM_BURST, SIM_FULL, SIM_EIO, SIM_AWAY, SIM_SLOW };

struct sim_bucket {
	struct sim *sim;
	struct sim_object *objects;
	struct sim_part *parts;         /* by upload, by number */
	uint64_t n_uploads_ever;
	enum sim_weather weather;
	uint64_t n_puts;                /* effects */
	uint64_t n_rots;
	struct sim_object *exports;     /* every metadata export that was ever stored */
	size_t n_exports;
	char **deleted;                 /* keys that were there, ever */
	size_t n_deleted;
	bool no_corruption;             /* bodies of gets come back as they are */
	uint64_t get_ns_max;            /* gets take up to so much longer, in fair weather, too; not 0 */
};

void sim_bucket_init(struct sim_bucket *b, struct sim *s);
void sim_bucket_done(struct sim_bucket *b);
/* An object that nobody put. */
void sim_bucket_add(struct sim_bucket *b, const char *key, struct slice bytes);
const struct sim_object *sim_bucket_find(const struct sim_bucket *b, const char *key);
/* Keys that begin with prefix in bytewise order; the array is the caller's, the keys are not. */
char **sim_bucket_keys(const struct sim_bucket *b, const char *prefix, size_t *ret_n);
/* A period of bad weather, or its end; counted. */
void sim_bucket_weather(struct sim_bucket *b, enum sim_weather w);

/*
 * An object is damaged or missing until the returned number is given back, or it is deleted or put again. Lists, gets
 * and the audit's look agree. 0: there is no object of that key, or it is so already.
 */
uint64_t sim_bucket_rot(struct sim_bucket *b, const char *key, enum sim_rot rot);
/* The same with bytes in its place, which become the bucket's. */
uint64_t sim_bucket_forge(struct sim_bucket *b, const char *key, uint8_t *bytes);
void sim_bucket_heal(struct sim_bucket *b, const char *key, uint64_t number);
/* Every object is whole again. */
void sim_bucket_heal_all(struct sim_bucket *b);

/* Freed with its free op. */
struct objstore *sim_store_new(struct sim_bucket *b, struct sim_proc *p);

#endif
