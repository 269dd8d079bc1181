/* SPDX-License-Identifier: Apache-2.0
 *
 * From error kind to wire. The kind decides (http_error.h); the message is passed on for people.
 */
#include "worker-http/ds.h"

#include "worker-http/http_error.h"

/* An epoch that was never seen begins with 0; of a producer that is not known at all that is a gap. */
static bool is_new_epoch(const struct pico_error *e)
{
	return e->has_producer_epoch && e->expected_seq == 0;
}

static struct http_error wire_error(const struct pico_error *e)
{
	if (e->kind == PICO_SEQUENCE_GAP && !is_new_epoch(e))
		return (struct http_error){ 409, "sequence_gap", "a producer sequence is missing" };
	if (e->kind == PICO_PARTITION_REQUIRED)
		return (struct http_error){ 409, "conflict", "it has several partitions, so it is no Durable Stream" };
	return http_error_of(e);
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
	struct http_error w = wire_error(e);
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
