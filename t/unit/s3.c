/* SPDX-License-Identifier: Apache-2.0
 *
 * The parts of the S3 store that need no server: signatures (AWS's published examples), how a request is written,
 * URLs, credentials, XML, what errors mean, when a read is slow.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "storaged/objstore/s3_error.h"
#include "storaged/objstore/s3_latency.h"
#include "storaged/objstore/s3_request.h"
#include "storaged/objstore/s3_xml.h"

#define EMPTY_HASH "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
#define EXAMPLE_SECRET "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"
#define EXAMPLE_HOST { "host", "examplebucket.s3.amazonaws.com" }
#define N(a) (sizeof(a) / sizeof((a)[0]))

/* Signatures. The examples are of the S3 documentation and of the general test suite. */

static void check_signature(struct s3_signer *s, const char *key, const char *secret, const struct s3_to_sign *r,
			    const char *signature)
{
	struct buf out;
	buf_init(&out, 4096);
	assert_int_equal(s3_sign(s, key, secret, r, &out), 0);
	buf_put_u8(&out, 0);
	const char *found = strstr((const char *)buf_head(&out), "Signature=");
	assert_non_null(found);
	assert_string_equal(found + 10, signature);
	buf_done(&out);
}

static void test_sign_s3(void **state)
{
	struct s3_signer s = { .region = "us-east-1", .service = "s3" };
	const char *put_hash = "44ce7dd67c959e0d3524ffac1771dfbba87d2b6b4b4e99e42034a8b803f8b072";
	const struct s3_header get[] = { EXAMPLE_HOST, { "range", "bytes=0-9" }, { "x-amz-content-sha256", EMPTY_HASH },
					 { "x-amz-date", "20130524T000000Z" } };
	const struct s3_header put[] = { { "date", "Fri, 24 May 2013 00:00:00 GMT" }, EXAMPLE_HOST,
					 { "x-amz-content-sha256", put_hash }, { "x-amz-date", "20130524T000000Z" },
					 { "x-amz-storage-class", "REDUCED_REDUNDANCY" } };
	const struct s3_header list[] = { EXAMPLE_HOST, { "x-amz-content-sha256", EMPTY_HASH },
					  { "x-amz-date", "20130524T000000Z" } };
	const struct { struct s3_to_sign r; const char *signature; } row[] = {
		{ { "GET", "/test.txt", "", get, N(get), EMPTY_HASH, "20130524T000000Z" },
		  "f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41" },
		{ { "PUT", "/test%24file.text", "", put, N(put), put_hash, "20130524T000000Z" },
		  "98ad721746da40c64f1a55b78f14c238d841ea1380cd77a1b5971af0ece108bd" },
		{ { "GET", "/", "lifecycle=", list, N(list), EMPTY_HASH, "20130524T000000Z" },
		  "fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543" },
		{ { "GET", "/", "max-keys=2&prefix=J", list, N(list), EMPTY_HASH, "20130524T000000Z" },
		  "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7" },
	};
	for (size_t i = 0; i < N(row); i++)
		check_signature(&s, "AKIAIOSFODNN7EXAMPLE", EXAMPLE_SECRET, &row[i].r, row[i].signature);
}

/* The day's key is kept, and made anew for another day or secret. */
static void test_sign_general(void **state)
{
	struct s3_signer s = { .region = "us-east-1", .service = "service" };
	const struct s3_header header[] = { { "host", "example.amazonaws.com" }, { "x-amz-date", "20150830T123600Z" } };
	struct s3_to_sign r = { "GET", "/", "", header, 2, EMPTY_HASH, "20150830T123600Z" };
	const char *vanilla = "5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31";
	const char *secret = "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY";
	check_signature(&s, "AKIDEXAMPLE", secret, &r, vanilla);
	uint8_t key[32];
	memcpy(key, s.key, 32);
	struct buf out;
	buf_init(&out, 4096);
	assert_int_equal(s3_sign(&s, "AKIDEXAMPLE", "another", &r, &out), 0);
	assert_memory_not_equal(key, s.key, 32);
	r.time = "20150831T123600Z";
	assert_int_equal(s3_sign(&s, "AKIDEXAMPLE", secret, &r, &out), 0);
	assert_memory_not_equal(key, s.key, 32);
	r.time = "20150830T123600Z";
	check_signature(&s, "AKIDEXAMPLE", secret, &r, vanilla);
	assert_memory_equal(key, s.key, 32);
	r.query = "Param1=value1&Param2=value2";
	check_signature(&s, "AKIDEXAMPLE", secret, &r, "b97d918cfa904a5beff61c982a1b6f458b799221646efd99d3219ec94cdf2500");
	char longer[300];
	memset(longer, 'x', sizeof(longer));
	longer[201] = 0;
	assert_int_equal(s3_sign(&s, "AKIDEXAMPLE", longer, &r, &out), -EINVAL);
	buf_done(&out);
}

