/* SPDX-License-Identifier: Apache-2.0
 *
 * The phases of a run: safety (load, faults, deaths), heal, liveness (everything succeeds in bounded
 * simulated time), read-back, a last restart that makes every late effect come first, read-back again, audit, check.
 */
#include "t/sim/run.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/metrics.h"
#include "common/must.h"
#include "storaged/bounds.h"

#define EVENTS_MAX 3000000              /* more is a live-lock */
#define LIVENESS_NS (90 * SIM_S)

void run_fault(struct run *r, const char *fmt, ...)
{
	if (r->failed)
		return;
	r->failed = true;
	va_list ap;
	va_start(ap, fmt);
	vsnprintf(r->result->text, sizeof(r->result->text), fmt, ap);
	va_end(ap);
}

bool run_until(struct run *r, bool (*until)(struct run *r), uint64_t limit_ns)
{
	uint64_t end = r->sim.now_ns + limit_ns;
	while (!r->failed && !until(r)) {
		if (r->sim.now_ns > end)
			return false;
		if (r->sim.n_events > EVENTS_MAX)
			run_fault(r, "too many events: it goes in circles");
		if (!sim_turn(&r->sim))
			return false;
	}
	return !r->failed;
}

static bool never(struct run *r)
{
	return false;
}

static void nothing(void *arg)
{
}

static void run_for(struct run *r, uint64_t ns)
{
	sim_after(&r->sim, ns, NULL, "phase", nothing, NULL, NULL);
	run_until(r, never, ns - 1);
}

/* Small or very small, mostly: between the least that works and up to 2^12 times that. */
static uint32_t bound_draw(struct sim *s, uint32_t value, uint32_t least)
{
	uint64_t most = (uint64_t)least << sim_below(s, 13);
	if (most > value)
		most = value;
	uint64_t drawn = sim_between(s, least, most);
	return (uint32_t)(least % 64 == 0 ? drawn / 64 * 64 : drawn);
}

/* In half of the runs what is done at a time is little. */
static void bounds_draw(struct sim *s)
{
	bounds = bounds_default;
	if (sim_chance(s, 500))
		return;
#define X(name, value, least, text)                              \
	if (sim_chance(s, 400))                                  \
		bounds.name = bound_draw(s, (value), (least));
	STORAGED_BOUNDS(X)
#undef X
}

static void configure(struct run *r)
{
	static const uint64_t intervals[] = { 0, 0, 5, 100 };
	struct sim *s = &r->sim;
	struct node_config *c = &r->config;
	uint32_t segment_size = sim_chance(s, 500) ? 64 << 10 : (uint32_t)sim_between(s, 4 << 10, 16 << 10);
	*c = (struct node_config){
		.meta = { .node = RUN_NODE_ID, .host = "host", .cluster_id = "cluster", .slots = 1, .http_address = "",
			  .snapshot_rows = sim_between(s, 2, 30), .rows_kept = sim_between(s, 1, 20) },
		.wal_cache_size = 16 * segment_size,
		.segment_size = segment_size,
		.block_cache_size = 1 << 20,
		.max_message_size = 24 << 10,
		.max_partitions = 16,
		.retention_ms = -1,
		.retention_bytes = -1,
		.max_logs = 1000,
	};
	c->wal_upload_threshold = sim_chance(s, 500) ? sim_between(s, 1 << 10, 64 << 10) : 0;
	c->wal_upload_interval_ms = sim_chance(s, 500) ? sim_between(s, 50, 5000) : 0;
	c->gc_delay_ms = sim_chance(s, 500) ? sim_between(s, 0, 5000) : 600000;
	c->sweep_interval_ms = sim_chance(s, 500) ? sim_between(s, 100, 10000) : 0;
	r->retention_ms = !r->trims_all && sim_chance(s, 500) ? sim_between(s, 10000, 25000) : 0;
	r->ttl_s = sim_chance(s, 500) ? sim_between(s, 10, 20) : 0;
	if (r->loses_database)
		r->ttl_s = r->retention_ms = 0;         /* what is old may go before it was looked at */
	c->retention_interval_ms = sim_between(s, 100, 3000);
	c->rewrite_patience_ms = sim_chance(s, 500) ? sim_between(s, 10, 3000) : 0;
	c->index_cache_size = sim_chance(s, 500) ? 4 << 10 : 0;
	c->meta.export_ms = sim_chance(s, 500) ? sim_between(s, 100, 10000) : 0;
	if (r->rolls_back && sim_chance(s, 700))
		c->meta.export_ms = sim_between(s, 100, 1000);
	c->open_logs = sim_chance(s, 500) ? sim_between(s, 1, 16) : 0;
	if (r->churn) {
		c->wal_upload_threshold = sim_between(s, 512, 4 << 10);
		c->wal_upload_interval_ms = sim_between(s, 20, 200);
		c->gc_delay_ms = sim_between(s, 0, 500);
		bounds.sweep_page = sim_chance(s, 300) ? (uint32_t)sim_between(s, 1, 3) : bounds.sweep_page;
		bounds.put_max = sim_chance(s, 400) ? 1024 : bounds.put_max;
		bounds.put_part = sim_chance(s, 400) ? 4096 : bounds.put_part;
		bounds.merge_pause_ms = (uint32_t)sim_between(s, 100, 1500);
		r->bucket.get_ns_max = sim_chance(s, 500) ? 200 * SIM_MS : 1;    /* merges take long */
	}
	c->allow_unfenced_store = sim_chance(s, 50);    /* asks nothing of the store, and it is a good one */
	memset(c->meta.instance, 7, sizeof(c->meta.instance));
	c->wal_url.has_batch_interval = true;
	c->wal_url.batch_interval_ms = intervals[sim_below(s, 4)];
	c->wal_url.max_inflight = 1 + (uint32_t)sim_below(s, 6);
	c->wal_url.has_max_bytes = true;
	c->wal_url.max_bytes_in_batch = sim_chance(s, 500) ? 4096 : 256 << 10;
}

