/* SPDX-License-Identifier: Apache-2.0
 *
 * The state machine of a consumer group: every request in every state by a table, then what takes several steps: delays,
 * sessions, static members, lost calls, a restart.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>

#include "common/must.h"
#include "storaged/group/group.h"

enum { NONE = IPC__GROUP_ERROR__NONE, UNKNOWN = IPC__GROUP_ERROR__UNKNOWN_MEMBER,
       ILLEGAL = IPC__GROUP_ERROR__ILLEGAL_GENERATION, REBALANCE = IPC__GROUP_ERROR__REBALANCE_IN_PROGRESS,
       FENCED = IPC__GROUP_ERROR__FENCED_INSTANCE, FULL = IPC__GROUP_ERROR__GROUP_FULL,
       INCONSISTENT = IPC__GROUP_ERROR__INCONSISTENT_PROTOCOL, SESSION = IPC__GROUP_ERROR__INVALID_SESSION_TIMEOUT,
       ID_REQUIRED = IPC__GROUP_ERROR__MEMBER_ID_REQUIRED, INVALID = IPC__GROUP_ERROR__INVALID_REQUEST, PARKED = -1 };
enum { EMPTY = IPC__GROUP_STATE__EMPTY, PREPARING = IPC__GROUP_STATE__PREPARING_REBALANCE,
       COMPLETING = IPC__GROUP_STATE__COMPLETING_REBALANCE, STABLE = IPC__GROUP_STATE__STABLE,
       DEAD = IPC__GROUP_STATE__DEAD };

#define SESSION_MS 10000
#define REBALANCE_MS 60000

static struct group_config config;
static struct group *g;
static uint64_t now;

/* One call and what came back. */
struct told {
	bool done, leader, skip, of_sync;
	int error;
	char id[600], leader_id[600], assignment[1024];
};

static void copy(char *to, struct slice s)
{
	if (s.n > 0)
		memcpy(to, s.p, s.n);
	to[s.n] = '\0';
}

/* Every record is durable at once, unless a test says otherwise. */
static bool slow_log;

static void take_answers(void)
{
	struct group_answer a;
	while (group_take_answer(g, &a)) {
		struct told *t = a.waiter;
		assert_false(t->done);
		t->done = true;
		t->error = (int)a.error;
		t->leader = a.is_leader;
		t->skip = a.skip_assignment;
		t->of_sync = a.of_sync;
		copy(t->id, a.member_id);
		copy(t->leader_id, a.leader);
		copy(t->assignment, a.assignment);
	}
}

static void take(void)
{
	take_answers();
	if (slow_log)
		return;
	group_recorded(g, now);
	take_answers();
}

static struct group_protocol default_protocols[] = { { { (const uint8_t *)"range", 5 }, { (const uint8_t *)"m", 1 } } };
static unsigned n_ids;
static char new_id[16];

static struct group_join join_of(struct told *t, const char *id)
{
	*t = (struct told){ 0 };
	snprintf(new_id, sizeof(new_id), "%u", ++n_ids);
	return (struct group_join){ .member_id = slice_str(id), .client_id = slice_str("c"), .client_host = slice_str("h"),
		.protocol_type = slice_str("consumer"), .protocol = default_protocols, .n_protocols = 1,
		.session_ms = SESSION_MS, .rebalance_ms = REBALANCE_MS, .new_id = new_id, .waiter = t };
}

static int joined(const struct group_join *j)
{
	struct told *t = j->waiter;
	group_join(g, j, now);
	take();
	return t->done ? t->error : PARKED;
}

static int join(struct told *t, const char *id)
{
	struct group_join j = join_of(t, id);
	return joined(&j);
}

static int join_static(struct told *t, const char *id, const char *instance)
{
	struct group_join j = join_of(t, id);
	j.instance_id = slice_str(instance);
	return joined(&j);
}

static struct group_caller caller(const char *id, int32_t generation)
{
	return (struct group_caller){ .member_id = slice_str(id), .generation = generation };
}

/* By the leader with an assignment for itself and one more. */
static int sync_with(struct told *t, const char *id, int32_t generation, const char *other)
{
	struct group_assignment a[] = { { slice_str(id), slice_str("mine") }, { slice_str(other), slice_str("other") } };
	*t = (struct told){ 0 };
	group_sync(g, &(struct group_sync){ .caller = caller(id, generation), .assignment = a, .n_assignments = 2,
					    .waiter = t }, now);
	take();
	return t->done ? t->error : PARKED;
}

