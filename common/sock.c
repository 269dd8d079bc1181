/* SPDX-License-Identifier: Apache-2.0
 *
 * A sock owns one uv_poll and one descriptor. The poll asks for exactly what is wanted, so a connection that is not
 * read costs nothing however much its client sends.
 */
#include "common/sock.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/env_uv.h"
#include "common/must.h"

#define SOCK_MAGIC 0x534f434bu
#define DROPS_A_TURN 4                  /* reads of dropped input, then others have their turn */
#define LINGER_MS 2000
#define LINGER_SOON_MS 300

struct sock {
	unsigned magic;
	struct env *env;
	const struct sock_events *events;
	void *arg;
	int fd;
	uv_poll_t poll;
	int polled;                     /* events that the poll asks for */
	struct env_timer timer;         /* of a finished one */
	bool readable;
	bool ended;                     /* the peer */
	bool hung_up;
	bool finished;                  /* by sock_finish() */
};

static void on_poll(uv_poll_t *poll, int status, int events);

/* ------------------------------------------------------------------ life */

static void on_handle_closed(uv_handle_t *h)
{
	struct sock *s = h->data;
	s->magic = 0;
	free(s);
}

static void on_timer(void *arg)
{
	struct sock *s = arg;
	must(s->magic == SOCK_MAGIC);
	s->events->on_over(s->arg);
}

int sock_open(const struct sock_config *config, int fd, struct sock **ret_sock)
{
	struct sock *s = must_calloc(1, sizeof(*s));
	*s = (struct sock){ .magic = SOCK_MAGIC, .env = config->env, .events = config->events, .arg = config->arg,
			    .fd = fd, .readable = true };
	s->timer = (struct env_timer){ .on_fire = on_timer, .arg = s };
	int r = uv_poll_init(env_uv_loop(s->env), &s->poll, fd);
	if (r < 0) {
		close(fd);
		free(s);
		return r;
	}
	s->poll.data = s;
	*ret_sock = s;
	return 0;
}

void sock_close(struct sock *s)
{
	if (s == NULL)
		return;
	must(s->magic == SOCK_MAGIC && !uv_is_closing((uv_handle_t *)&s->poll));
	env_timer_stop(s->env, &s->timer);
	uv_poll_stop(&s->poll); /* before the descriptor goes, whose number may be another's then */
	close(s->fd);
	uv_close((uv_handle_t *)&s->poll, on_handle_closed);
}

/* ------------------------------------------------------------------ bytes */

ssize_t sock_recv(struct sock *s, void *p, size_t n)
{
	ssize_t got = recv(s->fd, p, n, 0);
	s->readable = got == (ssize_t)n;
	s->ended |= got == 0;
	if (got >= 0)
		return got;
	return errno == EINTR ? -EAGAIN : -errno;
}

ssize_t sock_send(struct sock *s, const struct iovec *iov, size_t n)
{
	struct msghdr msg = { .msg_iov = (struct iovec *)(uintptr_t)iov, .msg_iovlen = n };
	ssize_t took = sendmsg(s->fd, &msg, MSG_NOSIGNAL);
	if (took >= 0)
		return took;
	return errno == EINTR ? -EAGAIN : -errno;
}

/* ------------------------------------------------------------------ what is waited for */

static void sock_poll(struct sock *s, int events)
{
	if (events == s->polled)
		return;
	s->polled = events;
	if (events == 0)
		uv_poll_stop(&s->poll);
	else
		must(uv_poll_start(&s->poll, events, on_poll) == 0);
}

void sock_want(struct sock *s, bool read, bool write)
{
	if (s->finished)
		return;
	int events = (read && !s->ended ? UV_READABLE : 0) | (write ? UV_WRITABLE : 0);
	if (events == 0 && !s->ended && !s->hung_up)
		events = UV_DISCONNECT;
	sock_poll(s, events);
}

bool sock_is_readable(const struct sock *s)
{
	return s->readable && !s->finished;
}

void sock_expect(struct sock *s)
{
	s->readable = true;
}

bool sock_is_hung_up(const struct sock *s)
{
	return s->hung_up;
}

/* ------------------------------------------------------------------ end */

bool sock_finish(struct sock *s, bool soon)
{
	if (s->ended)
		return false;
	if (!s->finished)
		shutdown(s->fd, SHUT_WR);
	s->finished = true;
	sock_poll(s, UV_READABLE);
	uint64_t at = env_now_ms(s->env) + (soon ? LINGER_SOON_MS : LINGER_MS);
	if (s->timer.at_ms == 0 || s->timer.at_ms > at)
		env_timer_start(s->env, &s->timer, at);
	return true;
}

static void drop_input(struct sock *s)
{
	static uint8_t trash[65536];
	ssize_t n = 1;
	for (int i = 0; i < DROPS_A_TURN && n > 0; i++)
		n = sock_recv(s, trash, sizeof(trash));
	if (n <= 0 && n != -EAGAIN)
		s->events->on_over(s->arg);
}

static void on_poll(uv_poll_t *poll, int status, int events)
{
	struct sock *s = poll->data;
	must(s->magic == SOCK_MAGIC);
	s->readable |= (events & UV_READABLE) != 0;
	s->hung_up |= (events & UV_DISCONNECT) != 0;
	if (status < 0)
		s->events->on_over(s->arg);
	else if (s->finished)
		drop_input(s);
	else
		s->events->on_ready(s->arg);
}
