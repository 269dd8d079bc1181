/* SPDX-License-Identifier: Apache-2.0
 *
 * The real client against real peers over a Unix socket, with a scripted node behind them: calls, payloads,
 * references, sharing, deadlines, credit, order; and a restart of storaged with every rule of what is sent again.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "common/must.h"
#include "common/record_batch.h"
#include "common/wire.h"
#include "t/lib/scripted_node.h"

#define NOTHING slice_of(NULL, 0)
#define SOON 3000

/* What came of one call. */
struct result {
	struct topics_call *call;
	unsigned n;                     /* callbacks: must become 1 */
	enum pico_error_kind kind;
	uint64_t number;                /* base offset, or 1 for ready, existed */
	char name[64];
	struct topics_pieces *pieces;
};

struct world {
	struct place place;
	struct topics *topics;
	bool room;
	struct topics_pieces *reclaimed;
};
static struct world w;

static void on_result(void *arg, const struct pico_error *e, const ProtobufCMessage *m, struct topics_pieces *pieces)
{
	struct result *r = arg;
	r->n++;
	r->kind = e->kind;
	r->pieces = pieces;
	assert_true((m == NULL) == (e->kind != PICO_OK));
	if (m == NULL)
		return;
	if (m->descriptor == &ipc__append_answer__descriptor)
		r->number = ((const Ipc__AppendAnswer *)m)->base_offset;
	if (m->descriptor == &ipc__wait_answer__descriptor)
		r->number = ((const Ipc__WaitAnswer *)m)->ready;
	if (m->descriptor == &ipc__delete_answer__descriptor)
		r->number = ((const Ipc__DeleteAnswer *)m)->existed;
	if (m->descriptor == &ipc__get_answer__descriptor)
		snprintf(r->name, sizeof(r->name), "%s", ((const Ipc__GetAnswer *)m)->topic->name);
}

static uint64_t in_ms(unsigned ms)
{
	return env_now_ms(w.place.env) + ms;
}

/* ------------------------------------------------------------- shorthand calls */

static void call(struct result *r, enum ipc_type type, ProtobufCMessage *m, struct slice payload, unsigned ms)
{
	memset(r, 0, sizeof(*r));
	r->call = topics_call(w.topics, type, m, payload, in_ms(ms), on_result, r);
	assert_int_equal(r->n, 0);
}

static void get(struct result *r, const char *name, unsigned ms)
{
	Ipc__GetRequest m = IPC__GET_REQUEST__INIT;
	Ipc__TopicRef t = IPC__TOPIC_REF__INIT;
	t.name = (char *)name;
	m.topic = &t;
	call(r, IPC_GET, &m.base, NOTHING, ms);
}

static void append(struct result *r, const char *name, const char *producer, struct slice payload, unsigned ms)
{
	Ipc__AppendRequest m = IPC__APPEND_REQUEST__INIT;
	Ipc__LogRef l = IPC__LOG_REF__INIT;
	Ipc__TopicRef t = IPC__TOPIC_REF__INIT;
	Ipc__Producer p = IPC__PRODUCER__INIT;
	t.name = (char *)name;
	l.topic = &t;
	m.log = &l;
	p.id = (char *)producer;
	m.producer = producer != NULL ? &p : NULL;
	call(r, IPC_APPEND, &m.base, payload, ms);
}

static void change(struct result *r, enum ipc_type type, const char *id, const char *name)
{
	Ipc__DeleteRequest d = IPC__DELETE_REQUEST__INIT;
	Ipc__CloseRequest c = IPC__CLOSE_REQUEST__INIT;
	Ipc__TopicRef t = IPC__TOPIC_REF__INIT;
	t.name = (char *)name;
	if (id != NULL)
		t.topic_id = (ProtobufCBinaryData){ .data = (uint8_t *)id, .len = 16 };
	d.topic = c.topic = &t;
	call(r, type, type == IPC_DELETE ? &d.base : &c.base, NOTHING, SOON);
}

