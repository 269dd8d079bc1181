/* SPDX-License-Identifier: Apache-2.0
 *
 * The table of S3's errors. A 4xx says that the request was not done. A 5xx says nothing: the server may have
 * stored the object and failed afterwards, so it is UNKNOWN, but for 501, which it says before it begins.
 */
#include "storaged/objstore/s3_error.h"

#include <errno.h>
#include <string.h>

struct row {
	const char *code;
	int err;
	bool retry;
};

/* By code, where the status says too little. All of them mean that nothing was done. */
static const struct row by_code[] = {
	{ "NoSuchKey", -ENOENT, false },
	{ "NoSuchUpload", -ENOENT, false },
	{ "InvalidRange", -ERANGE, false },
	{ "PreconditionFailed", -EEXIST, false },
	{ "ConditionalRequestConflict", -EAGAIN, true },
	{ "OperationAborted", -EAGAIN, true },
	{ "RequestTimeout", -EAGAIN, true },            /* the body came too slowly */
	{ "BadDigest", -EAGAIN, true },                 /* damaged on its way */
	{ "XAmzContentSHA256Mismatch", -EAGAIN, true },
	{ "XAmzContentChecksumMismatch", -EAGAIN, true },
	{ "IncompleteBody", -EAGAIN, true },
	{ "TooManyRequests", -EAGAIN, true },
	{ "RequestTimeTooSkewed", -EACCES, true },
	{ "ExpiredToken", -EACCES, true },              /* the file may have newer keys by then */
	{ "InvalidToken", -EACCES, false },
	{ "NoSuchBucket", -ENXIO, false },
	{ "QuotaExceeded", -ENOSPC, false },
	{ "EntityTooLarge", -EFBIG, false },
};

static struct s3_verdict not_applied(int err, bool retry)
{
	return (struct s3_verdict){ .outcome = OUTCOME_NOT_APPLIED, .err = err, .retry = retry };
}

static struct s3_verdict by_status(int status)
{
	switch (status) {
	case 401:
	case 403: return not_applied(-EACCES, false);
	case 405:
	case 501: return not_applied(-EOPNOTSUPP, false);
	case 408:
	case 409:
	case 429: return not_applied(-EAGAIN, true);
	case 412: return not_applied(-EEXIST, false);
	case 413: return not_applied(-EFBIG, false);
	case 416: return not_applied(-ERANGE, false);
	case 507: return not_applied(-ENOSPC, false);
	default: return not_applied(-EINVAL, false);
	}
}

struct s3_verdict s3_verdict_of(int status, const char *code)
{
	if (status >= 200 && status < 300 && code[0] == 0)
		return (struct s3_verdict){ .outcome = OUTCOME_OK };
	/* An error document inside a 200 was begun before the operation ended: as little is known as of a 5xx. */
	if ((status >= 500 && status != 501 && status != 507) || status < 300)
		return (struct s3_verdict){ .outcome = OUTCOME_UNKNOWN, .err = status == 503 ? -EAGAIN : -EIO,
					    .retry = true };
	/* Only a named lack is one: any proxy can say 404. */
	if (status == 404 && code[0] == 0)
		return (struct s3_verdict){ .outcome = OUTCOME_UNKNOWN, .err = -EIO, .retry = true };
	for (size_t i = 0; i < sizeof(by_code) / sizeof(by_code[0]); i++) {
		if (strcmp(code, by_code[i].code) == 0) {
			struct s3_verdict v = not_applied(by_code[i].err, by_code[i].retry);
			v.skewed = strcmp(code, "RequestTimeTooSkewed") == 0;
			return v;
		}
	}
	return by_status(status);
}

struct s3_verdict s3_verdict_cut(bool sent, int err)
{
	return (struct s3_verdict){ .outcome = sent ? OUTCOME_UNKNOWN : OUTCOME_NOT_APPLIED, .err = err, .retry = true };
}
