/* SPDX-License-Identifier: Apache-2.0
 *
 * From error kind to wire. The kind decides (http_error.h); the message is passed on for people.
 */
#include <stdio.h>

#include "worker-http/http_error.h"
#include "worker-http/pico.h"

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
	struct http_error w = http_error_of(e);
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