static void test_encode(void **state)
{
	struct buf out;
	char text[S3_TIME];
	buf_init(&out, 4096);
	s3_encode(&out, "az AZ09-._~/+=%&\xc3\xa4(", true);
	s3_encode(&out, "/", false);
	assert_true(slice_is(buf_slice(&out), "az%20AZ09-._~/%2B%3D%25%26%C3%A4%28%2F"));
	buf_done(&out);
	s3_time_text(1369353600000 + 999, text);
	assert_string_equal(text, "20130524T000000Z");
	s3_time_text(0, text);
	assert_string_equal(text, "19700101T000000Z");
}

/* Requests */

static bool has_line(const struct s3_written *w, const char *line)
{
	for (const struct curl_slist *l = w->headers; l != NULL; l = l->next) {
		if (strcmp(l->data, line) == 0)
			return true;
	}
	return false;
}

static void test_request(void **state)
{
	struct s3_config c = { .bucket = "b", .host = "h:1", .base = "http://h:1", .root = "/b", .region = "r" };
	struct s3_signer s = { .region = c.region, .service = "s3" };
	struct s3_keys keys = { .access_key = "A", .secret = "S", .token = "T" };
	struct s3_written w;
	struct s3_request r;
	s3_request_init(&r, "PUT", "pre/", "wal/1/x");
	s3_request_query(&r, "partNumber", "2");
	s3_request_query(&r, "uploadId", "a/b+c");
	s3_request_header(&r, "if-none-match", "*");
	s3_request_body(&r, (const struct iovec[]){ { "12345", 5 }, { "", 0 }, { "6789", 4 } }, 3);
	r.checksum = true;
	assert_int_equal(s3_request_write(&r, &c, &s, &keys, 1369353600000, &w), 0);
	assert_string_equal(w.url, "http://h:1/b/pre/wal/1/x?partNumber=2&uploadId=a%2Fb%2Bc");
	assert_true(has_line(&w, "host: h:1") && has_line(&w, "x-amz-date: 20130524T000000Z"));
	assert_true(has_line(&w, "x-amz-security-token: T") && has_line(&w, "if-none-match: *"));
	assert_true(has_line(&w, "x-amz-checksum-crc32c: 4waSgw=="));      /* the check value of CRC-32C */
	assert_true(has_line(&w, "x-amz-content-sha256: "
				 "15e2b0d3c33891ebb0f1ef609ec419420c20e320ce94c65fbc8c3312448eb225"));
	s3_written_done(&w);
	c.tls = true;
	assert_int_equal(s3_request_write(&r, &c, &s, &keys, 1369353600000, &w), 0);
	assert_true(has_line(&w, "x-amz-content-sha256: UNSIGNED-PAYLOAD"));
	s3_written_done(&w);
	s3_request_done(&r);
}

/* URLs */

static int config(const char *text, struct s3_config *c)
{
	struct objstore_url u;
	char fault[600] = "";
	assert_int_equal(objstore_url_parse(text, &u, fault, sizeof(fault)), 0);
	int r = s3_config_make(&u, c, fault, sizeof(fault));
	assert_true((r == 0) == (fault[0] == 0));
	return r;
}