static void wait_for(struct result *r, int64_t from, unsigned ms)
{
	Ipc__WaitRequest m = IPC__WAIT_REQUEST__INIT;
	Ipc__LogRef l = IPC__LOG_REF__INIT;
	m.log = &l;
	m.from = from;
	call(r, IPC_WAIT, &m.base, NOTHING, ms);
}

static void read_within(struct result *r, int64_t from, unsigned ms)
{
	Ipc__ReadRequest m = IPC__READ_REQUEST__INIT;
	Ipc__LogRef l = IPC__LOG_REF__INIT;
	m.log = &l;
	m.from = from;
	call(r, IPC_READ, &m.base, NOTHING, ms);
}

static void read_at(struct result *r, int64_t from)
{
	read_within(r, from, SOON);
}

static void other(struct result *r, enum ipc_type type)
{
	static const uint8_t none[1];
	ProtobufCMessage *m = protobuf_c_message_unpack(ipc_row(type)->request, NULL, 0, none);
	call(r, type, m, NOTHING, SOON);
	protobuf_c_message_free_unpacked(m, NULL);
}

/* ------------------------------------------------------------------ conditions */

static bool is_done(void *arg)
{
	return ((struct result *)arg)->n > 0;
}

static void finish(struct result *r)
{
	assert_true(place_run(&w.place, is_done, r, SOON));
	assert_int_equal(r->n, 1);
}

struct seen_want {
	enum ipc_type type;
	size_t n;
};

static bool is_seen(void *arg)
{
	struct seen_want *want = arg;
	return node_count(&w.place.node, want->type) >= want->n;
}

static void seen(enum ipc_type type, size_t n)
{
	struct seen_want want = { type, n };
	assert_true(place_run(&w.place, is_seen, &want, SOON));
	assert_int_equal(node_count(&w.place.node, type), n);
}

static bool is_connected(void *arg)
{
	return topics_is_connected(w.topics);
}

static bool is_unpinned(void *arg)
{
	return w.place.node.pin.count == 0 && peers_count(w.place.peers).refs == 0;
}

static void connect_again(void)
{
	assert_true(place_run(&w.place, is_connected, NULL, SOON));
}

static void on_room(void *arg)
{
	w.room = true;
}

static void on_reclaim(void *arg, struct topics_pieces *pieces)
{
	w.reclaimed = pieces;
}

static int setup(void **state)
{
	struct topics_config c;
	memset(&w, 0, sizeof(w));
	place_open(&w.place);
	place_up(&w.place, 100);
	peers_serve(w.place.peers);
	place_client_config(&w.place, IPC_ROLE_HTTP, 0xabcdef, &c);
	assert_int_equal(topics_new(w.place.env, &c, &w.topics), 0);
	topics_on_room(w.topics, on_room, NULL);
	topics_on_reclaim(w.topics, on_reclaim, NULL);
	return 0;
}

static int teardown(void **state)
{
	assert_int_equal(w.place.n_dropped, 0);
	topics_free(w.topics);
	place_close(&w.place);
	return 0;
}

/* ----------------------------------------------------------------------- tests */

static uint8_t *noise(size_t n, unsigned seed)
{
	uint8_t *p = malloc(n);
	for (size_t i = 0; i < n; i++)
		p[i] = (uint8_t)((i * 2654435761u + seed * 97u) >> 7);
	return p;
}

