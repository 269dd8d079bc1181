/* SPDX-License-Identifier: Apache-2.0
 *
 * Consumer groups on a whole node: members, commits and their durability, restarts, snapshots and trims, expiry, bounds.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>

#include "common/metrics.h"
#include "common/must.h"
#include "t/unit/node_world.h"

#define NO_BYTES slice_of(NULL, 0)

static void restart(void)
{
	node_down();
	node_up();
}

static ProtobufCBinaryData text(const char *s)
{
	return (ProtobufCBinaryData){ .len = strlen(s), .data = (uint8_t *)(uintptr_t)s };
}

static bool is(ProtobufCBinaryData b, const char *s)
{
	return slice_is(slice_of(b.data, b.len), s);
}

/* ---------------------------------------------------------------------- members */

struct joining {
	Ipc__GroupJoinRequest m;
	Ipc__GroupProtocol protocol, *pointer;
	struct asked asked;
	char id[600];
	int32_t generation;
};

static void join_start(struct joining *j, const char *group, const char *id)
{
	char keep[600];
	snprintf(keep, sizeof(keep), "%s", id);
	memset(j, 0, sizeof(*j));
	strcpy(j->id, keep);
	ipc__group_join_request__init(&j->m);
	ipc__group_protocol__init(&j->protocol);
	j->pointer = &j->protocol;
	j->protocol.name = text("range");
	j->m.protocol = &j->pointer;
	j->m.n_protocol = 1;
	j->m.group = text(group);
	j->m.member_id = text(j->id);
	j->m.client_id = text("client");
	j->m.protocol_type = text("consumer");
	j->m.session_timeout_ms = 5000;
	j->m.rebalance_timeout_ms = 5000;
	ask_start(&j->asked, IPC_GROUP_JOIN, &j->m.base, NO_BYTES, 20000);
}

static Ipc__GroupJoinAnswer *join_end(struct joining *j)
{
	run_until(&j->asked.done);
	assert_int_equal(j->asked.error.kind, PICO_OK);
	Ipc__GroupJoinAnswer *a = (Ipc__GroupJoinAnswer *)j->asked.answer;
	snprintf(j->id, sizeof(j->id), "%.*s", (int)a->member_id.len, (const char *)a->member_id.data);
	j->generation = a->generation;
	return a;
}

static Ipc__GroupError join(struct joining *j, const char *group, const char *id)
{
	join_start(j, group, id);
	Ipc__GroupError e = join_end(j)->error;
	asked_done(&j->asked);
	return e;
}

struct syncing {
	Ipc__GroupSyncRequest m;
	Ipc__GroupSyncRequest__Assignment assignment, *pointer;
	struct asked asked;
};

static void sync_start(struct syncing *s, const char *group, const struct joining *j, const char *assignment)
{
	memset(s, 0, sizeof(*s));
	ipc__group_sync_request__init(&s->m);
	ipc__group_sync_request__assignment__init(&s->assignment);
	s->pointer = &s->assignment;
	s->assignment.member_id = text(j->id);
	s->assignment.assignment = text(assignment);
	s->m.assignment = &s->pointer;
	s->m.n_assignment = 1;
	s->m.group = text(group);
	s->m.member_id = text(j->id);
	s->m.generation = j->generation;
	ask_start(&s->asked, IPC_GROUP_SYNC, &s->m.base, NO_BYTES, 20000);
}

static Ipc__GroupError beat(const char *group, const char *id, int32_t generation)
{
	struct asked a;
	Ipc__GroupHeartbeatRequest m = IPC__GROUP_HEARTBEAT_REQUEST__INIT;
	m.group = text(group);
	m.member_id = text(id);
	m.generation = generation;
	ask(&a, IPC_GROUP_HEARTBEAT, &m.base, NO_BYTES);
	assert_int_equal(a.error.kind, PICO_OK);
	Ipc__GroupError e = ((Ipc__GroupHeartbeatAnswer *)a.answer)->error;
	asked_done(&a);
	return e;
}

static Ipc__GroupError leave(const char *group, const char *id)
{
	struct asked a;
	Ipc__GroupLeaveRequest m = IPC__GROUP_LEAVE_REQUEST__INIT;
	Ipc__GroupLeaveRequest__Member one = IPC__GROUP_LEAVE_REQUEST__MEMBER__INIT, *pointer = &one;
	m.group = text(group);
	one.member_id = text(id);
	m.member = &pointer;
	m.n_member = 1;
	ask(&a, IPC_GROUP_LEAVE, &m.base, NO_BYTES);
	assert_int_equal(a.error.kind, PICO_OK);
	Ipc__GroupLeaveAnswer *x = (Ipc__GroupLeaveAnswer *)a.answer;
	assert_int_equal(x->n_member, 1);
	Ipc__GroupError e = x->error != IPC__GROUP_ERROR__NONE ? x->error : x->member[0];
	asked_done(&a);
	return e;
}

