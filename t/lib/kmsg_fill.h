/* SPDX-License-Identifier: Apache-2.0
 *
 * Random values for Kafka messages: every field that a version has is filled from a seed, every other
 * keeps its default.
 */
#ifndef T_LIB_KMSG_FILL_H
#define T_LIB_KMSG_FILL_H

#include "common/kmsg.h"

struct kmsg_fill {
	struct region *region;  /* borrowed; holds strings and arrays */
	uint64_t state;         /* of the generator; the seed */
	int16_t version;
	uint32_t items_max;     /* of an array */
	bool is_text;           /* strings of lower-case letters only */
};

uint64_t kmsg_fill_next(struct kmsg_fill *fill);

/* A new struct with random fields. */
void *kmsg_fill(struct kmsg_fill *fill, const struct kmsg_struct *of);

#endif
