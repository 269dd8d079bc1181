/* SPDX-License-Identifier: Apache-2.0
 *
 * One thread, one poll loop. A connection keeps at most `depth` requests under way and asks for the next one only while
 * few bytes wait for its socket, so its memory is bounded.
 */
#include "cli/bench_loop.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "cli/cli.h"
#include "common/must.h"

#define OUT_MAX (200u << 20)
#define OUT_ENOUGH (256u << 10)         /* bytes waiting for a socket: no further request */
#define STALL_NS (65u * 1000000000ull)
#define POLL_MS 5

struct sent {
	uint64_t started_ns;
	uint64_t number;
};

struct connection {
	int fd;                         /* -1: not open */
	struct buf out;
	void *state;                    /* the wire's */
	struct sent *sent;              /* a ring of `depth` */
	unsigned first, n;              /* of it */
	bool ended;
};

struct run {
	const struct bench_load *load;
	struct connection *connection;
	struct pollfd *poll;
	uint64_t last_ns;               /* something was answered */
	bool over;                      /* on_answer() said so */
	char fault[200];                /* "": none */
};

uint64_t bench_now_ns(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* -------------------------------------------------------------------- sockets */

static void fail(struct run *run, const char *what)
{
	if (run->fault[0] == '\0')
		snprintf(run->fault, sizeof(run->fault), "%s", what);
}

static void answer_end(struct run *run, struct connection *c)
{
	struct sent *s = &c->sent[c->first];
	run->last_ns = bench_now_ns();
	struct bench_time t = { .started_ns = s->started_ns, .took_ns = run->last_ns - s->started_ns };
	c->first = (c->first + 1) % run->load->depth;
	c->n--;
	run->over |= !run->load->on_answer(run->load->arg, (unsigned)(c - run->connection), s->number, c->state, &t);
}

static void take_answers(struct run *run, struct connection *c)
{
	const struct bench_wire *wire = run->load->wire;
	int rc = 0;
	while (!run->over && (rc = wire->answer(c->state)) > 0 && c->n > 0)
		answer_end(run, c);
	if (rc != 0 && !run->over) {
		char what[100];
		snprintf(what, sizeof(what), rc < 0 ? "the answer is not %s" : "an answer that nothing asked for, in %s",
			 wire->name);
		fail(run, what);
	}
}

static void connection_read(struct run *run, struct connection *c)
{
	size_t room = 0;
	uint8_t *to = run->load->wire->room(c->state, &room);
	if (to == NULL) {
		fail(run, "an answer is too large");
		return;
	}
	ssize_t n = recv(c->fd, to, room, MSG_DONTWAIT);
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n <= 0) {
		fail(run, n == 0 ? "the node closed the connection" : strerror(errno));
		return;
	}
	run->load->wire->put(c->state, (size_t)n);
	take_answers(run, c);
}

static void connection_write(struct run *run, struct connection *c)
{
	while (buf_len(&c->out) > 0) {
		ssize_t n = send(c->fd, buf_head(&c->out), buf_len(&c->out), MSG_DONTWAIT | MSG_NOSIGNAL);
		if (n < 0 && errno != EAGAIN && errno != EINTR)
			fail(run, strerror(errno));
		if (n < 0)
			return;
		buf_consume(&c->out, (size_t)n);
	}
}

static void connection_fill(struct run *run, struct connection *c)
{
	const struct bench_load *load = run->load;
	while (!c->ended && c->n < load->depth && buf_len(&c->out) < OUT_ENOUGH) {
		struct sent *s = &c->sent[(c->first + c->n) % load->depth];
		enum bench_next next = load->next(load->arg, (unsigned)(c - run->connection), &c->out, &s->number);
		must(!c->out.failed);
		c->ended = next == BENCH_END;
		if (next == BENCH_LATER || next == BENCH_END)
			return;
		s->started_ns = bench_now_ns();
		if (next == BENCH_REQUEST)
			c->n++;
		else
			run->last_ns = s->started_ns;
	}
}

