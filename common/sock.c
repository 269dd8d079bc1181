/* SPDX-License-Identifier: Apache-2.0
 *
 * A sock owns one uv_poll and one descriptor. The poll asks for exactly what is wanted, so a connection that is not
 * read costs nothing however much its client sends.
 *
 * TLS: input is taken from the kernel when all before it has been used, so one read of it waits here at most. Output is
 * made into records, a few at a time; they count as taken when the kernel has them. A peer that takes little gets one
 * record at a time. When TLS breaks, the peer is told why and the sock is finished at once, as by sock_finish().
 */
#include "common/sock.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/env_uv.h"
#include "common/must.h"
#include "common/tls.h"

#define SOCK_MAGIC 0x534f434bu
#define DROPS_A_TURN 4                  /* reads of dropped input, then others have their turn */
#define LINGER_MS 2000
#define LINGER_SOON_MS 300
#define PULL_MAX 32768                  /* of TLS, from the kernel at once */
#define SEAL_MAX (4 * TLS_RECORD_MAX)   /* bytes made into records at once */
#define OWED_MAX 65536                  /* with so much for a peer that takes nothing, nothing more is read from it */

struct sock {
	unsigned magic;
	struct env *env;
	const struct sock_events *events;
	void *arg;
	int fd;
	uv_poll_t poll;
	int polled;                     /* events that the poll asks for */
	struct env_timer timer;         /* of the handshake, or of a finished one */
	bool want_read, want_write;
	bool readable;                  /* the descriptor, as far as is known */
	bool ended, end_told;           /* the peer; sock_recv() has said so */
	bool hung_up;
	bool finished;                  /* by sock_finish(), or TLS broke */

	struct tls *tls;                /* owned; NULL: plain */
	bool opening;                   /* its handshake is not over */
	bool late;                      /* nor was it in time */
	size_t sealed;                  /* bytes of the owner in records that the kernel has not all */
	size_t seal_max;
	struct env_task task;           /* on_ready() for what was read already */
	bool closed;                    /* while the task is queued */
};

static void on_poll(uv_poll_t *poll, int status, int events);

/* ------------------------------------------------------------------ life */

static void on_handle_closed(uv_handle_t *h)
{
	struct sock *s = h->data;
	must(!s->task.queued); /* a round of tasks stands between */
	tls_free(s->tls);
	s->magic = 0;
	free(s);
}

static void on_timer(void *arg)
{
	struct sock *s = arg;
	must(s->magic == SOCK_MAGIC);
	s->late = s->opening && !s->finished;
	s->events->on_over(s->arg);
}

static void on_task(void *arg)
{
	struct sock *s = arg;
	must(s->magic == SOCK_MAGIC);
	if (s->closed)
		uv_close((uv_handle_t *)&s->poll, on_handle_closed);
	else if (s->want_read && !s->finished)
		s->events->on_ready(s->arg);
}

static int open_tls(struct sock *s, const struct sock_config *config)
{
	s->tls = tls_new(config->tls, config->alpn);
	if (s->tls == NULL)
		return -ENOMEM;
	s->opening = true;
	s->seal_max = SEAL_MAX;
	env_timer_start(s->env, &s->timer, env_now_ms(s->env) + config->handshake_ms);
	return 0;
}

int sock_open(const struct sock_config *config, int fd, struct sock **ret_sock)
{
	struct sock *s = must_calloc(1, sizeof(*s));
	*s = (struct sock){ .magic = SOCK_MAGIC, .env = config->env, .events = config->events, .arg = config->arg,
			    .fd = fd, .readable = true };
	s->timer = (struct env_timer){ .on_fire = on_timer, .arg = s };
	s->task = (struct env_task){ .run = on_task, .arg = s };
	int r = uv_poll_init(env_uv_loop(s->env), &s->poll, fd);
	if (r < 0) {
		close(fd);
		free(s);
		return r;
	}
	s->poll.data = s;
	if (config->tls != NULL)
		r = open_tls(s, config);
	if (r < 0)
		sock_close(s);
	else
		*ret_sock = s;
	return r;
}

void sock_close(struct sock *s)
{
	if (s == NULL)
		return;
	must(s->magic == SOCK_MAGIC && !s->closed);
	s->closed = true;
	env_timer_stop(s->env, &s->timer);
	uv_poll_stop(&s->poll); /* before the descriptor goes, whose number may be another's then */
	close(s->fd);
	if (!s->task.queued)
		uv_close((uv_handle_t *)&s->poll, on_handle_closed);
}

/* ------------------------------------------------------------------ the kernel */

/* The result of a call, as sock_recv() and sock_send() have it. */
static ssize_t of_kernel(ssize_t n)
{
	if (n >= 0)
		return n;
	return errno == EINTR || errno == EWOULDBLOCK ? -EAGAIN : -errno;
}

