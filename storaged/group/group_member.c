/* SPDX-License-Identifier: Apache-2.0
 *
 * The members of a group and what they are counted by: ids, bytes, the protocols that all of them support.
 */
#include <stdlib.h>

#include "common/wire.h"
#include "storaged/group/group_impl.h"

struct slice slice_keep(struct slice s)
{
	return s.p == NULL ? s : slice_of(must_memdup(s.p, s.n), s.n);
}

void slice_drop(struct slice *s)
{
	free((void *)(uintptr_t)s->p);
	*s = slice_of(NULL, 0);
}

static struct slice slice_cut(struct slice s, size_t max)
{
	return slice_of(s.p != NULL ? s.p : (const uint8_t *)"", s.n < max ? s.n : max);
}

/* ------------------------------------------------------------------ protocols */

static void votes_add(struct group *g, const struct group_member *m)
{
	for (size_t i = 0; i < m->n_protocols; i++) {
		struct group_vote *v;
		struct slice name = m->protocol[i].name;
		HASH_FIND(hh, g->votes, name.p, name.n, v);
		if (v == NULL) {
			v = must_calloc(1, sizeof(*v));
			v->name = slice_keep(name);
			HASH_ADD_KEYPTR(hh, g->votes, v->name.p, v->name.n, v);
		}
		v->n_members++;
	}
}

static void vote_free(struct group *g, struct group_vote *v)
{
	HASH_DEL(g->votes, v);
	slice_drop(&v->name);
	free(v);
}

static void votes_take(struct group *g, const struct group_member *m)
{
	for (size_t i = 0; i < m->n_protocols; i++) {
		struct group_vote *v;
		HASH_FIND(hh, g->votes, m->protocol[i].name.p, m->protocol[i].name.n, v);
		must(v != NULL && v->n_members > 0);
		if (--v->n_members == 0)
			vote_free(g, v);
	}
}

static bool supports(const struct group_member *m, struct slice name)
{
	for (size_t i = 0; m != NULL && i < m->n_protocols; i++)
		if (slice_eq(m->protocol[i].name, name))
			return true;
	return false;
}

bool protocols_are_common(const struct group *g, const struct group_member *self, const struct group_join *join)
{
	uint32_t others = g->n_members - (self != NULL);
	for (size_t i = 0; i < join->n_protocols; i++) {
		struct group_vote *v;
		struct slice name = join->protocol[i].name;
		HASH_FIND(hh, g->votes, name.p, name.n, v);
		uint32_t with = v != NULL ? v->n_members - supports(self, name) : 0;
		if (with == others)
			return true;
	}
	return false;
}

struct slice protocol_choose(struct group *g)
{
	struct group_vote *v, *best = NULL;
	for (v = g->votes; v != NULL; v = v->hh.next)
		v->n_votes = 0;
	for (const struct group_member *m = g->members; m != NULL; m = m->hh.next) {
		for (size_t i = 0; i < m->n_protocols; i++) {
			HASH_FIND(hh, g->votes, m->protocol[i].name.p, m->protocol[i].name.n, v);
			if (v->n_members < g->n_members)
				continue;
			v->n_votes++;
			break;
		}
	}
	for (v = g->votes; v != NULL; v = v->hh.next)
		if (v->n_votes > 0 && (best == NULL || v->n_votes > best->n_votes))
			best = v;
	must(best != NULL);
	return best->name;
}

/* -------------------------------------------------------------------- members */

static size_t join_bytes(struct slice id, const struct group_join *join)
{
	size_t n = GROUP_MEMBER_OVERHEAD + id.n + join->instance_id.n + slice_cut(join->client_id, GROUP_WORD_MAX).n +
		   slice_cut(join->client_host, GROUP_WORD_MAX).n;
	for (size_t i = 0; i < join->n_protocols; i++)
		n += join->protocol[i].name.n + join->protocol[i].metadata.n;
	return n;
}

