/* SPDX-License-Identifier: Apache-2.0
 *
 * Frames: cutting them out of a stream and writing them. A frame that ipc_read() returns has a known type, comes
 * from the side that may send it, in the phase it is legal in, with legal flags, id, lengths and descriptor; what
 * its message says is for the owner to judge.
 */
#include "common/ipc.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "common/must.h"
#include "common/wire.h"

#define ipc__none__descriptor *(const ProtobufCMessageDescriptor *)NULL

static const struct ipc_row rows[] = {
#define IPC_MSG(id, name_, request_, answer_, from_, phase_)                             \
	[id] = {                                                                         \
		.type = id, .name = #name_, .from = IPC_FROM_##from_,                    \
		.request = &ipc__##request_##__descriptor,                               \
		.answer = &ipc__##answer_##__descriptor,                                 \
		.phase = IPC_PHASE_##phase_,                                             \
	},
#include "common/ipc_msg.def"
#undef IPC_MSG
};

const struct ipc_row *ipc_row(unsigned type)
{
	if (type >= sizeof(rows) / sizeof(rows[0]) || rows[type].name == NULL)
		return NULL;
	return &rows[type];
}

enum ipc_role ipc_role_of(enum process_kind kind)
{
	switch (kind) {
	case PROCESS_WORKER_HTTP: return IPC_ROLE_HTTP;
	case PROCESS_WORKER_ADMIN: return IPC_ROLE_ADMIN;
	case PROCESS_WORKER_KAFKA: return IPC_ROLE_KAFKA;
	case PROCESS_WORKER_HOOK: return IPC_ROLE_HOOK;
	default: must_failed("a kind of worker", __FILE__, __LINE__, __func__);
	}
}

/* ------------------------------------------------------------------ reading */

void ipc_reader_init(struct ipc_reader *r, enum ipc_side peer)
{
	*r = (struct ipc_reader){ .peer = peer, .phase = IPC_PHASE_HELLO };
	buf_init(&r->in, IPC_HEADER + IPC_MESSAGE_MAX + IPC_INLINE_MAX + IPC_RECV_SIZE);
}

void ipc_reader_done(struct ipc_reader *r)
{
	for (unsigned i = 0; i < r->n_fds; i++)
		close(r->fds[i]);
	r->n_fds = 0;
	r->consumed = 0;
	buf_done(&r->in);
}

struct header {
	const struct ipc_row *row;
	unsigned flags;
	uint32_t message_len, payload_len, reserved;
	uint64_t request_id;
};

static struct header header_get(const uint8_t *p)
{
	return (struct header){
		.row = ipc_row(get_le16(p)),
		.flags = get_le16(p + 2),
		.message_len = get_le32(p + 4),
		.payload_len = get_le32(p + 8),
		.reserved = get_le32(p + 12),
		.request_id = get_le64(p + 16),
	};
}

/* Only these name a Payload, and only a request carries one. */
static bool takes_payload(const struct header *h)
{
	return h->flags == 0 && (h->row->type == IPC_APPEND || h->row->type == IPC_CREATE || h->row->type == IPC_FORK ||
				  h->row->type == IPC_SUBMIT);
}

static bool carries_fd(const struct header *h)
{
	return (h->row->type == IPC_HELLO && h->flags == IPC_FLAG_ANSWER) || h->row->type == IPC_SEGMENT;
}

/* NULL, or what is wrong with a header that came from side `from` in `phase`. */
static const char *header_fault(const struct header *h, enum ipc_side from, enum ipc_phase phase)
{
	if (h->row == NULL)
		return "unknown message type";
	if (h->reserved != 0)
		return "reserved field is not 0";
	if (h->row->phase != phase)
		return "message in the wrong phase";
	if (h->flags == 0 && h->row->from != from)
		return "message from the wrong side";
	if (h->flags != 0 && (h->row->from == from || h->row->answer == NULL))
		return "answer from the wrong side";
	if (h->flags != 0 && h->flags != IPC_FLAG_ANSWER && h->flags != (IPC_FLAG_ANSWER | IPC_FLAG_ERROR))
		return "unknown flags";
	if ((h->request_id != 0) != (h->row->answer != NULL))
		return h->request_id == 0 ? "request id is missing" : "request id where nothing is asked";
	if (h->message_len > IPC_MESSAGE_MAX)
		return "message is longer than 4 MiB";
	if (h->payload_len >= IPC_INLINE_MAX)
		return "payload is not under 64 KiB";
	if (h->payload_len > 0 && !takes_payload(h))
		return "payload where none belongs";
	return NULL;
}

static int reader_fail(struct ipc_reader *r, const char *why)
{
	r->error = why;
	return -EPROTO;
}

static int reader_take_fd(struct ipc_reader *r)
{
	int fd = r->fds[0];
	r->n_fds--;
	memmove(r->fds, r->fds + 1, r->n_fds * sizeof(r->fds[0]));
	return fd;
}

