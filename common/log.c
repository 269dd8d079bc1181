/* SPDX-License-Identifier: Apache-2.0
 *
 * A line is built on the stack and leaves in one write(), so lines of several processes that share a
 * stderr do not mix. Repeats are counted by format: the table below has one row for each of the last
 * FORMATS_MAX formats, and a row that has counted something says so before it is used again.
 */
#include "common/log.h"

#include <errno.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "common/buf.h"
#include "common/utf8.h"

#define LINE_MAX_BYTES 2048     /* of the text; the rest is cut */
#define FORMATS_MAX 64
#define WINDOW_MS 10000
#define WINDOW_LINES 5

struct repeat {
	const char *fmt;        /* NULL: free */
	uint64_t window_ms;     /* when its window began */
	unsigned seen;          /* in this window */
	unsigned counted;       /* of them not printed */
	enum log_level level;
	char last[256];         /* text of the last one not printed */
};

static const char *const level_names[] = { "error", "warn", "info", "debug" };

static struct {
	pthread_mutex_t lock;
	char program[32];
	enum log_level level;
	bool json;
	uint64_t (*now_ms)(void);
	struct repeat repeats[FORMATS_MAX];
	unsigned next;          /* row to reuse when all are taken */
} state = { .lock = PTHREAD_MUTEX_INITIALIZER, .program = "pico", .level = LOG_INFO };