static ssize_t kernel_recv(struct sock *s, void *p, size_t n)
{
	ssize_t got = of_kernel(recv(s->fd, p, n, 0));
	s->readable = got == (ssize_t)n;
	s->ended |= got == 0;
	return got;
}

static ssize_t kernel_send(struct sock *s, const struct iovec *iov, size_t n)
{
	struct msghdr msg = { .msg_iov = (struct iovec *)(uintptr_t)iov, .msg_iovlen = n };
	return of_kernel(sendmsg(s->fd, &msg, MSG_NOSIGNAL));
}

/* ------------------------------------------------------------------ TLS */

static bool has_owed(const struct sock *s)
{
	return s->tls != NULL && buf_len(tls_out(s->tls)) > 0;
}

/* 0 when the kernel has all that is owed to the peer. */
static int flush(struct sock *s)
{
	struct buf *out = tls_out(s->tls);
	while (buf_len(out) > 0) {
		struct iovec iov = { buf_head(out), buf_len(out) };
		ssize_t n = kernel_send(s, &iov, 1);
		if (n < 0)
			return (int)n;
		buf_consume(out, (size_t)n);
	}
	buf_reset(out, 0);
	return 0;
}

/* More from the peer. 0: there is none. */
static ssize_t pull(struct sock *s)
{
	struct buf *in = tls_in(s->tls);
	must(buf_len(in) == 0);
	if (s->ended)
		return 0;
	if (!s->readable || buf_len(tls_out(s->tls)) > OWED_MAX)
		return -EAGAIN;
	uint8_t *p = buf_reserve(in, PULL_MAX);
	if (p == NULL)
		return -ENOMEM;
	ssize_t n = kernel_recv(s, p, PULL_MAX);
	if (n > 0)
		buf_commit(in, (size_t)n);
	return n;
}

static void finish(struct sock *s, uint64_t linger_ms);

static int give_up(struct sock *s)
{
	flush(s); /* why, if it listens */
	if (!s->finished)
		finish(s, LINGER_MS);
	return -EAGAIN;
}

/* Goes on with the handshake. 0 when it is over; -ECONNRESET: the peer went before. */
static int open_up(struct sock *s)
{
	for (;;) {
		int r = tls_handshake(s->tls);
		if (r == -EPROTO)
			return give_up(s);
		int sent = flush(s);
		if (sent < 0 && sent != -EAGAIN)
			return sent;
		if (r == 0)
			break;
		ssize_t n = pull(s);
		if (n <= 0)
			return n == 0 ? -ECONNRESET : (int)n;
	}
	s->opening = false;
	env_timer_stop(s->env, &s->timer);
	return 0;
}

static ssize_t tls_recv(struct sock *s, uint8_t *p, size_t n)
{
	size_t have = 0;
	ssize_t got = s->opening ? open_up(s) : 0;
	if (got < 0)
		return got;
	while (have < n) {
		got = tls_read(s->tls, p + have, n - have);
		if (got == -EAGAIN && (got = pull(s)) > 0)
			continue;
		if (got <= 0)
			break;
		have += (size_t)got;
	}
	if (buf_len(tls_in(s->tls)) == 0)
		buf_reset(tls_in(s->tls), 0);
	s->ended |= have < n && got == 0;
	if (have > 0)
		return (ssize_t)have; /* the next call meets what came behind */
	if (got == -EPROTO)
		return give_up(s);
	int sent = flush(s);
	return sent < 0 && sent != -EAGAIN ? sent : got;
}

/* What goes into the next record: a long run as it stands, short ones put together. */
static struct slice next_record(const struct iovec **iov, size_t *n, size_t *used)
{
	static uint8_t together[TLS_RECORD_MAX];
	size_t have = 0;
	while (*n > 0 && have < sizeof(together)) {
		const uint8_t *p = (const uint8_t *)(*iov)->iov_base + *used;
		size_t left = (*iov)->iov_len - *used, take = sizeof(together) - have;
		bool whole = have == 0 && left >= take;
		take = left < take ? left : take;
		if (!whole)
			memcpy(together + have, p, take);
		have += take;
		*used += take;
		if (*used == (*iov)->iov_len) {
			++*iov;
			--*n;
			*used = 0;
		}
		if (whole)
			return slice_of(p, take);
	}
	return slice_of(together, have);
}

static int seal(struct sock *s, const struct iovec *iov, size_t n)
{
	size_t used = 0;
	while (s->sealed < s->seal_max) {
		struct slice record = next_record(&iov, &n, &used);
		if (record.n == 0)
			break;
		ssize_t r = tls_write(s->tls, record.p, record.n);
		if (r < 0)
			return (int)r;
		s->sealed += record.n;
	}
	return 0;
}

static ssize_t tls_send(struct sock *s, const struct iovec *iov, size_t n)
{
	int r = s->opening ? open_up(s) : 0;
	if (r == 0)
		r = flush(s);
	if (r == 0 && s->sealed == 0) {
		r = seal(s, iov, n);
		if (r == 0)
			r = flush(s);
		s->seal_max = r == 0 ? SEAL_MAX : TLS_RECORD_MAX;
	}
	if (r == -EPROTO)
		return give_up(s);
	if (r < 0)
		return r;
	size_t took = s->sealed;
	s->sealed = 0;
	return (ssize_t)took;
}