/* ---------------------------------------------------------------------- offsets */

struct commit {
	Ipc__GroupCommitRequest m;
	Ipc__GroupCommitRequest__Part part, *pointer;
	struct asked asked;
};

static void commit_fill(struct commit *c, const char *group, const uint8_t topic[16], uint32_t partition, int64_t offset)
{
	memset(c, 0, sizeof(*c));
	ipc__group_commit_request__init(&c->m);
	ipc__group_commit_request__part__init(&c->part);
	c->pointer = &c->part;
	c->part.topic_id = (ProtobufCBinaryData){ .len = 16, .data = (uint8_t *)(uintptr_t)topic };
	c->part.partition = partition;
	c->part.offset = offset;
	c->part.leader_epoch = 3;
	c->part.metadata = text("meta");
	c->m.group = text(group);
	c->m.generation = -1;
	c->m.retention_ms = -1;
	c->m.part = &c->pointer;
	c->m.n_part = 1;
}

static Ipc__GroupError commit_end(struct commit *c)
{
	run_until(&c->asked.done);
	assert_int_equal(c->asked.error.kind, PICO_OK);
	Ipc__GroupCommitAnswer *a = (Ipc__GroupCommitAnswer *)c->asked.answer;
	Ipc__GroupError e = a->error;
	if (e == IPC__GROUP_ERROR__NONE) {
		assert_int_equal(a->n_part, c->m.n_part);
		e = a->part[0];
	}
	asked_done(&c->asked);
	return e;
}

static Ipc__GroupError commit_do(struct commit *c)
{
	ask_start(&c->asked, IPC_GROUP_COMMIT, &c->m.base, NO_BYTES, 10000);
	return commit_end(c);
}

static Ipc__GroupError commit(const char *group, const uint8_t topic[16], uint32_t partition, int64_t offset)
{
	struct commit c;
	commit_fill(&c, group, topic, partition, offset);
	return commit_do(&c);
}

static int64_t fetch(const char *group, const uint8_t topic[16], uint32_t partition)
{
	struct asked a;
	Ipc__GroupOffsetFetchRequest m = IPC__GROUP_OFFSET_FETCH_REQUEST__INIT;
	Ipc__GroupOffsetFetchRequest__Part part = IPC__GROUP_OFFSET_FETCH_REQUEST__PART__INIT, *pointer = &part;
	part.topic_id = (ProtobufCBinaryData){ .len = 16, .data = (uint8_t *)(uintptr_t)topic };
	part.partition = partition;
	m.group = text(group);
	m.part = &pointer;
	m.n_part = 1;
	ask(&a, IPC_GROUP_OFFSET_FETCH, &m.base, NO_BYTES);
	assert_int_equal(a.error.kind, PICO_OK);
	Ipc__GroupOffsetFetchAnswer *x = (Ipc__GroupOffsetFetchAnswer *)a.answer;
	assert_int_equal(x->error, IPC__GROUP_ERROR__NONE);
	assert_int_equal(x->n_part, 1);
	int64_t offset = x->part[0]->offset;
	assert_int_equal(x->part[0]->leader_epoch, offset >= 0 ? 3 : -1);
	asked_done(&a);
	return offset;
}

static Ipc__GroupState describe(const char *group, size_t *ret_members)
{
	struct asked a;
	Ipc__GroupDescribeRequest m = IPC__GROUP_DESCRIBE_REQUEST__INIT;
	m.group = text(group);
	ask(&a, IPC_GROUP_DESCRIBE, &m.base, NO_BYTES);
	assert_int_equal(a.error.kind, PICO_OK);
	Ipc__GroupDescribeAnswer *x = (Ipc__GroupDescribeAnswer *)a.answer;
	Ipc__GroupState state = x->state;
	*ret_members = x->n_member;
	asked_done(&a);
	return state;
}