static void test_calls(void **state)
{
	struct result a, b, c, d;
	uint8_t *big = noise(100000, 1);
	get(&a, "/x", SOON);            /* before there is a connection */
	append(&b, "/x", NULL, slice_str("small"), SOON);
	append(&c, "/x", NULL, slice_of(big, 100000), SOON);
	finish(&c);
	append(&d, "/x", NULL, slice_of(big, 70000), SOON); /* straight into the inbox */
	finish(&d);
	assert_int_equal(a.n, 1);
	assert_string_equal(a.name, "/x");
	assert_int_equal(a.kind, PICO_OK);
	assert_int_equal(b.number, 0);
	assert_int_equal(c.number, 1);
	assert_int_equal(d.number, 2);
	struct seen *s = node_seen(&w.place.node, IPC_APPEND, 0);
	assert_true(slice_is(slice_of(s->payload, s->payload_n), "small"));
	s = node_seen(&w.place.node, IPC_APPEND, 1);
	assert_int_equal(s->payload_n, 100000);
	assert_memory_equal(s->payload, big, 100000);
	s = node_seen(&w.place.node, IPC_APPEND, 2);
	assert_int_equal(s->payload_n, 70000);
	assert_memory_equal(s->payload, big, 70000);
	assert_true(s->request_id > node_seen(&w.place.node, IPC_APPEND, 1)->request_id);
	free(big);
}

static void test_errors(void **state)
{
	struct result a;
	w.place.node.hold[IPC_GET] = true;
	get(&a, "/x", SOON);
	seen(IPC_GET, 1);
	node_answer_error(node_seen(&w.place.node, IPC_GET, 0), PICO_NOT_FOUND);
	finish(&a);
	assert_int_equal(a.kind, PICO_NOT_FOUND);
}

/* Whatever a worker may ask reaches the node and is answered; a row of ipc_msg.def is all it takes. */
static void test_every_call(void **state)
{
	unsigned n = 0;
	for (unsigned type = 0; type < 64; type++) {
		const struct ipc_row *row = ipc_row(type);
		struct result r;
		if (row == NULL || row->from != IPC_FROM_WORKER || row->answer == NULL || row->phase != IPC_PHASE_READY ||
		    type == IPC_RESUME)
			continue;
		w.place.node.hold[type] = true;
		other(&r, type);
		seen(type, 1);
		node_answer_error(node_seen(&w.place.node, type, 0), PICO_GONE);
		finish(&r);
		assert_int_equal(r.kind, PICO_GONE);
		n++;
	}
	assert_true(n >= 20);
	assert_int_equal(w.place.n_dropped, 0);
}

/* Three batches, the second spans two pieces. */
static void check_batches(const struct topics_pieces *pieces, const size_t size[3])
{
	struct batch_cursor c;
	struct slice s;
	batch_cursor_init(&c, pieces);
	for (int i = 0; i < 3; i++) {
		assert_int_equal(batch_cursor_next(&c, &s), 1);
		assert_int_equal(s.n, size[i]);
		struct record_batch b;
		assert_int_equal(record_batch_read(s, &b), 0);
		assert_true(record_batch_crc_is_good(&b));
	}
	assert_int_equal(batch_cursor_next(&c, &s), 0);
	batch_cursor_done(&c);
}

static void test_read(void **state)
{
	struct result a, b, c;
	size_t size[3];
	node_put_batches(&w.place.node, size);
	read_at(&a, 0);
	read_at(&b, 0);                 /* the same turn: one call */
	finish(&b);
	assert_int_equal(node_count(&w.place.node, IPC_READ), 1);
	assert_int_equal(w.place.node.pin.count, 2);
	assert_non_null(a.pieces);
	assert_ptr_not_equal(a.pieces, b.pieces);
	read_at(&c, 0);                 /* later: its own, with what came between */
	finish(&c);
	assert_int_equal(node_count(&w.place.node, IPC_READ), 2);
	check_batches(a.pieces, size);
	topics_pieces_release(a.pieces);
	place_run_ms(&w.place, 5);
	assert_int_equal(w.place.node.pin.count, 4);
	check_batches(b.pieces, size);
	topics_pieces_release(b.pieces);
	topics_pieces_release(c.pieces);
	assert_true(place_run(&w.place, is_unpinned, NULL, SOON));
	w.place.node.piece_length[1] -= 1; /* a batch that ends too early */
	read_at(&a, 0);
	finish(&a);
	struct batch_cursor cur;
	struct slice s;
	batch_cursor_init(&cur, a.pieces);
	assert_int_equal(batch_cursor_next(&cur, &s), 1);
	assert_int_equal(batch_cursor_next(&cur, &s), 1);
	assert_int_equal(batch_cursor_next(&cur, &s), -EBADMSG);
	batch_cursor_done(&cur);
	topics_pieces_release(a.pieces);
	assert_true(place_run(&w.place, is_unpinned, NULL, SOON));
}

