/* SPDX-License-Identifier: Apache-2.0
 *
 * What can go wrong in a Topics call. A facade maps the kind to its wire and never reads the
 * message. Kinds travel over IPC: numbers are never used again.
 */
#ifndef COMMON_PICO_ERROR_H
#define COMMON_PICO_ERROR_H

#include <stdbool.h>
#include <stdint.h>

#define PICO_ERRORS(X)                                                                   \
	X(0, OK, "ok")                                                                   \
	X(1, NOT_FOUND, "not_found")                                                     \
	X(2, GONE, "gone")                                                               \
	X(3, BAD_REQUEST, "bad_request")                                                 \
	X(4, CONFLICT, "conflict")                                                       \
	X(5, CLOSED, "closed")                                                           \
	X(6, FENCED, "fenced")                                                           \
	X(7, SEQUENCE_GAP, "sequence_gap")                                               \
	X(8, MATCH_FAILED, "match_failed")                                               \
	X(9, CORRUPT_BATCH, "corrupt_batch")                                             \
	X(10, TOO_LARGE, "too_large")                                                    \
	X(11, SCHEMA_VIOLATION, "schema_violation")                                      \
	X(12, OUT_OF_RANGE, "out_of_range")                                              \
	X(13, NOT_OWNER, "not_owner")                                                    \
	X(14, STALE_TOPIC, "stale_topic")                                                \
	X(15, UNAVAILABLE, "unavailable")     /* nothing was done; try again */          \
	X(16, THROTTLED, "throttled")                                                    \
	X(17, DURABILITY, "outcome_unknown")  /* it may or may not have been done */     \
	X(18, PARTITION_REQUIRED, "partition_required")                                  \
	X(19, CANCELLED, "cancelled")         /* by the caller; nothing was done */      \
	X(20, NO_PARTITION, "not_found")      /* the topic is there, that partition is not */

enum pico_error_kind {
#define X(id, name, word) PICO_##name = id,
	PICO_ERRORS(X)
#undef X
};

/* Zero-initialised is "no error". */
struct pico_error {
	enum pico_error_kind kind;
	char message[200];              /* for people; says what to do */
	uint64_t next_offset;           /* CLOSED, CONFLICT, MATCH_FAILED, OUT_OF_RANGE past the end */
	uint64_t start_offset;          /* OUT_OF_RANGE below the start */
	uint64_t producer_epoch;        /* FENCED: the current one */
	uint64_t expected_seq;          /* SEQUENCE_GAP */
	uint64_t received_seq;          /* SEQUENCE_GAP */
	bool has_next_offset, has_start_offset, has_producer_epoch, has_gap;
	char content_type[128];         /* CONFLICT of types: the topic's, cut */
};

/* The word of a kind as HTTP shows it; "internal" for a number that is none. */
const char *pico_error_word(enum pico_error_kind kind);

/* A fresh error of that kind; companions are set by the caller afterwards. */
void pico_error_set(struct pico_error *e, enum pico_error_kind kind, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

#endif
