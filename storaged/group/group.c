/* SPDX-License-Identifier: Apache-2.0
 *
 * What members ask of their group, one function a request.
 */
#include "storaged/group/group.h"

#include <stdio.h>
#include <stdlib.h>

#include "storaged/group/group_impl.h"

/* ------------------------------------------------------------------------ life */

struct group *group_new(const struct group_config *config, const struct group_past *past)
{
	struct group *g = must_calloc(1, sizeof(*g));
	g->config = config;
	g->state = IPC__GROUP_STATE__EMPTY;
	g->rebalance_at_ms = g->sync_at_ms = g->expiry_ms = UINT64_MAX;
	if (past != NULL) {
		g->generation = past->generation;
		g->n_former = g->n_past = past->n_members;
		g->protocol_type = slice_keep(past->protocol_type);
	}
	return g;
}

static void group_clear(struct group *g)
{
	for (struct group_member *m = g->members, *next; m != NULL; m = next) {
		next = m->hh.next;
		m->join_waiter = m->sync_waiter = NULL;
		member_free(g, m);
	}
	for (struct group_pending *p = g->pending, *next; p != NULL; p = next) {
		next = p->hh.next;
		pending_free(g, p);
	}
	slice_drop(&g->protocol);
	slice_drop(&g->replaced_id);
}

void group_free(struct group *g)
{
	if (g == NULL)
		return;
	group_clear(g);
	slice_drop(&g->protocol_type);
	free(g->answers);
	free(g);
}

void group_end(struct group *g)
{
	for (struct group_member *m = g->members; m != NULL; m = m->hh.next) {
		answer_join(g, m, IPC__GROUP_ERROR__UNKNOWN_MEMBER);
		answer_sync(g, m, IPC__GROUP_ERROR__UNKNOWN_MEMBER);
	}
	group_clear(g);
	g->state = IPC__GROUP_STATE__DEAD;
	g->recording = false;
	g->rebalance_at_ms = g->sync_at_ms = g->expiry_ms = UINT64_MAX;
	g->n_former = 0;
}

bool group_take_answer(struct group *g, struct group_answer *ret_answer)
{
	if (g->first_answer == g->n_answers) {
		g->first_answer = g->n_answers = 0;
		return false;
	}
	*ret_answer = g->answers[g->first_answer++];
	return true;
}

/* ------------------------------------------------------------------------ join */

static bool names_are_good(const struct group_join *j)
{
	if (j->protocol_type.n == 0 || j->protocol_type.n > GROUP_WORD_MAX || j->n_protocols == 0 ||
	    j->n_protocols > GROUP_PROTOCOLS_MAX)
		return false;
	for (size_t i = 0; i < j->n_protocols; i++) {
		if (j->protocol[i].name.n == 0 || j->protocol[i].name.n > GROUP_WORD_MAX)
			return false;
		for (size_t k = 0; k < i; k++)
			if (slice_eq(j->protocol[i].name, j->protocol[k].name))
				return false;
	}
	return true;
}

/* What is wrong with the request whatever the group's state. */
static Ipc__GroupError join_fault(const struct group *g, const struct group_join *j)
{
	if (j->instance_id.p != NULL && (j->instance_id.n == 0 || j->instance_id.n > GROUP_INSTANCE_ID_MAX))
		return IPC__GROUP_ERROR__INVALID_REQUEST;
	if (j->session_ms < 0 || (uint64_t)j->session_ms < g->config->min_session_ms ||
	    (uint64_t)j->session_ms > g->config->max_session_ms)
		return IPC__GROUP_ERROR__INVALID_SESSION_TIMEOUT;
	if (g->state == IPC__GROUP_STATE__DEAD || j->member_id.n > GROUP_MEMBER_ID_MAX)
		return IPC__GROUP_ERROR__UNKNOWN_MEMBER;
	const struct group_member *self = j->member_id.n > 0 ? member_find(g, j->member_id)
							     : member_by_instance(g, j->instance_id);
	bool same_type = g->n_members == 0 || slice_eq(g->protocol_type, j->protocol_type);
	if (!names_are_good(j) || !same_type || !protocols_are_common(g, self, j))
		return IPC__GROUP_ERROR__INCONSISTENT_PROTOCOL;
	return member_fits(g, self, j) ? IPC__GROUP_ERROR__NONE : IPC__GROUP_ERROR__GROUP_FULL;
}

/* "<client id or instance id>-<random>" */
static struct slice id_new(const struct group_join *j, char buf[static GROUP_MEMBER_ID_MAX])
{
	struct slice head = j->instance_id.p != NULL ? j->instance_id : j->client_id;
	size_t n = head.n < GROUP_WORD_MAX ? head.n : GROUP_WORD_MAX;
	if (n > 0)
		memcpy(buf, head.p, n);
	n += (size_t)snprintf(buf + n, GROUP_MEMBER_ID_MAX - n, "-%.128s", j->new_id);
	return slice_of(buf, n);
}

