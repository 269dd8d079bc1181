/* SPDX-License-Identifier: Apache-2.0
 *
 * Objects under the node's own prefixes that are none of its: names that no object of a node has, and names of sessions that
 * never were. Somebody put them there, or an older database forgot them. They stay for ever.
 */
#include <stdio.h>
#include <string.h>

#include "t/sim/run.h"

static const char *const data[] = { "data/1/notes.txt", "data/1/fffffffffffffff0/0000000000000001" };
static const char *const wal[] = {
	"wal/1/notes.txt", "wal/1/fffffffffffffff0/0000000000000003",
	"wal/1/a-name-that-is-longer-than-any-name-of-an-object-of-a-node-ever-was-or-will-be-in-this-place",
};
#define N_DATA (sizeof(data) / sizeof(data[0]))
#define N_WAL (sizeof(wal) / sizeof(wal[0]))

void aliens_begin(struct run *r)
{
	for (size_t i = 0; i < N_DATA; i++)
		sim_bucket_add(&r->bucket, data[i], slice_str("not yours"));
	for (size_t i = 0; i < N_WAL; i++)
		sim_bucket_add(r->two_buckets ? &r->wal_bucket : &r->bucket, wal[i], slice_str("not yours"));
	r->sim.faults[SIM_ALIEN] += N_DATA + N_WAL;
}

bool alien_is(const struct run *r, const char *key)
{
	bool is = false;
	for (size_t i = 0; r->has_aliens && i < N_DATA; i++)
		is |= strcmp(key, data[i]) == 0;
	for (size_t i = 0; r->has_aliens && i < N_WAL; i++)
		is |= strcmp(key, wal[i]) == 0;
	return is;
}

void aliens_audit(struct run *r)
{
	for (size_t i = 0; i < N_DATA; i++)
		if (sim_bucket_find(&r->bucket, data[i]) == NULL)
			run_fault(r, "%s was deleted, and was not the node's", data[i]);
	for (size_t i = 0; i < N_WAL; i++)
		if (sim_bucket_find(r->two_buckets ? &r->wal_bucket : &r->bucket, wal[i]) == NULL)
			run_fault(r, "%s was deleted, and was not the node's", wal[i]);
}
