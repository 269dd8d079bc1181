/* SPDX-License-Identifier: Apache-2.0
 *
 * Every route of worker-http by tables: for a request, which call storaged sees, what it answers and
 * what the client reads, byte by byte.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "t/lib/http_rows.h"

#define RUN(rows) \
	for (size_t i_ = 0; i_ < sizeof(rows) / sizeof((rows)[0]); i_++) \
		run_row(&(rows)[i_], w.port)

#define STORE "Cache-Control: no-store\n"
#define JSON(status, body) "HTTP/1.1 " status "\nContent-Type: application/json\n" STORE "Content-Length: #\n\n" body "\n"
#define BAD(text) JSON("400 Bad Request", "{\"error\":\"bad_request\",\"message\":\"" text "\"}")
#define LATER(name) JSON("501 Not Implemented", "{\"error\":\"not_supported\",\"message\":\"" name " is not supported yet\"}")
#define CREATE_T "CREATE name='/t' content_type='application/octet-stream'"
#define APPEND_T "APPEND log{ topic{ name='/t' } } any_partition=1 record_count=1"
#define READ_T "READ log{ topic{ name='/t' } } from=-1 max_bytes=147456"

static void test_create(void **state)
{
	static const struct row rows[] = {
		{ "PUT /t", CREATE_T, created,
		  "HTTP/1.1 201 Created\nContent-Type: application/octet-stream\nPico-Start-Seq: 0\nPico-Next-Seq: 0\n"
		  "Location: /t\n" STORE "Content-Length: 0\n\n" },
		{ "PUT /t\nContent-Type: text/plain; charset=x\nPico-Closed: TRUE",
		  "CREATE name='/t' content_type='text/plain; charset=x' closed=1", existed,
		  "HTTP/1.1 200 OK\nContent-Type: text/plain; charset=x\nPico-Start-Seq: 0\nPico-Next-Seq: 0\n"
		  "Pico-Closed: true\n" STORE "Content-Length: 0\n\n" },
		{ "PUT /t\nPico-Partitions: 3\nPico-Closed: yes\nPico-Kafka-Topic: a.b",
		  "CREATE name='/t' content_type='application/octet-stream' partitions=3 kafka_topic='a.b' has_kafka_topic=1",
		  created,
		  "HTTP/1.1 201 Created\nContent-Type: application/octet-stream\nPico-Partitions: 3\nLocation: /t\n" STORE
		  "Content-Length: 0\n\n" },
		{ "PUT /a%20b/%2e?x=y", "CREATE name='/a%20b/%2e' content_type='application/octet-stream'", created,
		  "HTTP/1.1 201 Created\nContent-Type: application/octet-stream\nPico-Start-Seq: 0\nPico-Next-Seq: 0\n"
		  "Location: /a%20b/%2e\n" STORE "Content-Length: 0\n\n" },
		{ "PUT /t", CREATE_T, type_conflict,
		  "HTTP/1.1 409 Conflict\nPico-Next-Seq: 7\nContent-Type: application/json\n" STORE "Content-Length: #\n\n"
		  "{\"error\":\"conflict\",\"message\":\"the stream exists with content type text/html\",\"next_seq\":7}\n" },
		{ "PUT /t", CREATE_T, conflict, JSON("409 Conflict", "{\"error\":\"conflict\",\"message\":\"Conflict\"}") },
		{ "PUT /", NULL, NULL, BAD("cannot create the root stream") },
		{ "PUT /t\n\nx", NULL, NULL, BAD("PUT takes no body: append with POST") },
		{ "PUT /t\nPico-Partitions: 0", NULL, NULL, BAD("Pico-Partitions must be from 1 to 1024") },
		{ "PUT /t\nPico-Partitions: 1025", NULL, NULL, BAD("Pico-Partitions must be from 1 to 1024") },
		{ "PUT /t\nPico-Partitions: 03", NULL, NULL,
		  BAD("Pico-Partitions must be a number without sign or leading zeros") },
		{ "PUT /t\nPico-Kafka-Topic: a/b", NULL, NULL,
		  BAD("Pico-Kafka-Topic must be 1 to 249 of A-Z a-z 0-9 . _ - and none of Kafka's own names, or empty") },
		{ "PUT /t\nPico-Kafka-Topic:", CREATE_T " has_kafka_topic=1", created,
		  "HTTP/1.1 201 Created\nContent-Type: application/octet-stream\nPico-Start-Seq: 0\nPico-Next-Seq: 0\n"
		  "Location: /t\n" STORE "Content-Length: 0\n\n" },
		{ "PUT /_sys/x", NULL, NULL, JSON("403 Forbidden",
		  "{\"error\":\"permission_denied\",\"message\":\"names of that kind are reserved\"}") },
	};
	world_open(NULL);
	RUN(rows);
	world_close();
}

#define CREATED_T(more) \
	"HTTP/1.1 201 Created\nContent-Type: application/octet-stream\nPico-Start-Seq: 0\nPico-Next-Seq: 0\n" more \
	"Location: /t\n" STORE "Content-Length: 0\n\n"

static void test_create_lives(void **state)
{
	static const struct row rows[] = {
		{ "PUT /t\nPico-TTL: 5", CREATE_T " ttl_seconds=5", created, CREATED_T("Pico-TTL: 5\n") },
		{ "PUT /t\npico-expires-at: 1970-01-01T01:00:01+01:00", CREATE_T " expires_at_ms=1000", created,
		  CREATED_T("Pico-Expires-At: 1970-01-01T00:00:01Z\n") },
		{ "PUT /t\nPico-Retention-Bytes: -1\nPico-Retention-Ms: 7",
		  CREATE_T, created,
		  CREATED_T("Pico-Retention-Ms: 7\nPico-Retention-Bytes: -1\n") },
		/* An empty header counts as absent. */
		{ "PUT /t\nPico-TTL:\nPico-Expires-At:\nPico-Retention-Ms:", CREATE_T, created, CREATED_T("") },
		{ "PUT /t\nPico-TTL: 05", NULL, NULL, BAD("Pico-TTL must be whole seconds, without sign or leading zeros") },
		{ "PUT /t\nPico-Expires-At: 1000", NULL, NULL,
		  BAD("Pico-Expires-At must be an instant as in 2030-01-31T12:00:00Z") },
		{ "PUT /t\nPico-TTL: 5\nPico-Expires-At: x", NULL, NULL, BAD("Pico-TTL and Pico-Expires-At exclude each other") },
		{ "PUT /t\nPico-Retention-Ms: -2", NULL, NULL,
		  BAD("Pico-Retention-Ms must be a number without leading zeros, or -1 to keep all") },
	};
	world_open(NULL);
	RUN(rows);
	world_close();
}

