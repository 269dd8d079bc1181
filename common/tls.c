/* SPDX-License-Identifier: Apache-2.0
 *
 * OpenSSL between two buffers. A BIO of our own stands for the socket: it takes from `in` and puts into `out`, so that
 * both have a bound, and an idle connection has no memory in either.
 */
#include "common/tls.h"

#include <errno.h>
#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/must.h"
#include "common/wire.h"

#define TLS_MAGIC 0x544c5321u
#define IN_MAX (64u << 10)
#define OUT_MAX (1u << 20)              /* a hostile peer could make more of it; nobody needs so much */
#define ALPN_MAX 64

struct tls_context {
	SSL_CTX *ssl;
};

struct tls {
	unsigned magic;
	SSL *ssl;                       /* owned */
	const char *alpn;
	struct buf in, out;
	char protocol[16];
	const char *why;
};

/* ------------------------------------------------------------------ credentials */

void tls_pem_write(const struct tls_pem *pem, struct buf *out)
{
	const struct slice part[] = { pem->chain, pem->key, pem->client_ca };
	for (size_t i = 0; i < sizeof(part) / sizeof(part[0]); i++) {
		uint8_t n[4];
		put_be32(n, (uint32_t)part[i].n);
		buf_put(out, n, sizeof(n));
		buf_put_slice(out, part[i]);
	}
}

int tls_pem_read(struct slice text, struct tls_pem *ret_pem)
{
	struct wire_reader r = wire_reader(text);
	struct tls_pem pem;
	pem.chain = wire_take(&r, wire_be32(&r));
	pem.key = wire_take(&r, wire_be32(&r));
	pem.client_ca = wire_take(&r, wire_be32(&r));
	if (r.failed || wire_left(&r) > 0)
		return -EBADMSG;
	*ret_pem = pem;
	return 0;
}

static int fault(struct tls_fault *f, enum tls_part part, const char *text)
{
	const char *reason = ERR_reason_error_string(ERR_peek_last_error());
	f->part = part;
	snprintf(f->text, sizeof(f->text), "%s%s%s", text, reason != NULL ? ": " : "", reason != NULL ? reason : "");
	ERR_clear_error();
	return -EINVAL;
}

static BIO *bio_of(struct slice text)
{
	BIO *b = BIO_new_mem_buf(text.p, (int)text.n);
	must(b != NULL);
	return b;
}

/* The end of a PEM text is an error for OpenSSL; here it is none. */
static bool is_end_of_pem(void)
{
	unsigned long e = ERR_peek_last_error();
	bool end = ERR_GET_LIB(e) == ERR_LIB_PEM && ERR_GET_REASON(e) == PEM_R_NO_START_LINE;
	if (end)
		ERR_clear_error();
	return end;
}

static int use_chain(SSL_CTX *ssl, struct slice text, struct tls_fault *f)
{
	BIO *b = bio_of(text);
	X509 *x = PEM_read_bio_X509(b, NULL, NULL, NULL);
	bool good = x != NULL && SSL_CTX_use_certificate(ssl, x) == 1;
	X509_free(x);
	while (good && (x = PEM_read_bio_X509(b, NULL, NULL, NULL)) != NULL)
		good = SSL_CTX_add0_chain_cert(ssl, x) == 1;
	good = good && is_end_of_pem();
	BIO_free(b);
	return good ? 0 : fault(f, TLS_CHAIN, "this is no certificate that can be used");
}

/* Nobody is there to be asked. */
static int no_passphrase(char *text, int size, int writing, void *arg)
{
	*(bool *)arg = true;
	return -1;
}

static int use_key(SSL_CTX *ssl, struct slice text, struct tls_fault *f)
{
	BIO *b = bio_of(text);
	bool asked = false;
	EVP_PKEY *key = PEM_read_bio_PrivateKey(b, NULL, no_passphrase, &asked);
	BIO_free(b);
	if (key == NULL && asked)
		ERR_clear_error();
	if (key == NULL)
		return fault(f, TLS_KEY, asked ? "the key has a passphrase; give one without" : "this is no private key");
	int r = SSL_CTX_use_PrivateKey(ssl, key);
	EVP_PKEY_free(key);
	if (r == 1 && SSL_CTX_check_private_key(ssl) == 1)
		return 0;
	ERR_clear_error();
	return fault(f, TLS_KEY, "the key does not belong to the certificate");
}

