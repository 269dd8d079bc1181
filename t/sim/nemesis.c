/* SPDX-License-Identifier: Apache-2.0
 *
 * What goes wrong besides single operations: deaths, pauses with a second start beside, weather of the
 * store, outages of the database, steps of the wall clock, orderly stops.
 */
#include <stdlib.h>

#include "common/metrics.h"
#include "t/sim/run.h"

struct pause {
	struct run *run;
	struct sim_node *node;
};

static void thaw(void *arg)
{
	struct pause *p = arg;
	if (p->node->proc->state == SIM_PAUSED) {
		if (p->node != p->run->nodes)
			p->run->sim.faults[SIM_ZOMBIE]++;
		if (sim_inject(&p->run->sim, SIM_SLEEP, 30))    /* the machine slept: only its clock shows it */
			p->node->proc->boot_offset_ns += sim_between(&p->run->sim, 1, 30) * 3600 * SIM_S;
		sim_trace(&p->run->sim, "thaw", p->node->proc->id, 0);
		sim_resume(p->node->proc);
	}
	free(p);
}

static void second_start(void *arg)
{
	struct pause *p = arg;
	if (p->run->nemesis && p->run->nodes == p->node)
		node_begin(p->run);
	free(p);
}

static struct pause *pause_new(struct run *r, struct sim_node *n)
{
	struct pause *p = malloc(sizeof(*p));
	*p = (struct pause){ .run = r, .node = n };
	return p;
}

/* Frozen, and mostly a new start beside it before it thaws: long before, or while that one still recovers. */
static void freeze(struct run *r, struct sim_node *n)
{
	struct sim *s = &r->sim;
	uint64_t kind = sim_below(s, 10);
	uint64_t length = kind < 4 ? sim_below(s, 80 * SIM_MS) : kind < 7 ? sim_below(s, 3 * SIM_S) : sim_below(s, 30 * SIM_S);
	s->faults[SIM_PAUSE]++;
	sim_pause(n->proc);
	sim_trace(s, "freeze", n->proc->id, length);
	sim_after(s, length, NULL, "thaw", thaw, free, pause_new(r, n));
	if (sim_chance(s, 800))
		sim_after(s, sim_below(s, length / 2 + SIM_MS), NULL, "second start", second_start, free, pause_new(r, n));
}

static void fair_again(void *arg)
{
	struct run *r = arg;
	sim_bucket_weather(&r->bucket, SIM_FAIR);
	sim_bucket_weather(&r->wal_bucket, SIM_FAIR);
}

static void database_back(void *arg)
{
	struct run *r = arg;
	sim_db_away(&r->db, false);
}

static void bad_weather(struct run *r)
{
	struct sim *s = &r->sim;
	struct sim_bucket *b = r->two_buckets && sim_chance(s, 800) ? &r->wal_bucket : &r->bucket;
	sim_bucket_weather(b, (enum sim_weather)sim_between(s, SIM_BURST, SIM_SLOW));
	sim_after(s, sim_between(s, 50 * SIM_MS, 4 * SIM_S), NULL, "fair", fair_again, NULL, r);
}

/* Everything the node took is answered. */
static void on_stopped(void *arg)
{
	struct sim_node *n = arg;
	if (n->proc->state == SIM_DEAD)
		return;
	if (calls_are_open(n))
		run_fault(n->run, "a stop left a call without an answer");
	n->run->sim.faults[SIM_STOP]++;
	sim_kill(n->proc, "stopped");
}

static void stop_turn(void *arg)
{
	struct sim_node *n = arg;
	n->stopping = true;
	node_stop(n->node, on_stopped, n);
	if (n->proc->state != SIM_DEAD && calls_wait(n))
		run_fault(n->run, "a stop left a wait parked");
}

void nemesis_stop(struct sim_node *n)
{
	sim_in_turn(n->proc, "stop", stop_turn, NULL, n);
}

static void step_clock(struct sim_proc *p)
{
	struct sim *s = p->sim;
	s->faults[SIM_CLOCK_STEP]++;
	int64_t step = (int64_t)sim_below(s, 2 * 3600 * 1000) - 3600 * 1000;
	p->wall_offset_ms += step;
}

