/* SPDX-License-Identifier: Apache-2.0
 *
 * The top of a data object: which logs it has, and where its pages stand.
 *
 *   0 logs u32 | 4 state pages u32 | 8 index pages u32 | 12 zero u32
 *   state pages, then index pages, 32 bytes each: log id u64, end u64, position u64, length u32, crc u32
 *   log ids: the first one, then the difference to the one before; 7 bits a byte, low bits first
 *
 * Pages stand one behind the other and end where the top begins, so none of an object's bytes is without a CRC.
 */
#include "storaged/data/data_format.h"

#include <stdlib.h>

#include "common/crc32c.h"
#include "common/must.h"
#include "common/wire.h"

#define TOP_HEADER 16u
#define TOP_PAGE 32u
#define STATE_BYTES_MIN 17u             /* a page's bytes a log: its slot and an entry */

/* ------------------------------------------------------------------ varints */

static size_t varint_size(uint64_t v)
{
	size_t n = 1;
	for (; v > 127; v >>= 7)
		n++;
	return n;
}

static uint8_t *varint_put(uint8_t *p, uint64_t v)
{
	for (; v > 127; v >>= 7)
		*p++ = (uint8_t)(v | 128);
	*p++ = (uint8_t)v;
	return p;
}

/* NULL: cut off, more than 64 bits, or longer than it had to be. */
static const uint8_t *varint_get(const uint8_t *p, const uint8_t *end, uint64_t *ret_v)
{
	uint64_t v = 0;
	for (unsigned shift = 0; p < end && shift < 64; shift += 7) {
		uint8_t byte = *p++;
		v |= (uint64_t)(byte & 127) << shift;
		if (byte > 127)
			continue;
		if ((byte == 0 && shift > 0) || (shift == 63 && byte > 1))
			return NULL;
		*ret_v = v;
		return p;
	}
	return NULL;
}

/* ----------------------------------------------------------------- encoding */

size_t data_top_size(const struct data_top *t)
{
	size_t n = TOP_HEADER + (t->n_state + t->n_index) * TOP_PAGE;
	uint64_t last = 0;
	for (size_t i = 0; i < t->n_logs; last = t->logs[i++])
		n += varint_size(t->logs[i] - last);
	return n;
}

static uint8_t *pages_put(uint8_t *p, const struct data_page *pages, size_t n)
{
	for (size_t i = 0; i < n; i++, p += TOP_PAGE) {
		put_le64(p, pages[i].log_id);
		put_le64(p + 8, pages[i].end);
		put_le64(p + 16, pages[i].position);
		put_le32(p + 24, pages[i].length);
		put_le32(p + 28, pages[i].crc);
	}
	return p;
}

void data_top_encode(uint8_t *ret_bytes, const struct data_top *t)
{
	uint8_t *p = ret_bytes;
	uint64_t last = 0;
	must(t->n_logs <= UINT32_MAX && t->n_state <= UINT32_MAX && t->n_index <= UINT32_MAX);
	put_le32(p, (uint32_t)t->n_logs);
	put_le32(p + 4, (uint32_t)t->n_state);
	put_le32(p + 8, (uint32_t)t->n_index);
	put_le32(p + 12, 0);
	p = pages_put(p + TOP_HEADER, t->state, t->n_state);
	p = pages_put(p, t->index, t->n_index);
	for (size_t i = 0; i < t->n_logs; last = t->logs[i++]) {
		must(i == 0 || t->logs[i] > last);
		p = varint_put(p, t->logs[i] - last);
	}
}

/* ----------------------------------------------------------------- decoding */

static void pages_get(struct data_page *pages, size_t n, const uint8_t *p)
{
	for (size_t i = 0; i < n; i++, p += TOP_PAGE)
		pages[i] = (struct data_page){
			.log_id = get_le64(p), .end = get_le64(p + 8), .position = get_le64(p + 16),
			.length = get_le32(p + 24), .crc = get_le32(p + 28),
		};
}

static bool state_page_is_good(const struct data_page *p, const struct data_page *before)
{
	return p->end == 0 && p->length > data_state_page_size(1, 0) &&
	       p->length <= data_state_page_size(1, DATA_ENTRY_MAX) && (before == NULL || p->log_id > before->log_id);
}

static bool index_page_is_good(const struct data_page *p, const struct data_page *before)
{
	return p->end > 0 && p->length > 0 && p->length <= DATA_PAGE_MAX && p->length % DATA_INDEX_ENTRY == 0 &&
	       (before == NULL || p->log_id > before->log_id || (p->log_id == before->log_id && p->end > before->end));
}

/* Each page by itself, their order, and that each begins where the one before ends. ret_logs_max: so many logs they
 * can hold. */
static const char *pages_check(const struct data_top *t, const struct data_footer *f, uint64_t *ret_logs_max)
{
	uint64_t at = t->n_state > 0 ? t->state[0].position : t->n_index > 0 ? t->index[0].position : 0;
	if ((at > 0) != (t->n_index > 0))
		return "its top has blocks without pages or pages without blocks";
	for (size_t i = 0; i < t->n_state + t->n_index; i++) {
		bool is_state = i < t->n_state;
		const struct data_page *p = is_state ? &t->state[i] : &t->index[i - t->n_state];
		const struct data_page *before = i == 0 || i == t->n_state ? NULL : p - 1;
		if (!(is_state ? state_page_is_good(p, before) : index_page_is_good(p, before)))
			return "the pages in its top are out of order or of a wrong length";
		if (p->position != at || p->length > f->top_position - at)
			return "the pages in its top do not stand one behind the other";
		at += p->length;
		*ret_logs_max += p->length / (is_state ? STATE_BYTES_MIN : DATA_INDEX_ENTRY);
	}
	return at == f->top_position ? NULL : "the pages in its top do not stand one behind the other";
}