static void join_refuse(struct group *g, const struct group_join *j, Ipc__GroupError error)
{
	answer_put(g, &(struct group_answer){ .waiter = j->waiter, .error = error });
}

static void join_add(struct group *g, struct slice id, const struct group_join *j, uint64_t now_ms)
{
	if (g->n_members == 0) {
		slice_drop(&g->protocol_type);
		g->protocol_type = slice_keep(j->protocol_type);
	}
	struct group_member *m = member_add(g, id, j);
	m->told = j->member_id.n > 0 || j->instance_id.p != NULL;
	if (g->state != IPC__GROUP_STATE__PREPARING_REBALANCE)
		rebalance_begin(g, now_ms);
	else
		g->came = true;
	member_join(g, m, j->waiter, now_ms);
}

/* KIP-394: it joins with the id that it is told; till then the id alone is kept. */
static void join_tell_id(struct group *g, struct slice id, const struct group_join *j, uint64_t now_ms)
{
	if (g->n_pending >= g->config->members_max) {
		join_refuse(g, j, IPC__GROUP_ERROR__GROUP_FULL);
		return;
	}
	struct group_pending *p = pending_add(g, id, now_ms + (uint64_t)j->session_ms);
	answer_put(g, &(struct group_answer){ .waiter = j->waiter, .error = IPC__GROUP_ERROR__MEMBER_ID_REQUIRED,
					      .member_id = p->id });
}

static void join_again(struct group *g, struct group_member *m, const struct group_join *j, uint64_t now_ms)
{
	member_update(g, m, j);
	m->told = true;
	if (g->state != IPC__GROUP_STATE__PREPARING_REBALANCE)
		rebalance_begin(g, now_ms);
	member_join(g, m, j->waiter, now_ms);
}

/* KIP-345: the instance comes back; the one that had its place before is out. In a stable group it gets the assignment
 * it had, unless the choice of a protocol changes with it. */
static void join_replace(struct group *g, struct group_member *m, struct slice id, const struct group_join *j,
			 uint64_t now_ms)
{
	answer_join(g, m, IPC__GROUP_ERROR__FENCED_INSTANCE);
	answer_sync(g, m, IPC__GROUP_ERROR__FENCED_INSTANCE);
	member_rename(g, m, id);
	member_update(g, m, j);
	m->told = true;
	if (g->state != IPC__GROUP_STATE__STABLE || !slice_eq(protocol_choose(g), g->protocol)) {
		if (g->state != IPC__GROUP_STATE__PREPARING_REBALANCE)
			rebalance_begin(g, now_ms);
		member_join(g, m, j->waiter, now_ms);
		return;
	}
	answer_join_now(g, m, j->waiter, now_ms);
	if (m != g->leader)
		return;
	/* It must not assign: nobody would hear of it. One that understands is told so (KIP-814); another one is told
	 * that its former self leads. */
	struct group_answer *a = &g->answers[g->n_answers - 1];
	a->skip_assignment = a->is_leader = j->may_skip_assignment;
	if (!j->may_skip_assignment)
		a->leader = g->replaced_id;
}

static void join_new(struct group *g, const struct group_join *j, uint64_t now_ms)
{
	char buf[GROUP_MEMBER_ID_MAX];
	struct slice id = id_new(j, buf);
	struct group_member *m = member_by_instance(g, j->instance_id);
	if (m != NULL)
		join_replace(g, m, id, j, now_ms);
	else if (j->instance_id.p == NULL && j->needs_member_id)
		join_tell_id(g, id, j, now_ms);
	else
		join_add(g, id, j, now_ms);
}

/* One whose answer was lost, or who only looks: nothing changes for the others. */
static bool join_is_nothing_new(const struct group *g, const struct group_member *m, const struct group_join *j)
{
	return member_matches(m, j) && (g->state == IPC__GROUP_STATE__COMPLETING_REBALANCE ||
					(g->state == IPC__GROUP_STATE__STABLE && m != g->leader));
}