/* Whoever is named here is named to clients, too, which choose their certificate by it. */
static int use_client_ca(SSL_CTX *ssl, struct slice text, struct tls_fault *f)
{
	X509_STORE *store = SSL_CTX_get_cert_store(ssl);
	BIO *b = bio_of(text);
	bool good = true;
	unsigned n = 0;
	X509 *x;
	while (good && (x = PEM_read_bio_X509(b, NULL, NULL, NULL)) != NULL) {
		good = X509_STORE_add_cert(store, x) == 1 && SSL_CTX_add_client_CA(ssl, x) == 1;
		X509_free(x);
		n++;
	}
	good = good && is_end_of_pem() && n > 0;
	BIO_free(b);
	if (!good)
		return fault(f, TLS_CLIENT_CA, "this is no certificate that can be used");
	SSL_CTX_set_verify(ssl, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, NULL);
	return 0;
}

/* The first of ours that the client has, too. */
static int on_alpn(SSL *ssl, const unsigned char **ret, unsigned char *ret_n, const unsigned char *in, unsigned n, void *arg)
{
	const struct tls *t = SSL_get_app_data(ssl);
	uint8_t ours[ALPN_MAX];
	unsigned n_ours = 0;
	if (t->alpn == NULL)
		return SSL_TLSEXT_ERR_NOACK;
	for (const char *word = t->alpn; *word != '\0'; ) {
		size_t length = strcspn(word, ",");
		must(length > 0 && n_ours + 1 + length <= sizeof(ours));
		ours[n_ours++] = (uint8_t)length;
		memcpy(ours + n_ours, word, length);
		n_ours += (unsigned)length;
		word += length + (word[length] == ',');
	}
	unsigned char *chosen;
	if (SSL_select_next_proto(&chosen, ret_n, ours, n_ours, in, n) != OPENSSL_NPN_NEGOTIATED)
		return SSL_TLSEXT_ERR_ALERT_FATAL;
	const uint8_t *mine = memmem(in, n, chosen - 1, (size_t)*ret_n + 1);
	must(mine != NULL); /* what is given back must outlive this call */
	*ret = mine + 1;
	return SSL_TLSEXT_ERR_OK;
}

static void set_up(SSL_CTX *ssl)
{
	SSL_CTX_set_min_proto_version(ssl, TLS1_2_VERSION);
	SSL_CTX_set_options(ssl, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION | SSL_OP_NO_TICKET | SSL_OP_CIPHER_SERVER_PREFERENCE);
	SSL_CTX_set_session_cache_mode(ssl, SSL_SESS_CACHE_OFF);
	SSL_CTX_set_num_tickets(ssl, 0);
	SSL_CTX_set_mode(ssl, SSL_MODE_RELEASE_BUFFERS);
	SSL_CTX_set_alpn_select_cb(ssl, on_alpn, NULL);
}

int tls_context_new(const struct tls_pem *pem, struct tls_context **ret_context, struct tls_fault *ret_fault)
{
	struct tls_context *c = must_calloc(1, sizeof(*c));
	ERR_clear_error();
	c->ssl = SSL_CTX_new(TLS_server_method());
	must(c->ssl != NULL);
	set_up(c->ssl);
	int r = use_chain(c->ssl, pem->chain, ret_fault);
	if (r == 0)
		r = use_key(c->ssl, pem->key, ret_fault);
	if (r == 0 && pem->client_ca.n > 0)
		r = use_client_ca(c->ssl, pem->client_ca, ret_fault);
	if (r == 0)
		*ret_context = c;
	else
		tls_context_free(c);
	return r;
}

void tls_context_free(struct tls_context *c)
{
	if (c == NULL)
		return;
	SSL_CTX_free(c->ssl);
	free(c);
}

/* ------------------------------------------------------------------ the BIO */

static int bio_read(BIO *b, char *p, int n)
{
	struct tls *t = BIO_get_data(b);
	size_t have = buf_len(&t->in);
	BIO_clear_retry_flags(b);
	if (n <= 0)
		return 0;
	if (have == 0) {
		BIO_set_retry_read(b);
		return -1;
	}
	have = have < (size_t)n ? have : (size_t)n;
	memcpy(p, buf_head(&t->in), have);
	buf_consume(&t->in, have);
	return (int)have;
}

static int bio_write(BIO *b, const char *p, int n)
{
	struct tls *t = BIO_get_data(b);
	BIO_clear_retry_flags(b);
	buf_put(&t->out, p, n > 0 ? (size_t)n : 0);
	return t->out.failed ? -1 : n;
}

static long bio_ctrl(BIO *b, int cmd, long number, void *p)
{
	return cmd == BIO_CTRL_FLUSH;
}

