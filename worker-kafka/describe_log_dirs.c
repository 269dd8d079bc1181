/* SPDX-License-Identifier: Apache-2.0
 *
 * DescribeLogDirs, versions 1 to 4 (2: compact; 3: an error of its own; 4: bytes of the disk, unknown here). There is one log
 * directory, the object store. Partitions that are not there are not in the answer, as the protocol has it.
 */
#include "worker-kafka/api.h"

#define TOPICS_PAGE 1000
#define PARTS_A_CALL 1000u              /* of DESCRIBE_PARTS_MAX */

typedef struct kmsg_describe_log_dirs_response_partition partition_t;

struct dir_topic {
	struct dir_topic *next;
	struct slice name;
	uint8_t id[16];
	partition_t *part;              /* partition_size -1: not known, or not there */
	uint32_t n_parts;
};

struct dirs {
	struct topic_want *want;
	struct dir_topic *first, **last;
	uint32_t n_topics;
	struct dir_topic *at;           /* what is asked next */
	uint32_t part;
	partition_t **asked;
	uint32_t n_asked;
};

static void close_for_memory(struct request *r)
{
	request_close(r, "memory");
}

/* ------------------------------------------------------------------ answer */

static void answer(struct request *r, enum kafka_error error)
{
	struct dirs *d = r->state;
	struct kmsg_describe_log_dirs_response *m = KMSG_NEW(&r->region, describe_log_dirs_response, 1);
	struct kmsg_describe_log_dirs_response_log_dir *dir = KMSG_NEW(&r->region, describe_log_dirs_response_log_dir, 1);
	struct kmsg_describe_log_dirs_response_topic *t = KMSG_NEW(&r->region, describe_log_dirs_response_topic, d->n_topics);
	if (m == NULL || dir == NULL || t == NULL) {
		close_for_memory(r);
		return;
	}
	m->results = dir;
	m->n_results = 1;
	dir->log_dir = slice_str(r->server->conf->storage);
	dir->log_dir.n = strcspn(r->server->conf->storage, "?");
	dir->error_code = (int16_t)error;
	dir->topics = t;
	for (const struct dir_topic *from = error == KAFKA_NONE ? d->first : NULL; from != NULL; from = from->next) {
		t->name = from->name;
		t->partitions = from->part;
		for (uint32_t i = 0; i < from->n_parts; i++)
			if (from->part[i].partition_size >= 0)
				t->partitions[t->n_partitions++] = from->part[i];
		t += t->n_partitions > 0;
	}
	dir->n_topics = (uint32_t)(t - dir->topics);
	request_answer(r, m);
}

/* ------------------------------------------------------------------ sizes */

static void ask(struct request *r);

static void on_described(struct request *r, const struct pico_error *e, const ProtobufCMessage *m, struct topics_pieces *pieces)
{
	struct dirs *d = r->state;
	const Ipc__DescribeLogsAnswer *a = (const Ipc__DescribeLogsAnswer *)m;
	for (size_t i = 0; a != NULL && i < a->n_part && i < d->n_asked; i++) {
		enum pico_error_kind kind = a->part[i]->error != NULL ? (enum pico_error_kind)a->part[i]->error->kind : PICO_OK;
		if (kind == PICO_OK)
			d->asked[i]->partition_size = (int64_t)a->part[i]->bytes;
		else if (kind != PICO_NOT_FOUND && kind != PICO_GONE && kind != PICO_NO_PARTITION && kind != PICO_NOT_OWNER) {
			answer(r, error_of(r, kind, ERROR_OF_RECORDS));
			return;
		}
	}
	if (a == NULL)
		answer(r, error_of(r, e->kind, ERROR_OF_RECORDS));
	else
		ask(r);
}

static void fill_parts(struct dirs *d, Ipc__DescribeLogsRequest__Part *part, Ipc__DescribeLogsRequest *m)
{
	for (; d->at != NULL && d->n_asked < PARTS_A_CALL; d->at = d->at->next, d->part = 0) {
		for (; d->part < d->at->n_parts && d->n_asked < PARTS_A_CALL; d->part++) {
			Ipc__DescribeLogsRequest__Part *to = m->part[m->n_part] = &part[m->n_part];
			ipc__describe_logs_request__part__init(to);
			to->topic_id = (ProtobufCBinaryData){ .len = 16, .data = d->at->id };
			to->partition = (uint32_t)d->at->part[d->part].partition_index;
			d->asked[d->n_asked++] = &d->at->part[d->part];
			m->n_part++;
		}
		if (d->part < d->at->n_parts)
			return;
	}
}

