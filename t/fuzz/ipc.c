/* SPDX-License-Identifier: Apache-2.0
 *
 * Any bytes as a stream of IPC frames. The first byte says from which side, in which phase, with a descriptor or not; the
 * second how many bytes come at a time. What is read does not depend on how it came; what decodes survives being
 * written and read again.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "common/crc32c.h"
#include "common/ipc.h"
#include "common/must.h"
#include "t/fuzz/fuzz.h"

#define DECODE_MAX (1u << 20)

struct outcome {
	unsigned n_frames;
	uint32_t crc;           /* over headers, messages, payloads */
	bool refused;
};

static int some_fd(void)
{
	static int fd = -1;
	if (fd < 0)
		fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
	return fcntl(fd, F_DUPFD_CLOEXEC, 3);
}

static void reader_begin(struct ipc_reader *r, uint8_t how)
{
	ipc_reader_init(r, how & 1 ? IPC_FROM_STORAGED : IPC_FROM_WORKER);
	r->phase = how & 2 ? IPC_PHASE_HELLO : IPC_PHASE_READY;
	if (how & 4)
		r->fds[r->n_fds++] = some_fd();
}

/* protobuf-c keeps unknown fields, and takes a field number 0 in one spelling and not in another. */
static bool has_unknown(const ProtobufCMessage *m)
{
	if (m->n_unknown_fields > 0)
		return true;
	for (unsigned i = 0; i < m->descriptor->n_fields; i++) {
		const ProtobufCFieldDescriptor *f = &m->descriptor->fields[i];
		const uint8_t *at = (const uint8_t *)m + f->offset;
		if (f->type != PROTOBUF_C_TYPE_MESSAGE)
			continue;
		bool many = f->label == PROTOBUF_C_LABEL_REPEATED;
		size_t n = many ? *(const size_t *)(const void *)((const uint8_t *)m + f->quantifier_offset) : 1;
		ProtobufCMessage *const *list = many ? *(ProtobufCMessage *const *const *)(const void *)at
						     : (ProtobufCMessage *const *)(const void *)at;
		for (size_t k = 0; k < n; k++)
			if (list[k] != NULL && has_unknown(list[k]))
				return true;
	}
	return false;
}

/* Encoded once more, and read from there: the same frame, and a message that encodes alike. */
static void check_again(const struct ipc_frame *f, const ProtobufCMessage *m, uint8_t how)
{
	struct buf a, b;
	struct ipc_reader r;
	struct ipc_frame g;
	buf_init(&a, 16u << 20);
	buf_init(&b, 16u << 20);
	reader_begin(&r, (uint8_t)(how & ~4));
	if (f->fd >= 0)
		r.fds[r.n_fds++] = some_fd();
	if (ipc_write(&a, f->row->type, f->flags, f->request_id, m, f->payload) == 0) {
		buf_put_slice(&r.in, buf_slice(&a));
		must(ipc_read(&r, &g) == 1);
		must(g.row == f->row && g.flags == f->flags && g.request_id == f->request_id);
		must(slice_eq(g.payload, f->payload));
		ProtobufCMessage *n = ipc_frame_decode(&g);
		must(n != NULL);
		must(ipc_write(&b, g.row->type, g.flags, g.request_id, n, g.payload) == 0);
		must(slice_eq(buf_slice(&a), buf_slice(&b)));
		protobuf_c_message_free_unpacked(n, NULL);
		if (g.fd >= 0)
			close(g.fd);
	}
	ipc_reader_done(&r);
	buf_done(&a);
	buf_done(&b);
}

static void check_frame(struct ipc_frame *f, uint8_t how)
{
	size_t took = 0;
	must(f->row != NULL && f->message.n <= IPC_MESSAGE_MAX && f->payload.n < IPC_INLINE_MAX);
	must((f->request_id != 0) == (f->row->answer != NULL));
	ProtobufCMessage *m = ipc_frame_decode_within(f, DECODE_MAX, &took);
	if (m == NULL)
		return;
	must(took <= DECODE_MAX);
	if (!has_unknown(m))
		check_again(f, m, how);
	if (m->descriptor == &ipc__error__descriptor) {
		struct pico_error e;
		ipc_error_read((const Ipc__Error *)m, &e);
		must(memchr(e.message, 0, sizeof(e.message)) != NULL);
	}
	protobuf_c_message_free_unpacked(m, NULL);
}

static struct outcome run(struct slice s, uint8_t how, size_t step)
{
	struct outcome o = { .n_frames = 0 };
	struct ipc_reader r;
	struct ipc_frame f;
	int got = 0;
	reader_begin(&r, how);
	for (size_t at = 0; at < s.n && got >= 0; at += step) {
		buf_put(&r.in, s.p + at, step < s.n - at ? step : s.n - at);
		while ((got = ipc_read(&r, &f)) == 1) {
			o.n_frames++;
			o.crc = crc32c_extend(o.crc, f.message.p - IPC_HEADER, IPC_HEADER + f.message.n + f.payload.n);
			check_frame(&f, how);
			if (f.fd >= 0)
				close(f.fd);
		}
	}
	o.refused = got < 0;
	must(o.refused == (r.error != NULL));
	ipc_reader_done(&r);
	return o;
}

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n)
{
	if (n < 2)
		return 0;
	struct slice s = slice_of(p + 2, n - 2);
	struct outcome whole = run(s, p[0], s.n > 0 ? s.n : 1);
	struct outcome parts = run(s, p[0], (size_t)p[1] + 1);
	must(whole.n_frames == parts.n_frames && whole.crc == parts.crc && whole.refused == parts.refused);
	return 0;
}
