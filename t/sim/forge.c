/* SPDX-License-Identifier: Apache-2.0
 *
 * WAL objects whose checksums are right and whose frames are not what their writer put. A frame of another epoch is what
 * a log leaves behind that went to another node and came back: nobody takes it. A frame that contradicts the ones before
 * it is damage: whoever reads it back leaves, and takes the object when it is right again.
 */
#include "t/sim/run.h"

#include <stdlib.h>
#include <string.h>

#include "common/crc32c.h"
#include "common/must.h"
#include "common/wire.h"
#include "storaged/engine/wal_format.h"

#define BATCH_EPOCH_AT 12u              /* partition leader epoch, outside the batch's checksum */

/* A frame of a body, and where it stands. */
struct place {
	struct frame f;
	size_t begin, end;
	bool again;                     /* the log has a frame before it */
};

static bool has_before(struct slice body, size_t begin, uint64_t log_id)
{
	struct frame_iter it = { .body = body };
	struct frame f;
	while (it.position < begin && frame_next(&it, &f) == 1)
		if (it.position <= begin && f.log_id == log_id)
			return true;
	return false;
}

/* Any frame with records. False: there is none, or the object is no data. */
static bool place_choose(struct sim *s, struct slice object, struct place *ret)
{
	struct wal_header h;
	unsigned n = 0;
	if (object.n < WAL_HEADER || wal_header_decode(object, &h) != NULL || h.kind != WAL_DATA)
		return false;
	struct frame_iter it = { .body = slice_of(object.p + WAL_HEADER, object.n - WAL_HEADER) };
	struct place x = { 0 };
	while (x.begin = it.position, frame_next(&it, &x.f) == 1) {
		x.end = it.position;
		if (x.f.payload.n > 0 && sim_below(s, ++n) == 0)
			*ret = x;
	}
	if (n > 0)
		ret->again = has_before(it.body, ret->begin, ret->f.log_id);
	return n > 0;
}

/* The header of f anew, and what its batch says of it. */
static void frame_write(uint8_t *at, const struct frame *f)
{
	uint8_t *batch = at + FRAME_HEADER + frame_pad(f->meta.n);
	put_be64(batch, f->base_offset);
	put_be32(batch + BATCH_EPOCH_AT, f->epoch);
	frame_encode(at, f);
}

static void object_seal(uint8_t *object, size_t n)
{
	struct wal_header h;
	must(wal_header_decode(slice_of(object, n), &h) == NULL);
	h.body_len = n - WAL_HEADER;
	h.body_crc = crc32c(object + WAL_HEADER, n - WAL_HEADER);
	wal_header_encode(object, &h);
}

void forge_epoch(struct run *r, struct sim_bucket *b, const char *key)
{
	const struct sim_object *o = sim_bucket_find(b, key);
	struct place x;
	if (o == NULL || !place_choose(&r->sim, slice_of(o->data, o->size), &x))
		return;
	size_t size = x.end - x.begin, behind = WAL_HEADER + x.end, n = o->size + size;
	uint8_t *object = must_calloc(1, n);
	memcpy(object, o->data, behind);
	memcpy(object + behind, o->data + WAL_HEADER + x.begin, size);
	memcpy(object + behind + size, o->data + behind, o->size - behind);
	x.f.base_offset += x.f.record_count;
	x.f.epoch++;
	x.f.meta.p = object + behind + FRAME_HEADER;
	frame_write(object + behind, &x.f);
	object_seal(object, n);
	sim_bucket_add(b, key, slice_of(object, n));
	r->sim.faults[SIM_OTHER_EPOCH]++;
	free(object);
}

uint8_t *forge_damage(struct sim *s, const struct sim_object *o)
{
	struct place x;
	if (!place_choose(s, slice_of(o->data, o->size), &x))
		return NULL;
	uint8_t *object = must_memdup(o->data, o->size), *at = object + WAL_HEADER + x.begin;
	x.f.meta.p = at + FRAME_HEADER;
	switch (sim_below(s, 4)) {
	case 0:
		x.f.base_offset++;
		break;
	case 1:
		if (x.again)
			x.f.append_time = 1;
		else
			x.f.base_offset += 1000;
		break;
	case 2:
		at[0] ^= 1;             /* it is no frame */
		object_seal(object, o->size);
		return object;
	default:
		if (x.f.meta.n > 0)
			memset(at + FRAME_HEADER, 0xff, x.f.meta.n);
		else
			x.f.base_offset++;
	}
	frame_write(at, &x.f);
	object_seal(object, o->size);
	return object;
}
