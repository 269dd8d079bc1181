/* SPDX-License-Identifier: Apache-2.0
 *
 * Headers are messages of proto/kafka/headers.kmsg, read and written by the same interpreter as bodies.
 */
#include "common/kafka_frame.h"

#include <errno.h>

#include "common/wire.h"

static bool begins_with(struct slice bytes, const char *s)
{
	return memcmp(bytes.p, s, KAFKA_FRAME_LENGTH) == 0;
}

/* What stands where a length should, for people: other protocols look like lengths above 350 MB. */
static const char *why_not(struct slice bytes, int32_t length)
{
	static const char *const methods[] = { "GET ", "HEAD", "POST", "PUT ", "DELE", "OPTI", "PATC", "CONN", "TRAC",
					       "PRI " };
	if (length <= 0)
		return length == 0 ? "empty" : "negative-length";
	if (bytes.p[0] == 0x16 && bytes.p[1] == 0x03)
		return "tls";
	for (size_t i = 0; i < sizeof(methods) / sizeof(methods[0]); i++)
		if (begins_with(bytes, methods[i]))
			return "http";
	return "too-large";
}

int64_t kafka_frame_size(struct slice bytes, uint32_t bytes_max, const char **ret_why)
{
	if (bytes.n < KAFKA_FRAME_LENGTH)
		return 0;
	int32_t length = (int32_t)get_be32(bytes.p);
	if (length <= 0 || (uint32_t)length > bytes_max) {
		*ret_why = why_not(bytes, length);
		return -EBADMSG;
	}
	return KAFKA_FRAME_LENGTH + (int64_t)length;
}

static struct kmsg_form request_header(int16_t version)
{
	return (struct kmsg_form){ .desc = &kmsg_request_header_desc, .version = version };
}

static struct kmsg_form response_header(const struct kafka_api *api, int16_t version)
{
	return (struct kmsg_form){ .desc = &kmsg_response_header_desc,
				   .version = kafka_api_response_header(api, version) };
}

int kafka_request_read(struct slice frame, struct kafka_request *ret_request)
{
	struct region none;
	struct kmsg_request_header header;
	struct slice rest = frame;
	region_init(&none, 0);
	if (kmsg_decode_prefix(request_header(0), &rest, &none, &header) != 0)
		return -EBADMSG;
	struct kafka_request request = { .api = kafka_api_find(header.request_api_key),
					 .api_key = header.request_api_key,
					 .api_version = header.request_api_version,
					 .correlation_id = header.correlation_id };
	if (request.api != NULL) {
		int16_t version = kafka_api_request_header(request.api, request.api_version);
		rest = frame;
		if (kmsg_decode_prefix(request_header(version), &rest, &none, &header) == 0) {
			request.client_id = header.client_id;
			request.body = rest;
		} else if (kafka_api_knows(request.api, request.api_version)) {
			return -EBADMSG;
		}
	}
	*ret_request = request;
	return 0;
}

static size_t frame_begin(struct buf *out, struct kmsg_form form, const void *header)
{
	size_t start = buf_len(out);
	static const uint8_t length[KAFKA_FRAME_LENGTH];
	buf_put(out, length, sizeof(length));
	if (kmsg_encode(form, header, out, NULL) != 0)
		out->failed = true;
	return start;
}

size_t kafka_response_begin(struct buf *out, const struct kafka_api *api, int16_t version, int32_t correlation_id)
{
	struct kmsg_response_header header = { .correlation_id = correlation_id };
	return frame_begin(out, response_header(api, version), &header);
}

size_t kafka_request_begin(struct buf *out, const struct kafka_request *request)
{
	struct kmsg_request_header header = { .request_api_key = request->api_key,
					      .request_api_version = request->api_version,
					      .correlation_id = request->correlation_id,
					      .client_id = request->client_id };
	return frame_begin(out, request_header(kafka_api_request_header(request->api, request->api_version)), &header);
}

int kafka_frame_end(struct buf *out, size_t start, uint64_t n_external)
{
	if (out->failed)
		return -ENOBUFS;
	uint64_t n = buf_len(out) - start - KAFKA_FRAME_LENGTH;
	if (n_external > INT32_MAX || n + n_external > INT32_MAX)
		return -EMSGSIZE;
	put_be32(buf_head(out) + start, (uint32_t)(n + n_external));
	return 0;
}

int kafka_response_write(struct buf *out, const struct kafka_request *request, const void *response,
			 struct kmsg_gaps *gaps)
{
	size_t before = buf_len(out);
	struct kmsg_form form = { .desc = request->api->response, .version = request->api_version };
	size_t start = kafka_response_begin(out, request->api, request->api_version, request->correlation_id);
	size_t body = buf_len(out) - before, n_gaps = gaps != NULL ? gaps->n : 0;
	uint64_t bytes = gaps != NULL ? gaps->bytes : 0;
	int rc = kmsg_encode(form, response, out, gaps);
	for (size_t i = n_gaps; gaps != NULL && i < gaps->n; i++)
		gaps->gaps[i].at += body;
	if (rc == 0)
		rc = kafka_frame_end(out, start, gaps != NULL ? gaps->bytes - bytes : 0);
	if (rc != 0)
		out->end = out->begin + before;
	return rc;
}

int kafka_response_read(struct slice frame, const struct kafka_request *request, struct slice *ret_body)
{
	struct region none;
	struct kmsg_response_header header;
	region_init(&none, 0);
	if (kmsg_decode_prefix(response_header(request->api, request->api_version), &frame, &none, &header) != 0 ||
	    header.correlation_id != request->correlation_id)
		return -EBADMSG;
	*ret_body = frame;
	return 0;
}
