/* SPDX-License-Identifier: Apache-2.0
 *
 * What has come is taken apart line by line; of a body only the count is kept, so bytes of all connections go to one
 * place.
 */
#include "cli/bench_http.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <strings.h>

#include "cli/cli.h"

#define IN_SIZE (256u << 10)
#define LINE_BYTES_MAX 8192

enum where { IN_STATUS, IN_HEADERS, IN_BODY, IN_CHUNK_SIZE, IN_CHUNK, IN_CHUNK_END, IN_TRAILERS };

struct http {
	enum where where;
	struct buf line;
	bool chunked, whole;
	uint64_t left;                  /* of the body or chunk */
	struct bench_answer answer;
	const uint8_t *p;               /* not looked at yet */
	size_t n;
};

static uint8_t bytes[IN_SIZE];

static void http_init(void *state)
{
	buf_init(&((struct http *)state)->line, LINE_BYTES_MAX);
}

static void http_done(void *state)
{
	buf_done(&((struct http *)state)->line);
}

static uint8_t *http_room(void *state, size_t *ret_n)
{
	*ret_n = sizeof(bytes);
	return bytes;
}

static void http_put(void *state, size_t n)
{
	struct http *h = state;
	h->p = bytes;
	h->n = n;
}

const struct bench_answer *bench_http_answer(const void *state)
{
	return &((const struct http *)state)->answer;
}

static void answer_end(struct http *h)
{
	h->where = IN_STATUS;
	h->whole = true;
}

static void headers_end(struct http *h)
{
	h->where = h->chunked ? IN_CHUNK_SIZE : IN_BODY;
	if (h->answer.status == 100)
		h->where = IN_STATUS;
	else if (h->where == IN_BODY && h->left == 0)
		answer_end(h);
}

/* The value of a header line, or NULL when it is another one. */
static const char *value_of(const char *line, const char *name)
{
	size_t n = strlen(name);
	return strncasecmp(line, name, n) == 0 && line[n] == ':' ? line + n + 1 + strspn(line + n + 1, " ") : NULL;
}

static void take_header(struct http *h, const char *line)
{
	const char *v;
	if ((v = value_of(line, "Content-Length")) != NULL)
		h->left = strtoull(v, NULL, 10);
	else if ((v = value_of(line, "Transfer-Encoding")) != NULL)
		h->chunked = strcasecmp(v, "chunked") == 0;
	else if ((v = value_of(line, "Pico-Next-Seq")) != NULL)
		h->answer.next_seq = strtoull(v, NULL, 10);
	else if ((v = value_of(line, "Pico-Up-To-Date")) != NULL)
		h->answer.up_to_date = strcmp(v, "true") == 0;
}

/* One line without its end. False when it makes no sense there. */
static bool take_line(struct http *h, const char *line)
{
	switch (h->where) {
	case IN_STATUS:
		h->answer = (struct bench_answer){ 0 };
		h->chunked = false;
		h->left = 0;
		h->where = IN_HEADERS;
		return sscanf(line, "HTTP/1.1 %u", &h->answer.status) == 1;
	case IN_HEADERS:
		if (line[0] == '\0')
			headers_end(h);
		else
			take_header(h, line);
		return true;
	case IN_CHUNK_SIZE:
		h->left = strtoull(line, NULL, 16);
		h->where = h->left > 0 ? IN_CHUNK : IN_TRAILERS;
		return true;
	case IN_CHUNK_END:
		h->where = IN_CHUNK_SIZE;
		return line[0] == '\0';
	case IN_TRAILERS:
		if (line[0] == '\0')
			answer_end(h);
		return true;
	case IN_BODY:
	case IN_CHUNK:
		break;
	}
	return false;
}

static void step(struct http *h, size_t n)
{
	h->p += n;
	h->n -= n;
}

/* Takes bytes up to the end of a line, and the line when its end is there. False: too long, or senseless. */
static bool take_line_bytes(struct http *h)
{
	const uint8_t *end = memchr(h->p, '\n', h->n);
	size_t taken = end != NULL ? (size_t)(end - h->p) + 1 : h->n;
	buf_put(&h->line, h->p, taken);
	step(h, taken);
	if (end == NULL || h->line.failed)
		return !h->line.failed;
	char *line = (char *)buf_head(&h->line);
	size_t len = buf_len(&h->line) - 1;
	line[len > 0 && line[len - 1] == '\r' ? len - 1 : len] = '\0';
	bool good = take_line(h, line);
	buf_reset(&h->line, LINE_BYTES_MAX);
	return good;
}

static void take_body_bytes(struct http *h)
{
	size_t taken = h->n < h->left ? h->n : (size_t)h->left;
	h->left -= taken;
	h->answer.body_bytes += taken;
	step(h, taken);
	if (h->left == 0 && h->where == IN_BODY)
		answer_end(h);
	else if (h->left == 0)
		h->where = IN_CHUNK_END;
}

static int http_answer(void *state)
{
	struct http *h = state;
	for (h->whole = false; h->n > 0 && !h->whole; ) {
		if (h->where == IN_BODY || h->where == IN_CHUNK)
			take_body_bytes(h);
		else if (!take_line_bytes(h))
			return -EBADMSG;
	}
	return h->whole;
}

const struct bench_wire bench_http_wire = {
	.name = "HTTP/1.1", .size = sizeof(struct http), .init = http_init, .done = http_done, .room = http_room,
	.put = http_put, .answer = http_answer,
};

int bench_http_address(const char *endpoint, struct bench_address *ret)
{
	*ret = (struct bench_address){ .port = "80" };
	if (sscanf(endpoint, "http://[%255[^]/]]:%7[0-9]", ret->host, ret->port) < 1 &&
	    sscanf(endpoint, "http://%255[^:/]:%7[0-9]", ret->host, ret->port) < 1)
		return cli_fail(CLI_USAGE, "bench needs an endpoint like http://127.0.0.1:4437, not \"%s\"", endpoint);
	return CLI_OK;
}
