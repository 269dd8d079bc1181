/* SPDX-License-Identifier: Apache-2.0
 *
 * Frames: every row there and back, every truncation asks for more, every byte of a header changed is refused or
 * harmless, limits, descriptors, errors, proofs.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/ipc.h"
#include "common/wire.h"

#define NOTHING slice_of(NULL, 0)
#define TYPES 256

static struct ipc_reader reader_of(struct slice bytes, enum ipc_side side, enum ipc_phase phase)
{
	struct ipc_reader r;
	ipc_reader_init(&r, side);
	r.phase = phase;
	buf_put_slice(&r.in, bytes);
	return r;
}

static int some_fd(void)
{
	int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
	assert_true(fd >= 0);
	return fd;
}

/* A message of that type with one of everything at the first level. */
static ProtobufCMessage *filled(const ProtobufCMessageDescriptor *d)
{
	struct buf b;
	buf_init(&b, 4096);
	for (unsigned i = 0; i < d->n_fields; i++) {
		const ProtobufCFieldDescriptor *f = &d->fields[i];
		bool bytes = f->type == PROTOBUF_C_TYPE_STRING || f->type == PROTOBUF_C_TYPE_BYTES ||
			     f->type == PROTOBUF_C_TYPE_MESSAGE;
		bool fixed = f->type == PROTOBUF_C_TYPE_FIXED64;
		uint64_t key = (uint64_t)f->id << 3 | (bytes ? 2 : fixed ? 1 : 0);
		if (key >= 128)
			buf_put_u8(&b, (uint8_t)(key | 0x80));
		buf_put_u8(&b, (uint8_t)(key >= 128 ? key >> 7 : key));
		if (fixed)
			buf_put(&b, "\1\2\3\4\5\6\7\10", 8);
		else if (bytes && f->type != PROTOBUF_C_TYPE_MESSAGE)
			buf_put(&b, "\3abc", 4);
		else
			buf_put_u8(&b, bytes ? 0 : 1);
	}
	ProtobufCMessage *m = protobuf_c_message_unpack(d, NULL, buf_len(&b), buf_head(&b));
	buf_done(&b);
	assert_non_null(m);
	return m;
}

static bool same(const ProtobufCMessage *a, const ProtobufCMessage *b)
{
	size_t n = protobuf_c_message_get_packed_size(a);
	if (protobuf_c_message_get_packed_size(b) != n)
		return false;
	uint8_t *x = malloc(n + 1), *y = malloc(n + 1);
	protobuf_c_message_pack(a, x);
	protobuf_c_message_pack(b, y);
	bool eq = memcmp(x, y, n) == 0;
	free(x);
	free(y);
	return eq;
}

static bool has_fd(unsigned type, unsigned flags)
{
	return type == IPC_SEGMENT || (type == IPC_HELLO && flags == IPC_FLAG_ANSWER);
}

/* Writes one frame, reads it at every truncation, then whole. */
static void there_and_back(const struct ipc_row *row, unsigned flags)
{
	const ProtobufCMessageDescriptor *d = flags & IPC_FLAG_ERROR ? &ipc__error__descriptor
		: flags ? row->answer : row->request;
	enum ipc_side from = flags ? !row->from : row->from;
	struct slice payload = flags == 0 && (row->type == IPC_APPEND || row->type == IPC_CREATE || row->type == IPC_FORK)
		? slice_str("payload") : NOTHING;
	uint64_t id = row->answer != NULL ? 77 : 0;
	ProtobufCMessage *m = filled(d);
	struct buf out;
	buf_init(&out, 1 << 20);
	assert_int_equal(ipc_write(&out, row->type, flags, id, m, payload), 0);
	for (size_t cut = 0; cut < buf_len(&out); cut++) {
		struct ipc_reader r = reader_of(slice_of(buf_head(&out), cut), from, row->phase);
		struct ipc_frame f;
		assert_int_equal(ipc_read(&r, &f), 0);
		ipc_reader_done(&r);
	}
	struct ipc_reader r = reader_of(buf_slice(&out), from, row->phase);
	if (has_fd(row->type, flags))
		r.fds[r.n_fds++] = some_fd();
	struct ipc_frame f;
	assert_int_equal(ipc_read(&r, &f), 1);
	assert_ptr_equal(f.row, row);
	assert_int_equal(f.flags, flags);
	assert_int_equal(f.request_id, id);
	assert_true(slice_eq(f.payload, payload));
	assert_true((f.fd >= 0) == has_fd(row->type, flags));
	if (f.fd >= 0)
		close(f.fd);
	ProtobufCMessage *got = ipc_frame_decode(&f);
	assert_non_null(got);
	assert_true(same(m, got));
	assert_int_equal(ipc_read(&r, &f), 0);
	assert_int_equal(buf_len(&r.in), 0);
	protobuf_c_message_free_unpacked(got, NULL);
	protobuf_c_message_free_unpacked(m, NULL);
	ipc_reader_done(&r);
	buf_done(&out);
}

