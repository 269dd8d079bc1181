/* SPDX-License-Identifier: Apache-2.0
 *
 * The life of a node: registered -> ended sessions sealed, cut and read back -> what a crash left half done is
 * put right (topics whose first records never came, closes that the metadata has not heard of) -> serving ->
 * stopping. Between these phases calls are UNAVAILABLE; nothing about a topic is answered before it is right.
 */
#include "storaged/node.h"

#include <stdio.h>
#include <stdlib.h>

#include "common/control.h"
#include "common/metrics.h"
#include "storaged/coordinator.h"
#include "storaged/expiry.h"
#include "storaged/handle.h"
#include "storaged/logs.h"
#include "storaged/meta/log_card.h"
#include "storaged/parts.h"
#include "storaged/proposals.h"
#include "storaged/retention.h"
#include "storaged/watch.h"

typedef void handler_fn(struct node *n, struct call *c);

#define IPC_TYPES 80
static handler_fn *const handlers[IPC_TYPES] = {
	[IPC_RESUME] = handle_resume,
	[IPC_CREATE] = handle_create,
	[IPC_CREATE_MANY] = handle_create_many,
	[IPC_FORK] = handle_fork,
	[IPC_GET] = handle_get,
	[IPC_LIST] = handle_list,
	[IPC_DELETE] = handle_delete,
	[IPC_CLOSE] = handle_close,
	[IPC_UPDATE] = handle_update,
	[IPC_GROW] = handle_grow,
	[IPC_GET_MANY] = handle_get_many,
	[IPC_LIST_KAFKA] = handle_list_kafka,
	[IPC_APPEND] = handle_append,
	[IPC_READ] = handle_read,
	[IPC_WAIT] = handle_wait,
	[IPC_OFFSETS] = handle_offsets,
	[IPC_SUBMIT] = handle_submit,
	[IPC_FETCH] = handle_fetch,
	[IPC_LOOKUP] = handle_lookup,
	[IPC_DESCRIBE_LOGS] = handle_describe_logs,
	[IPC_INIT_PRODUCER] = handle_init_producer,
	[IPC_TRIM] = handle_trim,
	[IPC_DELETE_RECORDS] = handle_delete_records,
	[IPC_GROUP_JOIN] = handle_group_join,
	[IPC_GROUP_SYNC] = handle_group_sync,
	[IPC_GROUP_HEARTBEAT] = handle_group_heartbeat,
	[IPC_GROUP_LEAVE] = handle_group_leave,
	[IPC_GROUP_COMMIT] = handle_group_commit,
	[IPC_GROUP_OFFSET_FETCH] = handle_group_offset_fetch,
	[IPC_GROUP_DESCRIBE] = handle_group_describe,
	[IPC_GROUP_LIST] = handle_group_list,
	[IPC_GROUP_DELETE] = handle_group_delete,
	[IPC_GROUP_OFFSET_DELETE] = handle_group_offset_delete,
	[IPC_KV_GET] = handle_kv_get,
	[IPC_KV_PUT] = handle_kv_put,
	[IPC_KV_DELETE] = handle_kv_delete,
	[IPC_KV_LIST] = handle_kv_list,
	[IPC_KV_WATCH] = handle_kv_watch,
	[IPC_NODE_STATUS] = handle_node_status,
	[IPC_NODES] = handle_nodes,
	[IPC_OBJECTS] = handle_objects,
	[IPC_LOGS] = handle_logs,
	[IPC_EXPORT] = handle_export,
};

/* ---------------------------------------------------------------------- calls */

void node_call(struct node *n, struct call *c)
{
	must((unsigned)c->row->type < IPC_TYPES);
	metric_add(METRIC_IPC_CALLS, 1);
	const char *reason;
	if (handlers[c->row->type] == NULL)
		call_fail(c, PICO_BAD_REQUEST, "this node does not know %s yet", c->row->name);
	else if (n->phase == NODE_SERVING && !engine_is_awake(n->engine))
		return;         /* the process leaves: another one answers when it is asked again */
	else if (n->phase == NODE_SERVING || c->row->type == IPC_NODE_STATUS)
		handlers[c->row->type](n, c);
	else if (!node_is_ready(n, &reason))
		call_fail(c, PICO_UNAVAILABLE, "%.150s", reason);
}

