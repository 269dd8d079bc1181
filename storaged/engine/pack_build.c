/* SPDX-License-Identifier: Apache-2.0
 *
 * From the frames of a pack to its objects: one run of level 0, in several objects if it is long, and for each log
 * with much in it objects of its own. The state entries all stand in the run.
 */
#include <stdlib.h>

#include "storaged/data/data_builder.h"
#include "storaged/engine/log_state.h"
#include "storaged/engine/pack.h"

#define SINGLE_MIN (4u << 20)           /* a log with that much in a pack has objects of its own */
#define SINGLE_MAX (256u << 20)
#define RUN_OBJECT_MAX (128u << 20)

static void output_close(struct pack_build *b, struct data_builder *builder)
{
	struct pack_outputs *o = &b->outputs;
	o->output = must_realloc(o->output, (o->n + 1) * sizeof(*o->output));
	struct pack_output *x = &o->output[o->n++];
	x->builder = builder;
	data_builder_finish(builder, &x->row);
}

static struct data_builder *builder_new(struct pack_build *b, uint32_t level)
{
	struct data_builder *builder = data_builder_new(b->id, b->origin, level);
	b->id.number++;
	return builder;
}

static struct data_builder *run_builder(struct pack_build *b)
{
	if (b->run != NULL && data_builder_size(b->run) >= RUN_OBJECT_MAX) {
		output_close(b, b->run);
		b->run = NULL;
	}
	if (b->run == NULL)
		b->run = builder_new(b, 0);
	return b->run;
}

/* Frames wholly below the log's start are left out. Returns the batch's bytes. */
static uint32_t frame_add(struct data_builder *to, const struct log *log, const struct pack_frame *p, uint64_t bytes_before)
{
	struct frame_iter it = { .body = slice_of(p->at, p->size) };
	struct frame f;
	must(frame_next(&it, &f) == 1);
	uint64_t end = f.base_offset + f.record_count;
	if (f.record_count > 0 && end > log->start) {
		struct data_frame x = {
			.log_id = f.log_id, .base = f.base_offset, .end = end, .append_ms = f.append_time,
			.max_timestamp = f.max_timestamp, .bytes = it.body, .batch_bytes = (uint32_t)f.payload.n,
		};
		data_builder_frame(to, &x, bytes_before);
	}
	return (uint32_t)f.payload.n;
}

static void frames_add(struct pack_build *b, const struct pack_log *l)
{
	bool single = l->size >= SINGLE_MIN;
	struct data_builder *to = single ? builder_new(b, DATA_LEVEL_SINGLE) : b->run;
	uint64_t bytes = l->bytes_before;
	for (uint32_t i = 0; i < l->n_frames; i++) {
		if (single && data_builder_size(to) >= SINGLE_MAX) {
			output_close(b, to);
			to = builder_new(b, DATA_LEVEL_SINGLE);
		}
		bytes += frame_add(to, l->log, &l->frames[i], bytes);
	}
	if (single && data_builder_is_empty(to))
		data_builder_free(to);
	else if (single)
		output_close(b, to);
}

void pack_build_log(struct pack_build *b, const struct pack_log *l)
{
	struct buf entry = { 0 };
	run_builder(b);
	frames_add(b, l);
	log_state_encode(l->log, l->base, &entry);
	data_builder_state(b->run, l->log->id, buf_slice(&entry));
	buf_done(&entry);
}

void pack_build_end(struct pack_build *b)
{
	if (b->run != NULL)
		output_close(b, b->run);
	b->run = NULL;
}

void pack_build_done(struct pack_build *b)
{
	for (size_t i = 0; i < b->outputs.n; i++)
		data_builder_free(b->outputs.output[i].builder);
	free(b->outputs.output);
	data_builder_free(b->run);
}
