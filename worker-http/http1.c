/* SPDX-License-Identifier: Apache-2.0
 *
 * The head is scanned byte by byte until its empty line, refusing at the first byte that must not be
 * there, and taken apart in one pass when it is whole. So what is refused, and where, depends on the
 * bytes alone and never on how they were cut.
 *
 *   START -> head -> LENGTH ----------------------------> START
 *                 -> CHUNK_SIZE <-> CHUNK_DATA -> TRAILER -> START
 */
#include "worker-http/http1.h"

#include "common/must.h"

enum { START, LENGTH, CHUNK_SIZE, CHUNK_DATA, CHUNK_DATA_END, TRAILER, FAILED };

void http1_init(struct http1 *p)
{
	*p = (struct http1){ .state = START };
	buf_init(&p->in, HTTP1_HEAD_MAX + HTTP1_READ_MAX);
}

void http1_done(struct http1 *p)
{
	buf_done(&p->in);
}

bool http1_is_idle(const struct http1 *p)
{
	return p->state == START && buf_len(&p->in) == p->eat;
}

bool http1_is_in_head(const struct http1 *p)
{
	return p->state == START && buf_len(&p->in) > p->eat;
}

void http1_shrink(struct http1 *p, size_t keep)
{
	must(http1_is_idle(p));
	buf_reset(&p->in, keep);
	p->eat = 0;
}

static enum http1_event http1_fail(struct http1 *p, int status, const char *reason)
{
	p->state = FAILED;
	p->status = status;
	p->reason = reason;
	return HTTP1_ERROR;
}

/* ------------------------------------------------------------------ characters */