static int sync(struct told *t, const char *id, int32_t generation)
{
	return sync_with(t, id, generation, "");
}

static int beat(const char *id, int32_t generation)
{
	struct group_caller c = caller(id, generation);
	return (int)group_heartbeat(g, &c, now);
}

static int commit(const char *id, int32_t generation)
{
	struct group_caller c = caller(id, generation);
	return (int)group_may_commit(g, &c, now);
}

static int leave(const char *id)
{
	struct group_caller c = caller(id, -1);
	int e = (int)group_leave(g, &c, now);
	take();
	return e;
}

static void tick(uint64_t ms)
{
	now += ms;
	group_tick(g, now);
	take();
}

static int set_up(void **state)
{
	config = (struct group_config){ .members_max = 100, .min_session_ms = 1000, .max_session_ms = 300000, .rejoin_ms = 3000 };
	now = 1000;
	n_ids = 0;
	slow_log = false;
	g = group_new(&config, NULL);
	return 0;
}

static int tear_down(void **state)
{
	group_free(g);
	return 0;
}

/* Two members, the leader first: a is it. */
static struct told a, b, sa, sb;

static void reach(int state)
{
	if (state == EMPTY)
		return;
	if (state == DEAD) {
		group_end(g);
		take();
		return;
	}
	assert_int_equal(join(&a, ""), NONE);
	assert_int_equal(join(&b, ""), PARKED);
	char id[600];
	strcpy(id, a.id);
	if (state == PREPARING)
		return;
	assert_int_equal(join(&a, id), NONE);
	assert_true(b.done && a.leader && !b.leader);
	if (state == COMPLETING)
		return;
	assert_int_equal(sync(&sb, b.id, 2), PARKED);
	assert_int_equal(sync_with(&sa, a.id, 2, b.id), NONE);
	assert_true(sb.done);
	assert_string_equal(sa.assignment, "mine");
	assert_string_equal(sb.assignment, "other");
}

/* ------------------------------------------------------------------ the table */

enum event { JOIN_NEW, JOIN_SAME, JOIN_OTHER, JOIN_LEADER, JOIN_UNKNOWN, SYNC_LEADER, SYNC_FOLLOWER, SYNC_OLD, SYNC_UNKNOWN,
	     BEAT, BEAT_OLD, BEAT_UNKNOWN, COMMIT, COMMIT_OLD, COMMIT_NOBODY, LEAVE, LEAVE_UNKNOWN, EXPIRE };

