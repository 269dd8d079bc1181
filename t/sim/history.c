/* SPDX-License-Identifier: Apache-2.0
 *
 * Growing arrays of what was seen.
 */
#include "t/sim/history.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/must.h"
#include "common/pico_error.h"

static void *grow(void *p, size_t n, size_t *room, size_t size)
{
	if (n < *room)
		return p;
	*room = *room > 0 ? 2 * *room : 64;
	return must_realloc(p, *room * size);
}

#define ADD(h, array, n, room) \
	((h)->array = grow((h)->array, (h)->n, &(h)->room, sizeof(*(h)->array)), \
	 memset(&(h)->array[(h)->n], 0, sizeof(*(h)->array)), &(h)->array[(h)->n++])

void history_done(struct history *h)
{
	free(h->ops);
	free(h->records);
	free(h->logs);
	free(h->topics);
	free(h->wal);
	free(h->deleted);
	free(h->sessions);
	*h = (struct history){ 0 };
}

uint32_t history_op(struct history *h, enum hist_kind kind)
{
	struct hist_op *op = ADD(h, ops, n_ops, ops_room);
	op->kind = kind;
	op->log = op->topic = op->value = op->producer = HIST_NONE;
	return (uint32_t)h->n_ops - 1;
}

uint32_t history_log(struct history *h, uint32_t topic, uint32_t partition)
{
	struct hist_log *log = ADD(h, logs, n_logs, logs_room);
	log->topic = topic;
	log->partition = partition;
	log->source = HIST_NONE;
	return (uint32_t)h->n_logs - 1;
}

size_t history_inherited(const struct hist_log *log)
{
	if (log->source == HIST_NONE || log->start >= log->point)
		return 0;
	return log->point - log->start < log->n_records ? log->point - log->start : log->n_records;
}

uint32_t history_topic(struct history *h)
{
	(void)ADD(h, topics, n_topics, topics_room);
	return (uint32_t)h->n_topics - 1;
}

void history_record(struct history *h, const struct hist_record *r)
{
	*ADD(h, records, n_records, records_room) = *r;
}

void history_wal(struct history *h, uint64_t session, uint64_t seq, enum hist_wal_kind kind)
{
	struct hist_wal *w = ADD(h, wal, n_wal, wal_room);
	*w = (struct hist_wal){ .session = session, .seq = seq, .kind = kind };
}

void history_deleted(struct history *h, uint64_t session, uint64_t seq)
{
	struct hist_wal *w = ADD(h, deleted, n_deleted, deleted_room);
	*w = (struct hist_wal){ .session = session, .seq = seq };
}

void history_session(struct history *h, const struct hist_session *s)
{
	struct hist_session *copy = ADD(h, sessions, n_sessions, sessions_room);
	*copy = *s;
}

const struct hist_session *history_session_find(const struct history *h, uint64_t session)
{
	for (size_t i = 0; i < h->n_sessions; i++)
		if (h->sessions[i].session == session)
			return &h->sessions[i];
	return NULL;
}

static void print_word(const char *name, uint32_t v)
{
	if (v != HIST_NONE)
		printf(" %s %u", name, v);
}

static void print_op(const struct hist_op *op)
{
	static const char *const kinds[] = { "append", "read", "wait", "offsets", "create", "delete", "close", "trim" };
	static const char *const outcomes[] = { "unknown", "ok", "refused" };
	printf("op %12.6f %12.6f client %u session %u %s:", (double)op->invoked_ns / 1e9, (double)op->answered_ns / 1e9,
	       op->client, op->proc, kinds[op->kind]);
	print_word("topic", op->topic);
	print_word("log", op->log);
	print_word("value", op->value);
	print_word("producer", op->producer);
	if (op->producer != HIST_NONE)
		printf(" (%" PRIu64 ", %" PRIu64 ")", op->epoch, op->seq);
	if (op->kind == HIST_APPEND)
		printf(" attempt %u of %u records%s%s", op->attempt, op->n_records, op->closes ? " closes" : "",
		       op->check_only ? " check only" : "");
	if (op->kind == HIST_READ || op->kind == HIST_WAIT)
		printf(" from %" PRIu64, op->from);
	printf(" -> %s", outcomes[op->outcome]);
	if (op->outcome != HIST_OK && op->answered_ns > 0)
		printf(" %s", pico_error_word((enum pico_error_kind)op->error));
	printf(" base %" PRIu64 " next %" PRIu64 "%s%s%s\n", op->base, op->next, op->duplicate ? " duplicate" : "",
	       op->closed ? " closed" : "", op->created ? " created" : "");
}

void history_print(const struct history *h)
{
	for (size_t i = 0; i < h->n_ops; i++)
		print_op(&h->ops[i]);
}
