/* SPDX-License-Identifier: Apache-2.0
 *
 * POST /name with Pico-Trim-Seq: the records below that position go. One below the start changes nothing; one beyond the
 * end means the end, for a record that is not there yet cannot be trimmed.
 *
 * The stream is looked up first and trimmed by its id, so that another one that takes its name meanwhile keeps
 * its records, and so that the trim may be sent again when storaged restarts under it.
 */
#include <stdlib.h>

#include "common/must.h"
#include "worker-http/pico.h"

struct trim {
	uint64_t seq;
	bool partition_given;
	uint32_t partition;
};

static void on_trimmed(void *arg, const struct pico_error *error, const ProtobufCMessage *m,
		       struct topics_pieces *pieces)
{
	struct request *r = arg;
	if (!pico_is_good(r, error))
		return;
	answer_field_u64(r, "Pico-Start-Seq", ((const Ipc__TrimAnswer *)m)->start);
	answer_send_empty(r, 200);
}

static void call_trim(struct request *r, const Ipc__Topic *t)
{
	const struct trim *trim = r->state;
	const Ipc__Partition *p = t->partitions[trim->partition];
	Ipc__TrimRequest m = IPC__TRIM_REQUEST__INIT;
	Ipc__LogRef log = IPC__LOG_REF__INIT;
	Ipc__TopicRef topic = IPC__TOPIC_REF__INIT;
	topic.topic_id = t->topic_id;
	log.topic = &topic;
	log.partition = trim->partition;
	m.log = &log;
	m.offset = (int64_t)(trim->seq < p->confirm ? trim->seq : p->confirm);
	m.deadline_ms = request_deadline(r);
	request_call(r, IPC_TRIM, &m.base, slice_of(NULL, 0), m.deadline_ms, on_trimmed);
}

static void on_found(void *arg, const struct pico_error *error, const ProtobufCMessage *m, struct topics_pieces *pieces)
{
	struct request *r = arg;
	const struct trim *trim = r->state;
	struct pico_error e = { 0 };
	if (!pico_is_good(r, error))
		return;
	const Ipc__Topic *t = ((const Ipc__GetAnswer *)m)->topic;
	if (!trim->partition_given && t->n_partitions > 1) {
		pico_error_set(&e, PICO_PARTITION_REQUIRED, "the stream has %zu partitions: name one", t->n_partitions);
		pico_answer_error(r, &e);
	} else if (trim->partition >= t->n_partitions) {
		answer_bad_request(r, "the stream has %zu partitions, counted from 0", t->n_partitions);
	} else {
		call_trim(r, t);
	}
}

void pico_trim(struct request *r)
{
	bool given;
	struct trim *trim = must_calloc(1, sizeof(*trim));
	r->state = trim;
	r->state_free = free;
	if (buf_len(&r->body) > 0) {
		answer_bad_request(r, "trim takes no body");
		return;
	}
	if (!pico_u64_field(r, "Pico-Trim-Seq", "pico-trim-seq", &given, &trim->seq) ||
	    !pico_partition(r, &trim->partition_given, &trim->partition))
		return;
	pico_call_get(r, on_found);
}
