/* SPDX-License-Identifier: Apache-2.0
 *
 * The bytes of a data object (doc/disk-format.md). All integers little-endian.
 *
 *   blocks       whole frames (wal_format.h) of one log in offset order, closed at 1 MiB or at the log's end
 *   state pages  64 KiB: state entries by log id                 index pages  64 KiB: one entry a block by (log id, base)
 *   top          the log ids present, exactly; last key, position, length and crc of every state and index page
 *   footer       128 bytes: what object it is, where the top stands
 *
 * Each part carries or is given the CRC-32C of the next: footer -> top -> page -> block, so a reader that begins at
 * the end needs no other source of truth. Nothing here trusts a byte: functions return NULL or what is wrong in one
 * short sentence.
 */
#ifndef STORAGED_DATA_DATA_FORMAT_H
#define STORAGED_DATA_DATA_FORMAT_H

#include "common/slice.h"
#include "storaged/data/catalogue.h"

#define DATA_FORMAT 1u
#define DATA_FOOTER 128u
#define DATA_BLOCK_MAX (1u << 20)       /* a block ends with the frame that reaches it */
#define DATA_PAGE_MAX (64u << 10)       /* a larger entry has a page of its own */
#define DATA_KEY_MAX 64u
#define DATA_INDEX_ENTRY 64u
#define DATA_ENTRY_MAX (16u << 20)      /* a state entry: more than all bounds of storaged/engine together need */
#define DATA_TOP_MAX (64u << 20)

/* "data/<node>/<session>/<number>": node decimal, the others 16 hex digits. */
void data_key(char ret_key[DATA_KEY_MAX], struct object_id id);
/* false: not such a key. */
bool data_key_parse(const char *key, struct object_id *ret_id);

struct data_footer {
	struct object_id id;
	uint32_t origin, level;
	uint64_t first_log, last_log;   /* of state and index entries together */
	int64_t oldest_ms, newest_ms;   /* append times; both 0 without frames */
	uint64_t top_position;
	uint32_t top_length, top_crc;
};

void data_footer_encode(uint8_t ret_bytes[DATA_FOOTER], const struct data_footer *f);
/* bytes: the object's last 128; size: of the whole object; id: the one its key says. */
const char *data_footer_decode(struct slice bytes, uint64_t size, struct object_id id, struct data_footer *ret_footer);

/* One block. */
struct data_index_entry {
	uint64_t log_id;
	uint64_t base, end;             /* offsets [base, end); end > base */
	int64_t last_append_ms;         /* of its last frame */
	int64_t max_timestamp;          /* of its records */
	uint64_t bytes_before;          /* of the log's batches before this block, trimmed ones too */
	uint64_t position;              /* in the object */
	uint32_t length, crc;
};

/* ---------------------------------------------------------------------- top */

/* The last key and not the first one: the first page whose last key is behind what is looked for holds it, or the
 * object does not. One page a lookup, also between blocks. */
struct data_page {
	uint64_t log_id, end;           /* of its last entry; end 0 in state pages */
	uint64_t position;
	uint32_t length, crc;
};

struct data_top {                       /* owned; heap */
	uint64_t *logs;                 /* ids, ascending: those with a state entry or a block */
	size_t n_logs;
	struct data_page *state, *index;        /* ascending */
	size_t n_state, n_index;
};
/* Length and crc against f, then everything. It has no more logs than entries fit into its pages, so what it decodes
 * to is smaller than the object. */
const char *data_top_decode(struct slice bytes, const struct data_footer *f, struct data_top **ret_top);
size_t data_top_size(const struct data_top *t);         /* encoded */
void data_top_encode(uint8_t *ret_bytes, const struct data_top *t);
void data_top_free(struct data_top *t);
size_t data_top_memory(const struct data_top *t);       /* bytes, for the index cache's bound */
bool data_top_has(const struct data_top *t, uint64_t log_id);
/* The first log from log_id on; false: none. */
bool data_top_next_log(const struct data_top *t, uint64_t log_id, uint64_t *ret_log_id);
/* The page with what data_index_page_find() / data_state_page_find() would find in this object; NULL: nothing. */
const struct data_page *data_top_index_page(const struct data_top *t, uint64_t log_id, uint64_t offset);
const struct data_page *data_top_state_page(const struct data_top *t, uint64_t log_id);

/* -------------------------------------------------------------------- pages */

/* Length and crc against p, then every entry: order, blocks one behind the other and before the page. */
const char *data_index_page_check(struct slice bytes, const struct data_page *p);
void data_index_entry_encode(uint8_t ret_bytes[DATA_INDEX_ENTRY], const struct data_index_entry *e);
size_t data_index_page_count(struct slice page);
void data_index_page_get(struct slice page, size_t i, struct data_index_entry *ret_entry);
/* The entry of the log that holds offset; the first one behind it when it lies in no block; false: none. */
bool data_index_page_find(struct slice page, uint64_t log_id, uint64_t offset, struct data_index_entry *ret_entry);

/* An entry for a page in the making: position counts from the end of the page's table. */
struct data_state_slot {
	uint64_t log_id;
	uint32_t position, length;
};
/* Bytes of a page of n entries that take n_bytes; writes its table, behind which the entries are put. */
static inline uint64_t data_state_page_size(uint64_t n, uint64_t n_bytes) { return 8 + 16 * n + n_bytes; }
void data_state_page_begin(uint8_t *ret_page, const struct data_state_slot *slots, uint32_t n);

const char *data_state_page_check(struct slice bytes, const struct data_page *p);
/* Entries in order: position begins at 0; false at the end. entry: an encoded frame.State of that log, in the page. */
bool data_state_page_next(struct slice page, size_t *position, uint64_t *ret_log_id, struct slice *ret_entry);
bool data_state_page_find(struct slice page, uint64_t log_id, struct slice *ret_entry);

/* Length, crc; then every frame: of that log, with records, dense from base to end. */
const char *data_block_check(struct slice bytes, const struct data_index_entry *e);

#endif