/* The first has left: it may have been worked off before what the second must see. */
static void test_read_joins_no_read_under_way(void **state)
{
	struct result a, b;
	w.place.node.hold[IPC_READ] = true;
	read_at(&a, 3);
	seen(IPC_READ, 1);
	read_within(&b, 3, SOON / 2);
	seen(IPC_READ, 2);
	node_answer_all(&w.place.node);
	finish(&a);
	finish(&b);
}

static void test_reclaim(void **state)
{
	struct result a;
	size_t size[3];
	node_put_batches(&w.place.node, size);
	read_at(&a, 0);
	finish(&a);
	peers_on_reclaim(w.place.peers, &w.place.node.segment);
	place_run_ms(&w.place, 20);
	assert_ptr_equal(w.reclaimed, a.pieces);
	topics_pieces_release(a.pieces);
	assert_true(place_run(&w.place, is_unpinned, NULL, SOON));
	assert_false(w.place.node.pin.abandoned);
	peers_on_segment_gone(w.place.peers, &w.place.node.segment);
	read_at(&a, 0);                 /* announced again */
	finish(&a);
	check_batches(a.pieces, size);
	topics_pieces_release(a.pieces);
	assert_true(place_run(&w.place, is_unpinned, NULL, SOON));
}

static void test_waits_are_shared(void **state)
{
	struct result a, b, early, later, elsewhere;
	w.place.node.hold[IPC_WAIT] = true;
	wait_for(&a, 5, 1000);
	seen(IPC_WAIT, 1);
	wait_for(&b, 5, 900);
	wait_for(&early, 5, 30);
	wait_for(&later, 5, 2000);      /* outlives the first: a wait of its own */
	wait_for(&elsewhere, 6, 900);
	seen(IPC_WAIT, 3);
	finish(&early);
	assert_int_equal(early.kind, PICO_OK);
	assert_int_equal(early.number, 0);
	node_answer(&w.place.node, node_seen(&w.place.node, IPC_WAIT, 0));
	finish(&a);
	finish(&b);
	assert_int_equal(a.number, 1);
	assert_int_equal(b.number, 1);
	assert_int_equal(later.n + elsewhere.n, 0);
	node_answer_all(&w.place.node);
	finish(&later);
	finish(&elsewhere);
}

static bool is_cancelled(void *arg)
{
	return ((struct seen *)arg)->cancelled;
}

static void test_abandon(void **state)
{
	struct result a, b, c, d;
	w.place.node.hold[IPC_WAIT] = w.place.node.hold[IPC_APPEND] = true;
	wait_for(&a, 5, SOON);
	wait_for(&b, 5, SOON);
	append(&c, "/x", NULL, slice_str("c"), SOON);
	seen(IPC_APPEND, 1);
	struct seen *wait = node_seen(&w.place.node, IPC_WAIT, 0);
	topics_abandon(a.call);
	topics_abandon(c.call);
	place_run_ms(&w.place, 20);
	assert_false(wait->cancelled);  /* b still waits */
	topics_abandon(b.call);
	assert_true(place_run(&w.place, is_cancelled, wait, SOON));
	assert_false(node_seen(&w.place.node, IPC_APPEND, 0)->cancelled);
	node_answer_all(&w.place.node);
	get(&d, "/x", SOON);
	topics_abandon(d.call);         /* never sent */
	get(&d, "/y", SOON);
	finish(&d);
	assert_int_equal(node_count(&w.place.node, IPC_GET), 1);
	assert_int_equal(a.n + b.n + c.n, 0);
}