void node_cancel(struct node *n, struct call *c)
{
	struct op *op = c->handler;
	if (op == NULL)
		return;
	must(op->magic == OP_MAGIC && op->call == c && op->node == n);
	if (op->on_cancel != NULL)
		op->on_cancel(op);
}

void node_peer_gone(struct node *n, uint64_t peer)
{
	watches_drop_peer(n, peer);
}

bool node_is_ready(struct node *n, const char **ret_reason)
{
	static const char *const words[] = {
		[NODE_NEW] = "not started yet", [NODE_REGISTERING] = "reading the metadata",
		[NODE_RECOVERING] = "reading the write-ahead log back", [NODE_REPAIRING] = "finishing what a crash left",
		[NODE_SERVING] = "", [NODE_STOPPING] = "stopping", [NODE_STOPPED] = "stopped",
	};
	const char *meta = meta_fault(n->meta);
	const char *wal = n->engine != NULL ? engine_fault(n->engine) : NULL;
	const char *sep = words[n->phase][0] != '\0' && (meta != NULL || wal != NULL) ? ": " : "";
	snprintf(n->reason, sizeof(n->reason), "%s%s%s%s%s", words[n->phase], sep, meta != NULL ? meta : "",
		 meta != NULL && wal != NULL ? "; " : "", wal != NULL ? wal : "");
	*ret_reason = n->reason;
	return n->reason[0] == '\0';
}

void node_wal_position(const struct node *n, uint64_t *ret_session, uint64_t *ret_seq)
{
	*ret_session = *ret_seq = 0;
	if (n->engine != NULL)
		engine_wal_position(n->engine, ret_session, ret_seq);
}

/* --------------------------------------------------------------- what is applied */

static void topic_closing(struct node *n, const struct state_topic *t)
{
	for (uint32_t i = 0; t != NULL && i < t->n_partitions; i++) {
		struct log *log = node_log(n, t, i);
		if (log != NULL && (t->closing || t->closed))
			engine_log_set_closing(log);
	}
}

static void on_applied(void *arg, const Meta__Command *command, const Meta__Result__One *result, uint64_t idx)
{
	struct node *n = arg;
	const struct state *s = meta_state(n->meta);
	metric_set(METRIC_TOPICS, state_n_topics(s));
	if (n->phase < NODE_RECOVERING || result->error != PICO_OK)
		return;
	switch (command->kind_case) {
	case META__COMMAND__KIND_CREATE_TOPIC:
		if (result->created)
			node_topic_add(n, state_topic_by_id(s, command->create_topic->topic_id.data));
		break;
	case META__COMMAND__KIND_DELETE_TOPIC:
		node_topic_remove(n, command->delete_topic->topic_id.data);
		break;
	case META__COMMAND__KIND_EXPIRE_TOPIC:
		node_topic_remove(n, command->expire_topic->topic_id.data);
		break;
	case META__COMMAND__KIND_TRIM_MANY:
		node_logs_trim(n, command->trim_many);
		break;
	case META__COMMAND__KIND_CLOSE_TOPIC:
		topic_closing(n, state_topic_by_id(s, command->close_topic->topic_id.data));
		break;
	case META__COMMAND__KIND_UPDATE_TOPIC:
		node_retention_changed(n, state_topic_by_id(s, command->update_topic->topic_id.data));
		break;
	case META__COMMAND__KIND_GROW_TOPIC:
		node_topic_grow(n, state_topic_by_id(s, command->grow_topic->topic_id.data));
		break;
	case META__COMMAND__KIND_PUT_KV:
		kv_changed(n, command->put_kv->key);
		break;
	case META__COMMAND__KIND_DELETE_KV:
		kv_changed(n, command->delete_kv->key);
		break;
	default:
		break;
	}
}

/* ------------------------------------------------------------------------ start */

