/* SPDX-License-Identifier: Apache-2.0
 *
 * A group and its log. Reading: from the log's start to its end, each record folded. Writing: one batch at a time, with
 * everything that has come meanwhile; what it says is folded when it is durable, then whoever waits is answered. So the
 * table never shows what a crash takes back, and never runs back.
 *
 * After 1,000 records or 1 MiB everything is written once more, in front of what waits, as many batches as it takes. The
 * table is what is durable, so a later batch has newer values and wins. When the last is durable the log is trimmed to the
 * first.
 */
#include <errno.h>
#include <stdlib.h>

#include "common/metrics.h"
#include "common/record_batch.h"
#include "storaged/coordinator_impl.h"

#define READ_BYTES (1u << 20)
#define RETRY_MS 500u
#define SNAPSHOT_RECORDS 1000u
#define SNAPSHOT_BYTES (1u << 20)
#define SNAPSHOT_RECORD_BYTES (64u << 10)
#define SNAPSHOT_BATCH_BYTES (1u << 20)
#define TRIM_MS 60000u
#define QUEUE_BYTES_MAX (8u << 20)
#define RECORD_OVERHEAD 32u             /* of a record without key and headers, at most */

struct log *entry_log(const struct group_entry *entry)
{
	const struct node *n = entry->coordinator->node;
	const struct state_topic *t = state_topic_by_id(meta_state(n->meta), entry->topic_id);
	return t != NULL ? node_log(n, t, 0) : NULL;
}

/* --------------------------------------------------------------------- reading */

static int fold_batch(struct group_entry *entry, struct slice bytes)
{
	struct record_batch batch;
	struct record_iter it;
	struct record r;
	int rc;
	if (record_batch_read(bytes, &batch) < 0 || record_iter_init(&it, &batch) < 0)
		return -EBADMSG;
	while ((rc = record_iter_next(&it, &r)) > 0) {
		rc = offsets_fold(&entry->offsets, r.value);
		if (rc < 0)
			return rc;
		entry->n_records++;
		entry->n_bytes += r.value.n;
	}
	return rc;
}

static int fold_bytes(struct group_entry *entry, struct slice bytes)
{
	while (bytes.n > 0) {
		int64_t n = record_batch_size(bytes);
		if (n <= 0 || (uint64_t)n > bytes.n)
			return -EBADMSG;
		int rc = fold_batch(entry, slice_of(bytes.p, (size_t)n));
		if (rc < 0)
			return rc;
		bytes = slice_of(bytes.p + n, bytes.n - (size_t)n);
	}
	return 0;
}

/* The pieces follow each other; a batch may span them. They are given back. */
static int fold_pieces(struct group_entry *entry, struct engine_read *r)
{
	size_t n = 0;
	for (size_t i = 0; i < r->n_pieces; i++)
		n += r->pieces[i].length;
	uint8_t *bytes = must_calloc(1, n), *to = bytes;
	for (size_t i = 0; i < r->n_pieces; i++) {
		memcpy(to, r->pieces[i].segment->mem.base + r->pieces[i].offset, r->pieces[i].length);
		to += r->pieces[i].length;
		pin_drop(r->pieces[i].pin);
	}
	free(r->pieces);
	r->pieces = NULL;
	r->n_pieces = 0;
	int rc = fold_bytes(entry, slice_of(bytes, n));
	free(bytes);
	return rc;
}

static void load_go(struct group_entry *entry);

static void on_retry(void *arg)
{
	load_go(arg);
}

static void load_begin(struct group_entry *entry)
{
	offsets_done(&entry->offsets);
	offsets_init(&entry->offsets, &entry->coordinator->memory);
	entry->n_records = entry->n_bytes = 0;
	entry->read.from = log_start(entry_log(entry));
}

static void load_later(struct group_entry *entry)
{
	struct env *env = entry->coordinator->node->env;
	if (entry->coordinator->stopping)
		return;
	load_begin(entry);
	entry->retry = (struct env_timer){ .on_fire = on_retry, .arg = entry };
	env_timer_start(env, &entry->retry, env_now_ms(env) + RETRY_MS);
}

static void on_read(struct engine_read *r, const struct pico_error *error)
{
	struct group_entry *entry = (struct group_entry *)((char *)r - offsetof(struct group_entry, read));
	entry->reading = false;
	int rc = error == NULL ? fold_pieces(entry, r) : 0;
	if (entry->gone) {
		entry_maybe_free(entry);
	} else if (error != NULL) {
		if (entry_log(entry) != NULL)
			load_later(entry);
	} else if (rc < 0) {
		entry_load_failed(entry, rc);
	} else {
		r->from = r->end;
		if (!entry->read_turns)
			load_go(entry);
	}
}

