/* SPDX-License-Identifier: Apache-2.0
 *
 * Where retention cuts one log. Append times rise with offsets, and so do the bytes before a block: whatever stands
 * before a block that is due is due, too. So the objects may be looked through in any order, and one that a merge moves
 * meanwhile does no harm: the cut is the end of the last due block that was seen.
 */
#include "storaged/engine/retention.h"

#define WORTH_BYTES (1u << 20)
#define WORTH_SHARE 10u

void cut_begin(struct cut *c, struct engine *e, uint64_t log_id, const struct engine_retention *rule, int64_t now_ms)
{
	*c = (struct cut){ .engine = e, .log_id = log_id, .rule = *rule, .now_ms = now_ms, .end = rule->start };
}

/* Bytes that the log ever had; 0: it is gone. */
static uint64_t log_bytes(const struct cut *c)
{
	const struct log *log = log_table_find(&c->engine->logs, c->log_id);
	must(log == NULL || (log->is_open && log->open->loaded));
	return log != NULL ? log->open->submitted.bytes : 0;
}

static bool is_due(const struct cut *c, const struct data_index_entry *x)
{
	if (c->rule.ms >= 0 && c->now_ms - x->last_append_ms > c->rule.ms)
		return true;
	uint64_t all = log_bytes(c);
	return c->rule.bytes >= 0 && all > x->bytes_before && all - x->bytes_before > (uint64_t)c->rule.bytes;
}

static void note_first(struct cut *c, const struct data_index_entry *x)
{
	if (c->has_first && x->base >= c->first_base)
		return;
	c->has_first = true;
	c->first_base = x->base;
	c->first_bytes = x->bytes_before;
}

/* The blocks of one page from the offset on, as far as they are due; true: all were, so what follows may be. */
static bool page_take(struct cut *c, struct slice page)
{
	struct data_index_entry x;
	bool found = data_index_page_find(page, c->log_id, c->offset, &x);
	for (; found && is_due(c, &x); found = data_index_page_find(page, c->log_id, c->offset, &x)) {
		note_first(c, &x);
		c->offset = x.end;
		if (x.end <= c->end)
			continue;
		c->end = x.end;
		c->bytes = x.bytes_before + x.length;
	}
	if (found)
		note_first(c, &x);
	return !found;
}

/* true: the object at hand is through. */
static bool object_take(struct cut *c, struct index_wait *w)
{
	struct index_cache *index = c->engine->index;
	for (;;) {
		const struct data_top *top = index_cache_top(index, c->id, w);
		if (top == NULL)
			return false;
		const struct data_page *p = data_top_has(top, c->log_id) ? data_top_index_page(top, c->log_id, c->offset) : NULL;
		if (p == NULL)
			return true;
		struct slice page = index_cache_index_page(index, c->id, p, w);
		if (page.n == 0)
			return false;
		uint64_t before = c->offset;
		if (!page_take(c, page) || c->offset == before)
			return true;
	}
}

/* Nothing in the object can be due, or all of it is trimmed. */
static bool is_out(const struct cut *c, const struct object_row *row)
{
	if (row->newest_ms == 0 || (row->level == DATA_LEVEL_SINGLE && row->end_offset <= c->rule.start))
		return true;
	return c->rule.bytes < 0 && c->now_ms - row->oldest_ms <= c->rule.ms;
}

/* The object at hand, else the next one; false: there is none. */
static bool object_next(struct cut *c)
{
	const struct catalogue *all = engine_catalogue(c->engine);
	const struct object_row *row = c->has_id ? catalogue_find(all, c->id) : NULL;
	c->has_id = row != NULL && !row->marked;
	if (c->has_id)
		return true;
	do
		row = catalogue_of_log(all, c->engine->config.node, c->log_id, &c->cursor);
	while (row != NULL && is_out(c, row));
	if (row == NULL)
		return false;
	c->has_id = true;
	c->id = row->id;
	c->offset = c->rule.start;
	return true;
}

bool cut_walk(struct cut *c, struct index_wait *w)
{
	while (object_next(c)) {
		if (!object_take(c, w))
			return false;
		c->has_id = false;
	}
	return true;
}

void cut_skip(struct cut *c)
{
	c->has_id = false;
}

bool cut_is_worth(const struct cut *c)
{
	const struct log *log = log_table_find(&c->engine->logs, c->log_id);
	if (log == NULL || c->end <= c->rule.start)
		return false;
	if (c->end >= log_next(log))
		return true;
	uint64_t freed = c->bytes - c->first_bytes, all = log_bytes(c) - c->first_bytes;
	return freed >= WORTH_BYTES || freed >= all / WORTH_SHARE;
}
