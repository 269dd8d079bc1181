/* SPDX-License-Identifier: Apache-2.0
 *
 * One option at a time: its row, its text form, its value. Where options come from is conf_load.c.
 */
#include "common/conf.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/conf_row.h"
#include "common/must.h"

#define NOW false
#define LATER true
const struct conf_row conf_rows[CONF_N] = {
#define CONF(name, type, def, min, max, when, help) \
	{ #name, CONF_TYPE_##type, def, min, max, when, offsetof(struct conf, name), help },
#include "common/conf.def"
#undef CONF
};

/* The words that a STRING may be. */
static const struct {
	enum conf_id id;
	const char *words;
} conf_words[] = {
	{ CONF_ID_protocol, "pico ds" },
	{ CONF_ID_routing, "redirect local" },
	{ CONF_ID_auth, "off required" },
	{ CONF_ID_log_level, "error warn info debug" },
	{ CONF_ID_log_format, "text json" },
};

static void *value_of(const struct conf *c, const struct conf_row *row)
{
	return (char *)(uintptr_t)c + row->offset;
}

const char *conf_name(enum conf_id id)
{
	return conf_rows[id].name;
}

bool conf_is_later(enum conf_id id)
{
	return conf_rows[id].later;
}

bool conf_name_is(const char *name, const char *spelled)
{
	for (; *name != '\0' && *spelled != '\0'; name++, spelled++) {
		if (*name != *spelled && !(*name == '_' && *spelled == '-'))
			return false;
	}
	return *name == *spelled;
}

const struct conf_row *conf_find(const char *spelled)
{
	for (unsigned i = 0; i < CONF_N; i++) {
		if (conf_name_is(conf_rows[i].name, spelled))
			return &conf_rows[i];
	}
	return NULL;
}

const char *conf_flag_name(const struct conf_row *row, char ret_name[static CONF_NAME_MAX])
{
	size_t i = 0;
	for (; row->name[i] != '\0' && i < CONF_NAME_MAX - 1; i++)
		ret_name[i] = row->name[i] == '_' ? '-' : row->name[i];
	ret_name[i] = '\0';
	return ret_name;
}

static void list_clear(struct conf_list *l)
{
	for (size_t i = 0; i < l->n; i++)
		free(l->item[i]);
	free(l->item);
	*l = (struct conf_list){ 0 };
}

static void list_add(struct conf_list *l, const char *s, size_t n)
{
	l->item = must_realloc(l->item, (l->n + 1) * sizeof(*l->item));
	char *item = must_calloc(1, n + 1);
	memcpy(item, s, n);
	l->item[l->n++] = item;
}

/* Items stand between commas; empty ones are skipped. */
static void list_set(struct conf_list *l, const char *value, bool first)
{
	if (first)
		list_clear(l);
	while (*value != '\0') {
		size_t n = strcspn(value, ",");
		while (n > 0 && *value == ' ') {
			value++;
			n--;
		}
		size_t end = n;
		while (end > 0 && value[end - 1] == ' ')
			end--;
		if (end > 0)
			list_add(l, value, end);
		value += n + (value[n] == ',');
	}
}

/* Decimal digits, for a SIZE with K, M or G behind them. */
static int parse_number(const struct conf_row *row, const char *s, int64_t *ret_value)
{
	bool minus = row->type == CONF_TYPE_I64 && *s == '-';
	if (!isdigit((unsigned char)s[minus]))
		return -EINVAL;
	char *end;
	errno = 0;
	long long n = strtoll(s, &end, 10);
	if (errno != 0)
		return -EINVAL;
	unsigned shift = 0;
	if (row->type == CONF_TYPE_SIZE && *end != '\0') {
		const char *unit = strchr("KMG", toupper((unsigned char)*end));
		if (unit == NULL || n > (INT64_MAX >> 30))
			return -EINVAL;
		shift = *unit == 'K' ? 10 : *unit == 'M' ? 20 : 30;
		end++;
	}
	if (*end != '\0')
		return -EINVAL;
	*ret_value = (int64_t)n * (1 << shift);
	return 0;
}

static int parse_switch(const char *s, bool *ret_value)
{
	if (strcmp(s, "on") == 0 || strcmp(s, "true") == 0 || strcmp(s, "1") == 0)
		*ret_value = true;
	else if (strcmp(s, "off") == 0 || strcmp(s, "false") == 0 || strcmp(s, "0") == 0)
		*ret_value = false;
	else
		return -EINVAL;
	return 0;
}

static const char *words_of(const struct conf_row *row)
{
	for (size_t i = 0; i < sizeof(conf_words) / sizeof(conf_words[0]); i++) {
		if (row == &conf_rows[conf_words[i].id])
			return conf_words[i].words;
	}
	return NULL;
}

static bool is_word(const char *words, const char *value)
{
	size_t n = strlen(value);
	for (const char *p = words; n > 0 && *p != '\0'; p += strcspn(p, " "), p += strspn(p, " ")) {
		if (strcspn(p, " ") == n && memcmp(p, value, n) == 0)
			return true;
	}
	return false;
}

static int fault(struct buf *out, const struct conf_row *row, const char *value, const char *right)
{
	char name[CONF_NAME_MAX];
	buf_printf(out, "--%s: '%.200s' is not %s\n", conf_flag_name(row, name),
		   conf_is_secret(row) ? "***" : value, right);
	return -EINVAL;
}

static int set_number(struct conf *c, const struct conf_row *row, const char *value, struct buf *ret_fault)
{
	static const char *const kinds[] = {
		[CONF_TYPE_SIZE] = "a size (digits, then K, M or G)", [CONF_TYPE_MS] = "a number of milliseconds",
		[CONF_TYPE_I64] = "a number", [CONF_TYPE_U64] = "a number",
	};
	char right[160];
	int64_t n;
	if (parse_number(row, value, &n) < 0)
		return fault(ret_fault, row, value, kinds[row->type]);
	if (n < row->min || n > row->max) {
		snprintf(right, sizeof(right), "within %" PRIi64 "..%" PRIi64, row->min, row->max);
		return fault(ret_fault, row, value, right);
	}
	if (row->type == CONF_TYPE_I64)
		*(int64_t *)value_of(c, row) = n;
	else
		*(uint64_t *)value_of(c, row) = (uint64_t)n;
	return 0;
}

static int set_string(struct conf *c, const struct conf_row *row, const char *value, struct buf *ret_fault)
{
	const char *words = words_of(row);
	char right[160];
	if (words != NULL && !is_word(words, value)) {
		snprintf(right, sizeof(right), "one of: %s", words);
		return fault(ret_fault, row, value, right);
	}
	char **to = value_of(c, row);
	char *copy = must_strdup(value);
	free(*to);
	*to = copy;
	return 0;
}

int conf_set_row(struct conf *c, const struct conf_row *row, const char *value, bool first, struct buf *ret_fault)
{
	for (const char *p = value; *p != '\0'; p++) {
		if ((unsigned char)*p < 0x20)
			return fault(ret_fault, row, "...", "free of control characters");
	}
	switch (row->type) {
	case CONF_TYPE_STRING:
		return set_string(c, row, value, ret_fault);
	case CONF_TYPE_LIST:
		list_set(value_of(c, row), value, first);
		return 0;
	case CONF_TYPE_FLAG:
	case CONF_TYPE_SWITCH:
		return parse_switch(value, value_of(c, row)) < 0 ? fault(ret_fault, row, value, "on or off") : 0;
	case CONF_TYPE_U64:
	case CONF_TYPE_SIZE:
	case CONF_TYPE_MS:
	case CONF_TYPE_I64:
		return set_number(c, row, value, ret_fault);
	}
	return -EINVAL;
}

int conf_set(struct conf *c, const char *name, const char *value, bool first, struct buf *ret_fault)
{
	const struct conf_row *row = conf_find(name);
	if (row == NULL) {
		conf_unknown(name, ret_fault);
		return -ENOENT;
	}
	return conf_set_row(c, row, value, first, ret_fault);
}

void conf_init(struct conf *c)
{
	struct buf none;
	buf_init(&none, 1024);
	memset(c, 0, sizeof(*c));
	c->meta_password = must_strdup("");
	for (unsigned i = 0; i < CONF_N; i++) {
		if (conf_rows[i].type == CONF_TYPE_STRING)
			*(char **)value_of(c, &conf_rows[i]) = must_strdup(conf_rows[i].def);
		else
			must(conf_set_row(c, &conf_rows[i], conf_rows[i].def, true, &none) == 0);
	}
	buf_done(&none);
}

void conf_done(struct conf *c)
{
	for (unsigned i = 0; i < CONF_N; i++) {
		if (conf_rows[i].type == CONF_TYPE_STRING)
			free(*(char **)value_of(c, &conf_rows[i]));
		else if (conf_rows[i].type == CONF_TYPE_LIST)
			list_clear(value_of(c, &conf_rows[i]));
	}
	free(c->meta_password);
	memset(c, 0, sizeof(*c));
}

static void print_size(struct buf *out, uint64_t n)
{
	static const char units[] = "\0KMG";
	unsigned u = 0;
	for (; n > 0 && n % 1024 == 0 && u < 3; u++)
		n /= 1024;
	buf_printf(out, "%" PRIu64 "%.*s", n, u > 0, &units[u]);
}

void conf_print(const struct conf *c, const struct conf_row *row, struct buf *out)
{
	const struct conf_list *l = value_of(c, row);
	switch (row->type) {
	case CONF_TYPE_STRING:
		buf_put_str(out, *(char **)value_of(c, row));
		break;
	case CONF_TYPE_LIST:
		for (size_t i = 0; i < l->n; i++)
			buf_printf(out, "%s%s", i > 0 ? "," : "", l->item[i]);
		break;
	case CONF_TYPE_FLAG:
	case CONF_TYPE_SWITCH:
		buf_put_str(out, *(bool *)value_of(c, row) ? "on" : "off");
		break;
	case CONF_TYPE_SIZE:
		print_size(out, *(uint64_t *)value_of(c, row));
		break;
	case CONF_TYPE_U64:
	case CONF_TYPE_MS:
		buf_printf(out, "%" PRIu64, *(uint64_t *)value_of(c, row));
		break;
	case CONF_TYPE_I64:
		buf_printf(out, "%" PRIi64, *(int64_t *)value_of(c, row));
		break;
	}
	buf_put_u8(out, 0);
}

bool conf_same(const struct conf *a, const struct conf *b, enum conf_id id)
{
	struct buf x, y;
	buf_init(&x, 65536);
	buf_init(&y, 65536);
	conf_print(a, &conf_rows[id], &x);
	conf_print(b, &conf_rows[id], &y);
	bool same = slice_eq(buf_slice(&x), buf_slice(&y));
	buf_done(&x);
	buf_done(&y);
	return same;
}
