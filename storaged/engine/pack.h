/* SPDX-License-Identifier: Apache-2.0
 *
 * The packer: takes whole WAL objects out of the arena, sorts their frames by (log, offset) into data objects with
 * a state entry for each log, stores those, and proposes one commit. When that is applied the WAL objects are
 * deleted and their bytes in the arena may go.
 *
 * It packs in the order of sessions: nothing of one before every older one is RECOVERED. One pack at a time.
 *
 * Invariant: what a pack holds follows from its WAL objects and the entries before alone (but for the cards), so the state at
 * the watermark and the frames above it are always the whole of a log.
 */
#ifndef STORAGED_ENGINE_PACK_H
#define STORAGED_ENGINE_PACK_H

#include "storaged/engine/engine_impl.h"

struct packer *packer_new(struct engine *e);
void packer_free(struct packer *p);

/* Begins a pack where there is a reason for one: bytes, objects, age, appends or recovery that wait for room, an ended
 * session that is read back. Cheap; called whenever one of these may have come. */
void packer_consider(struct packer *p);

/* No pack is under way. */
bool packer_is_idle(const struct packer *p);
/* NULL, or what keeps a data object from being stored. */
const char *packer_fault(const struct packer *p);

/* pack_build.c: frames and state entries of the logs of a pack become objects. */

/* One log's part in a pack. */
struct pack_frame {
	const uint8_t *at;              /* in the arena */
	uint32_t size;                  /* with header, meta and paddings */
};
struct pack_log {
	struct log *log;                /* one ref */
	uint64_t size;                  /* of frames */
	uint64_t living;                /* nobody is shown what lies below; when its building begins */
	struct pack_frame *frames;
	uint32_t n_frames, capacity;
};

/* An object to be; the packer finishes it when its turn to be stored comes. */
struct pack_output {
	struct data_builder *builder;
	struct object_row row;
};
struct pack_outputs {
	struct pack_output *output;
	size_t n;
};
struct pack_build {
	uint32_t node;
	uint64_t session;
	const struct engine_events *events;     /* the engine's; whose logs they are */
	void *arg;
	uint64_t *number;               /* of the next object: the engine's, since merges make objects meanwhile */
	struct pack_outputs outputs;
	struct data_builder *run;       /* of level 0, being filled */
	/* the log at hand */
	bool in_log;
	uint32_t at;                    /* next frame */
	uint64_t base;                  /* its end when the pack began: producers that wrote from there on are news */
	struct data_builder *own;       /* NULL: its frames go into the run */
};

/* Moves the packed state of a log by its frames, at most n_max of them, and puts them into objects; its entry behind the
 * last one. Logs come with ids ascending, and are loaded. Returns how many; ret_whole: it is through. */
uint32_t pack_build_log(struct pack_build *b, const struct pack_log *l, uint32_t n_max, bool *ret_whole);
/* Closes what is open. */
void pack_build_end(struct pack_build *b);
void pack_build_done(struct pack_build *b);

#endif
