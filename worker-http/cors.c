/* SPDX-License-Identifier: Apache-2.0
 *
 * The origin is echoed, also for `*`, so that an answer never says more than it has to; credentials are never allowed.
 */
#include "worker-http/cors.h"

#include "worker-http/server.h"

void cors_fields(struct request *r, const struct cors *cors)
{
	const struct conf_list *allowed = &r->server->conf->cors_allow_origin;
	struct slice origin = request_field(r, "origin");
	if (allowed->n == 0)
		return;
	answer_field(r, "Vary", "Origin");
	for (size_t i = 0; i < allowed->n && origin.n > 0; i++) {
		if (strcmp(allowed->item[i], "*") != 0 && !slice_is(origin, allowed->item[i]))
			continue;
		answer_field_slice(r, "Access-Control-Allow-Origin", origin);
		answer_field(r, "Access-Control-Expose-Headers", cors->response_headers);
		return;
	}
}

void cors_preflight(struct request *r, const struct cors *cors)
{
	answer_field(r, "Allow", cors->methods);
	answer_field(r, "Access-Control-Allow-Methods", cors->methods);
	answer_field(r, "Access-Control-Allow-Headers", cors->request_headers);
	if (r->server->conf->cors_allow_origin.n == 0)
		answer_field(r, "Access-Control-Expose-Headers", cors->response_headers);
	answer_send_empty(r, 204);
}
