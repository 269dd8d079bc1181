/* SPDX-License-Identifier: Apache-2.0
 *
 * Workers that were taken over by their clients. Each runs in a process of its own over a bare socket and breaks one
 * rule; it must be dropped for that rule's reason (or left alone where it harms nobody), while a well-behaved worker
 * gets every answer, and memory and descriptors return to what they were.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/falloc.h>
#include <malloc.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/must.h"
#include "common/wire.h"
#include "t/lib/scripted_node.h"

#define NOTHING slice_of(NULL, 0)
#define HOSTILE 0x666
#define MIB (1u << 20)

static struct place place;

/* ----------------------------------------------------- the hostile process's tools */

struct raw {
	int sock;
	struct ipc_reader r;
	uint8_t *inbox;
	int inbox_fd;
	uint64_t next_id;
	bool stuck;
};

/* In the child nothing of cmocka may run: a broken expectation ends it with its line number. */
#define expect(e) ((e) ? (void)0 : (fprintf(stderr, "# line %d: %s\n", __LINE__, #e), _exit(1)))

static void raw_connect(struct raw *h)
{
	memset(h, 0, sizeof(*h));
	h->next_id = 1;
	h->inbox_fd = -1;
	int r;
	while ((r = ipc_connect(place.path, &h->sock)) == -EAGAIN)
		usleep(1000); /* the backlog is full */
	expect(r == 0);
	fcntl(h->sock, F_SETFL, 0);
	struct timeval limit = { .tv_sec = 9 };
	setsockopt(h->sock, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
	setsockopt(h->sock, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit));
	ipc_reader_init(&h->r, IPC_FROM_STORAGED);
}

static void raw_bytes(struct raw *h, const void *p, size_t n)
{
	for (size_t at = 0; at < n && !h->stuck;) {
		ssize_t k = send(h->sock, (const uint8_t *)p + at, n - at, MSG_NOSIGNAL);
		h->stuck = k <= 0; /* dropped, or nothing is taken any more */
		at += h->stuck ? 0 : (size_t)k;
	}
}

static uint64_t raw_send(struct raw *h, enum ipc_type type, const ProtobufCMessage *m, struct slice payload)
{
	struct buf b;
	uint64_t id = ipc_row(type)->answer != NULL ? h->next_id++ : 0;
	buf_init(&b, 8 * MIB);
	expect(ipc_write(&b, type, 0, id, m, payload) == 0);
	raw_bytes(h, buf_head(&b), buf_len(&b));
	buf_done(&b);
	return id;
}

/* The next frame; false when storaged closed. Blocking: poll() once for a socket that is read without waiting. */
static bool raw_read(struct raw *h, struct ipc_frame *f)
{
	for (;;) {
		int r = ipc_read(&h->r, f);
		expect(r >= 0);
		if (r > 0)
			return true;
		uint8_t peek;
		ssize_t k = recv(h->sock, &peek, 1, MSG_PEEK);
		if (k == 0 || (k < 0 && errno == ECONNRESET))
			return false;
		expect(k == 1);
		k = ipc_recv(h->sock, &h->r);
		if (k == 0 || k == -ECONNRESET)
			return false;
		expect(k > 0);
	}
}

static void raw_until(struct raw *h, enum ipc_type type, struct ipc_frame *f)
{
	do
		expect(raw_read(h, f));
	while (f->row->type != type);
}

static void raw_closed(struct raw *h)
{
	struct ipc_frame f;
	while (raw_read(h, &f))
		;
}

static void hello_of(struct raw *h, Ipc__Hello *m, uint8_t proof[32])
{
	if (h->inbox == NULL)
		raw_connect(h);
	ipc__hello__init(m);
	ipc_proof(place.key, IPC_ROLE_HTTP, HOSTILE, proof);
	m->version_min = m->version_max = IPC_VERSION;
	m->role = IPC_ROLE_HTTP;
	m->instance = HOSTILE;
	m->proof = (ProtobufCBinaryData){ .data = proof, .len = 32 };
}

