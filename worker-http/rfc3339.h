/* SPDX-License-Identifier: Apache-2.0
 *
 * Instants as text (RFC 3339): any offset in, Z out.
 */
#ifndef WORKER_HTTP_RFC3339_H
#define WORKER_HTTP_RFC3339_H

#include <stdint.h>

#include "common/slice.h"

#define RFC3339_TEXT 32

/* Milliseconds of the Unix epoch; digits behind them are dropped, a leap second is the next one. False: it is none. */
bool rfc3339_parse(struct slice text, int64_t *ret_ms);
/* Without a fraction when there is none. Of the years 1970 to 9999. */
void rfc3339_print(int64_t ms, char ret_text[static RFC3339_TEXT]);

#endif
