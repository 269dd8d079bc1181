/* SPDX-License-Identifier: Apache-2.0
 *
 * The bytes of an export (doc/disk-format.md, "Metadata export"): every entity of the state as it stood at one row,
 * in one object. All integers little-endian.
 *
 *   header of 64 bytes | entity, entity, ...        entity: key length, payload length, idx, key, payload
 *
 * Nothing here trusts a byte: functions say what is wrong in one short sentence.
 */
#ifndef STORAGED_META_EXPORT_FORMAT_H
#define STORAGED_META_EXPORT_FORMAT_H

#include "storaged/meta/sql_log.h"

#define EXPORT_HEADER 64u
#define EXPORT_FORMAT 1u
#define EXPORT_ENTITY 16u       /* bytes before an entity's key */
#define EXPORT_KEY_MAX 32u      /* bytes of an object's key, its end byte included */

struct export_header {
	uint8_t uuid[16];               /* of the cluster */
	uint64_t idx;                   /* row of the command log that it stands at */
	uint64_t n_entities;
	uint64_t body_len;
	uint32_t body_crc;
};

/* "meta/<idx>", idx 16 hex digits. */
void export_key(char ret_key[EXPORT_KEY_MAX], uint64_t idx);
/* false: not such a key. */
bool export_key_parse(const char *key, uint64_t *ret_idx);

void export_header_encode(uint8_t ret_bytes[EXPORT_HEADER], const struct export_header *h);
static inline size_t export_entity_size(const struct sql_entity *e)
{
	return EXPORT_ENTITY + e->key.n + e->payload.n;
}
/* At p stand export_entity_size() bytes. */
void export_entity_encode(uint8_t *p, const struct sql_entity *e);

/*
 * A whole object whose key says idx. NULL and its entities, each key once, in order of key: *ret_entities is heap, what
 * they name lies in the object. Else what is wrong. What the entities say is not looked at: state_load() does.
 */
const char *export_decode(struct slice object, uint64_t idx, struct export_header *ret_header,
			  struct sql_entity **ret_entities, size_t *ret_n);

#endif
