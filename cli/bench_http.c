/* SPDX-License-Identifier: Apache-2.0
 *
 * One thread, one poll loop. A connection keeps at most `depth` requests under way and asks for the next one only while
 * few bytes wait for its socket, so its memory is bounded. Bodies of answers are counted and thrown away.
 */
#include "cli/bench_http.h"

#include <errno.h>
#include <inttypes.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <strings.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "cli/cli.h"
#include "common/must.h"

#define OUT_MAX (200u << 20)
#define OUT_ENOUGH (256u << 10)         /* bytes waiting for a socket: no further request */
#define IN_SIZE (256u << 10)
#define LINE_BYTES_MAX 8192
#define STALL_NS (65u * 1000000000ull)
#define POLL_MS 5

enum state { IN_STATUS, IN_HEADERS, IN_BODY, IN_CHUNK_SIZE, IN_CHUNK, IN_CHUNK_END, IN_TRAILERS };

struct sent {
	uint64_t started_ns;
	uint32_t number;
};

struct connection {
	int fd;                         /* -1: not open */
	struct buf out, line;
	struct sent *sent;              /* a ring of `depth` */
	unsigned first, n;              /* of it */
	bool ended;
	enum state state;
	bool chunked;
	uint64_t left;                  /* of the body or chunk */
	struct bench_answer answer;
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

/* -------------------------------------------------------------------- answers */

static bool answer_end(struct run *run, struct connection *c)
{
	struct sent *s = &c->sent[c->first];
	run->last_ns = bench_now_ns();
	c->answer.started_ns = s->started_ns;
	c->answer.took_ns = run->last_ns - s->started_ns;
	c->first = (c->first + 1) % run->load->depth;
	c->n--;
	c->state = IN_STATUS;
	run->over |= !run->load->on_answer(run->load->arg, (unsigned)(c - run->connection), s->number, &c->answer);
	return true;
}

static bool headers_end(struct run *run, struct connection *c)
{
	c->state = c->chunked ? IN_CHUNK_SIZE : IN_BODY;
	if (c->answer.status == 100)
		c->state = IN_STATUS;
	return c->state != IN_BODY || c->left > 0 || answer_end(run, c);
}

/* The value of a header line, or NULL when it is another one. */
static const char *value_of(const char *line, const char *name)
{
	size_t n = strlen(name);
	return strncasecmp(line, name, n) == 0 && line[n] == ':' ? line + n + 1 + strspn(line + n + 1, " ") : NULL;
}

static void take_header(struct connection *c, const char *line)
{
	const char *v;
	if ((v = value_of(line, "Content-Length")) != NULL)
		c->left = strtoull(v, NULL, 10);
	else if ((v = value_of(line, "Transfer-Encoding")) != NULL)
		c->chunked = strcasecmp(v, "chunked") == 0;
	else if ((v = value_of(line, "Pico-Next-Seq")) != NULL)
		c->answer.next_seq = strtoull(v, NULL, 10);
	else if ((v = value_of(line, "Pico-Up-To-Date")) != NULL)
		c->answer.up_to_date = strcmp(v, "true") == 0;
}

/* One line without its end. False when it makes no sense there. */
static bool take_answer_line(struct run *run, struct connection *c, const char *line)
{
	switch (c->state) {
	case IN_STATUS:
		c->answer = (struct bench_answer){ 0 };
		c->chunked = false;
		c->left = 0;
		c->state = IN_HEADERS;
		return c->n > 0 && sscanf(line, "HTTP/1.1 %u", &c->answer.status) == 1;
	case IN_HEADERS:
		if (line[0] == '\0')
			return headers_end(run, c);
		take_header(c, line);
		return true;
	case IN_CHUNK_SIZE:
		c->left = strtoull(line, NULL, 16);
		c->state = c->left > 0 ? IN_CHUNK : IN_TRAILERS;
		return true;
	case IN_CHUNK_END:
		c->state = IN_CHUNK_SIZE;
		return line[0] == '\0';
	case IN_TRAILERS:
		return line[0] != '\0' || answer_end(run, c);
	case IN_BODY:
	case IN_CHUNK:
		break;
	}
	return false;
}

/* Takes bytes up to the end of a line; the line itself when that is there. Negative: too long, or senseless. */
static ssize_t take_line_bytes(struct run *run, struct connection *c, const char *p, size_t n)
{
	const char *end = memchr(p, '\n', n);
	size_t taken = end != NULL ? (size_t)(end - p) + 1 : n;
	buf_put(&c->line, p, taken);
	if (end != NULL && !c->line.failed) {
		char *line = (char *)buf_head(&c->line);
		size_t len = buf_len(&c->line) - 1;
		line[len > 0 && line[len - 1] == '\r' ? len - 1 : len] = '\0';
		if (!take_answer_line(run, c, line))
			return -EBADMSG;
		buf_reset(&c->line, LINE_BYTES_MAX);
	}
	return c->line.failed ? -EBADMSG : (ssize_t)taken;
}

static bool take_bytes(struct run *run, struct connection *c, const char *p, size_t n)
{
	while (n > 0 && !run->over) {
		ssize_t taken;
		if (c->state == IN_BODY || c->state == IN_CHUNK) {
			taken = (ssize_t)(n < c->left ? n : c->left);
			c->left -= (size_t)taken;
			c->answer.body_bytes += (size_t)taken;
			if (c->left == 0 && c->state == IN_BODY)
				answer_end(run, c);
			else if (c->left == 0)
				c->state = IN_CHUNK_END;
		} else {
			taken = take_line_bytes(run, c, p, n);
		}
		if (taken < 0)
			return false;
		p += taken;
		n -= (size_t)taken;
	}
	return true;
}

/* -------------------------------------------------------------------- sockets */

static void fail(struct run *run, const char *what)
{
	if (run->fault[0] == '\0')
		snprintf(run->fault, sizeof(run->fault), "%s", what);
}

static void connection_read(struct run *run, struct connection *c)
{
	static char bytes[IN_SIZE];
	ssize_t n = recv(c->fd, bytes, sizeof(bytes), MSG_DONTWAIT);
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n == 0)
		fail(run, "the node closed the connection");
	else if (n < 0)
		fail(run, strerror(errno));
	else if (!take_bytes(run, c, bytes, (size_t)n))
		fail(run, "the answer is not HTTP/1.1");
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
		c->ended = next == BENCH_END;
		if (next != BENCH_REQUEST)
			return;
		must(!c->out.failed);
		s->started_ns = bench_now_ns();
		c->n++;
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
static int run_open(struct run *run)
{
	char host[256] = "", port[8] = "80";
	const struct addrinfo hints = { .ai_socktype = SOCK_STREAM };
	struct addrinfo *list;
	const char *endpoint = run->load->endpoint;
	if (sscanf(endpoint, "http://[%255[^]/]]:%7[0-9]", host, port) < 1 &&
	    sscanf(endpoint, "http://%255[^:/]:%7[0-9]", host, port) < 1)
		return cli_fail(CLI_USAGE, "bench needs an endpoint like http://127.0.0.1:4437, not \"%s\"", endpoint);
	int r = getaddrinfo(host, port, &hints, &list);
	if (r != 0)
		return cli_fail(CLI_FAILED, "%s: %s", endpoint, gai_strerror(r));
	int code = CLI_OK;
	for (unsigned i = 0; i < run->load->connections && code == CLI_OK; i++) {
		run->connection[i].fd = connect_to(list);
		if (run->connection[i].fd < 0)
			code = cli_fail(CLI_FAILED, "%s: %s", endpoint, strerror(-run->connection[i].fd));
	}
	freeaddrinfo(list);
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
		busy |= !c->ended || c->n > 0;
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
		buf_init(&run->connection[i].line, LINE_BYTES_MAX);
	}
}

static void run_done(struct run *run)
{
	for (unsigned i = 0; i < run->load->connections; i++) {
		struct connection *c = &run->connection[i];
		if (c->fd >= 0)
			close(c->fd);
		buf_done(&c->out);
		buf_done(&c->line);
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
		code = cli_fail(CLI_FAILED, "%s: %s", load->endpoint, run.fault);
	run_done(&run);
	return code;
}