/* The machine sleeps while nothing has stopped: what comes next finds that hours have passed. Not in runs in which that is a
 * reason to delete something: for the judge no time has passed. */
static void fall_asleep(struct sim_proc *p)
{
	p->sim->faults[SIM_SLEEP]++;
	uint64_t hours = sim_between(p->sim, 1, 30);
	p->boot_offset_ns += hours * 3600 * SIM_S + SIM_S;
	p->wall_offset_ms += (int64_t)hours * 3600 * 1000 + 1000;
}

static void strike(void *arg)
{
	struct run *r = arg;
	struct sim *s = &r->sim;
	if (!r->nemesis)
		return;
	sim_after(s, sim_between(s, 200 * SIM_MS, r->churn ? 8 * SIM_S : 4 * SIM_S), NULL, "nemesis", strike, NULL, r);
	struct sim_node *n = r->nodes;
	uint64_t what = sim_below(s, 100);
	if (n->node == NULL || n->proc->state != SIM_RUNNING || n->stopping)
		return;
	if (what < 27) {
		s->faults[SIM_KILL]++;
		sim_kill(n->proc, "killed");
	} else if (what < 45) {
		freeze(r, n);
	} else if (what < 65) {
		bad_weather(r);
	} else if (what < 75) {
		sim_db_away(&r->db, true);
		sim_after(s, sim_between(s, 50 * SIM_MS, 4 * SIM_S), NULL, "database", database_back, NULL, r);
	} else if (what < 80) {
		step_clock(n->proc);
	} else if (what < 86 && r->ttl_s == 0 && r->retention_ms == 0) {
		fall_asleep(n->proc);
	} else if (what < 91) {
		nemesis_stop(n);
	} else {
		node_begin(r);          /* a second start beside a live one */
	}
}

/* Kills soon after objects were removed or merged: what went too early is missed by the next start alone. */
static void ambush(void *arg)
{
	struct run *r = arg;
	struct sim *s = &r->sim;
	int64_t now = metrics->value[METRIC_GC_REMOVED] + metrics->value[METRIC_MERGES];
	if (!r->nemesis)
		return;
	sim_after(s, sim_between(s, 20 * SIM_MS, 200 * SIM_MS), NULL, "ambush", ambush, NULL, r);
	if (now > r->ambushed_at && sim_chance(s, 300) && r->nodes->node != NULL && r->nodes->proc->state == SIM_RUNNING) {
		s->faults[SIM_KILL]++;
		sim_kill(r->nodes->proc, "killed");
	}
	r->ambushed_at = now;
}

void nemesis_begin(struct run *r)
{
	static const unsigned scales[] = { 1, 1, 1, 3, 8, 20 };
	r->nemesis = true;
	r->sim.fault_scale = scales[sim_below(&r->sim, 6)];
	sim_after(&r->sim, sim_between(&r->sim, SIM_S, 4 * SIM_S), NULL, "nemesis", strike, NULL, r);
	if (r->churn)
		sim_after(&r->sim, SIM_S, NULL, "ambush", ambush, NULL, r);
	if (r->has_aliens)
		aliens_begin(r);
	if (r->has_impostor)
		impostor_begin(r);
	if (r->rots)
		rot_begin(r);
}

void nemesis_heal(struct run *r)
{
	r->nemesis = false;
	r->sim.faulty = false;
	r->sim.crash_at_step = 0;
	r->result->safety_steps = r->sim.steps;
	r->healed = true;
	sim_bucket_weather(&r->bucket, SIM_FAIR);
	sim_bucket_weather(&r->wal_bucket, SIM_FAIR);
	sim_bucket_heal_all(&r->bucket);
	sim_bucket_heal_all(&r->wal_bucket);
	sim_db_away(&r->db, false);
	for (struct sim_node *n = r->nodes; n != NULL; n = n->next)
		sim_resume(n->proc);
	sim_trace(&r->sim, "heal", 0, 0);
}
