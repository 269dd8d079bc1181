/* SPDX-License-Identifier: Apache-2.0
 *
 * Any bytes as HTTP/1.1 requests: what is understood does not depend on how the bytes were cut, slices
 * stay inside the head, and no accepted head has what RFC 9112 forbids.
 */
#include "common/must.h"
#include "t/fuzz/fuzz.h"
#include "worker-http/http1.h"

static void check_inside(struct slice s, struct slice bytes)
{
	must(s.p >= bytes.p && s.p + s.n <= bytes.p + bytes.n);
}

static void check_head(const struct http1_head *h)
{
	bool cr = false;
	must(h->n_fields <= HTTP1_HEADERS_MAX && h->bytes.n <= HTTP1_HEAD_MAX);
	must(http1_is_token(h->method) && !(h->chunked && (h->has_length || h->minor == 0)));
	check_inside(h->method, h->bytes);
	check_inside(h->path, h->bytes);
	check_inside(h->query, h->bytes);
	for (size_t i = 0; i < h->bytes.n; i++) {
		uint8_t c = h->bytes.p[i];
		must((c == '\n') == cr);
		must(c >= 0x20 || c == '\t' || c == '\r' || c == '\n');
		cr = c == '\r';
	}
	for (unsigned i = 0; i < h->n_fields; i++) {
		must(http1_is_token(h->field[i].name));
		check_inside(h->field[i].name, h->bytes);
		check_inside(h->field[i].value, h->bytes);
	}
}

static void write_head(const struct http1_head *h, struct buf *out)
{
	buf_printf(out, "HEAD minor=%u alive=%d expect=%d%d chunked=%d length=%d:%llu\n", h->minor, h->keep_alive,
		   h->expect_continue, h->expect_unknown, h->chunked, h->has_length,
		   (unsigned long long)h->content_length);
	buf_put_slice(out, h->method);
	buf_put_u8(out, ' ');
	buf_put_slice(out, h->path);
	buf_put_u8(out, '?');
	buf_put_slice(out, h->query);
	for (unsigned i = 0; i < h->n_fields; i++) {
		buf_put_u8(out, '\n');
		buf_put_slice(out, h->field[i].name);
		buf_put_u8(out, '=');
		buf_put_slice(out, h->field[i].value);
	}
	buf_put_u8(out, '\n');
}

/* Pulls all events; false after an error. */
static bool pull(struct http1 *p, struct buf *out)
{
	static struct http1_head head;
	for (;;) {
		switch (http1_next(p, &head)) {
		case HTTP1_MORE:
			must(!http1_is_idle(p) || buf_len(&p->in) == 0);
			return true;
		case HTTP1_HEAD:
			check_head(&head);
			write_head(&head, out);
			break;
		case HTTP1_BODY:
			must(p->piece.n > 0);
			buf_put_slice(out, p->piece);
			break;
		case HTTP1_END:
			buf_put_str(out, "\nEND\n");
			break;
		case HTTP1_ERROR:
			must(p->status >= 400 && p->status < 600);
			buf_printf(out, "ERROR %d %s\n", p->status, p->reason);
			return false;
		}
	}
}

/* All of it: a first piece of `first` bytes, then pieces of `step`. */
static void feed(const uint8_t *data, size_t size, size_t first, size_t step, struct buf *out)
{
	struct http1 p;
	bool good = true;
	http1_init(&p);
	for (size_t at = 0, n = first; good && at < size; at += n, n = step) {
		n = n < size - at ? n : size - at;
		buf_put(&p.in, data + at, n);
		must(!p.in.failed);
		good = pull(&p, out);
	}
	http1_done(&p);
}

static void check_cut(const uint8_t *data, size_t size, size_t first, size_t step, const struct buf *whole)
{
	struct buf out;
	buf_init(&out, SIZE_MAX / 4);
	feed(data, size, first, step, &out);
	must(slice_eq(buf_slice(whole), buf_slice(&out)));
	buf_done(&out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct buf whole;
	buf_init(&whole, SIZE_MAX / 4);
	feed(data, size, HTTP1_READ_MAX, HTTP1_READ_MAX, &whole);
	check_cut(data, size, 1, 1, &whole);
	check_cut(data, size, 1, 7, &whole);
	for (size_t cut = 1; cut < size; cut += size < 32 ? 1 : size / 32)
		check_cut(data, size, cut, HTTP1_READ_MAX, &whole);
	buf_done(&whole);
	return 0;
}
