/* SPDX-License-Identifier: Apache-2.0
 *
 * A topic's headers and its row in a list: one place for what PUT, HEAD and the list show.
 */
#ifndef WORKER_HTTP_PICO_TOPIC_H
#define WORKER_HTTP_PICO_TOPIC_H

#include "worker-http/request.h"

/* Content-Type, Pico-Start-Seq and Pico-Next-Seq (of a topic with one partition whose tail is known),
 * Pico-Partitions (with more), TTL or expiry, retention, Pico-Closed, Pico-Kafka-Topic. */
void pico_topic_fields(struct request *r, const Ipc__Topic *topic);

/* Its JSON object in a list. */
void pico_topic_json(struct buf *out, const Ipc__Topic *topic);

#endif
