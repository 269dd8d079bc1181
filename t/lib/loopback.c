/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "t/lib/loopback.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/must.h"

static struct place *place;
static uv_timer_t tick;                 /* so that the clients are looked at */

static void on_tick(uv_timer_t *t)
{
}

void loopback_open(struct place *p)
{
	place = p;
	for (size_t i = 0; i < sizeof(p->node.hold) / sizeof(p->node.hold[0]); i++)
		p->node.hold[i] = true;
	must(uv_timer_init(&p->loop, &tick) == 0);
	must(uv_timer_start(&tick, on_tick, 1, 1) == 0);
}

void loopback_close(void)
{
	uv_close((uv_handle_t *)&tick, NULL);
}

int loopback_listen(uint16_t *ret_port)
{
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	struct sockaddr_in a = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t n = sizeof(a);
	must(bind(fd, (struct sockaddr *)&a, sizeof(a)) == 0 && listen(fd, 1024) == 0);
	must(getsockname(fd, (struct sockaddr *)&a, &n) == 0);
	*ret_port = ntohs(a.sin_port);
	return fd;
}

/* ------------------------------------------------------------------ clients */

void client_open(struct client *c, uint16_t port)
{
	struct sockaddr_in a = { .sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	c->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	c->ended = false;
	buf_init(&c->in, 64 << 20);
	must(connect(c->fd, (struct sockaddr *)&a, sizeof(a)) == 0);
	must(fcntl(c->fd, F_SETFL, O_NONBLOCK) == 0);
}

void client_close(struct client *c)
{
	close(c->fd);
	buf_done(&c->in);
}

void client_pull(struct client *c)
{
	for (;;) {
		uint8_t *to = buf_reserve(&c->in, 65536);
		ssize_t n = recv(c->fd, to, 65536, 0);
		if (n > 0) {
			buf_commit(&c->in, (size_t)n);
			continue;
		}
		c->ended |= n == 0 || (errno != EAGAIN && errno != EINTR);
		return;
	}
}

struct outgoing {
	struct client *c;
	struct slice bytes;
};

static bool is_sent(void *arg)
{
	struct outgoing *o = arg;
	ssize_t n = send(o->c->fd, o->bytes.p, o->bytes.n, MSG_NOSIGNAL);
	if (n > 0)
		o->bytes = slice_of(o->bytes.p + n, o->bytes.n - (size_t)n);
	return o->bytes.n == 0 || (n < 0 && errno != EAGAIN);
}

void client_send(struct client *c, struct slice bytes)
{
	struct outgoing o = { c, bytes };
	assert_true(place_run(place, is_sent, &o, SOON));
}

void client_say(struct client *c, const char *text)
{
	client_send(c, slice_str(text));
}

struct want {
	struct client *c;
	size_t n;
};

static bool has_bytes(void *arg)
{
	struct want *want = arg;
	client_pull(want->c);
	return buf_len(&want->c->in) >= want->n || want->c->ended;
}

void client_wait(struct client *c, size_t n)
{
	struct want want = { c, n };
	assert_true(place_run(place, has_bytes, &want, SOON));
}

static bool has_ended(void *arg)
{
	client_pull(arg);
	return ((struct client *)arg)->ended;
}

void client_wait_end(struct client *c)
{
	assert_true(place_run(place, has_ended, c, SOON));
}

/* ------------------------------------------------------------------ calls */

struct seen *parked(void)
{
	for (size_t i = 0; i < place->node.n_seen; i++)
		if (place->node.seen[i].call != NULL)
			return &place->node.seen[i];
	return NULL;
}

static bool is_parked(void *arg)
{
	return parked() != NULL;
}

struct seen *next_call(void)
{
	assert_true(place_run(place, is_parked, NULL, SOON));
	return parked();
}

void give(struct seen *s, ProtobufCMessage *answer)
{
	struct call *c = s->call;
	s->call = NULL;
	c->on_answer(c, NULL, answer);
}

void give_error(struct seen *s, const struct pico_error *e)
{
	struct call *c = s->call;
	s->call = NULL;
	c->on_answer(c, e, NULL);
}