static void test_every_row(void **state)
{
	static const unsigned n_rows = 0
#define IPC_MSG(id, name, request, answer, from, phase) + 1
#include "common/ipc_msg.def"
#undef IPC_MSG
		;
	unsigned n = 0;
	for (unsigned type = 0; type < TYPES; type++) {
		const struct ipc_row *row = ipc_row(type);
		if (row == NULL)
			continue;
		n++;
		assert_int_equal(row->type, type);
		there_and_back(row, 0);
		if (row->answer != NULL) {
			there_and_back(row, IPC_FLAG_ANSWER);
			there_and_back(row, IPC_FLAG_ANSWER | IPC_FLAG_ERROR);
		}
	}
	assert_int_equal(n, n_rows);
	assert_null(ipc_row(0));
	assert_null(ipc_row(65535));
	assert_null(ipc_row(IPC_SEGMENT)->answer);
	assert_ptr_equal(ipc_row(IPC_GET)->answer, &ipc__get_answer__descriptor);
}

/* A header made by hand, then ipc_read(). */
static int read_header(enum ipc_side side, enum ipc_phase phase, unsigned type, unsigned flags, uint32_t message,
		       uint32_t payload, uint32_t reserved, uint64_t id)
{
	uint8_t h[IPC_HEADER + 16] = { 0 };
	put_le16(h, (uint16_t)type);
	put_le16(h + 2, (uint16_t)flags);
	put_le32(h + 4, message);
	put_le32(h + 8, payload);
	put_le32(h + 12, reserved);
	put_le64(h + 16, id);
	struct ipc_reader r = reader_of(slice_of(h, sizeof(h)), side, phase);
	struct ipc_frame f;
	int got = ipc_read(&r, &f);
	assert_true((got == -EPROTO) == (r.error != NULL));
	if (got == -EPROTO)
		assert_int_equal(ipc_read(&r, &f), -EPROTO);
	ipc_reader_done(&r);
	return got;
}