bool member_fits(const struct group *g, const struct group_member *old, const struct group_join *join)
{
	size_t n = join_bytes(slice_of(NULL, GROUP_MEMBER_ID_MAX), join);
	size_t had = old != NULL ? old->bytes : 0;
	return g->bytes - had + n <= GROUP_BYTES_MAX && (n <= had || n - had <= group_memory_left(g->config->memory)) &&
	       (old != NULL || g->n_members < g->config->members_max);
}

static void protocols_take(struct group_member *m, const struct group_join *join)
{
	m->n_protocols = join->n_protocols;
	m->protocol = must_calloc(m->n_protocols, sizeof(*m->protocol));
	for (size_t i = 0; i < m->n_protocols; i++) {
		m->protocol[i].name = slice_keep(slice_cut(join->protocol[i].name, GROUP_WORD_MAX));
		m->protocol[i].metadata = slice_keep(slice_cut(join->protocol[i].metadata, SIZE_MAX));
	}
}

static void protocols_drop(struct group_member *m)
{
	for (size_t i = 0; i < m->n_protocols; i++) {
		slice_drop(&m->protocol[i].name);
		slice_drop(&m->protocol[i].metadata);
	}
	free(m->protocol);
	m->protocol = NULL;
	m->n_protocols = 0;
}

static void member_fill(struct group *g, struct group_member *m, const struct group_join *join)
{
	protocols_take(m, join);
	m->client_id = slice_keep(slice_cut(join->client_id, GROUP_WORD_MAX));
	m->client_host = slice_keep(slice_cut(join->client_host, GROUP_WORD_MAX));
	m->session_ms = (uint64_t)join->session_ms;
	m->rebalance_ms = (uint64_t)(join->rebalance_ms > 0 ? join->rebalance_ms : join->session_ms);
	m->bytes = join_bytes(m->id, join);
	g->bytes += m->bytes;
	group_memory_change(g->config->memory, 0, m->bytes + sizeof(*m));
	votes_add(g, m);
}

static void member_empty(struct group *g, struct group_member *m)
{
	votes_take(g, m);
	g->bytes -= m->bytes;
	group_memory_change(g->config->memory, m->bytes + sizeof(*m), 0);
	protocols_drop(m);
	slice_drop(&m->client_id);
	slice_drop(&m->client_host);
}

struct group_member *member_find(const struct group *g, struct slice id)
{
	struct group_member *m = NULL;
	if (id.n > 0)
		HASH_FIND(hh, g->members, id.p, id.n, m);
	return m;
}

struct group_member *member_by_instance(const struct group *g, struct slice instance_id)
{
	struct group_member *m = NULL;
	if (instance_id.n > 0)
		HASH_FIND(hh_instance, g->instances, instance_id.p, instance_id.n, m);
	return m;
}

struct group_member *member_add(struct group *g, struct slice id, const struct group_join *join)
{
	struct group_member *m = must_calloc(1, sizeof(*m));
	m->id = slice_keep(id);
	m->instance_id = slice_keep(join->instance_id);
	m->assignment = slice_keep(slice_str(""));
	m->synced = true;
	member_fill(g, m, join);
	HASH_ADD_KEYPTR(hh, g->members, m->id.p, m->id.n, m);
	if (m->instance_id.p != NULL)
		HASH_ADD_KEYPTR(hh_instance, g->instances, m->instance_id.p, m->instance_id.n, m);
	g->n_members++;
	return m;
}

void member_update(struct group *g, struct group_member *m, const struct group_join *join)
{
	member_empty(g, m);
	member_fill(g, m, join);
}

void member_rename(struct group *g, struct group_member *m, struct slice id)
{
	HASH_DEL(g->members, m);
	slice_drop(&g->replaced_id);
	g->replaced_id = m->id;
	m->id = slice_keep(id);
	HASH_ADD_KEYPTR(hh, g->members, m->id.p, m->id.n, m);
}

void member_free(struct group *g, struct group_member *m)
{
	must(m->join_waiter == NULL && m->sync_waiter == NULL);
	HASH_DEL(g->members, m);
	if (m->instance_id.p != NULL)
		HASH_DELETE(hh_instance, g->instances, m);
	g->n_members--;
	g->n_joined -= m->joined;
	g->n_unsynced -= !m->synced;
	if (g->leader == m)
		g->leader = NULL;
	member_empty(g, m);
	member_set_assignment(g, m, slice_of(NULL, 0));
	slice_drop(&m->assignment);
	slice_drop(&m->id);
	slice_drop(&m->instance_id);
	free(m);
}

