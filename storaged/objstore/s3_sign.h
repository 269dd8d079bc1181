/* SPDX-License-Identifier: Apache-2.0
 *
 * Signature Version 4 as S3 wants it (paths are encoded once). Pure functions: no clock, no environment.
 */
#ifndef STORAGED_OBJSTORE_S3_SIGN_H
#define STORAGED_OBJSTORE_S3_SIGN_H

#include <sys/uio.h>

#include "common/buf.h"

#define S3_HASH_HEX 65                  /* with its end */
#define S3_TIME 17                      /* "20130524T000000Z" with its end */
#define S3_UNSIGNED_PAYLOAD "UNSIGNED-PAYLOAD"

struct s3_header {
	const char *name;               /* lower case */
	const char *value;              /* no space at either end, no run of spaces */
};

struct s3_to_sign {
	const char *method;
	const char *path;               /* encoded, begins with '/' */
	const char *query;              /* encoded, sorted by name, every name with '='; or "" */
	const struct s3_header *headers;        /* sorted by name; `host` is one of them */
	size_t n_headers;
	const char *payload_hash;       /* hex of its SHA-256, or S3_UNSIGNED_PAYLOAD */
	const char *time;               /* S3_TIME */
};

/* Keys of one day, region and secret, kept from call to call. Zero-initialised; one thread at a time. */
struct s3_signer {
	const char *region, *service;   /* borrowed */
	char date[9];
	char secret[256];               /* the key is of this one */
	uint8_t key[32];
};

/* Puts the value of the Authorization header. -EINVAL: the secret is longer than 200 bytes. */
int s3_sign(struct s3_signer *s, const char *access_key, const char *secret, const struct s3_to_sign *r,
	    struct buf *out);

/* Puts text with all but A-Z a-z 0-9 - . _ ~ (and '/', if kept) as %XX. */
void s3_encode(struct buf *out, const char *text, bool keep_slash);

void s3_time_text(int64_t wall_ms, char text[S3_TIME]);
void s3_hash_hex(const struct iovec *iov, int n_iov, char hex[S3_HASH_HEX]);

#endif
