/* SPDX-License-Identifier: Apache-2.0
 *
 * Frames written out by hand from the published layouts: they decode to what is expected, and that
 * encodes to the same bytes. Then what frames and headers refuse.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <errno.h>
#include <stdlib.h>

#include "common/kafka_error.h"
#include "common/kafka_frame.h"
#include "common/wire.h"
#include "t/kmsg_types_gen.h"

#define FRAME_MAX (32u << 20)

static struct region region;
static struct buf out;
static uint8_t *held[64];
static unsigned n_held;

static int setup(void **state)
{
	region_init(&region, 1u << 20);
	buf_init(&out, 1u << 20);
	n_held = 0;
	return 0;
}

static int teardown(void **state)
{
	region_done(&region);
	buf_done(&out);
	while (n_held > 0)
		free(held[--n_held]);
	return 0;
}

static int nibble(char c)
{
	return c <= '9' ? c - '0' : c - 'a' + 10;
}

/* Hex with blanks, and 'text' in quotes, in memory of exactly its size. */
static struct slice hex(const char *s)
{
	uint8_t bytes[1024];
	size_t n = 0;
	while (*s != '\0') {
		if (*s == ' ') {
			s++;
		} else if (*s == '\'') {
			for (s++; *s != '\''; s++)
				bytes[n++] = (uint8_t)*s;
			s++;
		} else {
			bytes[n++] = (uint8_t)(nibble(s[0]) << 4 | nibble(s[1]));
			s += 2;
		}
	}
	held[n_held] = malloc(n > 0 ? n : 1);
	memcpy(held[n_held], bytes, n);
	return slice_of(held[n_held++], n);
}

static struct kmsg_form form_of(const struct kmsg_desc *desc, int16_t version)
{
	return (struct kmsg_form){ .desc = desc, .version = version };
}

/* Decodes, and sees the same bytes encoded from it. */
static void *vector(const struct kmsg_desc *desc, int16_t version, const char *text)
{
	struct slice bytes = hex(text);
	void *value = kmsg_new(&region, desc->of, 1);
	assert_int_equal(kmsg_decode(form_of(desc, version), bytes, &region, value), 0);
	buf_reset(&out, SIZE_MAX);
	assert_int_equal(kmsg_encode(form_of(desc, version), value, &out, NULL), 0);
	assert_int_equal(buf_len(&out), bytes.n);
	assert_memory_equal(buf_head(&out), bytes.p, bytes.n);
	return value;
}

static void refused(const struct kmsg_desc *desc, int16_t version, const char *text)
{
	void *value = kmsg_new(&region, desc->of, 1);
	assert_int_equal(kmsg_decode(form_of(desc, version), hex(text), &region, value), -EBADMSG);
}

static void test_api_versions(void **state)
{
	vector(&kmsg_api_versions_request_desc, 0, "");
	vector(&kmsg_api_versions_request_desc, 2, "");
	struct kmsg_api_versions_request *q =
		vector(&kmsg_api_versions_request_desc, 3, "05 'kcat' 04 '1.7' 00");
	assert_true(slice_is(q->client_software_name, "kcat") && slice_is(q->client_software_version, "1.7"));
	vector(&kmsg_api_versions_request_desc, 4, "01 01 00");

	struct kmsg_api_versions_response *a = vector(&kmsg_api_versions_response_desc, 0,
						      "0023 00000002 0000 0000 000b 0012 0000 0004");
	assert_int_equal(a->error_code, KAFKA_UNSUPPORTED_VERSION);
	assert_int_equal(a->n_api_keys, 2);
	assert_int_equal(a->api_keys[1].api_key, 18);
	assert_int_equal(a->api_keys[0].max_version, 11);
	assert_int_equal(a->finalized_features_epoch, -1);
	a = vector(&kmsg_api_versions_response_desc, 1, "0000 00000000 00000064");
	assert_int_equal(a->throttle_time_ms, 100);
	vector(&kmsg_api_versions_response_desc, 2, "0000 00000000 00000000");
	vector(&kmsg_api_versions_response_desc, 3, "0000 02 0012 0000 0004 00 00000000 00");
	a = vector(&kmsg_api_versions_response_desc, 4,
		   "0000 02 0012 0000 0004 00 00000000"
		   "03 00 09 02 03 'ab' 0001 0002 00 01 08 0000000000000005 03 01 01");
	assert_int_equal(a->finalized_features_epoch, 5);
	assert_true(a->zk_migration_ready);
	assert_int_equal(a->n_supported_features, 1);
	assert_true(slice_is(a->supported_features[0].name, "ab"));
}