static void raw_hello(struct raw *h)
{
	Ipc__Hello m;
	uint8_t proof[32];
	struct ipc_frame f;
	h->inbox = NULL;
	hello_of(h, &m, proof);
	raw_send(h, IPC_HELLO, &m.base, NOTHING);
	raw_until(h, IPC_HELLO, &f);
	expect(f.fd >= 0);
	h->inbox_fd = f.fd;
	h->inbox = mmap(NULL, IPC_INBOX_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, f.fd, 0);
	expect(h->inbox != MAP_FAILED);
	h->r.phase = IPC_PHASE_READY;
}

static void raw_get(struct raw *h, const char *name)
{
	Ipc__GetRequest m = IPC__GET_REQUEST__INIT;
	Ipc__TopicRef t = IPC__TOPIC_REF__INIT;
	t.name = (char *)name;
	m.topic = &t;
	raw_send(h, IPC_GET, &m.base, NOTHING);
}

static void raw_append(struct raw *h, uint64_t offset, uint32_t length)
{
	Ipc__AppendRequest m = IPC__APPEND_REQUEST__INIT;
	Ipc__Payload p = IPC__PAYLOAD__INIT;
	p.in_inbox = true;
	p.inbox_offset = offset;
	p.length = length;
	m.payload = &p;
	raw_send(h, IPC_APPEND, &m.base, NOTHING);
}

static uint64_t raw_ref(struct raw *h)
{
	Ipc__ReadRequest m = IPC__READ_REQUEST__INIT;
	struct ipc_frame f;
	raw_send(h, IPC_READ, &m.base, NOTHING);
	raw_until(h, IPC_READ, &f);
	Ipc__ReadAnswer *a = (Ipc__ReadAnswer *)ipc_frame_decode(&f);
	expect(a != NULL && a->ref != 0);
	uint64_t ref = a->ref;
	protobuf_c_message_free_unpacked(&a->base, NULL);
	return ref;
}

static void raw_release(struct raw *h, uint64_t ref)
{
	Ipc__Release m = IPC__RELEASE__INIT;
	m.n_refs = 1;
	m.refs = &ref;
	raw_send(h, IPC_RELEASE, &m.base, NOTHING);
}

static void raw_header(struct raw *h, unsigned type, unsigned flags, uint32_t message, uint32_t payload, uint64_t id)
{
	uint8_t b[IPC_HEADER] = { 0 };
	put_le16(b, (uint16_t)type);
	put_le16(b + 2, (uint16_t)flags);
	put_le32(b + 4, message);
	put_le32(b + 8, payload);
	put_le64(b + 16, id);
	raw_bytes(h, b, sizeof(b));
}

/* ------------------------------------------------------------------- what they do */

static void wrong_proof(struct raw *h)
{
	Ipc__Hello m;
	uint8_t proof[32];
	hello_of(h, &m, proof);
	proof[31] ^= 1;
	raw_send(h, IPC_HELLO, &m.base, NOTHING);
	raw_closed(h);
}

/* The proof of one role says nothing for another. */
static void wrong_role(struct raw *h)
{
	Ipc__Hello m;
	uint8_t proof[32];
	hello_of(h, &m, proof);
	m.role = IPC_ROLE_ADMIN;
	raw_send(h, IPC_HELLO, &m.base, NOTHING);
	raw_closed(h);
}

static void future_version(struct raw *h)
{
	Ipc__Hello m;
	uint8_t proof[32];
	hello_of(h, &m, proof);
	m.version_min = m.version_max = IPC_VERSION + 1;
	raw_send(h, IPC_HELLO, &m.base, NOTHING);
	raw_closed(h);
}

static void before_hello(struct raw *h)
{
	raw_connect(h);
	raw_get(h, "/x");
	raw_closed(h);
}

static void hello_twice(struct raw *h)
{
	Ipc__Hello m;
	uint8_t proof[32];
	raw_hello(h);
	hello_of(h, &m, proof);
	raw_send(h, IPC_HELLO, &m.base, NOTHING);
	raw_closed(h);
}