/* ------------------------------------------------------------------ bytes */

ssize_t sock_recv(struct sock *s, void *p, size_t n)
{
	must(n > 0);
	ssize_t got = s->tls != NULL ? tls_recv(s, p, n) : kernel_recv(s, p, n);
	s->end_told |= got == 0;
	return got;
}

ssize_t sock_send(struct sock *s, const struct iovec *iov, size_t n)
{
	return s->tls != NULL ? tls_send(s, iov, n) : kernel_send(s, iov, n);
}

/* ------------------------------------------------------------------ what is waited for */

static void sock_poll(struct sock *s)
{
	int events = 0;
	if ((s->want_read || s->opening || s->finished) && !s->ended)
		events |= UV_READABLE;
	if ((s->want_write && !s->opening) || has_owed(s))
		events |= UV_WRITABLE;
	if (events == 0 && !s->ended && !s->hung_up)
		events = UV_DISCONNECT;
	if (events == s->polled)
		return;
	s->polled = events;
	if (events == 0)
		uv_poll_stop(&s->poll);
	else
		must(uv_poll_start(&s->poll, events, on_poll) == 0);
}

/* Input that the kernel will not tell of any more. */
static bool holds_input(const struct sock *s)
{
	return s->tls != NULL && !s->opening && (tls_has_input(s->tls) || (s->ended && !s->end_told));
}

void sock_want(struct sock *s, bool read, bool write)
{
	if (s->finished)
		return;
	s->want_read = read;
	s->want_write = write;
	sock_poll(s);
	if (read && holds_input(s))
		env_defer(s->env, &s->task);
}

bool sock_is_readable(const struct sock *s)
{
	return !s->finished && (s->readable || holds_input(s));
}

void sock_expect(struct sock *s)
{
	s->readable = true;
}

bool sock_is_opening(const struct sock *s)
{
	return s->opening && !s->finished;
}

const char *sock_why(const struct sock *s)
{
	if (s->tls == NULL)
		return NULL;
	return s->late ? "the handshake took too long" : tls_why(s->tls);
}

const char *sock_protocol(const struct sock *s)
{
	return s->tls != NULL ? tls_protocol(s->tls) : "";
}

bool sock_is_hung_up(const struct sock *s)
{
	return s->hung_up;
}

/* ------------------------------------------------------------------ end */

/* When the kernel has the last byte. */
static void say_end(struct sock *s)
{
	if (!has_owed(s))
		shutdown(s->fd, SHUT_WR);
}

static void finish(struct sock *s, uint64_t linger_ms)
{
	s->finished = true;
	s->want_read = s->want_write = false;
	say_end(s);
	sock_poll(s);
	env_timer_start(s->env, &s->timer, env_now_ms(s->env) + linger_ms);
}

bool sock_finish(struct sock *s, bool soon)
{
	uint64_t linger_ms = soon ? LINGER_SOON_MS : LINGER_MS;
	if (s->opening)
		return false;
	if (s->tls != NULL && !s->finished) {
		tls_end(s->tls);
		flush(s);
	}
	if (s->ended)
		return false;
	if (!s->finished)
		finish(s, linger_ms);
	else if (s->timer.at_ms > env_now_ms(s->env) + linger_ms)
		env_timer_start(s->env, &s->timer, env_now_ms(s->env) + linger_ms);
	return true;
}

static void drop_input(struct sock *s)
{
	static uint8_t trash[65536];
	ssize_t n = 1;
	for (int i = 0; i < DROPS_A_TURN && n > 0; i++)
		n = kernel_recv(s, trash, sizeof(trash));
	if (n <= 0 && n != -EAGAIN)
		s->events->on_over(s->arg);
}

static void on_finished_poll(struct sock *s, int events)
{
	if (has_owed(s) && flush(s) == 0) {
		say_end(s);
		sock_poll(s);
	}
	if (events & UV_READABLE)
		drop_input(s);
}

static void on_poll(uv_poll_t *poll, int status, int events)
{
	struct sock *s = poll->data;
	must(s->magic == SOCK_MAGIC);
	s->readable |= (events & UV_READABLE) != 0;
	s->hung_up |= (events & UV_DISCONNECT) != 0;
	if (status < 0) {
		s->events->on_over(s->arg);
		return;
	}
	if (s->finished) {
		on_finished_poll(s, events);
		return;
	}
	int r = s->opening ? open_up(s) : 0;
	if (r == 0 && has_owed(s))
		r = flush(s);
	sock_poll(s);
	if (r < 0 && r != -EAGAIN)
		s->events->on_over(s->arg);
	else if (!s->opening)
		s->events->on_ready(s->arg);
}