static void test_deadlines(void **state)
{
	struct result a, g;
	connect_again();
	w.place.node.hold[IPC_APPEND] = w.place.node.hold[IPC_GET] = true;
	append(&a, "/x", NULL, slice_str("a"), 20);
	get(&g, "/x", 20);
	finish(&a);
	finish(&g);
	assert_int_equal(a.kind, PICO_DURABILITY);
	assert_int_equal(g.kind, PICO_UNAVAILABLE);
	node_answer_all(&w.place.node); /* too late, harmless */
	place_down(&w.place);
	place_run_ms(&w.place, 20);
	append(&a, "/x", NULL, slice_str("a"), 20);
	finish(&a);
	assert_int_equal(a.kind, PICO_UNAVAILABLE); /* it never left */
}

static void test_credit(void **state)
{
	struct result r[7];
	size_t n = 5u << 20;
	uint8_t *big = noise(n, 3);
	connect_again();
	w.place.node.hold[IPC_APPEND] = true;
	for (int i = 0; i < 7; i++)
		append(&r[i], "/x", NULL, slice_of(big, n), SOON);
	assert_true(topics_is_full(w.topics));
	place_run_ms(&w.place, 50);
	assert_int_equal(node_count(&w.place.node, IPC_APPEND), 6); /* 30 of 32 MiB */
	node_answer(&w.place.node, node_seen(&w.place.node, IPC_APPEND, 2));
	finish(&r[2]);
	seen(IPC_APPEND, 7);
	node_answer_all(&w.place.node);
	for (int i = 0; i < 7; i++)
		if (i != 2)
			finish(&r[i]);
	place_run_ms(&w.place, 5);
	assert_true(w.room);
	assert_false(topics_is_full(w.topics));
	for (int i = 0; i < 7; i++)
		assert_memory_equal(node_seen(&w.place.node, IPC_APPEND, (size_t)i)->payload, big, n);
	append(&r[0], "/x", NULL, slice_of(big, IPC_CREDIT + 1ull), SOON);
	finish(&r[0]);
	assert_int_equal(r[0].kind, PICO_TOO_LARGE);
	free(big);
}

static void test_order(void **state)
{
	enum { N = 300 };
	static struct result r[N];
	uint8_t *big = noise(70000, 4);
	for (int i = 0; i < N; i++) {
		char name[16];
		snprintf(name, sizeof(name), "/%d", i);
		append(&r[i], name, NULL, slice_of(big, i % 3 == 0 ? 70000 : 10), SOON);
		if (i % 50 == 0)
			place_run_ms(&w.place, 1);
	}
	finish(&r[N - 1]);
	for (int i = 0; i < N; i++) {
		char name[16];
		snprintf(name, sizeof(name), "/%d", i);
		assert_string_equal(node_seen(&w.place.node, IPC_APPEND, (size_t)i)->name, name);
		assert_int_equal(r[i].number, i);
	}
	free(big);
}

static int on_resume(struct node *n, const Ipc__Resume__Sent *sent, uint64_t *ret_base)
{
	*ret_base = 1000;
	switch (n->n_resumed) {
	case 1: return IPC__RESUME_ANSWER__STATE__STORED;
	case 2: return IPC__RESUME_ANSWER__STATE__ABSENT;
	default: return IPC__RESUME_ANSWER__STATE__UNKNOWN;
	}
}

/* Every kind of call under way when storaged is killed; then each rule. */
static struct {
	struct result g, l, o, wt, rd, cr, many, prod, stored, absent, unknown, del_id, del_name, close_id, big, fresh;
	uint64_t asked[3];              /* request ids of stored, absent, unknown */
	uint8_t *noise;
} all;

static void hear_wal_position(struct node *n, uint64_t session, uint64_t seq)
{
	n->wal_session = session;
	n->wal_seq = seq;
	get(&all.g, "/warm", SOON);
	finish(&all.g);
}

