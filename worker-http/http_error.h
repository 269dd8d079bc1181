/* SPDX-License-Identifier: Apache-2.0
 *
 * From error kind to status and word, as all protocols over HTTP have it; each says itself where it differs, and what
 * headers come along.
 */
#ifndef WORKER_HTTP_HTTP_ERROR_H
#define WORKER_HTTP_HTTP_ERROR_H

#include "common/pico_error.h"

struct http_error {
	int status;
	const char *word;
	const char *message;            /* when the error has none */
};

struct http_error http_error_of(const struct pico_error *e);

#endif