static const struct row {
	int state;
	enum event event;
	int answer, next;               /* EXPIRE: the answer is not looked at */
} rows[] = {
	{ EMPTY, JOIN_NEW, NONE, COMPLETING },          { PREPARING, JOIN_NEW, PARKED, PREPARING },
	{ COMPLETING, JOIN_NEW, PARKED, PREPARING },    { STABLE, JOIN_NEW, PARKED, PREPARING },
	{ DEAD, JOIN_NEW, UNKNOWN, DEAD },
	{ PREPARING, JOIN_SAME, PARKED, PREPARING },
	{ COMPLETING, JOIN_SAME, NONE, COMPLETING },    { STABLE, JOIN_SAME, NONE, STABLE },
	{ COMPLETING, JOIN_OTHER, PARKED, PREPARING },  { STABLE, JOIN_OTHER, PARKED, PREPARING },
	{ PREPARING, JOIN_LEADER, NONE, COMPLETING },   /* the last one that was waited for */
	{ COMPLETING, JOIN_LEADER, NONE, COMPLETING },  { STABLE, JOIN_LEADER, PARKED, PREPARING },
	{ EMPTY, JOIN_UNKNOWN, UNKNOWN, EMPTY },        { PREPARING, JOIN_UNKNOWN, UNKNOWN, PREPARING },
	{ COMPLETING, JOIN_UNKNOWN, UNKNOWN, COMPLETING },      { STABLE, JOIN_UNKNOWN, UNKNOWN, STABLE },
	{ DEAD, JOIN_UNKNOWN, UNKNOWN, DEAD },
	{ PREPARING, SYNC_LEADER, REBALANCE, PREPARING },
	{ COMPLETING, SYNC_LEADER, NONE, STABLE },      { STABLE, SYNC_LEADER, NONE, STABLE },
	{ COMPLETING, SYNC_FOLLOWER, PARKED, COMPLETING },      { STABLE, SYNC_FOLLOWER, NONE, STABLE },
	{ COMPLETING, SYNC_OLD, ILLEGAL, COMPLETING },  { STABLE, SYNC_OLD, ILLEGAL, STABLE },
	{ EMPTY, SYNC_UNKNOWN, UNKNOWN, EMPTY },        { PREPARING, SYNC_UNKNOWN, UNKNOWN, PREPARING },
	{ STABLE, SYNC_UNKNOWN, UNKNOWN, STABLE },      { DEAD, SYNC_UNKNOWN, UNKNOWN, DEAD },
	{ PREPARING, BEAT, REBALANCE, PREPARING },
	{ COMPLETING, BEAT, NONE, COMPLETING },         { STABLE, BEAT, NONE, STABLE },
	{ COMPLETING, BEAT_OLD, ILLEGAL, COMPLETING },  { STABLE, BEAT_OLD, ILLEGAL, STABLE },
	{ EMPTY, BEAT_UNKNOWN, UNKNOWN, EMPTY },        { PREPARING, BEAT_UNKNOWN, UNKNOWN, PREPARING },
	{ STABLE, BEAT_UNKNOWN, UNKNOWN, STABLE },      { DEAD, BEAT_UNKNOWN, UNKNOWN, DEAD },
	{ PREPARING, COMMIT, NONE, PREPARING },         { COMPLETING, COMMIT, REBALANCE, COMPLETING },
	{ STABLE, COMMIT, NONE, STABLE },               { STABLE, COMMIT_OLD, ILLEGAL, STABLE },
	{ EMPTY, COMMIT_NOBODY, NONE, EMPTY },          { PREPARING, COMMIT_NOBODY, UNKNOWN, PREPARING },
	{ STABLE, COMMIT_NOBODY, UNKNOWN, STABLE },
	{ PREPARING, LEAVE, NONE, PREPARING },          { COMPLETING, LEAVE, NONE, PREPARING },
	{ STABLE, LEAVE, NONE, PREPARING },
	{ EMPTY, LEAVE_UNKNOWN, UNKNOWN, EMPTY },       { PREPARING, LEAVE_UNKNOWN, UNKNOWN, PREPARING },
	{ STABLE, LEAVE_UNKNOWN, UNKNOWN, STABLE },     { DEAD, LEAVE_UNKNOWN, UNKNOWN, DEAD },
	{ EMPTY, EXPIRE, 0, EMPTY },                    { PREPARING, EXPIRE, 0, COMPLETING },   /* who waits stays */
	{ COMPLETING, EXPIRE, 0, EMPTY },               { STABLE, EXPIRE, 0, EMPTY },
	{ DEAD, EXPIRE, 0, DEAD },
};

/* In PREPARING a knows nothing of the second generation yet, and b has no id. */
static int does(enum event event, int state)
{
	static struct group_protocol other[] = { { { (const uint8_t *)"range", 5 }, { (const uint8_t *)"x", 1 } } };
	static struct told t;
	struct group_join j;
	int32_t generation = state == PREPARING ? 1 : 2;
	const char *member = state == PREPARING ? "c-1" : state == EMPTY || state == DEAD ? "none" : b.id;
	switch (event) {
	case JOIN_NEW: return join(&t, "");
	case JOIN_SAME: return state == PREPARING ? PARKED : join(&t, b.id);
	case JOIN_OTHER:
		j = join_of(&t, b.id);
		j.protocol = other;
		return joined(&j);
	case JOIN_LEADER: return join(&t, "c-1");
	case JOIN_UNKNOWN: return join(&t, "c-99");
	case SYNC_LEADER: return sync(&t, "c-1", generation);
	case SYNC_FOLLOWER: return sync(&t, b.id, generation);
	case SYNC_OLD: return sync(&t, b.id, generation - 1);
	case SYNC_UNKNOWN: return sync(&t, "c-99", generation);
	case BEAT: return beat(member, generation);
	case BEAT_OLD: return beat(member, generation - 1);
	case BEAT_UNKNOWN: return beat("c-99", generation);
	case COMMIT: return commit(member, generation);
	case COMMIT_OLD: return commit(member, generation - 1);
	case COMMIT_NOBODY: return commit("", -1);
	case LEAVE: return leave(state == PREPARING ? "c-2" : member);
	case LEAVE_UNKNOWN: return leave("c-99");
	case EXPIRE:
		tick(SESSION_MS);
		return 0;
	}
	return -2;
}

