/* SPDX-License-Identifier: Apache-2.0
 *
 * A question, then its call, then its answer: none of them, or one. A fetch that asks the same takes over what
 * there is; any other ends it. An answer with an error is thrown away: the fetch asks for itself.
 */
#include "worker-kafka/fetch_ahead.h"

#include "common/must.h"

#define AHEAD_MAGIC 0x4b414844u

static void on_timer(void *arg)
{
	fetch_ahead_drop(arg);
}

void fetch_ahead_init(struct fetch_ahead *a, struct server *s)
{
	*a = (struct fetch_ahead){ .magic = AHEAD_MAGIC, .server = s };
	a->timer = (struct env_timer){ .on_fire = on_timer, .arg = a };
}

void fetch_ahead_drop(struct fetch_ahead *a)
{
	must(a->magic == AHEAD_MAGIC);
	env_timer_stop(a->server->env, &a->timer);
	if (a->call != NULL)
		topics_abandon(a->call);
	a->call = NULL;
	topics_pieces_release(a->pieces);
	a->pieces = NULL;
}

static void keep(struct fetch_ahead *a, const Ipc__FetchAnswer__Part *found, struct topics_pieces *pieces)
{
	ipc__fetch_answer__part__init(&a->found);
	a->found.start = found->start;
	a->found.confirm = found->confirm;
	a->found.leader_epoch = found->leader_epoch;
	a->found.first_piece = found->first_piece;
	a->found.n_pieces = found->n_pieces;
	a->found.end = found->end;
	a->pieces = pieces;
	pieces->owner = a;
	env_timer_start(a->server->env, &a->timer, env_now_ms(a->server->env) + AHEAD_MS);
}

static void on_answer(void *arg, const struct pico_error *e, const ProtobufCMessage *m, struct topics_pieces *pieces)
{
	struct fetch_ahead *a = arg;
	const Ipc__FetchAnswer *answer = (const Ipc__FetchAnswer *)m;
	must(a->magic == AHEAD_MAGIC && a->pieces == NULL);
	a->call = NULL;
	if (e->kind == PICO_OK && pieces != NULL && answer->n_part == 1)
		keep(a, answer->part[0], pieces);
	else
		topics_pieces_release(pieces);
}

void fetch_ahead_begin(struct fetch_ahead *a, const Ipc__FetchRequest *m)
{
	must(m->n_part == 1 && m->part[0]->topic_id.len == sizeof(a->topic_id));
	fetch_ahead_drop(a);
	a->part = *m->part[0];
	memcpy(a->topic_id, m->part[0]->topic_id.data, sizeof(a->topic_id));
	a->max_bytes = m->max_bytes;
	a->cuts = topics_cuts(a->server->topics);
	Ipc__FetchRequest copy = *m;
	a->call = topics_call(a->server->topics, IPC_FETCH, &copy.base, slice_of(NULL, 0), m->deadline_ms, on_answer, a);
}

static bool is_same(const struct fetch_ahead *a, const Ipc__FetchRequest *m)
{
	const Ipc__FetchRequest__Part *p = m->n_part == 1 ? m->part[0] : NULL;
	return p != NULL && memcmp(p->topic_id.data, a->topic_id, sizeof(a->topic_id)) == 0 &&
		p->partition == a->part.partition && p->offset == a->part.offset && p->max_bytes == a->part.max_bytes &&
		p->leader_epoch == a->part.leader_epoch && m->max_bytes == a->max_bytes && m->min_bytes <= 1;
}

bool fetch_ahead_take(struct fetch_ahead *a, struct request *r, const Ipc__FetchRequest *m, request_cb *cb)
{
	static const struct pico_error ok = { .kind = PICO_OK };
	Ipc__FetchAnswer answer = IPC__FETCH_ANSWER__INIT;
	Ipc__FetchAnswer__Part *part = &a->found;
	if ((a->call == NULL && a->pieces == NULL) || a->cuts != topics_cuts(a->server->topics) || !is_same(a, m)) {
		fetch_ahead_drop(a);
		return false;
	}
	struct topics_call *call = a->call;
	struct topics_pieces *pieces = a->pieces;
	a->call = NULL;
	a->pieces = NULL;
	env_timer_stop(a->server->env, &a->timer);
	if (call != NULL) {
		request_take_call(r, call, cb);
		return true;
	}
	answer.n_part = 1;
	answer.part = &part;
	pieces->owner = NULL;
	cb(r, &ok, &answer.base, pieces);
	return true;
}

bool fetch_ahead_reclaim(struct topics_pieces *pieces)
{
	struct fetch_ahead *a = pieces->owner;
	if (a == NULL || a->magic != AHEAD_MAGIC)
		return false;
	must(a->pieces == pieces);
	fetch_ahead_drop(a);
	return true;
}