/* A read may end before it returns: one turn of the loop each, not one call inside the other. */
static void load_go(struct group_entry *entry)
{
	struct log *log = entry_log(entry);
	entry->read_turns = true;
	while (entry->state == ENTRY_LOADING && !entry->reading && entry->retry.at_ms == 0 && entry->read.from < log_confirm(log)) {
		entry->reading = true;
		entry->read.log = log;
		entry->read.max_bytes = READ_BYTES;
		entry->read.deadline_ms = UINT64_MAX;
		entry->read.on_done = on_read;
		engine_read(entry->coordinator->node->engine, &entry->read);
	}
	entry->read_turns = false;
	if (entry->state == ENTRY_LOADING && !entry->reading && entry->retry.at_ms == 0)
		entry_loaded(entry);
}

void entry_load(struct group_entry *entry)
{
	must(entry->state == ENTRY_LOADING && entry_log(entry) != NULL);
	load_begin(entry);
	load_go(entry);
}

/* --------------------------------------------------------------------- writing */

size_t entry_record_max(const struct group_entry *entry)
{
	size_t max = entry->coordinator->node->config.max_message_size - RECORD_BATCH_HEADER - RECORD_OVERHEAD;
	return max < SNAPSHOT_BATCH_BYTES ? max : SNAPSHOT_BATCH_BYTES;
}

bool entry_may_write(const struct group_entry *entry, size_t n)
{
	return entry->queue_bytes + n <= QUEUE_BYTES_MAX;
}

void entry_write(struct group_entry *entry, struct slice value, struct op *op,
		 void (*done)(struct op *op, const struct pico_error *error))
{
	struct group_write *w = must_calloc(1, sizeof(*w));
	must(value.n <= entry_record_max(entry));
	w->op = op;
	w->done = done;
	w->value = value;
	if (op != NULL)
		op->refs++;
	*entry->queue_tail = w;
	entry->queue_tail = &w->next;
	entry->queue_bytes += value.n;
	coordinator_wants_flush(entry);
}

static void write_free(struct group_write *w)
{
	free((void *)(uintptr_t)w->value.p);
	free(w);
}

static void write_done(struct group_write *w, const struct pico_error *error)
{
	struct op *op = w->op;
	if (op != NULL) {
		if (op->call != NULL)
			w->done(op, error);
		op_unref(op);
	}
	write_free(w);
}

bool entry_keeps(void *arg, const struct offset_entry *e)
{
	const struct group_entry *entry = arg;
	return state_topic_by_id(meta_state(entry->coordinator->node->meta), e->key.topic_id) != NULL;
}

static void put_record(struct record_batch_writer *w, struct slice value)
{
	record_batch_add(w, slice_of(NULL, 0), value, NULL, 0);
}

/* As much of the snapshot as goes into this batch. */
static void put_snapshot(struct group_entry *entry, struct record_batch_writer *w, size_t max)
{
	size_t record_max = entry_record_max(entry) < SNAPSHOT_RECORD_BYTES ? entry_record_max(entry) : SNAPSHOT_RECORD_BYTES;
	struct buf b;
	bool more = true;
	buf_init(&b, max);
	if (!entry->snapshot_past && entry->offsets.past_ms != 0) {
		offsets_write_past(&b, &entry->offsets.past, entry->offsets.past_ms);
		put_record(w, buf_slice(&b));
	}
	entry->snapshot_past = true;
	while (more && buf_len(w->out) + record_max + RECORD_OVERHEAD <= max) {
		buf_reset(&b, record_max);
		more = offsets_write_some(&entry->offsets, &entry->snapshot_after, &entry->snapshot_begun, record_max,
					  entry_keeps, entry, &b);
		if (buf_len(&b) > 0)
			put_record(w, buf_slice(&b));
	}
	must(!b.failed);
	buf_done(&b);
	entry->snapshot_ends = !more;
}

static void put_queue(struct group_entry *entry, struct record_batch_writer *w, size_t max)
{
	struct group_write **to = &entry->in_flight;
	while (entry->queue != NULL && buf_len(w->out) + entry->queue->value.n + RECORD_OVERHEAD <= max) {
		struct group_write *x = entry->queue;
		entry->queue = x->next;
		entry->queue_bytes -= x->value.n;
		put_record(w, x->value);
		x->next = NULL;
		*to = x;
		to = &x->next;
	}
	if (entry->queue == NULL)
		entry->queue_tail = &entry->queue;
}

static void trim(struct group_entry *entry)
{
	struct node *n = entry->coordinator->node;
	struct log *log = entry_log(entry);
	uint64_t now = env_now_ms(n->env);
	if (entry->trim_to == 0 || now < entry->trim_after_ms || log == NULL)
		return;
	Meta__Command command = META__COMMAND__INIT;
	Meta__TrimMany many = META__TRIM_MANY__INIT;
	Meta__TrimMany__Trim one = META__TRIM_MANY__TRIM__INIT, *pointer = &one;
	command.kind_case = META__COMMAND__KIND_TRIM_MANY;
	command.trim_many = &many;
	many.trim = &pointer;
	many.n_trim = 1;
	one.log_id = log_id(log);
	one.start = entry->trim_to;
	if (meta_propose(n->meta, &command, NULL, NULL) < 0)
		return;         /* with the next batch */
	entry->trim_to = 0;
	entry->trim_after_ms = now + TRIM_MS;
}

