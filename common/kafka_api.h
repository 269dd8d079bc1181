/* SPDX-License-Identifier: Apache-2.0
 *
 * Which Kafka APIs there are, in which versions, with which messages (kafka_api.def), and the answer to
 * ApiVersions that follows from it.
 */
#ifndef COMMON_KAFKA_API_H
#define COMMON_KAFKA_API_H

#include "common/kmsg.h"
#include "common/kmsg_gen.h"

struct kafka_api {
	const char *name;
	int16_t key;
	int16_t low, high;              /* versions that are served */
	const struct kmsg_desc *request;
	const struct kmsg_desc *response;
};

/* By rising key. */
extern const struct kafka_api kafka_apis[];
extern const size_t kafka_n_apis;

/* NULL for a key that is not in the table. */
const struct kafka_api *kafka_api_find(int16_t key);

static inline bool kafka_api_serves(const struct kafka_api *api, int16_t version)
{
	return version >= api->low && version <= api->high;
}

/* Whether a request of this version can be decoded and answered in its own form, served or not. */
static inline bool kafka_api_knows(const struct kafka_api *api, int16_t version)
{
	return kmsg_knows(api->request, version) && kmsg_knows(api->response, version);
}

/* Header versions, also of versions above what the tables know. ApiVersions is answered with header 0. */
static inline int16_t kafka_api_request_header(const struct kafka_api *api, int16_t version)
{
	return version >= api->request->flexible_from ? 2 : 1;
}

static inline int16_t kafka_api_response_header(const struct kafka_api *api, int16_t version)
{
	return api->key != 18 && version >= api->response->flexible_from ? 1 : 0;
}

/*
 * The answer to ApiVersions: a row for each API that `is_served` says true to (NULL: all), in memory of
 * the region. -ENOBUFS when that has no room.
 */
int kafka_api_versions(struct region *region, bool (*is_served)(int16_t key),
		       struct kmsg_api_versions_response *ret_answer);

/*
 * The answer to ApiVersions in a version that is not served: UNSUPPORTED_VERSION and the one row of
 * ApiVersions itself. It is encoded in version 0, whatever was asked (KIP-511).
 */
int kafka_api_versions_refusal(struct region *region, struct kmsg_api_versions_response *ret_answer);

#endif
