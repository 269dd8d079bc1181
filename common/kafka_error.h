/* SPDX-License-Identifier: Apache-2.0
 *
 * Kafka's error codes by name (kafka_error.def). Only what answers a Kafka request makes one.
 */
#ifndef COMMON_KAFKA_ERROR_H
#define COMMON_KAFKA_ERROR_H

#include <stdint.h>

enum kafka_error {
#define KAFKA_ERROR(code, name) KAFKA_##name = code,
#include "common/kafka_error.def"
#undef KAFKA_ERROR
};

/* The published name, "UNKNOWN_SERVER_ERROR" also for a code that has none. */
const char *kafka_error_name(int16_t code);

#endif
