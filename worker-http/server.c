/* SPDX-License-Identifier: Apache-2.0
 *
 * A connection over a limit is answered 503 and closed at once, so that the kernel's queue moves on and
 * those inside keep their service.
 */
#include "worker-http/server.h"

#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "common/metrics.h"
#include "worker-http/admin.h"
#include "worker-http/conn.h"
#include "worker-http/pico.h"

#define READS_OPEN_MAX 65536u           /* on their way, while their batches are small when decompressed */

static const char refusal[] =
	"HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/json\r\nCache-Control: no-store\r\n"
	"Retry-After: 1\r\nConnection: close\r\nContent-Length: 62\r\n\r\n"
	"{\"error\":\"unavailable\",\"message\":\"too many open connections\"}\n";

static void on_conn(void *arg, int fd, const uint8_t address[16], const struct child_listener *from)
{
	conn_new(arg, fd, address, from);
}

static void on_refused(void *arg, int fd, const struct child_listener *from)
{
	/* Best effort: the close says it, too. For those who speak TLS it must: a handshake is what refusing saves. */
	ssize_t sent = from->tls ? 0 : send(fd, refusal, sizeof(refusal) - 1, MSG_NOSIGNAL | MSG_DONTWAIT);
	(void)sent;
	shutdown(fd, SHUT_WR);
	close(fd);
}

void server_init(struct server *s, struct worker *w)
{
	*s = (struct server){ .env = w->env, .loop = w->loop, .topics = w->topics, .conf = &w->child.conf,
			      .child = &w->child, .tls = &w->tls, .acceptor = &w->acceptor };
	turns_init(&s->turns, s->env, READS_OPEN_MAX);
	metric_set(METRIC_HTTP_BUFFERED_BYTES, 0); /* the page may be that of a process which died */
	acceptor_open(s->acceptor, &(struct acceptor_config){
		.loop = w->loop,
		.child = &w->child,
		.connections = METRIC_HTTP_CONNECTIONS,
		.accepted = METRIC_HTTP_ACCEPTED,
		.refused = METRIC_HTTP_REFUSED,
		.on_conn = on_conn,
		.on_refused = on_refused,
		.arg = s,
	});
}

void server_drain(struct server *s, void (*on_drained)(void *arg), void *arg)
{
	if (s->draining)
		return;
	s->draining = true;
	acceptor_stop(s->acceptor);
	for (struct conn *c = s->conns, *next; c != NULL; c = next) {
		next = conn_next(c);
		conn_drain(c);
	}
	acceptor_when_empty(s->acceptor, on_drained, arg);
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
	while (s->conns != NULL)
		conn_close(s->conns);
	turns_done(&s->turns);
	acceptor_close(s->acceptor);
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