static Ipc__GroupError delete(const char *group)
{
	struct asked a;
	Ipc__GroupDeleteRequest m = IPC__GROUP_DELETE_REQUEST__INIT;
	m.group = text(group);
	ask(&a, IPC_GROUP_DELETE, &m.base, NO_BYTES);
	assert_int_equal(a.error.kind, PICO_OK);
	Ipc__GroupError e = ((Ipc__GroupDeleteAnswer *)a.answer)->error;
	asked_done(&a);
	return e;
}

static Ipc__GroupError offset_delete(const char *group, const uint8_t topic[16], uint32_t partition)
{
	struct asked a;
	Ipc__GroupOffsetDeleteRequest m = IPC__GROUP_OFFSET_DELETE_REQUEST__INIT;
	Ipc__GroupOffsetDeleteRequest__Part part = IPC__GROUP_OFFSET_DELETE_REQUEST__PART__INIT, *pointer = &part;
	part.topic_id = (ProtobufCBinaryData){ .len = 16, .data = (uint8_t *)(uintptr_t)topic };
	part.partition = partition;
	m.group = text(group);
	m.part = &pointer;
	m.n_part = 1;
	ask(&a, IPC_GROUP_OFFSET_DELETE, &m.base, NO_BYTES);
	assert_int_equal(a.error.kind, PICO_OK);
	Ipc__GroupOffsetDeleteAnswer *x = (Ipc__GroupOffsetDeleteAnswer *)a.answer;
	Ipc__GroupError e = x->error != IPC__GROUP_ERROR__NONE ? x->error : x->part[0];
	asked_done(&a);
	return e;
}

/* How many groups the list has from there, and whether it names that one. */
static size_t list(const char *after, uint32_t limit, const char *group, bool *ret_has, bool *ret_more)
{
	struct asked a;
	Ipc__GroupListRequest m = IPC__GROUP_LIST_REQUEST__INIT;
	m.after = text(after);
	m.limit = limit;
	ask(&a, IPC_GROUP_LIST, &m.base, NO_BYTES);
	assert_int_equal(a.error.kind, PICO_OK);
	Ipc__GroupListAnswer *x = (Ipc__GroupListAnswer *)a.answer;
	*ret_has = false;
	*ret_more = x->has_more;
	for (size_t i = 0; i < x->n_group; i++)
		*ret_has |= is(x->group[i]->group, group);
	size_t n = x->n_group;
	asked_done(&a);
	return n;
}

static void topic_make(const char *name, uint32_t partitions, uint8_t ret_id[16])
{
	struct asked a;
	memcpy(ret_id, create(&a, name, partitions)->topic_id.data, 16);
	asked_done(&a);
}

static void topic_delete(const uint8_t id[16])
{
	struct asked a;
	Ipc__DeleteRequest m = IPC__DELETE_REQUEST__INIT;
	Ipc__TopicRef ref = IPC__TOPIC_REF__INIT;
	ref.topic_id = (ProtobufCBinaryData){ .len = 16, .data = (uint8_t *)(uintptr_t)id };
	m.topic = &ref;
	ask(&a, IPC_DELETE, &m.base, NO_BYTES);
	assert_int_equal(a.error.kind, PICO_OK);
	asked_done(&a);
}

/* Whether the group's log is there, and where it begins and ends. */
static bool log_of(const char *hex, Ipc__OffsetsAnswer *ret)
{
	char name[600];
	struct log_name l;
	struct asked a;
	Ipc__OffsetsRequest m = IPC__OFFSETS_REQUEST__INIT;
	snprintf(name, sizeof(name), "/_sys/groups/%s", hex);
	m.log = log_ref(&l, name, 0);
	ask(&a, IPC_OFFSETS, &m.base, NO_BYTES);
	bool there = a.error.kind == PICO_OK;
	if (there)
		*ret = *(Ipc__OffsetsAnswer *)a.answer;
	asked_done(&a);
	return there;
}

/* ------------------------------------------------------------------------ tests */