static void test_refusals(void **state)
{
	enum ipc_side w = IPC_FROM_WORKER, s = IPC_FROM_STORAGED;
	enum ipc_phase ready = IPC_PHASE_READY, hello = IPC_PHASE_HELLO;
	assert_int_equal(read_header(w, ready, IPC_GET, 0, 0, 0, 0, 1), 1);
	assert_int_equal(read_header(w, ready, 0, 0, 0, 0, 0, 1), -EPROTO);
	assert_int_equal(read_header(w, ready, 99, 0, 0, 0, 0, 1), -EPROTO);
	assert_int_equal(read_header(w, ready, IPC_GET, 0, 0, 0, 1, 1), -EPROTO);
	assert_int_equal(read_header(w, ready, IPC_GET, 0, 0, 0, 0, 0), -EPROTO);
	assert_int_equal(read_header(w, ready, IPC_RELEASE, 0, 0, 0, 0, 1), -EPROTO);
	assert_int_equal(read_header(w, ready, IPC_RELEASE, 0, 0, 0, 0, 0), 1);
	assert_int_equal(read_header(w, hello, IPC_GET, 0, 0, 0, 0, 1), -EPROTO);
	assert_int_equal(read_header(w, ready, IPC_HELLO, 0, 0, 0, 0, 1), -EPROTO);
	assert_int_equal(read_header(w, hello, IPC_HELLO, 0, 0, 0, 0, 1), 1);
	assert_int_equal(read_header(w, ready, IPC_SEGMENT, 0, 0, 0, 0, 0), -EPROTO);
	assert_int_equal(read_header(w, ready, IPC_GET, 1, 0, 0, 0, 1), -EPROTO);
	assert_int_equal(read_header(w, ready, IPC_SEGMENT, 1, 0, 0, 0, 1), -EPROTO);
	assert_int_equal(read_header(s, ready, IPC_GET, 0, 0, 0, 0, 1), -EPROTO);
	assert_int_equal(read_header(s, ready, IPC_GET, 1, 0, 0, 0, 1), 1);
	assert_int_equal(read_header(s, ready, IPC_GET, 3, 0, 0, 0, 1), 1);
	assert_int_equal(read_header(s, ready, IPC_GET, 2, 0, 0, 0, 1), -EPROTO);
	assert_int_equal(read_header(s, ready, IPC_GET, 5, 0, 0, 0, 1), -EPROTO);
	assert_int_equal(read_header(s, ready, IPC_RELEASE, 1, 0, 0, 0, 0), -EPROTO);
	assert_int_equal(read_header(s, ready, IPC_SEGMENT, 0, 0, 0, 0, 0), -EPROTO); /* no descriptor */
	assert_int_equal(read_header(w, ready, IPC_GET, 0, IPC_MESSAGE_MAX + 1, 0, 0, 1), -EPROTO);
	assert_int_equal(read_header(w, ready, IPC_GET, 0, IPC_MESSAGE_MAX, 0, 0, 1), 0);
	assert_int_equal(read_header(w, ready, IPC_GET, 0, UINT32_MAX, UINT32_MAX, 0, 1), -EPROTO);
	assert_int_equal(read_header(w, ready, IPC_APPEND, 0, 0, IPC_INLINE_MAX, 0, 1), -EPROTO);
	assert_int_equal(read_header(w, ready, IPC_APPEND, 0, 0, IPC_INLINE_MAX - 1, 0, 1), 0);
	assert_int_equal(read_header(w, ready, IPC_APPEND, 0, 0, 16, 0, 1), 1);
	assert_int_equal(read_header(w, ready, IPC_GET, 0, 0, 16, 0, 1), -EPROTO);
	assert_int_equal(read_header(s, ready, IPC_APPEND, 1, 0, 16, 0, 1), -EPROTO);
}

/* Every value of every header byte: the reader answers one of its three, keeps no descriptor, reads nothing beyond. */
static void test_header_mutations(void **state)
{
	Ipc__GetRequest m = IPC__GET_REQUEST__INIT;
	m.deadline_ms = 5;
	struct buf out;
	buf_init(&out, 4096);
	assert_int_equal(ipc_write(&out, IPC_GET, 0, 9, &m.base, NOTHING), 0);
	unsigned refused = 0, whole = 0;
	for (size_t at = 0; at < IPC_HEADER; at++)
		for (unsigned v = 0; v < 256; v++) {
			uint8_t *copy = malloc(buf_len(&out));
			memcpy(copy, buf_head(&out), buf_len(&out));
			copy[at] = (uint8_t)v;
			struct ipc_reader r = reader_of(slice_of(copy, buf_len(&out)), IPC_FROM_WORKER, IPC_PHASE_READY);
			struct ipc_frame f;
			int got = ipc_read(&r, &f);
			assert_true(got == 1 || got == 0 || got == -EPROTO);
			refused += got == -EPROTO;
			if (got == 1) {
				whole++;
				ProtobufCMessage *d = ipc_frame_decode(&f);
				if (d != NULL)
					protobuf_c_message_free_unpacked(d, NULL);
			}
			ipc_reader_done(&r);
			free(copy);
		}
	assert_true(refused > 2000);
	assert_true(whole >= 8 * 255); /* ids are free */
	buf_done(&out);
}