static void test_metadata_v1(void **state)
{
	struct kmsg_metadata_request *q = vector(&kmsg_metadata_request_desc, 1, "00000001 0001 'a'");
	assert_int_equal(q->n_topics, 1);
	assert_true(slice_is(q->topics[0].name, "a"));
	assert_true(q->allow_auto_topic_creation);
	q = vector(&kmsg_metadata_request_desc, 1, "ffffffff");
	assert_null(q->topics);
	q = vector(&kmsg_metadata_request_desc, 1, "00000000");
	assert_non_null(q->topics);
	refused(&kmsg_metadata_request_desc, 0, "ffffffff");

	struct kmsg_metadata_response *a = vector(&kmsg_metadata_response_desc, 1,
		"00000001 00000001 0001 'h' 00002384 ffff 00000001"
		"00000001 0000 0001 'a' 00"
		"00000002 0000 00000000 00000001 00000001 00000001 00000001 00000001"
		"0005 00000001 ffffffff 00000000 00000000");
	assert_int_equal(a->brokers[0].port, 9092);
	assert_null(a->brokers[0].rack.p);
	assert_int_equal(a->topics[0].n_partitions, 2);
	assert_int_equal(a->topics[0].partitions[0].isr_nodes[0], 1);
	assert_int_equal(a->topics[0].partitions[1].error_code, KAFKA_LEADER_NOT_AVAILABLE);
	assert_int_equal(a->topics[0].partitions[1].leader_epoch, -1);
	assert_int_equal(a->topics[0].topic_authorized_operations, INT32_MIN);
}

static void test_metadata_v12(void **state)
{
	struct kmsg_metadata_request *q = vector(&kmsg_metadata_request_desc, 12,
		"03 00000000000000000000000000000000 02 'a' 00"
		"000102030405060708090a0b0c0d0e0f 00 00 01 00 00");
	assert_true(slice_is(q->topics[0].name, "a"));
	assert_null(q->topics[1].name.p);
	assert_int_equal(q->topics[1].topic_id.bytes[15], 15);
	struct kmsg_metadata_response *a = vector(&kmsg_metadata_response_desc, 12,
		"00000000 02 00000001 02 'h' 00002384 00 00 02 'c' 00000001"
		"02 0000 02 'a' 000102030405060708090a0b0c0d0e0f 00"
		"02 0000 00000000 00000001 00000005 02 00000001 02 00000001 01 00 80000000 00 00");
	assert_true(slice_is(a->cluster_id, "c"));
	assert_int_equal(a->topics[0].partitions[0].leader_epoch, 5);
	assert_int_equal(a->topics[0].partitions[0].n_offline_replicas, 0);
}