static void test_config(void **state)
{
	static const struct { const char *url, *base, *host, *root, *prefix, *region; } row[] = {
		{ "s3://b-1/p/q?region=eu-west-1", "https://b-1.s3.eu-west-1.amazonaws.com",
		  "b-1.s3.eu-west-1.amazonaws.com", "", "p/q/", "eu-west-1" },
		{ "s3://b/", "https://b.s3.us-east-1.amazonaws.com", "b.s3.us-east-1.amazonaws.com", "", "", "us-east-1" },
		{ "s3://a.b", "https://s3.us-east-1.amazonaws.com", "s3.us-east-1.amazonaws.com", "/a.b", "", "us-east-1" },
		{ "s3://b/p/?endpoint=http://127.0.0.1:9000/", "http://127.0.0.1:9000", "127.0.0.1:9000", "/b", "p/",
		  "us-east-1" },
		{ "s3://b?endpoint=https://h:443&pathStyle=false", "https://b.h", "b.h", "", "", "us-east-1" },
		{ "s3://b?endpoint=http://h:80&pathStyle=true", "http://h", "h", "/b", "", "us-east-1" },
		{ "s3://b?endpoint=http://[::1]:90", "http://[::1]:90", "[::1]:90", "/b", "", "us-east-1" },
	};
	static const char *const refused[] = {
		"s3://b c", "s3:///p", "s3://-b", "s3://b/p//q", "s3://b/../q", "s3://b/p q", "s3://b/<p>",
		"s3://b?endpoint=h:1", "s3://b?endpoint=ftp://h", "s3://b?endpoint=http://", "s3://b?endpoint=http://u:p@h",
		"s3://b?endpoint=http://h/path", "s3://b?region=a/b", "s3://b--use1-az4--x-s3",
	};
	struct s3_config c;
	unsetenv("AWS_REGION");
	unsetenv("AWS_DEFAULT_REGION");
	for (size_t i = 0; i < N(row); i++) {
		assert_int_equal(config(row[i].url, &c), 0);
		assert_string_equal(c.base, row[i].base);
		assert_string_equal(c.host, row[i].host);
		assert_string_equal(c.root, row[i].root);
		assert_string_equal(c.prefix, row[i].prefix);
		assert_string_equal(c.region, row[i].region);
	}
	for (size_t i = 0; i < N(refused); i++) {
		if (config(refused[i], &c) != -EINVAL)
			fail_msg("%s is not refused", refused[i]);
	}
	setenv("AWS_DEFAULT_REGION", "d", 1);
	assert_int_equal(config("s3://b", &c), 0);
	assert_string_equal(c.region, "d");
	setenv("AWS_REGION", "e", 1);
	assert_int_equal(config("s3://b", &c), 0);
	assert_string_equal(c.region, "e");
	assert_int_equal(config("s3://b?region=f&requestTimeout=300", &c), 0);
	assert_string_equal(c.region, "f");
	assert_int_equal(c.timeout_ms, 300);
}

/* Credentials */

static void write_file(const char *path, const char *text, long mtime)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
	assert_int_equal(write(fd, text, strlen(text)), (ssize_t)strlen(text));
	assert_int_equal(futimens(fd, (const struct timespec[2]){ { mtime, 0 }, { mtime, 0 } }), 0);
	close(fd);
}

static void test_credentials_file(void **state)
{
	char path[] = "/tmp/pico-credentials.XXXXXX", fault[5000] = "";
	struct s3_credentials c;
	struct s3_keys keys;
	close(mkstemp(path));
	setenv("AWS_SHARED_CREDENTIALS_FILE", path, 1);
	write_file(path, "# keys\n[default]\naws_access_key_id = A\n", 1);
	assert_int_equal(s3_credentials_init(&c, fault, sizeof(fault)), -EINVAL);
	assert_non_null(strstr(fault, "profile default lacks aws_access_key_id or aws_secret_access_key"));
	write_file(path, "[default]\naws_access_key_id=A\naws_secret_access_key =\tS=1/2+3 \r\n"
		   "[ other ]\naws_access_key_id=B\nregion=x\naws_secret_access_key=U\naws_session_token=T==\n", 2);
	assert_int_equal(s3_credentials_init(&c, fault, sizeof(fault)), 0);
	s3_credentials_get(&c, 10000, &keys);
	assert_string_equal(keys.access_key, "A");
	assert_string_equal(keys.secret, "S=1/2+3");
	assert_string_equal(keys.token, "");
	/* Another file: seen a second later. A broken one changes nothing. */
	write_file(path, "[default]\naws_access_key_id=N\naws_secret_access_key=M\n", 3);
	s3_credentials_get(&c, 10999, &keys);
	assert_string_equal(keys.access_key, "A");
	s3_credentials_get(&c, 11000, &keys);
	assert_string_equal(keys.access_key, "N");
	write_file(path, "[default]\naws_access", 4);
	s3_credentials_get(&c, 12000, &keys);
	assert_string_equal(keys.secret, "M");
	s3_credentials_done(&c);
	setenv("AWS_PROFILE", "other", 1);
	assert_int_equal(s3_credentials_init(&c, fault, sizeof(fault)), -ENOENT);
	assert_non_null(strstr(fault, "profile other is not in it"));
	assert_int_equal(s3_credentials_parse(slice_str("[o]\naws_access_key_id=B\naws_secret_access_key=U\n"
							"aws_session_token=T==\n[p]\naws_access_key_id=C"), "o", &keys), 0);
	assert_string_equal(keys.access_key, "B");
	assert_string_equal(keys.token, "T==");
	unlink(path);
	assert_int_equal(s3_credentials_init(&c, fault, sizeof(fault)), -ENOENT);
	assert_non_null(strstr(fault, "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY are not set"));
}