static void test_write_limits(void **state)
{
	Ipc__Error m = IPC__ERROR__INIT;
	char *text = malloc(IPC_MESSAGE_MAX + 1);
	memset(text, 'x', IPC_MESSAGE_MAX);
	text[IPC_MESSAGE_MAX] = 0;
	m.message = text;
	struct buf out;
	buf_init(&out, 16u << 20);
	assert_int_equal(ipc_write(&out, IPC_GET, 3, 1, &m.base, NOTHING), -EMSGSIZE);
	text[IPC_MESSAGE_MAX - 6] = 0;
	assert_int_equal(ipc_write(&out, IPC_GET, 3, 1, &m.base, NOTHING), 0);
	Ipc__AppendRequest a = IPC__APPEND_REQUEST__INIT;
	assert_int_equal(ipc_write(&out, IPC_APPEND, 0, 1, &a.base, slice_of(text, IPC_INLINE_MAX)), -EMSGSIZE);
	assert_int_equal(ipc_write(&out, IPC_APPEND, 0, 1, &a.base, slice_of(text, IPC_INLINE_MAX - 1)), 0);
	buf_done(&out);
	buf_init(&out, IPC_HEADER - 1);
	assert_int_equal(ipc_write(&out, IPC_APPEND, 0, 1, &a.base, NOTHING), -ENOBUFS);
	buf_done(&out);
	free(text);
}

/* 1 MiB of empty messages would be hundreds of MiB. */
static void test_decode_is_bounded(void **state)
{
	size_t n = 1 << 20;
	uint8_t *bytes = calloc(1, n);
	for (size_t i = 0; i < n; i += 2)
		bytes[i] = 0x0a;
	struct ipc_frame f = { .row = ipc_row(IPC_CREATE_MANY), .message = slice_of(bytes, n) };
	assert_null(ipc_frame_decode(&f));
	f.message.n = 2000;
	size_t took = 0;
	ProtobufCMessage *m = ipc_frame_decode_within(&f, 1 << 20, &took);
	assert_non_null(m);
	assert_int_equal(((Ipc__CreateManyRequest *)m)->n_create, 1000);
	assert_true(took > 1000 * sizeof(Ipc__CreateRequest) && took < 1 << 20);
	protobuf_c_message_free_unpacked(m, NULL);
	assert_null(ipc_frame_decode_within(&f, 1000, NULL));
	free(bytes);
}

static void test_errors(void **state)
{
	struct pico_error e, back;
	pico_error_set(&e, PICO_SEQUENCE_GAP, "expected %d", 3);
	e.expected_seq = 3;
	e.received_seq = 9;
	e.has_gap = true;
	e.next_offset = 12;
	e.has_next_offset = true;
	snprintf(e.content_type, sizeof(e.content_type), "text/plain");
	Ipc__Error m;
	ipc_error_fill(&m, &e);
	struct buf out;
	buf_init(&out, 4096);
	assert_int_equal(ipc_write(&out, IPC_APPEND, 3, 1, &m.base, NOTHING), 0);
	struct ipc_reader r = reader_of(buf_slice(&out), IPC_FROM_STORAGED, IPC_PHASE_READY);
	struct ipc_frame f;
	assert_int_equal(ipc_read(&r, &f), 1);
	Ipc__Error *got = (Ipc__Error *)ipc_frame_decode(&f);
	memset(&back, 0xff, sizeof(back));
	ipc_error_read(got, &back);
	protobuf_c_message_free_unpacked(&got->base, NULL);
	assert_int_equal(back.kind, PICO_SEQUENCE_GAP);
	assert_string_equal(back.message, "expected 3");
	assert_string_equal(back.content_type, "text/plain");
	assert_int_equal(back.expected_seq, 3);
	assert_int_equal(back.received_seq, 9);
	assert_int_equal(back.next_offset, 12);
	assert_true(back.has_gap && back.has_next_offset);
	assert_false(back.has_start_offset || back.has_producer_epoch);
	ipc_reader_done(&r);
	buf_done(&out);
}

