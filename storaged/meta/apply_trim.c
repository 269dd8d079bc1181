/* SPDX-License-Identifier: Apache-2.0
 *
 * What time makes unreachable: log start offsets that rise, topics that expire. A trim names logs by id and skips
 * those that are gone; a start never falls. The stored deadline of a topic with a TTL is set by its owner, who
 * alone knows when it was last used; an expiry names the deadline it saw, so that one that came late hits nothing.
 */
#include <inttypes.h>

#include "storaged/meta/apply.h"

void apply_trim_many(struct state *s, const struct sql_row *row, const Meta__Command *command, Meta__Result__One *one)
{
	const Meta__TrimMany *m = command->trim_many;
	for (size_t i = 0; i < m->n_trim; i++) {
		struct state_topic *t = log_map_find(&s->by_log, m->trim[i]->log_id);
		if (t == NULL || t->soft_deleted)
			continue;
		struct state_partition *p = &t->partition[state_partition_index(t, m->trim[i]->log_id)];
		if (m->trim[i]->start <= p->start)
			continue;
		state_topic_touch(s, t, row->idx);
		p->start = m->trim[i]->start;
	}
}

static bool expires(const struct state_topic *t)
{
	return t->ttl_seconds != 0 || t->expires_at_ms != 0;
}

void apply_expire_topic(struct state *s, const struct sql_row *row, const Meta__Command *command, Meta__Result__One *one)
{
	const Meta__ExpireTopic *x = command->expire_topic;
	struct state_topic *t = apply_named_topic(s, &x->topic_id, one);
	if (t == NULL)
		return;
	if (!expires(t))
		apply_refuse(one, PICO_BAD_REQUEST, "%s does not expire", t->name);
	else if (x->expires_at_ms != t->expires_at_ms)
		apply_refuse(one, PICO_CONFLICT, "%s expires at %" PRId64 " ms by now, not at %" PRId64 " ms", t->name,
			     t->expires_at_ms, x->expires_at_ms);
	else
		state_topic_delete(s, t, row->idx);
}

void apply_touch_expiry(struct state *s, const struct sql_row *row, const Meta__Command *command, Meta__Result__One *one)
{
	const Meta__TouchExpiry *x = command->touch_expiry;
	struct state_topic *t = apply_named_topic(s, &x->topic_id, one);
	if (t == NULL)
		return;
	if (t->ttl_seconds == 0) {
		apply_refuse(one, PICO_BAD_REQUEST, "%s has no TTL", t->name);
	} else if (x->expires_at_ms <= 0) {
		apply_refuse(one, PICO_BAD_REQUEST, "an expiry time lies after 1970");
	} else if (x->expires_at_ms != t->expires_at_ms) {
		state_topic_touch(s, t, row->idx);
		t->expires_at_ms = x->expires_at_ms;
	}
}