/* XML */

static void test_xml(void **state)
{
	struct s3_document d;
	assert_int_equal(s3_document_parse(slice_str(
		"<?xml version='1.0'?><ListBucketResult xmlns='http://s3.amazonaws.com/doc/2006-03-01/'><Prefix>p</Prefix>"
		"<IsTruncated>true</IsTruncated><NextContinuationToken>a&amp;b</NextContinuationToken><Contents><Key>p/1</Key>"
		"<Owner><ID>x</ID><Key>no</Key></Owner><Size>18446744073709551615</Size></Contents><Contents><Size>0</Size>"
		"<Key>p/&#50;</Key></Contents><CommonPrefixes><Prefix>z</Prefix></CommonPrefixes></ListBucketResult>"), &d), 0);
	assert_string_equal(d.root, "ListBucketResult");
	assert_true(d.truncated && d.n_entries == 2 && d.entries[0].size == UINT64_MAX && d.entries[1].size == 0);
	assert_string_equal(d.next, "a&b");
	assert_string_equal(d.entries[0].key, "p/1");
	assert_string_equal(d.entries[1].key, "p/2");
	s3_document_done(&d);
	assert_int_equal(s3_document_parse(slice_str("  <Error><Code>Slow Down!</Code><Key>k</Key></Error>"), &d), 0);
	assert_string_equal(d.root, "Error");
	assert_string_equal(d.code, "SlowDown");
	s3_document_done(&d);
	assert_int_equal(s3_document_parse(slice_str(
		"<DeleteResult><Deleted><Key>a</Key></Deleted><Error><Key>gone</Key><Code>NoSuchKey</Code></Error>"
		"<Error><Key>b</Key><Code>AccessDenied</Code></Error><Error><Key>c</Key><Code>X</Code></Error></DeleteResult>"),
		&d), 0);
	assert_string_equal(d.failed_key, "b");
	assert_string_equal(d.failed_code, "AccessDenied");
	assert_string_equal(d.code, "");
	s3_document_done(&d);
	assert_int_equal(s3_document_parse(slice_str(
		"<R><UploadId>u</UploadId><NextKeyMarker>k</NextKeyMarker><NextUploadIdMarker>m</NextUploadIdMarker><Upload>"
		"<Key>k1</Key><UploadId>i1</UploadId><Initiator><ID>x</ID></Initiator></Upload></R>"), &d), 0);
	assert_string_equal(d.upload_id, "u");
	assert_true(strcmp(d.next, "k") == 0 && strcmp(d.next_upload_id, "m") == 0 && d.n_uploads == 1);
	assert_string_equal(d.uploads[0].id, "i1");
	s3_document_done(&d);
}

static void test_xml_refused(void **state)
{
	static const char *const row[] = {
		"", "<a>", "<a/><b/>", "<a>\x01</a>", "<a>&b;</a>",
		"<!DOCTYPE a [<!ENTITY b 'c'>]><a>&b;</a>", "<!DOCTYPE a SYSTEM 'file:///etc/passwd'><a/>",
		"<a><b><c><d><e><f><g><h><i><j><k><l><m/></l></k></j></i></h></g></f></e></d></c></b></a>",
		"<R><Contents><Size>1</Size></Contents></R>", "<R><Contents><Key>k</Key><Size>-1</Size></Contents></R>",
		"<R><Contents><Key>k</Key><Size>1x</Size></Contents></R>", "<R><Upload><Key>k</Key></Upload></R>",
	};
	struct s3_document d;
	for (size_t i = 0; i < N(row); i++) {
		if (s3_document_parse(slice_str(row[i]), &d) != -EBADMSG)
			fail_msg("%s is not refused", row[i]);
		s3_document_done(&d);
	}
	struct buf b;
	buf_init(&b, 1 << 20);
	buf_put_str(&b, "<R>");
	for (unsigned i = 0; i <= S3_XML_ITEMS_MAX; i++)
		buf_put_str(&b, "<Contents><Key>k</Key></Contents>");
	buf_put_str(&b, "</R>");
	assert_int_equal(s3_document_parse(buf_slice(&b), &d), -EBADMSG);
	assert_int_equal(d.n_entries, S3_XML_ITEMS_MAX);
	s3_document_done(&d);
	buf_done(&b);
}

/* Errors */

