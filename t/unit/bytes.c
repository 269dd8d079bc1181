/* SPDX-License-Identifier: Apache-2.0
 *
 * The smallest parts: buffers, integers in bytes, varints, CRC-32C.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "common/buf.h"
#include "common/crc32c.h"
#include "common/wire.h"

static void test_crc_vectors(void **state)
{
	/* RFC 3720 B.4 */
	uint8_t zeros[32] = { 0 }, ones[32], up[32];
	memset(ones, 0xff, sizeof(ones));
	for (int i = 0; i < 32; i++)
		up[i] = (uint8_t)i;
	assert_int_equal(crc32c(zeros, 32), 0x8a9136aa);
	assert_int_equal(crc32c(ones, 32), 0x62a8ab43);
	assert_int_equal(crc32c(up, 32), 0x46dd794e);
	assert_int_equal(crc32c("123456789", 9), 0xe3069283);
	assert_int_equal(crc32c_table(0, "123456789", 9), 0xe3069283);
	assert_int_equal(crc32c_extend(crc32c("1234", 4), "56789", 5), 0xe3069283);
	assert_int_equal(crc32c(NULL, 0), 0);
}

static void test_buf_bound(void **state)
{
	struct buf b;
	buf_init(&b, 10);
	buf_put(&b, "12345678", 8);
	assert_false(b.failed);
	buf_put(&b, "abc", 3);
	assert_true(b.failed);
	assert_int_equal(buf_len(&b), 8);
	buf_put(&b, "x", 1);
	assert_int_equal(buf_len(&b), 8);
	buf_reset(&b, 4096);
	buf_put(&b, "0123456789", 10);
	assert_false(b.failed);
	buf_consume(&b, 4);
	buf_put_str(&b, "wxyz");
	assert_true(slice_is(buf_slice(&b), "456789wxyz"));
	buf_done(&b);
}

static void test_buf_stream(void **state)
{
	struct buf b;
	buf_init(&b, 1000);
	unsigned put = 0, got = 0;
	for (int turn = 0; turn < 5000; turn++) {
		for (int i = 0; i < 7; i++)
			buf_put_u8(&b, (uint8_t)put++);
		for (int i = 0; i < 7; i++, got++) {
			assert_int_equal(*buf_head(&b), (uint8_t)got);
			buf_consume(&b, 1);
		}
	}
	assert_int_equal(buf_len(&b), 0);
	assert_true(b.capacity <= 512);
	buf_done(&b);
}

static void test_varints(void **state)
{
	static const int64_t values[] = { 0, -1, 1, 63, 64, -64, -65, 300, INT32_MAX, INT32_MIN, INT64_MAX, INT64_MIN };
	for (size_t i = 0; i < sizeof(values) / sizeof(values[0]); i++) {
		uint8_t bytes[10];
		size_t n = (size_t)(wire_put_varlong(bytes, values[i]) - bytes);
		assert_int_equal(n, wire_varlong_size(values[i]));
		struct wire_reader r = wire_reader(slice_of(bytes, n));
		assert_true(wire_varlong(&r) == values[i]);
		assert_false(r.failed);
		for (size_t cut = 0; cut < n; cut++) {
			r = wire_reader(slice_of(bytes, cut));
			wire_varlong(&r);
			assert_true(r.failed);
		}
		r = wire_reader(slice_of(bytes, n));
		int32_t small = wire_varint(&r);
		if (values[i] >= INT32_MIN && values[i] <= INT32_MAX)
			assert_int_equal(small, values[i]);
		else
			assert_true(r.failed);
	}
	static const uint8_t eleven[] = { 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x02 };
	struct wire_reader r = wire_reader(slice_of(eleven, sizeof(eleven)));
	wire_varlong(&r);
	assert_true(r.failed);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_crc_vectors), cmocka_unit_test(test_buf_bound),
		cmocka_unit_test(test_buf_stream), cmocka_unit_test(test_varints),
	};
	return cmocka_run_group_tests_name("bytes", tests, NULL, NULL);
}
