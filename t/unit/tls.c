/* SPDX-License-Identifier: Apache-2.0
 *
 * TLS as a function of bytes, against OpenSSL's own client: versions, protocols, certificates of clients, ends,
 * everything byte by byte, and what is no TLS.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <errno.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <stdlib.h>
#include <string.h>

#include "common/must.h"
#include "t/lib/tls_peer.h"

static struct identity ca, server, other_ca, user, stranger;

static int setup(void **state)
{
	identity_make(&ca, "authority", NULL);
	identity_make(&other_ca, "another authority", NULL);
	identity_make(&server, "localhost", &ca);
	identity_make(&user, "user", &ca);
	identity_make(&stranger, "stranger", &other_ca);
	return 0;
}

static int teardown(void **state)
{
	struct identity *all[] = { &ca, &other_ca, &server, &user, &stranger };
	for (size_t i = 0; i < 5; i++)
		identity_free(all[i]);
	return 0;
}

/* Both sides of one connection. */
struct world {
	struct tls_context *context;
	struct tls *tls;
	struct tls_client client;
	size_t cut;                     /* bytes that the server gets at once; 0: all */
};

static void world_open(struct world *w, const char *alpn, int version)
{
	*w = (struct world){ .context = context_of(&server, NULL) };
	w->tls = tls_new(w->context, alpn);
	assert_non_null(w->tls);
	tls_client_open(&w->client, version, NULL);
}

static void world_close(struct world *w)
{
	tls_free(w->tls);
	tls_context_free(w->context);
	tls_client_close(&w->client);
}

static void server_to_client(struct world *w)
{
	struct buf *out = tls_out(w->tls);
	if (buf_len(out) > 0)
		must(BIO_write(w->client.in, buf_head(out), (int)buf_len(out)) == (int)buf_len(out));
	buf_consume(out, buf_len(out));
}

/* False when the client has nothing for the server. */
static bool client_to_server(struct world *w)
{
	uint8_t bytes[16384];
	size_t most = w->cut > 0 ? w->cut : sizeof(bytes);
	must(buf_len(tls_in(w->tls)) == 0);
	int n = BIO_read(w->client.out, bytes, (int)most);
	if (n > 0)
		buf_put(tls_in(w->tls), bytes, (size_t)n);
	return n > 0;
}

/* The server's result of the handshake, when nobody has more to say. */
static int shake(struct world *w)
{
	int r = -EAGAIN;
	do {
		SSL_do_handshake(w->client.ssl);
		if (!client_to_server(w))
			break;
		r = tls_handshake(w->tls);
		server_to_client(w);
	} while (r != -EPROTO);
	SSL_do_handshake(w->client.ssl);
	return r;
}

static size_t server_reads(struct world *w, uint8_t *p, size_t n)
{
	size_t have = 0;
	ssize_t got;
	do {
		got = tls_read(w->tls, p + have, n - have);
		have += got > 0 ? (size_t)got : 0;
	} while (have < n && (got > 0 || (got == -EAGAIN && client_to_server(w))));
	return have;
}

static void expect_echo(struct world *w)
{
	uint8_t bytes[3000], got[3000];
	for (size_t i = 0; i < sizeof(bytes); i++)
		bytes[i] = (uint8_t)(i * 7);
	assert_int_equal(SSL_write(w->client.ssl, bytes, sizeof(bytes)), sizeof(bytes));
	assert_int_equal(server_reads(w, got, sizeof(got)), sizeof(got));
	assert_memory_equal(got, bytes, sizeof(got));
	assert_int_equal(tls_read(w->tls, got, sizeof(got)), -EAGAIN);
	assert_false(tls_has_input(w->tls));
	assert_int_equal(tls_write(w->tls, bytes, sizeof(bytes)), sizeof(bytes));
	server_to_client(w);
	assert_int_equal(SSL_read(w->client.ssl, got, sizeof(got)), sizeof(got));
	assert_memory_equal(got, bytes, sizeof(got));
}