static uint64_t monotonic_ms(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

void log_open(const char *program, enum log_level level, bool json)
{
	pthread_mutex_lock(&state.lock);
	snprintf(state.program, sizeof(state.program), "%s", program);
	state.level = level;
	state.json = json;
	pthread_mutex_unlock(&state.lock);
}

void log_set_level(enum log_level level)
{
	pthread_mutex_lock(&state.lock);
	state.level = level;
	pthread_mutex_unlock(&state.lock);
}

void log_set_clock(uint64_t (*now_ms)(void))
{
	state.now_ms = now_ms;
}

int log_level_parse(const char *word, enum log_level *ret_level)
{
	for (unsigned i = 0; i < sizeof(level_names) / sizeof(level_names[0]); i++) {
		if (strcmp(word, level_names[i]) == 0) {
			*ret_level = (enum log_level)i;
			return 0;
		}
	}
	return -EINVAL;
}

static void put_time(struct buf *b)
{
	struct timespec t;
	struct tm tm;
	char s[32];
	clock_gettime(CLOCK_REALTIME, &t);
	gmtime_r(&t.tv_sec, &tm);
	strftime(s, sizeof(s), "%Y-%m-%dT%H:%M:%S", &tm);
	buf_printf(b, "%s.%03ldZ", s, t.tv_nsec / 1000000);
}

/* One line stays one line: control bytes and what is not UTF-8 become \u00NN or \xNN. */
static void put_escaped(struct buf *b, const char *s, size_t n, bool json)
{
	const unsigned char *p = (const unsigned char *)s, *end = p + n;
	while (p < end) {
		size_t len = *p < 0x80 ? 1 : utf8_sequence(p, end);
		if (len == 0 || *p < 0x20 || *p == 0x7f) {
			buf_printf(b, json ? "\\u%04x" : "\\x%02x", *p);
			p++;
			continue;
		}
		if (json && (*p == '"' || *p == '\\'))
			buf_put_u8(b, '\\');
		buf_put(b, p, len);
		p += len;
	}
}

/* The length of `key=` at s, 0 when there is none. */
static size_t key_length(const char *s)
{
	size_t n = strspn(s, "abcdefghijklmnopqrstuvwxyz0123456789_");
	return n > 0 && s[n] == '=' ? n : 0;
}

/* Where the value that begins at s ends: a quoted one at its quote, another at the next space. */
static const char *value_end(const char *s)
{
	if (*s != '"')
		return s + strcspn(s, " ");
	const char *end = s + 1;
	while (*end != '\0' && *end != '"')
		end += *end == '\\' && end[1] != '\0' ? 2 : 1;
	return *end == '"' ? end + 1 : end;
}

/* Whether s is nothing but key=value pairs with one space between them. */
static bool is_tail(const char *s)
{
	for (;;) {
		size_t n = key_length(s);
		if (n == 0)
			return false;
		s = value_end(s + n + 1);
		if (*s == '\0')
			return true;
		if (*s++ != ' ')
			return false;
	}
}

/* The key=value tail of a text; its end when there is none. */
static const char *find_tail(const char *text)
{
	if (is_tail(text))
		return text;
	for (const char *p = strchr(text, ' '); p != NULL; p = strchr(p + 1, ' ')) {
		if (is_tail(p + 1))
			return p + 1;
	}
	return text + strlen(text);
}

static void put_json_tail(struct buf *b, const char *s)
{
	while (*s != '\0') {
		size_t n = key_length(s);
		const char *value = s + n + 1, *end = value_end(value);
		buf_printf(b, ",\"%.*s\":", (int)n, s);
		bool quoted = *value == '"' && end > value + 1 && end[-1] == '"';
		size_t len = (size_t)(end - value);
		buf_put_u8(b, '"');
		put_escaped(b, value + quoted, len - 2 * quoted, true);
		buf_put_u8(b, '"');
		s = *end == ' ' ? end + 1 : end;
	}
}

static void put_json(struct buf *b, enum log_level level, const char *text)
{
	const char *tail = find_tail(text);
	size_t n = (size_t)(tail - text);
	while (n > 0 && text[n - 1] == ' ')
		n--;
	buf_put_str(b, "{\"time\":\"");
	put_time(b);
	buf_printf(b, "\",\"level\":\"%s\",\"program\":\"%s\",\"text\":\"", level_names[level], state.program);
	put_escaped(b, text, n, true);
	buf_put_str(b, "\"");
	put_json_tail(b, tail);
	buf_put_str(b, "}\n");
}

static void print_line(enum log_level level, const char *text)
{
	struct buf b;
	buf_init(&b, 16384);
	if (state.json) {
		put_json(&b, level, text);
	} else {
		put_time(&b);
		buf_printf(&b, " %s %s ", level_names[level], state.program);
		put_escaped(&b, text, strlen(text), false);
		buf_put_u8(&b, '\n');
	}
	if (buf_len(&b) > 0 && write(STDERR_FILENO, buf_head(&b), buf_len(&b)) < 0) {
		/* Nowhere is left to say it. */
	}
	buf_done(&b);
}

static void say_counted(struct repeat *r)
{
	char text[512];
	if (r->counted == 0)
		return;
	snprintf(text, sizeof(text), "and %u more like this in %d s: %s", r->counted, WINDOW_MS / 1000, r->last);
	r->counted = 0;
	print_line(r->level, text);
}

/* The row of fmt; a new one when it has none. */
static struct repeat *find_repeat(const char *fmt, uint64_t now)
{
	struct repeat *r = NULL;
	for (unsigned i = 0; i < FORMATS_MAX; i++) {
		if (state.repeats[i].fmt == fmt)
			return &state.repeats[i];
		if (state.repeats[i].fmt == NULL && r == NULL)
			r = &state.repeats[i];
	}
	if (r == NULL) {
		r = &state.repeats[state.next++ % FORMATS_MAX];
		say_counted(r);
	}
	*r = (struct repeat){ .fmt = fmt, .window_ms = now };
	return r;
}

static void end_windows(uint64_t now)
{
	for (unsigned i = 0; i < FORMATS_MAX; i++) {
		struct repeat *r = &state.repeats[i];
		if (r->fmt != NULL && now - r->window_ms >= WINDOW_MS) {
			say_counted(r);
			r->fmt = NULL;
		}
	}
}

static uint64_t now_ms(void)
{
	return state.now_ms != NULL ? state.now_ms() : monotonic_ms();
}

void log_tick(void)
{
	pthread_mutex_lock(&state.lock);
	end_windows(now_ms());
	pthread_mutex_unlock(&state.lock);
}

void log_write(enum log_level level, const char *fmt, ...)
{
	char text[LINE_MAX_BYTES];
	va_list ap;
	va_start(ap, fmt);
	int saved = errno;
	pthread_mutex_lock(&state.lock);
	if (level <= state.level) {
		uint64_t now = now_ms();
		vsnprintf(text, sizeof(text), fmt, ap);
		end_windows(now);
		struct repeat *r = find_repeat(fmt, now);
		if (++r->seen > WINDOW_LINES) {
			r->counted++;
			r->level = level;
			snprintf(r->last, sizeof(r->last), "%.255s", text);
		} else {
			print_line(level, text);
		}
	}
	pthread_mutex_unlock(&state.lock);
	errno = saved;
	va_end(ap);
}

void log_flush(void)
{
	pthread_mutex_lock(&state.lock);
	for (unsigned i = 0; i < FORMATS_MAX; i++)
		say_counted(&state.repeats[i]);
	pthread_mutex_unlock(&state.lock);
}
