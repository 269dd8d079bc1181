/* SPDX-License-Identifier: Apache-2.0
 *
 * Kafka frames without I/O: a length of 4 bytes, a header, a body.
 *
 *   request   i32 length | i16 api key | i16 version | i32 correlation id | string client id | tags | body
 *   response  i32 length | i32 correlation id | tags | body
 *
 * The client id is a 16-bit string in every version; tags stand there in flexible versions (KIP-482), but
 * never before the body of an ApiVersions response. A length is judged before memory is taken for it.
 */
#ifndef COMMON_KAFKA_FRAME_H
#define COMMON_KAFKA_FRAME_H

#include "common/kafka_api.h"

#define KAFKA_FRAME_LENGTH 4

/*
 * The size of the frame, length included, whose first bytes these are: 0 when fewer than 4 are there, and
 * -EBADMSG when it is none or has more than bytes_max after its length. Then *ret_why (never NULL) has a
 * word for the log: "tls", "http", "empty", "negative-length", "too-large".
 */
int64_t kafka_frame_size(struct slice bytes, uint32_t bytes_max, const char **ret_why);

struct kafka_request {
	const struct kafka_api *api;    /* NULL: a key that is not in the table; then body is empty */
	int16_t api_key, api_version;
	int32_t correlation_id;
	struct slice client_id;         /* p == NULL: null */
	struct slice body;
};

/*
 * Reads the header of a request; `frame` begins behind the length. -EBADMSG when it is none. Key, version
 * and correlation id are read whatever else follows: of an API or a version that is not served,
 * client id and body may be empty.
 */
int kafka_request_read(struct slice frame, struct kafka_request *ret_request);

/* Begins a frame in `out` that ends with kafka_frame_end(); returns where it starts. out->failed says the rest. */
size_t kafka_response_begin(struct buf *out, const struct kafka_api *api, int16_t version, int32_t correlation_id);
size_t kafka_request_begin(struct buf *out, const struct kafka_request *request);   /* body is not looked at */

/*
 * Writes the length of the frame that starts at `start` and ends with `out`, plus n_external bytes that
 * are sent from elsewhere (struct kmsg_gaps). -EMSGSIZE when that is more than a length can say,
 * -ENOBUFS when `out` failed.
 */
int kafka_frame_end(struct buf *out, size_t start, uint64_t n_external);

/* Encodes a whole frame; `out` ends where it did before when this fails. Errors as of kmsg_encode(). */
int kafka_response_write(struct buf *out, const struct kafka_request *request, const void *response,
			 struct kmsg_gaps *gaps);

/* Reads a response's header, of which ret_body is the rest. `frame` begins behind the length. */
int kafka_response_read(struct slice frame, const struct kafka_request *request, struct slice *ret_body);

#endif
