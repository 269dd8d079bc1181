/* SPDX-License-Identifier: Apache-2.0
 *
 * Appends: from the call to the arena, and from the stored object to the answer.
 *
 *   new -> (room: waits in order for space) -> arena: written, waits for its object -> done
 *                                           -> verdict: an answer that waits for another frame -> done
 *
 * Invariants: appends are decided and placed in the order they came; the payload is read once, into the
 * arena, and judged there; nothing of a refused append is left anywhere; an answer is given only when
 * every frame it rests on is confirmed.
 */
#include "storaged/engine/append.h"

#include <stdlib.h>

#include "common/metrics.h"
#include "storaged/engine/log_load.h"
#include "storaged/planted.h"

#define ANSWERS_A_TURN 256u             /* a loop turn stays short, however many frames an object held */

/* -------------------------------------------------------------------- lists */

static void list_link(struct engine_append **list, struct engine_append *a)
{
	a->next_in_list = *list;
	a->prev_in_list = list;
	if (*list != NULL)
		(*list)->prev_in_list = &a->next_in_list;
	*list = a;
}

static void list_unlink(struct engine_append *a)
{
	*a->prev_in_list = a->next_in_list;
	if (a->next_in_list != NULL)
		a->next_in_list->prev_in_list = a->prev_in_list;
	a->next_in_list = NULL;
	a->prev_in_list = NULL;
}

static void queue_remove(struct append_queue *q, struct engine_append *a)
{
	if (q->tail == &a->next_in_list)
		q->tail = a->prev_in_list;
	list_unlink(a);
	--*q->n;
}

void append_queue_push(struct append_queue *q, struct engine_append *a)
{
	a->next_in_list = NULL;
	a->prev_in_list = q->tail;
	*q->tail = a;
	q->tail = &a->next_in_list;
	++*q->n;
}

static void queue_push_front(struct append_queue *q, struct engine_append *a)
{
	if (q->first == NULL)
		q->tail = &a->next_in_list;
	list_link(&q->first, a);
	++*q->n;
}

void append_queue_forget(struct engine *e, struct append_queue *q)
{
	for (struct engine_append *a = q->first; a != NULL; a = a->next_in_list)
		env_timer_stop(e->env, &a->timer);
}

static struct pending *pending_at(struct engine *e, uint64_t ticket)
{
	must(ticket >= e->pending_first && ticket < e->pending_end);
	return &e->pending[ticket & (e->pending_capacity - 1)];
}

static struct pending *pending_push(struct engine *e)
{
	if (e->pending_end - e->pending_first == e->pending_capacity) {
		uint64_t capacity = e->pending_capacity == 0 ? 64 : e->pending_capacity * 2;
		struct pending *wider = must_calloc(capacity, sizeof(*wider));
		for (uint64_t t = e->pending_first; t < e->pending_end; t++) {
			struct pending *p = &wider[t & (capacity - 1)];
			*p = *pending_at(e, t);
			if (p->dependents != NULL)
				p->dependents->prev_in_list = &p->dependents;
		}
		free(e->pending);
		e->pending = wider;
		e->pending_capacity = capacity;
	}
	struct pending *p = &e->pending[e->pending_end++ & (e->pending_capacity - 1)];
	*p = (struct pending){ 0 };
	return p;
}

/* ------------------------------------------------------------------ answers */

static void append_finish(struct engine_append *a, const struct pico_error *error)
{
	struct engine *e = a->engine;
	must(a->state != APPEND_DONE);
	a->state = APPEND_DONE;
	env_timer_stop(e->env, &a->timer);
	if (error != NULL) {
		metric_add(METRIC_APPEND_ERRORS, 1);
	} else if (!a->check_only) {
		metric_add(METRIC_APPENDS, 1);
		histogram_observe(HISTOGRAM_APPEND_SECONDS, env_now_ns(e->env) - a->begun_ns);
	}
	a->on_done(a, error);
}

