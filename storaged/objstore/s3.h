/* SPDX-License-Identifier: Apache-2.0
 *
 * The object store on S3 and what speaks its API. A URL's path is BUCKET or BUCKET/PREFIX.
 */
#ifndef STORAGED_OBJSTORE_S3_H
#define STORAGED_OBJSTORE_S3_H

#include "storaged/objstore/url.h"

/* As objstore_open(). */
int s3_store_open(struct env *env, const struct objstore_url *url, struct objstore **ret_store, char *fault,
		  size_t fault_size);

#endif