static void begin_all(struct node *n)
{
	static const char id[16] = "0123456789abcde";
	memset(n->hold, true, sizeof(n->hold));
	n->hold[IPC_RESUME] = false;
	all.noise = noise(200000, 5);
	get(&all.g, "/g", SOON);
	other(&all.l, IPC_LIST);
	other(&all.o, IPC_OFFSETS);
	wait_for(&all.wt, 9, SOON);
	read_at(&all.rd, 9);
	other(&all.cr, IPC_CREATE);
	append(&all.stored, "/stored", NULL, slice_str("s"), SOON);
	append(&all.prod, "/prod", "p", slice_str("p"), SOON);
	append(&all.absent, "/absent", NULL, slice_str("a"), SOON);
	append(&all.unknown, "/unknown", NULL, slice_str("u"), SOON);
	change(&all.del_id, IPC_DELETE, id, "/del-id");
	change(&all.del_name, IPC_DELETE, NULL, "/del-name");
	change(&all.close_id, IPC_CLOSE, id, "/close-id");
	append(&all.big, "/big", "p", slice_of(all.noise, 200000), SOON);
	other(&all.many, IPC_CREATE_MANY);
	seen(IPC_CREATE_MANY, 1);
	assert_int_equal(node_parked(n), 15);
	all.asked[0] = node_seen(n, IPC_APPEND, 0)->request_id;
	all.asked[1] = node_seen(n, IPC_APPEND, 2)->request_id;
	all.asked[2] = node_seen(n, IPC_APPEND, 3)->request_id;
}

static void check_asked(const struct node *n)
{
	assert_int_equal(n->n_resumed, 3);
	for (int i = 0; i < 3; i++) {
		assert_int_equal(n->resumed[i].request_id, all.asked[i]);
		assert_int_equal(n->resumed[i].wal_session, 8);
		assert_int_equal(n->resumed[i].wal_seq, 44);
	}
}

/* The changes, all behind Resume, in first order. */
static void check_sent_again(struct node *n)
{
	static const struct {
		enum ipc_type type;
		const char *name;
	} want[] = {
		{ IPC_CREATE, "" }, { IPC_APPEND, "/prod" }, { IPC_APPEND, "/absent" }, { IPC_DELETE, "/del-id" },
		{ IPC_CLOSE, "/close-id" }, { IPC_APPEND, "/big" }, { IPC_CREATE_MANY, "" }, { IPC_APPEND, "/fresh" },
	};
	size_t k = 0;
	bool resumed = false;
	for (size_t i = 0; i < n->n_seen; i++) {
		const struct seen *s = &n->seen[i];
		resumed = resumed || s->type == IPC_RESUME;
		if (s->type == IPC_RESUME || s->type == IPC_GET || s->type == IPC_LIST || s->type == IPC_OFFSETS ||
		    s->type == IPC_WAIT || s->type == IPC_READ)
			continue;
		assert_true(resumed && k < 8);
		assert_int_equal(s->type, want[k].type);
		assert_string_equal(s->name, want[k].name);
		k++;
	}
	assert_int_equal(k, 8);
	assert_int_equal(node_seen(n, IPC_APPEND, 1)->request_id, all.asked[1]);
	assert_int_equal(node_seen(n, IPC_APPEND, 2)->payload_n, 200000);
	assert_memory_equal(node_seen(n, IPC_APPEND, 2)->payload, all.noise, 200000);
}

static void check_answers(void)
{
	struct result *good[] = { &all.g, &all.l, &all.o, &all.wt, &all.rd, &all.cr, &all.many, &all.prod, &all.stored,
				  &all.absent, &all.del_id, &all.close_id, &all.big };
	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
		finish(good[i]);
		assert_int_equal(good[i]->kind, PICO_OK);
	}
	assert_int_equal(all.stored.number, 1000);
	assert_int_equal(all.prod.number, 0);
	assert_int_equal(all.absent.number, 1);
	assert_int_equal(all.del_id.number, 1); /* what was found gone, we deleted */
	finish(&all.unknown);
	assert_int_equal(all.unknown.kind, PICO_DURABILITY);
	finish(&all.del_name);
	assert_int_equal(all.del_name.kind, PICO_DURABILITY);
}

