/* SPDX-License-Identifier: Apache-2.0
 *
 * Which scripts of which origins may call (the Fetch standard, CORS protocol): --cors-allow-origin. The admin
 * listener has none of this.
 */
#ifndef WORKER_HTTP_CORS_H
#define WORKER_HTTP_CORS_H

#include "worker-http/request.h"

/* What a protocol speaks, each a list with commas. */
struct cors {
	const char *methods;
	const char *request_headers;    /* that a script may send */
	const char *response_headers;   /* that it may read */
};

/* On every answer, before it: Allow-Origin when the origin is listed; Vary. */
void cors_fields(struct request *r, const struct cors *cors);
/* OPTIONS: 204 with methods and headers, listed or not. */
void cors_preflight(struct request *r, const struct cors *cors);

#endif