static BIO_METHOD *bio_method(void)
{
	static BIO_METHOD *method;
	if (method != NULL)
		return method;
	method = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "bytes");
	must(method != NULL && BIO_meth_set_read(method, bio_read) == 1 && BIO_meth_set_write(method, bio_write) == 1 &&
	     BIO_meth_set_ctrl(method, bio_ctrl) == 1);
	return method;
}

/* ------------------------------------------------------------------ one connection */

struct tls *tls_new(struct tls_context *c, const char *alpn)
{
	struct tls *t = must_calloc(1, sizeof(*t));
	*t = (struct tls){ .magic = TLS_MAGIC, .alpn = alpn };
	buf_init(&t->in, IN_MAX);
	buf_init(&t->out, OUT_MAX);
	BIO *bio = BIO_new(bio_method());
	t->ssl = bio != NULL ? SSL_new(c->ssl) : NULL;
	if (t->ssl == NULL) {
		BIO_free(bio);
		tls_free(t);
		return NULL;
	}
	BIO_set_data(bio, t);
	BIO_set_init(bio, 1);
	SSL_set_bio(t->ssl, bio, bio);
	SSL_set_app_data(t->ssl, t);
	SSL_set_accept_state(t->ssl);
	return t;
}

void tls_free(struct tls *t)
{
	if (t == NULL)
		return;
	must(t->magic == TLS_MAGIC);
	SSL_free(t->ssl);
	buf_done(&t->in);
	buf_done(&t->out);
	t->magic = 0;
	free(t);
}

struct buf *tls_in(struct tls *t)
{
	return &t->in;
}

struct buf *tls_out(struct tls *t)
{
	return &t->out;
}

/* What the peer's certificate lacks says more than that it was refused. */
static const char *reason_of(const struct tls *t)
{
	unsigned long e = ERR_peek_last_error();
	long verified = SSL_get_verify_result(t->ssl);
	if (t->out.failed)
		return "it takes nothing";
	if (ERR_GET_REASON(e) == SSL_R_CERTIFICATE_VERIFY_FAILED && verified != X509_V_OK)
		return X509_verify_cert_error_string(verified);
	const char *reason = ERR_reason_error_string(e);
	return reason != NULL ? reason : "unknown";
}

/* What a call of OpenSSL that failed means. */
static int outcome(struct tls *t, int r)
{
	switch (SSL_get_error(t->ssl, r)) {
	case SSL_ERROR_WANT_READ:
		return -EAGAIN;
	case SSL_ERROR_ZERO_RETURN:
		return 0;
	default:
		if (t->why == NULL)
			t->why = reason_of(t);
		return -EPROTO;
	}
}

int tls_handshake(struct tls *t)
{
	if (t->why != NULL)
		return -EPROTO;
	ERR_clear_error();
	int r = SSL_do_handshake(t->ssl);
	if (r != 1) {
		r = outcome(t, r);
		return r == 0 ? -EAGAIN : r; /* an end before the beginning: the socket tells */
	}
	const unsigned char *protocol;
	unsigned n;
	SSL_get0_alpn_selected(t->ssl, &protocol, &n);
	snprintf(t->protocol, sizeof(t->protocol), "%.*s", (int)n, (const char *)protocol);
	return 0;
}

ssize_t tls_read(struct tls *t, void *p, size_t n)
{
	size_t got;
	if (t->why != NULL)
		return -EPROTO;
	ERR_clear_error();
	int r = SSL_read_ex(t->ssl, p, n, &got);
	return r == 1 ? (ssize_t)got : outcome(t, r);
}

ssize_t tls_write(struct tls *t, const void *p, size_t n)
{
	size_t put;
	must(n > 0 && n <= TLS_RECORD_MAX);
	if (t->why != NULL)
		return -EPROTO;
	ERR_clear_error();
	int r = SSL_write_ex(t->ssl, p, n, &put);
	if (r == 1)
		return (ssize_t)put;
	r = outcome(t, r);
	return r == -EPROTO ? r : -EPROTO; /* nothing it could wait for: there is no renegotiation */
}

void tls_end(struct tls *t)
{
	ERR_clear_error();
	if (t->why == NULL)
		SSL_shutdown(t->ssl);
	ERR_clear_error();
}

bool tls_has_input(const struct tls *t)
{
	return buf_len(&t->in) > 0 || SSL_pending(t->ssl) > 0 || t->why != NULL;
}

const char *tls_why(const struct tls *t)
{
	return t->why;
}

const char *tls_protocol(const struct tls *t)
{
	return t->protocol;
}