static void test_restart(void **state)
{
	struct node *n = &w.place.node;
	connect_again();
	n->on_resume = on_resume;
	hear_wal_position(n, 8, 44);
	begin_all(n);
	place_down(&w.place);
	memset(n->hold, false, sizeof(n->hold));
	place_run_ms(&w.place, 30);
	append(&all.fresh, "/fresh", NULL, slice_str("f"), SOON);
	assert_int_equal(n->n_seen, 0);
	n->wal_session = 9;
	n->wal_seq = 1;
	place_up(&w.place, 101);
	connect_again();
	place_run_ms(&w.place, 30);
	assert_int_equal(n->n_seen, 0); /* it recovers: calls wait */
	assert_int_equal(all.stored.n + all.prod.n + all.absent.n + all.g.n + all.wt.n, 0);
	peers_serve(w.place.peers);
	finish(&all.fresh);
	check_asked(n);
	check_sent_again(n);
	check_answers();
	free(all.noise);
}

/* Killed again before Resume is answered: asked again, with the first position. */
static void test_restart_twice(void **state)
{
	struct result a, later;
	struct node *n = &w.place.node;
	connect_again();
	n->on_resume = on_resume;
	n->n_resumed = 1;               /* the answer will be ABSENT */
	n->hold[IPC_APPEND] = n->hold[IPC_RESUME] = true;
	append(&a, "/a", NULL, slice_str("a"), SOON);
	seen(IPC_APPEND, 1);
	uint64_t id = node_seen(n, IPC_APPEND, 0)->request_id;
	place_down(&w.place);
	n->wal_session = 2;
	place_up(&w.place, 101);
	peers_serve(w.place.peers);
	seen(IPC_RESUME, 1);
	append(&later, "/later", NULL, slice_str("l"), SOON);
	place_run_ms(&w.place, 20);
	assert_int_equal(node_count(n, IPC_APPEND), 0); /* waits behind the older one */
	place_down(&w.place);
	n->hold[IPC_APPEND] = n->hold[IPC_RESUME] = false;
	place_up(&w.place, 102);
	peers_serve(w.place.peers);
	finish(&later);
	finish(&a);
	assert_int_equal(n->resumed[1].request_id, id);
	assert_int_equal(n->resumed[1].wal_session, 1);
	assert_string_equal(node_seen(n, IPC_APPEND, 0)->name, "/a");
	assert_string_equal(node_seen(n, IPC_APPEND, 1)->name, "/later");
	assert_int_equal(a.kind, PICO_OK);
}

/* What refuses the second copy knows nothing of the first, which may be stored. */
static void test_second_copy_refused(void **state)
{
	static const enum pico_error_kind said[] = { PICO_UNAVAILABLE, PICO_THROTTLED, PICO_FENCED };
	static const enum pico_error_kind told[] = { PICO_DURABILITY, PICO_DURABILITY, PICO_FENCED };
	struct result a[3], fresh;
	struct node *n = &w.place.node;
	connect_again();
	n->hold[IPC_APPEND] = true;
	for (int i = 0; i < 3; i++)
		append(&a[i], "/a", "p", slice_str("a"), SOON);
	seen(IPC_APPEND, 3);
	place_down(&w.place);
	place_up(&w.place, 101);
	peers_serve(w.place.peers);
	append(&fresh, "/a", "p", slice_str("a"), SOON);
	seen(IPC_APPEND, 4);
	for (size_t i = 0; i < 3; i++) {
		node_answer_error(node_seen(n, IPC_APPEND, i), said[i]);
		finish(&a[i]);
		assert_int_equal(a[i].kind, told[i]);
	}
	node_answer_error(node_seen(n, IPC_APPEND, 3), PICO_UNAVAILABLE);
	finish(&fresh);
	assert_int_equal(fresh.kind, PICO_UNAVAILABLE);
}

