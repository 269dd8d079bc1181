/* SPDX-License-Identifier: Apache-2.0
 *
 * A binary batch (application/vnd.picomq.batch) into one record batch. All integers are big-endian:
 *
 *   version u8 = 1 | count u32 | count times a record:
 *   keyLen i32 (-1 no key, 0 an empty one) key | headerCount u32 { nameLen u32 name | valueLen u32 value }
 *   bodyLen u32 body
 *
 * Names are UTF-8, everything else is any bytes. Each count is compared with the bytes that are left
 * before a loop begins, and nothing may follow the last record.
 */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>

#include "common/json_scan.h"
#include "common/record_decode.h"
#include "worker-http/pico.h"

#define BINARY_VERSION 1
#define RECORD_BYTES_MIN 12             /* three lengths */
#define HEADER_BYTES_MIN 8

struct binary {
	struct wire_reader r;
	uint32_t index;                 /* of the record */
	char *fault;
	size_t fault_size;
};

static bool binary_fail(struct binary *b, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

static bool binary_fail(struct binary *b, const char *fmt, ...)
{
	va_list ap;
	int n = snprintf(b->fault, b->fault_size, "record %u: ", b->index);
	va_start(ap, fmt);
	if (n > 0 && (size_t)n < b->fault_size)
		vsnprintf(b->fault + n, b->fault_size - (size_t)n, fmt, ap);
	va_end(ap);
	return false;
}

static bool take_header(struct binary *b, struct record_header *h)
{
	h->name = wire_take(&b->r, wire_be32(&b->r));
	h->value = wire_take(&b->r, wire_be32(&b->r));
	if (b->r.failed)
		return binary_fail(b, "a header reaches beyond the end of the request");
	if (h->name.n > RECORD_HEADER_NAME_MAX)
		return binary_fail(b, "a header name is longer than 64 KiB");
	return utf8_is_valid(h->name) || binary_fail(b, "a header name is not UTF-8");
}

static bool take_headers(struct binary *b, struct record_header *headers, uint32_t *ret_n)
{
	uint32_t n = wire_be32(&b->r);
	if (b->r.failed || n > wire_left(&b->r) / HEADER_BYTES_MIN)
		return binary_fail(b, "more headers than bytes");
	if (n > RECORD_BATCH_MAX_HEADERS)
		return binary_fail(b, "more than %d headers", RECORD_BATCH_MAX_HEADERS);
	for (uint32_t i = 0; i < n; i++)
		if (!take_header(b, &headers[i]))
			return false;
	*ret_n = n;
	return true;
}

static bool take_key(struct binary *b, struct slice *ret_key)
{
	int32_t n = (int32_t)wire_be32(&b->r);
	*ret_key = slice_of(NULL, 0);
	if (b->r.failed || n < -1)
		return binary_fail(b, "a key length below -1, or none");
	if (n > (int32_t)RECORD_KEY_MAX)
		return binary_fail(b, "the key is longer than 1 MiB");
	if (n >= 0)
		*ret_key = wire_take(&b->r, (size_t)n);
	return !b->r.failed || binary_fail(b, "the key reaches beyond the end of the request");
}

/* False when it is refused, or the batch is full. */
static bool take_record(struct binary *b, struct record_batch_writer *w)
{
	static struct record_header headers[RECORD_BATCH_MAX_HEADERS];
	struct slice key;
	uint32_t n_headers = 0;
	if (!take_key(b, &key) || !take_headers(b, headers, &n_headers))
		return false;
	struct slice body = wire_take(&b->r, wire_be32(&b->r));
	if (b->r.failed)
		return binary_fail(b, "the record reaches beyond the end of the request");
	record_batch_add(w, key, body, headers, n_headers);
	return !w->out->failed;
}

static bool take_begin(struct binary *b, uint32_t *ret_count)
{
	uint8_t version = wire_u8(&b->r);
	uint32_t count = wire_be32(&b->r);
	if (b->r.failed || version != BINARY_VERSION) {
		snprintf(b->fault, b->fault_size, "a binary batch begins with version 1 and a count");
		return false;
	}
	if (count > wire_left(&b->r) / RECORD_BYTES_MIN) {
		snprintf(b->fault, b->fault_size, "more records than bytes");
		return false;
	}
	*ret_count = count;
	return true;
}

int pico_binary_batch(struct slice body, struct buf *out, uint32_t *ret_count, char *fault, size_t fault_size)
{
	struct binary b = { .r = wire_reader(body), .fault = fault, .fault_size = fault_size };
	struct record_batch_writer w;
	uint32_t count;
	if (!take_begin(&b, &count))
		return -EBADMSG;
	if (count > 0)
		record_batch_begin(&w, out);
	for (; b.index < count; b.index++)
		if (!take_record(&b, &w))
			return out->failed ? -ENOBUFS : -EBADMSG;
	if (wire_left(&b.r) > 0) {
		snprintf(fault, fault_size, "%zu bytes behind the last record", wire_left(&b.r));
		return -EBADMSG;
	}
	*ret_count = count;
	return count == 0 || record_batch_end(&w) > 0 ? 0 : -ENOBUFS;
}
