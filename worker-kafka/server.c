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
#include "worker-kafka/request.h"
#include "worker-kafka/topic_cache.h"

static void on_conn(void *arg, int fd, const uint8_t address[16])
{
	metric_add(METRIC_KAFKA_ACCEPTED, 1);
	metric_add(METRIC_KAFKA_CONNECTIONS, 1);
	conn_new(arg, fd, address);
}

static void on_refused(void *arg, int fd)
{
	metric_add(METRIC_KAFKA_REFUSED, 1);
	close(fd);
}

static void on_reclaim(void *arg, struct topics_pieces *pieces)
{
	request_reclaim(pieces);
}

/* The last colon parts host and port; brackets of a v6 address are not the host's. */
static void set_advertised(struct server *s, const char *advertised)
{
	const char *colon = strrchr(advertised, ':');
	size_t n = colon != NULL ? (size_t)(colon - advertised) : strlen(advertised);
	s->port = (uint16_t)(colon != NULL ? atoi(colon + 1) : 9092);
	if (n > 1 && advertised[0] == '[' && advertised[n - 1] == ']') {
		advertised++;
		n -= 2;
	}
	snprintf(s->host, sizeof(s->host), "%.*s", (int)n, advertised);
}

void server_init(struct server *s, uv_loop_t *loop, struct env *env, struct topics *topics, const struct conf *conf,
		 const char *advertised)
{
	static const struct acceptor_events events = { .on_conn = on_conn, .on_refused = on_refused };
	*s = (struct server){ .env = env, .loop = loop, .topics = topics, .conf = conf };
	set_advertised(s, advertised);
	acceptor_init(&s->acceptor, loop, conf, &events, s);
	s->cache = topic_cache_new(s);
	record_decoder_init(&s->decoder, conf->max_decompressed_size);
	topics_on_reclaim(topics, on_reclaim, s);
	/* The page may be that of a process which died with connections open. */
	metric_set(METRIC_KAFKA_CONNECTIONS, 0);
	metric_set(METRIC_KAFKA_BUFFERED_BYTES, 0);
}

int server_listen(struct server *s, int fd)
{
	return acceptor_listen(&s->acceptor, fd);
}

static void end_when_drained(struct server *s)
{
	if (!s->draining || s->conns != NULL || s->on_drained == NULL)
		return;
	void (*on_drained)(void *arg) = s->on_drained;
	s->on_drained = NULL;
	on_drained(s->on_drained_arg);
}

void server_conn_gone(struct server *s, const uint8_t address[16])
{
	acceptor_gone(&s->acceptor, address);
	metric_add(METRIC_KAFKA_CONNECTIONS, -1);
	end_when_drained(s);
}

void server_drain(struct server *s, void (*on_drained)(void *arg), void *arg)
{
	if (s->draining)
		return;
	s->draining = true;
	acceptor_stop(&s->acceptor);
	for (struct conn *c = s->conns, *next; c != NULL; c = next) {
		next = conn_next(c);
		conn_drain(c);
	}
	s->on_drained = on_drained;
	s->on_drained_arg = arg;
	end_when_drained(s);
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
	acceptor_close(&s->acceptor);
	topic_cache_free(s->cache);
	record_decoder_done(&s->decoder);
}