static void append_fail(struct engine_append *a, enum pico_error_kind kind, const char *text)
{
	struct pico_error error;
	pico_error_set(&error, kind, "%s", text);
	append_finish(a, &error);
}

static void append_stored(struct pending *p)
{
	struct engine_append *a = p->append;
	a->base_offset = p->base;
	a->base_known = p->next > p->base;
	a->next_offset = p->next;
	a->timestamp_ms = p->timestamp_ms;
	a->closed = p->closes || p->log->closed;
	metric_add(METRIC_APPEND_BYTES, p->bytes);
	metric_add(METRIC_RECORDS, (int64_t)(p->next - p->base));
	append_finish(a, NULL);
}

/* The frame that a verdict rests on is confirmed. */
static void append_give_verdict(struct engine_append *a)
{
	if (a->has_verdict) {
		append_finish(a, &a->verdict);
		return;
	}
	a->closed = a->log->closed;
	if (!a->base_known)
		a->base_offset = a->log->open->confirm;
	a->next_offset = a->log->open->confirm;
	a->timestamp_ms = a->log->open->submitted.last_time;
	append_finish(a, NULL);
}

static void append_verdict(struct engine_append *a, bool refused, uint64_t ticket)
{
	struct engine *e = a->engine;
	a->has_verdict = refused;
	if (ticket < e->pending_first) {
		append_give_verdict(a);
		return;
	}
	a->state = APPEND_VERDICT;
	a->waits_for = ticket;
	list_link(&pending_at(e, ticket)->dependents, a);
}

/* What is still true of an append that will not hear of its frame. */
static void append_fail_unheard(struct engine_append *a)
{
	if (a->state == APPEND_ARENA)
		append_fail(a, PICO_DURABILITY, "the record was not known to be stored in time; it may be");
	else if (a->state == APPEND_VERDICT && a->duplicate)
		append_fail(a, PICO_DURABILITY, "its first copy was not known to be stored in time; it may be");
	else
		append_fail(a, PICO_UNAVAILABLE, "storage did not answer in time; nothing was written");
}

static void append_detach(struct engine_append *a)
{
	struct engine *e = a->engine;
	if (a->state == APPEND_ROOM) {
		queue_remove(&e->room, a);
		log_unref(a->log);
	} else if (a->state == APPEND_LOAD) {
		queue_remove(log_load_appends(a->log), a);
	} else if (a->state == APPEND_VERDICT) {
		list_unlink(a);
	} else if (a->state == APPEND_ARENA) {
		pending_at(e, a->waits_for)->append = NULL;
	}
}

/* ------------------------------------------------------------------ placing */

/* FrameMeta of an append; id_buf has room for the id and its end byte. */
static void meta_fill(const struct engine_append *a, Frame__Meta *m, Frame__Producer *p, char *id_buf)
{
	if (a->has_producer) {
		frame__producer__init(p);
		memcpy(id_buf, a->producer_id.p, a->producer_id.n);
		id_buf[a->producer_id.n] = '\0';
		p->id = id_buf;
		p->epoch = a->producer_epoch;
		p->seq = a->producer_seq;
		m->producer = p;
	}
	if (a->has_stream_seq) {
		m->has_stream_seq = 1;
		m->stream_seq.data = (uint8_t *)a->stream_seq.p;
		m->stream_seq.len = a->stream_seq.n;
	}
	m->closes = a->close_after;
	m->worker_instance = a->worker_instance;
	m->request_id = a->request_id;
}

