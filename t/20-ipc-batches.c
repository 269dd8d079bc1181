/* SPDX-License-Identifier: Apache-2.0
 *
 * The client's calls for batches as they are, against real peers with a scripted node behind them: payloads gathered
 * from many runs, first records of forks, pieces of fetches, and what is sent again after a restart of storaged.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>

#include "common/must.h"
#include "common/record_batch.h"
#include "common/wire.h"
#include "t/lib/scripted_node.h"

#define SOON 3000
#define NO_PAYLOAD ((struct topics_payload){ NULL, 0 })

struct result {
	unsigned n;                     /* callbacks: must become 1 */
	enum pico_error_kind kind;
	struct topics_pieces *pieces;
	size_t n_parts;
};

static struct {
	struct place place;
	struct topics *topics;
} w;

static uint8_t id16[16] = "0123456789abcdef";

static void on_result(void *arg, const struct pico_error *e, const ProtobufCMessage *m, struct topics_pieces *pieces)
{
	struct result *r = arg;
	r->n++;
	r->kind = e->kind;
	r->pieces = pieces;
	if (m != NULL && m->descriptor == &ipc__fetch_answer__descriptor)
		r->n_parts = ((const Ipc__FetchAnswer *)m)->n_part;
}

static void call(struct result *r, enum ipc_type type, ProtobufCMessage *m, struct topics_payload payload)
{
	memset(r, 0, sizeof(*r));
	topics_callv(w.topics, type, m, payload, env_now_ms(w.place.env) + SOON, on_result, r);
}

static void plain(struct result *r, enum ipc_type type)
{
	static const uint8_t none[1];
	ProtobufCMessage *m = protobuf_c_message_unpack(ipc_row(type)->request, NULL, 0, none);
	call(r, type, m, NO_PAYLOAD);
	protobuf_c_message_free_unpacked(m, NULL);
}

static void submit(struct result *r, const struct slice *batches, size_t n)
{
	Ipc__SubmitRequest m = IPC__SUBMIT_REQUEST__INIT;
	Ipc__SubmitRequest__Part part[8], *list[8];
	for (size_t i = 0; i < n; i++) {
		ipc__submit_request__part__init(&part[i]);
		part[i].topic_id = (ProtobufCBinaryData){ .len = 16, .data = id16 };
		part[i].length = (uint32_t)batches[i].n;
		list[i] = &part[i];
	}
	m.n_part = n;
	m.part = list;
	call(r, IPC_SUBMIT, &m.base, (struct topics_payload){ batches, n });
}

/* A batch of `n` bytes as far as anybody here looks: length and producer. */
static struct slice batch(size_t n, int64_t producer_id)
{
	uint8_t *p = calloc(1, n);
	for (size_t i = 0; i < n; i++)
		p[i] = (uint8_t)(i * 7 + n);
	put_be64(p + 43, (uint64_t)producer_id);
	return slice_of(p, n);
}

static bool is_done(void *arg)
{
	return ((struct result *)arg)->n > 0;
}

static void finish(struct result *r)
{
	assert_true(place_run(&w.place, is_done, r, SOON));
	assert_int_equal(r->n, 1);
}

static bool is_connected(void *arg)
{
	return topics_is_connected(w.topics);
}

static bool are_parked(void *arg)
{
	return node_parked(&w.place.node) == *(size_t *)arg;
}

static int setup(void **state)
{
	struct topics_config c;
	memset(&w, 0, sizeof(w));
	place_open(&w.place);
	place_up(&w.place, 100);
	peers_serve(w.place.peers);
	place_client_config(&w.place, IPC_ROLE_KAFKA, 0xabcdef, &c);
	assert_int_equal(topics_new(w.place.env, &c, &w.topics), 0);
	assert_true(place_run(&w.place, is_connected, NULL, SOON));
	return 0;
}

static int teardown(void **state)
{
	assert_string_equal(w.place.dropped[0], "");
	topics_free(w.topics);
	place_close(&w.place);
	return 0;
}

static void check_payload(size_t index, const struct slice *batches, size_t n)
{
	const struct seen *s = node_seen(&w.place.node, IPC_SUBMIT, index);
	size_t at = 0;
	for (size_t i = 0; i < n; i++) {
		assert_true(at + batches[i].n <= s->payload_n);
		assert_memory_equal(s->payload + at, batches[i].p, batches[i].n);
		at += batches[i].n;
	}
	assert_int_equal(at, s->payload_n);
}

/* Inline below 64 KiB, through the inbox above; the runs stand one behind the other. */
static void test_gather(void **state)
{
	struct slice small[3] = { batch(100, 1), batch(61, 2), batch(200, -1) };
	struct slice large[3] = { batch(70000, 1), batch(61, 2), batch(150000, 3) };
	struct result a, b, c;
	submit(&a, small, 3);
	finish(&a);
	submit(&b, large, 3);
	submit(&c, large, 2);           /* behind another one: kept aside first */
	finish(&b);
	finish(&c);
	assert_int_equal(a.kind, PICO_OK);
	check_payload(0, small, 3);
	check_payload(1, large, 3);
	check_payload(2, large, 2);
	for (int i = 0; i < 3; i++) {
		free((void *)(uintptr_t)small[i].p);
		free((void *)(uintptr_t)large[i].p);
	}
}

