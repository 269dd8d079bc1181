/* SPDX-License-Identifier: Apache-2.0
 *
 * Keys, footers and blocks of data objects. A footer's CRC is taken over its bytes with the CRC's own field zero.
 * What decodes is, byte for byte, what encoding writes: reserved bytes are zero.
 */
#include "storaged/data/data_format.h"

#include <inttypes.h>
#include <stdio.h>

#include "common/crc32c.h"
#include "common/must.h"
#include "common/wire.h"
#include "storaged/engine/wal_format.h"

#define FOOTER_MAGIC 0x54414450u        /* "PDAT" */
#define FOOTER_RESERVED 88
#define FOOTER_CRC_AT 124

/* --------------------------------------------------------------------- keys */

void data_key(char ret_key[DATA_KEY_MAX], struct object_id id)
{
	int n = snprintf(ret_key, DATA_KEY_MAX, "data/%" PRIu32 "/%016" PRIx64 "/%016" PRIx64, id.node, id.session,
			 id.number);
	must(n > 0 && n < (int)DATA_KEY_MAX);
}

/* Decimal digits without leading zeros, then a slash; NULL: not such a number. */
static const char *parse_node(const char *p, uint32_t *ret_node)
{
	uint64_t node = 0;
	const char *begin = p;
	for (; *p >= '0' && *p <= '9' && node <= UINT32_MAX; p++)
		node = node * 10 + (uint64_t)(*p - '0');
	if (p == begin || *p != '/' || node > UINT32_MAX || (*begin == '0' && p > begin + 1))
		return NULL;
	*ret_node = (uint32_t)node;
	return p + 1;
}

/* 16 hex digits, lower case, then `end`. */
static const char *parse_hex(const char *p, char end, uint64_t *ret_number)
{
	uint64_t number = 0;
	for (int i = 0; i < 16; i++, p++) {
		if (*p >= '0' && *p <= '9')
			number = number << 4 | (uint64_t)(*p - '0');
		else if (*p >= 'a' && *p <= 'f')
			number = number << 4 | (uint64_t)(*p - 'a' + 10);
		else
			return NULL;
	}
	if (*p != end)
		return NULL;
	*ret_number = number;
	return p + 1;
}

bool data_key_parse(const char *key, struct object_id *ret_id)
{
	struct object_id id;
	const char *p = strncmp(key, "data/", 5) == 0 ? key + 5 : NULL;
	if (p == NULL || (p = parse_node(p, &id.node)) == NULL || (p = parse_hex(p, '/', &id.session)) == NULL ||
	    parse_hex(p, '\0', &id.number) == NULL)
		return false;
	*ret_id = id;
	return true;
}

/* ------------------------------------------------------------------- footer */

void data_footer_encode(uint8_t ret_bytes[DATA_FOOTER], const struct data_footer *f)
{
	uint8_t *p = ret_bytes;
	memset(p, 0, DATA_FOOTER);
	put_le32(p, FOOTER_MAGIC);
	put_le32(p + 4, DATA_FORMAT);
	put_le32(p + 8, f->id.node);
	put_le32(p + 12, f->origin);
	put_le64(p + 16, f->id.session);
	put_le64(p + 24, f->id.number);
	put_le32(p + 32, f->level);
	put_le64(p + 40, f->first_log);
	put_le64(p + 48, f->last_log);
	put_le64(p + 56, (uint64_t)f->oldest_ms);
	put_le64(p + 64, (uint64_t)f->newest_ms);
	put_le64(p + 72, f->top_position);
	put_le32(p + 80, f->top_length);
	put_le32(p + 84, f->top_crc);
	put_le32(p + FOOTER_CRC_AT, crc32c(p, DATA_FOOTER));
}

static bool footer_crc_is_good(const uint8_t *p)
{
	static const uint8_t zero[4];
	return get_le32(p + FOOTER_CRC_AT) == crc32c_extend(crc32c(p, FOOTER_CRC_AT), zero, 4);
}

static bool is_zero(const uint8_t *p, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (p[i] != 0)
			return false;
	return true;
}

static const char *footer_check(const struct data_footer *f, uint64_t size, struct object_id id)
{
	if (!object_id_is_equal(f->id, id))
		return "it is not the object that its name says";
	if (f->level > DATA_LEVEL_SINGLE || f->first_log > f->last_log || f->oldest_ms > f->newest_ms ||
	    (f->level == DATA_LEVEL_SINGLE && f->first_log != f->last_log))
		return "its level, logs or times are out of range";
	if (f->top_length > DATA_TOP_MAX || f->top_position > size ||
	    size - f->top_position != (uint64_t)f->top_length + DATA_FOOTER)
		return "its length is not the one in its footer";
	return NULL;
}

const char *data_footer_decode(struct slice bytes, uint64_t size, struct object_id id, struct data_footer *ret_footer)
{
	const uint8_t *p = bytes.p;
	if (bytes.n != DATA_FOOTER || size < DATA_FOOTER)
		return "it is shorter than a footer";
	if (get_le32(p) != FOOTER_MAGIC)
		return "it does not end with the footer of a data object";
	if (get_le32(p + 4) > DATA_FORMAT)
		return "its format is newer than this program";
	if (!footer_crc_is_good(p))
		return "the checksum of its footer is wrong";
	if (get_le32(p + 4) != DATA_FORMAT || get_le32(p + 36) != 0 ||
	    !is_zero(p + FOOTER_RESERVED, FOOTER_CRC_AT - FOOTER_RESERVED))
		return "its format is unknown";
	struct data_footer f = {
		.id = { .node = get_le32(p + 8), .session = get_le64(p + 16), .number = get_le64(p + 24) },
		.origin = get_le32(p + 12),
		.level = get_le32(p + 32),
		.first_log = get_le64(p + 40),
		.last_log = get_le64(p + 48),
		.oldest_ms = (int64_t)get_le64(p + 56),
		.newest_ms = (int64_t)get_le64(p + 64),
		.top_position = get_le64(p + 72),
		.top_length = get_le32(p + 80),
		.top_crc = get_le32(p + 84),
	};
	const char *fault = footer_check(&f, size, id);
	if (fault == NULL)
		*ret_footer = f;
	return fault;
}

/* ------------------------------------------------------------------- blocks */

const char *data_block_check(struct slice bytes, const struct data_index_entry *e)
{
	if (bytes.n != e->length)
		return "a block is not as long as its index says";
	if (crc32c(bytes.p, bytes.n) != e->crc)
		return "the checksum of a block is wrong";
	struct frame_iter it = { .body = bytes };
	struct frame f;
	uint64_t next = e->base;
	while (frame_next(&it, &f) == 1) {
		if (f.log_id != e->log_id || f.base_offset != next || f.record_count == 0)
			return "a block holds other frames than its index says";
		next += f.record_count;
	}
	if (it.fault != NULL)
		return it.fault;
	return next == e->end ? NULL : "a block holds other frames than its index says";
}
