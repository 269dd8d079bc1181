/* SPDX-License-Identifier: Apache-2.0
 *
 * Every page is a memfd that cannot change its size, so a reader never meets SIGBUS. The table is sealed
 * against new writers after it is mapped here. A metrics page has two descriptors: one to write, for its
 * child; one opened read-only through /proc, for the workers.
 */
#include "supervisor/pages.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#define PAGE_MAGIC 0x6761706f636970ull  /* "picopag" */

static int reopen_read_only(int fd)
{
	char path[40];
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	int copy = open(path, O_RDONLY | O_CLOEXEC);
	return copy < 0 ? -errno : copy;
}

/* A memfd of that size, mapped and sealed. The result is its descriptor. */
static int page_new(const char *name, size_t size, int seals, void **ret_map)
{
	int fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (fd < 0)
		return -errno;
	int err = ftruncate(fd, (off_t)size) < 0 ? -errno : 0;
	void *map = err < 0 ? MAP_FAILED : mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (map == MAP_FAILED || fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL | seals) < 0) {
		err = err < 0 ? err : -errno;
		if (map != MAP_FAILED)
			munmap(map, size);
		close(fd);
		return err;
	}
	*ret_map = map;
	return fd;
}

static int metrics_open(struct pages *p, unsigned slot)
{
	void *map;
	int fd = page_new("pico-metrics", sizeof(struct metrics_page), 0, &map);
	if (fd < 0)
		return fd;
	p->metrics[slot] = map;
	p->metrics_fd[slot] = fd;
	p->metrics[slot]->magic = PAGE_MAGIC;
	p->metrics_read_fd[slot] = reopen_read_only(fd);
	return p->metrics_read_fd[slot] < 0 ? p->metrics_read_fd[slot] : 0;
}

int pages_open(struct pages *p)
{
	void *map;
	*p = (struct pages){ .table_fd = -1 };
	for (unsigned i = 0; i < METRICS_SLOTS; i++)
		p->metrics_fd[i] = p->metrics_read_fd[i] = -1;
	int fd = page_new("pico-processes", sizeof(struct process_table), F_SEAL_FUTURE_WRITE, &map);
	if (fd < 0)
		return fd;
	p->table = map;
	p->table->magic = PAGE_MAGIC;
	p->table_fd = reopen_read_only(fd);
	close(fd);
	int err = p->table_fd < 0 ? p->table_fd : 0;
	for (unsigned i = 0; i < METRICS_SLOTS && err == 0; i++)
		err = metrics_open(p, i);
	return err;
}

static void close_fd(int fd)
{
	if (fd >= 0)
		close(fd);
}

void pages_close(struct pages *p)
{
	if (p->table != NULL)
		munmap(p->table, sizeof(*p->table));
	close_fd(p->table_fd);
	for (unsigned i = 0; i < METRICS_SLOTS; i++) {
		if (p->metrics[i] != NULL)
			munmap(p->metrics[i], sizeof(*p->metrics[i]));
		close_fd(p->metrics_fd[i]);
		close_fd(p->metrics_read_fd[i]);
	}
	*p = (struct pages){ .table_fd = -1 };
}

int pages_send(const struct pages *p, enum process_kind kind, unsigned slot, int socket)
{
	int fds[2 + METRICS_SLOTS] = { p->metrics_fd[slot], p->table_fd };
	size_t n = kind == PROCESS_STORAGED ? 1 : 2 + METRICS_SLOTS;
	memcpy(fds + 2, p->metrics_read_fd, sizeof(p->metrics_read_fd));
	union {
		char bytes[CMSG_SPACE(sizeof(fds))];
		struct cmsghdr align;
	} control = { .bytes = { 0 } };
	struct iovec iov = { (char[]){ 'p' }, 1 };
	struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1, .msg_control = control.bytes,
			      .msg_controllen = CMSG_SPACE(n * sizeof(int)) };
	struct cmsghdr *cmsg = CMSG_FIRSTHDR(&msg);
	cmsg->cmsg_level = SOL_SOCKET;
	cmsg->cmsg_type = SCM_RIGHTS;
	cmsg->cmsg_len = CMSG_LEN(n * sizeof(int));
	memcpy(CMSG_DATA(cmsg), fds, n * sizeof(int));
	return sendmsg(socket, &msg, MSG_NOSIGNAL | MSG_DONTWAIT) == 1 ? 0 : -errno;
}