static const char *logs_get(struct data_top *t, const uint8_t *p, const uint8_t *end)
{
	uint64_t id = 0, delta;
	for (size_t i = 0; i < t->n_logs; i++) {
		p = varint_get(p, end, &delta);
		if (p == NULL || (i > 0 && delta == 0) || delta > UINT64_MAX - id)
			return "the log ids in its top are malformed";
		id += delta;
		t->logs[i] = id;
	}
	return p == end ? NULL : "the log ids in its top are malformed";
}

/* Logs, pages and footer say the same. */
static const char *logs_check(const struct data_top *t, const struct data_footer *f)
{
	if (t->n_logs == 0)
		return f->first_log == 0 && f->last_log == 0 && t->n_state + t->n_index == 0 ? NULL :
		       "its top has pages and no logs";
	if (t->logs[0] != f->first_log || t->logs[t->n_logs - 1] != f->last_log)
		return "the log ids in its top are other ones than in its footer";
	for (size_t i = 0; i < t->n_state; i++)
		if (!data_top_has(t, t->state[i].log_id))
			return "a state page is of a log that its top does not have";
	for (size_t i = 0; i < t->n_index; i++)
		if (!data_top_has(t, t->index[i].log_id))
			return "an index page is of a log that its top does not have";
	return NULL;
}

static const char *top_decode(struct data_top *t, struct slice bytes, const struct data_footer *f)
{
	const uint8_t *p = bytes.p + TOP_HEADER;
	uint64_t logs_max = 0;
	t->state = must_calloc(t->n_state + t->n_index + 1, sizeof(*t->state));
	t->index = t->state + t->n_state;
	pages_get(t->state, t->n_state + t->n_index, p);
	const char *fault = pages_check(t, f, &logs_max);
	if (fault != NULL)
		return fault;
	if (t->n_logs > logs_max)
		return "its top has more logs than its pages hold";
	t->logs = must_calloc(t->n_logs + 1, sizeof(*t->logs));
	fault = logs_get(t, p + (t->n_state + t->n_index) * TOP_PAGE, bytes.p + bytes.n);
	return fault != NULL ? fault : logs_check(t, f);
}

const char *data_top_decode(struct slice bytes, const struct data_footer *f, struct data_top **ret_top)
{
	if (bytes.n != f->top_length || bytes.n < TOP_HEADER)
		return "its top is not as long as its footer says";
	if (crc32c(bytes.p, bytes.n) != f->top_crc)
		return "the checksum of its top is wrong";
	uint64_t n_logs = get_le32(bytes.p), n_state = get_le32(bytes.p + 4), n_index = get_le32(bytes.p + 8);
	if (get_le32(bytes.p + 12) != 0 || (n_state + n_index) * TOP_PAGE + n_logs > bytes.n - TOP_HEADER)
		return "its top counts more than it holds";
	struct data_top *t = must_calloc(1, sizeof(*t));
	t->n_logs = (size_t)n_logs;
	t->n_state = (size_t)n_state;
	t->n_index = (size_t)n_index;
	const char *fault = top_decode(t, bytes, f);
	if (fault == NULL)
		*ret_top = t;
	else
		data_top_free(t);
	return fault;
}

void data_top_free(struct data_top *t)
{
	if (t == NULL)
		return;
	free(t->logs);
	free(t->state); /* the index pages, too */
	free(t);
}

size_t data_top_memory(const struct data_top *t)
{
	return sizeof(*t) + (t->n_logs + 1) * sizeof(*t->logs) + (t->n_state + t->n_index + 1) * sizeof(*t->state);
}

/* ------------------------------------------------------------------ looking */

bool data_top_next_log(const struct data_top *t, uint64_t log_id, uint64_t *ret_log_id)
{
	size_t low = 0, high = t->n_logs;
	while (low < high) {
		size_t middle = low + (high - low) / 2;
		if (t->logs[middle] < log_id)
			low = middle + 1;
		else
			high = middle;
	}
	if (low < t->n_logs)
		*ret_log_id = t->logs[low];
	return low < t->n_logs;
}

bool data_top_has(const struct data_top *t, uint64_t log_id)
{
	uint64_t found;
	return data_top_next_log(t, log_id, &found) && found == log_id;
}

/* The first page whose last key is (log_id, end) or behind it. */
static const struct data_page *page_find(const struct data_page *pages, size_t n, uint64_t log_id, uint64_t end)
{
	size_t low = 0, high = n;
	while (low < high) {
		size_t middle = low + (high - low) / 2;
		const struct data_page *p = &pages[middle];
		if (p->log_id < log_id || (p->log_id == log_id && p->end < end))
			low = middle + 1;
		else
			high = middle;
	}
	return low < n ? &pages[low] : NULL;
}

const struct data_page *data_top_index_page(const struct data_top *t, uint64_t log_id, uint64_t offset)
{
	if (offset == UINT64_MAX || !data_top_has(t, log_id))
		return NULL;
	return page_find(t->index, t->n_index, log_id, offset + 1);
}

const struct data_page *data_top_state_page(const struct data_top *t, uint64_t log_id)
{
	return data_top_has(t, log_id) ? page_find(t->state, t->n_state, log_id, 0) : NULL;
}
