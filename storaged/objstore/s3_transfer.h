/* SPDX-License-Identifier: Apache-2.0
 *
 * One exchange on libcurl: options, callbacks, what it came to. Used by the transport's threads only.
 */
#ifndef STORAGED_OBJSTORE_S3_TRANSFER_H
#define STORAGED_OBJSTORE_S3_TRANSFER_H

#include "storaged/objstore/s3_transport.h"

struct s3_transfer {
	struct s3_exchange *exchange;   /* NULL while it is idle */
	struct s3_transfer *next;       /* idle ones */
	CURL *easy;
	struct s3_written written;
	char error[CURL_ERROR_SIZE];
	int iov_at;                     /* the body: next byte to send */
	size_t iov_skip;
	uint64_t began_ns, progress_ns; /* CLOCK_MONOTONIC */
	uint64_t answer_max;
	bool too_long;
};

struct s3_transfer *s3_transfer_new(void);
void s3_transfer_free(struct s3_transfer *t);

/* Sets up t->easy for the exchange, signed. 0, or the exchange is failed with this errno. */
int s3_transfer_begin(struct s3_transfer *t, struct s3_exchange *x, const struct s3_config *c,
		      struct s3_signer *signer, struct s3_credentials *credentials);
/* Fills in the exchange's answer; the handle is out of its multi. */
void s3_transfer_end(struct s3_transfer *t, CURLcode result);
/* The same for one that this side gives up. */
void s3_transfer_give_up(struct s3_transfer *t, int err, const char *why);

uint64_t s3_clock_ns(void);

#endif