/* After the frame is in the arena: the log and the pending ring. */
static void append_submit(struct engine_append *a, const struct frame *f, uint64_t ticket, uint64_t seq,
			  uint32_t body_position)
{
	struct engine *e = a->engine;
	struct log *log = a->log;
	struct frame_facts facts = {
		.base = f->base_offset, .next = f->base_offset + f->record_count, .bytes = (uint32_t)f->payload.n,
		.append_time = f->append_time, .ticket = ticket, .has_producer = a->has_producer,
		.has_stream_seq = a->has_stream_seq, .closes = a->close_after, .producer_id = a->producer_id,
		.stream_seq = a->stream_seq, .producer_epoch = a->producer_epoch, .producer_seq = a->producer_seq,
		.has_claim = a->has_claim, .claim = a->claim,
	};
	log_state_apply(&log->open->submitted, &facts);
	log_unpacked_add(log->open, 1);
	if (f->payload.n > 0) {
		struct frame_ref ref = {
			.base = f->base_offset, .latest_ms = f->max_timestamp, .session = e->n_sessions - 1, .seq = seq,
			.position = (uint32_t)(WAL_HEADER + body_position + FRAME_HEADER + frame_pad(f->meta.n)),
			.length = (uint32_t)f->payload.n,
		};
		log_index_add(log, &ref);
	}
	must(ticket == e->pending_end);
	struct pending *p = pending_push(e);
	*p = (struct pending){
		.log = log, .append = a, .base = facts.base, .next = facts.next, .timestamp_ms = f->append_time,
		.bytes = (uint32_t)f->payload.n, .closes = a->close_after,
	};
	log_table_ref(&e->logs, log);
	a->state = APPEND_ARENA;
	a->waits_for = ticket;
}

/* Time does not run backwards in a log, nor at the point where a fork's own frames begin. */
static int64_t last_time(const struct engine *e, const struct log *log)
{
	const struct log_parent *x;
	while (log_last_append_ms(log) == 0 && (x = log_table_parent(&e->logs, log)) != NULL) {
		log = log_table_find(&e->logs, x->id);
		if (log == NULL) /* nothing of it is shown */
			return 0;
	}
	return log_last_append_ms(log);
}

/* A frame in the making: it stands behind the arena's last one and is nothing until it is committed. */
struct draft {
	struct frame frame;
	uint8_t *at;
	uint64_t card;                  /* number of the card that stands in it, or in one before */
};

/* The first frame of a log since it is open, and the first one since its topic's settings changed, say whose it is. The bytes
 * are `card`'s, for the caller to end. */
static void card_fill(const struct engine_append *a, Frame__Meta *m, struct draft *d, struct buf *card)
{
	const struct engine *e = a->engine;
	const uint64_t known = a->log->open->card;
	buf_init(card, SIZE_MAX);
	d->card = e->events.card != NULL ? e->events.card(e->arg, a->log->id, NULL) : 0;
	if (d->card == known)
		return;
	e->events.card(e->arg, a->log->id, card);
	m->card = (ProtobufCBinaryData){ .data = buf_head(card), .len = buf_len(card) };
}

/* Copies the payload. false: no room, nothing happened. */
static bool draft_make(struct engine_append *a, int64_t now_ms, struct draft *ret)
{
	struct log *log = a->log;
	Frame__Meta meta;
	Frame__Producer producer;
	char id_buf[PRODUCER_ID_MAX + 1];
	struct buf card;
	frame__meta__init(&meta);
	card_fill(a, &meta, ret, &card);
	meta_fill(a, &meta, &producer, id_buf);
	int64_t last_ms = last_time(a->engine, log);
	struct frame f = {
		.log_id = log->id, .base_offset = log->open->submitted.next, .epoch = log->epoch,
		.append_time = now_ms > last_ms ? now_ms : last_ms,
	};
	f.max_timestamp = f.append_time;
	f.meta.n = frame__meta__get_packed_size(&meta);
	f.payload.n = a->payload.n;
	uint8_t *at = arena_reserve(&a->engine->arena, (uint32_t)frame_size(f.meta.n, f.payload.n));
	if (at != NULL)
		frame__meta__pack(&meta, at + FRAME_HEADER);
	buf_done(&card);
	if (at == NULL)
		return false;
	f.meta.p = at + FRAME_HEADER;
	f.payload.p = at + FRAME_HEADER + frame_pad(f.meta.n);
	if (f.payload.n > 0)
		memcpy((uint8_t *)f.payload.p, a->payload.p, f.payload.n);
	ret->frame = f;
	ret->at = at;
	return true;
}