static void test_produce(void **state)
{
	struct kmsg_produce_request *q = vector(&kmsg_produce_request_desc, 3,
		"ffff ffff 00007530 00000001 0001 'a' 00000002 00000000 00000003 010203 00000001 ffffffff");
	assert_null(q->transactional_id.p);
	assert_int_equal(q->acks, -1);
	assert_int_equal(q->timeout_ms, 30000);
	assert_int_equal(q->topic_data[0].partition_data[0].records.bytes.n, 3);
	assert_null(q->topic_data[0].partition_data[1].records.bytes.p);
	q = vector(&kmsg_produce_request_desc, 9,
		   "00 0001 00007530 02 02 'a' 02 00000007 04 010203 00 00 00");
	assert_int_equal(q->topic_data[0].partition_data[0].index, 7);
	struct kmsg_produce_response *a = vector(&kmsg_produce_response_desc, 3,
		"00000001 0001 'a' 00000001 00000000 0000 0000000000000010 ffffffffffffffff 00000000");
	assert_int_equal(a->responses[0].partition_responses[0].base_offset, 16);
	vector(&kmsg_produce_response_desc, 9,
	       "02 02 'a' 02 00000000 0000 0000000000000010 ffffffffffffffff 0000000000000000"
	       "02 00000001 03 'no' 00 00 00 00 00000000 00");
	a = vector(&kmsg_produce_response_desc, 10,
		   "02 02 'a' 02 00000000 0006 ffffffffffffffff ffffffffffffffff ffffffffffffffff"
		   "01 00 01 00 09 00000002 00000003 00 00 00000000"
		   "01 00 0d 02 00000002 02 'h' 00002384 00 00");
	assert_int_equal(a->responses[0].partition_responses[0].current_leader.leader_epoch, 3);
	assert_true(slice_is(a->node_endpoints[0].host, "h"));
}

static void test_fetch(void **state)
{
	struct kmsg_fetch_request *q = vector(&kmsg_fetch_request_desc, 4,
		"ffffffff 000001f4 00000001 03200000 00"
		"00000001 0001 'a' 00000001 00000000 0000000000000005 00100000");
	assert_int_equal(q->max_wait_ms, 500);
	assert_int_equal(q->topics[0].partitions[0].fetch_offset, 5);
	assert_int_equal(q->topics[0].partitions[0].current_leader_epoch, -1);
	struct kmsg_fetch_response *a = vector(&kmsg_fetch_response_desc, 4,
		"00000000 00000001 0001 'a' 00000001"
		"00000000 0001 0000000000000009 0000000000000009 ffffffff 00000000");
	assert_int_equal(a->responses[0].partitions[0].error_code, KAFKA_OFFSET_OUT_OF_RANGE);
	assert_null(a->responses[0].partitions[0].aborted_transactions);
	assert_non_null(a->responses[0].partitions[0].records.bytes.p);
	q = vector(&kmsg_fetch_request_desc, 13,
		   "ffffffff 000001f4 00000001 03200000 00 00000000 ffffffff"
		   "02 000102030405060708090a0b0c0d0e0f"
		   "02 00000000 00000005 0000000000000005 ffffffff ffffffffffffffff 00100000 00 00"
		   "01 01 01 00 02 02 'c'");
	assert_true(slice_is(q->cluster_id, "c"));
	assert_int_equal(q->topics[0].topic_id.bytes[1], 1);
	assert_int_equal(q->topics[0].partitions[0].current_leader_epoch, 5);
	a = vector(&kmsg_fetch_response_desc, 13,
		   "00000000 0000 00000000 02 000102030405060708090a0b0c0d0e0f"
		   "02 00000000 0000 0000000000000009 0000000000000009 0000000000000000 00 ffffffff 04 'xyz' 00 00 00");
	assert_true(slice_is(a->responses[0].partitions[0].records.bytes, "xyz"));
}

static void test_nullable_struct(void **state)
{
	struct kmsg_describe_topic_partitions_request *q =
		vector(&kmsg_describe_topic_partitions_request_desc, 0, "02 02 'a' 00 000007d0 ff 00");
	assert_null(q->cursor);
	q = vector(&kmsg_describe_topic_partitions_request_desc, 0, "01 000007d0 01 02 'a' 00000003 00 00");
	assert_int_equal(q->cursor->partition_index, 3);
}

#define NUMBERS "01 80 8000 80000000 8000000000000000 ffff ffffffff 3ff8000000000000 000102030405060708090a0b0c0d0e0f"