static void snapshot_wrote(struct group_entry *entry, uint64_t base)
{
	if (entry->snapshot_at == UINT64_MAX)
		entry->snapshot_at = base;
	if (!entry->snapshot_ends)
		return;
	entry->trim_to = entry->snapshot_at;
	entry->snapshotting = false;
}

/* It takes effect in the order it was written. */
static void writes_stored(struct group_entry *entry, struct group_write *list)
{
	for (struct group_write *w = list; w != NULL; w = w->next) {
		must(offsets_fold(&entry->offsets, w->value) == 0);
		entry->n_records++;
		entry->n_bytes += w->value.n;
	}
}

static void on_again(void *arg)
{
	group_entry_after(arg);
}

/* The record of the last rebalance is durable; or it is written once more in a while, if it was in what failed. */
static void rebalance_wrote(struct group_entry *entry, bool failed)
{
	struct env *env = entry->coordinator->node->env;
	if (entry->group == NULL || entry->gone || entry->coordinator->stopping)
		return;
	if (!failed && entry->offsets.past.generation == group_generation(entry->group)) {
		group_recorded(entry->group, env_now_ms(env));
		group_entry_after(entry);
	} else if (failed && entry->retry.at_ms == 0) {
		entry->generation_written = entry->offsets.past.generation;
		entry->retry = (struct env_timer){ .on_fire = on_again, .arg = entry };
		env_timer_start(env, &entry->retry, env_now_ms(env) + RETRY_MS);
	}
}

static void on_written(struct engine_append *a, const struct pico_error *error)
{
	struct group_entry *entry = a->owner;
	struct group_write *w, *list = entry->in_flight;
	entry->writing = false;
	entry->in_flight = NULL;
	buf_done(&entry->batch);
	if (error != NULL) {
		entry->snapshotting = false;
	} else {
		if (entry->snapshotting)
			snapshot_wrote(entry, a->base_offset);
		writes_stored(entry, list);
	}
	while ((w = list) != NULL) {
		list = w->next;
		write_done(w, error);
	}
	rebalance_wrote(entry, error != NULL);
	if (entry->gone) {
		entry_maybe_free(entry);
		return;
	}
	trim(entry);
	if (entry->queue != NULL || entry->snapshotting)
		coordinator_wants_flush(entry);
}

static void snapshot_if_due(struct group_entry *entry)
{
	if (entry->snapshotting || (entry->n_records < SNAPSHOT_RECORDS && entry->n_bytes < SNAPSHOT_BYTES))
		return;
	entry->n_records = entry->n_bytes = 0;
	entry->snapshotting = true;
	entry->snapshot_begun = entry->snapshot_past = false;
	entry->snapshot_at = UINT64_MAX;
}

void entry_flush(struct group_entry *entry)
{
	struct node *n = entry->coordinator->node;
	struct record_batch_writer w;
	size_t max = n->config.max_message_size;
	must(!entry->writing);
	if (entry->queue == NULL && !entry->snapshotting)
		return;
	if (max > 2 * SNAPSHOT_BATCH_BYTES)
		max = 2 * SNAPSHOT_BATCH_BYTES;
	snapshot_if_due(entry);
	buf_init(&entry->batch, max);
	record_batch_begin(&w, &entry->batch);
	if (entry->snapshotting)
		put_snapshot(entry, &w, max / 2 > entry_record_max(entry) ? max / 2 : max);
	put_queue(entry, &w, max);
	size_t size = w.count > 0 ? record_batch_end(&w) : 0;
	if (size == 0) {                /* a snapshot of nothing, and nothing behind it */
		must(w.count == 0 && entry->in_flight == NULL);
		buf_done(&entry->batch);
		entry->snapshotting = false;
		return;
	}
	entry->writing = true;
	entry->append = (struct engine_append){ .log = entry_log(entry), .payload = buf_slice(&entry->batch), .owner = entry,
						.on_done = on_written };
	must(entry->append.log != NULL);
	engine_append(n->engine, &entry->append);
}

void entry_fail_writes(struct group_entry *entry)
{
	struct pico_error e;
	struct group_write *w;
	pico_error_set(&e, PICO_UNAVAILABLE, "the group was deleted");
	while ((w = entry->queue) != NULL) {
		entry->queue = w->next;
		write_done(w, &e);
	}
	entry->queue_tail = &entry->queue;
	entry->queue_bytes = 0;
}

static void writes_drop(struct group_write *w)
{
	while (w != NULL) {
		struct group_write *next = w->next;
		write_free(w);
		w = next;
	}
}

void entry_log_done(struct group_entry *entry)
{
	env_timer_stop(entry->coordinator->node->env, &entry->retry);
	writes_drop(entry->queue);
	writes_drop(entry->in_flight);
	buf_done(&entry->batch);
}
