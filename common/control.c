/* SPDX-License-Identifier: Apache-2.0
 *
 * One message is one packet: the socket keeps their borders, so there is nothing to reassemble.
 */
#include "common/control.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* Room for one descriptor, aligned. */
union passed {
	char bytes[CMSG_SPACE(sizeof(int))];
	struct cmsghdr align;
};

int control_send_fd(int fd, const struct control_msg *msg, int passed)
{
	struct control_msg out = *msg;
	out.magic = CONTROL_MAGIC;
	union passed with = { { 0 } };
	struct iovec iov = { &out, sizeof(out) };
	struct msghdr m = { .msg_iov = &iov, .msg_iovlen = 1 };
	ssize_t n;
	if (passed >= 0) {
		m.msg_control = with.bytes;
		m.msg_controllen = sizeof(with.bytes);
		struct cmsghdr *c = CMSG_FIRSTHDR(&m);
		*c = (struct cmsghdr){ .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS, .cmsg_len = CMSG_LEN(sizeof(int)) };
		memcpy(CMSG_DATA(c), &passed, sizeof(int));
	}
	do {
		n = sendmsg(fd, &m, MSG_DONTWAIT | MSG_NOSIGNAL);
	} while (n < 0 && errno == EINTR);
	if (n < 0)
		return errno == ECONNRESET ? -EPIPE : -errno;
	return n == (ssize_t)sizeof(out) ? 0 : -EPROTO;
}

int control_send(int fd, const struct control_msg *msg)
{
	return control_send_fd(fd, msg, -1);
}

static int take_passed(struct msghdr *m)
{
	int passed = -1;
	struct cmsghdr *c = CMSG_FIRSTHDR(m);
	if (c != NULL && c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS && c->cmsg_len == CMSG_LEN(sizeof(int)))
		memcpy(&passed, CMSG_DATA(c), sizeof(int));
	return passed;
}

int control_recv_fd(int fd, struct control_msg *ret_msg, int *ret_passed)
{
	struct control_msg in;
	union passed with;
	struct iovec iov = { &in, sizeof(in) };
	struct msghdr m = { .msg_iov = &iov, .msg_iovlen = 1, .msg_control = with.bytes, .msg_controllen = sizeof(with.bytes) };
	ssize_t n;
	do {
		n = recvmsg(fd, &m, MSG_DONTWAIT | MSG_TRUNC | MSG_CMSG_CLOEXEC);
	} while (n < 0 && errno == EINTR);
	if (n < 0)
		return errno == ECONNRESET ? -EPIPE : -errno;
	if (n == 0)
		return -EPIPE;
	int passed = take_passed(&m);
	if (n != (ssize_t)sizeof(in) || in.magic != CONTROL_MAGIC) {
		if (passed >= 0)
			close(passed);
		return -EPROTO;
	}
	*ret_msg = in;
	*ret_passed = passed;
	return 0;
}

int control_recv(int fd, struct control_msg *ret_msg)
{
	int passed = -1, r = control_recv_fd(fd, ret_msg, &passed);
	if (passed >= 0)
		close(passed);
	return r;
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
