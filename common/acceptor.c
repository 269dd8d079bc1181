/* SPDX-License-Identifier: Apache-2.0
 *
 * Accepts as many as a turn allows, so that one busy listener does not starve those who are inside.
 */
#include "common/acceptor.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#define uthash_fatal(msg) abort()
#include <uthash.h>

#include "common/log.h"
#include "common/must.h"

#define DESCRIPTORS_KEPT 256            /* for all that is not a client */
#define ACCEPTS_A_TURN 64
#define ACCEPT_PAUSE_MS 100

struct address_count {
	uint8_t address[16];
	unsigned n;
	UT_hash_handle hh;
};

/* ------------------------------------------------------------------ limits */

static unsigned descriptors(void)
{
	struct rlimit limit;
	if (getrlimit(RLIMIT_NOFILE, &limit) != 0)
		return 1024;
	limit.rlim_cur = limit.rlim_max;
	setrlimit(RLIMIT_NOFILE, &limit);
	getrlimit(RLIMIT_NOFILE, &limit);
	return limit.rlim_cur > 10000000 ? 10000000 : (unsigned)limit.rlim_cur;
}

/* The peer as 16 bytes, v4 mapped. False for loopback, which is not counted. */
static bool address_of(const struct sockaddr_storage *from, uint8_t ret_address[16])
{
	static const uint8_t mapped[12] = { [10] = 0xff, [11] = 0xff };
	static const uint8_t v6_loopback[16] = { [15] = 1 };
	memset(ret_address, 0, 16);
	if (from->ss_family == AF_INET) {
		memcpy(ret_address, mapped, 12);
		memcpy(ret_address + 12, &((const struct sockaddr_in *)from)->sin_addr, 4);
	} else if (from->ss_family == AF_INET6) {
		memcpy(ret_address, &((const struct sockaddr_in6 *)from)->sin6_addr, 16);
	} else {
		return false;
	}
	bool v4 = memcmp(ret_address, mapped, 12) == 0;
	if (v4 ? ret_address[12] == 127 : memcmp(ret_address, v6_loopback, 16) == 0) {
		memset(ret_address, 0, 16);
		return false;
	}
	return true;
}

/* Counts one more of that address; false at its limit. */
static bool address_take(struct acceptor *s, const uint8_t address[16])
{
	struct address_count *a;
	HASH_FIND(hh, s->addresses, address, 16, a);
	if (a == NULL) {
		a = must_calloc(1, sizeof(*a));
		memcpy(a->address, address, 16);
		HASH_ADD(hh, s->addresses, address, 16, a);
	}
	if (a->n >= s->max_conns_per_address)
		return false;
	a->n++;
	return true;
}

void acceptor_gone(struct acceptor *s, const uint8_t address[16])
{
	struct address_count *a;
	must(s->n_conns > 0);
	s->n_conns--;
	HASH_FIND(hh, s->addresses, address, 16, a);
	if (a == NULL || --a->n > 0)
		return;
	HASH_DEL(s->addresses, a);
	free(a);
}

/* ------------------------------------------------------------------ accepting */

static void take(struct acceptor *s, int fd, const struct sockaddr_storage *from)
{
	uint8_t address[16];
	bool counted = address_of(from, address);
	if (s->n_conns >= s->max_conns || (counted && !address_take(s, address))) {
		s->events->on_refused(s->arg, fd);
		return;
	}
	int one = 1;
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &one, sizeof(one));
	s->n_conns++;
	s->events->on_conn(s->arg, fd, address);
}

static void on_listener(uv_poll_t *poll, int status, int events);

static void listeners_start(struct acceptor *s)
{
	for (unsigned i = 0; i < s->n_listeners; i++)
		uv_poll_start(&s->listener[i].poll, UV_READABLE, on_listener);
}

static void listeners_stop(struct acceptor *s)
{
	for (unsigned i = 0; i < s->n_listeners; i++)
		uv_poll_stop(&s->listener[i].poll);
}

static void on_pause_over(uv_timer_t *t)
{
	struct acceptor *s = t->data;
	if (!s->stopped)
		listeners_start(s);
}

static void on_listener(uv_poll_t *poll, int status, int events)
{
	struct acceptor_listener *l = poll->data;
	struct acceptor *s = l->acceptor;
	for (int i = 0; i < ACCEPTS_A_TURN && !s->stopped; i++) {
		struct sockaddr_storage from = { 0 };
		socklen_t size = sizeof(from);
		int fd = accept4(l->fd, (struct sockaddr *)&from, &size, SOCK_NONBLOCK | SOCK_CLOEXEC);
		if (fd >= 0) {
			take(s, fd, &from);
			continue;
		}
		if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
			log_warn("out of descriptors or memory, accepting nothing for %d ms", ACCEPT_PAUSE_MS);
			listeners_stop(s);
			uv_timer_start(&s->pause, on_pause_over, ACCEPT_PAUSE_MS, 0);
		}
		return;
	}
}

/* ------------------------------------------------------------------ life */

void acceptor_init(struct acceptor *s, uv_loop_t *loop, const struct conf *conf, const struct acceptor_events *events,
		   void *arg)
{
	*s = (struct acceptor){ .loop = loop, .events = events, .arg = arg };
	unsigned fds = descriptors();
	unsigned most = fds > 2 * DESCRIPTORS_KEPT ? fds - DESCRIPTORS_KEPT : fds / 2;
	s->max_conns = conf->max_connections > 0 && conf->max_connections < most ? (unsigned)conf->max_connections : most;
	s->max_conns_per_address = conf->max_connections_per_ip > 0 ? (unsigned)conf->max_connections_per_ip :
		(s->max_conns + 1) / 2;
	must(uv_timer_init(loop, &s->pause) == 0);
	s->pause.data = s;
}

int acceptor_listen(struct acceptor *s, int fd)
{
	must(s->n_listeners < CHILD_LISTENERS_MAX);
	struct acceptor_listener *l = &s->listener[s->n_listeners];
	*l = (struct acceptor_listener){ .acceptor = s, .fd = fd };
	int r = uv_poll_init(s->loop, &l->poll, fd); /* makes it non-blocking */
	if (r < 0)
		return r;
	l->poll.data = l;
	s->n_listeners++;
	return uv_poll_start(&l->poll, UV_READABLE, on_listener);
}

void acceptor_stop(struct acceptor *s)
{
	s->stopped = true;
	listeners_stop(s);
}

void acceptor_close(struct acceptor *s)
{
	s->stopped = true;
	for (unsigned i = 0; i < s->n_listeners; i++)
		uv_close((uv_handle_t *)&s->listener[i].poll, NULL);
	uv_close((uv_handle_t *)&s->pause, NULL);
}