/* false: the batch is refused, which is the answer. */
static bool draft_finish(struct engine_append *a, struct draft *d)
{
	struct frame *f = &d->frame;
	if (f->payload.n == 0 || batch_finish(a, d->at + FRAME_HEADER + frame_pad(f->meta.n), f))
		return true;
	append_verdict(a, true, 0);
	return false;
}

static void draft_commit(struct engine_append *a, const struct draft *d)
{
	const struct frame *f = &d->frame;
	uint64_t seq;
	uint32_t body_position;
	frame_encode(d->at, f);
	uint64_t ticket = wal_commit(&a->engine->wal, d->at, (uint32_t)frame_size(f->meta.n, f->payload.n), &seq,
				     &body_position);
	a->log->open->card = d->card;
	append_submit(a, f, ticket, seq, body_position);
}

/* With twice as many logs as may be open in no data object, a pack comes before another one. */
static bool may_open(const struct log_open *o)
{
	return o->n_unpacked > 0 || o->table->n_unpacked < 2 * o->table->open_max;
}

/* Decides, and places what is taken. What a client's batch claims is only known from its copy. false: no room. The log is
 * loaded and has a ref. */
static bool append_try(struct engine_append *a)
{
	struct engine *e = a->engine;
	if (!may_open(a->log->open))
		return false;
	int64_t now_ms = stamp_now_ms(&e->stamp, e->env);
	struct draft d;
	uint64_t ticket;
	a->duplicate = a->was_closed = a->base_known = false;
	if (a->as_is && !draft_make(a, now_ms, &d))
		return false;
	if (a->as_is && !draft_finish(a, &d))
		return true;
	switch (append_decide(a, now_ms, &ticket)) {
	case APPEND_TAKE:
		if (a->check_only) {
			append_verdict(a, false, ticket);
			break;
		}
		if (!a->as_is && !draft_make(a, now_ms, &d))
			return false;
		if (a->as_is || draft_finish(a, &d))
			draft_commit(a, &d);
		break;
	case APPEND_ANSWER:
		append_verdict(a, false, ticket);
		break;
	case APPEND_REFUSE:
		append_verdict(a, true, ticket);
		break;
	}
	return true;
}

/* --------------------------------------------------------------------- call */

static void on_deadline(void *arg)
{
	struct engine_append *a = arg;
	struct engine *e = a->engine;
	if (a->state == APPEND_ARENA && a->waits_for < e->published_end) {
		struct pending copy = *pending_at(e, a->waits_for);
		append_detach(a);
		append_stored(&copy); /* only its turn had not come */
		return;
	}
	append_detach(a);
	append_fail_unheard(a);
}

static bool append_is_well_formed(struct engine_append *a, struct pico_error *e)
{
	const struct engine_config *c = &a->engine->config;
	must(!a->as_is || !(a->check_only || a->has_producer || a->has_match_seq || a->has_stream_seq));
	if (a->payload.n > c->max_message_size)
		pico_error_set(e, PICO_TOO_LARGE, "a batch of %zu bytes; at most %u are taken", a->payload.n,
			       c->max_message_size);
	else if (a->has_producer && (a->producer_id.n == 0 || a->producer_id.n > PRODUCER_ID_MAX ||
				     memchr(a->producer_id.p, 0, a->producer_id.n) != NULL))
		pico_error_set(e, PICO_BAD_REQUEST, "a producer id has 1 to %u bytes, none of them zero", PRODUCER_ID_MAX);
	else if (a->has_stream_seq && a->stream_seq.n > STREAM_SEQ_MAX)
		pico_error_set(e, PICO_BAD_REQUEST, "a stream sequence has at most %u bytes", STREAM_SEQ_MAX);
	else if (a->payload.n == 0 && !a->close_after && !a->check_only)
		pico_error_set(e, PICO_BAD_REQUEST, "no records");
	else
		return true;
	return false;
}

