/* SPDX-License-Identifier: Apache-2.0 */
#include "t/lib/tls_peer.h"

#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <stdlib.h>
#include <string.h>

#include "common/must.h"

/* ------------------------------------------------------------------ certificates */

static char *text_of(BIO *b)
{
	char *p;
	long n = BIO_get_mem_data(b, &p);
	char *text = must_calloc(1, (size_t)n + 1);
	memcpy(text, p, (size_t)n);
	BIO_free(b);
	return text;
}

static void sign(struct identity *id, const char *name, const struct identity *issuer)
{
	static long serial;
	X509_NAME *subject = X509_NAME_new();
	X509V3_CTX v3;
	must(X509_NAME_add_entry_by_txt(subject, "CN", MBSTRING_ASC, (const unsigned char *)name, -1, -1, 0) == 1);
	must(X509_set_version(id->x, 2) == 1 && ASN1_INTEGER_set(X509_get_serialNumber(id->x), ++serial) == 1);
	must(X509_gmtime_adj(X509_getm_notBefore(id->x), -3600) != NULL);
	must(X509_gmtime_adj(X509_getm_notAfter(id->x), 3600) != NULL);
	must(X509_set_subject_name(id->x, subject) == 1 && X509_set_pubkey(id->x, id->pkey) == 1);
	must(X509_set_issuer_name(id->x, issuer != NULL ? X509_get_subject_name(issuer->x) : subject) == 1);
	X509V3_set_ctx(&v3, issuer != NULL ? issuer->x : id->x, id->x, NULL, NULL, 0);
	X509_EXTENSION *e = issuer != NULL ? X509V3_EXT_conf_nid(NULL, &v3, NID_subject_alt_name, "DNS:localhost") :
					     X509V3_EXT_conf_nid(NULL, &v3, NID_basic_constraints, "critical,CA:TRUE");
	must(e != NULL && X509_add_ext(id->x, e, -1) == 1);
	X509_EXTENSION_free(e);
	X509_NAME_free(subject);
	must(X509_sign(id->x, issuer != NULL ? issuer->pkey : id->pkey, EVP_sha256()) > 0);
}

void identity_make(struct identity *id, const char *name, const struct identity *issuer)
{
	BIO *chain = BIO_new(BIO_s_mem()), *key = BIO_new(BIO_s_mem());
	*id = (struct identity){ .x = X509_new(), .pkey = EVP_EC_gen("P-256") };
	must(id->x != NULL && id->pkey != NULL);
	sign(id, name, issuer);
	must(PEM_write_bio_X509(chain, id->x) == 1);
	must(PEM_write_bio_PrivateKey(key, id->pkey, NULL, NULL, 0, NULL, NULL) == 1);
	id->chain = text_of(chain);
	id->key = text_of(key);
}

void identity_free(struct identity *id)
{
	X509_free(id->x);
	EVP_PKEY_free(id->pkey);
	free(id->chain);
	free(id->key);
}

struct tls_pem identity_pem(const struct identity *id, const struct identity *client_ca)
{
	return (struct tls_pem){ slice_str(id->chain), slice_str(id->key),
				 client_ca != NULL ? slice_str(client_ca->chain) : slice_of(NULL, 0) };
}

struct tls_context *context_of(const struct identity *id, const struct identity *client_ca)
{
	struct tls_pem pem = identity_pem(id, client_ca);
	struct tls_context *context;
	struct tls_fault fault;
	must(tls_context_new(&pem, &context, &fault) == 0);
	return context;
}

/* ------------------------------------------------------------------ a client */

void tls_client_open(struct tls_client *c, int version, const struct identity *me)
{
	c->context = SSL_CTX_new(TLS_client_method());
	must(c->context != NULL && SSL_CTX_set_min_proto_version(c->context, version) == 1);
	must(SSL_CTX_set_max_proto_version(c->context, version) == 1);
	c->ssl = SSL_new(c->context);
	c->in = BIO_new(BIO_s_mem());
	c->out = BIO_new(BIO_s_mem());
	must(c->ssl != NULL && c->in != NULL && c->out != NULL);
	if (me != NULL)
		must(SSL_use_certificate(c->ssl, me->x) == 1 && SSL_use_PrivateKey(c->ssl, me->pkey) == 1);
	SSL_set_bio(c->ssl, c->in, c->out);
	SSL_set_connect_state(c->ssl);
}

void tls_client_close(struct tls_client *c)
{
	SSL_free(c->ssl);
	SSL_CTX_free(c->context);
	ERR_clear_error();
}