static void test_table(void **state)
{
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		const struct row *r = &rows[i];
		tear_down(state);
		set_up(state);
		reach(r->state);
		int answer = does(r->event, r->state);
		if (answer != r->answer || (int)group_state(g) != r->next)
			fail_msg("row %zu: state %d event %d: answer %d (%d), then %d (%d)", i, r->state, r->event, answer, r->answer,
				 group_state(g), r->next);
	}
}

/* -------------------------------------------------------------------- scenarios */

static void test_id_first(void **state)
{
	struct told t, u;
	struct group_join j = join_of(&t, "");
	j.needs_member_id = true;
	assert_int_equal(joined(&j), ID_REQUIRED);
	assert_string_equal(t.id, "c-1");
	assert_int_equal(group_state(g), EMPTY);
	assert_int_equal(group_deadline(g), now + SESSION_MS);
	assert_int_equal(join(&u, t.id), NONE);
	assert_string_equal(u.id, "c-1");
	assert_int_equal(group_generation(g), 1);
	/* One who was told its id is waited for, until that expires. */
	j = join_of(&t, "");
	j.needs_member_id = true;
	assert_int_equal(joined(&j), ID_REQUIRED);
	char id[600];
	strcpy(id, u.id);
	assert_int_equal(sync(&sa, id, 1), NONE);
	assert_int_equal(join(&u, id), PARKED);
	tick(SESSION_MS - 1);
	assert_false(u.done);
	tick(1);
	assert_true(u.done);
	strcpy(id, t.id);
	assert_int_equal(join(&t, id), UNKNOWN);
}

static void test_delay(void **state)
{
	struct told t[4];
	config.initial_delay_ms = 3000;
	assert_int_equal(join(&t[0], ""), PARKED);
	assert_int_equal(group_deadline(g), now + 3000);
	tick(2000);
	assert_int_equal(join(&t[1], ""), PARKED);
	tick(1000);                     /* one came: 3 s more */
	assert_false(t[0].done);
	assert_int_equal(group_deadline(g), now + 3000);
	tick(3000);
	assert_true(t[0].done && t[1].done && t[0].leader);
	assert_int_equal(group_generation(g), 1);
	/* Not beyond the rebalance time-out, however many come. */
	group_end(g);
	group_free(g);
	g = group_new(&config, NULL);
	uint64_t begin = now;
	struct told many[40];
	assert_int_equal(join(&many[0], ""), PARKED);
	for (int i = 1; i < 40 && !many[0].done; i++) {
		assert_int_equal(join(&many[i], ""), PARKED);
		tick(1000);
		tick(1000);
	}
	assert_true(many[0].done);
	assert_int_equal(now - begin, REBALANCE_MS);
}

static void test_rebalance_time(void **state)
{
	struct told t;
	reach(STABLE);
	assert_int_equal(join(&t, ""), PARKED);
	for (int i = 0; i < 6; i++) {   /* alive, and does not join */
		assert_int_equal(beat(a.id, 2), REBALANCE);
		assert_int_equal(beat(b.id, 2), REBALANCE);
		assert_false(t.done);
		tick(SESSION_MS - 1);
	}
	tick(6);
	assert_true(t.done && t.leader);
	assert_int_equal(group_generation(g), 3);
	assert_int_equal(beat(a.id, 3), UNKNOWN);
}

static void test_ends_early(void **state)
{
	struct told t;
	reach(STABLE);
	assert_int_equal(join(&t, ""), PARKED);
	tick(SESSION_MS);               /* both are dead: nobody is left to wait for */
	assert_true(t.done && t.leader);
	assert_int_equal(group_past(g).n_members, 1);
}

static void test_sync_time(void **state)
{
	struct told t;
	reach(COMPLETING);
	assert_int_equal(sync_with(&t, a.id, 2, b.id), NONE);
	for (int i = 0; i < 7; i++) {
		beat(a.id, 2);
		beat(b.id, 2);
		tick(SESSION_MS - 1000);
	}
	assert_int_equal(group_state(g), PREPARING);
	assert_int_equal(beat(b.id, 2), UNKNOWN);
	assert_int_equal(beat(a.id, 2), REBALANCE);
}