/* What comes behind the look at the stream is in the tests of a whole node. */
static void test_trim(void **state)
{
	static const struct row rows[] = {
		{ "POST /t\nPico-Trim-Seq: 4", "GET topic{ name='/t' }", not_found,
		  JSON("404 Not Found", "{\"error\":\"not_found\",\"message\":\"no such stream\"}") },
		{ "POST /t\nPico-Trim-Seq: 4", "GET topic{ name='/t' }", got_three,
		  JSON("400 Bad Request", "{\"error\":\"partition_required\",\"message\":\"the stream has 3 partitions: name one\"}") },
		{ "POST /t?partition=3\nPico-Trim-Seq: 4", "GET topic{ name='/t' }", got_three,
		  BAD("the stream has 3 partitions, counted from 0") },
		{ "POST /t\nPico-Trim-Seq: -1", NULL, NULL, BAD("Pico-Trim-Seq must be a number without sign or leading zeros") },
		{ "POST /t\nPico-Trim-Seq: 1\n\nx", NULL, NULL, BAD("trim takes no body") },
		{ "POST /t?partition=x\nPico-Trim-Seq: 1", NULL, NULL, BAD("partition must be a number from 0") },
		{ "POST /_sys\nPico-Trim-Seq: 1", NULL, NULL, JSON("403 Forbidden",
		  "{\"error\":\"permission_denied\",\"message\":\"names of that kind are reserved\"}") },
	};
	world_open(NULL);
	RUN(rows);
	world_close();
}

