/* SPDX-License-Identifier: Apache-2.0 */
#include "common/kafka_error.h"

const char *kafka_error_name(int16_t code)
{
	switch ((enum kafka_error)code) {
#define KAFKA_ERROR(code, name) case KAFKA_##name: return #name;
#include "common/kafka_error.def"
#undef KAFKA_ERROR
	}
	return "UNKNOWN_SERVER_ERROR";
}