static void test_protocols(void **state)
{
	struct group_protocol ab[] = { { slice_str("a"), slice_str("") }, { slice_str("b"), slice_str("") } };
	struct group_protocol bc[] = { { slice_str("b"), slice_str("") }, { slice_str("c"), slice_str("") } };
	struct group_protocol twice[] = { ab[0], ab[0] };
	struct told t[5];
	struct group_join j = join_of(&t[0], "");
	j.protocol = ab, j.n_protocols = 2;
	assert_int_equal(joined(&j), NONE);
	assert_true(slice_is(group_protocol(g), "a"));
	j = join_of(&t[1], "");
	j.protocol = &bc[1];
	assert_int_equal(joined(&j), INCONSISTENT);
	j.protocol = bc, j.n_protocols = 2;
	j.protocol_type = slice_str("connect");
	t[1].done = false;
	assert_int_equal(joined(&j), INCONSISTENT);
	j.protocol_type = slice_str("consumer");
	t[1].done = false;
	assert_int_equal(joined(&j), PARKED);
	char id[600];
	strcpy(id, t[0].id);
	j = join_of(&t[0], id);
	j.protocol = ab, j.n_protocols = 2;
	assert_int_equal(joined(&j), NONE);
	assert_true(slice_is(group_protocol(g), "b"));
	j = join_of(&t[2], "");
	j.protocol = twice, j.n_protocols = 2;
	assert_int_equal(joined(&j), INCONSISTENT);
	j = join_of(&t[2], "");
	j.n_protocols = 0;
	assert_int_equal(joined(&j), INCONSISTENT);
	struct group_sync s = { .caller = caller(id, 2), .protocol = slice_str("a"), .waiter = &t[3] };
	t[3] = (struct told){ 0 };
	group_sync(g, &s, now);
	take();
	assert_int_equal(t[3].error, INCONSISTENT);
}

static void test_votes(void **state)
{
	struct group_protocol ab[] = { { slice_str("a"), slice_str("") }, { slice_str("b"), slice_str("") } };
	struct group_protocol ba[] = { ab[1], ab[0] };
	struct told t[3];
	config.initial_delay_ms = 100;
	for (int i = 0; i < 3; i++) {
		struct group_join j = join_of(&t[i], "");
		j.protocol = i == 0 ? ab : ba;
		j.n_protocols = 2;
		assert_int_equal(joined(&j), PARKED);
	}
	tick(100);
	tick(100);
	assert_true(slice_is(group_protocol(g), "b"));
}

static void test_bounds(void **state)
{
	static struct told t[104];
	struct group_protocol many[33];
	char names[33][4];
	struct group_join j = join_of(&t[0], "");
	j.session_ms = 999;
	assert_int_equal(joined(&j), SESSION);
	j = join_of(&t[0], "");
	j.session_ms = 300001;
	assert_int_equal(joined(&j), SESSION);
	for (unsigned i = 0; i < 33; i++) {
		snprintf(names[i], sizeof(names[i]), "%u", i);
		many[i] = (struct group_protocol){ slice_str(names[i]), slice_str("") };
	}
	j = join_of(&t[0], "");
	j.protocol = many, j.n_protocols = 33;
	assert_int_equal(joined(&j), INCONSISTENT);
	char *long_id = must_calloc(1, 514);
	memset(long_id, 'x', 513);
	assert_int_equal(join(&t[0], long_id), UNKNOWN);
	assert_int_equal(join_static(&t[0], "", ""), INVALID);
	assert_int_equal(join_static(&t[0], "", long_id + 257), INVALID);
	j = join_of(&t[0], "");
	j.client_id = slice_str(long_id);
	j.session_ms = 1000, j.protocol = many, j.n_protocols = 32;
	assert_int_equal(joined(&j), NONE);
	assert_int_equal(strlen(t[0].id), 255 + strlen("-4") + 0);
	assert_int_equal(leave(t[0].id), NONE);
	free(long_id);
	for (int i = 0; i < 100; i++)
		assert_int_equal(join(&t[i], ""), i == 0 ? NONE : PARKED);
	assert_int_equal(join(&t[100], ""), FULL);
	uint8_t *big = must_calloc(1, GROUP_BYTES_MAX);
	struct group_protocol huge = { slice_str("range"), slice_of(big, GROUP_BYTES_MAX) };
	group_free(g);
	g = group_new(&config, NULL);
	j = join_of(&t[0], "");
	j.protocol = &huge;
	assert_int_equal(joined(&j), FULL);
	huge.metadata.n -= 1024;
	t[0].done = false;
	assert_int_equal(joined(&j), NONE);
	free(big);
}