static void serve(struct node *n)
{
	n->phase = NODE_SERVING;
	coordinator_start(n->coordinator);
	meta_export_start(n->meta);
	expiry_begin(n);
	if (n->events.on_serving != NULL)
		n->events.on_serving(n->arg);
}

static void on_repaired(void *arg, const Meta__Result__One *result)
{
	struct node *n = arg;
	must(n->repairs > 0);
	if (--n->repairs == 0 && n->phase == NODE_REPAIRING && result != NULL)
		serve(n);
}

static void repair_propose_delete(struct node *n, const struct state_topic *t)
{
	Meta__Command command = META__COMMAND__INIT;
	Meta__DeleteTopic delete = META__DELETE_TOPIC__INIT;
	command.kind_case = META__COMMAND__KIND_DELETE_TOPIC;
	command.delete_topic = &delete;
	delete.topic_id = (ProtobufCBinaryData){ .len = 16, .data = (uint8_t *)t->id };
	if (meta_propose(n->meta, &command, on_repaired, n) == 0)
		n->repairs++;
}

/* One topic as recovery left it. Proposals only; the state does not change under the caller. */
static void repair_topic(struct node *n, const struct state_topic *t)
{
	const struct log *first = node_log(n, t, 0);
	const struct state_parent p = state_partition_parent(t, 0);
	if (t->initial && first != NULL && log_next(first) <= p.end && t->partition[0].start <= p.offset) {
		repair_propose_delete(n, t);
		return;
	}
	for (uint32_t i = 0; i < t->n_partitions; i++) {
		const struct log *log = node_log(n, t, i);
		if (log != NULL && log_is_closed(log) && !t->partition[i].closed && !t->closed &&
		    node_propose_close(n, t->id, i, false, on_repaired, n) == 0)
			n->repairs++;
	}
}

static void on_recovered(void *arg, const struct engine_recovery_stats *stats)
{
	struct node *n = arg;
	const struct state *s = meta_state(n->meta);
	n->recovery = *stats;
	n->phase = NODE_REPAIRING;
	n->repairs = 1;         /* ourselves, until all are proposed */
	const struct state_topic *t = state_topic_next(s, slice_of("", 0));
	for (; t != NULL; t = state_topic_next(s, slice_str(t->name))) {
		repair_topic(n, t);
		if (t->closing && !t->closed)
			node_resume_closing(n, t);
	}
	if (--n->repairs == 0)
		serve(n);
}

static void on_engine_warning(void *arg, const char *text)
{
	struct node *n = arg;
	if (n->events.on_warning != NULL)
		n->events.on_warning(n->arg, text);
}

static void clock_check(struct node *n)
{
	if (engine_clock_before(n->engine, meta_clock_before_ms(n->meta), state_clock_leap_ms(meta_state(n->meta))))
		on_engine_warning(n, "the clock is more than 90 days ahead of all that was ever written here: nothing "
				     "is deleted for its age in the next ten minutes; set the clock right");
}

static void on_registered(void *arg, uint64_t session)
{
	struct node *n = arg;
	const struct state *s = meta_state(n->meta);
	clock_check(n);
	const uint32_t node = n->config.meta.node;
	n->session = session;
	n->phase = NODE_RECOVERING;
	const struct state_topic *t = state_topic_next_any(s, slice_of("", 0));
	for (; t != NULL; t = state_topic_next_any(s, slice_str(t->name)))
		node_topic_add(n, t);
	size_t n_ended = 0;
	const struct state_session *x;
	for (x = state_session_next(s, node, 0); x != NULL; x = state_session_next(s, node, x->session))
		n_ended++;
	n->ended = must_calloc(n_ended, sizeof(*n->ended));
	n_ended = 0;
	for (x = state_session_next(s, node, 0); x != NULL; x = state_session_next(s, node, x->session))
		if (x->session != session && x->state == SESSION_ENDED && x->recoverer == node)
			n->ended[n_ended++] = (struct engine_session){ x->session, x->watermark, 0 };
	engine_start(n->engine, n->ended, n_ended, session, on_recovered, n);
}

