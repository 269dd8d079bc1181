/* SPDX-License-Identifier: Apache-2.0
 *
 * Tables of requests: what storaged sees of one, what it answers, and what the client reads, byte by byte.
 */
#ifndef T_LIB_HTTP_ROWS_H
#define T_LIB_HTTP_ROWS_H

#include "t/lib/http_world.h"

#define TOPIC_ID "0123456789abcdef"
#define ETAG_ID "30313233343536373839616263646566"

struct row {
	const char *request;            /* without "HTTP/1.1", Host and Connection: they are put in */
	const char *call;               /* NULL: storaged hears nothing */
	void (*answer)(struct seen *s);
	const char *response;           /* without Connection */
};

/* One row against that port of the world. */
void run_row(const struct row *row, uint16_t port);

/* A topic with n partitions that hold [start, confirm), at most three. */
struct log {
	Ipc__Topic topic;
	Ipc__Partition partition[3], *list[3];
};
Ipc__Topic *topic(struct log *l, size_t n, uint64_t start, uint64_t confirm);

/* What storaged may answer: topic /t of text/plain, which holds [3, 8) or two records at 4, and each kind of error with
 * all its companions. */
void created(struct seen *s);
void existed(struct seen *s);
void appended(struct seen *s);
void duplicate(struct seen *s);
void appended_to_partition(struct seen *s);
void got(struct seen *s);
void got_three(struct seen *s);
void closed(struct seen *s);
void deleted(struct seen *s);
void deleted_nothing(struct seen *s);
void listed(struct seen *s);
void read_two(struct seen *s);
void read_two_closed(struct seen *s);
void read_none(struct seen *s);
void read_none_closed(struct seen *s);
void not_found(struct seen *s);
void gone(struct seen *s);
void bad_request(struct seen *s);
void conflict(struct seen *s);
void type_conflict(struct seen *s);
void is_closed_error(struct seen *s);
void fenced(struct seen *s);
void gap(struct seen *s);
void gap_at_first(struct seen *s);
void match_failed(struct seen *s);
void corrupt(struct seen *s);
void too_large(struct seen *s);
void schema(struct seen *s);
void trimmed(struct seen *s);
void beyond(struct seen *s);
void not_owner(struct seen *s);
void stale(struct seen *s);
void unavailable(struct seen *s);
void throttled(struct seen *s);
void durability(struct seen *s);
void partition_required(struct seen *s);

#endif
