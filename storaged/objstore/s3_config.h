/* SPDX-License-Identifier: Apache-2.0
 *
 * Where an S3 store is: what its URL and the environment's AWS_REGION, AWS_DEFAULT_REGION and AWS_CA_BUNDLE say.
 */
#ifndef STORAGED_OBJSTORE_S3_CONFIG_H
#define STORAGED_OBJSTORE_S3_CONFIG_H

#include "storaged/objstore/url.h"

#define S3_REQUEST_TIMEOUT_MS 20000u

struct s3_config {
	char bucket[64];
	char prefix[OBJ_KEY_MAX];       /* "" or ending with '/' */
	char region[64];
	char host[600];                 /* as in the Host header */
	char base[620];                 /* scheme and host */
	char root[80];                  /* of paths: "" or "/BUCKET" */
	char ca_file[4096];             /* "" : the system's */
	bool tls;
	uint32_t timeout_ms;            /* without a byte in either direction */
};

/* 0 or -EINVAL with a sentence in fault. */
int s3_config_make(const struct objstore_url *url, struct s3_config *ret, char *fault, size_t fault_size);

#endif