static void test_commit(void **state)
{
	uint8_t id[16], none[16] = { 9 };
	Ipc__OffsetsAnswer log;
	topic_make("/g/commit", 2, id);
	assert_int_equal(fetch("c1", id, 0), -1);
	assert_false(log_of("6331", &log));             /* a look makes no group */
	assert_int_equal(commit("c1", id, 0, 5), IPC__GROUP_ERROR__NONE);
	assert_true(log_of("6331", &log));
	assert_int_equal(log.confirm, 1);
	assert_int_equal(fetch("c1", id, 0), 5);
	assert_int_equal(fetch("c1", id, 1), -1);
	assert_int_equal(commit("c1", id, 0, 0), IPC__GROUP_ERROR__NONE);
	assert_int_equal(fetch("c1", id, 0), 0);
	assert_int_equal(commit("c1", id, 2, 1), IPC__GROUP_ERROR__UNKNOWN_TOPIC);
	assert_int_equal(commit("c1", none, 0, 1), IPC__GROUP_ERROR__UNKNOWN_TOPIC);
	assert_int_equal(commit("c1", id, 0, -1), IPC__GROUP_ERROR__INVALID_REQUEST);
	struct commit c;
	char *long_text = must_calloc(1, 4098);
	memset(long_text, 'x', 4097);
	commit_fill(&c, "c1", id, 1, 7);
	c.part.metadata = text(long_text);
	assert_int_equal(commit_do(&c), IPC__GROUP_ERROR__METADATA_TOO_LARGE);
	c.part.metadata.len--;
	assert_int_equal(commit_do(&c), IPC__GROUP_ERROR__NONE);
	assert_int_equal(fetch("c1", id, 1), 7);
	free(long_text);
	/* Of a generation that nobody knows: no group is made. */
	commit_fill(&c, "c2", id, 0, 7);
	c.m.generation = 1;
	c.m.member_id = text("m");
	assert_int_equal(commit_do(&c), IPC__GROUP_ERROR__ILLEGAL_GENERATION);
	assert_false(log_of("6332", &log));
	restart();
	assert_int_equal(fetch("c1", id, 0), 0);
	assert_int_equal(fetch("c1", id, 1), 7);
}

static void test_bad_ids(void **state)
{
	uint8_t id[16];
	char *long_id = must_calloc(1, 251);
	struct joining j;
	topic_make("/g/ids", 1, id);
	memset(long_id, 'g', 250);
	assert_int_equal(commit("", id, 0, 1), IPC__GROUP_ERROR__INVALID_GROUP_ID);
	assert_int_equal(commit(long_id, id, 0, 1), IPC__GROUP_ERROR__INVALID_GROUP_ID);
	assert_int_equal(join(&j, long_id, ""), IPC__GROUP_ERROR__INVALID_GROUP_ID);
	assert_int_equal(delete(""), IPC__GROUP_ERROR__INVALID_GROUP_ID);
	assert_int_equal(commit(long_id + 1, id, 0, 1), IPC__GROUP_ERROR__NONE);
	assert_int_equal(fetch(long_id + 1, id, 0), 1);
	assert_int_equal(delete(long_id + 1), IPC__GROUP_ERROR__NONE);
	free(long_id);
}

/* What comes in one turn of the loop is one append, answered in order. */
static void test_batching(void **state)
{
	static struct commit c[200];
	uint8_t id[16];
	Ipc__OffsetsAnswer before, after;
	topic_make("/g/batch", 200, id);
	assert_int_equal(commit("b", id, 0, 0), IPC__GROUP_ERROR__NONE);
	assert_true(log_of("62", &before));
	uint64_t appends = metrics->value[METRIC_APPENDS];
	for (uint32_t i = 0; i < 200; i++) {
		commit_fill(&c[i], "b", id, i, 100 + i);
		ask_start(&c[i].asked, IPC_GROUP_COMMIT, &c[i].m.base, NO_BYTES, 10000);
	}
	for (uint32_t i = 0; i < 200; i++)
		assert_int_equal(commit_end(&c[i]), IPC__GROUP_ERROR__NONE);
	assert_int_equal(metrics->value[METRIC_APPENDS] - appends, 1);
	assert_true(log_of("62", &after));
	assert_int_equal(after.confirm - before.confirm, 200);
	assert_int_equal(fetch("b", id, 199), 299);
}

