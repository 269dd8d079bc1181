/* SPDX-License-Identifier: Apache-2.0
 *
 * An operator puts yesterday's database in the place of today's: a copy is made, the node goes on until an export of a later
 * row stands in the bucket (or is started again), everybody dies, and starts come up on the copy. Each must be refused before it does anything:
 * to go on would be to lose what was acknowledged since. Then the real one is put back, and nothing is lost.
 */
#include "t/sim/run.h"

#include "storaged/meta/export_format.h"

#define WRITES_NS (5 * SIM_S)
#define REFUSES_NS (6 * SIM_S)
#define SERVES_NS (90 * SIM_S)

static uint64_t newest_export(const struct run *r)
{
	uint64_t newest = 0, idx;
	for (const struct sim_object *o = r->bucket.objects; o != NULL; o = o->hh.next)
		if (export_key_parse(o->key, &idx) && idx > newest)
			newest = idx;
	return newest;
}

static bool is_proved(struct run *r)
{
	return newest_export(r) > sim_db_last(&r->older)->idx;
}

static bool somebody_serves(struct run *r)
{
	return nodes_serving(r) != NULL;
}

/* Clients go on until an export is newer than the copy. */
static bool go_on(struct run *r)
{
	r->loading = true;
	for (unsigned i = 0; i < RUN_CLIENTS; i++)
		client_wake(&r->clients[i], SIM_MS);
	bool proved = run_until(r, is_proved, WRITES_NS);
	r->loading = false;
	if (!r->failed && !run_until(r, load_is_quiet, SERVES_NS))
		run_fault(r, "before an older database: a call has no end");
	return proved && !r->failed;
}

/* One more start, whose session number the copy would give again: its open object proves as much as an export. */
static bool start_once_more(struct run *r)
{
	return nodes_kill_all(r, "a start that the copy does not know") && run_until(r, somebody_serves, SERVES_NS) &&
	       run_until(r, nodes_are_settled, SERVES_NS);
}

/* On the copy nobody serves. Starts that end begin anew meanwhile. */
static void try_older(struct run *r)
{
	r->database = &r->older;
	if (nodes_kill_all(r, "an older database takes its place") && run_until(r, somebody_serves, REFUSES_NS))
		run_fault(r, "a node serves on a database that the bucket proves to be older");
	r->sim.faults[SIM_DATABASE_OLD]++;
	r->database = &r->db;
	if (!r->failed && nodes_kill_all(r, "the database is put back"))
		nodes_keep_up(r);
	if (!r->failed && !run_until(r, nodes_are_settled, SERVES_NS))
		run_fault(r, "the database is back, and no node serves");
}

void older_database(struct run *r)
{
	sim_db_copy(&r->older, &r->db);
	if (sim_db_last(&r->older) == NULL)
		return;
	bool proved = go_on(r);
	if (!r->failed && run_until(r, nodes_are_settled, SERVES_NS) && (proved || start_once_more(r)))
		try_older(r);
}
