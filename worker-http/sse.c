/* SPDX-License-Identifier: Apache-2.0 */
#include "worker-http/sse.h"

#include "common/base64.h"

void sse_begin(struct sse_data *d, const char *name, bool base64, struct buf *out)
{
	*d = (struct sse_data){ .base64 = base64 };
	buf_put_str(out, "event: ");
	buf_put_str(out, name);
	buf_put_str(out, "\ndata:");
}

static void put_in_line(struct sse_data *d, struct slice s, struct buf *out)
{
	if (s.n == 0)
		return;
	if (!d->in_line && s.p[0] == ' ')
		buf_put_u8(out, ' ');
	d->in_line = true;
	buf_put_slice(out, s);
}

static void put_text(struct sse_data *d, struct slice s, struct buf *out)
{
	size_t begin = 0;
	for (size_t i = 0; i < s.n; i++) {
		uint8_t c = s.p[i];
		bool second = c == '\n' && d->after_cr;
		d->after_cr = c == '\r';
		if (c != '\r' && c != '\n')
			continue;
		put_in_line(d, slice_of(s.p + begin, i - begin), out);
		begin = i + 1;
		if (second)
			continue;
		buf_put_str(out, "\ndata:");
		d->in_line = false;
	}
	put_in_line(d, slice_of(s.p + begin, s.n - begin), out);
}

static void put_base64(struct sse_data *d, struct slice s, struct buf *out)
{
	while (d->n_rest > 0 && d->n_rest < 3 && s.n > 0) {
		d->rest[d->n_rest++] = *s.p++;
		s.n--;
	}
	if (d->n_rest == 3) {
		base64_put(out, slice_of(d->rest, 3));
		d->n_rest = 0;
	}
	size_t whole = s.n - s.n % 3;
	base64_put(out, slice_of(s.p, whole));
	for (; whole < s.n; whole++)
		d->rest[d->n_rest++] = s.p[whole];
}

void sse_put(struct sse_data *d, struct slice piece, struct buf *out)
{
	if (piece.n == 0)
		return;
	if (d->base64)
		put_base64(d, piece, out);
	else
		put_text(d, piece, out);
}

void sse_end(struct sse_data *d, const char *id, struct buf *out)
{
	if (d->n_rest > 0)
		base64_put(out, slice_of(d->rest, d->n_rest));
	d->n_rest = 0;
	if (id != NULL) {
		buf_put_str(out, "\nid: ");
		buf_put_str(out, id);
	}
	buf_put_str(out, "\n\n");
}

void sse_keep_alive(struct buf *out)
{
	buf_put_str(out, ":\n\n");
}