static void test_errors(void **state)
{
	enum outcome ok = OUTCOME_OK, no = OUTCOME_NOT_APPLIED, unknown = OUTCOME_UNKNOWN;
	const struct { int status; const char *code; enum outcome outcome; int err; bool retry; } row[] = {
		{ 200, "", ok, 0, false }, { 204, "", ok, 0, false }, { 206, "", ok, 0, false },
		{ 200, "InternalError", unknown, -EIO, true }, { 200, "NoSuchKey", unknown, -EIO, true },
		{ 301, "PermanentRedirect", no, -EINVAL, false }, { 400, "InvalidArgument", no, -EINVAL, false },
		{ 400, "RequestTimeout", no, -EAGAIN, true }, { 400, "BadDigest", no, -EAGAIN, true },
		{ 400, "ExpiredToken", no, -EACCES, true }, { 400, "QuotaExceeded", no, -ENOSPC, false },
		{ 401, "", no, -EACCES, false }, { 403, "AccessDenied", no, -EACCES, false },
		{ 403, "SignatureDoesNotMatch", no, -EACCES, false }, { 403, "QuotaExceeded", no, -ENOSPC, false },
		{ 404, "NoSuchKey", no, -ENOENT, false }, { 404, "NoSuchBucket", no, -ENXIO, false },
		{ 404, "NoSuchUpload", no, -ENOENT, false }, { 404, "", unknown, -EIO, true },
		{ 404, "SomethingElse", no, -EINVAL, false }, { 405, "MethodNotAllowed", no, -EOPNOTSUPP, false },
		{ 409, "ConditionalRequestConflict", no, -EAGAIN, true }, { 409, "", no, -EAGAIN, true },
		{ 412, "PreconditionFailed", no, -EEXIST, false }, { 412, "", no, -EEXIST, false },
		{ 413, "", no, -EFBIG, false }, { 416, "InvalidRange", no, -ERANGE, false },
		{ 429, "TooManyRequests", no, -EAGAIN, true }, { 500, "InternalError", unknown, -EIO, true },
		{ 501, "NotImplemented", no, -EOPNOTSUPP, false }, { 502, "", unknown, -EIO, true },
		{ 503, "SlowDown", unknown, -EAGAIN, true }, { 503, "NoSuchKey", unknown, -EAGAIN, true },
		{ 504, "", unknown, -EIO, true }, { 507, "", no, -ENOSPC, false }, { 100, "", unknown, -EIO, true },
	};
	for (size_t i = 0; i < N(row); i++) {
		struct s3_verdict v = s3_verdict_of(row[i].status, row[i].code);
		if (v.outcome != row[i].outcome || v.err != row[i].err || v.retry != row[i].retry || v.skewed)
			fail_msg("%d %s: %d %d %d", row[i].status, row[i].code, v.outcome, v.err, v.retry);
	}
	assert_true(s3_verdict_of(403, "RequestTimeTooSkewed").skewed);
	assert_int_equal(s3_verdict_cut(true, -ECONNRESET).outcome, OUTCOME_UNKNOWN);
	assert_int_equal(s3_verdict_cut(false, -ECONNREFUSED).outcome, OUTCOME_NOT_APPLIED);
}

/* Slow reads */

static void test_latency(void **state)
{
	struct s3_latency l = { .n = 0 };
	assert_int_equal(s3_latency_slow_ms(&l), 0);
	for (int i = 1; i <= 100; i++)
		s3_latency_sample(&l, (uint64_t)i * 1000000);
	assert_in_range(s3_latency_slow_ms(&l), 4 * 90, 4 * 97);
	for (int i = 0; i < 200; i++)
		s3_latency_sample(&l, 1000);
	assert_int_equal(s3_latency_slow_ms(&l), 50);
	for (int i = 0; i < 9; i++)
		s3_latency_earn(&l);
	assert_false(s3_latency_spend(&l));
	for (int i = 0; i < 1000; i++)
		s3_latency_earn(&l);
	for (int i = 0; i < 10; i++)
		assert_true(s3_latency_spend(&l));
	assert_false(s3_latency_spend(&l));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_sign_s3), cmocka_unit_test(test_sign_general), cmocka_unit_test(test_encode),
		cmocka_unit_test(test_request), cmocka_unit_test(test_config), cmocka_unit_test(test_credentials_file),
		cmocka_unit_test(test_xml), cmocka_unit_test(test_xml_refused), cmocka_unit_test(test_errors),
		cmocka_unit_test(test_latency),
	};
	unsetenv("AWS_ACCESS_KEY_ID");
	unsetenv("AWS_SECRET_ACCESS_KEY");
	unsetenv("AWS_PROFILE");
	return cmocka_run_group_tests_name("s3", tests, NULL, NULL);
}