/* Every type in every place where it may stand (golden/kmsg_types.kmsg). */
static void test_all_types(void **state)
{
	const struct kmsg_desc *desc = &kmsg_all_types_desc;
	struct kmsg_all_types *v = vector(desc, 0, NUMBERS
		"0001 'a' 0001 'b' 00000002 'cd' 00000001 'e' 0000 ffffffff ffffffff 00000007 0009"
		"00000005 00000001 0001 'w' 00000001 0000000000000102 00000002 0100 00000000 00000000"
		"00000001 00000001 'z'");
	assert_true(v->yes && v->int8 == -128 && v->int16 == INT16_MIN && v->int32 == INT32_MIN);
	assert_true(v->int64 == INT64_MIN && v->uint16 == 65535 && v->uint32 == UINT32_MAX && v->float64 == 1.5);
	assert_true(v->inner.number == 7 && v->inner.deep.number == 9 && v->null_struct->number == 5);
	assert_true(v->n_numbers == 1 && v->numbers[0] == 258 && v->n_bools == 2 && v->bools[0] && !v->bools[1]);
	assert_true(v->null_string.p != NULL && v->null_bytes.p == NULL && v->null_blob.bytes.p == NULL);
	assert_true(slice_is(v->string16, "b") && slice_is(v->blobs[0], "z") && v->late == 11 && v->tag_int == 42);
	assert_true(v->tag_last == UINT32_MAX && v->tag_struct.again.number == 4 && v->tag_maybe == NULL);

	v = vector(desc, 1, NUMBERS
		"02 'a' 0001 'b' 03 'cd' 02 'e' 01 00 01 00000007 0009 00 00 ff"
		"01 01 02 bff0000000000000 01 01 00"
		"0a 00 08 0000000000000001 01 03 03 'hi' 02 01 01 03 01 01 04 03 03 0102"
		"05 10 000102030405060708090a0b0c0d0e0f 06 08 3ff8000000000000"
		"07 0c 02 00000001 01 64 04 00000005 09 0f 00000003 02 02 'w' 01 02 05 00000008 00"
		"0a 06 01 00000006 00");
	assert_true(v->tag_int == 1 && slice_is(v->tag_string, "hi") && v->tag_null.p != NULL && v->tag_null.n == 0);
	assert_true(v->tag_bool && v->tag_bytes.n == 2 && v->tag_uuid.bytes[15] == 15 && v->tag_float == 1.5);
	assert_true(v->n_tag_array == 1 && v->tag_array[0].number == 1 && v->tag_array[0].tag_inside == 5);
	assert_true(v->tag_struct.number == 3 && v->tag_struct.again.number == 8 && v->tag_maybe->number == 6);
	assert_true(v->null_words == NULL && v->null_struct == NULL && v->doubles[0] == -1.0);

	v = vector(desc, 2, NUMBERS
		"01 0000 01 01 00 00 00 00000007 0009 00 00 ff 01 01 01 01 01 0000000c 01 ac02 04 00000000");
	assert_true(v->null_string.p == NULL && v->late == 12 && v->tag_last == 0);
	vector(&kmsg_old_types_desc, 0, "ffffffff ff");
	vector(&kmsg_old_types_desc, 0, "00000001 0001 'a' 01 00000003");
	refused(&kmsg_old_types_desc, 0, "00000001 ffff ff");     /* an element is never null */
}

/* Tagged fields whose size does not fit the byte that was kept for it. */
static void test_long_tags(void **state)
{
	static const uint8_t x[20000] = { [0 ... 19999] = 'x' };
	static const size_t sizes[] = { 125, 126, 127, 128, 129, 16380, 16381, 16382, 16383, 20000 };
	struct slice words[1];
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		struct kmsg_all_types got, *v = KMSG_NEW(&region, all_types, 1);
		struct kmsg_form form = form_of(&kmsg_all_types_desc, 1);
		words[0] = slice_of(x, sizes[i]);
		v->tag_string = words[0];
		v->tag_struct.words = words;
		v->tag_struct.n_words = 1;
		v->tag_struct.again.number = 77;
		buf_reset(&out, 0);
		assert_int_equal(kmsg_encode(form, v, &out, NULL), 0);
		assert_int_equal(kmsg_decode(form, buf_slice(&out), &region, &got), 0);
		assert_true(kmsg_equal(&kmsg_all_types_struct, v, &got));
	}
}