/* ------------------------------------------------------------------ connections */

static void versions(void **state)
{
	static const int version[] = { TLS1_2_VERSION, TLS1_3_VERSION };
	struct world w;
	for (size_t i = 0; i < 2; i++) {
		for (size_t cut = 0; cut < 2; cut++) {
			world_open(&w, NULL, version[i]);
			w.cut = cut;
			assert_int_equal(shake(&w), 0);
			assert_int_equal(SSL_version(w.client.ssl), version[i]);
			assert_string_equal(tls_protocol(w.tls), "");
			assert_null(tls_why(w.tls));
			expect_echo(&w);
			assert_int_equal(SSL_session_reused(w.client.ssl), 0);
			world_close(&w);
		}
	}
}

static void old_versions_are_refused(void **state)
{
	struct world w;
	world_open(&w, NULL, TLS1_1_VERSION);
	SSL_set_security_level(w.client.ssl, 0);
	assert_int_equal(shake(&w), -EPROTO);
	assert_string_equal(tls_why(w.tls), "unsupported protocol");
	world_close(&w);
}

static void protocols(void **state)
{
	static const struct {
		const char *ours, *theirs, *agreed;     /* agreed NULL: refused */
	} rows[] = {
		{ "h2,http/1.1", "\x08http/1.1\x02h2", "h2" },
		{ "h2,http/1.1", "\x08http/1.1", "http/1.1" },
		{ "http/1.1", "\x02h2\x08http/1.1", "http/1.1" },
		{ "http/1.1", "\x02h2\x03h2c", NULL },
		{ "h2", "\x03h2c", NULL },
		{ "http/1.1", "", "" },
		{ NULL, "\x02h2", "" },
	};
	struct world w;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		world_open(&w, rows[i].ours, 0);
		if (rows[i].theirs[0] != '\0')
			SSL_set_alpn_protos(w.client.ssl, (const uint8_t *)rows[i].theirs, (unsigned)strlen(rows[i].theirs));
		assert_int_equal(shake(&w), rows[i].agreed != NULL ? 0 : -EPROTO);
		assert_string_equal(tls_protocol(w.tls), rows[i].agreed != NULL ? rows[i].agreed : "");
		if (rows[i].agreed == NULL)
			assert_string_equal(tls_why(w.tls), "no application protocol");
		world_close(&w);
	}
}

static void certificates_of_clients(void **state)
{
	static const struct {
		const struct identity *me;
		const char *why;
	} rows[] = {
		{ &user, NULL },
		{ NULL, "peer did not return a certificate" },
		{ &stranger, "unable to get local issuer certificate" },
		{ &other_ca, "self-signed certificate" },
	};
	for (size_t i = 0; i < 2 * sizeof(rows) / sizeof(rows[0]); i++) {
		struct world w = { .context = context_of(&server, &ca) };
		w.tls = tls_new(w.context, NULL);
		tls_client_open(&w.client, i % 2 == 0 ? TLS1_2_VERSION : TLS1_3_VERSION, rows[i / 2].me);
		assert_int_equal(shake(&w), rows[i / 2].why == NULL ? 0 : -EPROTO);
		if (rows[i / 2].why == NULL)
			expect_echo(&w);
		else
			assert_string_equal(tls_why(w.tls), rows[i / 2].why);
		world_close(&w);
	}
}

static void ends(void **state)
{
	struct world w;
	char c;
	world_open(&w, NULL, 0);
	assert_int_equal(shake(&w), 0);
	SSL_write(w.client.ssl, "x", 1);
	SSL_shutdown(w.client.ssl);
	assert_true(client_to_server(&w));
	assert_int_equal(tls_read(w.tls, &c, 1), 1);
	assert_int_equal(c, 'x');
	assert_int_equal(tls_read(w.tls, &c, 1), 0);
	assert_int_equal(tls_write(w.tls, "late", 4), 4); /* half of it is open */
	tls_end(w.tls);
	server_to_client(&w);
	char got[8];
	assert_int_equal(SSL_read(w.client.ssl, got, sizeof(got)), 4);
	assert_int_equal(SSL_read(w.client.ssl, got, sizeof(got)), 0);
	assert_int_equal(SSL_get_error(w.client.ssl, 0), SSL_ERROR_ZERO_RETURN);
	world_close(&w);
}

