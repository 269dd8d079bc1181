/* SPDX-License-Identifier: Apache-2.0
 *
 * The arena: segments of shared memory filled in arrival order, all logs of the node mixed. It is WAL
 * buffer, tail cache and fetch source in one: a WAL upload is a run of it as it stands, a read hands out
 * references to the same bytes.
 *
 * An extent is a run of one WAL object's body inside one segment. Extents are kept in the order of (session, seq,
 * body position) from the oldest byte that is still here; a frame never spans two. Sessions are numbered as in the
 * engine: those read back first, the running one last.
 *
 * A segment leaves when room is needed, the oldest first: it is not being filled, every object in it is
 * finished (`busy`) and packed (`unpacked`), and no reader pins it. So what is not in a data object is always here.
 * Its memory becomes the next segment's, under a new id: fresh memory costs a fault a page, which is more than
 * everything else that is done to a byte.
 */
#ifndef STORAGED_ENGINE_ARENA_H
#define STORAGED_ENGINE_ARENA_H

#include <sys/uio.h>

#include "common/slice.h"
#include "storaged/segment.h"

struct arena_segment;

struct extent {
	struct arena_segment *segment;  /* NULL: its segment left */
	uint64_t seq;
	uint32_t session;
	uint32_t body_position;
	uint32_t offset, length;        /* in the segment */
};

struct arena_config {
	uint64_t bytes_max;             /* of segments in all */
	uint64_t unstored_max;          /* bytes of frames that are not stored */
	uint64_t unpacked_max;          /* bytes of frames that are in no data object; at least unstored_max */
	uint32_t segment_size;
	uint32_t first_segment_id;
	/* Room may have come: a pin or a put went. Called from anywhere, only defer. */
	void (*on_room)(void *arg);
	void (*on_reclaim)(void *arg, struct segment *segment);
	void (*on_segment_gone)(void *arg, struct segment *segment);
	/* These frames leave memory; oldest first within a log. */
	void (*on_frames_gone)(void *arg, struct slice frames);
	void *arg;
};

struct arena {
	struct env *env;
	struct arena_config config;
	struct arena_segment *oldest, *newest;  /* by age; newest is being filled */
	struct arena_segment *spare;    /* for a frame that did not fit; not filled yet */
	struct arena_segment *reserved; /* where the last arena_reserve() pointed: newest or spare */
	struct env_segment leftover;    /* inside arena_spare_for(): memory of one that left; base NULL: none */
	uint64_t bytes;                 /* of segments */
	uint64_t unstored, unpacked;
	uint32_t next_segment_id;
	struct extent *extents;         /* ring */
	uint64_t extent_first, extent_end;      /* absolute indices */
	uint64_t extent_capacity;       /* power of two */
	uint64_t extent_packed;         /* those below are in data objects */
};

/* Where bytes belong. */
struct arena_place {
	uint32_t session;
	uint64_t seq;
	uint32_t body_position;
};

void arena_init(struct arena *a, struct env *env, const struct arena_config *config);
void arena_done(struct arena *a);

/*
 * Room for `size` bytes of one frame at the fill pointer, NULL when a bound is met (segments that only
 * readers pin are then asked back). Nothing moves until arena_commit(): a refused batch needs no call.
 */
uint8_t *arena_reserve(struct arena *a, uint32_t size);
/* The bytes reserved become part of an object. stored: it was read back, no put will read them. */
void arena_commit(struct arena *a, uint32_t size, struct arena_place at, bool stored);
/* Whether arena_reserve() would find the bounds met whatever was packed before it: nothing is unpacked, or it fits. */
bool arena_fits(const struct arena *a, uint64_t size);

/* The extents of an object are [first, end); see extent_end. Valid until the next commit. */
struct extent *arena_extent(struct arena *a, uint64_t index);
struct iovec arena_iovec(const struct extent *x);
/* The object is stored: its bytes count no more as unstored. */
void arena_stored(struct arena *a, uint64_t bytes);
/* No PUT reads these extents any more. */
void arena_finish(struct arena *a, uint64_t extent_first, uint64_t extent_end);

/* The objects of that session below seq_end, and all of older sessions, are in data objects: they may go. */
void arena_packed(struct arena *a, uint32_t session, uint64_t seq_end);
/* The bytes of an extent, whole frames. */
struct slice arena_bytes(const struct extent *x);

/* The bytes [position, position + length) of the body of an object, as a piece without a pin taken. false: gone. */
bool arena_find(struct arena *a, struct arena_place at, uint32_t length, struct piece *ret_piece);

#endif
