/* SPDX-License-Identifier: Apache-2.0
 *
 * The groups of a node: finding one, making one, letting it go; its timer, and what follows from each of its events.
 */
#include "storaged/coordinator.h"

#include <errno.h>
#include <stdlib.h>

#include "common/log.h"
#include "common/metrics.h"
#include "storaged/coordinator_impl.h"

#define CONTENT_TYPE "application/vnd.picomq.group"

/* --------------------------------------------------------------------- entries */

struct group_entry *coordinator_find(const struct coordinator *co, struct slice id)
{
	struct group_entry *entry;
	HASH_FIND(hh, co->entries, id.p, id.n, entry);
	return entry;
}

static void on_entry_timer(void *arg)
{
	struct group_entry *entry = arg;
	if (entry->state != ENTRY_READY) {
		waited_enough(entry);
		return;
	}
	group_tick(entry->group, env_now_ms(entry->coordinator->node->env));
	group_entry_after(entry);
}

static struct group_entry *entry_new(struct coordinator *co, struct slice id, enum entry_state state)
{
	struct group_entry *entry = must_calloc(1, sizeof(*entry));
	entry->coordinator = co;
	entry->id = slice_of(must_memdup(id.p, id.n), id.n);
	entry->state = state;
	entry->timer = (struct env_timer){ .on_fire = on_entry_timer, .arg = entry };
	entry->queue_tail = &entry->queue;
	offsets_init(&entry->offsets, &co->memory);
	HASH_ADD_KEYPTR(hh, co->entries, entry->id.p, entry->id.n, entry);
	metric_add(METRIC_GROUPS, 1);
	return entry;
}

static void entry_free(struct group_entry *entry)
{
	struct env *env = entry->coordinator->node->env;
	env_timer_stop(env, &entry->timer);
	forget_waiting(entry);
	entry_log_done(entry);
	group_free(entry->group);
	offsets_done(&entry->offsets);
	free((void *)(uintptr_t)entry->id.p);
	free(entry);
}

/* One that is gone goes when nothing of it is under way any more. */
void entry_maybe_free(struct group_entry *entry)
{
	if (entry->gone && !entry->creating && !entry->deleting && !entry->reading && !entry->writing && !entry->dirty)
		entry_free(entry);
}

void entry_forget(struct group_entry *entry)
{
	must(!entry->gone);
	HASH_DEL(entry->coordinator->entries, entry);
	metric_add(METRIC_GROUPS, (uint64_t)-1);
	entry->gone = true;
	env_timer_stop(entry->coordinator->node->env, &entry->timer);
	env_timer_stop(entry->coordinator->node->env, &entry->retry);
}

int64_t group_entry_stamp_ms(const struct group_entry *entry)
{
	struct coordinator *co = entry->coordinator;
	return stamp_now_ms(&co->stamp, co->node->env);
}

/* ------------------------------------------------------------------- a new group */

void group_name(struct slice id, char ret_name[static GROUP_NAME_SIZE])
{
	static const char digits[] = "0123456789abcdef";
	size_t n = strlen(GROUPS_PREFIX);
	memcpy(ret_name, GROUPS_PREFIX, n);
	for (size_t i = 0; i < id.n; i++) {
		ret_name[n++] = digits[id.p[i] >> 4];
		ret_name[n++] = digits[id.p[i] & 15];
	}
	ret_name[n] = '\0';
}

static bool too_many(const struct coordinator *co)
{
	const struct state *s = meta_state(co->node->meta);
	uint64_t n = 0;
	const struct state_topic *t = state_topic_next(s, slice_str(GROUPS_PREFIX));
	for (; t != NULL && strncmp(t->name, GROUPS_PREFIX, strlen(GROUPS_PREFIX)) == 0; t = state_topic_next(s, slice_str(t->name)))
		if (++n >= co->groups_max)
			return true;
	return false;
}

/* Perhaps it was there, or is gone again. */
static void on_made(struct group_entry *entry)
{
	struct pico_error e;
	if (entry_log(entry) != NULL) {
		entry->state = ENTRY_LOADING;
		entry_load(entry);
		return;
	}
	pico_error_set(&e, PICO_UNAVAILABLE, "the group was deleted again; try again");
	entry_forget(entry);
	fail_waiting(entry, &e);
	entry_maybe_free(entry);
}

static void on_created(void *arg, const Meta__Result__One *result)
{
	struct group_entry *entry = arg;
	struct pico_error e;
	entry->creating = false;
	if (entry->gone) {
		entry_maybe_free(entry);
	} else if (result != NULL && result->error == PICO_OK && result->topic_id.len == sizeof(entry->topic_id)) {
		memcpy(entry->topic_id, result->topic_id.data, sizeof(entry->topic_id));
		on_made(entry);
	} else {
		if (result != NULL && result->error != PICO_OK)
			result_error(result, &e);
		else
			pico_error_set(&e, PICO_UNAVAILABLE, "the metadata is not to be had; try again");
		entry_forget(entry);
		fail_waiting(entry, &e);
		entry_maybe_free(entry);
	}
}

