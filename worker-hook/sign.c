/* SPDX-License-Identifier: Apache-2.0 */
#include "worker-hook/sign.h"

#include <errno.h>
#include <inttypes.h>
#include <openssl/evp.h>
#include <openssl/sha.h>
#include <stdio.h>
#include <string.h>

#include "common/base64.h"

#define SIGNATURE 64

int sign_pair_new(struct sign_pair *ret)
{
	uint8_t hash[SHA256_DIGEST_LENGTH];
	size_t n = SIGN_KEY, m = SIGN_KEY;
	EVP_PKEY *key = EVP_PKEY_Q_keygen(NULL, NULL, "ED25519");
	bool good = key != NULL && EVP_PKEY_get_raw_private_key(key, ret->private_key, &n) == 1 &&
		EVP_PKEY_get_raw_public_key(key, ret->public_key, &m) == 1;
	EVP_PKEY_free(key);
	if (!good)
		return -EIO;
	SHA256(ret->public_key, sizeof(ret->public_key), hash);
	snprintf(ret->kid, sizeof(ret->kid), "ds_%02x%02x%02x%02x%02x%02x%02x%02x", hash[0], hash[1], hash[2], hash[3], hash[4],
		 hash[5], hash[6], hash[7]);
	return 0;
}

static bool sign(const Sub__HookKey *pair, struct slice text, uint8_t ret[SIGNATURE])
{
	size_t n = SIGNATURE;
	EVP_PKEY *key = EVP_PKEY_new_raw_private_key(EVP_PKEY_ED25519, NULL, pair->private_key.data, pair->private_key.len);
	EVP_MD_CTX *md = EVP_MD_CTX_new();
	bool good = key != NULL && md != NULL && EVP_DigestSignInit(md, NULL, NULL, NULL, key) == 1 &&
		EVP_DigestSign(md, ret, &n, text.p, text.n) == 1 && n == SIGNATURE;
	EVP_MD_CTX_free(md);
	EVP_PKEY_free(key);
	return good;
}

int sign_text(const Sub__HookKey *key, int64_t seconds, struct slice body, char ret_text[static SIGN_TEXT])
{
	uint8_t signature[SIGNATURE];
	struct buf text, encoded;
	buf_init(&text, body.n + 32);
	buf_init(&encoded, 128);
	buf_printf(&text, "%" PRId64 ".", seconds);
	buf_put_slice(&text, body);
	bool good = sign(key, buf_slice(&text), signature);
	base64_put(&encoded, slice_of(signature, sizeof(signature)));
	buf_put_u8(&encoded, '\0');
	for (char *p = (char *)buf_head(&encoded); *p != '\0'; p++)
		*p = *p == '+' ? '-' : *p == '/' ? '_' : *p == '=' ? '\0' : *p; /* RFC 4648 section 5, without padding */
	snprintf(ret_text, SIGN_TEXT, "t=%" PRId64 ",kid=%s,ed25519=%s", seconds, key->kid, (char *)buf_head(&encoded));
	buf_done(&text);
	buf_done(&encoded);
	return good ? 0 : -EIO;
}