/* Python: hmac.new(bytes(range(32)), struct.pack('<IQ', 1, 0x1122334455667788), 'sha256') */
static void test_proof(void **state)
{
	static const uint8_t want[32] = {
		0xd0, 0xd5, 0xdd, 0xbd, 0x4f, 0x7c, 0xb3, 0x07, 0x46, 0xac, 0x4d, 0xaa, 0x6c, 0xda, 0x47, 0x5a,
		0xfc, 0xb5, 0x11, 0x05, 0xd5, 0x2b, 0x70, 0xa0, 0x6a, 0x2e, 0x31, 0x6c, 0xd1, 0xd2, 0xfa, 0x30
	};
	uint8_t key[32], proof[32];
	for (int i = 0; i < 32; i++)
		key[i] = (uint8_t)i;
	ipc_proof(key, 1, 0x1122334455667788u, proof);
	assert_memory_equal(proof, want, 32);
	ipc_proof(key, 2, 0x1122334455667788u, proof);
	assert_memory_not_equal(proof, want, 32);
}

/* Two frames with descriptors and one without between them, through a real socket that takes little at a time. */
static void test_descriptors(void **state)
{
	int pair[2], from[2] = { some_fd(), open("/", O_RDONLY | O_CLOEXEC) };
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, pair), 0);
	struct stat st[2], got_st;
	fstat(from[0], &st[0]);
	fstat(from[1], &st[1]);
	struct ipc_out o;
	ipc_out_init(&o, 1 << 20);
	for (unsigned i = 0; i < 2; i++) {
		Ipc__Segment s = IPC__SEGMENT__INIT;
		s.id = i + 1;
		assert_int_equal(ipc_out_fd(&o, from[i]), 0);
		assert_int_equal(ipc_write(&o.buf, IPC_SEGMENT, 0, 0, &s.base, NOTHING), 0);
		Ipc__WalPosition w = IPC__WAL_POSITION__INIT;
		assert_int_equal(ipc_write(&o.buf, IPC_WAL_POSITION, 0, 0, &w.base, NOTHING), 0);
	}
	uint64_t end = ipc_out_end(&o);
	assert_int_equal(ipc_send(pair[0], &o), 0);
	assert_int_equal(o.sent, end);
	assert_int_equal(o.n_fds, 0);
	struct ipc_reader r;
	ipc_reader_init(&r, IPC_FROM_STORAGED);
	r.phase = IPC_PHASE_READY;
	unsigned segments = 0, frames = 0;
	for (struct ipc_frame f; ipc_recv(pair[1], &r) > 0;)
		while (ipc_read(&r, &f) == 1) {
			frames++;
			if (f.fd < 0)
				continue;
			fstat(f.fd, &got_st);
			assert_int_equal(got_st.st_ino, st[segments].st_ino);
			segments++;
			close(f.fd);
		}
	assert_null(r.error);
	assert_int_equal(frames, 4);
	assert_int_equal(segments, 2);
	close(pair[0]);
	assert_int_equal(ipc_recv(pair[1], &r), 0);
	close(pair[1]);
	ipc_reader_done(&r);
	ipc_out_done(&o);
}

/* A descriptor from a worker is refused and closed. */
static void test_worker_sends_descriptor(void **state)
{
	int pair[2], fd = some_fd();
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, pair), 0);
	struct ipc_out o;
	ipc_out_init(&o, 4096);
	Ipc__Release m = IPC__RELEASE__INIT;
	ipc_out_fd(&o, fd);
	ipc_write(&o.buf, IPC_RELEASE, 0, 0, &m.base, NOTHING);
	assert_int_equal(ipc_send(pair[0], &o), 0);
	struct ipc_reader r;
	ipc_reader_init(&r, IPC_FROM_WORKER);
	r.phase = IPC_PHASE_READY;
	assert_true(ipc_recv(pair[1], &r) > 0);
	struct ipc_frame f;
	assert_int_equal(r.n_fds, 1);
	int got = r.fds[0];
	assert_int_equal(ipc_read(&r, &f), -EPROTO);
	ipc_reader_done(&r);
	assert_int_equal(fcntl(got, F_GETFD), -1);
	ipc_out_done(&o);
	close(pair[0]);
	close(pair[1]);
}

