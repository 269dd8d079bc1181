/* SPDX-License-Identifier: Apache-2.0
 *
 * Durable Streams by tables: for a request, which call storaged sees, what it answers and what the client reads, byte by
 * byte; each kind of error that there is.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "t/lib/http_rows.h"

#define RUN(rows) \
	for (size_t i_ = 0; i_ < sizeof(rows) / sizeof((rows)[0]); i_++) \
		run_row(&(rows)[i_], w.ds_port)

#define STORE "Cache-Control: no-store\n"
#define FAIL(status, head, body) "HTTP/1.1 " status "\n" head "Content-Type: application/json\n" STORE \
	"Content-Length: #\n\n" body "\n"
#define BAD(text) FAIL("400 Bad Request", "", "{\"error\":\"bad_request\",\"message\":\"" text "\"}")
#define EMPTY(status, head) "HTTP/1.1 " status "\n" head STORE "Content-Length: 0\n\n"
#define OFFSET(n) "Stream-Next-Offset: 0000000000000000000" n "\n"
#define LOCATION(path) "Location: http://x" path "\n"
#define CREATE(name) "CREATE name='" name "' content_type='text/plain' partitions=1"
#define APPEND "APPEND log{ topic{ name='/t' } } "
#define ORDER " order=1"

static void test_create(void **state)
{
	static const struct row rows[] = {
		{ "PUT /v1/stream/t\nContent-Type: text/plain", CREATE("/t"), created,
		  EMPTY("201 Created", "Content-Type: text/plain\n" OFFSET("0") LOCATION("/v1/stream/t")) },
		{ "PUT /t\nContent-Type: text/plain", CREATE("/t"), created,
		  EMPTY("201 Created", "Content-Type: text/plain\n" OFFSET("0") LOCATION("/t")) },
		{ "PUT /v1/stream/a%20b/?x=y\nContent-Type: text/plain\nStream-Closed: TRUE", CREATE("/a%20b/") " closed=1", existed,
		  EMPTY("200 OK", "Content-Type: text/plain\n" OFFSET("0") "Stream-Closed: true\n") },
		{ "PUT /t\nContent-Type: text/plain\nStream-TTL: 7", CREATE("/t") " ttl_seconds=7", created,
		  EMPTY("201 Created", "Content-Type: text/plain\n" OFFSET("0") "Stream-TTL: 7\n" LOCATION("/t")) },
		{ "PUT /t\nContent-Type: text/plain\nStream-Expires-At: 1970-01-01T00:00:09.5Z", CREATE("/t") " expires_at_ms=9500",
		  created, EMPTY("201 Created", "Content-Type: text/plain\n" OFFSET("0")
				 "Stream-Expires-At: 1970-01-01T00:00:09.500Z\n" LOCATION("/t")) },
		{ "PUT /t\nContent-Type: text/plain", CREATE("/t"), gone,
		  FAIL("409 Conflict", "", "{\"error\":\"conflict\",\"message\":\"Conflict\"}") },
		{ "PUT /v1/stream", NULL, NULL,
		  FAIL("404 Not Found", "", "{\"error\":\"not_found\",\"message\":\"name a stream in the path\"}") },
		{ "PUT /v1/stream/__ds/subscriptions/x", NULL, NULL,
		  FAIL("400 Bad Request", "", "{\"error\":{\"code\":\"INVALID_REQUEST\",\"message\":\"type is webhook or pull-wake\"}}") },
		{ "GET /__ds/subscriptions/x", "KV_GET key='ds/hook/key'", unavailable,
		  "HTTP/1.1 503 Service Unavailable\nContent-Type: application/json\n" STORE "Retry-After: 1\nContent-Length: #\n\n"
		  "{\"error\":\"unavailable\",\"message\":\"not available now; try again\"}\n" },
		{ "GET /__ds/x", NULL, NULL, FAIL("404 Not Found", "",
		  "{\"error\":{\"code\":\"NOT_FOUND\",\"message\":\"there is nothing of that name and method\"}}") },
		{ "PUT /_sys/x", NULL, NULL,
		  FAIL("403 Forbidden", "", "{\"error\":\"permission_denied\",\"message\":\"names of that kind are reserved\"}") },
		{ "PUT /t\nStream-TTL: 1\nStream-Expires-At: x", NULL, NULL, BAD("Stream-TTL and Stream-Expires-At exclude each other") },
		{ "PUT /t\nStream-Fork-Offset: 1", NULL, NULL,
		  BAD("Stream-Fork-Offset and Stream-Fork-Sub-Offset go with Stream-Forked-From") },
		{ "PUT /t\nContent-Type: application/json\n\n[1", NULL, NULL,
		  BAD("the body is not JSON: ',' or ']' is missing") },
	};
	world_open(NULL);
	RUN(rows);
	world_close();
}

static void test_append(void **state)
{
	static const struct row rows[] = {
		{ "POST /v1/stream/t\nContent-Type: text/plain\n\nhello",
		  APPEND "record_count=1 content_type='text/plain'" ORDER " only_partition=1 |:'hello'", appended,
		  "HTTP/1.1 204 No Content\n" OFFSET("5") STORE "\n" },
		{ "POST /t\nContent-Type: application/json\nStream-Seq: s\nStream-Closed: true\n\n[1, {}]",
		  APPEND "record_count=2 content_type='application/json' stream_seq='s' close_after=1" ORDER
		  " only_partition=1 has_stream_seq=1 |:'1' |:'{}'", appended,
		  "HTTP/1.1 204 No Content\n" OFFSET("6") "Stream-Closed: true\n" STORE "\n" },
		{ "POST /t\nContent-Type: text/plain\nProducer-Id: p\nProducer-Epoch: 1\nProducer-Seq: 7\n\nx",
		  APPEND "record_count=1 content_type='text/plain' producer{ id='p' epoch=1 seq=7 }" ORDER " only_partition=1 |:'x'",
		  appended, EMPTY("200 OK", OFFSET("5") "Producer-Epoch: 1\nProducer-Seq: 7\n") },
		{ "POST /t\nContent-Type: text/plain\nProducer-Id: p\nProducer-Epoch: 1\nProducer-Seq: 5\n\nx",
		  APPEND "record_count=1 content_type='text/plain' producer{ id='p' epoch=1 seq=5 }" ORDER " only_partition=1 |:'x'",
		  duplicate, "HTTP/1.1 204 No Content\n" OFFSET("9") "Producer-Epoch: 1\nProducer-Seq: 6\n" STORE "\n" },
		{ "POST /t\nStream-Closed: true\nContent-Type: other/type", APPEND "close_after=1" ORDER " only_partition=1", appended,
		  "HTTP/1.1 204 No Content\n" OFFSET("4") "Stream-Closed: true\n" STORE "\n" },
		/* What is not JSON is asked about. */
		{ "POST /t\nContent-Type: application/json\nStream-Closed: true\n\n[1,",
		  APPEND "content_type='application/json'" ORDER " check_only=1 only_partition=1", appended,
		  BAD("the body is not JSON: a value is missing at the end") },
		{ "POST /t\nContent-Type: application/json\n\n[]",
		  APPEND "content_type='application/json'" ORDER " check_only=1 only_partition=1", appended,
		  BAD("an array without messages appends nothing") },
		{ "POST /t\nContent-Type: application/json\n\n{", APPEND "content_type='application/json'" ORDER
		  " check_only=1 only_partition=1", not_found,
		  FAIL("404 Not Found", "", "{\"error\":\"not_found\",\"message\":\"no such stream\"}") },
		{ "POST /t", NULL, NULL, BAD("an empty body appends nothing; with Stream-Closed: true it closes") },
		{ "POST /t\n\nx", NULL, NULL, BAD("say with Content-Type what the body is") },
		{ "POST /t\nContent-Type: text/plain\nProducer-Id: p\n\nx", NULL, NULL,
		  BAD("Producer-Id, Producer-Epoch and Producer-Seq go together") },
		{ "POST /t\nContent-Type: text/plain\nProducer-Id: p\nProducer-Epoch: 9007199254740992\nProducer-Seq: 0\n\nx", NULL, NULL,
		  BAD("Producer-Epoch and Producer-Seq must be numbers from 0 to 9007199254740991") },
	};
	world_open(NULL);
	RUN(rows);
	world_close();
}