/* The node that is asked is the group's coordinator, so the log is its own. */
static int entry_create(struct group_entry *entry)
{
	struct node *n = entry->coordinator->node;
	char name[GROUP_NAME_SIZE];
	uint32_t owner = n->config.meta.node;
	Meta__Command command = META__COMMAND__INIT;
	Meta__CreateTopic create = META__CREATE_TOPIC__INIT;
	group_name(entry->id, name);
	command.kind_case = META__COMMAND__KIND_CREATE_TOPIC;
	command.create_topic = &create;
	env_random(n->env, entry->topic_id, sizeof(entry->topic_id));
	create.topic_id = (ProtobufCBinaryData){ .len = sizeof(entry->topic_id), .data = entry->topic_id };
	create.name = name;
	create.content_type = CONTENT_TYPE;
	create.partitions = 1;
	create.n_owners = 1;
	create.owners = &owner;
	create.has_kafka_topic = true;          /* none */
	create.reserved_allowed = true;
	entry->creating = true;
	int r = meta_propose(n->meta, &command, on_created, entry);
	if (r < 0)
		entry->creating = false;
	return r;
}

void coordinator_enter(struct coordinator *co, struct group_call *gc, struct slice id, bool create)
{
	struct group_entry *entry = coordinator_find(co, id);
	char name[GROUP_NAME_SIZE];
	group_name(id, name);
	const struct state_topic *t = entry == NULL ? state_topic_by_name(meta_state(co->node->meta), slice_str(name)) : NULL;
	if (entry == NULL && t == NULL && !create) {
		gc->run(gc->op, NULL);
		return;
	}
	if (entry == NULL && t != NULL && node_log(co->node, t, 0) == NULL) {
		op_refuse(gc->op, PICO_NOT_OWNER, "another node coordinates this group");
		return;
	}
	if (entry == NULL && t == NULL && too_many(co)) {
		group_call_refuse(gc->op, IPC__GROUP_ERROR__GROUP_FULL);
		return;
	}
	if (entry == NULL)
		entry = t != NULL ? entry_open(co, id, t->id) : entry_new(co, id, ENTRY_CREATING);
	if (entry->state == ENTRY_CREATING && !entry->creating && entry_create(entry) < 0) {
		entry_forget(entry);
		entry_maybe_free(entry);
		op_refuse(gc->op, PICO_THROTTLED, "too many metadata changes are waiting; try again");
	} else if (entry->state == ENTRY_READY) {
		gc->run(gc->op, entry);
	} else if (entry->state == ENTRY_FAILED) {
		op_refuse(gc->op, PICO_UNAVAILABLE, "the group's log cannot be read; storaged's log says why");
	} else {
		call_wait(gc, entry);
	}
}

struct group_entry *entry_open(struct coordinator *co, struct slice id, const uint8_t topic_id[16])
{
	struct group_entry *entry = entry_new(co, id, ENTRY_LOADING);
	memcpy(entry->topic_id, topic_id, sizeof(entry->topic_id));
	entry_load(entry);
	return entry;
}

/* ------------------------------------------------------------------ a group lives */

void entry_loaded(struct group_entry *entry)
{
	const struct coordinator *co = entry->coordinator;
	bool past = entry->offsets.past_ms != 0;
	entry->state = ENTRY_READY;
	env_timer_stop(co->node->env, &entry->timer);
	entry->generation_written = entry->offsets.past.generation;
	entry->group = group_new(&co->group, past ? &entry->offsets.past : NULL);
	entry->empty_since_ms = entry->offsets.past_ms;
	run_waiting(entry, entry);
}

void entry_load_failed(struct group_entry *entry, int error)
{
	struct pico_error e;
	char name[GROUP_NAME_SIZE];
	group_name(entry->id, name);
	log_error("cannot read the log of a consumer group, refusing its requests stream=%s why=\"%s\"", name,
		  error == -ENOTSUP ? "written by a newer release" : "a record is damaged");
	entry->state = ENTRY_FAILED;
	pico_error_set(&e, PICO_UNAVAILABLE, "the group's log cannot be read; storaged's log says why");
	fail_waiting(entry, &e);
}

static void write_past(struct group_entry *entry)
{
	struct group_past past = group_past(entry->group);
	struct buf b;
	buf_init(&b, 1024);
	offsets_write_past(&b, &past, group_entry_stamp_ms(entry));
	must(!b.failed);
	entry_write(entry, slice_of(must_memdup(buf_head(&b), buf_len(&b)), buf_len(&b)), NULL, NULL);
	buf_done(&b);
}

void group_entry_after(struct group_entry *entry)
{
	struct env *env = entry->coordinator->node->env;
	struct group_answer a;
	if (entry->coordinator->stopping || entry->gone || entry->state != ENTRY_READY)
		return;
	while (group_take_answer(entry->group, &a))
		group_call_answer(entry, &a);
	int32_t generation = group_generation(entry->group);
	if (generation != entry->generation_written) {
		entry->generation_written = generation;
		if (group_state(entry->group) == IPC__GROUP_STATE__EMPTY)
			entry->empty_since_ms = group_entry_stamp_ms(entry);
		metric_add(METRIC_GROUP_REBALANCES, 1);
		write_past(entry);
	}
	uint64_t at = group_deadline(entry->group);
	if (at == UINT64_MAX)
		env_timer_stop(env, &entry->timer);
	else
		env_timer_start(env, &entry->timer, at);
}

