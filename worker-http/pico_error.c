/* SPDX-License-Identifier: Apache-2.0
 *
 * From error kind to wire, in one place. The kind decides; the message is passed on for people.
 */
#include <stdio.h>

#include "worker-http/pico.h"

struct wire_error {
	int status;
	const char *word;
	const char *message;    /* when the error has none */
};

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
		return (struct wire_error){ 409, "conflict", "Conflict" };
	case PICO_CLOSED:
		return (struct wire_error){ 409, "closed", "stream is closed" };
	case PICO_FENCED:
		return (struct wire_error){ 403, "fenced", "a newer producer epoch is known" };
	case PICO_SEQUENCE_GAP:
		if (e->expected_seq == 0)
			return (struct wire_error){ 400, "bad_request", "New epoch must start with sequence 0" };
		return (struct wire_error){ 409, "sequence_gap", "a producer sequence is missing" };
	case PICO_MATCH_FAILED:
		return (struct wire_error){ 412, "match_failed", "the next position is another one" };
	case PICO_TOO_LARGE:
		return (struct wire_error){ 413, "too_large", "content too large" };
	case PICO_SCHEMA_VIOLATION:
		return (struct wire_error){ 400, "schema_violation", "a record breaks the schema" };
	case PICO_OUT_OF_RANGE:
		if (e->has_start_offset)
			return (struct wire_error){ 410, "trimmed", "records before the start of the stream are gone" };
		return (struct wire_error){ 400, "bad_request", "the position is beyond the end of the stream" };
	case PICO_THROTTLED:
		return (struct wire_error){ 429, "throttled", "too many requests" };
	case PICO_DURABILITY:
		return (struct wire_error){ 503, "outcome_unknown", "the write may or may not have happened" };
	case PICO_PARTITION_REQUIRED:
		return (struct wire_error){ 400, "partition_required", "name one with ?partition=" };
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
		answer_field(r, "Pico-Closed", "true");
	if (e->kind == PICO_FENCED && e->has_producer_epoch)
		answer_field_u64(r, "Pico-Producer-Epoch", e->producer_epoch);
	if (e->kind == PICO_SEQUENCE_GAP && e->has_gap && e->expected_seq != 0) {
		answer_field_u64(r, "Pico-Expected-Seq", e->expected_seq);
		answer_field_u64(r, "Pico-Received-Seq", e->received_seq);
	}
	if (e->kind == PICO_OUT_OF_RANGE && e->has_start_offset)
		answer_field_u64(r, "Pico-Start-Seq", e->start_offset);
}

void pico_answer_error(struct request *r, const struct pico_error *e)
{
	struct wire_error w = wire_error(e);
	char text[200];
	snprintf(text, sizeof(text), "%s", e->message);
	if (e->kind == PICO_CONFLICT && e->content_type[0] != '\0')
		snprintf(text, sizeof(text), "the stream exists with content type %s", e->content_type);
	companions(r, e);
	answer_error(r, w.status, w.word, text[0] != '\0' ? text : w.message,
		     e->has_next_offset ? &e->next_offset : NULL);
}

bool pico_is_good(struct request *r, const struct pico_error *e)
{
	r->call = NULL;
	if (e->kind != PICO_OK)
		pico_answer_error(r, e);
	return e->kind == PICO_OK;
}

void pico_not_found(struct request *r)
{
	answer_send_empty(r, 404);
}