static bool is_token_char(uint8_t c)
{
	if ((c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'))
		return true;
	return c != 0 && strchr("!#$%&'*+-.^_`|~", c) != NULL;
}

bool http1_is_token(struct slice s)
{
	for (size_t i = 0; i < s.n; i++)
		if (!is_token_char(s.p[i]))
			return false;
	return s.n > 0;
}

bool http1_is_word(struct slice s, const char *lower)
{
	if (s.n != strlen(lower))
		return false;
	for (size_t i = 0; i < s.n; i++) {
		uint8_t c = s.p[i];
		if (c >= 'A' && c <= 'Z')
			c |= 0x20;
		if (c != (uint8_t)lower[i])
			return false;
	}
	return true;
}

static struct slice trim(struct slice s)
{
	while (s.n > 0 && (s.p[0] == ' ' || s.p[0] == '\t'))
		s.p++, s.n--;
	while (s.n > 0 && (s.p[s.n - 1] == ' ' || s.p[s.n - 1] == '\t'))
		s.n--;
	return s;
}

/* Takes the next element of a comma list off the front; false at its end. */
static bool list_next(struct slice *list, struct slice *ret_item)
{
	if (list->n == 0)
		return false;
	const uint8_t *comma = memchr(list->p, ',', list->n);
	size_t n = comma != NULL ? (size_t)(comma - list->p) : list->n;
	*ret_item = trim(slice_of(list->p, n));
	size_t skip = comma != NULL ? n + 1 : n;
	list->p += skip;
	list->n -= skip;
	return true;
}

/* ------------------------------------------------------------------ scanning */

enum scan { SCAN_MORE, SCAN_LINE, SCAN_FAILED };

/*
 * Looks for the end of the line that began at p->line; p->scan is one past its LF then. At most `max` bytes from the
 * begin of `in`; the caller has the status for more.
 */
static enum scan scan_line(struct http1 *p, size_t max, int status, const char *too_long)
{
	const uint8_t *bytes = buf_head(&p->in);
	size_t n = buf_len(&p->in);
	while (p->scan < n) {
		uint8_t c = bytes[p->scan];
		if (p->scan >= max)
			return http1_fail(p, status, too_long), SCAN_FAILED;
		p->scan++;
		if (p->cr) {
			if (c != '\n')
				return http1_fail(p, 400, "CR without LF"), SCAN_FAILED;
			p->cr = false;
			return SCAN_LINE;
		}
		if (c == '\r')
			p->cr = true;
		else if (c == '\n')
			return http1_fail(p, 400, "LF without CR"), SCAN_FAILED;
		else if ((c < 0x20 && c != '\t') || c == 0x7f)
			return http1_fail(p, 400, "control byte in a line"), SCAN_FAILED;
	}
	return SCAN_MORE;
}

/* Drops what was used and begins anew. */
static void scan_restart(struct http1 *p)
{
	buf_consume(&p->in, p->scan);
	p->scan = p->line = 0;
}

/* ------------------------------------------------------------------ the request line */

bool http1_take_target(struct http1_head *h, struct slice target)
{
	for (size_t i = 0; i < target.n; i++)
		if (target.p[i] <= 0x20 || target.p[i] >= 0x7f || target.p[i] == '#')
			return false;
	if (target.n == 1 && target.p[0] == '*') {
		h->path = target;
		h->query = slice_of(target.p + 1, 0);
		return slice_is(h->method, "OPTIONS");
	}
	if (target.n > 0 && target.p[0] != '/') { /* absolute-form, RFC 9112 3.2.2 */
		size_t scheme = target.n > 7 && http1_is_word(slice_of(target.p, 7), "http://") ? 7 :
			target.n > 8 && http1_is_word(slice_of(target.p, 8), "https://") ? 8 : 0;
		if (scheme == 0)
			return false;
		size_t i = scheme;
		while (i < target.n && target.p[i] != '/' && target.p[i] != '?')
			i++;
		if (i == scheme)
			return false;
		target = slice_of(target.p + i, target.n - i);
	}
	const uint8_t *q = target.n > 0 ? memchr(target.p, '?', target.n) : NULL;
	h->path = slice_of(target.p, q != NULL ? (size_t)(q - target.p) : target.n);
	h->query = q != NULL ? slice_of(q + 1, target.n - h->path.n - 1) : slice_of(target.p + target.n, 0);
	return true;
}

static bool parse_request_line(struct http1 *p, struct http1_head *h, struct slice line)
{
	const uint8_t *sp = memchr(line.p, ' ', line.n);
	if (sp == NULL || sp - line.p > 32)
		return http1_fail(p, 400, "malformed request line"), false;
	h->method = slice_of(line.p, (size_t)(sp - line.p));
	struct slice rest = slice_of(sp + 1, line.n - h->method.n - 1);
	const uint8_t *sp2 = memchr(rest.p, ' ', rest.n);
	if (!http1_is_token(h->method) || sp2 == NULL || sp2 == rest.p)
		return http1_fail(p, 400, "malformed request line"), false;
	struct slice target = slice_of(rest.p, (size_t)(sp2 - rest.p));
	struct slice version = slice_of(sp2 + 1, rest.n - target.n - 1);
	if (target.n > HTTP1_TARGET_MAX)
		return http1_fail(p, 414, "the request target is longer than 16 KiB"), false;
	if (version.n != 8 || memcmp(version.p, "HTTP/", 5) != 0 || version.p[6] != '.' ||
	    version.p[5] < '0' || version.p[5] > '9' || version.p[7] < '0' || version.p[7] > '9')
		return http1_fail(p, 400, "malformed HTTP version"), false;
	if (version.p[5] != '1' || version.p[7] > '1')
		return http1_fail(p, 505, "only HTTP/1.1 and HTTP/1.0 are spoken here"), false;
	h->minor = version.p[7] - '0';
	if (!http1_take_target(h, target))
		return http1_fail(p, 400, "malformed request target"), false;
	return true;
}

/* ------------------------------------------------------------------ fields */

static bool parse_field(struct http1 *p, struct slice line, struct http1_field *ret_field)
{
	if (line.p[0] == ' ' || line.p[0] == '\t')
		return http1_fail(p, 400, "folded header line"), false;
	const uint8_t *colon = memchr(line.p, ':', line.n);
	if (colon == NULL)
		return http1_fail(p, 400, "header line without a colon"), false;
	ret_field->name = slice_of(line.p, (size_t)(colon - line.p));
	if (!http1_is_token(ret_field->name))
		return http1_fail(p, 400, "malformed header name"), false;
	ret_field->value = trim(slice_of(colon + 1, line.n - ret_field->name.n - 1));
	return true;
}

bool http1_is_host(struct slice v)
{
	for (size_t i = 0; i < v.n; i++)
		if (v.p[i] <= 0x20 || v.p[i] >= 0x7f || strchr(",/@?#\\<>\"{}|^`", v.p[i]) != NULL)
			return false;
	return true;
}

bool http1_take_length(struct slice v, uint64_t *ret_length)
{
	uint64_t length = 0;
	if (v.n < 1 || v.n > 18)
		return false;
	for (size_t i = 0; i < v.n; i++) {
		if (v.p[i] < '0' || v.p[i] > '9')
			return false;
		length = length * 10 + (v.p[i] - '0');
	}
	*ret_length = length;
	return true;
}

/* What the message's framing depends on, gathered over all fields. */
struct framing {
	unsigned n_hosts, n_lengths, n_encodings;
	bool close, keep_alive;
};

static bool take_connection(struct framing *f, struct slice list)
{
	struct slice word;
	while (list_next(&list, &word)) {
		if (http1_is_word(word, "close"))
			f->close = true;
		else if (http1_is_word(word, "keep-alive"))
			f->keep_alive = true;
	}
	return true;
}

static bool take_field(struct http1 *p, struct http1_head *h, struct framing *f, const struct http1_field *field)
{
	if (http1_is_word(field->name, "host")) {
		if (++f->n_hosts > 1 || !http1_is_host(field->value))
			return http1_fail(p, 400, "repeated or malformed Host"), false;
	} else if (http1_is_word(field->name, "content-length")) {
		if (++f->n_lengths > 1 || !http1_take_length(field->value, &h->content_length))
			return http1_fail(p, 400, "repeated or malformed Content-Length"), false;
		h->has_length = true;
	} else if (http1_is_word(field->name, "transfer-encoding")) {
		if (++f->n_encodings > 1 || !slice_is(field->value, "chunked"))
			return http1_fail(p, 400, "Transfer-Encoding other than chunked"), false;
		h->chunked = true;
	} else if (http1_is_word(field->name, "connection")) {
		return take_connection(f, field->value);
	} else if (http1_is_word(field->name, "expect")) {
		if (http1_is_word(field->value, "100-continue"))
			h->expect_continue = h->minor == 1;
		else
			h->expect_unknown = true;
	}
	return true;
}

static bool check_framing(struct http1 *p, struct http1_head *h, const struct framing *f)
{
	if (f->n_hosts == 0 && h->minor == 1)
		return http1_fail(p, 400, "missing Host"), false;
	if (h->chunked && h->minor == 0)
		return http1_fail(p, 400, "Transfer-Encoding in HTTP/1.0"), false;
	if (h->chunked && h->has_length)
		return http1_fail(p, 400, "Transfer-Encoding with Content-Length"), false;
	h->keep_alive = !f->close && (h->minor == 1 || f->keep_alive);
	return true;
}

/* The line that begins at *at, without its CRLF; the head is known to hold one. */
static struct slice take_line(struct slice bytes, size_t *at)
{
	const uint8_t *begin = bytes.p + *at;
	const uint8_t *lf = memchr(begin, '\n', bytes.n - *at);
	must(lf != NULL && lf > begin && lf[-1] == '\r');
	*at = (size_t)(lf - bytes.p) + 1;
	return slice_of(begin, (size_t)(lf - begin) - 1);
}

static bool parse_head(struct http1 *p, struct http1_head *h, struct slice bytes)
{
	struct framing f = { 0 };
	size_t at = 0;
	h->bytes = bytes;
	h->n_fields = 0;
	h->keep_alive = h->expect_continue = h->expect_unknown = h->chunked = h->has_length = false;
	h->content_length = 0;
	if (!parse_request_line(p, h, take_line(bytes, &at)))
		return false;
	for (;;) {
		struct slice line = take_line(bytes, &at);
		if (line.n == 0)
			break;
		if (h->n_fields == HTTP1_HEADERS_MAX)
			return http1_fail(p, 431, "more than 100 headers"), false;
		struct http1_field *field = &h->field[h->n_fields++];
		if (!parse_field(p, line, field) || !take_field(p, h, &f, field))
			return false;
	}
	return check_framing(p, h, &f);
}

/* ------------------------------------------------------------------ states */

static enum http1_event next_head(struct http1 *p, struct http1_head *head)
{
	for (;;) {
		bool first = p->line == 0;
		enum scan s = first ? scan_line(p, HTTP1_TARGET_MAX + 64, 414, "the request target is longer than 16 KiB") :
			scan_line(p, HTTP1_HEAD_MAX, 431, "the request head is longer than 64 KiB");
		if (s != SCAN_LINE)
			return s == SCAN_MORE ? HTTP1_MORE : HTTP1_ERROR;
		bool empty = p->scan - p->line == 2;
		if (!empty) {
			p->line = p->scan;
			continue;
		}
		if (!first)
			break;
		if (p->blank) /* RFC 9112 2.2: at least one is forgiven; we forgive one */
			return http1_fail(p, 400, "empty line instead of a request");
		p->blank = true;
		scan_restart(p);
	}
	if (!parse_head(p, head, slice_of(buf_head(&p->in), p->scan)))
		return HTTP1_ERROR;
	p->eat = p->scan;
	p->scan = p->line = p->extensions = 0;
	p->left = head->content_length;
	p->blank = false;
	p->state = head->chunked ? CHUNK_SIZE : LENGTH;
	return HTTP1_HEAD;
}

/* Gives what is there of p->left bytes; false when there is nothing. */
static bool next_piece(struct http1 *p)
{
	size_t n = buf_len(&p->in);
	if (n > p->left)
		n = (size_t)p->left;
	p->piece = slice_of(buf_head(&p->in), n);
	p->left -= n;
	p->eat = n;
	return n > 0;
}

static enum http1_event next_length(struct http1 *p)
{
	if (p->left == 0) {
		p->state = START;
		return HTTP1_END;
	}
	return next_piece(p) ? HTTP1_BODY : HTTP1_MORE;
}

static int hex_digit(uint8_t c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	c |= 0x20;
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static enum http1_event next_chunk_size(struct http1 *p)
{
	enum scan s = scan_line(p, HTTP1_CHUNK_LINE_MAX, 400, "chunk extension is too long");
	if (s != SCAN_LINE)
		return s == SCAN_MORE ? HTTP1_MORE : HTTP1_ERROR;
	const uint8_t *line = buf_head(&p->in);
	size_t n = p->scan - 2, i = 0;
	uint64_t size = 0;
	for (; i < n && hex_digit(line[i]) >= 0; i++)
		size = size << 4 | (uint64_t)hex_digit(line[i]);
	if (i == 0 || i > 15 || (i < n && line[i] != ';'))
		return http1_fail(p, 400, "malformed chunk size");
	p->extensions += n - i;
	if (p->extensions > HTTP1_CHUNK_EXT_MAX)
		return http1_fail(p, 400, "too many chunk extensions");
	scan_restart(p);
	p->left = size;
	p->state = size > 0 ? CHUNK_DATA : TRAILER;
	return HTTP1_MORE;
}

static enum http1_event next_chunk_data(struct http1 *p)
{
	if (p->left == 0)
		p->state = CHUNK_DATA_END;
	else if (next_piece(p))
		return HTTP1_BODY;
	return HTTP1_MORE;
}

static enum http1_event next_chunk_data_end(struct http1 *p)
{
	static const uint8_t crlf[2] = "\r\n";
	for (; p->scan < 2 && p->scan < buf_len(&p->in); p->scan++)
		if (buf_head(&p->in)[p->scan] != crlf[p->scan])
			return http1_fail(p, 400, "chunk is longer than its size");
	if (p->scan == 2) {
		scan_restart(p);
		p->state = CHUNK_SIZE;
	}
	return HTTP1_MORE;
}

/* Trailer fields are checked as headers are, then dropped. */
static enum http1_event next_trailer(struct http1 *p)
{
	for (;;) {
		enum scan s = scan_line(p, HTTP1_TRAILER_MAX, 431, "the trailers are longer than 8 KiB");
		if (s != SCAN_LINE)
			return s == SCAN_MORE ? HTTP1_MORE : HTTP1_ERROR;
		struct slice line = slice_of(buf_head(&p->in) + p->line, p->scan - p->line - 2);
		struct http1_field field;
		if (line.n == 0)
			break;
		if (!parse_field(p, line, &field))
			return HTTP1_ERROR;
		p->line = p->scan;
	}
	scan_restart(p);
	p->state = START;
	return HTTP1_END;
}

static enum http1_event step(struct http1 *p, struct http1_head *head)
{
	switch (p->state) {
	case START:
		return next_head(p, head);
	case LENGTH:
		return next_length(p);
	case CHUNK_SIZE:
		return next_chunk_size(p);
	case CHUNK_DATA:
		return next_chunk_data(p);
	case CHUNK_DATA_END:
		return next_chunk_data_end(p);
	case TRAILER:
		return next_trailer(p);
	}
	return HTTP1_ERROR;
}

enum http1_event http1_next(struct http1 *p, struct http1_head *head)
{
	if (p->eat > 0) {
		buf_consume(&p->in, p->eat);
		p->eat = 0;
	}
	for (;;) {
		unsigned before = p->state;
		enum http1_event e = step(p, head);
		if (e != HTTP1_MORE || p->state == before)
			return e;
	}
}