static void test_errors(void **state)
{
#define POSTED "POST /t\nContent-Type: text/plain\n\nx", \
	APPEND "record_count=1 content_type='text/plain'" ORDER " only_partition=1 |:'x'"
#define BUSY(status, body) "HTTP/1.1 " status "\nContent-Type: application/json\n" STORE \
	"Retry-After: 1\nContent-Length: #\n\n" body "\n"
	static const char away[] = BUSY("503 Service Unavailable",
					"{\"error\":\"unavailable\",\"message\":\"not available now; try again\"}");
	static const struct row rows[] = {
		{ POSTED, not_found, FAIL("404 Not Found", "", "{\"error\":\"not_found\",\"message\":\"no such stream\"}") },
		{ POSTED, gone, FAIL("410 Gone", "", "{\"error\":\"gone\",\"message\":\"the stream is gone\"}") },
		{ POSTED, bad_request, BAD("because \\\"so\\\"") },
		{ POSTED, corrupt, BAD("bad request") },
		{ POSTED, conflict, FAIL("409 Conflict", "", "{\"error\":\"conflict\",\"message\":\"Conflict\"}") },
		{ POSTED, is_closed_error, FAIL("409 Conflict", "Stream-Closed: true\n" OFFSET("8"),
		  "{\"error\":\"closed\",\"message\":\"stream is closed\"}") },
		{ POSTED, fenced, FAIL("403 Forbidden", "Producer-Epoch: 5\n",
		  "{\"error\":\"fenced\",\"message\":\"a newer producer epoch is known\"}") },
		{ POSTED, gap, FAIL("409 Conflict", "Producer-Expected-Seq: 3\nProducer-Received-Seq: 9\n",
		  "{\"error\":\"sequence_gap\",\"message\":\"a producer sequence is missing\"}") },
		{ POSTED, gap_at_first, FAIL("409 Conflict", "Producer-Expected-Seq: 0\nProducer-Received-Seq: 9\n",
		  "{\"error\":\"sequence_gap\",\"message\":\"a producer sequence is missing\"}") },
		{ POSTED, match_failed, FAIL("412 Precondition Failed", OFFSET("8"),
		  "{\"error\":\"match_failed\",\"message\":\"the next position is another one\"}") },
		{ POSTED, too_large, FAIL("413 Content Too Large", "", "{\"error\":\"too_large\",\"message\":\"content too large\"}") },
		{ POSTED, schema, FAIL("400 Bad Request", "",
		  "{\"error\":\"schema_violation\",\"message\":\"a record breaks the schema\"}") },
		{ POSTED, trimmed, FAIL("410 Gone", "",
		  "{\"error\":\"trimmed\",\"message\":\"records before the start of the stream are gone\"}") },
		{ POSTED, beyond, FAIL("400 Bad Request", OFFSET("8"),
		  "{\"error\":\"bad_request\",\"message\":\"the position is beyond the end of the stream\"}") },
		{ POSTED, partition_required, FAIL("409 Conflict", "",
		  "{\"error\":\"conflict\",\"message\":\"it has several partitions, so it is no Durable Stream\"}") },
		{ POSTED, not_owner, away }, { POSTED, stale, away }, { POSTED, unavailable, away },
		{ POSTED, throttled, BUSY("429 Too Many Requests",
		  "{\"error\":\"throttled\",\"message\":\"too many requests\"}") },
		{ POSTED, durability, BUSY("503 Service Unavailable",
		  "{\"error\":\"outcome_unknown\",\"message\":\"the write may or may not have happened\"}") },
	};
	world_open(NULL);
	RUN(rows);
	world_close();
}

