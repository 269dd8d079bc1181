/* SPDX-License-Identifier: Apache-2.0
 *
 * A connection whose client has not said yet what it speaks. HTTP/2 begins with a preface that no request of HTTP/1.1 can
 * be (RFC 9113 3.3, 3.4: prior knowledge); TLS may have agreed on it before. What has come of the preface is how it
 * begins, so nothing is kept of it but its length.
 */
#include <string.h>

#include "common/must.h"
#include "worker-http/conn_version.h"

static const char preface[] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
#define PREFACE_N (sizeof(preface) - 1)

static void begin_open(struct conn *c)
{
	c->state = NULL;
}

static void begin_done(struct conn *c)
{
}

static void begin_as(struct conn *c, const struct conn_version *version)
{
	size_t n = c->n_preface;
	c->timing_head = false;
	conn_become(c, version);
	if (n > 0)
		version->take(c, slice_of(preface, n));
}

/* What TLS agreed on; NULL: nothing. */
static const struct conn_version *agreed(const struct conn *c)
{
	const char *protocol = sock_protocol(c->sock);
	if (strcmp(protocol, "h2") == 0)
		return &conn_h2;
	return strcmp(protocol, "http/1.1") == 0 ? &conn_h1 : NULL;
}

static void begin_take(struct conn *c, struct slice bytes)
{
	const struct conn_version *version = agreed(c);
	if (version != NULL) {
		begin_as(c, version);
		version->take(c, bytes);
		return;
	}
	size_t left = PREFACE_N - c->n_preface;
	size_t n = bytes.n < left ? bytes.n : left;
	bool same = memcmp(preface + c->n_preface, bytes.p, n) == 0;
	if (same && n < left) {
		c->n_preface += (unsigned)n;
		if (!c->timing_head)
			c->since_ms = conn_now(c);
		c->timing_head = true;
		return;
	}
	begin_as(c, same ? &conn_h2 : &conn_h1);
	c->version->take(c, bytes);
}

static void begin_take_end(struct conn *c)
{
	c->no_input = true;
	c->timing_head = false;
}

static bool begin_has_room(const struct conn *c)
{
	return true;
}

static bool begin_turn(struct conn *c)
{
	return false;
}

static void begin_rest(struct conn *c)
{
}

static uint64_t begin_deadline(const struct conn *c)
{
	const struct conf *conf = c->server->conf;
	if (c->server->full)
		return 0;
	return c->since_ms + (c->timing_head ? conf->header_timeout_ms : conf->idle_timeout_ms);
}

static void begin_late(struct conn *c)
{
	if (c->n_preface == 0) {
		conn_close(c);
		return;
	}
	begin_as(c, &conn_h1); /* which has an answer for half a head */
	c->timing_head = true;
	c->version->late(c);
}

static bool begin_is_parked(const struct conn *c)
{
	return false;
}

static void begin_drain(struct conn *c)
{
	if (c->n_preface == 0)
		c->no_input = true;
}

const struct conn_version conn_begin = {
	.open = begin_open,
	.done = begin_done,
	.take = begin_take,
	.take_end = begin_take_end,
	.has_room = begin_has_room,
	.turn = begin_turn,
	.rest = begin_rest,
	.deadline = begin_deadline,
	.late = begin_late,
	.is_parked = begin_is_parked,
	.drain = begin_drain,
};