static void test_refusals(void **state)
{
	const struct kmsg_desc *metadata = &kmsg_metadata_request_desc;
	refused(metadata, 1, "7fffffff");
	refused(metadata, 1, "fffffffe");
	refused(metadata, 1, "00000001 ffff");                  /* a name that is null */
	refused(metadata, 1, "00000001 fffe 'a'");
	refused(metadata, 1, "00000001 0002 'a'");
	refused(metadata, 1, "00000002 0001 'a' 00");           /* more topics than bytes */
	refused(metadata, 9, "01 01 00 00 ff ff ff ff 1f");     /* more tags than a number has */
	refused(metadata, 9, "ff ff ff ff 7f 01 00 00 00");     /* 35 bits */
	refused(metadata, 9, "81 80 80 80 10 01 00 00 00");     /* 33 bits, of which 32 say an empty array */
	refused(metadata, 9, "81 80 80 80 80 00 01 00 00 00");  /* 6 bytes */
	refused(metadata, 9, "01 01 00 00 02 00 00 00 00");     /* a tag twice */
	refused(metadata, 9, "01 01 00 00 02 05 00 04 00");     /* falling tags */
	refused(metadata, 9, "01 01 00 00 01 00 05 00");        /* a tag longer than the rest */
	refused(&kmsg_fetch_request_desc, 12, /* a string longer than its tag's size */
		"ffffffff 000001f4 00000001 03200000 00 00000000 ffffffff 01 01 01 01 00 02 03 'ab'");
	refused(&kmsg_fetch_request_desc, 12, /* one shorter */
		"ffffffff 000001f4 00000001 03200000 00 00000000 ffffffff 01 01 01 01 00 03 02 'ab'");
	struct slice unknown = hex("01 01 00 00 02 05 00 09 02 abcd");
	struct kmsg_metadata_request q;
	assert_int_equal(kmsg_decode(form_of(metadata, 9), unknown, &region, &q), 0);
	assert_int_equal(q.n_topics, 0);
	assert_int_equal(kmsg_decode(form_of(metadata, 9), hex("81 80 80 80 00 01 00 00 00"), &region, &q), 0);
	assert_int_equal(region.used, 4096);    /* what kmsg_new() took, nothing for refused counts */
}

static void test_unsayable(void **state)
{
	struct kmsg_heartbeat_request q = { .group_id = { .p = calloc(1, 40000), .n = 32767 } };
	buf_put_str(&out, "before");
	assert_int_equal(kmsg_encode(form_of(&kmsg_heartbeat_request_desc, 4), &q, &out, NULL), 0);
	q.group_id.n = 32768;
	for (int16_t v = 0; v <= 4; v++) {
		size_t n = buf_len(&out);
		int rc = kmsg_encode(form_of(&kmsg_heartbeat_request_desc, v), &q, &out, NULL);
		assert_int_equal(rc, -EMSGSIZE);
		assert_int_equal(buf_len(&out), n);
	}
	free((void *)q.group_id.p);

	/* Nor are they read: 32,768 bytes, as a compact string could say it. */
	struct kmsg_heartbeat_request got;
	buf_reset(&out, 0);
	static const uint8_t length[] = { 0x81, 0x80, 0x02 };
	buf_put(&out, length, sizeof(length));
	for (int i = 0; i < 32768 + 7; i++)
		buf_put_u8(&out, i < 32768 ? 'x' : i == 32768 + 4);
	assert_int_equal(kmsg_decode(form_of(&kmsg_heartbeat_request_desc, 4), buf_slice(&out), &region, &got), -EBADMSG);
	buf_head(&out)[0] = 0x80;
	memmove(buf_head(&out) + 3, buf_head(&out) + 4, buf_len(&out) - 4);
	out.end--;
	assert_int_equal(kmsg_decode(form_of(&kmsg_heartbeat_request_desc, 4), buf_slice(&out), &region, &got), 0);
	assert_int_equal(got.group_id.n, 32767);
}

