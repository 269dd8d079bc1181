/* SPDX-License-Identifier: Apache-2.0
 *
 * Names of topics. A path is kept byte for byte: 1 to 512 bytes, begins with '/', no control bytes,
 * DEL, space, '?', '#', bytes >= 0x80, no segment '.' or '..', not the root. An alias is a Kafka
 * topic name: [A-Za-z0-9._-]{1,249}, not "." or "..", and none of the two that Kafka keeps to itself
 * (__consumer_offsets, __transaction_state).
 */
#ifndef COMMON_TOPIC_NAME_H
#define COMMON_TOPIC_NAME_H

#include "common/slice.h"

#define TOPIC_PATH_MAX 512
#define TOPIC_ALIAS_MAX 249

/* NULL when good, else what is wrong with it, in words. */
const char *topic_path_fault(struct slice path);
bool topic_alias_is_legal(struct slice alias);

/* Below /_sys, /_schemas, /_streams, /_groups, /_kafka or /__ds, by whole segments. */
bool topic_path_is_reserved(struct slice path);

/*
 * The alias a path derives: without the first '/', '/' as '.'. Length (with an end byte behind), or 0
 * when that is not legal or the path is reserved.
 */
size_t topic_alias_derive(struct slice path, char ret_alias[TOPIC_ALIAS_MAX + 1]);

/* Kafka's default partitioner hash (murmur2, seed 0x9747b28c) of a key. */
uint32_t murmur2(struct slice key);
/* (murmur2(key) & 0x7fffffff) % n. */
uint32_t topic_partition_of(struct slice key, uint32_t n_partitions);

#endif