/* A replaced context lives on in connections that began with it. */
static void an_old_context(void **state)
{
	struct world w;
	world_open(&w, NULL, 0);
	assert_int_equal(shake(&w), 0);
	tls_context_free(w.context);
	w.context = NULL;
	expect_echo(&w);
	world_close(&w);
}

/* ------------------------------------------------------------------ what is none */

static void garbage(void **state)
{
	static const struct {
		const char *bytes, *why;
	} rows[] = {
		{ "GET / HTTP/1.1\r\nHost: x\r\n\r\n", "http request" },
		{ "PUT /x HTTP/1.1\r\n", "http request" },
		{ "SSH-2.0-OpenSSH_9.2\r\n", "wrong version number" },
		{ "\x16\x03\x01\xff\xff garbage", "packet length too long" },
		{ "\x15\x03\x03\x01\x02\x02\x28......", NULL },
	};
	struct tls_context *context = context_of(&server, NULL);
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct tls *t = tls_new(context, NULL);
		buf_put_str(tls_in(t), rows[i].bytes);
		int r = tls_handshake(t);
		assert_true(r == -EPROTO || (rows[i].why == NULL && r == -EAGAIN));
		if (rows[i].why != NULL) {
			assert_string_equal(tls_why(t), rows[i].why);
			assert_int_equal(tls_handshake(t), -EPROTO); /* and stays so */
		}
		tls_free(t);
	}
	srand(1);
	for (int i = 0; i < 2000; i++) {
		struct tls *t = tls_new(context, NULL);
		char got[64];
		for (int n = 200; n > 0; n--)
			buf_put_u8(tls_in(t), (uint8_t)(i % 3 > 0 && n > 197 ? "\x01\x03\x16"[n - 198] : rand()));
		int r = tls_handshake(t);
		assert_true(r == -EPROTO || r == -EAGAIN);
		assert_true(tls_read(t, got, sizeof(got)) < 0);
		tls_free(t);
	}
	tls_context_free(context);
}

/* Each bit of the client's first flight turned: refused or waited for, never more. Each prefix of it: waited for. */
static void a_broken_hello(void **state)
{
	struct tls_context *context = context_of(&server, NULL);
	struct tls_client client;
	uint8_t hello[2048];
	tls_client_open(&client, 0, NULL);
	SSL_do_handshake(client.ssl);
	int n = BIO_read(client.out, hello, sizeof(hello));
	assert_true(n > 100);
	for (int i = 0; i < n; i++) {
		struct tls *t = tls_new(context, NULL);
		buf_put(tls_in(t), hello, (size_t)i);
		assert_int_equal(tls_handshake(t), -EAGAIN);
		assert_int_equal(buf_len(tls_out(t)), 0);
		tls_free(t);
		t = tls_new(context, NULL);
		hello[i] ^= (uint8_t)(1 << i % 8);
		buf_put(tls_in(t), hello, (size_t)n);
		hello[i] ^= (uint8_t)(1 << i % 8);
		int r = tls_handshake(t);
		assert_true(r == -EAGAIN || r == -EPROTO);
		tls_free(t);
	}
	tls_client_close(&client);
	tls_context_free(context);
}

