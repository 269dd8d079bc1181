/* SPDX-License-Identifier: Apache-2.0
 *
 * Preloaded into a node's processes: the clock on the wall is off by what stands in the file that FAKETIME_SHIM names, a
 * 64-bit number of milliseconds that may change at any time. Monotonic clocks are left alone, as by a machine whose clock
 * is set. Without the variable nothing changes.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static const volatile int64_t *shift_ms;

/* Before main(): rights may be dropped later. A file that cannot be read is a broken test. */
__attribute__((constructor)) static void shim_open(void)
{
	const char *path = getenv("FAKETIME_SHIM");
	if (path == NULL)
		return;
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	void *page = fd < 0 ? MAP_FAILED : mmap(NULL, sizeof(*shift_ms), PROT_READ, MAP_SHARED, fd, 0);
	if (page == MAP_FAILED) {
		perror(path);
		abort();
	}
	close(fd);
	shift_ms = page;
}

static void shift(struct timespec *t)
{
	int64_t ms = shift_ms == NULL ? 0 : *shift_ms;
	t->tv_sec += ms / 1000;
	t->tv_nsec += ms % 1000 * 1000000;
	if (t->tv_nsec >= 1000000000) {
		t->tv_sec++;
		t->tv_nsec -= 1000000000;
	} else if (t->tv_nsec < 0) {
		t->tv_sec--;
		t->tv_nsec += 1000000000;
	}
}

int clock_gettime(clockid_t clock, struct timespec *t)
{
	if (syscall(SYS_clock_gettime, clock, t) != 0)
		return -1;
	if (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)
		shift(t);
	return 0;
}

int gettimeofday(struct timeval *restrict tv, void *restrict zone)
{
	struct timespec t;
	(void)zone;             /* obsolete */
	clock_gettime(CLOCK_REALTIME, &t);
	tv->tv_sec = t.tv_sec;
	tv->tv_usec = t.tv_nsec / 1000;
	return 0;
}

time_t time(time_t *ret)
{
	struct timespec t;
	clock_gettime(CLOCK_REALTIME, &t);
	if (ret != NULL)
		*ret = t.tv_sec;
	return t.tv_sec;
}