static void golden(const char *name, struct buf *out)
{
	char path[512];
	const char *src = getenv("PICO_SRC");
	snprintf(path, sizeof(path), "%s/t/golden/%s", src != NULL ? src : ".", name);
	if (getenv("GOLDEN_WRITE") != NULL) {
		FILE *f = fopen(path, "wb");
		assert_non_null(f);
		assert_int_equal(fwrite(buf_head(out), 1, buf_len(out), f), buf_len(out));
		fclose(f);
	}
	uint8_t bytes[4096];
	FILE *f = fopen(path, "rb");
	assert_non_null(f);
	size_t n = fread(bytes, 1, sizeof(bytes), f);
	fclose(f);
	assert_true(slice_eq(slice_of(bytes, n), buf_slice(out)));
	buf_done(out);
}

/* The bytes that doc/ipc.md shows. */
static void test_golden(void **state)
{
	struct buf out;
	uint8_t key[32] = { 1 }, proof[32];
	ipc_proof(key, IPC_ROLE_HTTP, 0x0102030405060708u, proof);
	Ipc__Hello hello = IPC__HELLO__INIT;
	hello.version_min = hello.version_max = IPC_VERSION;
	hello.role = IPC_ROLE_HTTP;
	hello.instance = 0x0102030405060708u;
	hello.proof = (ProtobufCBinaryData){ .data = proof, .len = 32 };
	buf_init(&out, 4096);
	ipc_write(&out, IPC_HELLO, 0, 1, &hello.base, NOTHING);
	golden("ipc_hello.bin", &out);

	Ipc__AppendRequest a = IPC__APPEND_REQUEST__INIT;
	Ipc__LogRef log = IPC__LOG_REF__INIT;
	Ipc__TopicRef topic = IPC__TOPIC_REF__INIT;
	Ipc__Payload payload = IPC__PAYLOAD__INIT;
	topic.name = (char *)"/a";
	log.topic = &topic;
	payload.length = 5;
	a.log = &log;
	a.payload = &payload;
	a.deadline_ms = 30000;
	buf_init(&out, 4096);
	ipc_write(&out, IPC_APPEND, 0, 2, &a.base, slice_str("batch"));
	golden("ipc_append.bin", &out);

	struct pico_error e;
	Ipc__Error m;
	pico_error_set(&e, PICO_NOT_FOUND, "no such topic");
	ipc_error_fill(&m, &e);
	buf_init(&out, 4096);
	ipc_write(&out, IPC_APPEND, IPC_FLAG_ANSWER | IPC_FLAG_ERROR, 2, &m.base, NOTHING);
	golden("ipc_error.bin", &out);

	uint64_t refs[] = { 1, 2, 300 };
	Ipc__Release release = IPC__RELEASE__INIT;
	release.n_refs = 3;
	release.refs = refs;
	buf_init(&out, 4096);
	ipc_write(&out, IPC_RELEASE, 0, 0, &release.base, NOTHING);
	golden("ipc_release.bin", &out);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_every_row), cmocka_unit_test(test_refusals),
		cmocka_unit_test(test_header_mutations), cmocka_unit_test(test_write_limits),
		cmocka_unit_test(test_decode_is_bounded), cmocka_unit_test(test_errors),
		cmocka_unit_test(test_proof), cmocka_unit_test(test_descriptors),
		cmocka_unit_test(test_worker_sends_descriptor), cmocka_unit_test(test_golden),
	};
	return cmocka_run_group_tests_name("ipc", tests, NULL, NULL);
}
