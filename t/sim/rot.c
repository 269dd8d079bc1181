/* SPDX-License-Identifier: Apache-2.0
 *
 * Objects that a store gives back damaged, cut off or not at all for a while, and then whole again: a bad disk behind it, or an
 * operator who put the copy back. Whoever reads one in that time may fail and may leave, and must not conclude
 * anything from it: afterwards all is there.
 *
 * WAL objects are never missing: a missing one may be the end of its session, and nobody could know better.
 */
#include <stdlib.h>

#include "common/must.h"
#include "t/sim/run.h"

struct rot {
	struct sim_bucket *bucket;
	char *key;
	uint64_t number;
};

static void rot_free(void *arg)
{
	struct rot *x = arg;
	free(x->key);
	free(x);
}

static void rot_end(void *arg)
{
	struct rot *x = arg;
	sim_bucket_heal(x->bucket, x->key, x->number);
	rot_free(x);
}

static uint64_t rot_key(struct run *r, struct sim_bucket *b, const char *key, enum sim_rot kind)
{
	uint8_t *bytes = kind == SIM_FORGED ? forge_damage(&r->sim, sim_bucket_find(b, key)) : NULL;
	if (kind == SIM_FORGED)
		return bytes != NULL ? sim_bucket_forge(b, key, bytes) : 0;
	return sim_bucket_rot(b, key, kind);
}

static void rot_one(struct run *r, struct sim_bucket *b, const char *prefix, enum sim_rot kind)
{
	struct sim *s = &r->sim;
	size_t n;
	char **keys = sim_bucket_keys(b, prefix, &n);
	/* The newest is what its writer looks at when an answer was lost. */
	const char *key = n > 0 ? keys[sim_chance(s, 300) ? n - 1 : sim_below(s, n)] : NULL;
	uint64_t number = key != NULL ? rot_key(r, b, key, kind) : 0;
	if (number != 0) {
		struct rot *x = must_calloc(1, sizeof(*x));
		*x = (struct rot){ .bucket = b, .key = must_strdup(key), .number = number };
		sim_after(s, sim_between(s, 50 * SIM_MS, 4 * SIM_S), NULL, "rot ends", rot_end, rot_free, x);
	}
	free(keys);
}

static void rot_wal(struct run *r)
{
	static const enum sim_rot kinds[] = { SIM_FLIPPED, SIM_CUT_OFF, SIM_FORGED, SIM_FORGED };
	struct sim *s = &r->sim;
	struct sim_bucket *b = r->two_buckets ? &r->wal_bucket : &r->bucket;
	size_t n;
	/* To a restore the highest epoch that it sees is the present one, and a log of this world has no lower one. */
	if (sim_chance(s, 600) || r->loses_database) {
		rot_one(r, b, "wal/1/", kinds[sim_below(s, 4)]);
		return;
	}
	char **keys = sim_bucket_keys(b, "wal/1/", &n);
	if (n > 0)
		forge_epoch(r, b, keys[sim_below(s, n)]);
	free(keys);
}

static void rot_some(void *arg)
{
	struct run *r = arg;
	struct sim *s = &r->sim;
	if (!r->nemesis)
		return;
	if (sim_chance(s, 200))
		rot_wal(r);
	else
		rot_one(r, &r->bucket, "data/", (enum sim_rot)sim_between(s, SIM_FLIPPED, SIM_GONE));
	sim_after(s, sim_between(s, 20 * SIM_MS, 500 * SIM_MS), NULL, "rot", rot_some, NULL, r);
}

void rot_begin(struct run *r)
{
	sim_after(&r->sim, SIM_S, NULL, "rot", rot_some, NULL, r);
}