static void on_session_ended(void *arg)
{
	struct node *n = arg;
	n->phase = NODE_STOPPED;
	n->events.on_fatal(n->arg, CONTROL_EXIT_SHARED, "another process was started with this node id and took over; leaving");
}

static void on_refused(void *arg, const char *text)
{
	struct node *n = arg;
	n->phase = NODE_STOPPED;
	n->events.on_fatal(n->arg, 1, text);
}

static void on_engine_fatal(void *arg, int code, const char *text)
{
	struct node *n = arg;
	n->phase = NODE_STOPPED;
	n->events.on_fatal(n->arg, code, text);
}

static void on_engine_reclaim(void *arg, struct segment *segment)
{
	struct node *n = arg;
	if (n->events.on_reclaim != NULL)
		n->events.on_reclaim(n->arg, segment);
}

static void on_engine_segment_gone(void *arg, struct segment *segment)
{
	struct node *n = arg;
	if (n->events.on_segment_gone != NULL)
		n->events.on_segment_gone(n->arg, segment);
}

static void on_engine_wal_position(void *arg, uint64_t session, uint64_t seq)
{
	struct node *n = arg;
	if (n->events.on_wal_position != NULL)
		n->events.on_wal_position(n->arg, session, seq);
}

static const struct catalogue *on_engine_catalogue(void *arg)
{
	const struct node *n = arg;
	return state_catalogue(meta_state(n->meta));
}

static void on_engine_commit(void *arg, const struct engine_commit *c, engine_proposed_cb *done, void *done_arg)
{
	node_propose_commit(arg, c, done, done_arg);
}

static void on_engine_recovered(void *arg, uint64_t session, uint64_t cut, engine_proposed_cb *done, void *done_arg)
{
	node_propose_recovered(arg, session, cut, done, done_arg);
}

static void on_engine_deleted(void *arg, const struct object_id *ids, size_t n_ids, engine_proposed_cb *done, void *done_arg)
{
	node_propose_deleted(arg, &(struct engine_commit){ .remove = ids, .n_remove = n_ids }, done, done_arg);
}

static uint64_t on_engine_living(void *arg, uint64_t log_id)
{
	const struct node *n = arg;
	return node_log_living(n, log_id);
}

static uint64_t on_engine_card(void *arg, uint64_t log_id, struct buf *ret)
{
	const struct node *n = arg;
	return log_card_encode(meta_state(n->meta), log_id, ret);
}

static enum engine_session_state on_engine_session(void *arg, uint64_t session, uint64_t *ret_watermark)
{
	const struct node *n = arg;
	const struct state_session *x = session == 0 ? NULL :
		state_session_next(meta_state(n->meta), n->config.meta.node, session - 1);
	if (x == NULL || x->session != session)
		return ENGINE_SESSION_UNKNOWN;
	*ret_watermark = x->watermark;
	return x->state == SESSION_ACTIVE ? ENGINE_SESSION_ACTIVE :
	       x->state == SESSION_ENDED ? ENGINE_SESSION_ENDED : ENGINE_SESSION_RECOVERED;
}

static const struct meta_events meta_events = {
	.on_applied = on_applied,
	.on_session_ended = on_session_ended,
	.on_refused = on_refused,
	.on_registered = on_registered,
};

static const struct engine_events engine_events = {
	.on_fatal = on_engine_fatal,
	.on_warning = on_engine_warning,
	.on_reclaim = on_engine_reclaim,
	.on_segment_gone = on_engine_segment_gone,
	.on_wal_position = on_engine_wal_position,
	.catalogue = on_engine_catalogue,
	.commit = on_engine_commit,
	.recovered = on_engine_recovered,
	.deleted = on_engine_deleted,
	.living = on_engine_living,
	.card = on_engine_card,
	.session = on_engine_session,
	.retention = on_engine_retention,
	.retention_shortest = on_engine_retention_shortest,
	.trim = on_engine_trim,
};

