/* SPDX-License-Identifier: Apache-2.0
 *
 * Accepts as many as a turn allows, so that one busy listener does not starve those who are inside. Balance needs no
 * message: each process counts its connections in its own page of metrics and reads those of its kind.
 */
#include "common/acceptor.h"

#include <errno.h>
#include <malloc.h>
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
#define SAY_AGAIN_MS 5000
#define BALANCE_SLACK 8                 /* connections above the mean of the processes of a kind */
#define BALANCE_WAIT_MS 1
#define TRIM_CONNS_MIN 64               /* below, a burst is not worth the work */
#define TRIM_AFTER_MS 1000              /* they are freed by then */

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

static void address_give(struct acceptor *s, const uint8_t address[16])
{
	struct address_count *a;
	HASH_FIND(hh, s->addresses, address, 16, a);
	if (a == NULL || --a->n > 0)
		return;
	HASH_DEL(s->addresses, a);
	free(a);
}

/* ------------------------------------------------------------------ connections */

/* A peer that is gone is noticed: after the stall time-out when it owes us an answer to what was sent; when idle,
 * after half of it without a sign and the probes of the other half. */
static void set_options(int fd, unsigned stall_ms)
{
	int one = 1, idle_s = (int)(stall_ms / 2000), each_s = (int)(stall_ms / 12000);
	idle_s = idle_s > 0 ? idle_s : 1;
	each_s = each_s > 0 ? each_s : 1;
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &one, sizeof(one));
	setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle_s, sizeof(idle_s));
	setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &each_s, sizeof(each_s));
	setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &stall_ms, sizeof(stall_ms));
}

static void take(struct acceptor_listener *l, int fd, const struct sockaddr_storage *from)
{
	struct acceptor *s = l->acceptor;
	const struct acceptor_config *c = &s->config;
	uint8_t address[16];
	bool counted = address_of(from, address);
	if (s->n_conns >= s->max_conns || (counted && !address_take(s, address))) {
		metric_add(c->refused, 1);
		c->on_refused(c->arg, fd, l->inherited);
		return;
	}
	if (from->ss_family != AF_UNIX)
		set_options(fd, (unsigned)c->child->conf.stall_timeout_ms);
	s->n_conns++;
	if (s->n_conns > s->n_conns_peak)
		s->n_conns_peak = s->n_conns;
	metric_add(c->accepted, 1);
	metric_set(c->connections, s->n_conns);
	c->on_conn(c->arg, fd, address, l->inherited);
}

/* After a burst the allocator keeps what the connections took; it is given back when half of them are gone. */
static void on_trim(uv_timer_t *t)
{
	struct acceptor *s = t->data;
	s->n_conns_peak = s->n_conns;
	malloc_trim(0);
}

static void say_when_empty(struct acceptor *s)
{
	void (*on_empty)(void *arg) = s->on_empty;
	if (s->n_conns > 0 || on_empty == NULL)
		return;
	s->on_empty = NULL;
	on_empty(s->on_empty_arg);
}

void acceptor_gone(struct acceptor *s, const uint8_t address[16])
{
	must(s->n_conns > 0);
	s->n_conns--;
	metric_set(s->config.connections, s->n_conns);
	address_give(s, address);
	if (s->n_conns_peak >= TRIM_CONNS_MIN && s->n_conns <= s->n_conns_peak / 2 &&
	    !uv_is_closing((uv_handle_t *)&s->trim))
		uv_timer_start(&s->trim, on_trim, TRIM_AFTER_MS, 0);
	say_when_empty(s);
}

void acceptor_failed(struct acceptor *s, const uint8_t address[16], int err)
{
	log_warn("cannot watch a connection: %s, closing it", strerror(-err));
	acceptor_gone(s, address);
}

/* ------------------------------------------------------------------ accepting */

/* Whether this process holds too many beside the others of its kind. */
static bool is_above(const struct acceptor *s)
{
	const struct child *c = s->config.child;
	uint64_t sum = 0, n = 0;
	for (unsigned i = 0; i < METRICS_SLOTS && c->processes != NULL; i++) {
		const struct process_entry *e = &c->processes->slot[i];
		if (e->pid == 0 || e->kind != (uint32_t)c->kind || e->state != PROCESS_READY || c->pages[i] == NULL)
			continue;
		sum += __atomic_load_n(&c->pages[i]->value[s->config.connections], __ATOMIC_RELAXED);
		n++;
	}
	return n > 0 && s->n_conns * n >= sum + BALANCE_SLACK * n;
}

static void on_listener(uv_poll_t *poll, int status, int events);

static void listeners_start(struct acceptor *s)
{
	for (unsigned i = 0; i < s->n_listeners; i++)
		must(uv_poll_start(&s->listener[i].poll, UV_READABLE, on_listener) == 0);
}

