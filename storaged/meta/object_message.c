/* SPDX-License-Identifier: Apache-2.0
 *
 * See the header.
 */
#include "storaged/meta/object_message.h"

void object_id_fill(Meta__ObjectId *ret, struct object_id id)
{
	meta__object_id__init(ret);
	ret->node = id.node;
	ret->session = id.session;
	ret->number = id.number;
}

void object_message_fill(struct object_message *ret, const struct object_row *row)
{
	meta__object_row__init(&ret->m);
	object_id_fill(&ret->id, row->id);
	ret->m.id = &ret->id;
	ret->m.origin = row->origin;
	ret->m.level = row->level;
	ret->m.run = row->run;
	ret->m.first_log = row->first_log;
	ret->m.last_log = row->last_log;
	ret->m.bytes = row->bytes;
	ret->m.oldest_ms = row->oldest_ms;
	ret->m.newest_ms = row->newest_ms;
	ret->m.first_offset = row->first_offset;
	ret->m.end_offset = row->end_offset;
}

const char *object_message_fault(const Meta__ObjectRow *m)
{
	if (m->id == NULL)
		return "has no id";
	if (m->level > DATA_LEVEL_SINGLE)
		return "is of a level that this release does not know";
	if (m->first_log > m->last_log)
		return "ends at a lower log than it begins with";
	if (m->oldest_ms > m->newest_ms)
		return "is newest before it is oldest";
	if (m->level != DATA_LEVEL_SINGLE)
		return m->first_offset == 0 && m->end_offset == 0 ? NULL : "has offsets, as only an object of one log has";
	if (m->first_log != m->last_log)
		return "is of one log and names two";
	return m->first_offset < m->end_offset ? NULL : "is of one log and has no offsets";
}

struct object_id object_message_id(const Meta__ObjectId *id)
{
	return (struct object_id){ id->node, id->session, id->number };
}

struct object_row object_message_row(const Meta__ObjectRow *m)
{
	return (struct object_row){
		.id = object_message_id(m->id), .origin = m->origin, .level = m->level, .run = m->run,
		.first_log = m->first_log, .last_log = m->last_log, .bytes = m->bytes,
		.oldest_ms = m->oldest_ms, .newest_ms = m->newest_ms,
		.first_offset = m->first_offset, .end_offset = m->end_offset,
	};
}
