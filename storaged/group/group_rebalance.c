/* SPDX-License-Identifier: Apache-2.0
 *
 * How a group gets from one generation to the next: it waits for its members, drops those that do not come, picks leader
 * and protocol, and waits for the assignments. And what time does to it.
 */
#include <stdlib.h>

#include "storaged/group/group_impl.h"

/* -------------------------------------------------------------------- answers */

void answer_put(struct group *g, const struct group_answer *a)
{
	if (g->n_answers == g->answers_capacity) {
		g->answers_capacity = g->answers_capacity * 2 + 8;
		g->answers = must_realloc(g->answers, g->answers_capacity * sizeof(*g->answers));
	}
	g->answers[g->n_answers++] = *a;
}

static struct group_answer answer_of_join(const struct group *g, const struct group_member *m, Ipc__GroupError error)
{
	struct group_answer a = { .error = error };
	if (error != IPC__GROUP_ERROR__NONE)
		return a;
	a.member_id = m->id;
	a.leader = g->leader != NULL ? g->leader->id : m->id;
	a.is_leader = m == g->leader;
	return a;
}

void answer_join(struct group *g, struct group_member *m, Ipc__GroupError error)
{
	struct group_answer a = answer_of_join(g, m, error);
	a.waiter = m->join_waiter;
	m->join_waiter = NULL;
	m->told |= error == IPC__GROUP_ERROR__NONE;
	if (a.waiter != NULL)
		answer_put(g, &a);
}

void answer_join_now(struct group *g, struct group_member *m, void *waiter, uint64_t now_ms)
{
	struct group_answer a = answer_of_join(g, m, IPC__GROUP_ERROR__NONE);
	a.waiter = waiter;
	m->told = true;
	member_touch(g, m, now_ms);
	answer_put(g, &a);
}

void answer_sync(struct group *g, struct group_member *m, Ipc__GroupError error)
{
	struct group_answer a = { .waiter = m->sync_waiter, .of_sync = true, .error = error };
	m->sync_waiter = NULL;
	if (error == IPC__GROUP_ERROR__NONE)
		a.assignment = m->assignment;
	if (a.waiter != NULL)
		answer_put(g, &a);
}

/* ----------------------------------------------------------------------- begin */

static uint64_t rebalance_timeout_ms(const struct group *g)
{
	uint64_t ms = 0;
	for (const struct group_member *m = g->members; m != NULL; m = m->hh.next)
		if (m->rebalance_ms > ms)
			ms = m->rebalance_ms;
	return ms;
}

/* The first members wait for more, as long as some come; those of before a restart are known to. */
static uint64_t delay_of(const struct group *g)
{
	uint64_t ms = g->config->initial_delay_ms;
	if (g->n_former > 0 && g->config->rejoin_ms > ms)
		ms = g->config->rejoin_ms;
	return ms;
}

void rebalance_begin(struct group *g, uint64_t now_ms)
{
	uint64_t timeout = rebalance_timeout_ms(g), delay = delay_of(g);
	must(g->state != IPC__GROUP_STATE__PREPARING_REBALANCE && g->state != IPC__GROUP_STATE__DEAD);
	g->delaying = g->state == IPC__GROUP_STATE__EMPTY && delay > 0;
	g->delay_ms = delay < timeout ? delay : timeout;
	g->delay_left_ms = timeout - g->delay_ms;
	g->came = false;
	g->state = IPC__GROUP_STATE__PREPARING_REBALANCE;
	g->rebalance_at_ms = now_ms + (g->delaying ? g->delay_ms : timeout);
	g->sync_at_ms = UINT64_MAX;
	g->n_joined = g->n_unsynced = 0;
	for (struct group_member *m = g->members; m != NULL; m = m->hh.next) {
		must(m->join_waiter == NULL || g->recording);   /* nobody was told of that generation */
		if (m->sync_waiter != NULL)
			member_touch(g, m, now_ms);
		answer_sync(g, m, IPC__GROUP_ERROR__REBALANCE_IN_PROGRESS);
		member_set_assignment(g, m, slice_of(NULL, 0));
		m->joined = m->join_waiter != NULL;
		m->synced = true;
		g->n_joined += m->joined;
	}
	g->recording = false;
	slice_drop(&g->protocol);
}

void member_join(struct group *g, struct group_member *m, void *waiter, uint64_t now_ms)
{
	must(g->state == IPC__GROUP_STATE__PREPARING_REBALANCE);
	answer_join(g, m, IPC__GROUP_ERROR__REBALANCE_IN_PROGRESS);
	m->join_waiter = waiter;
	g->n_joined += !m->joined;
	m->joined = true;
	rebalance_check(g, now_ms);
}

/* ------------------------------------------------------------------------- end */

static void become_empty(struct group *g)
{
	must(g->members == NULL);
	g->state = IPC__GROUP_STATE__EMPTY;
	g->generation = g->generation < INT32_MAX ? g->generation + 1 : 1;
	g->rebalance_at_ms = g->sync_at_ms = UINT64_MAX;
	g->n_past = 0;
}

/* Absent static members keep their place. */
static void drop_absent(struct group *g)
{
	for (struct group_member *m = g->members, *next; m != NULL; m = next) {
		next = m->hh.next;
		if (!m->joined && m->instance_id.p == NULL)
			member_free(g, m);
	}
}

static void elect(struct group *g)
{
	if (g->leader != NULL && g->leader->joined)
		return;
	for (struct group_member *m = g->members; m != NULL; m = m->hh.next) {
		if (m->joined) {
			g->leader = m;
			return;
		}
	}
}

