/* SPDX-License-Identifier: Apache-2.0
 *
 * The 32-byte messages between the supervisor and a child on descriptor 3 (SOCK_SEQPACKET).
 */
#ifndef COMMON_CONTROL_H
#define COMMON_CONTROL_H

#include <stdint.h>

enum control_type {
	CONTROL_READY = 1,      /* child: serves */
	CONTROL_PROGRESS = 2,   /* child: alive; a = how far */
	CONTROL_DRAIN = 3,      /* supervisor: finish what is in flight and leave; a = milliseconds it may take */
	CONTROL_DONE = 4,       /* child: about to exit on purpose */
	CONTROL_STOP_READY = 5, /* supervisor to the admin worker: readiness off */
	CONTROL_FATAL = 6,      /* child: cannot start; a = exit code wanted. The line is on stderr. */
	CONTROL_LOG_LEVEL = 7,  /* supervisor: a = enum log_level */
	CONTROL_RESTART = 8,    /* admin worker: kind */
	CONTROL_SET_COUNT = 9,  /* admin worker: kind, a = count */
	CONTROL_RELOAD = 10,    /* admin worker */
	CONTROL_WANT = 11,      /* storaged: kind */
	CONTROL_TLS = 12,       /* supervisor: a descriptor goes with it, of a memfd with tls_pem_write()'s text */
};

/* The exit code of a FATAL that ends a running node, too: two run on one storage, each start would hurt the other. */
#define CONTROL_EXIT_SHARED 3

enum process_kind {
	PROCESS_SUPERVISOR, PROCESS_STORAGED, PROCESS_WORKER_HTTP, PROCESS_WORKER_ADMIN, PROCESS_WORKER_KAFKA,
	PROCESS_WORKER_HOOK, PROCESS_KINDS
};

#define CONTROL_MAGIC 0x4f434950u /* "PICO" */

struct control_msg {
	uint32_t magic;
	uint16_t type;          /* enum control_type */
	uint16_t kind;          /* enum process_kind */
	uint64_t a, b, c;
};
_Static_assert(sizeof(struct control_msg) == 32, "fixed size");

/* 0 or negative errno (-EAGAIN: nothing there, or full). ret_msg is checked for magic (-EPROTO); end of stream -EPIPE. */
int control_send(int fd, const struct control_msg *msg);
int control_recv(int fd, struct control_msg *ret_msg);
/* The same with a descriptor beside the message; one that came is the caller's, close-on-exec. -1: none. */
int control_send_fd(int fd, const struct control_msg *msg, int passed);
int control_recv_fd(int fd, struct control_msg *ret_msg, int *ret_passed);

const char *process_kind_name(enum process_kind kind);  /* its program: "storaged", "worker-http", ... */
const char *process_role_name(enum process_kind kind);  /* what it does: the same, but "admin" for the admin worker */

#endif
