/* SPDX-License-Identifier: Apache-2.0
 *
 * The socket's edge: bytes and descriptors in and out of a Unix stream. The kernel never joins two sends that both
 * carry descriptors, and keeps descriptors in order with the bytes; so the n-th descriptor belongs to the n-th
 * frame that carries one.
 */
#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "common/ipc.h"
#include "common/must.h"

void ipc_out_init(struct ipc_out *o, size_t max)
{
	*o = (struct ipc_out){ .n_fds = 0 };
	buf_init(&o->buf, max);
}

void ipc_out_done(struct ipc_out *o)
{
	for (unsigned i = 0; i < o->n_fds; i++)
		close(o->fd[i].fd);
	o->n_fds = 0;
	buf_done(&o->buf);
}

uint64_t ipc_out_end(const struct ipc_out *o)
{
	return o->sent + buf_len(&o->buf);
}

int ipc_out_fd(struct ipc_out *o, int fd)
{
	if (o->n_fds == IPC_OUT_FDS_MAX)
		return -ENOBUFS;
	o->fd[o->n_fds++] = (struct ipc_out_fd){ .at = ipc_out_end(o), .fd = fd };
	return 0;
}

static void out_drop_first_fd(struct ipc_out *o)
{
	close(o->fd[0].fd);
	o->n_fds--;
	memmove(o->fd, o->fd + 1, o->n_fds * sizeof(o->fd[0]));
}

/* One sendmsg, up to the next byte that a descriptor goes with. Bytes or a negative errno. */
static ssize_t send_once(int sock, struct ipc_out *o)
{
	size_t n = buf_len(&o->buf);
	union {
		struct cmsghdr align;
		char space[CMSG_SPACE(sizeof(int))];
	} control = { .space = { 0 } };
	struct iovec iov = { .iov_base = buf_head(&o->buf), .iov_len = n };
	struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1 };
	bool with_fd = o->n_fds > 0 && o->fd[0].at == o->sent;
	unsigned next = with_fd ? 1 : 0;
	if (o->n_fds > next && o->fd[next].at - o->sent < n)
		iov.iov_len = o->fd[next].at - o->sent;
	if (with_fd) {
		msg.msg_control = control.space;
		msg.msg_controllen = sizeof(control.space);
		struct cmsghdr *c = CMSG_FIRSTHDR(&msg);
		c->cmsg_level = SOL_SOCKET;
		c->cmsg_type = SCM_RIGHTS;
		c->cmsg_len = CMSG_LEN(sizeof(int));
		memcpy(CMSG_DATA(c), &o->fd[0].fd, sizeof(int));
	}
	ssize_t sent = sendmsg(sock, &msg, MSG_NOSIGNAL | MSG_DONTWAIT);
	if (sent < 0)
		return -errno;
	if (with_fd && sent > 0)
		out_drop_first_fd(o);
	return sent;
}

int ipc_send(int sock, struct ipc_out *o)
{
	while (buf_len(&o->buf) > 0) {
		ssize_t n = send_once(sock, o);
		if (n == -EINTR)
			continue;
		if (n < 0)
			return (int)n;
		o->sent += (uint64_t)n;
		buf_consume(&o->buf, (size_t)n);
	}
	return 0;
}

/* Keeps the descriptors of one recvmsg; what does not fit is closed, and the reader has failed. */
static void recv_take_fds(struct ipc_reader *r, struct msghdr *msg)
{
	for (struct cmsghdr *c = CMSG_FIRSTHDR(msg); c != NULL; c = CMSG_NXTHDR(msg, c)) {
		if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
			continue;
		size_t n = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
		for (size_t i = 0; i < n; i++) {
			int fd;
			memcpy(&fd, CMSG_DATA(c) + i * sizeof(int), sizeof(int));
			if (r->n_fds < sizeof(r->fds) / sizeof(r->fds[0])) {
				r->fds[r->n_fds++] = fd;
			} else {
				close(fd);
				r->error = "too many descriptors";
			}
		}
	}
	if (msg->msg_flags & MSG_CTRUNC)
		r->error = "too many descriptors";
}

int ipc_recv(int sock, struct ipc_reader *r)
{
	buf_consume(&r->in, r->consumed);
	r->consumed = 0;
	size_t room = r->in.max - buf_len(&r->in);
	size_t n = room < IPC_RECV_SIZE ? room : IPC_RECV_SIZE;
	uint8_t *p = buf_reserve(&r->in, n);
	if (p == NULL)
		return -ENOBUFS;
	union {
		struct cmsghdr align;
		char space[CMSG_SPACE(IPC_FDS_MAX * sizeof(int))];
	} control;
	struct iovec iov = { .iov_base = p, .iov_len = n };
	struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1,
			      .msg_control = control.space, .msg_controllen = sizeof(control.space) };
	ssize_t got;
	do
		got = recvmsg(sock, &msg, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
	while (got < 0 && errno == EINTR);
	if (got < 0)
		return -errno;
	buf_commit(&r->in, (size_t)got);
	recv_take_fds(r, &msg);
	return (int)got;
}

/* A path too long for sun_path goes through a descriptor of its directory. */
static int connect_path(int sock, const char *path)
{
	struct sockaddr_un a = { .sun_family = AF_UNIX };
	int dir = -1;
	int n = snprintf(a.sun_path, sizeof(a.sun_path), "%s", path);
	if (n >= (int)sizeof(a.sun_path)) {
		char *copy = must_strdup(path);
		dir = open(dirname(copy), O_PATH | O_DIRECTORY | O_CLOEXEC);
		int err = dir < 0 ? -errno : 0;
		const char *base = strrchr(path, '/');
		free(copy);
		if (err < 0)
			return err;
		n = snprintf(a.sun_path, sizeof(a.sun_path), "/proc/self/fd/%d/%s", dir,
			     base != NULL ? base + 1 : path);
	}
	int r = n >= (int)sizeof(a.sun_path) ? -ENAMETOOLONG : 0;
	if (r == 0 && connect(sock, (struct sockaddr *)&a, sizeof(a)) < 0)
		r = -errno;
	if (dir >= 0)
		close(dir);
	return r;
}

int ipc_connect(const char *path, int *ret_sock)
{
	int sock = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (sock < 0)
		return -errno;
	int r = connect_path(sock, path);
	if (r < 0) {
		close(sock);
		return r;
	}
	*ret_sock = sock;
	return 0;
}
