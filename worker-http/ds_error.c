/* SPDX-License-Identifier: Apache-2.0
 *
 * From error kind to wire, in one place. The kind decides; the message is passed on for people.
 */
#include "worker-http/ds.h"

struct wire_error {
	int status;
	const char *word;
	const char *message;    /* when the error has none */
};

/* An epoch that was never seen begins with 0; of a producer that is not known at all that is a gap. */
static bool is_new_epoch(const struct pico_error *e)
{
	return e->has_producer_epoch && e->expected_seq == 0;
}

static struct wire_error wire_error(const struct pico_error *e)
{
	switch (e->kind) {
	case PICO_OK:
		break;
	case PICO_NOT_FOUND:
	case PICO_NO_PARTITION:
		return (struct wire_error){ 404, "not_found", "no such stream" };
	case PICO_GONE:
		return (struct wire_error){ 410, "gone", "the stream is gone" };
	case PICO_BAD_REQUEST:
	case PICO_CORRUPT_BATCH:
		return (struct wire_error){ 400, "bad_request", "bad request" };
	case PICO_CONFLICT:
		return (struct wire_error){ 409, "conflict", "the stream is another one" };
	case PICO_CLOSED:
		return (struct wire_error){ 409, "closed", "stream is closed" };
	case PICO_FENCED:
		return (struct wire_error){ 403, "fenced", "a newer producer epoch is known" };
	case PICO_SEQUENCE_GAP:
		if (is_new_epoch(e))
			return (struct wire_error){ 400, "bad_request", "a new epoch must start with sequence 0" };
		return (struct wire_error){ 409, "sequence_gap", "a producer sequence is missing" };
	case PICO_MATCH_FAILED:
		return (struct wire_error){ 412, "match_failed", "the next offset is another one" };
	case PICO_TOO_LARGE:
		return (struct wire_error){ 413, "too_large", "content too large" };
	case PICO_SCHEMA_VIOLATION:
		return (struct wire_error){ 400, "schema_violation", "a message breaks the schema" };
	case PICO_OUT_OF_RANGE:
		if (e->has_start_offset)
			return (struct wire_error){ 410, "trimmed", "what stood before the start of the stream is gone" };
		return (struct wire_error){ 400, "bad_request", "the offset is beyond the end of the stream" };
	case PICO_THROTTLED:
		return (struct wire_error){ 429, "throttled", "too many requests" };
	case PICO_DURABILITY:
		return (struct wire_error){ 503, "outcome_unknown", "the write may or may not have happened" };
	case PICO_PARTITION_REQUIRED:
		return (struct wire_error){ 409, "conflict", "it has several partitions, so it is no Durable Stream" };
	case PICO_NOT_OWNER:
	case PICO_STALE_TOPIC:
	case PICO_UNAVAILABLE:
	case PICO_CANCELLED:
		return (struct wire_error){ 503, "unavailable", "not available now; try again" };
	}
	return (struct wire_error){ 500, "internal", "internal error" };
}

static void companions(struct request *r, const struct pico_error *e)
{
	if (e->kind == PICO_CLOSED)
		answer_field(r, "Stream-Closed", "true");
	if (e->has_next_offset)
		ds_put_offset(r, e->next_offset);
	if (e->kind == PICO_FENCED && e->has_producer_epoch)
		answer_field_u64(r, "Producer-Epoch", e->producer_epoch);
	if (e->kind == PICO_SEQUENCE_GAP && e->has_gap && !is_new_epoch(e)) {
		answer_field_u64(r, "Producer-Expected-Seq", e->expected_seq);
		answer_field_u64(r, "Producer-Received-Seq", e->received_seq);
	}
}

void ds_answer_error(struct request *r, const struct pico_error *e)
{
	struct wire_error w = wire_error(e);
	const char *text = e->message[0] != '\0' && e->kind != PICO_PARTITION_REQUIRED ? e->message : w.message;
	companions(r, e);
	answer_error(r, w.status, w.word, text, NULL);
}

void ds_answer_partitions(struct request *r)
{
	struct pico_error e;
	pico_error_set(&e, PICO_PARTITION_REQUIRED, "%s", "");
	ds_answer_error(r, &e);
}