/* --------------------------------------------------------------------- it goes */

/* Its topic is gone. */
static void entry_end(struct group_entry *entry)
{
	struct group_answer a;
	entry_forget(entry);
	run_waiting(entry, NULL);
	must(entry->waiting == NULL);
	if (entry->group != NULL)
		group_end(entry->group);
	while (entry->group != NULL && group_take_answer(entry->group, &a))
		group_call_answer(entry, &a);
	entry_fail_writes(entry);
	entry_maybe_free(entry);
}

void coordinator_topic_gone(struct coordinator *co, const uint8_t topic_id[16])
{
	struct group_entry *entry, *next;
	HASH_ITER(hh, co->entries, entry, next) {
		if (!entry->creating && memcmp(entry->topic_id, topic_id, sizeof(entry->topic_id)) == 0) {
			entry_end(entry);
			return;
		}
	}
}

/* What was applied has been worked off by now; what is left is a refusal. */
static void on_deleted(void *arg, const Meta__Result__One *result)
{
	struct group_entry *entry = arg;
	entry->deleting = false;
	if (entry->gone) {
		entry_maybe_free(entry);
		return;
	}
	entry->state = ENTRY_READY;
	env_timer_stop(entry->coordinator->node->env, &entry->timer);
	run_waiting(entry, entry);
}

int group_entry_delete(struct group_entry *entry)
{
	Meta__Command command = META__COMMAND__INIT;
	Meta__DeleteTopic delete = META__DELETE_TOPIC__INIT;
	must(entry->state == ENTRY_READY && group_state(entry->group) == IPC__GROUP_STATE__EMPTY);
	command.kind_case = META__COMMAND__KIND_DELETE_TOPIC;
	command.delete_topic = &delete;
	delete.topic_id = (ProtobufCBinaryData){ .len = sizeof(entry->topic_id), .data = entry->topic_id };
	if (meta_propose(entry->coordinator->node->meta, &command, on_deleted, entry) < 0)
		return -EAGAIN;
	entry->state = ENTRY_DELETING;
	entry->deleting = true;
	env_timer_stop(entry->coordinator->node->env, &entry->timer);
	return 0;
}

/* ------------------------------------------------------------------------ flush */

static void on_flush(void *arg)
{
	struct coordinator *co = arg;
	struct group_entry *entry;
	while ((entry = co->dirty) != NULL) {
		co->dirty = entry->next_dirty;
		entry->dirty = false;
		if (entry->gone)
			entry_maybe_free(entry);
		else
			entry_flush(entry);
	}
}

void coordinator_wants_flush(struct group_entry *entry)
{
	struct coordinator *co = entry->coordinator;
	if (entry->dirty || entry->writing || entry->gone)
		return;
	entry->dirty = true;
	entry->next_dirty = co->dirty;
	co->dirty = entry;
	env_defer(co->node->env, &co->flush);
}

/* ------------------------------------------------------------------------- life */

static uint64_t or_default(uint64_t v, uint64_t instead)
{
	return v != 0 ? v : instead;
}

struct coordinator *coordinator_new(struct node *n)
{
	const struct node_groups *from = &n->config.groups;
	struct coordinator *co = must_calloc(1, sizeof(*co));
	co->node = n;
	co->group = (struct group_config){
		.members_max = (uint32_t)or_default(from->members_max, 10000),
		.min_session_ms = or_default(from->min_session_ms, 1000),
		.max_session_ms = or_default(from->max_session_ms, 1800000),
		.initial_delay_ms = from->initial_delay_ms,
		.rejoin_ms = REJOIN_MS,
		.memory = &co->memory,
	};
	co->memory.max = or_default(from->memory_max, 256u << 20);
	co->groups_max = or_default(from->groups_max, 10000);
	co->retention_ms = or_default(from->retention_ms, 604800000);
	co->flush = (struct env_task){ .run = on_flush, .arg = co };
	coordinator_sweep_init(co);
	stamp_init(&co->stamp, n->env);
	return co;
}

void coordinator_stop(struct coordinator *co)
{
	struct env *env = co->node->env;
	struct group_entry *entry, *next;
	co->stopping = true;
	env_timer_stop(env, &co->sweep);
	HASH_ITER(hh, co->entries, entry, next) {
		env_timer_stop(env, &entry->timer);
		env_timer_stop(env, &entry->retry);
	}
}

void coordinator_free(struct coordinator *co)
{
	struct group_entry *entry, *next;
	if (co == NULL)
		return;
	coordinator_stop(co);
	HASH_ITER(hh, co->entries, entry, next) {
		HASH_DEL(co->entries, entry);
		entry_free(entry);
	}
	free(co);
}