/* -------------------------------------------------------------------- phases */

/* Who asks whether the nodes are ready, as load balancers do. */
static void ask_ready(void *arg)
{
	struct run *r = arg;
	const char *reason;
	for (struct sim_node *n = r->nodes; n != NULL; n = n->next)
		if (n->node != NULL && n->proc->state == SIM_RUNNING)
			node_is_ready(n->node, &reason);
	if (!r->healed)
		sim_after(&r->sim, 300 * SIM_MS, NULL, "ready", ask_ready, NULL, r);
}

static void safety(struct run *r)
{
	struct sim *s = &r->sim;
	node_begin(r);
	ask_ready(r);
	load_begin(r);
	s->crash_at_step = r->options.crash_at_step;
	s->fail_from_step = r->options.fail_from_step;
	s->faulty = r->options.faults || s->fail_from_step != 0;
	if (r->options.faults) {
		s->crash_per_million = sim_chance(s, 500) ? r->churn ? 100 : 1000 : 0;
		nemesis_begin(r);
	}
	run_for(r, r->options.small ? 2 * SIM_S : sim_between(s, 8 * SIM_S, 30 * SIM_S));
}

static bool is_ready(struct run *r)
{
	const char *reason;
	const struct sim_node *n = nodes_serving(r);
	return n != NULL && node_is_ready(n->node, &reason);
}

static bool everybody_did_more(struct run *r)
{
	for (unsigned i = 1; i < RUN_CLIENTS; i++)
		if (r->clients[i].n_done == 0 && (!r->options.small || i < 6))
			return false;
	return true;
}

static void liveness(struct run *r)
{
	r->loading = false;
	nemesis_heal(r);
	nodes_keep_up(r);
	if (!run_until(r, nodes_are_settled, LIVENESS_NS))
		return run_fault(r, "liveness: no node serves");
	for (unsigned i = 0; i < RUN_CLIENTS; i++)
		client_wake(&r->clients[i], SIM_MS);
	if (!run_until(r, load_is_quiet, LIVENESS_NS))
		return run_fault(r, "liveness: a call has no end");
	r->loading = true;
	for (unsigned i = 0; i < RUN_CLIENTS; i++) {
		r->clients[i].n_done = 0;
		client_wake(&r->clients[i], SIM_MS);
	}
	if (!run_until(r, everybody_did_more, LIVENESS_NS))
		return run_fault(r, "liveness: a client gets nothing done");
	r->loading = false;
	if (!run_until(r, load_is_quiet, LIVENESS_NS))
		run_fault(r, "liveness: a call has no end");
	if (!run_until(r, is_ready, LIVENESS_NS))
		run_fault(r, "liveness: it works, and is not ready");
}

static bool nobody_lives(struct run *r)
{
	for (struct sim_node *n = r->nodes; n != NULL; n = n->next)
		if (n->node != NULL)
			return false;
	return true;
}

static void read_back(struct run *r)
{
	/* The one that serves may be superseded by a start that died, and find out now. */
	for (unsigned tries = 3; !run_until(r, nodes_are_settled, LIVENESS_NS) || !audit_read_back(r, false);)
		if (--tries == 0 || r->failed)
			return run_fault(r, "read-back: not in time");
	run_for(r, 130 * SIM_S);        /* late effects come */
	for (struct sim_node *n = r->nodes; n != NULL; n = n->next)
		if (n != nodes_serving(r))
			sim_kill(n->proc, "last restart");
	if (sim_chance(&r->sim, 500))
		sim_kill(nodes_serving(r)->proc, "last restart");
	else
		nemesis_stop(nodes_serving(r));
	sim_after(&r->sim, SIM_MS, NULL, "phase", nothing, NULL, NULL);
	if (!run_until(r, nobody_lives, LIVENESS_NS))
		return run_fault(r, "a stop has no end");
	nodes_keep_up(r);
	if (!run_until(r, nodes_are_settled, LIVENESS_NS))
		return run_fault(r, "the last restart: not in time");
	load_echo(r);
	if (!run_until(r, load_is_echoed, LIVENESS_NS))
		return run_fault(r, "the last restart: what was acknowledged cannot be sent again");
	if (!audit_read_back(r, true))
		run_fault(r, "read-back after the last restart: not in time");
}