/* Its log is loaded and has a ref. */
static void append_enter(struct engine *e, struct engine_append *a)
{
	if (e->room.first == NULL && append_try(a))
		return;
	log_table_ref(&e->logs, a->log);
	append_queue_push(&e->room, a);
	a->state = APPEND_ROOM;
	env_defer(e->env, &e->room_task);
}

void engine_append(struct engine *e, struct engine_append *a)
{
	struct pico_error error;
	a->engine = e;
	a->state = APPEND_NEW;
	a->has_claim = false;
	a->begun_ns = env_now_ns(e->env);
	a->timer = (struct env_timer){ .on_fire = on_deadline, .arg = a };
	if (!append_is_well_formed(a, &error)) {
		append_finish(a, &error);
		return;
	}
	if (e->dead || !e->serving || e->stopping) {
		append_fail(a, PICO_UNAVAILABLE, "this node is not serving");
		return;
	}
	if (a->deadline_ms != 0 && a->deadline_ms <= env_now_ms(e->env)) {
		append_fail_unheard(a);
		return;
	}
	if (e->n_room + e->n_load_appends >= WAITING_APPENDS_MAX) {
		append_fail(a, PICO_UNAVAILABLE, "too many appends wait for storage; nothing was written");
		return;
	}
	if (a->deadline_ms != 0)
		env_timer_start(e->env, &a->timer, a->deadline_ms);
	struct log *log = a->log;
	log_table_ref(&e->logs, log);
	if (log_load(e, log, NULL))
		append_enter(e, a);
	else
		log_load_append(a);
	log_unref(log);
}

bool engine_append_cancel(struct engine *e, struct engine_append *a)
{
	must(a->engine == e);
	if (a->state != APPEND_ROOM && a->state != APPEND_VERDICT && a->state != APPEND_LOAD)
		return false;
	append_detach(a);
	env_timer_stop(e->env, &a->timer);
	a->state = APPEND_DONE;
	return true;
}

void append_room(struct engine *e)
{
	while (!e->dead && !e->stopping && e->room.first != NULL) {
		struct engine_append *a = e->room.first;
		struct log *log = a->log;
		queue_remove(&e->room, a);
		a->state = APPEND_NEW;
		if (!append_try(a)) {
			queue_push_front(&e->room, a);
			a->state = APPEND_ROOM;
			return;
		}
		log_unref(log);
	}
}

void append_queue_go(struct engine *e, struct append_queue *q, const struct pico_error *error)
{
	struct engine_append *a;
	while ((a = q->first) != NULL) {
		if (planted(PLANTED_LOAD_OVERTAKEN) && a->next_in_list != NULL)
			a = a->next_in_list;
		queue_remove(q, a);
		a->state = APPEND_NEW;
		if (error != NULL)
			append_finish(a, error);
		else if (e->dead || e->stopping)
			append_fail(a, PICO_UNAVAILABLE, "this node is not serving");
		else
			append_enter(e, a);
	}
}

/* ------------------------------------------------------------- confirmation */

static void publish(struct pending *p)
{
	struct log_open *o = p->log->open;
	must(p->log->is_open && p->base == o->confirm);
	o->confirm = p->next;
	if (p->closes)
		p->log->closed = true;
	o->wake = true;
}