static void unknown_type(struct raw *h)
{
	raw_hello(h);
	raw_header(h, 1000, 0, 0, 0, 1);
	raw_closed(h);
}

static void wrong_side(struct raw *h)
{
	raw_hello(h);
	raw_header(h, IPC_SEGMENT, 0, 0, 0, 0);
	raw_closed(h);
}

static void answers(struct raw *h)
{
	raw_hello(h);
	raw_header(h, IPC_GET, IPC_FLAG_ANSWER, 0, 0, 1);
	raw_closed(h);
}

static void giant(struct raw *h)
{
	raw_hello(h);
	raw_header(h, IPC_GET, 0, UINT32_MAX, UINT32_MAX, 1);
	raw_closed(h);
}

static void undecodable(struct raw *h)
{
	raw_hello(h);
	raw_header(h, IPC_GET, 0, 4, 0, 1);
	raw_bytes(h, "\xff\xff\xff\xff", 4);
	raw_closed(h);
}

/* 4 MiB of empty messages: hundreds of MiB if they were believed. */
static void message_bomb(struct raw *h)
{
	uint8_t *p = calloc(1, 4 * MIB);
	for (size_t i = 0; i < 4 * MIB; i += 2)
		p[i] = 0x0a;
	raw_hello(h);
	raw_header(h, IPC_CREATE_MANY, 0, 4 * MIB, 0, 1);
	raw_bytes(h, p, 4 * MIB);
	raw_closed(h);
	free(p);
}

static void descriptors(struct raw *h)
{
	struct ipc_out o;
	Ipc__Release m = IPC__RELEASE__INIT;
	raw_hello(h);
	ipc_out_init(&o, 4096);
	ipc_out_fd(&o, dup(h->inbox_fd));
	ipc_write(&o.buf, IPC_RELEASE, 0, 0, &m.base, NOTHING);
	expect(ipc_send(h->sock, &o) == 0);
	raw_closed(h);
}

static void half_a_frame(struct raw *h)
{
	raw_hello(h);
	raw_header(h, IPC_GET, 0, 100, 0, 1);
	raw_bytes(h, "half", 4);
	shutdown(h->sock, SHUT_WR);
	raw_closed(h);
}

static void garbage(struct raw *h)
{
	uint8_t b[8192];
	srandom(1);
	for (size_t i = 0; i < sizeof(b); i++)
		b[i] = (uint8_t)(random() >> 8);
	raw_connect(h);
	raw_bytes(h, b, sizeof(b));
	raw_closed(h);
}

static void range_outside(struct raw *h)
{
	raw_hello(h);
	raw_append(h, IPC_INBOX_SIZE - 10, 11);
	raw_closed(h);
}

static void range_wraps(struct raw *h)
{
	raw_hello(h);
	raw_append(h, UINT64_MAX - 10, 100);
	raw_closed(h);
}

static void range_empty(struct raw *h)
{
	raw_hello(h);
	raw_append(h, 0, 0);
	raw_closed(h);
}

static void ranges_overlap(struct raw *h)
{
	raw_hello(h);
	raw_append(h, 4096, 4096);
	raw_append(h, 0, 4096);         /* beside it is fine */
	raw_append(h, 8191, 100);
	raw_closed(h);
}

static void payload_lies(struct raw *h)
{
	Ipc__AppendRequest m = IPC__APPEND_REQUEST__INIT;
	Ipc__Payload p = IPC__PAYLOAD__INIT;
	raw_hello(h);
	p.length = 60000;
	m.payload = &p;
	raw_send(h, IPC_APPEND, &m.base, slice_str("five!"));
	raw_closed(h);
}

static void credit(struct raw *h)
{
	raw_hello(h);
	for (unsigned i = 0; i < 33; i++)
		raw_append(h, i * MIB, MIB);
	raw_closed(h);
}

