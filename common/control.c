/* SPDX-License-Identifier: Apache-2.0
 *
 * One message is one packet: the socket keeps their borders, so there is nothing to reassemble.
 */
#include "common/control.h"

#include <errno.h>
#include <sys/socket.h>

int control_send(int fd, const struct control_msg *msg)
{
	struct control_msg out = *msg;
	out.magic = CONTROL_MAGIC;
	ssize_t n;
	do {
		n = send(fd, &out, sizeof(out), MSG_DONTWAIT | MSG_NOSIGNAL);
	} while (n < 0 && errno == EINTR);
	if (n < 0)
		return errno == ECONNRESET ? -EPIPE : -errno;
	return n == (ssize_t)sizeof(out) ? 0 : -EPROTO;
}

int control_recv(int fd, struct control_msg *ret_msg)
{
	struct control_msg in;
	ssize_t n;
	do {
		n = recv(fd, &in, sizeof(in), MSG_DONTWAIT | MSG_TRUNC);
	} while (n < 0 && errno == EINTR);
	if (n < 0)
		return errno == ECONNRESET ? -EPIPE : -errno;
	if (n == 0)
		return -EPIPE;
	if (n != (ssize_t)sizeof(in) || in.magic != CONTROL_MAGIC)
		return -EPROTO;
	*ret_msg = in;
	return 0;
}

const char *process_kind_name(enum process_kind kind)
{
	switch (kind) {
	case PROCESS_SUPERVISOR: return "supervisor";
	case PROCESS_STORAGED: return "storaged";
	case PROCESS_WORKER_HTTP: return "worker-http";
	case PROCESS_WORKER_ADMIN: return "worker-http";
	case PROCESS_WORKER_KAFKA: return "worker-kafka";
	case PROCESS_WORKER_HOOK: return "worker-hook";
	case PROCESS_KINDS: break;
	}
	return "unknown";
}

const char *process_role_name(enum process_kind kind)
{
	return kind == PROCESS_WORKER_ADMIN ? "admin" : process_kind_name(kind);
}