/* Null where there is none is written as empty. */
static void test_null_is_empty(void **state)
{
	struct slice word = slice_of(NULL, 0);
	struct kmsg_old_types v = { .words = &word, .n_words = 1 };
	struct slice expected = hex("00000001 0000 ff");
	assert_int_equal(kmsg_encode(form_of(&kmsg_old_types_desc, 0), &v, &out, NULL), 0);
	assert_true(slice_eq(buf_slice(&out), expected));
	struct kmsg_heartbeat_request q = { .generation_id = 1 };
	buf_reset(&out, SIZE_MAX);
	assert_int_equal(kmsg_encode(form_of(&kmsg_heartbeat_request_desc, 3), &q, &out, NULL), 0);
	expected = hex("0000 00000001 0000 ffff");
	assert_true(slice_eq(buf_slice(&out), expected));
}

/* Records from elsewhere: only their length is there, and the places are told. */
static void test_gaps(void **state)
{
	struct kmsg_fetch_response *a = KMSG_NEW(&region, fetch_response, 1);
	a->responses = KMSG_NEW(&region, fetch_response_topic, 1);
	a->n_responses = 1;
	a->responses->topic = slice_str("a");
	a->responses->partitions = KMSG_NEW(&region, fetch_response_partition, 3);
	a->responses->n_partitions = 3;
	a->responses->partitions[0].records.n_external = 3;
	a->responses->partitions[2].records.n_external = 200;
	for (int16_t v = 4; v <= 16; v++) {
		struct kafka_request request = { .api = kafka_api_find(1), .api_key = 1, .api_version = v,
						 .correlation_id = 7 };
		struct kmsg_gap places[2];
		struct kmsg_gaps gaps = { .gaps = places, .max = 2 };
		struct buf whole;
		buf_reset(&out, SIZE_MAX);
		assert_int_equal(kafka_response_write(&out, &request, a, &gaps), 0);
		assert_int_equal(gaps.n, 2);
		assert_int_equal(gaps.bytes, 203);
		assert_ptr_equal(places[1].records, &a->responses->partitions[2].records);
		buf_init(&whole, 4096);
		size_t at = 0;
		for (size_t i = 0; i < 2; at = places[i++].at) {
			static const uint8_t x[200] = { [0 ... 199] = 'x' };
			buf_put(&whole, buf_head(&out) + at, places[i].at - at);
			buf_put(&whole, x, places[i].records->n_external);
		}
		buf_put(&whole, buf_head(&out) + at, buf_len(&out) - at);
		const char *why = "";
		assert_int_equal(kafka_frame_size(buf_slice(&whole), FRAME_MAX, &why), buf_len(&whole));
		struct slice body, frame = slice_of(buf_head(&whole) + 4, buf_len(&whole) - 4);
		struct kmsg_fetch_response got;
		assert_int_equal(kafka_response_read(frame, &request, &body), 0);
		assert_int_equal(kmsg_decode(form_of(request.api->response, v), body, &region, &got), 0);
		struct kmsg_fetch_response_partition *p = got.responses->partitions;
		assert_true(slice_is(p[0].records.bytes, "xxx"));
		assert_true(p[1].records.bytes.n == 0 && p[1].records.bytes.p != NULL);
		assert_int_equal(p[2].records.bytes.n, 200);
		buf_done(&whole);
	}
}