/* The connection is lost, storaged is not: what it has got goes on there, and nobody can ask about it. */
static void test_same_storaged(void **state)
{
	struct result a, p, g;
	struct node *n = &w.place.node;
	connect_again();
	n->hold[IPC_APPEND] = n->hold[IPC_GET] = true;
	append(&a, "/a", NULL, slice_str("a"), SOON);
	append(&p, "/p", "p", slice_str("p"), SOON);
	get(&g, "/g", SOON);
	seen(IPC_GET, 1);
	place_down(&w.place);
	n->hold[IPC_APPEND] = n->hold[IPC_GET] = false;
	place_up(&w.place, 100);
	peers_serve(w.place.peers);
	finish(&a);
	finish(&p);
	finish(&g);
	assert_int_equal(a.kind, PICO_DURABILITY);
	assert_int_equal(p.kind, PICO_OK);
	assert_int_equal(g.kind, PICO_OK);
	assert_int_equal(node_count(n, IPC_RESUME), 0);
	assert_int_equal(node_count(n, IPC_APPEND), 1);
}

/* What was answered before a restart stays readable, and its release is nobody's business any more. */
static void test_old_references(void **state)
{
	struct result a, b;
	size_t size[3];
	node_put_batches(&w.place.node, size);
	read_at(&a, 0);
	finish(&a);
	place_down(&w.place);
	assert_int_equal(w.place.node.pin.count, 0);
	place_up(&w.place, 101);
	peers_serve(w.place.peers);
	read_at(&b, 0);
	finish(&b);
	check_batches(a.pieces, size);
	topics_pieces_release(a.pieces);
	place_run_ms(&w.place, 10);
	assert_int_equal(peers_count(w.place.peers).refs, 1);
	check_batches(b.pieces, size);
	topics_pieces_release(b.pieces);
	assert_true(place_run(&w.place, is_unpinned, NULL, SOON));
}

/* topics_free() with calls in every state: each is answered once. */
static void test_end(void **state)
{
	struct result a, b, c;
	struct topics_config config;
	connect_again();
	w.place.node.hold[IPC_APPEND] = w.place.node.hold[IPC_WAIT] = true;
	append(&a, "/a", NULL, slice_str("a"), SOON);
	wait_for(&b, 1, SOON);
	seen(IPC_APPEND, 1);
	get(&c, "/c", SOON);
	topics_free(w.topics);
	assert_int_equal(a.n, 1);
	assert_int_equal(a.kind, PICO_DURABILITY);
	assert_int_equal(b.n, 1);
	assert_int_equal(b.kind, PICO_UNAVAILABLE);
	assert_int_equal(c.n, 1);
	assert_int_equal(c.kind, PICO_UNAVAILABLE);
	place_client_config(&w.place, IPC_ROLE_HTTP, 2, &config);
	assert_int_equal(topics_new(w.place.env, &config, &w.topics), 0);
	get(&c, "/c", SOON);
	finish(&c);
	assert_int_equal(peers_count(w.place.peers).peers, 1);
	assert_int_equal(peers_count(w.place.peers).calls, 1);  /* the append goes on without a listener */
	node_answer_all(&w.place.node);
	assert_int_equal(peers_count(w.place.peers).calls, 0);
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
		T(test_calls), T(test_errors), T(test_every_call), T(test_read), T(test_read_joins_no_read_under_way),
		T(test_reclaim), T(test_waits_are_shared), T(test_abandon),
		T(test_deadlines), T(test_credit), T(test_order), T(test_restart), T(test_restart_twice),
		T(test_second_copy_refused),
		T(test_same_storaged), T(test_old_references), T(test_end),
	};
	return cmocka_run_group_tests_name("topics over IPC", tests, NULL, NULL);
}
