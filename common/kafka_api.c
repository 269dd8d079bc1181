/* SPDX-License-Identifier: Apache-2.0 */
#include "common/kafka_api.h"

#include <errno.h>

#include "common/kafka_error.h"
#include "common/must.h"

const struct kafka_api kafka_apis[] = {
#define KAFKA_API(key_, name_, symbol, low_, high_)                                      \
	{ .name = #name_, .key = key_, .low = low_, .high = high_,                       \
	  .request = &kmsg_##symbol##_request_desc, .response = &kmsg_##symbol##_response_desc },
#include "common/kafka_api.def"
#undef KAFKA_API
};
const size_t kafka_n_apis = sizeof(kafka_apis) / sizeof(kafka_apis[0]);

enum kafka_api_row {
#define KAFKA_API(key, name, symbol, low, high) ROW_##symbol,
#include "common/kafka_api.def"
#undef KAFKA_API
};

#define KEYS 128

const struct kafka_api *kafka_api_find(int16_t key)
{
	static const uint8_t rows[KEYS] = {     /* row + 1 */
#define KAFKA_API(key, name, symbol, low, high) [key] = ROW_##symbol + 1,
#include "common/kafka_api.def"
#undef KAFKA_API
	};
	return key < 0 || key >= KEYS || rows[key] == 0 ? NULL : &kafka_apis[rows[key] - 1];
}

static void add_row(struct kmsg_api_versions_response *answer, const struct kafka_api *api)
{
	answer->api_keys[answer->n_api_keys++] = (struct kmsg_api_versions_response_api_key){
		.api_key = api->key, .min_version = api->low, .max_version = api->high };
}

static int begin_answer(struct region *region, size_t rows, struct kmsg_api_versions_response *answer)
{
	memcpy(answer, kmsg_api_versions_response_struct.defaults, sizeof(*answer));
	answer->api_keys = KMSG_NEW(region, api_versions_response_api_key, rows);
	return answer->api_keys == NULL ? -ENOBUFS : 0;
}

int kafka_api_versions(struct region *region, bool (*is_served)(int16_t key),
		       struct kmsg_api_versions_response *ret_answer)
{
	int rc = begin_answer(region, kafka_n_apis, ret_answer);
	for (size_t i = 0; rc == 0 && i < kafka_n_apis; i++)
		if (is_served == NULL || is_served(kafka_apis[i].key))
			add_row(ret_answer, &kafka_apis[i]);
	return rc;
}

int kafka_api_versions_refusal(struct region *region, struct kmsg_api_versions_response *ret_answer)
{
	const struct kafka_api *api = kafka_api_find(18);
	must(api != NULL);
	int rc = begin_answer(region, 1, ret_answer);
	if (rc != 0)
		return rc;
	ret_answer->error_code = KAFKA_UNSUPPORTED_VERSION;
	add_row(ret_answer, api);
	return 0;
}