static void engine_config_fill(const struct node *n, const struct objstore *wal, struct engine_config *c)
{
	const struct node_config *from = &n->config;
	const struct objstore_url *u = &from->wal_url;
	*c = (struct engine_config){
		.node = from->meta.node,
		.wal_cache_size = from->wal_cache_size,
		.segment_size = from->segment_size != 0 ? from->segment_size : 8u << 20,
		.block_cache_size = from->block_cache_size,
		.index_cache_size = from->index_cache_size,
		.open_logs = from->open_logs,
		.pack_bytes = from->wal_upload_threshold,
		.pack_interval_ms = from->wal_upload_interval_ms,
		.gc_delay_ms = from->gc_delay_ms,
		.sweep_interval_ms = from->sweep_interval_ms,
		.retention_interval_ms = from->retention_interval_ms,
		.rewrite_patience_ms = from->rewrite_patience_ms,
		.max_message_size = from->max_message_size,
		.batch_interval_ms = u->has_batch_interval ? u->batch_interval_ms : wal->batch_interval_ms_default,
		.max_bytes_in_batch = u->has_max_bytes ? u->max_bytes_in_batch : 0,
		.max_unflushed_bytes = u->has_max_unflushed ? u->max_unflushed_bytes : 0,
		.max_inflight = u->max_inflight != 0 ? u->max_inflight : wal->max_inflight_default,
		.allow_unfenced_store = from->allow_unfenced_store,
	};
	memcpy(c->put_id, from->meta.boot_id, sizeof(c->put_id));
}

int node_new(struct env *env, struct objstore *data, struct objstore *wal, struct sql_log *sql,
	     const struct node_config *config, const struct node_events *events, void *arg, struct node **ret_node)
{
	struct node *n = must_calloc(1, sizeof(*n));
	n->env = env;
	n->config = *config;
	n->events = *events;
	n->arg = arg;
	struct engine_config c;
	engine_config_fill(n, wal, &c);
	int rc = engine_new(env, wal, data, &c, &engine_events, n, &n->engine);
	if (rc == 0)
		rc = meta_new(env, sql, data, wal != data ? wal : NULL, &config->meta, &meta_events, n, &n->meta);
	if (rc < 0) {
		engine_free(n->engine);
		free(n);
		return rc;
	}
	n->coordinator = coordinator_new(n);
	*ret_node = n;
	return 0;
}

void node_start(struct node *n)
{
	must(n->phase == NODE_NEW);
	n->phase = NODE_REGISTERING;
	meta_start(n->meta);
}

/* ------------------------------------------------------------------------- stop */

/* Every op that waits for a proposal or a read is waited for; the supervisor bounds how long. */
void node_maybe_stopped(struct node *n)
{
	if (n->phase != NODE_STOPPING || !n->flushed || n->ops != NULL)
		return;
	n->phase = NODE_STOPPED;
	n->on_stopped(n->stop_arg);
}

static void on_exported(void *arg)
{
	struct node *n = arg;
	n->flushed = true;
	node_maybe_stopped(n);
}

static void on_flushed(void *arg)
{
	struct node *n = arg;
	meta_export_last(n->meta, on_exported, n);
}

void node_stop(struct node *n, void (*on_stopped)(void *arg), void *arg)
{
	enum node_phase before = n->phase;
	n->on_stopped = on_stopped;
	n->stop_arg = arg;
	n->phase = NODE_STOPPING;
	coordinator_stop(n->coordinator);
	for (struct op *op = n->ops, *next; op != NULL; op = next) {
		next = op->next;
		if (op->on_stop != NULL)
			op->on_stop(op);
	}
	if (before == NODE_SERVING)
		engine_stop(n->engine, on_flushed, n);
	else
		on_flushed(n);
}

void node_free(struct node *n)
{
	if (n == NULL)
		return;
	engine_free(n->engine);
	n->engine = NULL;
	meta_free(n->meta);
	expiry_free(n);
	node_forget_proposals(n);
	coordinator_free(n->coordinator);
	while (n->ops != NULL)
		op_free(n->ops);
	watches_free(n);
	producer_ids_free(n->producer_ids);
	node_topics_free(n);
	free(n->ended);
	free(n);
}
