/* SPDX-License-Identifier: Apache-2.0
 *
 * From the frames of a pack to its objects: one run of level 0, in several objects if it is long, and for each log
 * with much in it objects of its own. The state entries all stand in the run.
 */
#include <stdlib.h>

#include "storaged/bounds.h"
#include "storaged/data/data_builder.h"
#include "storaged/engine/log_state.h"
#include "storaged/engine/pack.h"

static void output_close(struct pack_build *b, struct data_builder *builder)
{
	struct pack_outputs *o = &b->outputs;
	o->output = must_realloc(o->output, (o->n + 1) * sizeof(*o->output));
	struct pack_output *x = &o->output[o->n++];
	*x = (struct pack_output){ .builder = builder };
}

static struct data_builder *builder_new(struct pack_build *b, uint32_t level)
{
	struct object_id id = { .node = b->node, .session = b->session, .number = (*b->number)++ };
	return data_builder_new(id, b->node, level);
}

static void run_builder(struct pack_build *b)
{
	if (b->run != NULL && data_builder_size(b->run) >= bounds.run_max) {
		output_close(b, b->run);
		b->run = NULL;
	}
	if (b->run == NULL)
		b->run = builder_new(b, 0);
}

/* A frame that nobody is shown anything of is left out. */
static void frame_add(struct data_builder *to, const struct pack_log *l, const struct frame *f, struct slice bytes)
{
	uint64_t end = f->base_offset + f->record_count;
	if (f->record_count == 0 || end <= l->living)
		return;
	struct data_frame x = {
		.log_id = f->log_id, .base = f->base_offset, .end = end, .append_ms = f->append_time,
		.max_timestamp = f->max_timestamp, .bytes = bytes, .batch_bytes = (uint32_t)f->payload.n,
	};
	data_builder_frame(to, &x, l->log->open->packed.bytes);
}

/* Our own arena: what stands there was judged when it came. */
static void frame_pack(struct pack_build *b, const struct pack_log *l, const struct pack_frame *p)
{
	struct frame_iter it = { .body = slice_of(p->at, p->size) };
	struct frame f;
	struct frame_facts facts;
	Frame__Meta *m;
	must(frame_next(&it, &f) == 1);
	if (b->own != NULL && data_builder_size(b->own) >= bounds.single_max) {
		output_close(b, b->own);
		b->own = builder_new(b, DATA_LEVEL_SINGLE);
	}
	frame_add(b->own != NULL ? b->own : b->run, l, &f, it.body);
	must(frame_facts_read(&f, &facts, &m) == NULL);
	log_state_apply(&l->log->open->packed, &facts);
	frame__meta__free_unpacked(m, NULL);
}

static void log_begin(struct pack_build *b, const struct pack_log *l)
{
	run_builder(b);
	b->in_log = true;
	b->at = 0;
	b->base = l->log->open->packed.next;
	b->own = l->size >= bounds.single_min ? builder_new(b, DATA_LEVEL_SINGLE) : NULL;
}

static void log_end(struct pack_build *b, const struct pack_log *l)
{
	struct buf entry = { 0 }, card;
	buf_init(&card, SIZE_MAX);
	if (b->own != NULL && data_builder_is_empty(b->own))
		data_builder_free(b->own);
	else if (b->own != NULL)
		output_close(b, b->own);
	b->own = NULL;
	if (b->events->card != NULL)
		b->events->card(b->arg, l->log->id, &card);
	log_state_encode(l->log, b->base, buf_slice(&card), &entry);
	buf_done(&card);
	data_builder_state(b->run, l->log->id, buf_slice(&entry));
	buf_done(&entry);
	b->in_log = false;
}

uint32_t pack_build_log(struct pack_build *b, const struct pack_log *l, uint32_t n_max, bool *ret_whole)
{
	if (!b->in_log)
		log_begin(b, l);
	uint32_t n = l->n_frames - b->at < n_max ? l->n_frames - b->at : n_max;
	for (uint32_t i = 0; i < n; i++)
		frame_pack(b, l, &l->frames[b->at++]);
	*ret_whole = b->at == l->n_frames;
	if (*ret_whole)
		log_end(b, l);
	return n;
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
	data_builder_free(b->own);
	data_builder_free(b->run);
}