static void ask(struct request *r)
{
	struct dirs *d = r->state;
	Ipc__DescribeLogsRequest m = IPC__DESCRIBE_LOGS_REQUEST__INIT;
	Ipc__DescribeLogsRequest__Part part[PARTS_A_CALL], *list[PARTS_A_CALL];
	m.part = list;
	d->n_asked = 0;
	fill_parts(d, part, &m);
	if (m.n_part > 0)
		request_call(r, IPC_DESCRIBE_LOGS, &m.base, NO_PAYLOAD, request_deadline(r, 0), on_described);
	else
		answer(r, KAFKA_NONE);
}

static void begin_asking(struct request *r)
{
	struct dirs *d = r->state;
	d->at = d->first;
	d->asked = REQUEST_NEW(r, partition_t *, PARTS_A_CALL);
	if (d->asked != NULL)
		ask(r);
	else
		close_for_memory(r);
}

/* ------------------------------------------------------------------ topics */

/* With n partitions, from 0 on. */
static struct dir_topic *add_topic(struct request *r, struct slice name, const uint8_t id[16], uint32_t n)
{
	struct dirs *d = r->state;
	struct dir_topic *t = REQUEST_NEW(r, struct dir_topic, 1);
	partition_t *part = KMSG_NEW(&r->region, describe_log_dirs_response_partition, n);
	if (t == NULL || part == NULL)
		return NULL;
	*t = (struct dir_topic){ .name = region_copy(&r->region, name), .part = part, .n_parts = n };
	memcpy(t->id, id, sizeof(t->id));
	for (uint32_t i = 0; i < n; i++) {
		part[i].partition_index = (int32_t)i;
		part[i].partition_size = -1;
	}
	*d->last = t;
	d->last = &t->next;
	d->n_topics++;
	return t;
}

static void named_done(struct request *r)
{
	const struct kmsg_describe_log_dirs_request *q = r->message;
	const struct dirs *d = r->state;
	for (uint32_t i = 0; i < q->n_topics; i++) {
		const struct kmsg_describe_log_dirs_request_topic *from = &q->topics[i];
		if (d->want[i].info == NULL)
			continue;
		struct dir_topic *t = add_topic(r, from->topic, d->want[i].info->id, from->n_partitions);
		if (t == NULL) {
			close_for_memory(r);
			return;
		}
		for (uint32_t k = 0; k < from->n_partitions; k++)
			t->part[k].partition_index = from->partitions[k];
	}
	begin_asking(r);
}

static void ask_page(struct request *r, char *start_after);

static void on_page(struct request *r, const struct pico_error *e, const ProtobufCMessage *m, struct topics_pieces *pieces)
{
	const Ipc__ListKafkaAnswer *a = (const Ipc__ListKafkaAnswer *)m;
	for (size_t i = 0; a != NULL && i < a->n_topics; i++) {
		const Ipc__Topic *t = a->topics[i];
		if (t->topic_id.len == 16 &&
		    add_topic(r, slice_str(t->kafka_topic), t->topic_id.data, (uint32_t)t->n_partitions) == NULL) {
			close_for_memory(r);
			return;
		}
	}
	if (a == NULL)
		answer(r, error_of(r, e->kind, ERROR_OF_RECORDS));
	else if (a->has_more && a->n_topics > 0)
		ask_page(r, request_string(r, slice_str(a->topics[a->n_topics - 1]->kafka_topic)));
	else
		begin_asking(r);
}

static void ask_page(struct request *r, char *start_after)
{
	Ipc__ListKafkaRequest m = IPC__LIST_KAFKA_REQUEST__INIT;
	if (start_after == NULL) {
		close_for_memory(r);
		return;
	}
	m.start_after = start_after;
	m.limit = TOPICS_PAGE;
	request_call(r, IPC_LIST_KAFKA, &m.base, NO_PAYLOAD, request_deadline(r, 0), on_page);
}

void describe_log_dirs_handle(struct request *r)
{
	static char from_first[] = "";
	const struct kmsg_describe_log_dirs_request *q = r->message;
	struct dirs *d = r->state = REQUEST_NEW(r, struct dirs, 1);
	if (d != NULL)
		d->want = REQUEST_NEW(r, struct topic_want, q->n_topics);
	if (d == NULL || d->want == NULL) {
		close_for_memory(r);
		return;
	}
	d->last = &d->first;
	for (uint32_t i = 0; i < q->n_topics; i++)
		d->want[i].name = q->topics[i].topic;
	if (q->topics == NULL)
		ask_page(r, from_first);
	else
		topic_cache_resolve(r, d->want, q->n_topics, named_done);
}