static void test_snapshot(void **state)
{
	uint8_t id[16];
	Ipc__OffsetsAnswer log;
	topic_make("/g/snap", 3, id);
	assert_int_equal(commit("s", id, 1, 11), IPC__GROUP_ERROR__NONE);
	assert_int_equal(commit("s", id, 2, 22), IPC__GROUP_ERROR__NONE);
	assert_int_equal(offset_delete("s", id, 2), IPC__GROUP_ERROR__NONE);
	for (int i = 0; i < 1000; i++)
		assert_int_equal(commit("s", id, 0, i), IPC__GROUP_ERROR__NONE);
	bool done = false;
	for (int i = 0; i < 100 && log_of("73", &log) && log.start == 0; i++)
		run_for(&done, 20);
	assert_true(log.start >= 1000);
	assert_true(log.confirm - log.start < 10);
	restart();
	assert_int_equal(fetch("s", id, 0), 999);
	assert_int_equal(fetch("s", id, 1), 11);
	assert_int_equal(fetch("s", id, 2), -1);
	/* At most one trim a minute. */
	uint64_t start = log.start;
	for (int i = 0; i < 1100; i++)
		assert_int_equal(commit("s", id, 0, i), IPC__GROUP_ERROR__NONE);
	for (int i = 0; i < 1100; i++)
		assert_int_equal(commit("s", id, 0, i), IPC__GROUP_ERROR__NONE);
	assert_true(log_of("73", &log));
	assert_true(log.start > start);
	assert_true(log.confirm - log.start > 1000);
	assert_int_equal(fetch("s", id, 1), 11);
}

/* A table that is larger than a batch may be. */
static void test_snapshot_in_pieces(void **state)
{
	uint8_t id[16];
	node_down();
	world_max_message_size = 1024;
	node_up();
	topic_make("/g/pieces", 50, id);
	for (uint32_t i = 0; i < 50; i++)
		assert_int_equal(commit("p", id, i, 1000 + i), IPC__GROUP_ERROR__NONE);
	for (int i = 0; i < 1000; i++)
		assert_int_equal(commit("p", id, 7, i), IPC__GROUP_ERROR__NONE);
	Ipc__OffsetsAnswer log = { .start = 0 };
	bool done = false;
	for (int i = 0; i < 100 && log_of("70", &log) && log.start == 0; i++)
		run_for(&done, 20);
	assert_true(log.start > 0);
	restart();
	for (uint32_t i = 0; i < 50; i++)
		assert_int_equal(fetch("p", id, i), i == 7 ? 999 : 1000 + i);
	node_down();
	world_max_message_size = 1u << 20;
	node_up();
	assert_int_equal(fetch("p", id, 49), 1049);
}

static void test_members(void **state)
{
	struct joining a, b;
	struct syncing sa, sb;
	uint8_t id[16];
	size_t n;
	topic_make("/g/members", 1, id);
	assert_int_equal(describe("m", &n), IPC__GROUP_STATE__DEAD);
	assert_int_equal(join(&a, "m", "nobody"), IPC__GROUP_ERROR__UNKNOWN_MEMBER);
	assert_int_equal(beat("m", "nobody", 1), IPC__GROUP_ERROR__UNKNOWN_MEMBER);
	assert_int_equal(leave("m", "nobody"), IPC__GROUP_ERROR__UNKNOWN_MEMBER);
	assert_int_equal(join(&a, "m", ""), IPC__GROUP_ERROR__NONE);
	assert_int_equal(a.generation, 1);
	join_start(&b, "m", "");
	assert_int_equal(beat("m", a.id, 1), IPC__GROUP_ERROR__REBALANCE_IN_PROGRESS);
	join_start(&a, "m", a.id);
	Ipc__GroupJoinAnswer *x = join_end(&a);
	assert_int_equal(x->n_member, 2);
	assert_true(is(x->leader, a.id) && is(x->protocol, "range") && is(x->protocol_type, "consumer"));
	asked_done(&a.asked);
	assert_int_equal(join_end(&b)->n_member, 0);
	asked_done(&b.asked);
	sync_start(&sb, "m", &b, "");
	assert_false(sb.asked.done);
	sync_start(&sa, "m", &a, "p0");
	run_until(&sa.asked.done);
	run_until(&sb.asked.done);
	assert_true(is(((Ipc__GroupSyncAnswer *)sa.asked.answer)->assignment, "p0"));
	assert_true(is(((Ipc__GroupSyncAnswer *)sb.asked.answer)->assignment, ""));
	asked_done(&sa.asked);
	asked_done(&sb.asked);
	assert_int_equal(describe("m", &n), IPC__GROUP_STATE__STABLE);
	assert_int_equal(n, 2);
	/* Only members of this generation commit. */
	struct commit c;
	commit_fill(&c, "m", id, 0, 4);
	assert_int_equal(commit_do(&c), IPC__GROUP_ERROR__UNKNOWN_MEMBER);
	c.m.member_id = text(a.id);
	c.m.generation = 1;
	assert_int_equal(commit_do(&c), IPC__GROUP_ERROR__ILLEGAL_GENERATION);
	c.m.generation = 2;
	assert_int_equal(commit_do(&c), IPC__GROUP_ERROR__NONE);
	assert_int_equal(delete("m"), IPC__GROUP_ERROR__GROUP_NOT_EMPTY);
	assert_int_equal(leave("m", a.id), IPC__GROUP_ERROR__NONE);
	assert_int_equal(leave("m", b.id), IPC__GROUP_ERROR__NONE);
	assert_int_equal(describe("m", &n), IPC__GROUP_STATE__EMPTY);
	assert_int_equal(delete("m"), IPC__GROUP_ERROR__NONE);
	assert_int_equal(delete("m"), IPC__GROUP_ERROR__GROUP_NOT_FOUND);
	assert_int_equal(describe("m", &n), IPC__GROUP_STATE__DEAD);
	assert_int_equal(fetch("m", id, 0), -1);
}

