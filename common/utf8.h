/* SPDX-License-Identifier: Apache-2.0
 *
 * UTF-8 as RFC 3629 has it: no surrogates, nothing overlong, nothing above U+10FFFF.
 */
#ifndef COMMON_UTF8_H
#define COMMON_UTF8_H

#include "common/slice.h"

bool utf8_is_valid(struct slice s);

/* The bytes (2 to 4) of the sequence that begins at p with a byte >= 0x80, 0 when it is none. */
size_t utf8_sequence(const uint8_t *p, const uint8_t *end);

/* Writes a scalar value (no surrogate, at most 0x10ffff) and returns how many bytes that took. */
size_t utf8_put(uint8_t to[4], uint32_t c);

#endif