static void test_frame_sizes(void **state)
{
	static const struct { const char *bytes; int64_t size; const char *why; } rows[] = {
		{ "", 0, "" },
		{ "000000", 0, "" },
		{ "00000001", 5, "" },
		{ "02000000", 4 + (32 << 20), "" },
		{ "02000001", -EBADMSG, "too-large" },
		{ "00000000 00", -EBADMSG, "empty" },
		{ "ffffffff", -EBADMSG, "negative-length" },
		{ "80000000", -EBADMSG, "negative-length" },
		{ "16030102 00", -EBADMSG, "tls" },
		{ "'GET / HTTP/1.1'", -EBADMSG, "http" },
		{ "'POST /x'", -EBADMSG, "http" },
		{ "'PRI * HTTP/2.0'", -EBADMSG, "http" },
		{ "'SSH-2.0'", -EBADMSG, "too-large" },
	};
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		const char *why = "";
		assert_int_equal(kafka_frame_size(hex(rows[i].bytes), FRAME_MAX, &why), rows[i].size);
		assert_string_equal(why, rows[i].why);
	}
}

static void test_request_headers(void **state)
{
	struct kafka_request q;
	assert_int_equal(kafka_request_read(hex("0003 0001 00000007 0004 'test' 00000000"), &q), 0);
	assert_string_equal(q.api->name, "Metadata");
	assert_true(q.api_version == 1 && q.correlation_id == 7 && slice_is(q.client_id, "test"));
	assert_int_equal(q.body.n, 4);
	assert_int_equal(kafka_request_read(hex("0003 0009 00000007 ffff 01 05 02 abcd 'body'"), &q), 0);
	assert_null(q.client_id.p);
	assert_true(slice_is(q.body, "body"));
	assert_int_equal(kafka_request_read(hex("0012 0003 00000007 0001 'k' 00 01 01 00"), &q), 0);
	assert_int_equal(q.body.n, 3);

	/* Known APIs in versions that nobody serves, and unknown ones: what can be said is said. */
	assert_int_equal(kafka_request_read(hex("0012 7fff fffffffe 0001 'k' 00 'anything'"), &q), 0);
	assert_true(q.api->key == 18 && !kafka_api_serves(q.api, q.api_version) && q.correlation_id == -2);
	assert_int_equal(kafka_request_read(hex("0012 0063 00000005 ff"), &q), 0);
	assert_int_equal(q.correlation_id, 5);
	assert_int_equal(q.body.n, 0);
	assert_int_equal(kafka_request_read(hex("0003 ffff 00000005 0000"), &q), 0);
	assert_false(kafka_api_serves(q.api, q.api_version) || kafka_api_knows(q.api, q.api_version));
	assert_int_equal(kafka_request_read(hex("0004 0000 00000005 0000"), &q), 0);
	assert_null(q.api);
	assert_int_equal(q.api_key, 4);

	static const char *const bad[] = { "", "0003", "0003 0001 000000", "0003 0001 00000007",
					   "0003 0001 00000007 0005 'test'", "0003 0001 00000007 fffe",
					   "0003 0009 00000007 0000", "0003 0009 00000007 0000 01 05 02 ab" };
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		assert_int_equal(kafka_request_read(hex(bad[i]), &q), -EBADMSG);
}

static void wrote(const struct kafka_request *request, const void *answer, const char *expected)
{
	struct slice bytes = hex(expected);
	buf_reset(&out, SIZE_MAX);
	assert_int_equal(kafka_response_write(&out, request, answer, NULL), 0);
	assert_int_equal(buf_len(&out), bytes.n);
	assert_memory_equal(buf_head(&out), bytes.p, bytes.n);
}

