/* SPDX-License-Identifier: Apache-2.0
 *
 * Who signs: AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and AWS_SESSION_TOKEN, else a profile of the shared
 * credentials file (AWS_PROFILE, AWS_SHARED_CREDENTIALS_FILE), which is read again when it has changed.
 */
#ifndef STORAGED_OBJSTORE_S3_CREDENTIALS_H
#define STORAGED_OBJSTORE_S3_CREDENTIALS_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>

#include "common/slice.h"

struct s3_keys {
	char access_key[160], secret[201];
	char token[4096];               /* "" where there is none */
};

struct s3_credentials {
	pthread_mutex_t lock;
	char path[4096];                /* of the file; "" when the keys are the environment's */
	char profile[256];
	struct s3_keys keys;
	struct timespec changed;        /* the file's time when it was read */
	uint64_t looked_ms;
};

/*
 * Takes the variables out of the environment, at the first call of a process: their memory is overwritten. 0, or
 * -ENOENT and others with a sentence in fault that names variables and file, never a value.
 */
int s3_credentials_init(struct s3_credentials *c, char *fault, size_t fault_size);
void s3_credentials_done(struct s3_credentials *c);

/* The keys of now. From any thread; may read the file, at most once a second. */
void s3_credentials_get(struct s3_credentials *c, uint64_t now_ms, struct s3_keys *ret);

/* The profile's keys out of a credentials file's text. 0, -ENOENT without the profile, -EINVAL without its two keys. */
int s3_credentials_parse(struct slice text, const char *profile, struct s3_keys *ret);

#endif