static void test_fetch_pieces(void **state)
{
	struct node *n = &w.place.node;
	struct result r;
	memcpy(n->segment.mem.base + 5, "hello", 5);
	memcpy(n->segment.mem.base + 100, "world", 5);
	n->n_pieces = 2;
	n->piece_offset[0] = 5;
	n->piece_offset[1] = 100;
	n->piece_length[0] = n->piece_length[1] = 5;
	plain(&r, IPC_FETCH);
	finish(&r);
	assert_int_equal(r.kind, PICO_OK);
	assert_int_equal(r.n_parts, 1);
	assert_int_equal(n->pin.count, 2);
	assert_int_equal(r.pieces->n_pieces, 2);
	assert_true(slice_is(r.pieces->piece[0], "hello"));
	assert_true(slice_is(r.pieces->piece[1], "world"));
	topics_pieces_release(r.pieces);
	place_run_ms(&w.place, 10);
	assert_int_equal(n->pin.count, 0);
}

/* Two fetches of the same are two: each has its own deadline and its own answer. */
static void test_fetches_are_not_shared(void **state)
{
	struct result a, b;
	plain(&a, IPC_FETCH);
	plain(&b, IPC_FETCH);
	finish(&a);
	finish(&b);
	assert_int_equal(node_count(&w.place.node, IPC_FETCH), 2);
}

static struct {
	struct result producers, nobody, mixed, update_id, update_name, grow_id, grow_name, trim, trim_end;
	struct result fetch, lookup, get_many, list_kafka, nodes, init;
} all;

static void change(struct result *r, enum ipc_type type, bool by_id)
{
	Ipc__UpdateRequest u = IPC__UPDATE_REQUEST__INIT;
	Ipc__GrowRequest g = IPC__GROW_REQUEST__INIT;
	Ipc__TopicRef t = IPC__TOPIC_REF__INIT;
	t.name = (char *)(uintptr_t)"/x";
	if (by_id)
		t.topic_id = (ProtobufCBinaryData){ .len = 16, .data = id16 };
	u.topic = g.topic = &t;
	call(r, type, type == IPC_UPDATE ? &u.base : &g.base, NO_PAYLOAD);
}

static void trim(struct result *r, int64_t offset)
{
	Ipc__TrimRequest m = IPC__TRIM_REQUEST__INIT;
	Ipc__LogRef l = IPC__LOG_REF__INIT;
	Ipc__TopicRef t = IPC__TOPIC_REF__INIT;
	t.topic_id = (ProtobufCBinaryData){ .len = 16, .data = id16 };
	l.topic = &t;
	m.log = &l;
	m.offset = offset;
	call(r, IPC_TRIM, &m.base, NO_PAYLOAD);
}

static void begin_all(void)
{
	struct slice mixed[2] = { batch(100, 7), batch(100, -1) }, none = batch(100, -1);
	struct slice both[2] = { batch(100, 7), batch(70000, 0) };
	submit(&all.producers, both, 2);
	submit(&all.nobody, &none, 1);
	submit(&all.mixed, mixed, 2);
	change(&all.update_id, IPC_UPDATE, true);
	change(&all.update_name, IPC_UPDATE, false);
	change(&all.grow_id, IPC_GROW, true);
	change(&all.grow_name, IPC_GROW, false);
	trim(&all.trim, 5);
	trim(&all.trim_end, -1);
	plain(&all.fetch, IPC_FETCH);
	plain(&all.lookup, IPC_LOOKUP);
	plain(&all.get_many, IPC_GET_MANY);
	plain(&all.list_kafka, IPC_LIST_KAFKA);
	plain(&all.nodes, IPC_NODES);
	plain(&all.init, IPC_INIT_PRODUCER);
	free((void *)(uintptr_t)mixed[0].p);
	free((void *)(uintptr_t)mixed[1].p);
	free((void *)(uintptr_t)none.p);
	free((void *)(uintptr_t)both[0].p);
	free((void *)(uintptr_t)both[1].p);
}

static void expect(struct result *r, enum pico_error_kind kind)
{
	finish(r);
	assert_int_equal(r->kind, kind);
}