static void test_static(void **state)
{
	struct told t, u, v;
	assert_int_equal(join_static(&a, "", "one"), NONE);
	assert_int_equal(sync(&sa, a.id, 1), NONE);
	assert_int_equal(join_static(&b, "", "two"), PARKED);
	char id[600], old[600];
	strcpy(id, a.id);
	assert_int_equal(join_static(&a, id, "one"), NONE);
	assert_true(b.done);
	assert_int_equal(sync(&sb, b.id, 2), PARKED);
	assert_int_equal(sync_with(&sa, a.id, 2, b.id), NONE);
	/* The follower comes back in another process: no rebalance, its assignment waits. */
	strcpy(old, b.id);
	assert_int_equal(join_static(&t, "", "two"), NONE);
	assert_string_not_equal(t.id, old);
	assert_string_equal(t.leader_id, a.id);
	assert_int_equal(group_generation(g), 2);
	assert_int_equal(sync(&u, t.id, 2), NONE);
	assert_string_equal(u.assignment, "other");
	struct group_caller fenced = { slice_str(old), slice_str("two"), 2 };
	assert_int_equal(group_heartbeat(g, &fenced, now), FENCED);
	assert_int_equal(group_may_commit(g, &fenced, now), FENCED);
	assert_int_equal(join_static(&v, old, "two"), FENCED);
	assert_int_equal(beat(old, 2), UNKNOWN);
	/* The leader comes back: it does not lead unless it knows to skip. */
	strcpy(old, a.id);
	assert_int_equal(join_static(&u, "", "one"), NONE);
	assert_false(u.leader || u.skip);
	assert_string_equal(u.leader_id, old);
	struct group_join j = join_of(&v, "");
	j.instance_id = slice_str("one");
	j.may_skip_assignment = true;
	assert_int_equal(joined(&j), NONE);
	assert_true(v.leader && v.skip);
	assert_string_equal(v.leader_id, v.id);
	assert_int_equal(group_state(g), STABLE);
	/* Leaving by instance. */
	struct group_caller by_instance = { slice_str(""), slice_str("two"), -1 };
	assert_int_equal(group_leave(g, &fenced, now), FENCED);
	assert_int_equal(group_leave(g, &by_instance, now), NONE);
	assert_int_equal(group_state(g), PREPARING);
	assert_int_equal(group_leave(g, &by_instance, now), UNKNOWN);
}

static void test_static_absent(void **state)
{
	struct told t;
	assert_int_equal(join_static(&a, "", "one"), NONE);
	assert_int_equal(sync(&sa, a.id, 1), NONE);
	struct group_join j = join_of(&t, "");
	j.rebalance_ms = 5000;
	for (struct group_member *m = (struct group_member *)group_member_next(g, NULL); m != NULL; m = NULL)
		assert_true(slice_is(member_instance_id(m), "one"));
	assert_int_equal(joined(&j), PARKED);
	tick(SESSION_MS - 1);
	assert_false(t.done);
	beat(a.id, 1);
	tick(REBALANCE_MS - SESSION_MS + 1 - 1);
	assert_true(t.done);            /* its session ended, so did the wait */
	assert_int_equal(join_static(&a, "", "two"), PARKED);
	char id[600];
	strcpy(id, t.id);
	assert_int_equal(join(&t, id), NONE);
	int32_t generation = group_generation(g);
	/* In the middle of a rebalance the one before it is answered, too. */
	assert_int_equal(join_static(&b, "", "three"), PARKED);
	assert_int_equal(join_static(&sb, "", "three"), PARKED);
	assert_true(b.done);
	assert_int_equal(b.error, FENCED);
	assert_int_equal(group_generation(g), generation);
}

static void test_lost_calls(void **state)
{
	struct told t, u;
	/* A first join whose id nobody was told goes with its call. */
	reach(STABLE);
	assert_int_equal(join(&t, ""), PARKED);
	group_forget(g, &t, now);
	take();
	assert_int_equal(group_state(g), PREPARING);
	assert_int_equal(group_generation(g), 2);
	assert_int_equal(join(&t, a.id), PARKED);
	/* A member's call is lost: it stays joined, a repeated join takes its place. */
	group_forget(g, &t, now);
	take();
	assert_int_equal(join(&u, b.id), NONE);
	assert_false(u.leader);
	assert_int_equal(group_state(g), COMPLETING);
	assert_int_equal(join(&t, a.id), NONE);
	assert_true(t.leader);
	assert_int_equal(group_generation(g), 3);
	/* The same of a sync. */
	assert_int_equal(sync(&u, b.id, 3), PARKED);
	group_forget(g, &u, now);
	take();
	assert_int_equal(sync(&sb, b.id, 3), PARKED);
	assert_int_equal(sync_with(&sa, a.id, 3, b.id), NONE);
	assert_true(sb.done && sb.error == NONE && !u.done);
	/* Nobody comes back: the session ends. */
	assert_int_equal(join(&t, a.id), PARKED);
	group_forget(g, &t, now);
	take();
	tick(SESSION_MS - 1);
	assert_int_equal(beat(b.id, 3), REBALANCE);
	tick(1);
	assert_int_equal(join(&u, b.id), NONE);
	assert_true(u.leader);
}