/* The oldest frame that is confirmed: its waiters, its append, what rested on it. */
static void answer_one(struct engine *e)
{
	struct pending copy = *pending_at(e, e->pending_first);
	if (copy.dependents != NULL)
		copy.dependents->prev_in_list = &copy.dependents;
	e->pending_first++;
	if (copy.log->open->wake) {
		copy.log->open->wake = false;
		wait_wake(copy.log);
	}
	if (copy.append != NULL)
		append_stored(&copy);
	while (copy.dependents != NULL) {
		struct engine_append *a = copy.dependents;
		list_unlink(a);
		append_give_verdict(a);
	}
	log_unref(copy.log);
}

void append_answer(struct engine *e)
{
	for (unsigned n = 0; n < ANSWERS_A_TURN && e->pending_first < e->published_end; n++)
		answer_one(e);
	if (e->pending_first < e->published_end)
		env_defer(e->env, &e->answer_task);
	else
		env_defer(e->env, &e->room_task);
}

/* All of the object becomes visible first: who is woken reads it at once and in one piece. */
void append_confirm(struct engine *e, uint64_t ticket_end)
{
	must(ticket_end >= e->published_end && ticket_end <= e->pending_end);
	for (; e->published_end < ticket_end; e->published_end++)
		publish(pending_at(e, e->published_end));
	append_answer(e);
}

/* Planted bugs: the answer comes before its time. */
void append_answer_early(struct engine *e, uint64_t first, uint64_t end, bool stored)
{
	for (uint64_t t = first < e->pending_first ? e->pending_first : first; t < end; t++) {
		struct pending *p = pending_at(e, t), copy = *p;
		if (p->append == NULL)
			continue;
		p->append = NULL;
		if (stored)
			append_stored(&copy);
		else
			append_fail(copy.append, PICO_UNAVAILABLE, "the put failed");
	}
}

/* ------------------------------------------------------------------ endings */

/* Moves those of the log, or all, to the end of a list. */
static struct engine_append **queue_take(struct append_queue *q, const struct log *log, struct engine_append **tail)
{
	for (struct engine_append *a = q->first, *next; a != NULL; a = next) {
		next = a->next_in_list;
		if (log != NULL && a->log != log)
			continue;
		queue_remove(q, a);
		a->prev_in_list = tail;
		*tail = a;
		tail = &a->next_in_list;
	}
	return tail;
}

void append_fail_waiting(struct engine *e, const struct log *log, enum pico_error_kind kind, const char *text)
{
	struct engine_append *mine = NULL, **tail = &mine;
	for (struct log_load *l = log_load_next(e, NULL); l != NULL; l = log_load_next(e, l))
		tail = queue_take(log_load_queue(l), log, tail);
	queue_take(&e->room, log, tail);
	while (mine != NULL) {
		struct engine_append *a = mine;
		list_unlink(a);
		if (a->state == APPEND_ROOM)
			log_unref(a->log);
		a->state = APPEND_NEW;
		append_fail(a, kind, text);
	}
}

void append_fail_all(struct engine *e)
{
	must(e->dead);
	while (e->pending_first < e->published_end)
		answer_one(e);
	append_fail_waiting(e, NULL, PICO_UNAVAILABLE, "this node lost its session; nothing was written");
	for (uint64_t t = e->pending_first; t < e->pending_end; t++) {
		struct engine_append *a;
		if ((a = pending_at(e, t)->append) != NULL) {
			pending_at(e, t)->append = NULL;
			append_fail_unheard(a);
		}
		while ((a = pending_at(e, t)->dependents) != NULL) {
			list_unlink(a);
			append_fail_unheard(a);
		}
	}
}

void append_forget_all(struct engine *e)
{
	append_queue_forget(e, &e->room);
	for (uint64_t t = e->pending_first; t < e->pending_end; t++) {
		struct pending *p = pending_at(e, t);
		if (p->append != NULL)
			env_timer_stop(e->env, &p->append->timer);
		for (struct engine_append *a = p->dependents; a != NULL; a = a->next_in_list)
			env_timer_stop(e->env, &a->timer);
		log_unref(p->log);
	}
	free(e->pending);
}