void member_set_assignment(struct group *g, struct group_member *m, struct slice assignment)
{
	g->assignment_bytes -= m->assignment.n;
	g->assignment_bytes += assignment.n;
	group_memory_change(g->config->memory, m->assignment.n, assignment.n);
	slice_drop(&m->assignment);
	m->assignment = slice_keep(slice_cut(assignment, SIZE_MAX));
}

void member_touch(struct group *g, struct group_member *m, uint64_t now_ms)
{
	m->expires_ms = now_ms + m->session_ms;
	if (m->expires_ms < g->expiry_ms)
		g->expiry_ms = m->expires_ms;
}

bool member_matches(const struct group_member *m, const struct group_join *join)
{
	if (m->n_protocols != join->n_protocols)
		return false;
	for (size_t i = 0; i < m->n_protocols; i++)
		if (!slice_eq(m->protocol[i].name, join->protocol[i].name) ||
		    !slice_eq(m->protocol[i].metadata, join->protocol[i].metadata))
			return false;
	return true;
}

/* ----------------------------------------------------------- ids not joined yet */

struct group_pending *pending_find(const struct group *g, struct slice id)
{
	struct group_pending *p = NULL;
	if (id.n > 0)
		HASH_FIND(hh, g->pending, id.p, id.n, p);
	return p;
}

struct group_pending *pending_add(struct group *g, struct slice id, uint64_t expires_ms)
{
	struct group_pending *p = must_calloc(1, sizeof(*p));
	p->id = slice_keep(id);
	p->expires_ms = expires_ms;
	HASH_ADD_KEYPTR(hh, g->pending, p->id.p, p->id.n, p);
	g->n_pending++;
	if (expires_ms < g->expiry_ms)
		g->expiry_ms = expires_ms;
	return p;
}

void pending_free(struct group *g, struct group_pending *p)
{
	HASH_DEL(g->pending, p);
	g->n_pending--;
	slice_drop(&p->id);
	free(p);
}

/* ------------------------------------------------------------------- looking at */

const struct group_member *group_member_next(const struct group *g, const struct group_member *m)
{
	return m == NULL ? g->members : m->hh.next;
}

struct slice member_id(const struct group_member *m)
{
	return m->id;
}

struct slice member_instance_id(const struct group_member *m)
{
	return m->instance_id;
}

struct slice member_client_id(const struct group_member *m)
{
	return m->client_id;
}

struct slice member_client_host(const struct group_member *m)
{
	return m->client_host;
}

struct slice member_metadata(const struct group *g, const struct group_member *m)
{
	for (size_t i = 0; i < m->n_protocols; i++)
		if (g->protocol.n > 0 && slice_eq(m->protocol[i].name, g->protocol))
			return m->protocol[i].metadata;
	return slice_of("", 0);
}

struct slice member_assignment(const struct group_member *m)
{
	return m->assignment;
}

/* A subscription is: version i16, topics [string], ... */
static bool subscription_has(struct slice metadata, struct slice topic)
{
	struct wire_reader r = wire_reader(metadata);
	wire_be16(&r);
	uint32_t n = wire_be32(&r);
	for (uint32_t i = 0; i < n && !r.failed; i++) {
		struct slice name = wire_take(&r, wire_be16(&r));
		if (!r.failed && slice_eq(name, topic))
			return true;
	}
	return r.failed;
}

bool group_is_subscribed(const struct group *g, struct slice topic)
{
	for (const struct group_member *m = g->members; m != NULL; m = m->hh.next) {
		if (!slice_is(g->protocol_type, "consumer") || m->n_protocols == 0)
			return true;
		struct slice chosen = member_metadata(g, m);
		if (subscription_has(chosen.n > 0 ? chosen : m->protocol[0].metadata, topic))
			return true;
	}
	return false;
}