static void test_repeated_join(void **state)
{
	struct told t, u;
	reach(STABLE);
	assert_int_equal(join(&t, a.id), PARKED);
	assert_int_equal(join(&u, a.id), PARKED);
	assert_true(t.done);
	assert_int_equal(t.error, REBALANCE);
	assert_int_equal(join(&t, b.id), NONE);
	assert_true(u.done && u.leader);
}

static void test_leader_stays(void **state)
{
	struct told t;
	reach(STABLE);
	assert_int_equal(join(&t, b.id), NONE);         /* nothing new */
	assert_int_equal(join(&t, ""), PARKED);
	assert_int_equal(join(&b, "c-2"), PARKED);
	assert_int_equal(join(&a, "c-1"), NONE);
	assert_true(a.leader && !b.leader && !t.leader);
	assert_int_equal(leave("c-1"), NONE);
	char id[600];
	strcpy(id, t.id);
	assert_int_equal(join(&t, id), PARKED);
	assert_int_equal(join(&b, "c-2"), NONE);
	assert_true(b.leader && !t.leader);             /* the one that has been there longest */
}

static void test_restart(void **state)
{
	struct group_past past = { 7, 2, slice_str("consumer") };
	struct told t, u, v;
	group_free(g);
	g = group_new(&config, &past);
	assert_int_equal(group_state(g), EMPTY);
	assert_true(slice_is(group_protocol_type(g), "consumer"));
	assert_int_equal(beat("m1", 7), REBALANCE);
	assert_int_equal(beat("m1", 6), ILLEGAL);
	assert_int_equal(sync(&t, "m1", 7), REBALANCE);
	assert_int_equal(commit("m1", 7), NONE);        /* nobody else has its partitions yet */
	assert_int_equal(commit("m1", 6), ILLEGAL);
	assert_int_equal(join(&t, "m1"), PARKED);
	assert_int_equal(group_deadline(g), now + 3000);
	assert_int_equal(commit("m2", 7), NONE);
	tick(1000);
	assert_int_equal(join(&u, "m2"), NONE);         /* all are back: no need to wait */
	assert_true(t.done && t.leader);
	assert_string_equal(u.id, "m2");
	assert_int_equal(group_generation(g), 8);
	assert_int_equal(beat("m3", 8), UNKNOWN);
	assert_int_equal(commit("m3", 7), UNKNOWN);
	assert_int_equal(commit("m2", 7), ILLEGAL);
	assert_int_equal(join(&v, "m3"), UNKNOWN);
	/* One does not come back: the rest goes on without. */
	group_free(g);
	past.n_members = 3;
	g = group_new(&config, &past);
	assert_int_equal(join(&t, "m1"), PARKED);
	assert_int_equal(leave("m9"), NONE);
	assert_int_equal(join(&u, "m2"), NONE);
	assert_true(t.done);
	group_free(g);
	g = group_new(&config, &past);
	assert_int_equal(join(&t, "m1"), PARKED);
	tick(3000);
	assert_true(t.done && t.error == NONE);
	/* All had left before: it is as any empty group. */
	group_free(g);
	past.n_members = 0;
	g = group_new(&config, &past);
	assert_int_equal(beat("m1", 7), UNKNOWN);
	assert_int_equal(join(&t, ""), NONE);
	assert_int_equal(group_generation(g), 8);
}