static void test_head(void **state)
{
	static const struct row rows[] = {
		{ "HEAD /v1/stream/t", "GET topic{ name='/t' }", got, EMPTY("200 OK", "Content-Type: text/plain\n" OFFSET("8")) },
		{ "HEAD /t", "GET topic{ name='/t' }", got_three,
		  "HTTP/1.1 409 Conflict\nContent-Type: application/json\n" STORE "Content-Length: 87\n\n" },
		{ "DELETE /t", "GET topic{ name='/t' }", got_three, FAIL("409 Conflict", "",
		  "{\"error\":\"conflict\",\"message\":\"it has several partitions, so it is no Durable Stream\"}") },
		{ "DELETE /t", "GET topic{ name='/t' }", gone, FAIL("410 Gone", "",
		  "{\"error\":\"gone\",\"message\":\"the stream is gone\"}") },
		{ "PATCH /t", NULL, NULL, "HTTP/1.1 405 Method Not Allowed\nAllow: GET, PUT, POST, DELETE, HEAD, OPTIONS\n"
		  "Content-Type: application/json\n" STORE "Content-Length: #\n\n"
		  "{\"error\":\"method_not_allowed\",\"message\":\"the method is not known here\"}\n" },
	};
	world_open(NULL);
	RUN(rows);
	world_close();
}