static void same_id(struct raw *h)
{
	raw_hello(h);
	raw_append(h, 0, 100);
	h->next_id--;
	raw_append(h, 200, 100);
	raw_closed(h);
}

static void frees_twice(struct raw *h)
{
	raw_hello(h);
	uint64_t ref = raw_ref(h);
	raw_release(h, ref);
	raw_release(h, ref);
	raw_closed(h);
}

/* Every number that could be another worker's reference. */
static void frees_others(struct raw *h)
{
	raw_hello(h);
	uint64_t ref = raw_ref(h);
	raw_release(h, ref - 1);
	raw_closed(h);
}

static void too_many_calls(struct raw *h)
{
	struct buf b;
	Ipc__WaitRequest m = IPC__WAIT_REQUEST__INIT;
	raw_hello(h);
	buf_init(&b, 64 * MIB);
	for (unsigned i = 0; i <= PEER_CALLS_MAX; i++)
		ipc_write(&b, IPC_WAIT, 0, h->next_id++, &m.base, NOTHING);
	raw_bytes(h, buf_head(&b), buf_len(&b));
	buf_done(&b);
	raw_closed(h);
}

/* Takes a reference, is asked for it, keeps it: killed. */
static void never_frees(struct raw *h)
{
	struct ipc_frame f;
	raw_hello(h);
	raw_ref(h);
	raw_until(h, IPC_RECLAIM, &f);
	raw_closed(h);
	for (;;)
		pause();
}

/* Dropped with a reference, stays: killed. */
static void lives_on(struct raw *h)
{
	frees_others(h);
	for (;;)
		pause();
}

/* Memory of storaged's cannot be written, shrunk or holed, by whatever way. Harmless: not dropped. */
static void writes_segments(struct raw *h)
{
	struct ipc_frame f;
	Ipc__ReadRequest m = IPC__READ_REQUEST__INIT;
	raw_hello(h);
	raw_send(h, IPC_READ, &m.base, NOTHING);
	raw_until(h, IPC_SEGMENT, &f);
	int fd = f.fd;
	char path[64];
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	int again = open(path, O_RDWR);
	int fds[2] = { fd, again };
	for (int i = 0; i < 2; i++) {
		if (fds[i] < 0)
			continue;
		expect(mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fds[i], 0) == MAP_FAILED);
		expect(ftruncate(fds[i], 0) < 0);
		expect(ftruncate(fds[i], 1 << 30) < 0);
		expect(pwrite(fds[i], "evil", 4, 0) < 0);
		expect(fallocate(fds[i], FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, 4096) < 0);
		expect(fcntl(fds[i], F_ADD_SEALS, F_SEAL_WRITE) < 0);
	}
	uint8_t *p = mmap(NULL, 4096, PROT_READ, MAP_SHARED, fd, 0);
	expect(p != MAP_FAILED && mprotect(p, 4096, PROT_READ | PROT_WRITE) < 0);
	expect(ftruncate(h->inbox_fd, 0) < 0);
	expect(ftruncate(h->inbox_fd, 1 << 30) < 0);
	expect(fcntl(h->inbox_fd, F_ADD_SEALS, F_SEAL_FUTURE_WRITE) < 0);
	/* A hole in one's own inbox reads as zeros. */
	memset(h->inbox, 'x', MIB);
	expect(fallocate(h->inbox_fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, MIB) == 0);
	raw_append(h, 0, MIB);
	raw_until(h, IPC_APPEND, &f);
	expect(f.flags == IPC_FLAG_ANSWER);
}

static atomic_bool rewriting = true;

static void *rewrite(void *arg)
{
	uint8_t *p = arg;
	for (uint8_t v = 0; rewriting; v++)
		memset(p, v, MIB);
	return NULL;
}

static void rewrites_inbox(struct raw *h)
{
	pthread_t t;
	struct ipc_frame f;
	raw_hello(h);
	expect(pthread_create(&t, NULL, rewrite, h->inbox) == 0);
	for (int i = 0; i < 40; i++) {
		raw_append(h, 0, MIB);
		raw_until(h, IPC_APPEND, &f);
		expect(f.flags == IPC_FLAG_ANSWER);
	}
	rewriting = false;
	pthread_join(t, NULL);
}

