/* SPDX-License-Identifier: Apache-2.0
 *
 * What an operator does without a node, over the buckets. At the end of every run: fsck, which has nothing to say of a node
 * that serves. And the database is lost: everybody dies; a new database is built from the buckets, beginning with some export that was ever
 * written there, the newest or an old one; a node starts on it. Every record that the final logs have is there again, at its
 * offset, under its own topic's name, forks with what they show of their sources. What an old export cannot know (trims,
 * deletes, forks that nothing was written to) is not asked for.
 */
#include "t/sim/run.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/must.h"
#include "storaged/offline/fsck.h"
#include "storaged/offline/restore.h"
#include "storaged/op.h"

#define SERVES_NS (90 * SIM_S)

/* A final log, and what it is called in the metadata. */
struct lost_log {
	uint32_t index;                 /* in the history */
	uint64_t log_id;
	uint8_t topic_id[16];
	bool own_records;               /* not only what it shows of its source */
};

struct lost {
	struct lost_log log[RUN_TOPICS * RUN_PARTITIONS];
	unsigned n_logs;
};

/* -------------------------------------------------------------------- the shelf */

struct sim_shelf {
	struct shelf base;              /* first */
	const struct sim_bucket *bucket;
};

static int sim_shelf_get(struct shelf *base, const char *key, uint64_t offset, uint64_t length, struct slice *ret_bytes)
{
	const struct sim_object *o = sim_bucket_find(((struct sim_shelf *)base)->bucket, key);
	snprintf(base->fault, sizeof(base->fault), "%s", key);
	if (o == NULL || offset > o->size)
		return o == NULL ? -ENOENT : -ERANGE;
	size_t n = o->size - offset;
	if (length > 0 && length < n)
		n = length;
	uint8_t *copy = must_calloc(1, n + 1);
	memcpy(copy, o->data + offset, n);
	*ret_bytes = slice_of(copy, n);
	return 0;
}

static int sim_shelf_list(struct shelf *base, const char *prefix, struct shelf_keys *ret_keys)
{
	const struct sim_bucket *b = ((struct sim_shelf *)base)->bucket;
	size_t n;
	char **keys = sim_bucket_keys(b, prefix, &n);
	*ret_keys = (struct shelf_keys){ 0 };
	for (size_t i = 0; i < n; i++)
		shelf_keys_add(ret_keys, keys[i], sim_bucket_find(b, keys[i])->size);
	free(keys);
	return 0;
}

static const struct shelf_ops shelf_ops = { .get = sim_shelf_get, .list = sim_shelf_list };

static struct sim_shelf shelf_over(const struct sim_bucket *b)
{
	return (struct sim_shelf){ .base = { .ops = &shelf_ops, .url = "sim://bucket" }, .bucket = b };
}

void fsck_buckets(struct run *r)
{
	struct sim_shelf data = shelf_over(&r->bucket), wal = shelf_over(&r->wal_bucket);
	struct fsck_options o = {
		.data = &data.base, .wal = r->two_buckets ? &wal.base : NULL, .state = meta_state(nodes_serving(r)->node->meta),
	};
	struct fsck f;
	if (fsck(&o, &f) != 0)
		run_fault(r, "fsck: %s", f.fault);
	for (size_t i = 0; i < f.n_findings; i++)
		if (f.finding[i].severity != FSCK_NOTE && !alien_is(r, f.finding[i].key))
			run_fault(r, "fsck: %s %s: %.200s", f.finding[i].kind, f.finding[i].key, f.finding[i].text);
	fsck_done(&f);
}

/* ----------------------------------------------------------------------- before */

static bool has_own_records(struct run *r, const struct state_topic *t, uint32_t partition)
{
	const struct log *log = node_log(nodes_serving(r)->node, t, partition);
	return log == NULL || log_next(log) > state_partition_parent(t, partition).end;
}

static void remember(struct run *r, struct lost *l)
{
	const struct state *s = meta_state(nodes_serving(r)->node->meta);
	for (unsigned i = 0; i < r->n_topics; i++) {
		const struct run_topic *t = r->topics[i];
		const struct state_topic *known = state_topic_by_id(s, t->id);
		for (uint32_t p = 0; known != NULL && p < t->n_partitions && p < known->n_partitions; p++)
			if (r->history.logs[t->log[p]].read_back) {
				struct lost_log *x = &l->log[l->n_logs++];
				*x = (struct lost_log){ .index = t->log[p], .log_id = known->partition[p].log_id };
				memcpy(x->topic_id, known->id, sizeof(x->topic_id));
				x->own_records = has_own_records(r, known, p);
			}
	}
}

