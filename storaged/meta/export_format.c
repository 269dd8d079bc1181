/* SPDX-License-Identifier: Apache-2.0
 *
 * See the header.
 */
#include "storaged/meta/export_format.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/crc32c.h"
#include "common/must.h"
#include "common/wire.h"

#define MAGIC 0x54454d50u       /* "PMET" */
#define PREFIX "meta/"

void export_key(char ret_key[EXPORT_KEY_MAX], uint64_t idx)
{
	snprintf(ret_key, EXPORT_KEY_MAX, PREFIX "%016" PRIx64, idx);
}

bool export_key_parse(const char *key, uint64_t *ret_idx)
{
	char again[EXPORT_KEY_MAX];
	uint64_t idx;
	if (sscanf(key, PREFIX "%16" SCNx64, &idx) != 1)
		return false;
	export_key(again, idx);
	if (strcmp(again, key) != 0)
		return false;
	*ret_idx = idx;
	return true;
}

/* ---------------------------------------------------------------------- write */

void export_header_encode(uint8_t p[EXPORT_HEADER], const struct export_header *h)
{
	memset(p, 0, EXPORT_HEADER);
	put_le32(p, MAGIC);
	put_le32(p + 4, EXPORT_FORMAT);
	memcpy(p + 8, h->uuid, 16);
	put_le64(p + 24, h->idx);
	put_le64(p + 32, h->n_entities);
	put_le64(p + 40, h->body_len);
	put_le32(p + 48, h->body_crc);
	put_le32(p + 60, crc32c(p, EXPORT_HEADER));
}

void export_entity_encode(uint8_t *p, const struct sql_entity *e)
{
	put_le32(p, (uint32_t)e->key.n);
	put_le32(p + 4, (uint32_t)e->payload.n);
	put_le64(p + 8, e->idx);
	memcpy(p + EXPORT_ENTITY, e->key.p, e->key.n);
	if (e->payload.n > 0)
		memcpy(p + EXPORT_ENTITY + e->key.n, e->payload.p, e->payload.n);
}

/* ----------------------------------------------------------------------- read */

static const char *header_decode(struct slice object, uint64_t idx, struct export_header *h)
{
	uint8_t copy[EXPORT_HEADER];
	if (object.n < EXPORT_HEADER)
		return "it is shorter than its header";
	memcpy(copy, object.p, EXPORT_HEADER);
	put_le32(copy + 60, 0);
	if (get_le32(copy) != MAGIC)
		return "it is no metadata export";
	if (get_le32(copy + 4) > EXPORT_FORMAT)
		return "its format is newer than this release";
	if (crc32c(copy, EXPORT_HEADER) != get_le32(object.p + 60))
		return "the checksum of its header is wrong";
	memcpy(h->uuid, copy + 8, 16);
	h->idx = get_le64(copy + 24);
	h->n_entities = get_le64(copy + 32);
	h->body_len = get_le64(copy + 40);
	h->body_crc = get_le32(copy + 48);
	if (get_le32(copy + 4) != EXPORT_FORMAT || get_le64(copy + 52) != 0)
		return "its header has values that cannot be";
	if (h->idx != idx)
		return "it is that of another row than its key says";
	if (h->body_len != object.n - EXPORT_HEADER)
		return "its length is not the one of its header";
	return NULL;
}

static bool entity_next(struct wire_reader *r, struct sql_entity *e)
{
	uint32_t key = wire_le32(r), payload = wire_le32(r);
	e->idx = wire_le64(r);
	e->key = wire_take(r, key);
	e->payload = wire_take(r, payload);
	return !r->failed && key > 0;
}

static int compare(const void *a, const void *b)
{
	const struct sql_entity *x = a, *y = b;
	return slice_cmp(x->key, y->key);
}

/* A key may stand twice: its entity was encoded again in the row of its last change, to the same bytes. */
static const char *keys_unite(struct sql_entity *e, size_t *n)
{
	size_t kept = 0;
	if (*n > 1)
		qsort(e, *n, sizeof(*e), compare);
	for (size_t i = 0; i < *n; i++) {
		if (kept == 0 || !slice_eq(e[kept - 1].key, e[i].key))
			e[kept++] = e[i];
		else if (e[kept - 1].idx != e[i].idx || !slice_eq(e[kept - 1].payload, e[i].payload))
			return "it has an entity twice, with different content";
	}
	*n = kept;
	return NULL;
}

static const char *entities_decode(struct slice body, uint64_t n, struct sql_entity *e)
{
	struct wire_reader r = wire_reader(body);
	for (uint64_t i = 0; i < n; i++)
		if (!entity_next(&r, &e[i]))
			return "an entity of it is cut off";
	return wire_left(&r) > 0 ? "something stands behind its last entity" : NULL;
}

const char *export_decode(struct slice object, uint64_t idx, struct export_header *h, struct sql_entity **ret_entities,
			  size_t *ret_n)
{
	const char *fault = header_decode(object, idx, h);
	if (fault != NULL)
		return fault;
	struct slice body = slice_of(object.p + EXPORT_HEADER, object.n - EXPORT_HEADER);
	if (crc32c(body.p, body.n) != h->body_crc)
		return "the checksum of its body is wrong";
	if (h->n_entities > body.n / EXPORT_ENTITY)
		return "it has fewer entities than it says";
	struct sql_entity *e = must_calloc((size_t)h->n_entities + 1, sizeof(*e));
	size_t n = (size_t)h->n_entities;
	fault = entities_decode(body, n, e);
	if (fault == NULL)
		fault = keys_unite(e, &n);
	if (fault != NULL) {
		free(e);
		return fault;
	}
	*ret_entities = e;
	*ret_n = n;
	return NULL;
}
