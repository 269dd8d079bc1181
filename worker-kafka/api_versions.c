/* SPDX-License-Identifier: Apache-2.0
 *
 * ApiVersions: what is served here, by the tables.
 */
#include "worker-kafka/api.h"

void api_versions_handle(struct request *r)
{
	struct kmsg_api_versions_response answer;
	if (kafka_api_versions(&r->region, handler_is_served, &answer) == 0)
		request_answer(r, &answer);
	else
		request_close(r, "memory");
}