static void a_changed_record(void **state)
{
	static const int version[] = { TLS1_2_VERSION, TLS1_3_VERSION };
	for (size_t v = 0; v < 2; v++) {
		struct world w;
		uint8_t bytes[256], got[64];
		world_open(&w, NULL, version[v]);
		assert_int_equal(shake(&w), 0);
		SSL_write(w.client.ssl, "good", 4);
		int n = BIO_read(w.client.out, bytes, sizeof(bytes));
		bytes[n - 1] ^= 1;
		buf_put(tls_in(w.tls), bytes, (size_t)n);
		assert_int_equal(tls_read(w.tls, got, sizeof(got)), -EPROTO);
		assert_string_equal(tls_why(w.tls), "decryption failed or bad record mac");
		assert_true(buf_len(tls_out(w.tls)) > 0); /* the alert */
		assert_true(tls_has_input(w.tls)); /* worth a read, which says so again */
		assert_int_equal(tls_write(w.tls, "x", 1), -EPROTO);
		world_close(&w);
	}
}

/* ------------------------------------------------------------------ credentials */

static void expect_fault(struct tls_pem pem, enum tls_part part, const char *text)
{
	struct tls_context *context = NULL;
	struct tls_fault fault;
	assert_int_equal(tls_context_new(&pem, &context, &fault), -EINVAL);
	assert_null(context);
	assert_int_equal(fault.part, part);
	assert_string_equal(fault.text, text);
}

static void faults(void **state)
{
	static const char none[] = "this is no certificate that can be used";
	struct tls_pem good = identity_pem(&server, &ca), pem = good;
	char *half = strdup(server.chain);
	half[strlen(half) / 2] = '\0';
	pem.chain = slice_str("nothing of the kind\n");
	expect_fault(pem, TLS_CHAIN, "this is no certificate that can be used: no start line");
	pem.chain = slice_str(half);
	expect_fault(pem, TLS_CHAIN, "this is no certificate that can be used: bad end line");
	free(half);
	pem = good;
	pem.key = slice_str(server.chain);
	expect_fault(pem, TLS_KEY, "this is no private key: unsupported");
	pem.key = slice_str(user.key);
	expect_fault(pem, TLS_KEY, "the key does not belong to the certificate");
	BIO *b = BIO_new(BIO_s_mem());
	char *text;
	must(PEM_write_bio_PrivateKey(b, server.pkey, EVP_aes_256_cbc(), (const uint8_t *)"secret", 6, NULL, NULL) == 1);
	long n = BIO_get_mem_data(b, &text);
	pem.key = slice_of(text, (size_t)n);
	expect_fault(pem, TLS_KEY, "the key has a passphrase; give one without");
	BIO_free(b);
	pem = good;
	pem.client_ca = slice_str(server.key);
	expect_fault(pem, TLS_CLIENT_CA, none);
	pem.client_ca = slice_str("\n");
	expect_fault(pem, TLS_CLIENT_CA, none);
}

static void one_text_of_three(void **state)
{
	struct tls_pem pem = { slice_str("chain"), slice_str("the key"), slice_of(NULL, 0) }, back;
	struct buf b;
	buf_init(&b, 1000);
	tls_pem_write(&pem, &b);
	struct slice text = buf_slice(&b);
	assert_int_equal(tls_pem_read(text, &back), 0);
	assert_true(slice_eq(back.chain, pem.chain) && slice_eq(back.key, pem.key) && back.client_ca.n == 0);
	for (size_t n = 0; n < text.n; n++)
		assert_int_equal(tls_pem_read(slice_of(text.p, n), &back), -EBADMSG);
	buf_put_u8(&b, 0);
	assert_int_equal(tls_pem_read(buf_slice(&b), &back), -EBADMSG);
	buf_done(&b);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(versions),
		cmocka_unit_test(old_versions_are_refused),
		cmocka_unit_test(protocols),
		cmocka_unit_test(certificates_of_clients),
		cmocka_unit_test(ends),
		cmocka_unit_test(an_old_context),
		cmocka_unit_test(garbage),
		cmocka_unit_test(a_broken_hello),
		cmocka_unit_test(a_changed_record),
		cmocka_unit_test(faults),
		cmocka_unit_test(one_text_of_three),
	};
	return cmocka_run_group_tests(tests, setup, teardown);
}
