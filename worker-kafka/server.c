/* SPDX-License-Identifier: Apache-2.0
 *
 * A connection over a limit is closed at once: the protocol has no word for it.
 */
#include "worker-kafka/server.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "common/metrics.h"
#include "common/must.h"
#include "worker-kafka/conn.h"
#include "worker-kafka/fetch_ahead.h"
#include "worker-kafka/fetch_session.h"
#include "worker-kafka/request.h"
#include "worker-kafka/topic_cache.h"

#define LOOKUPS_OPEN_MAX 16u             /* reads for ListOffsets on their way */

static void on_conn(void *arg, int fd, const uint8_t address[16], const struct child_listener *from)
{
	conn_new(arg, fd, address, from);
}

static void on_refused(void *arg, int fd, const struct child_listener *from)
{
	close(fd);
}

static void on_reclaim(void *arg, struct topics_pieces *pieces)
{
	if (!fetch_ahead_reclaim(pieces))
		request_reclaim(pieces);
}

/* The last colon parts host and port; brackets of a v6 address are not the host's. */
static void set_advertised(struct advertised *a, const char *advertised)
{
	const char *colon = strrchr(advertised, ':');
	size_t n = colon != NULL ? (size_t)(colon - advertised) : strlen(advertised);
	a->port = (uint16_t)(colon != NULL ? atoi(colon + 1) : 9092);
	if (n > 1 && advertised[0] == '[' && advertised[n - 1] == ']') {
		advertised++;
		n -= 2;
	}
	snprintf(a->host, sizeof(a->host), "%.*s", (int)n, advertised);
}

static void start_accepting(struct server *s, struct worker *w)
{
	s->acceptor = &w->acceptor;
	acceptor_open(s->acceptor, &(struct acceptor_config){
		.loop = w->loop,
		.child = &w->child,
		.connections = METRIC_KAFKA_CONNECTIONS,
		.accepted = METRIC_KAFKA_ACCEPTED,
		.refused = METRIC_KAFKA_REFUSED,
		.on_conn = on_conn,
		.on_refused = on_refused,
		.arg = s,
	});
}

void server_init(struct server *s, struct worker *w)
{
	*s = (struct server){ .env = w->env, .loop = w->loop, .topics = w->topics, .conf = &w->child.conf,
			      .tls = &w->tls };
	set_advertised(&s->plain, w->child.kafka_address);
	set_advertised(&s->secure, w->child.kafka_tls_address);
	s->cache = topic_cache_new(s);
	s->fetch_sessions = fetch_sessions_new(s);
	record_decoder_init(&s->decoder, s->conf->max_decompressed_size);
	turns_init(&s->turns, s->env, LOOKUPS_OPEN_MAX);
	topics_on_reclaim(s->topics, on_reclaim, s);
	metric_set(METRIC_KAFKA_BUFFERED_BYTES, 0); /* the page may be that of a process which died */
	start_accepting(s, w);
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
	topic_cache_free(s->cache);
	fetch_sessions_free(s->fetch_sessions);
	record_decoder_done(&s->decoder);
}