static void test_restart(void **state)
{
	struct node *n = &w.place.node;
	size_t parked = 15;
	memset(n->hold, true, sizeof(n->hold));
	begin_all();
	assert_true(place_run(&w.place, are_parked, &parked, SOON));
	place_down(&w.place);
	memset(n->hold, false, sizeof(n->hold));
	place_up(&w.place, 101);
	peers_serve(w.place.peers);
	expect(&all.producers, PICO_OK);
	expect(&all.nobody, PICO_DURABILITY);
	expect(&all.mixed, PICO_DURABILITY);
	expect(&all.update_id, PICO_OK);
	expect(&all.update_name, PICO_DURABILITY);
	expect(&all.grow_id, PICO_OK);
	expect(&all.grow_name, PICO_DURABILITY);
	expect(&all.trim, PICO_OK);
	expect(&all.trim_end, PICO_DURABILITY);        /* it would be another end */
	expect(&all.fetch, PICO_OK);
	expect(&all.lookup, PICO_OK);
	expect(&all.get_many, PICO_OK);
	expect(&all.list_kafka, PICO_OK);
	expect(&all.nodes, PICO_OK);
	expect(&all.init, PICO_OK);
	assert_int_equal(node_count(n, IPC_SUBMIT), 1);
	assert_int_equal(node_seen(n, IPC_SUBMIT, 0)->payload_n, 70100);
	assert_int_equal(node_count(n, IPC_RESUME), 0);
}

/* At its deadline: a submit may have happened, a lookup cannot have done anything. */
static void test_deadline(void **state)
{
	struct result a, b;
	struct slice s = batch(100, -1);
	Ipc__SubmitRequest m = IPC__SUBMIT_REQUEST__INIT;
	Ipc__LookupRequest l = IPC__LOOKUP_REQUEST__INIT;
	memset(&a, 0, sizeof(a));
	memset(&b, 0, sizeof(b));
	memset(w.place.node.hold, true, sizeof(w.place.node.hold));
	uint64_t at = env_now_ms(w.place.env) + 50;
	topics_callv(w.topics, IPC_SUBMIT, &m.base, (struct topics_payload){ &s, 1 }, at, on_result, &a);
	topics_callv(w.topics, IPC_LOOKUP, &l.base, NO_PAYLOAD, at, on_result, &b);
	expect(&a, PICO_DURABILITY);
	expect(&b, PICO_UNAVAILABLE);
	node_answer_all(&w.place.node);
	place_run_ms(&w.place, 5);
	free((void *)(uintptr_t)s.p);
}

static void fork_topic(struct result *r, struct slice payload)
{
	Ipc__ForkRequest m = IPC__FORK_REQUEST__INIT;
	Ipc__CreateRequest create = IPC__CREATE_REQUEST__INIT;
	Ipc__TopicRef source = IPC__TOPIC_REF__INIT;
	create.name = "/fork";
	source.name = "/source";
	m.create = &create;
	m.source = &source;
	m.has_offset = m.has_parent_end = true;
	m.offset = UINT64_MAX - 1;
	m.parent_end = UINT64_MAX - 2;
	m.sub_offset = 5;
	call(r, IPC_FORK, &m.base, (struct topics_payload){ &payload, payload.n > 0 });
}

static void check_fork(size_t index, struct slice payload)
{
	const struct seen *s = node_seen(&w.place.node, IPC_FORK, index);
	const Ipc__ForkRequest *m = (const Ipc__ForkRequest *)s->call->request;
	assert_true(slice_eq(slice_of(s->payload, s->payload_n), payload));
	assert_string_equal(m->create->name, "/fork");
	assert_string_equal(m->source->name, "/source");
	assert_true(m->has_offset && m->offset == UINT64_MAX - 1 && m->has_parent_end && m->parent_end == UINT64_MAX - 2);
	assert_int_equal(m->sub_offset, 5);
}

/* Its first records go in the frame or through the inbox; after a restart it is sent again, whole. */
static void test_fork(void **state)
{
	struct result none, small, large;
	struct node *n = &w.place.node;
	struct slice big = batch(100000, -1);
	size_t n_parked = 3;
	assert_true(place_run(&w.place, is_connected, NULL, SOON));
	n->hold[IPC_FORK] = true;
	fork_topic(&none, slice_of(NULL, 0));
	fork_topic(&small, slice_str("copies"));
	fork_topic(&large, big);
	for (int turn = 0; turn < 2; turn++) {
		assert_true(place_run(&w.place, are_parked, &n_parked, SOON));
		check_fork(0, slice_of("", 0));
		check_fork(1, slice_str("copies"));
		check_fork(2, big);
		if (turn > 0)
			break;
		place_down(&w.place);
		place_up(&w.place, 101);
		peers_serve(w.place.peers);
	}
	node_answer_all(n);
	finish(&none);
	finish(&small);
	finish(&large);
	assert_true(none.kind == PICO_OK && small.kind == PICO_OK && large.kind == PICO_OK);
	free((void *)(uintptr_t)big.p);
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
		T(test_gather), T(test_fetch_pieces), T(test_fetches_are_not_shared), T(test_restart), T(test_deadline),
		T(test_fork),
	};
	return cmocka_run_group_tests_name("batches over IPC", tests, NULL, NULL);
}