static void listeners_stop(struct acceptor *s)
{
	for (unsigned i = 0; i < s->n_listeners; i++)
		uv_poll_stop(&s->listener[i].poll);
}

static void on_pause_over(uv_timer_t *t);

static void pause_for(struct acceptor *s, unsigned ms)
{
	listeners_stop(s);
	uv_timer_start(&s->pause, on_pause_over, ms, 0);
}

static void say_out_of(struct acceptor *s, int err)
{
	uint64_t now = uv_now(s->config.loop);
	if (s->said_ms != 0 && now - s->said_ms < SAY_AGAIN_MS)
		return;
	s->said_ms = now;
	log_warn("cannot accept: %s; open connections go on, trying again every %d ms connections=%u", strerror(err),
		 ACCEPT_PAUSE_MS, s->n_conns);
}

/* Takes one connection. False when there is none that could be taken now. */
static bool take_one(struct acceptor_listener *l)
{
	struct sockaddr_storage from = { 0 };
	socklen_t size = sizeof(from);
	int fd = accept4(l->inherited->fd, (struct sockaddr *)&from, &size, SOCK_NONBLOCK | SOCK_CLOEXEC);
	if (fd >= 0) {
		take(l, fd, &from);
		return true;
	}
	if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
		say_out_of(l->acceptor, errno);
		pause_for(l->acceptor, ACCEPT_PAUSE_MS);
	}
	return false;
}

/* What nobody else took meanwhile is ours. */
static void on_pause_over(uv_timer_t *t)
{
	struct acceptor *s = t->data;
	if (s->stopped)
		return;
	listeners_start(s);
	for (unsigned i = 0; i < s->n_listeners && !s->stopped; i++)
		take_one(&s->listener[i]);
}

static void on_listener(uv_poll_t *poll, int status, int events)
{
	struct acceptor_listener *l = poll->data;
	struct acceptor *s = l->acceptor;
	for (int i = 0; i < ACCEPTS_A_TURN && !s->stopped; i++) {
		if (is_above(s)) {
			if (i == 0) /* somebody is there, whom another one has a millisecond to take */
				pause_for(s, BALANCE_WAIT_MS);
			return;
		}
		if (!take_one(l))
			return;
	}
}

/* ------------------------------------------------------------------ life */

static void listen_on(struct acceptor *s, const struct child_listener *inherited)
{
	struct acceptor_listener *l = &s->listener[s->n_listeners];
	*l = (struct acceptor_listener){ .acceptor = s, .inherited = inherited };
	int r = uv_poll_init(s->config.loop, &l->poll, inherited->fd); /* makes it non-blocking */
	if (r < 0)
		child_fatal(1, "cannot serve %s: %s", inherited->address, strerror(-r));
	l->poll.data = l;
	s->n_listeners++;
}

void acceptor_open(struct acceptor *s, const struct acceptor_config *config)
{
	const struct conf *conf = &config->child->conf;
	*s = (struct acceptor){ .config = *config };
	unsigned fds = descriptors();
	unsigned most = fds > 2 * DESCRIPTORS_KEPT ? fds - DESCRIPTORS_KEPT : fds / 2;
	s->max_conns = conf->max_connections > 0 && conf->max_connections < most ? (unsigned)conf->max_connections : most;
	s->max_conns_per_address = conf->max_connections_per_ip > 0 ? (unsigned)conf->max_connections_per_ip :
		(s->max_conns + 1) / 2;
	must(uv_timer_init(config->loop, &s->pause) == 0 && uv_timer_init(config->loop, &s->trim) == 0);
	s->pause.data = s->trim.data = s;
	metric_set(config->connections, 0); /* the page may be that of a process which died with connections open */
	for (unsigned i = 0; i < config->child->n_listeners; i++)
		listen_on(s, &config->child->listener[i]);
	listeners_start(s);
	log_debug("serving max-connections=%u", s->max_conns);
}

void acceptor_stop(struct acceptor *s)
{
	s->stopped = true;
	listeners_stop(s);
}

void acceptor_when_empty(struct acceptor *s, void (*on_empty)(void *arg), void *arg)
{
	s->on_empty = on_empty;
	s->on_empty_arg = arg;
	say_when_empty(s);
}

void acceptor_close(struct acceptor *s)
{
	must(s->n_conns == 0);
	s->stopped = true;
	for (unsigned i = 0; i < s->n_listeners; i++)
		uv_close((uv_handle_t *)&s->listener[i].poll, NULL);
	uv_close((uv_handle_t *)&s->pause, NULL);
	uv_close((uv_handle_t *)&s->trim, NULL);
}