/* Nobody hears of a generation whose record is not durable. */
static void test_slow_log(void **state)
{
	struct told t[4], again;
	slow_log = true;
	assert_int_equal(join(&t[0], ""), PARKED);
	assert_int_equal(group_state(g), COMPLETING);
	assert_int_equal(group_generation(g), 1);
	tick(SESSION_MS * 2);                           /* it waits in its call */
	/* Another one comes before that: one generation more, and the first is told of that one only. */
	assert_int_equal(join(&t[1], ""), PARKED);
	assert_int_equal(group_state(g), COMPLETING);
	assert_int_equal(group_generation(g), 2);
	assert_false(t[0].done);
	assert_int_equal(sync(&t[2], "c-1", 2), REBALANCE);     /* guessed */
	/* A repeated join waits in place of the first; a lost one leaves its place. */
	assert_int_equal(join_static(&t[3], "c-1", "none"), UNKNOWN);
	assert_int_equal(join(&again, "c-1"), PARKED);
	assert_true(t[0].done);
	assert_int_equal(t[0].error, REBALANCE);
	group_forget(g, &t[1], now);                    /* was not told its id: it is gone */
	take();
	assert_int_equal(group_generation(g), 3);
	group_recorded(g, now);
	take();
	assert_true(again.done && again.leader);
	assert_int_equal(again.error, NONE);
	group_recorded(g, now);
	take();
	assert_int_equal(group_past(g).n_members, 1);
	assert_int_equal(beat("c-1", 3), NONE);
}

static void test_past(void **state)
{
	reach(STABLE);
	struct group_past p = group_past(g);
	assert_int_equal(p.generation, 2);
	assert_int_equal(p.n_members, 2);
	assert_int_equal(leave(a.id), NONE);
	assert_int_equal(leave(b.id), NONE);
	p = group_past(g);
	assert_int_equal(group_state(g), EMPTY);
	assert_int_equal(p.generation, 3);
	assert_int_equal(p.n_members, 0);
	tick(SESSION_MS);
	assert_int_equal(group_deadline(g), UINT64_MAX);
}

static void test_subscribed(void **state)
{
	static const uint8_t two[] = { 0, 1, 0, 0, 0, 2, 0, 2, 'a', 'b', 0, 1, 'c', 0, 0, 0, 0 };
	struct group_protocol p = { slice_str("range"), slice_of(two, sizeof(two)) };
	struct told t;
	struct group_join j = join_of(&t, "");
	j.protocol = &p;
	assert_int_equal(joined(&j), NONE);
	assert_true(group_is_subscribed(g, slice_str("ab")) && group_is_subscribed(g, slice_str("c")));
	assert_false(group_is_subscribed(g, slice_str("abc")));
	p.metadata.n = 9;               /* cut: it may be */
	assert_int_equal(leave(t.id), NONE);
	j = join_of(&t, "");
	j.protocol = &p;
	assert_int_equal(joined(&j), NONE);
	assert_true(group_is_subscribed(g, slice_str("zz")));
}

/* All groups of a node share memory: what does not fit is refused, and what goes gives its own back. */
static void test_memory(void **state)
{
	static struct group_memory memory;
	static uint8_t many[6000];
	struct group_protocol p = { slice_str("range"), slice_of(many, 5900) };
	struct group_assignment large = { slice_str(""), slice_of(many, 0) };
	struct told t, s;
	memory = (struct group_memory){ .used = 100, .max = 6000 };
	config.memory = &memory;
	struct group_join j = join_of(&t, "");
	j.protocol = &p;
	assert_int_equal(joined(&j), FULL);
	assert_int_equal(memory.used, 100);
	p.metadata.n = 3000;
	t = (struct told){ 0 };
	assert_int_equal(joined(&j), NONE);
	assert_in_range(memory.used, 3100, 3600);
	size_t one = memory.used;
	large.member_id = slice_str(t.id);
	for (int i = 0; i < 2; i++) {
		large.assignment.n = i == 0 ? 6000 : 1000;
		s = (struct told){ 0 };
		group_sync(g, &(struct group_sync){ .caller = caller(t.id, 1), .assignment = &large, .n_assignments = 1, .waiter = &s },
			   now);
		take();
		assert_int_equal(s.error, i == 0 ? INVALID : NONE);
	}
	assert_int_equal(memory.used, one + 1000);
	group_end(g);
	take_answers();
	assert_int_equal(memory.used, 100);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_table), TEST(test_id_first), TEST(test_delay), TEST(test_rebalance_time), TEST(test_ends_early),
		TEST(test_sync_time), TEST(test_protocols), TEST(test_votes), TEST(test_bounds), TEST(test_static),
		TEST(test_static_absent), TEST(test_lost_calls), TEST(test_repeated_join), TEST(test_leader_stays),
		TEST(test_restart), TEST(test_slow_log), TEST(test_past), TEST(test_subscribed), TEST(test_memory),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