/* A worker dies: its members stay, and a repeated join finds the place. */
static void test_worker_gone(void **state)
{
	struct joining a, b, c;
	struct syncing s;
	assert_int_equal(join(&a, "w", ""), IPC__GROUP_ERROR__NONE);
	join_start(&b, "w", "");
	join_start(&a, "w", a.id);
	join_end(&a);
	join_end(&b);
	asked_done(&a.asked);
	asked_done(&b.asked);
	sync_start(&s, "w", &b, "");
	node_cancel(node, &s.asked.call);
	assert_true(s.asked.done);
	assert_int_equal(s.asked.error.kind, PICO_CANCELLED);
	asked_done(&s.asked);
	assert_int_equal(beat("w", b.id, 2), IPC__GROUP_ERROR__NONE);
	/* A join of a new member that nobody was told of goes with it. */
	join_start(&c, "w", "");
	assert_int_equal(beat("w", a.id, 2), IPC__GROUP_ERROR__REBALANCE_IN_PROGRESS);
	node_cancel(node, &c.asked.call);
	assert_true(c.asked.done);
	asked_done(&c.asked);
	join_start(&b, "w", b.id);
	assert_false(b.asked.done);
	join_start(&a, "w", a.id);
	assert_int_equal(join_end(&a)->n_member, 2);
	asked_done(&a.asked);
	join_end(&b);
	asked_done(&b.asked);
	assert_int_equal(a.generation, 3);
}

/* storaged dies: one rebalance, generations go on, ids stay, offsets do not run back. */
static void test_restart(void **state)
{
	struct joining a, b;
	struct commit c;
	uint8_t id[16];
	topic_make("/g/restart", 1, id);
	assert_int_equal(join(&a, "r", ""), IPC__GROUP_ERROR__NONE);
	join_start(&b, "r", "");
	join_start(&a, "r", a.id);
	join_end(&a);
	join_end(&b);
	asked_done(&a.asked);
	asked_done(&b.asked);
	struct syncing s;
	sync_start(&s, "r", &a, "x");
	run_until(&s.asked.done);
	asked_done(&s.asked);
	commit_fill(&c, "r", id, 0, 10);
	c.m.member_id = text(a.id);
	c.m.generation = a.generation;
	assert_int_equal(commit_do(&c), IPC__GROUP_ERROR__NONE);
	restart();
	assert_int_equal(fetch("r", id, 0), 10);
	assert_int_equal(beat("r", a.id, 2), IPC__GROUP_ERROR__REBALANCE_IN_PROGRESS);
	c.part.offset = 11;
	assert_int_equal(commit_do(&c), IPC__GROUP_ERROR__NONE);
	char first[600];
	strcpy(first, a.id);
	join_start(&a, "r", a.id);
	bool never = false;
	run_for(&never, 50);
	assert_false(a.asked.done);                     /* it waits for the other one */
	join_start(&b, "r", b.id);
	assert_int_equal(join_end(&a)->n_member, 2);
	asked_done(&a.asked);
	join_end(&b);
	asked_done(&b.asked);
	assert_string_equal(a.id, first);
	assert_int_equal(a.generation, 3);
	c.part.offset = 5;                              /* late, of the old generation */
	assert_int_equal(commit_do(&c), IPC__GROUP_ERROR__ILLEGAL_GENERATION);
	assert_int_equal(fetch("r", id, 0), 11);
	/* Those who left are not waited for. */
	assert_int_equal(leave("r", a.id), IPC__GROUP_ERROR__NONE);
	assert_int_equal(leave("r", b.id), IPC__GROUP_ERROR__NONE);
	restart();
	assert_int_equal(beat("r", a.id, 3), IPC__GROUP_ERROR__UNKNOWN_MEMBER);
	assert_int_equal(join(&a, "r", ""), IPC__GROUP_ERROR__NONE);
	assert_int_equal(a.generation, 5);
}