/* Asks for 128 MiB of answers and reads none. */
static void never_reads(struct raw *h)
{
	char *name = malloc(64000);
	memset(name, 'n', 63999);
	name[63999] = 0;
	raw_hello(h);
	struct timeval limit = { .tv_usec = 300000 };
	setsockopt(h->sock, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit));
	for (int i = 0; i < 2000; i++)
		raw_get(h, name);
	expect(h->stuck);
	free(name);
}

/* Cancels what is not its own, what never was, what is done. Harmless. */
static void cancels(struct raw *h)
{
	struct ipc_frame f;
	raw_hello(h);
	for (uint64_t id = 0; id < 1000; id++) {
		Ipc__Cancel m = IPC__CANCEL__INIT;
		m.request_id = id;
		raw_send(h, IPC_CANCEL, &m.base, NOTHING);
	}
	raw_get(h, "/x");
	raw_until(h, IPC_GET, &f);
}

static void comes_and_goes(struct raw *h)
{
	for (int i = 0; i < 300; i++) {
		raw_connect(h);
		if (i % 2 == 0)
			raw_bytes(h, "\1", 1);
		close(h->sock);
	}
}

/* More connections than are taken: those beyond are closed. */
static void crowd(struct raw *h)
{
	struct raw *r = calloc(PEERS_MAX + 20, sizeof(*r));
	for (int i = 0; i < PEERS_MAX + 20; i++)
		raw_connect(&r[i]);
	raw_closed(&r[PEERS_MAX + 19]);
}

static const struct scenario {
	const char *name;
	void (*act)(struct raw *h);
	const char *why;                /* NULL: it is not dropped */
	bool held;                      /* the node parks its calls */
	bool killed;
	bool lives_on;                  /* with what it was shown, until it is killed */
	unsigned ms;
} scenarios[] = {
	{ .name = "wrong proof", .act = wrong_proof, .why = "the proof in Hello is wrong" },
	{ .name = "another role's proof", .act = wrong_role, .why = "the proof in Hello is wrong" },
	{ .name = "future version", .act = future_version, .why = "no IPC version in common" },
	{ .name = "call before Hello", .act = before_hello, .why = "message in the wrong phase" },
	{ .name = "Hello twice", .act = hello_twice, .why = "message in the wrong phase" },
	{ .name = "unknown type", .act = unknown_type, .why = "unknown message type" },
	{ .name = "storaged's message", .act = wrong_side, .why = "message from the wrong side" },
	{ .name = "an answer", .act = answers, .why = "answer from the wrong side" },
	{ .name = "giant lengths", .act = giant, .why = "message is longer than 4 MiB" },
	{ .name = "undecodable", .act = undecodable, .why = "request does not decode" },
	{ .name = "message bomb", .act = message_bomb, .why = "request does not decode" },
	{ .name = "descriptors", .act = descriptors, .why = "descriptor from a worker" },
	{ .name = "half a frame", .act = half_a_frame, .why = NULL },
	{ .name = "garbage", .act = garbage, .why = "unknown message type" },
	{ .name = "range outside", .act = range_outside, .why = "inbox range is outside the inbox" },
	{ .name = "range wraps", .act = range_wraps, .why = "inbox range is outside the inbox" },
	{ .name = "range empty", .act = range_empty, .why = "inbox range is outside the inbox" },
	{ .name = "ranges overlap", .act = ranges_overlap, .why = "inbox range is in use", .held = true },
	{ .name = "payload lies", .act = payload_lies, .why = "payload length does not match" },
	{ .name = "credit", .act = credit, .why = "credit is overspent", .held = true },
	{ .name = "same id", .act = same_id, .why = "request id is in use", .held = true },
	{ .name = "frees twice", .act = frees_twice, .why = "released a reference that it does not hold" },
	{ .name = "frees others'", .act = frees_others, .why = "released a reference that it does not hold" },
	{ .name = "too many calls", .act = too_many_calls, .why = "too many calls outstanding", .held = true },
	{ .name = "never frees", .act = never_frees, .why = "holds a reference that was reclaimed 5 s ago", .killed = true,
	  .ms = 9500 },
	{ .name = "lives on", .act = lives_on, .why = "released a reference that it does not hold", .killed = true, .lives_on = true,
	  .ms = 9500 },
	{ .name = "writes segments", .act = writes_segments, .why = NULL },
	{ .name = "rewrites its inbox", .act = rewrites_inbox, .why = NULL },
	{ .name = "never reads", .act = never_reads, .why = NULL },
	{ .name = "cancels", .act = cancels, .why = NULL },
	{ .name = "comes and goes", .act = comes_and_goes, .why = NULL },
	{ .name = "crowd", .act = crowd, .why = NULL },
};