static void test_read(void **state)
{
#define READ_T(from) "READ log{ topic{ name='/t' } } " from "max_bytes=147456"
#define READ(head, cache, body) "HTTP/1.1 200 OK\n" head "Content-Type: text/plain\nCache-Control: " cache \
	"\nContent-Length: #\n\n" body
#define TAG(rest) "ETag: \"" ETAG_ID ":0:raw:" rest "\"\n"
#define OLD "public, max-age=60, stale-while-revalidate=300"
#define UP "Stream-Up-To-Date: true\n"
	static const struct row rows[] = {
		{ "GET /v1/stream/t", READ_T("from=-1 "), read_two, READ(OFFSET("6") UP TAG("4:6"), OLD, "abb") },
		{ "GET /t?offset=-1", READ_T("from=-1 "), read_two_closed,
		  READ(OFFSET("6") UP "Stream-Closed: true\n" TAG("4:6:c"), OLD, "abb") },
		{ "GET /t?offset=00000000000000000005", READ_T("from=5 "), read_two, READ(OFFSET("6") UP TAG("5:6"), OLD, "bb") },
		{ "GET /t?offset=6", READ_T("from=6 "), read_none, READ(OFFSET("6") UP TAG("6:6"), "no-cache", "") },
		{ "GET /t?offset=6", READ_T("from=6 "), read_none_closed,
		  READ(OFFSET("6") UP "Stream-Closed: true\n" TAG("6:6:c"), OLD, "") },
		{ "GET /t?offset=now", READ_T("from=-1 from_end=1 "), read_none, READ(OFFSET("6") UP, "no-store", "") },
		{ "GET /t\nIf-None-Match: W/\"" ETAG_ID ":0:raw:4:6\"", READ_T("from=-1 "), read_two,
		  "HTTP/1.1 304 Not Modified\n" OFFSET("6") UP TAG("4:6") "Cache-Control: " OLD "\n\n" },
		{ "GET /t?offset=6&live=long-poll", READ_T("from=6 "), read_none_closed,
		  "HTTP/1.1 204 No Content\n" OFFSET("6") UP "Stream-Closed: true\n" STORE "\n" },
		{ "GET /t", READ_T("from=-1 "), partition_required, FAIL("409 Conflict", "",
		  "{\"error\":\"conflict\",\"message\":\"it has several partitions, so it is no Durable Stream\"}") },
		{ "GET /t?offset=2", READ_T("from=2 "), trimmed, FAIL("410 Gone", "",
		  "{\"error\":\"trimmed\",\"message\":\"records before the start of the stream are gone\"}") },
		{ "GET /t?offset=99999999999999999999", READ_T("from=9223372036854775807 "), beyond,
		  FAIL("400 Bad Request", OFFSET("8"),
		       "{\"error\":\"bad_request\",\"message\":\"the position is beyond the end of the stream\"}") },
		{ "GET /t?offset=", NULL, NULL, BAD("an offset is -1, now, or one that this server gave") },
		{ "GET /t?offset=1&offset=2", NULL, NULL, BAD("offset is given 2 times") },
		{ "GET /t?live=sse", NULL, NULL, BAD("a live read names an offset; -1 is the start of the stream, now its end") },
		{ "GET /t?live=x&offset=1", NULL, NULL, BAD("live is long-poll or sse") },
	};
	world_open(NULL);
	RUN(rows);
	world_close();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_create), cmocka_unit_test(test_append), cmocka_unit_test(test_errors),
		cmocka_unit_test(test_head), cmocka_unit_test(test_read),
	};
	return cmocka_run_group_tests_name("worker-ds", tests, NULL, NULL);
}