static void test_topic_gone(void **state)
{
	uint8_t id[16], again[16];
	topic_make("/g/gone", 1, id);
	assert_int_equal(commit("t", id, 0, 5), IPC__GROUP_ERROR__NONE);
	topic_delete(id);
	assert_int_equal(fetch("t", id, 0), -1);
	topic_make("/g/gone", 1, again);
	assert_int_equal(fetch("t", again, 0), -1);     /* another topic of that name */
	restart();
	assert_int_equal(fetch("t", again, 0), -1);
	assert_int_equal(offset_delete("t", id, 0), IPC__GROUP_ERROR__UNKNOWN_TOPIC);
	assert_int_equal(offset_delete("t", again, 0), IPC__GROUP_ERROR__NONE);
	assert_int_equal(offset_delete("none", again, 0), IPC__GROUP_ERROR__GROUP_NOT_FOUND);
}

static void test_fetch_all(void **state)
{
	struct asked a;
	uint8_t id[2][16];
	topic_make("/all.one", 3, id[0]);
	topic_make("/all.two", 1, id[1]);
	for (uint32_t i = 0; i < 3; i++)
		assert_int_equal(commit("all", id[0], i, i), IPC__GROUP_ERROR__NONE);
	assert_int_equal(commit("all", id[1], 0, 9), IPC__GROUP_ERROR__NONE);
	Ipc__GroupOffsetFetchRequest m = IPC__GROUP_OFFSET_FETCH_REQUEST__INIT;
	m.group = text("all");
	m.all = true;
	ask(&a, IPC_GROUP_OFFSET_FETCH, &m.base, NO_BYTES);
	assert_int_equal(a.error.kind, PICO_OK);
	Ipc__GroupOffsetFetchAnswer *x = (Ipc__GroupOffsetFetchAnswer *)a.answer;
	assert_int_equal(x->n_part, 4);
	assert_false(x->has_more);
	unsigned named = 0;
	int64_t sum = 0;
	for (size_t i = 0; i < 4; i++) {
		named += x->part[i]->kafka_topic[0] != '\0';
		sum += x->part[i]->offset;
		assert_true(is(x->part[i]->metadata, "meta"));
	}
	assert_int_equal(named, 2);
	assert_int_equal(sum, 12);
	/* From behind the second on. */
	m.after_topic_id = x->part[1]->topic_id;
	m.after_partition = x->part[1]->partition;
	struct asked b;
	ask(&b, IPC_GROUP_OFFSET_FETCH, &m.base, NO_BYTES);
	assert_int_equal(((Ipc__GroupOffsetFetchAnswer *)b.answer)->n_part, 2);
	asked_done(&b);
	asked_done(&a);
}

static void test_list_and_bound(void **state)
{
	uint8_t id[16];
	bool has, more;
	char name[8];
	node_down();
	world_groups.groups_max = 30;
	node_up();
	topic_make("/g/list", 1, id);
	Ipc__GroupError e = IPC__GROUP_ERROR__NONE;
	for (int i = 0; i < 40 && e == IPC__GROUP_ERROR__NONE; i++) {
		snprintf(name, sizeof(name), "zz%02d", i);
		e = commit(name, id, 0, 1);
	}
	assert_int_equal(e, IPC__GROUP_ERROR__GROUP_FULL);
	assert_int_equal(list("", 0, "zz00", &has, &more), 30);
	assert_true(has && !more);
	assert_int_equal(list("", 5, "zz00", &has, &more), 5);
	assert_true(!has && more);
	list("zz00", 0, "zz00", &has, &more);
	assert_false(has);
	list("zz0", 0, "zz00", &has, &more);
	assert_true(has);
	assert_int_equal(delete("zz00"), IPC__GROUP_ERROR__NONE);
	assert_int_equal(commit(name, id, 0, 1), IPC__GROUP_ERROR__NONE);
	node_down();
	world_groups.groups_max = 0;
	node_up();
}