static void join_known(struct group *g, const struct group_join *j, uint64_t now_ms)
{
	struct group_member *m = member_find(g, j->member_id), *of_instance = member_by_instance(g, j->instance_id);
	struct group_pending *p = pending_find(g, j->member_id);
	if (m == NULL && p != NULL && j->instance_id.p == NULL) {
		pending_free(g, p);
		join_add(g, j->member_id, j, now_ms);
	} else if (of_instance != m && of_instance != NULL) {
		join_refuse(g, j, IPC__GROUP_ERROR__FENCED_INSTANCE);
	} else if (m == NULL && g->n_former > 0) {
		join_add(g, j->member_id, j, now_ms);
	} else if (m == NULL || (j->instance_id.p != NULL && of_instance == NULL)) {
		join_refuse(g, j, IPC__GROUP_ERROR__UNKNOWN_MEMBER);
	} else if (join_is_nothing_new(g, m, j) && g->recording) {
		answer_join(g, m, IPC__GROUP_ERROR__REBALANCE_IN_PROGRESS);
		m->join_waiter = j->waiter;
	} else if (join_is_nothing_new(g, m, j)) {
		answer_sync(g, m, IPC__GROUP_ERROR__REBALANCE_IN_PROGRESS);
		answer_join_now(g, m, j->waiter, now_ms);
	} else {
		join_again(g, m, j, now_ms);
	}
}

void group_join(struct group *g, const struct group_join *j, uint64_t now_ms)
{
	must(g->first_answer == g->n_answers && j->waiter != NULL);
	Ipc__GroupError fault = join_fault(g, j);
	if (fault != IPC__GROUP_ERROR__NONE)
		join_refuse(g, j, fault);
	else if (j->member_id.n == 0)
		join_new(g, j, now_ms);
	else
		join_known(g, j, now_ms);
}

/* --------------------------------------------------------------- who is calling */

static Ipc__GroupError caller_find(struct group *g, const struct group_caller *c, struct group_member **ret_member)
{
	struct group_member *m = member_find(g, c->member_id), *of_instance = member_by_instance(g, c->instance_id);
	if (of_instance != NULL && of_instance != m)
		return IPC__GROUP_ERROR__FENCED_INSTANCE;
	if (m == NULL && g->n_former > 0 && c->member_id.n > 0)
		return c->generation < g->generation ? IPC__GROUP_ERROR__ILLEGAL_GENERATION
						     : IPC__GROUP_ERROR__REBALANCE_IN_PROGRESS;
	if (m == NULL || (c->instance_id.p != NULL && of_instance == NULL))
		return IPC__GROUP_ERROR__UNKNOWN_MEMBER;
	if (c->generation != g->generation)
		return IPC__GROUP_ERROR__ILLEGAL_GENERATION;
	*ret_member = m;
	return IPC__GROUP_ERROR__NONE;
}

Ipc__GroupError group_heartbeat(struct group *g, const struct group_caller *caller, uint64_t now_ms)
{
	struct group_member *m;
	Ipc__GroupError e = caller_find(g, caller, &m);
	if (e != IPC__GROUP_ERROR__NONE)
		return e;
	member_touch(g, m, now_ms);
	return g->state == IPC__GROUP_STATE__PREPARING_REBALANCE ? IPC__GROUP_ERROR__REBALANCE_IN_PROGRESS
								  : IPC__GROUP_ERROR__NONE;
}

/* One who waits for the leader's assignment has nothing to commit by this generation yet. */
Ipc__GroupError group_may_commit(struct group *g, const struct group_caller *c, uint64_t now_ms)
{
	struct group_member *m;
	bool nobody = c->member_id.n == 0 && c->instance_id.p == NULL && c->generation < 0;
	if (nobody)
		return g->n_members == 0 ? IPC__GROUP_ERROR__NONE : IPC__GROUP_ERROR__UNKNOWN_MEMBER;
	Ipc__GroupError e = caller_find(g, c, &m);
	/* From the last generation before a restart: nobody else has its partitions yet. */
	if (e == IPC__GROUP_ERROR__REBALANCE_IN_PROGRESS && c->generation == g->generation)
		return IPC__GROUP_ERROR__NONE;
	if (e != IPC__GROUP_ERROR__NONE)
		return e;
	member_touch(g, m, now_ms);
	return g->state == IPC__GROUP_STATE__COMPLETING_REBALANCE ? IPC__GROUP_ERROR__REBALANCE_IN_PROGRESS
								   : IPC__GROUP_ERROR__NONE;
}

/* ------------------------------------------------------------------------ sync */

static void sync_assign(struct group *g, const struct group_sync *s, uint64_t now_ms)
{
	for (size_t i = 0; i < s->n_assignments; i++) {
		struct group_member *m = member_find(g, s->assignment[i].member_id);
		if (m != NULL)
			member_set_assignment(g, m, s->assignment[i].assignment);
	}
	g->state = IPC__GROUP_STATE__STABLE;
	for (struct group_member *m = g->members; m != NULL; m = m->hh.next) {
		if (m->sync_waiter != NULL)
			member_touch(g, m, now_ms);
		answer_sync(g, m, IPC__GROUP_ERROR__NONE);
	}
}

