/* SPDX-License-Identifier: Apache-2.0
 *
 * What an answer of S3, or the lack of one, means: outcome, errno, and whether the same request may help.
 */
#ifndef STORAGED_OBJSTORE_S3_ERROR_H
#define STORAGED_OBJSTORE_S3_ERROR_H

#include "common/env.h"

struct s3_verdict {
	enum outcome outcome;
	int err;
	bool retry;                     /* the same request later may go well */
	bool skewed;                    /* the server's clock is another one */
};

/* An answer with that status and the error document's code ("" without one). */
struct s3_verdict s3_verdict_of(int status, const char *code);

/* No whole answer. sent: the server may have seen some of the request. err: negative errno. */
struct s3_verdict s3_verdict_cut(bool sent, int err);

#endif
