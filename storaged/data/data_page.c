/* SPDX-License-Identifier: Apache-2.0
 *
 * Pages of data objects.
 *
 *   index page   entries of 64 bytes, one a block: log id u64, base u64, end u64, last append i64, max timestamp i64,
 *                bytes before u64, position u64, length u32, crc u32
 *   state page   count u32, zero u32 | slots of 16 bytes: log id u64, position u32, length u32 | entries
 *
 * Both are searched where they stand. Positions in a state page count from its begin.
 */
#include "storaged/data/data_format.h"

#include "common/crc32c.h"
#include "common/must.h"
#include "common/wire.h"

#define SLOTS_AT 8u
#define SLOT 16u
#define OFFSET_END_MAX ((uint64_t)INT64_MAX + 1)

static const char *page_check(struct slice bytes, const struct data_page *p)
{
	if (bytes.n != p->length)
		return "a page is not as long as its top says";
	return crc32c(bytes.p, bytes.n) == p->crc ? NULL : "the checksum of a page is wrong";
}

/* -------------------------------------------------------------- index pages */

void data_index_entry_encode(uint8_t ret_bytes[DATA_INDEX_ENTRY], const struct data_index_entry *e)
{
	uint8_t *p = ret_bytes;
	put_le64(p, e->log_id);
	put_le64(p + 8, e->base);
	put_le64(p + 16, e->end);
	put_le64(p + 24, (uint64_t)e->last_append_ms);
	put_le64(p + 32, (uint64_t)e->max_timestamp);
	put_le64(p + 40, e->bytes_before);
	put_le64(p + 48, e->position);
	put_le32(p + 56, e->length);
	put_le32(p + 60, e->crc);
}

size_t data_index_page_count(struct slice page)
{
	return page.n / DATA_INDEX_ENTRY;
}

void data_index_page_get(struct slice page, size_t i, struct data_index_entry *ret_entry)
{
	must(i < data_index_page_count(page));
	const uint8_t *p = page.p + i * DATA_INDEX_ENTRY;
	*ret_entry = (struct data_index_entry){
		.log_id = get_le64(p), .base = get_le64(p + 8), .end = get_le64(p + 16),
		.last_append_ms = (int64_t)get_le64(p + 24), .max_timestamp = (int64_t)get_le64(p + 32),
		.bytes_before = get_le64(p + 40), .position = get_le64(p + 48),
		.length = get_le32(p + 56), .crc = get_le32(p + 60),
	};
}

static bool entry_is_good(const struct data_index_entry *e, uint64_t page_position)
{
	return e->end > e->base && e->end <= OFFSET_END_MAX && e->length > 0 && e->position <= page_position &&
	       e->length <= page_position - e->position;
}

static bool entry_follows(const struct data_index_entry *e, const struct data_index_entry *before)
{
	return e->position == before->position + before->length &&
	       (e->log_id > before->log_id || (e->log_id == before->log_id && e->base >= before->end));
}

const char *data_index_page_check(struct slice bytes, const struct data_page *p)
{
	const char *fault = page_check(bytes, p);
	struct data_index_entry e = { 0 }, before;
	if (fault != NULL)
		return fault;
	if (bytes.n == 0 || bytes.n % DATA_INDEX_ENTRY != 0)
		return "an index page has a wrong length";
	for (size_t i = 0; i < data_index_page_count(bytes); i++) {
		before = e;
		data_index_page_get(bytes, i, &e);
		if (!entry_is_good(&e, p->position))
			return "an index entry is out of range";
		if (i > 0 && !entry_follows(&e, &before))
			return "the entries of an index page are out of order";
	}
	return e.log_id == p->log_id && e.end == p->end ? NULL : "an index page ends with another entry than its top says";
}

bool data_index_page_find(struct slice page, uint64_t log_id, uint64_t offset, struct data_index_entry *ret_entry)
{
	size_t low = 0, high = data_index_page_count(page), n = high;
	while (low < high) {
		size_t middle = low + (high - low) / 2;
		const uint8_t *p = page.p + middle * DATA_INDEX_ENTRY;
		uint64_t log = get_le64(p);
		if (log < log_id || (log == log_id && get_le64(p + 16) <= offset))
			low = middle + 1;
		else
			high = middle;
	}
	if (low == n || get_le64(page.p + low * DATA_INDEX_ENTRY) != log_id)
		return false;
	data_index_page_get(page, low, ret_entry);
	return true;
}

/* -------------------------------------------------------------- state pages */

void data_state_page_begin(uint8_t *ret_page, const struct data_state_slot *slots, uint32_t n)
{
	put_le32(ret_page, n);
	put_le32(ret_page + 4, 0);
	uint8_t *p = ret_page + SLOTS_AT;
	uint32_t entries_at = SLOTS_AT + SLOT * n;
	for (uint32_t i = 0; i < n; i++, p += SLOT) {
		put_le64(p, slots[i].log_id);
		put_le32(p + 8, entries_at + slots[i].position);
		put_le32(p + 12, slots[i].length);
	}
}

static uint32_t slot_count(struct slice page)
{
	return get_le32(page.p);
}

static uint64_t slot_log(struct slice page, size_t i)
{
	return get_le64(page.p + SLOTS_AT + i * SLOT);
}

static struct slice slot_entry(struct slice page, size_t i)
{
	const uint8_t *p = page.p + SLOTS_AT + i * SLOT;
	return slice_of(page.p + get_le32(p + 8), get_le32(p + 12));
}

static const char *slots_check(struct slice page)
{
	uint64_t n = slot_count(page), at = SLOTS_AT + n * SLOT;
	for (uint64_t i = 0; i < n; i++) {
		const uint8_t *p = page.p + SLOTS_AT + i * SLOT;
		uint32_t length = get_le32(p + 12);
		if (i > 0 && slot_log(page, i) <= slot_log(page, i - 1))
			return "the entries of a state page are out of order";
		if (get_le32(p + 8) != at || length == 0 || length > page.n - at)
			return "the entries of a state page do not stand one behind the other";
		at += length;
	}
	return at == page.n ? NULL : "the entries of a state page do not stand one behind the other";
}

const char *data_state_page_check(struct slice bytes, const struct data_page *p)
{
	const char *fault = page_check(bytes, p);
	if (fault != NULL)
		return fault;
	if (bytes.n < SLOTS_AT || slot_count(bytes) == 0 || slot_count(bytes) > (bytes.n - SLOTS_AT) / SLOT ||
	    get_le32(bytes.p + 4) != 0 || (bytes.n > DATA_PAGE_MAX && slot_count(bytes) != 1))
		return "a state page has a wrong count of entries";
	fault = slots_check(bytes);
	if (fault != NULL)
		return fault;
	return slot_log(bytes, slot_count(bytes) - 1) == p->log_id ? NULL :
	       "a state page ends with another entry than its top says";
}

bool data_state_page_next(struct slice page, size_t *position, uint64_t *ret_log_id, struct slice *ret_entry)
{
	if (*position == slot_count(page))
		return false;
	*ret_log_id = slot_log(page, *position);
	*ret_entry = slot_entry(page, *position);
	(*position)++;
	return true;
}

bool data_state_page_find(struct slice page, uint64_t log_id, struct slice *ret_entry)
{
	size_t low = 0, high = slot_count(page), n = high;
	while (low < high) {
		size_t middle = low + (high - low) / 2;
		if (slot_log(page, middle) < log_id)
			low = middle + 1;
		else
			high = middle;
	}
	if (low == n || slot_log(page, low) != log_id)
		return false;
	*ret_entry = slot_entry(page, low);
	return true;
}