static int connect_to(const struct addrinfo *list)
{
	int err = -EADDRNOTAVAIL, one = 1;
	for (const struct addrinfo *a = list; a != NULL; a = a->ai_next) {
		int fd = socket(a->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
		if (fd >= 0 && connect(fd, a->ai_addr, a->ai_addrlen) == 0) {
			setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
			return fd;
		}
		err = -errno;
		if (fd >= 0)
			close(fd);
	}
	return err;
}

/* 0 or an exit code, told. */
static int connection_open(struct connection *c, const struct bench_address *to)
{
	const struct addrinfo hints = { .ai_socktype = SOCK_STREAM };
	struct addrinfo *list;
	int r = getaddrinfo(to->host, to->port, &hints, &list);
	if (r != 0)
		return cli_fail(CLI_FAILED, "%s:%s: %s", to->host, to->port, gai_strerror(r));
	c->fd = connect_to(list);
	freeaddrinfo(list);
	if (c->fd >= 0)
		return CLI_OK;
	return cli_fail(CLI_FAILED, "%s:%s: %s; is a node running there?", to->host, to->port, strerror(-c->fd));
}

static int run_open(struct run *run)
{
	int code = CLI_OK;
	for (unsigned i = 0; i < run->load->connections && code == CLI_OK; i++)
		code = connection_open(&run->connection[i], &run->load->address[i % run->load->n_addresses]);
	return code;
}

/* One turn; false when all is done. */
static bool run_turn(struct run *run)
{
	bool busy = false;
	for (unsigned i = 0; i < run->load->connections; i++) {
		struct connection *c = &run->connection[i];
		connection_fill(run, c);
		connection_write(run, c);
		run->poll[i] = (struct pollfd){ .fd = c->fd, .events = POLLIN };
		if (buf_len(&c->out) > 0)
			run->poll[i].events |= POLLOUT;
		busy |= !c->ended || c->n > 0 || buf_len(&c->out) > 0;
	}
	if (!busy)
		return false;
	poll(run->poll, run->load->connections, POLL_MS);
	for (unsigned i = 0; i < run->load->connections && !run->over; i++) {
		if (run->poll[i].revents != 0)
			connection_read(run, &run->connection[i]);
	}
	if (bench_now_ns() - run->last_ns > STALL_NS)
		fail(run, "no answer for 65 s");
	return true;
}

static void run_init(struct run *run, const struct bench_load *load)
{
	*run = (struct run){ .load = load, .last_ns = bench_now_ns() };
	run->connection = must_calloc(load->connections, sizeof(*run->connection));
	run->poll = must_calloc(load->connections, sizeof(*run->poll));
	for (unsigned i = 0; i < load->connections; i++) {
		run->connection[i].fd = -1;
		run->connection[i].sent = must_calloc(load->depth, sizeof(struct sent));
		buf_init(&run->connection[i].out, OUT_MAX);
		run->connection[i].state = must_calloc(1, load->wire->size);
		load->wire->init(run->connection[i].state);
	}
}

static void run_done(struct run *run)
{
	for (unsigned i = 0; i < run->load->connections; i++) {
		struct connection *c = &run->connection[i];
		if (c->fd >= 0)
			close(c->fd);
		buf_done(&c->out);
		run->load->wire->done(c->state);
		free(c->state);
		free(c->sent);
	}
	free(run->connection);
	free(run->poll);
}

int bench_run(const struct bench_load *load)
{
	struct run run;
	run_init(&run, load);
	int code = run_open(&run);
	while (code == CLI_OK && !run.over && run.fault[0] == '\0' && run_turn(&run))
		;
	if (run.fault[0] != '\0')
		code = cli_fail(CLI_FAILED, "%s:%s: %s", load->address->host, load->address->port, run.fault);
	run_done(&run);
	return code;
}
