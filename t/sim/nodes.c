/* SPDX-License-Identifier: Apache-2.0
 *
 * Starts and deaths of nodes. Every start is a process of its own with handles of its own on the same
 * bucket and database; a start does not wait for the death of the one before it.
 */
#include <stdlib.h>
#include <string.h>

#include "common/must.h"
#include "t/sim/run.h"

static void leave(void *arg)
{
	struct sim_node *n = arg;
	sim_kill(n->proc, "fatal");
}

/* A process is mostly gone at once; else what it does from here on is nothing. */
static void on_fatal(void *arg, int code, const char *text)
{
	struct sim_node *n = arg;
	struct sim *s = &n->run->sim;
	if (n->proc->state == SIM_DEAD || n->leaving)
		return;
	n->leaving = true;
	s->faults[SIM_LEFT]++;
	sim_trace(s, text, n->proc->id, (uint64_t)code);
	if (n->run->healed || sim_chance(s, 700))
		sim_kill(n->proc, "fatal");
	else
		sim_after(s, sim_below(s, 50 * SIM_MS), NULL, "gone", leave, NULL, n);
}

static void on_segment_gone(void *arg, struct segment *segment)
{
	struct sim_node *n = arg;
	held_check_gone(n, segment);
}

static bool is_zombie(const struct sim_node *n)
{
	return n->serving && n->session < n->run->newest_session;
}

/* The newest start is dead; once faults have ended: all but zombies are. */
static bool start_is_due(struct run *r)
{
	if (!r->healed)
		return r->nodes != NULL && r->nodes->node == NULL;
	for (struct sim_node *n = r->nodes; n != NULL; n = n->next)
		if (n->node != NULL && !is_zombie(n))
			return false;
	return true;
}

static void start_again(void *arg)
{
	struct run *r = arg;
	r->restart_due = false;
	if (start_is_due(r))
		node_begin(r);
}

void nodes_keep_up(struct run *r)
{
	if (r->restart_due || !start_is_due(r))
		return;
	r->restart_due = true;
	sim_after(&r->sim, sim_between(&r->sim, 20 * SIM_MS, 1500 * SIM_MS), NULL, "start", start_again, NULL, r);
}

static void on_serving(void *arg)
{
	struct sim_node *n = arg;
	uint64_t seq;
	node_wal_position(n->node, &n->session, &seq);
	n->serving = true;
	if (n->session > n->run->newest_session)
		n->run->newest_session = n->session;
	sim_trace(&n->run->sim, "serving", n->proc->id, n->session);
	nodes_keep_up(n->run);          /* it may be an old session's, late */
	for (unsigned i = 0; i < RUN_CLIENTS; i++)
		client_wake(&n->run->clients[i], SIM_MS);
}

static void on_dead(struct sim_proc *p, void *arg)
{
	struct sim_node *n = arg;
	calls_lost(n);
	node_free(n->node);
	n->node = NULL;
	n->serving = false;
	held_forget(n);
	n->store->ops->free(n->store);
	if (n->wal_store != n->store)
		n->wal_store->ops->free(n->wal_store);
	n->sql->ops->free(n->sql);
	nodes_keep_up(n->run);
}

static void node_turn(void *arg)
{
	struct sim_node *n = arg;
	node_start(n->node);
}

struct sim_node *node_begin(struct run *r)
{
	static const struct node_events events = {
		.on_serving = on_serving, .on_fatal = on_fatal, .on_segment_gone = on_segment_gone,
	};
	struct sim_node *n = must_calloc(1, sizeof(*n));
	n->run = r;
	n->next = r->nodes;
	r->nodes = n;
	r->result->n_starts++;
	n->proc = sim_proc_new(&r->sim, on_dead, n);
	n->store = sim_store_new(&r->bucket, n->proc);
	n->wal_store = r->two_buckets ? sim_store_new(&r->wal_bucket, n->proc) : n->store;
	n->sql = sim_sql_new(r->database, n->proc);
	struct node_config config = r->config;
	if (r->resizes && sim_chance(&r->sim, 500)) {   /* what was read back may not fit */
		config.segment_size = (uint32_t)sim_between(&r->sim, 4 << 10, 64 << 10);
		config.wal_cache_size = 16 * config.segment_size;
	}
	env_random(&n->proc->env, config.meta.boot_id, sizeof(config.meta.boot_id));
	int rc = node_new(&n->proc->env, n->store, n->wal_store, n->sql, &config, &events, n, &n->node);
	must(rc == 0);
	sim_in_turn(n->proc, "node start", node_turn, NULL, n);
	return n;
}

struct sim_node *nodes_serving(struct run *r)
{
	for (struct sim_node *n = r->nodes; n != NULL; n = n->next)
		if (n->node != NULL && n->serving && !n->stopping && !is_zombie(n))
			return n;
	return NULL;
}

struct sim_node *nodes_best(struct run *r)
{
	struct sim_node *n = r->healed ? nodes_serving(r) : NULL;
	return n != NULL ? n : r->nodes;
}

bool nodes_are_settled(struct run *r)
{
	for (struct sim_node *n = r->nodes; n != NULL; n = n->next)
		if (n->node != NULL && !n->serving)
			return false;
	return nodes_serving(r) != NULL;
}

static bool nobody_lives(struct run *r)
{
	for (struct sim_node *n = r->nodes; n != NULL; n = n->next)
		if (n->node != NULL)
			return false;
	return true;
}

static void nothing(void *arg)
{
}

bool nodes_kill_all(struct run *r, const char *why)
{
	for (struct sim_node *n = r->nodes; n != NULL; n = n->next)
		if (n->node != NULL)
			sim_kill(n->proc, why);
	sim_after(&r->sim, SIM_MS, NULL, "phase", nothing, NULL, NULL);
	return run_until(r, nobody_lives, SIM_S);
}

void nodes_done(struct run *r)
{
	r->restart_due = true;
	for (struct sim_node *n = r->nodes; n != NULL; n = n->next)
		sim_kill(n->proc, "end of the run");
}
