/* SPDX-License-Identifier: Apache-2.0
 *
 * What tests need of the other side of TLS: certificates made on the spot, and a client between two buffers.
 */
#ifndef T_LIB_TLS_PEER_H
#define T_LIB_TLS_PEER_H

#include <openssl/ssl.h>

#include "common/tls.h"

/* A certificate for "localhost" and its key; texts in PEM, owned. */
struct identity {
	X509 *x;
	EVP_PKEY *pkey;
	char *chain, *key;
};
/* Signed by issuer; by itself, as an authority, when that is NULL. */
void identity_make(struct identity *id, const char *name, const struct identity *issuer);
void identity_free(struct identity *id);
struct tls_pem identity_pem(const struct identity *id, const struct identity *client_ca);
struct tls_context *context_of(const struct identity *id, const struct identity *client_ca);

/* OpenSSL's own client; what is for the server is taken with BIO_read(out), what is from it goes into BIO_write(in). */
struct tls_client {
	SSL_CTX *context;
	SSL *ssl;
	BIO *in, *out;
};
/* version: TLS1_2_VERSION, TLS1_3_VERSION, 0: any. me: its certificate; NULL: none. */
void tls_client_open(struct tls_client *c, int version, const struct identity *me);
void tls_client_close(struct tls_client *c);

#endif