/* ------------------------------------------------------------- the well-behaved one */

struct good {
	struct topics *topics;
	uint64_t rounds, faults;
	uint64_t next_offset;
	bool stop;
};
static struct good good;

static void good_append(void);

static void good_faulty(bool fault)
{
	good.faults += fault;
}

static void on_good_get(void *arg, const struct pico_error *e, const ProtobufCMessage *m, struct topics_pieces *p)
{
	good_faulty(e->kind != PICO_OK || strcmp(((const Ipc__GetAnswer *)m)->topic->name, "/good") != 0);
	good.rounds++;
	if (!good.stop)
		good_append();
}

static void on_good_read(void *arg, const struct pico_error *e, const ProtobufCMessage *m, struct topics_pieces *p)
{
	good_faulty(e->kind != PICO_OK || p == NULL || !slice_is(p->piece[0], "stored"));
	topics_pieces_release(p);
	Ipc__GetRequest r = IPC__GET_REQUEST__INIT;
	Ipc__TopicRef t = IPC__TOPIC_REF__INIT;
	t.name = (char *)"/good";
	r.topic = &t;
	topics_call(good.topics, IPC_GET, &r.base, NOTHING, env_now_ms(place.env) + 3000, on_good_get, NULL);
}

static void on_good_append(void *arg, const struct pico_error *e, const ProtobufCMessage *m, struct topics_pieces *p)
{
	good_faulty(e->kind != PICO_OK);
	Ipc__ReadRequest r = IPC__READ_REQUEST__INIT;
	topics_call(good.topics, IPC_READ, &r.base, NOTHING, env_now_ms(place.env) + 3000, on_good_read, NULL);
}

static void good_append(void)
{
	static const uint8_t large[70000];
	Ipc__AppendRequest r = IPC__APPEND_REQUEST__INIT;
	topics_call(good.topics, IPC_APPEND, &r.base, slice_of(large, good.rounds % 2 ? 5 : sizeof(large)),
		    env_now_ms(place.env) + 3000, on_good_append, NULL);
}

/* -------------------------------------------------------------------- the judge */

static unsigned n_fds(void)
{
	unsigned n = 0;
	DIR *d = opendir("/proc/self/fd");
	while (readdir(d) != NULL)
		n++;
	closedir(d);
	return n;
}

static size_t heap(void)
{
#ifdef PICO_SANITIZE
	return 0;
#else
	return mallinfo2().uordblks;
#endif
}

struct child {
	pid_t pid;
	int status;
	bool ended;
};

static bool has_ended(void *arg)
{
	struct child *c = arg;
	if (!c->ended)
		c->ended = waitpid(c->pid, &c->status, WNOHANG) == c->pid;
	return c->ended;
}

static bool one_is_left(void *arg)
{
	return peers_count(place.peers).peers == 1;
}

static bool had_rounds(void *arg)
{
	return good.rounds >= *(uint64_t *)arg;
}

