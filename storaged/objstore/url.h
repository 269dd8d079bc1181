/* SPDX-License-Identifier: Apache-2.0
 *
 * Storage URLs and the door to the stores they name. What is said of a URL holds no secret: credentials are
 * never part of it.
 */
#ifndef STORAGED_OBJSTORE_URL_H
#define STORAGED_OBJSTORE_URL_H

#include "storaged/objstore/objstore.h"

/*
 * A storage URL: ID@SCHEME://PATH[?k=v&...]. WAL parameters (batchInterval, maxBytesInBatch,
 * maxUnflushedBytes, maxInflightUploadCount) are read here, too.
 */
struct objstore_url {
	int16_t bucket_id;
	char scheme[8];                 /* file, mem, s3 */
	char path[4096];
	uint64_t batch_interval_ms;     /* UINT64_MAX where not given */
	uint64_t max_bytes_in_batch;
	uint64_t max_unflushed_bytes;
	uint32_t max_inflight;          /* 0 where not given; 1..64 */
	uint32_t request_timeout_ms;    /* s3: 0 where not given */
	char region[64], endpoint[512]; /* s3: "" where not given */
	int8_t path_style;              /* s3: 0 or 1; -1 where not given */
	bool has_batch_interval, has_max_bytes, has_max_unflushed;
};
/* 0 or -EINVAL with a sentence in fault. Without ID@ the bucket is -2. PATH is taken byte for byte, up to '?'. */
int objstore_url_parse(const char *url, struct objstore_url *ret_url, char *fault, size_t fault_size);

/* Whether two URLs name one place. */
bool objstore_url_same_place(const struct objstore_url *a, const struct objstore_url *b);

/*
 * Opens what the URL names. A directory is made if it is missing, each new one fsynced into its parent before an
 * object in it counts. `put_id` names temporary files of this process; those of others are emptied. Files: two threads
 * of its own for puts; the rest runs as env jobs. mem: stores of one name share their content while one of them is
 * open. s3: two threads of its own; takes AWS_* out of the environment; nothing is sent yet. put_id NULL: to read only,
 * beside a process that owns it: nothing is made or emptied, a directory must be there, and puts fail.
 */
int objstore_open(struct env *env, const struct objstore_url *url, const uint8_t put_id[16],
		  struct objstore **ret_store, char *fault, size_t fault_size);

/* [0-9a-z/._-], no segment empty or beginning with '.', shorter than 512 bytes. */
bool objstore_key_is_legal(const char *key);

#endif
