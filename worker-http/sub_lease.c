/* SPDX-License-Identifier: Apache-2.0
 *
 * Wakes and who holds them: claim of pull-wake, ack (of a webhook: callback), release. A wake has one holder at a time, until
 * its lease is over; who comes with another wake than the one under way is fenced.
 */
#include <inttypes.h>

#include "worker-http/server.h"
#include "worker-http/sub_change.h"

static void fenced(struct request *r)
{
	sub_answer_error(r, 409, "FENCED", "another wake has begun, or this one is over", NULL);
}

static bool claim_judge(struct request *r, struct change *c)
{
	Sub__Subscription *s = c->s;
	int64_t now = env_wall_ms(r->server->env);
	if (s->type != SUB__TYPE__PULL_WAKE) {
		sub_answer_error(r, 400, "INVALID_REQUEST", "a webhook is not claimed", NULL);
	} else if (s->phase == SUB__PHASE__LEASED && now < s->until_ms) {
		sub_answer_error(r, 409, "ALREADY_CLAIMED", "somebody works on it", s->holder);
	} else if (!sub_is_pending(s)) {
		sub_answer_error(r, 409, "NO_PENDING_WORK", "everything was worked on", NULL);
	} else {
		if (s->phase != SUB__PHASE__WAKING)
			sub_wake(s, r->server->env);
		sub_token(s, r->server->env, c->token);
		s->phase = SUB__PHASE__LEASED;
		s->until_ms = now + (int64_t)s->lease_ttl_ms;
		sub_set_string(&s->holder, slice_str(c->body.worker));
		/* What the answer shows is made now: tails are not stored. */
		struct buf *out = &r->answer.body;
		buf_reset(out, 4096);
		buf_printf(out, "{\"wake_id\":\"%s\",\"generation\":%" PRIu64 ",\"token\":\"%s\",\"lease_ttl_ms\":%" PRIu64, s->wake_id,
			   s->generation, c->token, s->lease_ttl_ms);
		sub_put_streams(out, s);
		buf_put_str(out, "}\n");
		return true;
	}
	return false;
}

static void answer_json(struct request *r, struct change *c)
{
	answer_field(r, "Content-Type", "application/json");
	answer_send(r, 200);
}

const struct change_kind sub_claim_kind = {
	.needs_tails = true, .begin = change_always, .judge = claim_judge, .answer = answer_json,
};

/* "Bearer TOKEN". */
static struct slice bearer(const struct request *r)
{
	struct slice s = request_field(r, "authorization");
	if (s.n < 7 || !http1_is_word(slice_of(s.p, 7), "bearer "))
		return slice_of(NULL, 0);
	return slice_of(s.p + 7, s.n - 7);
}

/* The caller has the wake that is under way. False: answered. */
static bool is_holder(struct request *r, const struct change *c)
{
	const Sub__Subscription *s = c->s;
	struct slice token = bearer(r);
	bool late = s->phase == SUB__PHASE__LEASED && env_wall_ms(r->server->env) >= s->until_ms;
	if (token.n == 0)
		sub_answer_error(r, 401, "UNAUTHORIZED", "the token of the wake is missing", NULL);
	else if (s->phase == SUB__PHASE__IDLE || late || !c->body.has_generation || c->body.generation != s->generation ||
		 c->body.wake_id == NULL || strcmp(c->body.wake_id, s->wake_id) != 0)
		fenced(r);
	else if (!sub_token_is_good(s, token))
		sub_answer_error(r, 401, "UNAUTHORIZED", "that is not the token of the wake", NULL);
	else
		return true;
	return false;
}

/* Nothing is taken unless all are good. False: answered. */
static bool take_acks(struct request *r, struct change *c)
{
	for (size_t i = 0; i < c->body.n_acks; i++) {
		const struct sub_ack *ack = &c->body.ack[i];
		const Sub__Link *link = sub_link_find(c->s, slice_str(ack->stream));
		if (link == NULL || !link->exists || ack->offset > link->tail || ack->offset < link->acked) {
			sub_answer_error(r, 409, "INVALID_OFFSET", "an ack is before the last one, beyond the end, or of another stream", NULL);
			return false;
		}
	}
	for (size_t i = 0; i < c->body.n_acks; i++)
		sub_link_find(c->s, slice_str(c->body.ack[i].stream))->acked = c->body.ack[i].offset;
	return true;
}

static bool ack_judge(struct request *r, struct change *c)
{
	Sub__Subscription *s = c->s;
	if (!is_holder(r, c) || !take_acks(r, c))
		return false;
	bool next = c->body.done && sub_is_pending(s);
	if (c->body.done) {
		sub_idle(s);
	} else {
		s->phase = SUB__PHASE__LEASED;
		s->until_ms = env_wall_ms(r->server->env) + (int64_t)s->lease_ttl_ms;
	}
	buf_reset(&r->answer.body, 4096);
	buf_printf(&r->answer.body, "{\"ok\":true,\"next_wake\":%s}\n", next ? "true" : "false");
	return true;
}

const struct change_kind sub_ack_kind = { .needs_tails = true, .begin = change_always, .judge = ack_judge, .answer = answer_json };

static bool release_judge(struct request *r, struct change *c)
{
	if (!is_holder(r, c))
		return false;
	sub_idle(c->s);
	return true;
}

const struct change_kind sub_release_kind = { .begin = change_always, .judge = release_judge, .answer = change_answer_done };