static bool build(struct run *r)
{
	struct sim_shelf data = shelf_over(&r->bucket), wal = shelf_over(&r->wal_bucket);
	const struct sim_object *export = &r->bucket.exports[sim_below(&r->sim, r->bucket.n_exports)];
	struct restored restored;
	int rc = restore(&data.base, r->two_buckets ? &wal.base : NULL, slice_of(export->data, export->size), &restored);
	if (rc == 0)
		sim_db_fill(&r->restored, &restored.row, restored.entity, restored.n_entities);
	else
		run_fault(r, "a restore is refused: %s", restored.fault);
	if (r->options.verbose)
		fprintf(stderr, "%s of %zu exports\n%.*s", export->key, r->bucket.n_exports, (int)buf_len(&restored.report),
			(const char *)buf_head(&restored.report));
	restored_done(&restored);
	return rc == 0;
}

/* ------------------------------------------------------------------------- after */

static const struct hist_record *record_at(const struct run *r, size_t first, uint64_t offset)
{
	for (size_t i = first; i < r->history.n_records; i++)
		if (r->history.records[i].offset == offset)
			return &r->history.records[i];
	return NULL;
}

/* What stood in the log stands in what was read from records[first] on. */
static void compare(struct run *r, const struct lost_log *l, size_t first)
{
	const struct hist_log *log = &r->history.logs[l->index];
	for (size_t i = 0; i < log->n_records && !r->failed; i++) {
		const struct hist_record *was = &r->history.records[log->first_record + i], *is = record_at(r, first, was->offset);
		if (is == NULL || is->value != was->value || is->index != was->index || is->crc != was->crc)
			run_fault(r, "after a restore: log %llu has %s at offset %llu", (unsigned long long)l->log_id,
				  is == NULL ? "nothing" : "another record", (unsigned long long)was->offset);
	}
}

static void check_log(struct run *r, struct sim_node *n, const struct lost_log *l)
{
	const struct hist_log *log = &r->history.logs[l->index];
	struct run_topic topic = { .index = log->topic };
	uint32_t partition;
	size_t first = r->history.n_records;
	const struct state_topic *t = state_topic_by_log(meta_state(n->node->meta), l->log_id, &partition);
	/* A fork that was made after the export: nothing in the bucket says so before something is written to it. */
	if (t == NULL && log->n_records > 0 && l->own_records)
		run_fault(r, "after a restore: log %llu is gone, and had %zu records", (unsigned long long)l->log_id, log->n_records);
	if (t == NULL || log->n_records == 0)
		return;
	if (t->soft_deleted)
		run_fault(r, "after a restore: log %llu is deleted, and was not", (unsigned long long)l->log_id);
	if (memcmp(t->id, l->topic_id, sizeof(t->id)) != 0)
		run_fault(r, "after a restore: log %llu is another topic's, %s", (unsigned long long)l->log_id, t->name);
	memcpy(topic.id, t->id, sizeof(topic.id));
	if (partition >= RUN_PARTITIONS)
		return;
	topic.n_partitions = t->n_partitions;
	topic.log[partition] = l->index;
	if (!audit_read_log(r, n, &topic, partition))
		run_fault(r, "after a restore: a log is not readable");
	compare(r, l, first);
}

void lost_database(struct run *r)
{
	struct lost *l = must_calloc(1, sizeof(*l));
	if (r->bucket.n_exports == 0)
		run_fault(r, "no export was ever written");
	else
		remember(r, l);
	if (!r->failed && nodes_kill_all(r, "the database is lost") && build(r)) {
		r->database = &r->restored;
		r->sim.faults[SIM_DATABASE_LOST]++;
		nodes_keep_up(r);
		if (!run_until(r, nodes_are_settled, SERVES_NS))
			run_fault(r, "after a restore: no node serves");
		for (unsigned i = 0; i < l->n_logs && !r->failed; i++)
			check_log(r, nodes_serving(r), &l->log[i]);
	}
	free(l);
}
