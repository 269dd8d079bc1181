/* SPDX-License-Identifier: Apache-2.0 */
#include "worker-http/http_error.h"

struct http_error http_error_of(const struct pico_error *e)
{
	switch (e->kind) {
	case PICO_OK:
		break;
	case PICO_NOT_FOUND:
	case PICO_NO_PARTITION:
		return (struct http_error){ 404, "not_found", "no such stream" };
	case PICO_GONE:
		return (struct http_error){ 410, "gone", "the stream is gone" };
	case PICO_BAD_REQUEST:
	case PICO_CORRUPT_BATCH:
		return (struct http_error){ 400, "bad_request", "bad request" };
	case PICO_CONFLICT:
		return (struct http_error){ 409, "conflict", "Conflict" };
	case PICO_CLOSED:
		return (struct http_error){ 409, "closed", "stream is closed" };
	case PICO_FENCED:
		return (struct http_error){ 403, "fenced", "a newer producer epoch is known" };
	case PICO_SEQUENCE_GAP:
		if (e->expected_seq == 0)
			return (struct http_error){ 400, "bad_request", "New epoch must start with sequence 0" };
		return (struct http_error){ 409, "sequence_gap", "a producer sequence is missing" };
	case PICO_MATCH_FAILED:
		return (struct http_error){ 412, "match_failed", "the next position is another one" };
	case PICO_TOO_LARGE:
		return (struct http_error){ 413, "too_large", "content too large" };
	case PICO_SCHEMA_VIOLATION:
		return (struct http_error){ 400, "schema_violation", "a record breaks the schema" };
	case PICO_OUT_OF_RANGE:
		if (e->has_start_offset)
			return (struct http_error){ 410, "trimmed", "records before the start of the stream are gone" };
		return (struct http_error){ 400, "bad_request", "the position is beyond the end of the stream" };
	case PICO_THROTTLED:
		return (struct http_error){ 429, "throttled", "too many requests" };
	case PICO_DURABILITY:
		return (struct http_error){ 503, "outcome_unknown", "the write may or may not have happened" };
	case PICO_PARTITION_REQUIRED:
		return (struct http_error){ 400, "partition_required", "name one with ?partition=" };
	case PICO_NOT_OWNER:
	case PICO_STALE_TOPIC:
	case PICO_UNAVAILABLE:
	case PICO_CANCELLED:
		return (struct http_error){ 503, "unavailable", "not available now; try again" };
	}
	return (struct http_error){ 500, "internal", "internal error" };
}
