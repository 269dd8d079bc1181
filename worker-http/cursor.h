/* SPDX-License-Identifier: Apache-2.0
 *
 * The cursor of a live read: a number that goes with the next request, so that a cache between does not give the answer
 * of the request before. It says nothing about positions.
 */
#ifndef WORKER_HTTP_CURSOR_H
#define WORKER_HTTP_CURSOR_H

#include "worker-http/request.h"

#define CURSOR_INTERVAL_MS 20000

struct cursor {
	bool given;
	uint64_t client;                /* what it sent */
};

/*
 * Intervals since epoch_ms; when the client has that or a later one, its own plus 1 to `spread`, at random so that
 * clients who came together do not stay together.
 */
uint64_t cursor_next(const struct request *r, const struct cursor *cursor, uint64_t epoch_ms, unsigned spread);

#endif