/* The memory of all groups is full: what is new is refused, what is there goes on. */
static void test_memory_bound(void **state)
{
	uint8_t id[16];
	char name[8];
	struct joining a;
	node_down();
	world_groups.memory_max = 3000;
	node_up();
	topic_make("/g/memory", 1, id);
	Ipc__GroupError e = IPC__GROUP_ERROR__NONE;
	int n = 0;
	for (; n < 40 && e == IPC__GROUP_ERROR__NONE; n++) {
		snprintf(name, sizeof(name), "mm%02d", n);
		e = commit(name, id, 0, 1);
	}
	assert_int_equal(e, IPC__GROUP_ERROR__METADATA_TOO_LARGE);
	assert_in_range(n, 10, 39);
	assert_int_equal(join(&a, "mm00", ""), IPC__GROUP_ERROR__GROUP_FULL);
	assert_int_equal(commit("mm00", id, 0, 2), IPC__GROUP_ERROR__NONE);
	assert_int_equal(fetch("mm00", id, 0), 2);
	restart();
	assert_int_equal(fetch("mm00", id, 0), 2);
	assert_int_equal(delete("mm00"), IPC__GROUP_ERROR__NONE);
	assert_int_equal(commit("mm01", id, 0, 3), IPC__GROUP_ERROR__NONE);
	node_down();
	world_groups.memory_max = 0;
	node_up();
}

static void test_expiry(void **state)
{
	struct joining a;
	struct commit c;
	uint8_t id[16];
	Ipc__OffsetsAnswer log;
	topic_make("/g/expiry", 2, id);
	assert_int_equal(commit("e1", id, 0, 5), IPC__GROUP_ERROR__NONE);
	commit_fill(&c, "e2", id, 0, 5);
	c.m.retention_ms = 1000000;
	assert_int_equal(commit_do(&c), IPC__GROUP_ERROR__NONE);
	assert_int_equal(join(&a, "e3", ""), IPC__GROUP_ERROR__NONE);
	node_down();
	world_groups.retention_ms = 1000;
	node_up();
	join_start(&a, "e3", a.id);
	join_end(&a);
	asked_done(&a.asked);
	struct syncing s;
	sync_start(&s, "e3", &a, "x");
	run_until(&s.asked.done);
	asked_done(&s.asked);
	commit_fill(&c, "e3", id, 0, 7);
	c.m.member_id = text(a.id);
	c.m.generation = a.generation;
	assert_int_equal(commit_do(&c), IPC__GROUP_ERROR__NONE);
	bool never = false;
	for (int i = 0; i < 300 && log_of("6531", &log); i++)
		run_for(&never, 50);
	assert_false(log_of("6531", &log));             /* and with its last offset the group */
	assert_int_equal(fetch("e1", id, 0), -1);
	assert_int_equal(fetch("e2", id, 0), 5);        /* its own time is longer */
	assert_int_equal(fetch("e3", id, 0), 7);        /* it has a member */
	node_down();
	world_groups.retention_ms = 0;
	node_up();
}

/* A stop answers what is parked. */
static void on_stopped(void *arg)
{
	*(bool *)arg = true;
}

static void test_stop(void **state)
{
	struct joining a, b;
	struct commit c;
	uint8_t id[16];
	bool stopped = false;
	topic_make("/g/stop", 1, id);
	assert_int_equal(commit("st", id, 0, 1), IPC__GROUP_ERROR__NONE);
	assert_int_equal(join(&a, "stop", ""), IPC__GROUP_ERROR__NONE);
	join_start(&b, "stop", "");
	commit_fill(&c, "st", id, 0, 2);
	ask_start(&c.asked, IPC_GROUP_COMMIT, &c.m.base, NO_BYTES, 10000);
	node_stop(node, on_stopped, &stopped);
	run_until(&stopped);
	assert_true(b.asked.done && c.asked.done);
	assert_int_equal(b.asked.error.kind, PICO_UNAVAILABLE);
	bool stored = c.asked.error.kind == PICO_OK;
	asked_done(&b.asked);
	asked_done(&c.asked);
	restart();
	assert_int_equal(fetch("st", id, 0), stored ? 2 : 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_commit), cmocka_unit_test(test_bad_ids), cmocka_unit_test(test_batching),
		cmocka_unit_test(test_snapshot), cmocka_unit_test(test_snapshot_in_pieces), cmocka_unit_test(test_members),
		cmocka_unit_test(test_worker_gone), cmocka_unit_test(test_restart), cmocka_unit_test(test_topic_gone),
		cmocka_unit_test(test_fetch_all), cmocka_unit_test(test_list_and_bound), cmocka_unit_test(test_memory_bound),
		cmocka_unit_test(test_expiry), cmocka_unit_test(test_stop),
	};
	return cmocka_run_group_tests(tests, world_set_up, world_tear_down);
}