static Ipc__GroupError sync_fault(struct group *g, const struct group_sync *s, struct group_member **ret_member)
{
	Ipc__GroupError e = caller_find(g, &s->caller, ret_member);
	if (e != IPC__GROUP_ERROR__NONE)
		return e;
	if (g->state == IPC__GROUP_STATE__PREPARING_REBALANCE || g->recording)
		return IPC__GROUP_ERROR__REBALANCE_IN_PROGRESS;
	if ((s->protocol_type.p != NULL && !slice_eq(s->protocol_type, g->protocol_type)) ||
	    (s->protocol.p != NULL && !slice_eq(s->protocol, g->protocol)))
		return IPC__GROUP_ERROR__INCONSISTENT_PROTOCOL;
	size_t bytes = 0;
	for (size_t i = 0; i < s->n_assignments; i++)
		bytes += s->assignment[i].assignment.n;
	size_t had = g->assignment_bytes, left = group_memory_left(g->config->memory);
	return bytes <= GROUP_ASSIGNMENTS_MAX && (bytes <= had || bytes - had <= left) ? IPC__GROUP_ERROR__NONE : IPC__GROUP_ERROR__INVALID_REQUEST;
}

void group_sync(struct group *g, const struct group_sync *s, uint64_t now_ms)
{
	struct group_member *m;
	must(g->first_answer == g->n_answers && s->waiter != NULL);
	Ipc__GroupError e = sync_fault(g, s, &m);
	if (e != IPC__GROUP_ERROR__NONE) {
		answer_put(g, &(struct group_answer){ .waiter = s->waiter, .of_sync = true, .error = e });
		return;
	}
	answer_sync(g, m, IPC__GROUP_ERROR__REBALANCE_IN_PROGRESS);
	g->n_unsynced -= !m->synced;
	m->synced = true;
	if (g->n_unsynced == 0)
		g->sync_at_ms = UINT64_MAX;
	m->sync_waiter = s->waiter;
	if (g->state == IPC__GROUP_STATE__STABLE) {
		member_touch(g, m, now_ms);
		answer_sync(g, m, IPC__GROUP_ERROR__NONE);
	} else if (m == g->leader) {
		sync_assign(g, s, now_ms);
	}
}

/* --------------------------------------------------------------------- leaving */

Ipc__GroupError group_leave(struct group *g, const struct group_caller *c, uint64_t now_ms)
{
	struct group_member *m = member_find(g, c->member_id), *of_instance = member_by_instance(g, c->instance_id);
	struct group_pending *p = pending_find(g, c->member_id);
	must(g->first_answer == g->n_answers);
	if (c->member_id.n == 0 && of_instance != NULL) {
		member_remove(g, of_instance, now_ms);
	} else if (of_instance != NULL && of_instance != m) {
		return IPC__GROUP_ERROR__FENCED_INSTANCE;
	} else if (m != NULL && (c->instance_id.p == NULL || of_instance == m)) {
		member_remove(g, m, now_ms);
	} else if (p != NULL) {
		pending_free(g, p);
		rebalance_check(g, now_ms);
	} else if (g->n_former > g->n_members) {        /* one of before a restart does not come back */
		g->n_former--;
		rebalance_check(g, now_ms);
	} else {
		return IPC__GROUP_ERROR__UNKNOWN_MEMBER;
	}
	return IPC__GROUP_ERROR__NONE;
}

/* A joining member that was not told its id cannot come back. */
static void forget_join(struct group *g, struct group_member *m, uint64_t now_ms)
{
	m->join_waiter = NULL;
	if (m->told)
		member_touch(g, m, now_ms);
	else
		member_remove(g, m, now_ms);
}

void group_forget(struct group *g, void *waiter, uint64_t now_ms)
{
	must(g->first_answer == g->n_answers);
	for (struct group_member *m = g->members; m != NULL; m = m->hh.next) {
		if (m->join_waiter == waiter) {
			forget_join(g, m, now_ms);
			return;
		}
		if (m->sync_waiter == waiter) {
			m->sync_waiter = NULL;
			member_touch(g, m, now_ms);
			return;
		}
	}
}

/* ------------------------------------------------------------------- looking at */

Ipc__GroupState group_state(const struct group *g)
{
	return g->state;
}

int32_t group_generation(const struct group *g)
{
	return g->generation;
}

struct slice group_protocol_type(const struct group *g)
{
	return g->protocol_type;
}

struct slice group_protocol(const struct group *g)
{
	return g->protocol;
}

struct group_past group_past(const struct group *g)
{
	return (struct group_past){ g->generation, g->n_past, g->protocol_type };
}
