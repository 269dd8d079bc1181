/* SPDX-License-Identifier: Apache-2.0
 *
 * Accepting and its limits. A connection over a limit is answered 503 and closed at once, so that the
 * kernel's queue moves on and those inside keep their service.
 */
#include "worker-http/server.h"

#include <arpa/inet.h>
#include <errno.h>
#include <malloc.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#define uthash_fatal(msg) abort()
#include <uthash.h>

#include "common/metrics.h"
#include "common/must.h"
#include "worker-http/conn.h"

#define DESCRIPTORS_KEPT 256            /* for all that is not a client */
#define ACCEPTS_A_TURN 64
#define ACCEPT_PAUSE_MS 100
#define TRIM_CONNS_MIN 64               /* below, a burst is not worth the work */
#define TRIM_AFTER_MS 1000              /* they are freed by then */

struct address_count {
	uint8_t address[16];
	unsigned n;
	UT_hash_handle hh;
};

static const char refusal[] =
	"HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/json\r\nCache-Control: no-store\r\n"
	"Retry-After: 1\r\nConnection: close\r\nContent-Length: 62\r\n\r\n"
	"{\"error\":\"unavailable\",\"message\":\"too many open connections\"}\n";

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

/* After a burst the allocator keeps what the connections took; it is given back when half of them are gone. */
static void on_trim(void *arg)
{
	struct server *s = arg;
	s->n_conns_peak = s->n_conns;
	malloc_trim(0);
}

void server_init(struct server *s, uv_loop_t *loop, struct env *env, struct topics *topics, const struct conf *conf)
{
	*s = (struct server){ .env = env, .loop = loop, .topics = topics, .conf = conf };
	unsigned fds = descriptors();
	unsigned most = fds > 2 * DESCRIPTORS_KEPT ? fds - DESCRIPTORS_KEPT : fds / 2;
	s->max_conns = conf->max_connections > 0 && conf->max_connections < most ? (unsigned)conf->max_connections : most;
	s->max_conns_per_address = conf->max_connections_per_ip > 0 ? (unsigned)conf->max_connections_per_ip :
		(s->max_conns + 1) / 2;
	must(uv_timer_init(loop, &s->accept_pause) == 0);
	s->accept_pause.data = s;
	s->trim = (struct env_timer){ .on_fire = on_trim, .arg = s };
	/* The page may be that of a process which died with connections open. */
	metric_set(METRIC_HTTP_CONNECTIONS, 0);
	metric_set(METRIC_HTTP_BUFFERED_BYTES, 0);
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
static bool address_take(struct server *s, const uint8_t address[16])
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

void server_conn_gone(struct server *s, const uint8_t address[16])
{
	struct address_count *a;
	must(s->n_conns > 0);
	s->n_conns--;
	if (s->n_conns_peak >= TRIM_CONNS_MIN && s->n_conns <= s->n_conns_peak / 2)
		env_timer_start(s->env, &s->trim, env_now_ms(s->env) + TRIM_AFTER_MS);
	metric_add(METRIC_HTTP_CONNECTIONS, -1);
	HASH_FIND(hh, s->addresses, address, 16, a);
	if (a != NULL && --a->n == 0) {
		HASH_DEL(s->addresses, a);
		free(a);
	}
	if (s->draining && s->n_conns == 0 && s->on_drained != NULL) {
		void (*on_drained)(void *arg) = s->on_drained;
		s->on_drained = NULL;
		on_drained(s->on_drained_arg);
	}
}

/* ------------------------------------------------------------------ accepting */

static void server_refuse(int fd)
{
	metric_add(METRIC_HTTP_REFUSED, 1);
	ssize_t sent = send(fd, refusal, sizeof(refusal) - 1, MSG_NOSIGNAL | MSG_DONTWAIT);
	(void)sent; /* best effort: the close says it, too */
	shutdown(fd, SHUT_WR);
	close(fd);
}

static void server_take(struct server_listener *l, int fd, const struct sockaddr_storage *from)
{
	struct server *s = l->server;
	uint8_t address[16];
	bool counted = address_of(from, address);
	if (s->n_conns >= s->max_conns || (counted && !address_take(s, address))) {
		server_refuse(fd);
		return;
	}
	int one = 1;
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	s->n_conns++;
	if (s->n_conns > s->n_conns_peak)
		s->n_conns_peak = s->n_conns;
	metric_add(METRIC_HTTP_ACCEPTED, 1);
	metric_add(METRIC_HTTP_CONNECTIONS, 1);
	conn_new(s, fd, address, l->route);
}

static void on_listener(uv_poll_t *poll, int status, int events);

static void listeners_start(struct server *s)
{
	for (unsigned i = 0; i < s->n_listeners; i++)
		uv_poll_start(&s->listener[i].poll, UV_READABLE, on_listener);
}

static void listeners_stop(struct server *s)
{
	for (unsigned i = 0; i < s->n_listeners; i++)
		uv_poll_stop(&s->listener[i].poll);
}

static void on_accept_pause_over(uv_timer_t *t)
{
	struct server *s = t->data;
	if (!s->draining)
		listeners_start(s);
}

static void on_listener(uv_poll_t *poll, int status, int events)
{
	struct server_listener *l = poll->data;
	for (int i = 0; i < ACCEPTS_A_TURN; i++) {
		struct sockaddr_storage from = { 0 };
		socklen_t size = sizeof(from);
		int fd = accept4(l->fd, (struct sockaddr *)&from, &size, SOCK_NONBLOCK | SOCK_CLOEXEC);
		if (fd >= 0) {
			server_take(l, fd, &from);
			continue;
		}
		if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
			listeners_stop(l->server);
			uv_timer_start(&l->server->accept_pause, on_accept_pause_over, ACCEPT_PAUSE_MS, 0);
		}
		return;
	}
}

