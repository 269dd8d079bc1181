/* SPDX-License-Identifier: Apache-2.0
 *
 * Frames between a worker and storaged, as a state machine over bytes and descriptors
 * (doc/ipc.md). No socket, no clock: the caller feeds what recvmsg() gave and sends what is
 * queued.
 *
 *   header, 24 bytes, little-endian        then
 *   0 type u16 | 2 flags u16               message   protobuf, message_len bytes
 *   4 message_len u32 (<= 4 MiB)           payload   raw, payload_len bytes
 *   8 payload_len u32 (< 64 KiB)
 *   12 reserved u32 = 0 | 16 request_id u64
 */
#ifndef COMMON_IPC_H
#define COMMON_IPC_H

#include <protobuf-c/protobuf-c.h>

#include "common/buf.h"
#include "common/control.h"
#include "common/pico_error.h"
#include "proto/topics.pb-c.h"

#define IPC_VERSION 1
#define IPC_HEADER 24
#define IPC_MESSAGE_MAX (4u << 20)
#define IPC_INLINE_MAX (64u << 10)          /* payloads below ride in the frame */
#define IPC_INBOX_SIZE (64u << 20)          /* behind it in the same memory is an ipc_notice */
#define IPC_NOTICE_SIZE 4096u
#define IPC_CREDIT (32u << 20)
#define IPC_FDS_MAX 4                       /* descriptors with one recvmsg */
#define IPC_OUT_FDS_MAX 64
#define IPC_DECODE_MAX (64u << 20)
#define IPC_RECV_SIZE (256u << 10)

/* What storaged lets a worker see without a frame. */
struct ipc_notice {
	uint64_t cuts;                      /* grows before it is known to anybody that records are gone */
};

enum ipc_flags { IPC_FLAG_ANSWER = 1, IPC_FLAG_ERROR = 2 };
enum ipc_role { IPC_ROLE_HTTP = 1, IPC_ROLE_ADMIN = 2, IPC_ROLE_KAFKA = 3, IPC_ROLE_HOOK = 4, IPC_ROLE_TEST = 15 };
/* As which a worker of that kind introduces itself to storaged. */
enum ipc_role ipc_role_of(enum process_kind kind);
enum ipc_side { IPC_FROM_WORKER, IPC_FROM_STORAGED };
enum ipc_phase { IPC_PHASE_HELLO, IPC_PHASE_READY };

enum ipc_type {
#define IPC_MSG(id, name, request, answer, from, phase) IPC_##name = id,
#include "common/ipc_msg.def"
#undef IPC_MSG
};

/* A row of ipc_msg.def. */
struct ipc_row {
	enum ipc_type type;
	const char *name;
	const ProtobufCMessageDescriptor *request;
	const ProtobufCMessageDescriptor *answer;   /* NULL: nothing is asked */
	enum ipc_side from;
	enum ipc_phase phase;
};
/* NULL for a number that is none. */
const struct ipc_row *ipc_row(unsigned type);

/* One frame as it came; message and payload borrow from the reader until the next ipc_read(). */
struct ipc_frame {
	const struct ipc_row *row;
	uint16_t flags;
	uint64_t request_id;
	struct slice message;
	struct slice payload;
	int fd;                             /* -1, or owned by whoever takes it (set to -1) */
};

struct ipc_reader {
	struct buf in;
	enum ipc_side peer;                 /* which side the bytes come from */
	enum ipc_phase phase;               /* the owner moves it on */
	int fds[IPC_FDS_MAX * 4];           /* received, not yet taken; in order */
	unsigned n_fds;
	const char *error;                  /* why ipc_read() failed */
	size_t consumed;                    /* private: the last frame's size */
};
void ipc_reader_init(struct ipc_reader *r, enum ipc_side peer);
void ipc_reader_done(struct ipc_reader *r); /* closes descriptors not taken */
/* 1 and a frame; 0 more bytes are needed; -EPROTO with r->error: drop the peer. */
int ipc_read(struct ipc_reader *r, struct ipc_frame *ret_frame);
/*
 * Decodes a frame's message with the descriptor that row and flags name; NULL when it does not decode or would
 * take more than `max` bytes of memory (few bytes on the wire can mean many empty messages in memory). ret_bytes
 * (may be NULL) is what it took. Free with protobuf_c_message_free_unpacked(m, NULL).
 */
ProtobufCMessage *ipc_frame_decode_within(const struct ipc_frame *f, size_t max, size_t *ret_bytes);
/* The same with the bound IPC_DECODE_MAX. */
ProtobufCMessage *ipc_frame_decode(const struct ipc_frame *f);

/* Appends one frame. -EMSGSIZE over a limit, -ENOBUFS when out is at its bound. */
int ipc_write(struct buf *out, unsigned type, unsigned flags, uint64_t request_id,
	      const ProtobufCMessage *message, struct slice payload);
/* The same for a message that is encoded already: `message` and `tail`, one behind the other. */
int ipc_write_encoded(struct buf *out, unsigned type, unsigned flags, uint64_t request_id,
		      struct slice message, struct slice tail, struct slice payload);

/* pico_error to and from its message. The message borrows from e. */
void ipc_error_fill(Ipc__Error *m, const struct pico_error *e);
void ipc_error_read(const Ipc__Error *m, struct pico_error *ret_error);
/* The state of a consumer group in Kafka's words. */
const char *ipc_group_state_name(Ipc__GroupState state);

/* HMAC-SHA256(key, role u32 le ++ instance u64 le): what Hello proves. */
void ipc_proof(const uint8_t key[32], uint32_t role, uint64_t instance, uint8_t ret_proof[32]);

/*
 * What waits to be sent: bytes, and descriptors that each go with the first byte of their frame.
 */
struct ipc_out {
	struct buf buf;
	uint64_t sent;                      /* bytes ever taken by the socket */
	struct ipc_out_fd {
		uint64_t at;                /* stream position of the frame that carries it */
		int fd;                     /* owned until sent */
	} fd[IPC_OUT_FDS_MAX];
	unsigned n_fds;
};
void ipc_out_init(struct ipc_out *o, size_t max);
void ipc_out_done(struct ipc_out *o);
/* The frame that is written next carries fd, which is o's from now on. -ENOBUFS: not taken over. */
int ipc_out_fd(struct ipc_out *o, int fd);
/* The stream position one past the last byte queued: when o->sent has reached it, the frame has left. */
uint64_t ipc_out_end(const struct ipc_out *o);

/*
 * Socket helpers at the edge. ipc_recv reads once into r: bytes, 0 at the end of the stream, -EAGAIN, other
 * negative errno. ipc_send writes what the socket takes: 0 when everything has left, -EAGAIN, other negative errno.
 */
int ipc_recv(int sock, struct ipc_reader *r);
int ipc_send(int sock, struct ipc_out *o);

/* Connects a non-blocking, close-on-exec socket to a path of any length. 0 or a negative errno. */
int ipc_connect(const char *path, int *ret_sock);

#endif