static void generation_begin(struct group *g)
{
	g->state = IPC__GROUP_STATE__COMPLETING_REBALANCE;
	g->generation = g->generation < INT32_MAX ? g->generation + 1 : 1;
	g->rebalance_at_ms = UINT64_MAX;
	g->n_past = g->n_members;
	g->recording = true;
	g->protocol = slice_keep(protocol_choose(g));
	for (struct group_member *m = g->members; m != NULL; m = m->hh.next) {
		m->synced = !m->joined;
		g->n_unsynced += m->joined;
	}
}

void group_recorded(struct group *g, uint64_t now_ms)
{
	must(g->first_answer == g->n_answers);
	if (!g->recording)
		return;
	g->recording = false;
	g->sync_at_ms = now_ms + rebalance_timeout_ms(g);
	for (struct group_member *m = g->members; m != NULL; m = m->hh.next) {
		if (m->join_waiter != NULL)
			member_touch(g, m, now_ms);
		answer_join(g, m, IPC__GROUP_ERROR__NONE);
	}
}

static void rebalance_end(struct group *g, uint64_t now_ms)
{
	drop_absent(g);
	g->delaying = false;
	if (g->n_members == 0) {
		become_empty(g);
		return;
	}
	if (g->n_joined == 0) {         /* static ones only, and all absent: until one comes or their sessions end */
		g->rebalance_at_ms = now_ms + rebalance_timeout_ms(g);
		return;
	}
	g->n_former = 0;
	elect(g);
	generation_begin(g);
}

void rebalance_check(struct group *g, uint64_t now_ms)
{
	if (g->state != IPC__GROUP_STATE__PREPARING_REBALANCE)
		return;
	bool all = g->n_joined == g->n_members && g->n_pending == 0;
	bool back = g->n_former > 0 && g->n_members >= g->n_former;
	if (g->n_members == 0 || (all && (!g->delaying || back)))
		rebalance_end(g, now_ms);
}

static void on_rebalance_time(struct group *g, uint64_t now_ms)
{
	if (!g->delaying || !g->came || g->delay_left_ms == 0) {
		rebalance_end(g, now_ms);
		return;
	}
	uint64_t ms = g->delay_ms < g->delay_left_ms ? g->delay_ms : g->delay_left_ms;
	g->came = false;
	g->delay_left_ms -= ms;
	g->rebalance_at_ms = now_ms + ms;
}

/* --------------------------------------------------------------------- leaving */

static void member_drop(struct group *g, struct group_member *m)
{
	answer_join(g, m, IPC__GROUP_ERROR__UNKNOWN_MEMBER);
	answer_sync(g, m, IPC__GROUP_ERROR__UNKNOWN_MEMBER);
	member_free(g, m);
}

/* Somebody is gone. */
static void rebalance_without(struct group *g, uint64_t now_ms)
{
	if (g->state == IPC__GROUP_STATE__COMPLETING_REBALANCE || g->state == IPC__GROUP_STATE__STABLE)
		rebalance_begin(g, now_ms);
	rebalance_check(g, now_ms);
}

void member_remove(struct group *g, struct group_member *m, uint64_t now_ms)
{
	member_drop(g, m);
	rebalance_without(g, now_ms);
}

/* ------------------------------------------------------------------------ time */

static bool is_parked(const struct group_member *m)
{
	return m->join_waiter != NULL || m->sync_waiter != NULL;
}

static bool drop_expired(struct group *g, uint64_t now_ms)
{
	bool any = false;
	g->expiry_ms = UINT64_MAX;
	for (struct group_pending *p = g->pending, *next; p != NULL; p = next) {
		next = p->hh.next;
		if (p->expires_ms <= now_ms) {
			pending_free(g, p);
			any = true;
		} else if (p->expires_ms < g->expiry_ms) {
			g->expiry_ms = p->expires_ms;
		}
	}
	for (struct group_member *m = g->members, *next; m != NULL; m = next) {
		next = m->hh.next;
		if (!is_parked(m) && m->expires_ms <= now_ms) {
			any = true;
			member_drop(g, m);
		} else if (!is_parked(m) && m->expires_ms < g->expiry_ms) {
			g->expiry_ms = m->expires_ms;
		}
	}
	return any;
}

/* Those that had their answer to a join and never asked for their assignment. */
static bool drop_unsynced(struct group *g)
{
	bool any = false;
	g->sync_at_ms = UINT64_MAX;
	for (struct group_member *m = g->members, *next; m != NULL; m = next) {
		next = m->hh.next;
		if (!m->synced) {
			any = true;
			member_drop(g, m);
		}
	}
	return any;
}

void group_tick(struct group *g, uint64_t now_ms)
{
	must(g->first_answer == g->n_answers);
	uint32_t before = g->n_members;
	bool gone = g->expiry_ms <= now_ms && drop_expired(g, now_ms);
	if (g->sync_at_ms <= now_ms)
		gone |= drop_unsynced(g);
	if (gone && g->n_members < before)
		rebalance_without(g, now_ms);
	else if (gone)
		rebalance_check(g, now_ms);
	if (g->state == IPC__GROUP_STATE__PREPARING_REBALANCE && g->rebalance_at_ms <= now_ms)
		on_rebalance_time(g, now_ms);
}

uint64_t group_deadline(const struct group *g)
{
	uint64_t at = g->expiry_ms;
	if (g->rebalance_at_ms < at)
		at = g->rebalance_at_ms;
	return g->sync_at_ms < at ? g->sync_at_ms : at;
}