static void test_response_headers(void **state)
{
	struct kafka_request q = { .api = kafka_api_find(12), .api_key = 12, .api_version = 0, .correlation_id = 258 };
	struct kmsg_heartbeat_response heartbeat = { .error_code = KAFKA_REBALANCE_IN_PROGRESS };
	wrote(&q, &heartbeat, "00000006 00000102 001b");
	q.api_version = 4;
	wrote(&q, &heartbeat, "0000000c 00000102 00 00000000 001b 00");

	struct kmsg_api_versions_response versions;
	assert_int_equal(kafka_api_versions_refusal(&region, &versions), 0);
	q = (struct kafka_request){ .api = kafka_api_find(18), .api_key = 18, .api_version = 0, .correlation_id = 9 };
	wrote(&q, &versions, "00000010 00000009 0023 00000001 0012 0000 0004");
	q.api_version = 3;
	wrote(&q, &versions, "00000013 00000009 0023 02 0012 0000 0004 00 00000000 00");

	struct slice body, frame = hex("00000009 0023");
	assert_int_equal(kafka_response_read(frame, &q, &body), 0);
	assert_int_equal(body.n, 2);
	q.correlation_id = 10;
	assert_int_equal(kafka_response_read(frame, &q, &body), -EBADMSG);
	assert_int_equal(kafka_response_read(hex("000000"), &q, &body), -EBADMSG);

	struct buf small;
	buf_init(&small, 22);
	assert_int_equal(kafka_response_write(&small, &q, &versions, NULL), -ENOBUFS);
	assert_int_equal(buf_len(&small), 0);
	buf_done(&small);
}

static bool only_even(int16_t key)
{
	return key % 2 == 0;
}

static void test_offered_versions(void **state)
{
	struct kmsg_api_versions_response a;
	assert_int_equal(kafka_api_versions(&region, NULL, &a), 0);
	assert_int_equal(a.n_api_keys, kafka_n_apis);
	assert_true(a.api_keys[1].api_key == 1 && a.api_keys[1].min_version == 4 && a.api_keys[1].max_version == 16);
	assert_int_equal(kafka_api_versions(&region, only_even, &a), 0);
	assert_true(a.n_api_keys > 10 && a.n_api_keys < kafka_n_apis);
	for (uint32_t i = 0; i < a.n_api_keys; i++)
		assert_int_equal(a.api_keys[i].api_key % 2, 0);
	assert_string_equal(kafka_error_name(0), "NONE");
	assert_string_equal(kafka_error_name(-1), "UNKNOWN_SERVER_ERROR");
	assert_string_equal(kafka_error_name(56), "KAFKA_STORAGE_ERROR");
	assert_string_equal(kafka_error_name(87), "INVALID_RECORD");
	assert_string_equal(kafka_error_name(100), "UNKNOWN_TOPIC_ID");
	assert_string_equal(kafka_error_name(9999), "UNKNOWN_SERVER_ERROR");
}

static void test_requests_written(void **state)
{
	struct kafka_request got, q = { .api = kafka_api_find(3), .api_key = 3, .correlation_id = 7,
					.client_id = slice_str("me") };
	for (q.api_version = 0; q.api_version <= 12; q.api_version++) {
		buf_reset(&out, SIZE_MAX);
		size_t start = kafka_request_begin(&out, &q);
		buf_put_str(&out, "body");
		assert_int_equal(kafka_frame_end(&out, start, 0), 0);
		assert_int_equal(get_be32(buf_head(&out)), buf_len(&out) - 4);
		assert_int_equal(kafka_request_read(slice_of(buf_head(&out) + 4, buf_len(&out) - 4), &got), 0);
		assert_true(slice_is(got.client_id, "me") && slice_is(got.body, "body") && got.api == q.api);
	}
	assert_int_equal(kafka_frame_end(&out, 0, INT32_MAX), -EMSGSIZE);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
		TEST(test_api_versions), TEST(test_metadata_v1), TEST(test_metadata_v12), TEST(test_produce),
		TEST(test_fetch), TEST(test_nullable_struct), TEST(test_all_types),
		TEST(test_long_tags), TEST(test_refusals), TEST(test_unsayable), TEST(test_null_is_empty),
		TEST(test_gaps), TEST(test_frame_sizes), TEST(test_request_headers), TEST(test_response_headers),
		TEST(test_offered_versions), TEST(test_requests_written),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
