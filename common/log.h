/* SPDX-License-Identifier: Apache-2.0
 *
 * One event a line on stderr: UTC time with milliseconds, level, program, text, then key=value
 * pairs; or the same as JSON. Only main programs and the layer that decides log; libraries
 * return. Never a secret, never record content.
 *
 * A line repeated with the same format is counted, not printed, after 5 in 10 s ("and 412 more
 * like this in 10 s").
 */
#ifndef COMMON_LOG_H
#define COMMON_LOG_H

#include <stdbool.h>
#include <stdint.h>

enum log_level { LOG_ERROR, LOG_WARN, LOG_INFO, LOG_DEBUG };

void log_open(const char *program, enum log_level level, bool json);
void log_set_level(enum log_level level);
/* -EINVAL when the word is none of error, warn, info, debug. */
int log_level_parse(const char *word, enum log_level *ret_level);

void log_write(enum log_level level, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* Says what was counted in the 10 s that are over; from a timer, so that the last repeats are not kept silent. */
void log_tick(void);
/* Says everything that was counted: before the process ends. */
void log_flush(void);
/* Milliseconds for the windows above, in tests; NULL: CLOCK_MONOTONIC. */
void log_set_clock(uint64_t (*now_ms)(void));

#define log_error(...) log_write(LOG_ERROR, __VA_ARGS__)
#define log_warn(...) log_write(LOG_WARN, __VA_ARGS__)
#define log_info(...) log_write(LOG_INFO, __VA_ARGS__)
#define log_debug(...) log_write(LOG_DEBUG, __VA_ARGS__)

#endif