int server_listen(struct server *s, int fd, server_route_fn *route)
{
	must(s->n_listeners < CHILD_LISTENERS_MAX);
	struct server_listener *l = &s->listener[s->n_listeners];
	*l = (struct server_listener){ .server = s, .fd = fd, .route = route };
	int r = uv_poll_init(s->loop, &l->poll, fd); /* makes it non-blocking */
	if (r < 0)
		return r;
	l->poll.data = l;
	s->n_listeners++;
	return uv_poll_start(&l->poll, UV_READABLE, on_listener);
}

/* ------------------------------------------------------------------ end */

void server_drain(struct server *s, void (*on_drained)(void *arg), void *arg)
{
	if (s->draining)
		return;
	s->draining = true;
	listeners_stop(s);
	s->on_drained = on_drained;
	s->on_drained_arg = arg;
	s->n_conns++; /* so that the end is not seen in the middle */
	for (struct conn *c = s->conns, *next; c != NULL; c = next) {
		next = conn_next(c);
		conn_drain(c);
	}
	metric_add(METRIC_HTTP_CONNECTIONS, 1);
	static const uint8_t nobody[16];
	server_conn_gone(s, nobody);
}

void server_room(struct server *s)
{
	s->full = false;
	for (struct conn *c = s->conns; c != NULL; c = conn_next(c))
		conn_kick(c);
}

void server_close(struct server *s)
{
	s->draining = true;
	s->on_drained = NULL;
	while (s->conns != NULL)
		conn_close(s->conns);
	env_timer_stop(s->env, &s->trim);
	for (unsigned i = 0; i < s->n_listeners; i++)
		uv_close((uv_handle_t *)&s->listener[i].poll, NULL);
	uv_close((uv_handle_t *)&s->accept_pause, NULL);
}

const char *server_date(struct server *s)
{
	time_t now = (time_t)(env_wall_ms(s->env) / 1000);
	if (now != s->date_second || s->date[0] == '\0') {
		static const char days[7][4] = { "Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat" };
		static const char months[12][4] = { "Jan", "Feb", "Mar", "Apr", "May", "Jun",
						    "Jul", "Aug", "Sep", "Oct", "Nov", "Dec" };
		struct tm t;
		gmtime_r(&now, &t);
		snprintf(s->date, sizeof(s->date), "%s, %02u %s %04u %02u:%02u:%02u GMT", days[t.tm_wday % 7],
			 (unsigned)t.tm_mday % 100, months[t.tm_mon % 12], ((unsigned)t.tm_year + 1900) % 10000,
			 (unsigned)t.tm_hour % 100, (unsigned)t.tm_min % 100, (unsigned)t.tm_sec % 100);
		s->date_second = now;
	}
	return s->date;
}
