/* SPDX-License-Identifier: Apache-2.0
 *
 * One request to S3: what is asked (made on the loop, then left alone while it is sent, perhaps twice) and how it
 * is written down and signed (on the transport's threads, because payloads are hashed).
 */
#ifndef STORAGED_OBJSTORE_S3_REQUEST_H
#define STORAGED_OBJSTORE_S3_REQUEST_H

#include <curl/curl.h>

#include "storaged/objstore/s3_config.h"
#include "storaged/objstore/s3_credentials.h"
#include "storaged/objstore/s3_sign.h"

#define S3_QUERY_MAX 6
#define S3_HEADERS_MAX 6

struct s3_request {
	const char *method;             /* static */
	char *key;                      /* with the store's prefix, owned; NULL: the bucket itself */
	struct s3_query {
		const char *name;       /* static */
		char *value;            /* owned */
	} query[S3_QUERY_MAX];          /* sorted by name */
	unsigned n_query;
	struct s3_query header[S3_HEADERS_MAX];         /* names in lower case */
	unsigned n_headers;
	struct iovec *iov;              /* the body: an owned array of borrowed bytes */
	int n_iov;
	uint64_t body_len;
	struct buf text;                /* a body of one's own; iov names it */
	bool has_body;                  /* also an empty one */
	bool checksum;                  /* send x-amz-checksum-crc32c */
	bool md5;                       /* send Content-MD5 */
	bool answer_is_xml;
	uint64_t answer_max;            /* bytes of a good answer */
};

void s3_request_init(struct s3_request *r, const char *method, const char *prefix, const char *key);
void s3_request_done(struct s3_request *r);
/* In order of names. The value is copied. */
void s3_request_query(struct s3_request *r, const char *name, const char *value);
void s3_request_header(struct s3_request *r, const char *name, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
/* The body's bytes stay the caller's. */
void s3_request_body(struct s3_request *r, const struct iovec *iov, int n_iov);
/* Takes the buffer. */
void s3_request_text(struct s3_request *r, struct buf text);

/* crc32c of the body, base64 of its big-endian bytes. */
void s3_request_crc(const struct s3_request *r, char text[9]);

struct s3_written {
	char *url;
	struct curl_slist *headers;
};
/* Writes the request as it is sent at that time. 0, or -EINVAL, -ENOBUFS. */
int s3_request_write(const struct s3_request *r, const struct s3_config *c, struct s3_signer *signer,
		     const struct s3_keys *keys, int64_t wall_ms, struct s3_written *ret);
void s3_written_done(struct s3_written *w);

#endif
