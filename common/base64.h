/* SPDX-License-Identifier: Apache-2.0
 *
 * Base64 with padding (RFC 4648 section 4), and for URLs, without (section 5).
 */
#ifndef COMMON_BASE64_H
#define COMMON_BASE64_H

#include "common/buf.h"
#include "common/slice.h"

void base64_put(struct buf *out, struct slice s);

/*
 * Decoding is strict: whole groups of four, padding where it belongs and nowhere else, unused bits 0,
 * no white space. -EBADMSG, -ENOBUFS; on failure out has no byte more than before.
 */
int base64_decode(struct slice text, struct buf *out);

/* With - and _ for + and /, and no padding; decoding is as strict. */
void base64url_put(struct buf *out, struct slice s);
int base64url_decode(struct slice text, struct buf *out);

#endif
