/* SPDX-License-Identifier: Apache-2.0
 *
 * Any bytes as a Kafka connection sends them: frames, their headers, their bodies. And the same bytes as
 * the body of a message that the first two choose, so that every API and version is reached. What is
 * taken is encoded, decoded and encoded again without a difference, and never grows.
 */
#include <errno.h>
#include <stdlib.h>

#include "common/kafka_frame.h"
#include "common/must.h"
#include "common/wire.h"
#include "t/fuzz/fuzz.h"

#define SIZE_MAX_HERE (1u << 16)
#define FRAME_MAX 2048
#define REGION_MAX (1u << 16)

struct regions { struct region a, b; };

static void check_body(struct regions *regions, struct kmsg_form form, struct slice bytes)
{
	struct buf first, second, text;
	region_reset(&regions->a);
	region_reset(&regions->b);
	void *value = kmsg_new(&regions->a, form.desc->of, 1), *again = kmsg_new(&regions->b, form.desc->of, 1);
	int rc = kmsg_decode(form, bytes, &regions->a, value);
	must(rc == 0 || rc == -EBADMSG || rc == -ENOBUFS);
	must((rc == -ENOBUFS) == regions->a.failed && regions->a.used <= REGION_MAX);
	if (rc != 0)
		return;
	buf_init(&first, bytes.n);
	buf_init(&second, bytes.n);
	buf_init(&text, 1024);
	must(kmsg_encode(form, value, &first, NULL) == 0);
	must(kmsg_decode(form, buf_slice(&first), &regions->b, again) == 0);
	must(kmsg_equal(form.desc->of, value, again));
	must(kmsg_encode(form, again, &second, NULL) == 0);
	must(slice_eq(buf_slice(&first), buf_slice(&second)));
	kmsg_print(form, value, &text);
	buf_done(&first);
	buf_done(&second);
	buf_done(&text);
}

/* A header that was read, written again, reads the same. */
static void check_request(struct regions *regions, const struct kafka_request *q)
{
	struct kafka_request again;
	struct buf out;
	buf_init(&out, SIZE_MAX_HERE);
	size_t start = kafka_request_begin(&out, q);
	buf_put_slice(&out, q->body);
	must(kafka_frame_end(&out, start, 0) == 0);
	const char *why = NULL;
	must(kafka_frame_size(buf_slice(&out), SIZE_MAX_HERE, &why) == (int64_t)buf_len(&out));
	must(kafka_request_read(slice_of(buf_head(&out) + 4, buf_len(&out) - 4), &again) == 0);
	must(again.api == q->api && again.api_version == q->api_version && again.correlation_id == q->correlation_id);
	must(slice_eq(again.client_id, q->client_id) && (again.client_id.p == NULL) == (q->client_id.p == NULL));
	must(slice_eq(again.body, q->body));
	buf_done(&out);
	struct kmsg_form form = { .desc = q->api->request, .version = q->api_version };
	check_body(regions, form, q->body);
}

static void check_frame(struct regions *regions, struct slice frame)
{
	struct kafka_request q;
	struct slice body;
	int rc = kafka_request_read(frame, &q);
	must(rc == 0 || rc == -EBADMSG);
	must(rc == 0 || frame.n < 8 || kafka_api_find((int16_t)get_be16(frame.p)) != NULL);
	if (rc != 0 || q.api == NULL)
		return;
	must(q.correlation_id == (int32_t)get_be32(frame.p + 4));
	if (!kafka_api_knows(q.api, q.api_version))
		return;
	check_request(regions, &q);
	struct slice answer = slice_of(frame.p + 4, frame.n - 4);   /* begins with the correlation id */
	if (kafka_response_read(answer, &q, &body) == 0)
		check_body(regions, (struct kmsg_form){ q.api->response, q.api_version }, body);
}

static void check_stream(struct regions *regions, struct slice bytes)
{
	const char *why = NULL;
	int64_t size;
	while ((size = kafka_frame_size(bytes, FRAME_MAX, &why)) > 0 && (uint64_t)size <= bytes.n) {
		must(size > KAFKA_FRAME_LENGTH && size <= FRAME_MAX + KAFKA_FRAME_LENGTH);
		check_frame(regions, slice_of(bytes.p + 4, (size_t)size - 4));
		bytes = slice_of(bytes.p + size, bytes.n - (size_t)size);
	}
	must(size >= 0 || (size == -EBADMSG && why != NULL));
	must(size != 0 || bytes.n < KAFKA_FRAME_LENGTH);
}

/* The form of a number, the numbers going round. */
static struct kmsg_form form_at(unsigned number)
{
	static unsigned n_forms;
	if (n_forms == 0)
		for (const struct kmsg_desc *const *d = kmsg_gen_all; *d != NULL; d++)
			n_forms += (unsigned)((*d)->high - (*d)->low + 1);
	number %= n_forms;
	const struct kmsg_desc *const *d = kmsg_gen_all;
	for (; number > (unsigned)((*d)->high - (*d)->low); d++)
		number -= (unsigned)((*d)->high - (*d)->low + 1);
	return (struct kmsg_form){ .desc = *d, .version = (int16_t)((*d)->low + (int)number) };
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct regions regions;
	if (size > SIZE_MAX_HERE)
		return 0;
	region_init(&regions.a, REGION_MAX);
	region_init(&regions.b, 2 * REGION_MAX);
	check_stream(&regions, slice_of(data, size));
	if (size >= 2)
		check_body(&regions, form_at(get_be16(data)), slice_of(data + 2, size - 2));
	region_done(&regions.a);
	region_done(&regions.b);
	return 0;
}