static void reader_consume(struct ipc_reader *r)
{
	buf_consume(&r->in, r->consumed);
	r->consumed = 0;
}

int ipc_read(struct ipc_reader *r, struct ipc_frame *ret_frame)
{
	if (r->error != NULL)
		return -EPROTO;
	reader_consume(r);
	if (r->n_fds > 0 && r->peer == IPC_FROM_WORKER)
		return reader_fail(r, "descriptor from a worker");
	if (buf_len(&r->in) < IPC_HEADER)
		return 0;
	const uint8_t *p = buf_head(&r->in);
	struct header h = header_get(p);
	const char *fault = header_fault(&h, r->peer, r->phase);
	if (fault != NULL)
		return reader_fail(r, fault);
	size_t size = IPC_HEADER + (size_t)h.message_len + h.payload_len;
	if (buf_len(&r->in) < size)
		return 0;
	if (carries_fd(&h) && r->n_fds == 0)
		return reader_fail(r, "descriptor is missing");
	*ret_frame = (struct ipc_frame){
		.row = h.row, .flags = (uint16_t)h.flags, .request_id = h.request_id,
		.message = slice_of(p + IPC_HEADER, h.message_len),
		.payload = slice_of(p + IPC_HEADER + h.message_len, h.payload_len),
		.fd = carries_fd(&h) ? reader_take_fd(r) : -1,
	};
	r->consumed = size;
	return 1;
}

/* ----------------------------------------------------------------- decoding */

struct bounded {
	size_t used, max;
};

static void *bounded_alloc(void *arg, size_t n)
{
	struct bounded *b = arg;
	if (n > b->max - b->used)
		return NULL;
	b->used += n;
	return malloc(n > 0 ? n : 1);
}

static void bounded_free(void *arg, void *p)
{
	free(p);
}

ProtobufCMessage *ipc_frame_decode_within(const struct ipc_frame *f, size_t max, size_t *ret_bytes)
{
	const ProtobufCMessageDescriptor *d = f->flags & IPC_FLAG_ERROR ? &ipc__error__descriptor
		: f->flags & IPC_FLAG_ANSWER ? f->row->answer : f->row->request;
	struct bounded b = { .max = max };
	ProtobufCAllocator allocator = { .alloc = bounded_alloc, .free = bounded_free, .allocator_data = &b };
	ProtobufCMessage *m = protobuf_c_message_unpack(d, &allocator, f->message.n, f->message.p);
	if (m != NULL && ret_bytes != NULL)
		*ret_bytes = b.used;
	return m;
}

ProtobufCMessage *ipc_frame_decode(const struct ipc_frame *f)
{
	return ipc_frame_decode_within(f, IPC_DECODE_MAX, NULL);
}

/* ------------------------------------------------------------------ writing */

/* Reserves a whole frame and writes its header; NULL with *ret_error set. */
static uint8_t *frame_begin(struct buf *out, unsigned type, unsigned flags, uint64_t request_id,
			    size_t message_len, size_t payload_len, int *ret_error)
{
	must(ipc_row(type) != NULL);
	if (message_len > IPC_MESSAGE_MAX || payload_len >= IPC_INLINE_MAX) {
		*ret_error = -EMSGSIZE;
		return NULL;
	}
	uint8_t *p = buf_reserve(out, IPC_HEADER + message_len + payload_len);
	if (p == NULL) {
		*ret_error = -ENOBUFS;
		return NULL;
	}
	put_le16(p, (uint16_t)type);
	put_le16(p + 2, (uint16_t)flags);
	put_le32(p + 4, (uint32_t)message_len);
	put_le32(p + 8, (uint32_t)payload_len);
	put_le32(p + 12, 0);
	put_le64(p + 16, request_id);
	return p + IPC_HEADER;
}

static uint8_t *put_slice(uint8_t *p, struct slice s)
{
	if (s.n > 0)
		memcpy(p, s.p, s.n);
	return p + s.n;
}

int ipc_write(struct buf *out, unsigned type, unsigned flags, uint64_t request_id,
	      const ProtobufCMessage *message, struct slice payload)
{
	int err = 0;
	size_t n = protobuf_c_message_get_packed_size(message);
	uint8_t *p = frame_begin(out, type, flags, request_id, n, payload.n, &err);
	if (p == NULL)
		return err;
	must(protobuf_c_message_pack(message, p) == n);
	put_slice(p + n, payload);
	buf_commit(out, IPC_HEADER + n + payload.n);
	return 0;
}

int ipc_write_encoded(struct buf *out, unsigned type, unsigned flags, uint64_t request_id,
		      struct slice message, struct slice tail, struct slice payload)
{
	int err = 0;
	size_t n = message.n + tail.n;
	uint8_t *p = frame_begin(out, type, flags, request_id, n, payload.n, &err);
	if (p == NULL)
		return err;
	put_slice(put_slice(put_slice(p, message), tail), payload);
	buf_commit(out, IPC_HEADER + n + payload.n);
	return 0;
}
