/* SPDX-License-Identifier: Apache-2.0
 *
 * Signatures of webhooks: Ed25519 (RFC 8032) over the time and the body.
 */
#ifndef WORKER_HOOK_SIGN_H
#define WORKER_HOOK_SIGN_H

#include <stdint.h>

#include "common/slice.h"
#include "proto/subscription.pb-c.h"

#define SIGN_KEY 32
#define SIGN_TEXT 256

struct sign_pair {
	uint8_t private_key[SIGN_KEY], public_key[SIGN_KEY];
	char kid[24];                   /* ds_ and the begin of the public key's hash */
};

/* 0 or -EIO. */
int sign_pair_new(struct sign_pair *ret);
/* "t=SECONDS,kid=KID,ed25519=SIGNATURE". 0 or -EIO. */
int sign_text(const Sub__HookKey *key, int64_t seconds, struct slice body, char ret_text[static SIGN_TEXT]);

#endif