static void give_beaten(struct seen *s, Ipc__GroupError error)
{
	Ipc__GroupHeartbeatAnswer a = IPC__GROUP_HEARTBEAT_ANSWER__INIT;
	a.error = error;
	give(s, &a.base);
}

#define BEATEN(name, ERROR) \
	static void name(struct seen *s) { give_beaten(s, IPC__GROUP_ERROR__##ERROR); }
BEATEN(beaten, NONE)
BEATEN(loading, LOADING)
BEATEN(unknown_member, UNKNOWN_MEMBER)
BEATEN(illegal_generation, ILLEGAL_GENERATION)
BEATEN(rebalancing, REBALANCE_IN_PROGRESS)
BEATEN(inconsistent, INCONSISTENT_PROTOCOL)
BEATEN(bad_session, INVALID_SESSION_TIMEOUT)
BEATEN(other_instance, FENCED_INSTANCE)
BEATEN(group_full, GROUP_FULL)
BEATEN(bad_group_id, INVALID_GROUP_ID)
BEATEN(bad_call, INVALID_REQUEST)

#define BEAT "POST /_groups/a%2Fb/members/m%20/heartbeat\n\n{\"generation\":3}"
#define BEAT_CALL "GROUP_HEARTBEAT group='a/b' member_id='m ' generation=3"
#define GROUP_ERROR(status, word, text) JSON(status, "{\"error\":\"" word "\",\"message\":\"" text "\"}")
#define GROUP_BUSY(word, text)                                                                                         \
	"HTTP/1.1 503 Service Unavailable\nContent-Type: application/json\n" STORE "Retry-After: 1\nContent-Length: #\n\n" \
	"{\"error\":\"" word "\",\"message\":\"" text "\"}\n"

/* What the coordinator says, and that a call failed, on the wire. */
static void test_group_errors(void **state)
{
	static const struct row rows[] = {
		{ BEAT, BEAT_CALL, beaten, "HTTP/1.1 204 No Content\n" STORE "\n" },
		{ BEAT, BEAT_CALL, loading,
		  GROUP_BUSY("coordinator_unavailable", "the group is being read from the store; try again") },
		{ BEAT, BEAT_CALL, unknown_member,
		  GROUP_ERROR("404 Not Found", "unknown_member", "no such member of the group; join (again)") },
		{ BEAT, BEAT_CALL, illegal_generation,
		  GROUP_ERROR("409 Conflict", "illegal_generation", "the group is at another generation; join again") },
		{ BEAT, BEAT_CALL, rebalancing,
		  GROUP_ERROR("409 Conflict", "rebalance_in_progress", "the group changes its members; join again") },
		{ BEAT, BEAT_CALL, inconsistent,
		  GROUP_ERROR("409 Conflict", "inconsistent_protocol", "the members of this group speak another protocol") },
		{ BEAT, BEAT_CALL, bad_session, BAD("sessionTimeoutMs is not between --group-min-session-timeout-ms and "
						    "--group-max-session-timeout-ms") },
		{ BEAT, BEAT_CALL, other_instance,
		  GROUP_ERROR("403 Forbidden", "fenced", "another member has that instanceId") },
		{ BEAT, BEAT_CALL, bad_group_id, BAD("a group's id is 1 to 249 bytes") },
		{ BEAT, BEAT_CALL, bad_call, BAD("the coordinator refuses the request") },
		{ BEAT, BEAT_CALL, unavailable, GROUP_BUSY("coordinator_unavailable", "not available now; try again") },
		{ BEAT, BEAT_CALL, group_full, "HTTP/1.1 429 Too Many Requests\nContent-Type: application/json\n" STORE
		  "Retry-After: 1\nContent-Length: #\n\n{\"error\":\"capacity_exceeded\","
		  "\"message\":\"groups, members or their memory are at their bound\"}\n" },
	};
	world_open(NULL);
	RUN(rows);
	world_close();
}

static void test_later_features(void **state)
{
	static const struct row rows[] = {
		{ "PUT /t\nPico-Schema: x", NULL, NULL, LATER("Pico-Schema") },
		{ "PUT /t\nPico-Schema-Validate: true", NULL, NULL, LATER("Pico-Schema-Validate") },
		{ "PUT /_schemas/x", NULL, NULL, LATER("/_schemas") },
		{ "PATCH /_streams/x\n\n{\"schema\":\"s\"}", NULL, NULL, LATER("schema") },
		{ "PATCH /_streams/x\n\n{\"schemaValidate\":true}", NULL, NULL, LATER("schemaValidate") },
		/* An empty header counts as absent. */
		{ "PUT /t\nPico-Schema:", CREATE_T, conflict,
		  JSON("409 Conflict", "{\"error\":\"conflict\",\"message\":\"Conflict\"}") },
	};
	world_open(NULL);
	RUN(rows);
	world_close();
}

#define SETTINGS_T                                                                                                     \
	"HTTP/1.1 200 OK\nContent-Type: application/json\n" STORE "Content-Length: #\n\n"                            \
	"{\"name\":\"/t\",\"schema\":null,\"schemaValidate\":false,\"kafkaTopic\":\"t\",\"partitions\":3,"          \
	"\"retentionMs\":null,\"retentionBytes\":null}\n"

static void reserved(struct seen *s)
{
	struct log l;
	Ipc__GetAnswer a = IPC__GET_ANSWER__INIT;
	a.topic = topic(&l, 1, 0, 0);
	a.topic->name = "/_kafka/_schemas";
	give(s, &a.base);
}

/* What one call decides; the rest is in the tests of a whole node. */
static void test_settings(void **state)
{
	static const struct row rows[] = {
		{ "GET /_streams/t", "GET topic{ name='t' }", got_three, SETTINGS_T },
		{ "GET /_streams//t", "GET topic{ name='/t' }", got_three, SETTINGS_T },
		{ "PATCH /_streams/t\n\n{}", "GET topic{ name='t' }", got_three, SETTINGS_T },
		{ "GET /_streams/t", "GET topic{ name='t' }", not_found,
		  JSON("404 Not Found", "{\"error\":\"not_found\",\"message\":\"no such stream\"}") },
		{ "PATCH /_streams/_schemas\n\n{\"kafkaTopic\":\"x\"}", "GET topic{ name='_schemas' }", reserved,
		  JSON("403 Forbidden", "{\"error\":\"permission_denied\",\"message\":\"names of that kind are reserved\"}") },
		{ "GET /_streams/", NULL, NULL, BAD("name a stream: /_streams/NAME") },
		{ "PATCH /_streams/t\n\n[]", NULL, NULL, BAD("the body must be a JSON object") },
		{ "PATCH /_streams/t\n\n{\"partitions\":0}", NULL, NULL,
		  BAD("partitions must be a whole number from 1 to 1024") },
		{ "PATCH /_streams/t\n\n{\"a\":0}", NULL, NULL,
		  BAD("\\\"a\\\" is no setting; kafkaTopic, partitions, retentionMs, retentionBytes, schema, schemaValidate are") },
	};
	world_open(NULL);
	RUN(rows);
	world_close();
}

static void test_append(void **state)
{
	static const struct row rows[] = {
		{ "POST /t\n\nhello", APPEND_T " |:'hello'", appended,
		  "HTTP/1.1 200 OK\nPico-Next-Seq: 5\nPico-Start-Seq: 4\nPico-Timestamp: 99\n" STORE "Content-Length: 0\n\n" },
		{ "POST /t?partition=2\nPico-Key: k\nPico-Header: a=1%20%3D\nPico-Header: a=\n\nx",
		  "APPEND log{ topic{ name='/t' } partition=2 } partition_key='k' record_count=1 has_partition_key=1"
		  " |'k''a'='1 =''a'='':'x'", appended_to_partition,
		  "HTTP/1.1 200 OK\nPico-Next-Seq: 1\nPico-Start-Seq: 0\nPico-Timestamp: 0\nPico-Partition: 2\n" STORE
		  "Content-Length: 0\n\n" },
		{ "POST /t\nContent-Type: Application/vnd.PicoMQ.batch+JSON ; x=y\n\n"
		  "{\"records\":[{\"body\":\"a\"},{\"key\":\"k\",\"body\":null,\"headers\":{\"h\":\"v\"}}]}",
		  "APPEND log{ topic{ name='/t' } } any_partition=1 record_count=2 |:'a' |'k''h'='v':", appended,
		  "HTTP/1.1 200 OK\nPico-Next-Seq: 6\nPico-Start-Seq: 4\nPico-Timestamp: 99\n" STORE "Content-Length: 0\n\n" },
		{ "POST /t\nPico-Producer-Id: p\nPico-Producer-Epoch: 1\nPico-Producer-Seq: 7\nPico-Match-Seq: 4\n"
		  "Pico-Closed: true\n\nx",
		  "APPEND log{ topic{ name='/t' } } any_partition=1 record_count=1 match_seq=4 producer{ id='p' epoch=1 seq=7 }"
		  " close_after=1 has_match_seq=1 |:'x'", appended,
		  "HTTP/1.1 200 OK\nPico-Next-Seq: 5\nPico-Start-Seq: 4\nPico-Timestamp: 99\nPico-Closed: true\n"
		  "Pico-Producer-Epoch: 1\nPico-Producer-Seq: 7\n" STORE "Content-Length: 0\n\n" },
		{ "POST /t\nPico-Producer-Id: p\nPico-Producer-Epoch: 1\nPico-Producer-Seq: 5\n\nx",
		  APPEND_T " producer{ id='p' epoch=1 seq=5 } |:'x'", duplicate,
		  "HTTP/1.1 200 OK\nPico-Next-Seq: 9\nPico-Producer-Epoch: 1\nPico-Producer-Seq: 6\n" STORE
		  "Content-Length: 0\n\n" },
		{ "POST /t\nPico-Closed: true", "CLOSE topic{ name='/t' }", closed,
		  "HTTP/1.1 200 OK\nPico-Next-Seq: 8\nPico-Closed: true\n" STORE "Content-Length: 0\n\n" },
		{ "POST /t\nPico-Closed: true\nPico-Match-Seq: 0",
		  "APPEND log{ topic{ name='/t' } } any_partition=1 close_after=1 has_match_seq=1", appended,
		  "HTTP/1.1 200 OK\nPico-Next-Seq: 4\nPico-Closed: true\n" STORE "Content-Length: 0\n\n" },
		{ "POST /t", NULL, NULL, BAD("empty body") },
		{ "POST /t\nPico-Closed: 1", NULL, NULL, BAD("empty body") },
		{ "POST /\n\nx", NULL, NULL, BAD("no stream in path") },
		{ "POST /t\nContent-Encoding: gzip\n\nx", NULL, NULL, JSON("415 Unsupported Media Type",
		  "{\"error\":\"unsupported_media_type\",\"message\":\"send the body without Content-Encoding\"}") },
		{ "POST /t?partition=x\n\nx", NULL, NULL, BAD("partition must be a number from 0") },
	};
	world_open(NULL);
	RUN(rows);
	world_close();
}

static void test_append_refused(void **state)
{
	static const char together[] = BAD("Pico-Producer-Id, Pico-Producer-Epoch and Pico-Producer-Seq go together");
	static const char numbers[] = BAD("Pico-Producer-Epoch and Pico-Producer-Seq must be numbers from 0 to 18446744073709551615");
	static const struct row rows[] = {
		{ "POST /t\nPico-Producer-Id: p\n\nx", NULL, NULL, together },
		{ "POST /t\nPico-Producer-Seq: 0\n\nx", NULL, NULL, together },
		{ "POST /t\nPico-Producer-Id:\nPico-Producer-Epoch: 0\nPico-Producer-Seq: 0\n\nx", NULL, NULL, together },
		{ "POST /t\nPico-Producer-Id: p\nPico-Producer-Epoch:\nPico-Producer-Seq: 0\n\nx", NULL, NULL, numbers },
		{ "POST /t\nPico-Producer-Id: p\nPico-Producer-Epoch: 00\nPico-Producer-Seq: 0\n\nx", NULL, NULL, numbers },
		{ "POST /t\nPico-Match-Seq: -1\n\nx", NULL, NULL,
		  BAD("Pico-Match-Seq must be a number without sign or leading zeros") },
		{ "POST /t\nPico-Header: x\n\nx", NULL, NULL, BAD("Pico-Header must be name=value") },
		{ "POST /t\nContent-Type: application/vnd.picomq.batch+json\n\n{\"records\":[]}", NULL, NULL,
		  BAD("records is missing or empty") },
	};
	world_open(NULL);
	RUN(rows);
	world_close();
}

static void test_errors(void **state)
{
#define POSTED "POST /t\n\nx", APPEND_T " |:'x'"
#define FAIL(status, head, body) "HTTP/1.1 " status "\n" head "Content-Type: application/json\n" STORE \
	"Content-Length: #\n\n" body "\n"
#define BUSY(status, body) "HTTP/1.1 " status "\nContent-Type: application/json\n" STORE \
	"Retry-After: 1\nContent-Length: #\n\n" body "\n"
	static const char away[] = BUSY("503 Service Unavailable",
					"{\"error\":\"unavailable\",\"message\":\"not available now; try again\"}");
	static const struct row rows[] = {
		{ POSTED, not_found, FAIL("404 Not Found", "", "{\"error\":\"not_found\",\"message\":\"no such stream\"}") },
		{ POSTED, gone, FAIL("410 Gone", "", "{\"error\":\"gone\",\"message\":\"the stream is gone\"}") },
		{ POSTED, bad_request, BAD("because \\\"so\\\"") },
		{ POSTED, corrupt, BAD("bad request") },
		{ POSTED, is_closed_error, FAIL("409 Conflict", "Pico-Closed: true\nPico-Next-Seq: 8\n",
		  "{\"error\":\"closed\",\"message\":\"stream is closed\",\"next_seq\":8}") },
		{ POSTED, fenced, FAIL("403 Forbidden", "Pico-Producer-Epoch: 5\n",
		  "{\"error\":\"fenced\",\"message\":\"a newer producer epoch is known\"}") },
		{ POSTED, gap, FAIL("409 Conflict", "Pico-Expected-Seq: 3\nPico-Received-Seq: 9\n",
		  "{\"error\":\"sequence_gap\",\"message\":\"a producer sequence is missing\"}") },
		{ POSTED, gap_at_first, BAD("New epoch must start with sequence 0") },
		{ POSTED, match_failed, FAIL("412 Precondition Failed", "Pico-Next-Seq: 8\n",
		  "{\"error\":\"match_failed\",\"message\":\"the next position is another one\",\"next_seq\":8}") },
		{ POSTED, too_large, FAIL("413 Content Too Large", "",
		  "{\"error\":\"too_large\",\"message\":\"content too large\"}") },
		{ POSTED, schema, FAIL("400 Bad Request", "",
		  "{\"error\":\"schema_violation\",\"message\":\"a record breaks the schema\"}") },
		{ POSTED, trimmed, FAIL("410 Gone", "Pico-Start-Seq: 6\n",
		  "{\"error\":\"trimmed\",\"message\":\"records before the start of the stream are gone\"}") },
		{ POSTED, beyond, FAIL("400 Bad Request", "Pico-Next-Seq: 8\n",
		  "{\"error\":\"bad_request\",\"message\":\"the position is beyond the end of the stream\",\"next_seq\":8}") },
		{ POSTED, partition_required, FAIL("400 Bad Request", "",
		  "{\"error\":\"partition_required\",\"message\":\"name one with ?partition=\"}") },
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

static void test_head_delete_list(void **state)
{
#define EMPTY(status, head) "HTTP/1.1 " status "\n" head STORE "Content-Length: 0\n\n"
	static const struct row rows[] = {
		{ "HEAD /t", "GET topic{ name='/t' }", got,
		  EMPTY("200 OK", "Content-Type: text/plain\nPico-Start-Seq: 3\nPico-Next-Seq: 8\nPico-Kafka-Topic: t\n") },
		{ "HEAD /t", "GET topic{ name='/t' }", got_three,
		  EMPTY("200 OK", "Content-Type: text/plain\nPico-Partitions: 3\nPico-Kafka-Topic: t\n") },
		{ "HEAD /t?partition=1", "GET topic{ name='/t' }", got_three,
		  EMPTY("200 OK", "Pico-Partition: 1\nPico-Start-Seq: 3\nPico-Next-Seq: 8\nContent-Type: text/plain\n"
			"Pico-Partitions: 3\nPico-Kafka-Topic: t\n") },
		{ "HEAD /t?partition=3", "GET topic{ name='/t' }", got_three,
		  "HTTP/1.1 400 Bad Request\nContent-Type: application/json\n" STORE "Content-Length: 80\n\n" },
		{ "HEAD /t", "GET topic{ name='/t' }", not_found, EMPTY("404 Not Found", "") },
		{ "DELETE /t", "DELETE topic{ name='/t' }", deleted, "HTTP/1.1 204 No Content\n" STORE "\n" },
		{ "DELETE /t", "DELETE topic{ name='/t' }", deleted_nothing, EMPTY("404 Not Found", "") },
		{ "DELETE /t", "DELETE topic{ name='/t' }", not_found, EMPTY("404 Not Found", "") },
		{ "GET /?limit=1&prefix=%2Ft&start_after=/a", "LIST prefix='/t' start_after='/a' limit=1", listed,
		  "HTTP/1.1 200 OK\nContent-Type: application/json\n" STORE "Content-Length: #\n\n"
		  "{\"streams\":[{\"name\":\"/t\",\"content_type\":\"text/plain\",\"start_seq\":1,\"next_seq\":2,\"closed\":false}"
		  "],\"has_more\":true}\n" },
		{ "GET /", "LIST prefix='/' limit=100", listed,
		  "HTTP/1.1 200 OK\nContent-Type: application/json\n" STORE "Content-Length: #\n\n"
		  "{\"streams\":[{\"name\":\"/t\",\"content_type\":\"text/plain\",\"start_seq\":1,\"next_seq\":2,\"closed\":false},"
		  "{\"name\":\"/u\",\"content_type\":\"text/plain\",\"partitions\":3,\"closed\":true}],\"has_more\":false}\n" },
		{ "GET /?limit=x", NULL, NULL, BAD("limit must be a number without sign or leading zeros") },
		{ "TRACE /t", NULL, NULL, "HTTP/1.1 405 Method Not Allowed\nAllow: GET, PUT, POST, DELETE, HEAD, OPTIONS\n"
		  "Content-Type: application/json\n" STORE "Content-Length: #\n\n"
		  "{\"error\":\"method_not_allowed\",\"message\":\"the method is not known here\"}\n" },
	};
	world_open(NULL);
	RUN(rows);
	world_close();
}

static void test_read(void **state)
{
#define TWO "[{\"seq\":4,\"timestamp\":99,\"body\":\"a\"},\n{\"seq\":5,\"timestamp\":99,\"key\":\"k\",\"body\":\"bb\"}]\n"
#define READ(head, type, cache, body) "HTTP/1.1 200 OK\n" head "Content-Type: " type "\nCache-Control: " cache \
	"\nContent-Length: #\n\n" body
#define TAG(rest) "ETag: \"" ETAG_ID ":" rest "\"\n"
#define OLD "public, max-age=60, stale-while-revalidate=300"
	static const struct row rows[] = {
		{ "GET /t", READ_T, read_two, READ("Pico-Next-Seq: 6\nPico-Up-To-Date: true\n" TAG("0:json:4:6"),
		  "application/json", "no-cache", TWO) },
		{ "GET /t?seq=-1", READ_T, read_two_closed,
		  READ("Pico-Next-Seq: 6\nPico-Up-To-Date: true\nPico-Closed: true\n" TAG("0:json:4:6:c"), "application/json",
		       OLD, TWO) },
		{ "GET /t?seq=4&count=1&bytes=10", "READ log{ topic{ name='/t' } } from=4 max_bytes=90", read_two,
		  READ("Pico-Next-Seq: 5\n" TAG("0:json:4:5"), "application/json", OLD,
		       "[{\"seq\":4,\"timestamp\":99,\"body\":\"a\"}]\n") },
		{ "GET /t?seq=5&format=raw", "READ log{ topic{ name='/t' } } from=5 max_bytes=147456", read_two,
		  READ("Pico-Next-Seq: 6\nPico-Up-To-Date: true\n" TAG("0:raw:5:6"), "text/plain", "no-cache", "bb") },
		{ "GET /t?format=raw&bytes=3", "READ log{ topic{ name='/t' } } from=-1 max_bytes=81923", read_two,
		  READ("Pico-Next-Seq: 5\n" TAG("0:raw:4:5"), "text/plain", OLD, "a") },
		{ "GET /t?bytes=0&count=0", "READ log{ topic{ name='/t' } } from=-1 max_bytes=4276224", read_two,
		  READ("Pico-Next-Seq: 6\nPico-Up-To-Date: true\n" TAG("0:json:4:6"), "application/json", "no-cache",
		       TWO) },
		{ "GET /t?seq=NOW", "READ log{ topic{ name='/t' } } from_end=1 max_bytes=147456", read_none,
		  READ("Pico-Next-Seq: 6\nPico-Up-To-Date: true\n" TAG("0:json:6:6"), "application/json", "no-cache",
		       "[]\n") },
		{ "GET /t?format=raw", READ_T, read_none_closed,
		  READ("Pico-Next-Seq: 6\nPico-Up-To-Date: true\nPico-Closed: true\n" TAG("0:raw:6:6:c"), "text/plain", OLD, "") },
		{ "GET /t?partition=1", "READ log{ topic{ name='/t' } partition=1 } partition_given=1 from=-1 max_bytes=147456",
		  read_none, READ("Pico-Next-Seq: 6\nPico-Up-To-Date: true\nPico-Partitions: 3\nPico-Partition: 1\n"
				  TAG("1:json:6:6"), "application/json", "no-cache", "[]\n") },
		{ "GET /t\nLast-Event-ID: 00000000000000000004", "READ log{ topic{ name='/t' } } from=4 max_bytes=147456",
		  read_two, READ("Pico-Next-Seq: 6\nPico-Up-To-Date: true\n" TAG("0:json:4:6"), "application/json", "no-cache", TWO) },
		{ "GET /t?seq=0\nLast-Event-ID: 4", "READ log{ topic{ name='/t' } } max_bytes=147456", trimmed,
		  "HTTP/1.1 410 Gone\nPico-Start-Seq: 6\nContent-Type: application/json\n" STORE "Content-Length: #\n\n"
		  "{\"error\":\"trimmed\",\"message\":\"records before the start of the stream are gone\"}\n" },
		{ "GET /t\nIf-None-Match: \"x\", W/\"" ETAG_ID ":0:json:4:6\"", READ_T, read_two,
		  "HTTP/1.1 304 Not Modified\nPico-Next-Seq: 6\nPico-Up-To-Date: true\n" TAG("0:json:4:6")
		  "Cache-Control: no-cache\n\n" },
		{ "GET /t\nIf-None-Match: \"" ETAG_ID ":0:json:4:6:c\"", READ_T, read_two,
		  READ("Pico-Next-Seq: 6\nPico-Up-To-Date: true\n" TAG("0:json:4:6"), "application/json", "no-cache",
		       TWO) },
		{ "GET /t", READ_T, not_found,
		  JSON("404 Not Found", "{\"error\":\"not_found\",\"message\":\"no such stream\"}") },
		{ "GET /t?seq=", NULL, NULL, BAD("seq is empty; it is a number or now") },
		{ "GET /t?seq=x", NULL, NULL, BAD("seq is a number or now, not x") },
		{ "GET /t?format=xml", NULL, NULL, BAD("format is json, raw or binary, not xml") },
		{ "GET /t?live=", NULL, NULL, BAD("live is long-poll or sse, not ") },
		{ "GET /t?live=x", NULL, NULL, BAD("live is long-poll or sse, not x") },
		{ "GET /t?count=01", NULL, NULL, BAD("count must be a number without sign or leading zeros") },
	};
	world_open(NULL);
	RUN(rows);
	world_close();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_create), cmocka_unit_test(test_create_lives),
		cmocka_unit_test(test_trim), cmocka_unit_test(test_group_errors), cmocka_unit_test(test_later_features), cmocka_unit_test(test_settings), cmocka_unit_test(test_append),
		cmocka_unit_test(test_append_refused), cmocka_unit_test(test_errors), cmocka_unit_test(test_head_delete_list),
		cmocka_unit_test(test_read),
	};
	return cmocka_run_group_tests_name("worker-http", tests, NULL, NULL);
}