static void judge(struct run *r)
{
	struct sim_fault_found found;
	audit_bucket(r);
	if (!r->failed && !sim_check(&r->history, &found))
		run_fault(r, "check %d: %s", found.check, found.text);
}

static void finish(struct run *r)
{
	struct run_result *res = r->result;
	nodes_done(r);
	if (r->options.verbose)
		history_print(&r->history);
	res->good = !r->failed;
	res->hash = r->sim.hash;
	res->steps = r->sim.steps;
	res->events = r->sim.n_events;
	res->sim_ms = r->sim.now_ns / SIM_MS;
	r->sim.faults[SIM_PACKED] = metrics->value[METRIC_PACKS];
	r->sim.faults[SIM_LOADED] = metrics->value[METRIC_LOGS_LOADED];
	r->sim.faults[SIM_DROPPED] = metrics->value[METRIC_LOGS_DROPPED];
	r->sim.faults[SIM_GC_REMOVED] = metrics->value[METRIC_GC_REMOVED];
	r->sim.faults[SIM_GC_DELETED] = metrics->value[METRIC_GC_DELETED];
	r->sim.faults[SIM_ORPHAN] = metrics->value[METRIC_ORPHANS_DELETED];
	r->sim.faults[SIM_EXPIRED] = metrics->value[METRIC_TOPICS_EXPIRED];
	r->sim.faults[SIM_RETENTION] = metrics->value[METRIC_RETENTION_TRIMS];
	r->sim.faults[SIM_REWRITTEN] = metrics->value[METRIC_REWRITES];
	r->sim.faults[SIM_MERGED] = metrics->value[METRIC_MERGES];
	r->sim.faults[SIM_MERGE_GIVEN_UP] = metrics->value[METRIC_MERGE_FAILURES];
	memcpy(res->faults, r->sim.faults, sizeof(res->faults));
	sim_done(&r->sim);
	load_done(r);
	while (r->nodes != NULL) {
		struct sim_node *n = r->nodes;
		r->nodes = n->next;
		free(n);
	}
	for (unsigned i = 0; i < r->n_topics; i++)
		free(r->topics[i]);
	sim_bucket_done(&r->bucket);
	sim_bucket_done(&r->wal_bucket);
	sim_db_done(&r->db);
	sim_db_done(&r->restored);
	sim_db_done(&r->older);
	history_done(&r->history);
	free(r);
}

void run_seed(const struct run_options *o, struct run_result *ret_result)
{
	struct run *r = must_calloc(1, sizeof(*r));
	*ret_result = (struct run_result){ 0 };
	r->options = *o;
	r->result = ret_result;
	memset(metrics->value, 0, sizeof(metrics->value));
	sim_init(&r->sim, o->seed);
	r->sim.verbose = o->verbose;
	sim_bucket_init(&r->bucket, &r->sim);
	sim_bucket_init(&r->wal_bucket, &r->sim);
	r->two_buckets = sim_chance(&r->sim, 300);
	r->fat = sim_chance(&r->sim, 250);
	r->churn = sim_chance(&r->sim, 400);
	r->loses_database = sim_chance(&r->sim, 400);
	r->rolls_back = sim_chance(&r->sim, 250);
	r->has_impostor = !r->loses_database && sim_chance(&r->sim, 400);
	r->has_aliens = !r->loses_database && sim_chance(&r->sim, 300);
	r->resizes = sim_chance(&r->sim, 300);
	r->rots = sim_chance(&r->sim, r->churn ? 900 : 400);
	r->trims_all = r->churn || sim_chance(&r->sim, 150);
	sim_db_init(&r->db, &r->sim);
	sim_db_init(&r->restored, &r->sim);
	sim_db_init(&r->older, &r->sim);
	r->database = &r->db;
	bounds_draw(&r->sim);
	configure(r);
	safety(r);
	if (!r->failed)
		liveness(r);
	if (!r->failed && r->rolls_back)
		older_database(r);
	if (!r->failed)
		read_back(r);
	if (!r->failed)
		judge(r);
	if (!r->failed)
		fsck_buckets(r);
	if (!r->failed && r->loses_database)
		lost_database(r);
	finish(r);
}