static void good_rounds(uint64_t n)
{
	uint64_t want = good.rounds + n;
	assert_true(place_run(&place, had_rounds, &want, 3000));
	assert_int_equal(good.faults, 0);
}

static void run_scenario(const struct scenario *s)
{
	struct node *n = &place.node;
	struct child c = { 0 };
	n->hold[IPC_APPEND] = n->hold[IPC_WAIT] = s->held;
	place.n_dropped = 0;
	uint64_t before = good.rounds;
	c.pid = fork();
	assert_true(c.pid >= 0);
	if (c.pid == 0) {
		struct raw h = { 0 };
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		s->act(&h);
		_exit(0);
	}
	for (unsigned i = 0; s->lives_on && i < 200; i++) {
		place_run_ms(&place, 10);
		assert_true(n->pin.count > 0 || place.n_dropped == 0);
	}
	assert_true(place_run(&place, has_ended, &c, s->ms > 0 ? s->ms : 8000));
	assert_true(place_run(&place, one_is_left, NULL, 3000));
	if (s->killed) {
		assert_true(WIFSIGNALED(c.status) && WTERMSIG(c.status) == SIGKILL);
		assert_true(place.killed[s->lives_on]);
	} else {
		assert_true(WIFEXITED(c.status) && WEXITSTATUS(c.status) == 0);
	}
	assert_int_equal(place.n_dropped, (s->why != NULL) + s->lives_on);
	if (s->why != NULL)
		assert_string_equal(place.dropped[0], s->why);
	assert_false(n->pin.abandoned); /* it is dead, and that is known */
	node_answer_all(n);             /* appends of the dropped one: nobody listens */
	if (s->killed)                  /* it took seconds, and all the while... */
		assert_true(good.rounds > before + 1000);
	size_t n_large = 0;
	for (size_t i = 0; i < n->n_seen; i++)
		n_large += n->seen[i].name[0] == 'n';
	assert_true(n_large < 100);     /* "never reads": no more was read from it */
	good_rounds(3);
	assert_int_equal(n->n_unstable, 0);
	assert_true(n->pin.count <= 1); /* the good one's */
}

static void test_scenario(void **state)
{
	const struct scenario *s = *state;
	node_answer_all(&place.node);
	node_forget(&place.node);
	unsigned fds = n_fds();
	size_t bytes = heap();
	run_scenario(s);
	assert_int_equal(n_fds(), fds);
	node_forget(&place.node);
	if (heap() > bytes + MIB)
		fail_msg("heap grew from %zu to %zu", bytes, heap());
}

static int open_place(void **state)
{
	struct topics_config c;
	place_open(&place);
	place_up(&place, 1);
	peers_serve(place.peers);
	place.node.hold_instance = HOSTILE;
	place.node.check_copies = true;
	memcpy(place.node.segment.mem.base, "stored", 6);
	place.node.n_pieces = 1;
	place.node.piece_length[0] = 6;
	place_client_config(&place, IPC_ROLE_HTTP, 1, &c);
	if (topics_new(place.env, &c, &good.topics) < 0)
		return -1;
	good_append();
	uint64_t some = 10;
	return place_run(&place, had_rounds, &some, 3000) ? 0 : -1;
}

static bool has_stopped(void *arg)
{
	return peers_count(place.peers).refs == 0 && peers_count(place.peers).calls == 0;
}

static int close_place(void **state)
{
	good.stop = true;
	place_run_ms(&place, 20);
	bool ok = place_run(&place, has_stopped, NULL, 3000) && good.faults == 0;
	topics_free(good.topics);
	place_close(&place);
	return ok ? 0 : -1;
}

int main(void)
{
	enum { N = sizeof(scenarios) / sizeof(scenarios[0]) };
	struct CMUnitTest tests[N];
	for (size_t i = 0; i < N; i++)
		tests[i] = (struct CMUnitTest){ .name = scenarios[i].name, .test_func = test_scenario,
						.initial_state = (void *)&scenarios[i] };
	return cmocka_run_group_tests_name("hostile workers", tests, open_place, close_place);
}
