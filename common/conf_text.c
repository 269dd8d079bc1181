/* SPDX-License-Identifier: Apache-2.0
 *
 * The configuration as text: `key = value` lines in and out, --help, --show-config, and the line about
 * a name that is none. conf_write() and conf_read() are each other's inverse, but for secrets.
 */
#include "common/conf.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <strings.h>

#include "common/conf_row.h"

#define TEXT_MAX 65536

/* Names that other implementations of the protocol use for the same thing. */
static const struct {
	const char *old, *now;
} old_names[] = {
	{ "long_poll_timeout_sec", "is --long-poll-timeout-ms now, in milliseconds" },
	{ "sse_max_duration_sec", "is --sse-max-duration-ms now, in milliseconds" },
	{ "shutdown_drain_sec", "is --shutdown-drain-ms now, in milliseconds" },
	{ "node_epoch", "is gone: --node-id is enough, the epoch is counted in the metadata" },
};

bool conf_is_secret(const struct conf_row *row)
{
	return row == &conf_rows[CONF_ID_auth_bootstrap_token];
}

static size_t min3(size_t a, size_t b, size_t c)
{
	size_t m = a < b ? a : b;
	return m < c ? m : c;
}

/* Edits (insert, delete, replace) between two names; '_' and '-' are the same. */
static size_t distance(const char *a, const char *b)
{
	size_t row[CONF_NAME_MAX + 1], n = strlen(b);
	if (n > CONF_NAME_MAX)
		return SIZE_MAX;
	for (size_t k = 0; k <= n; k++)
		row[k] = k;
	for (size_t i = 1; a[i - 1] != '\0'; i++) {
		size_t diagonal = row[0];
		row[0] = i;
		for (size_t k = 1; k <= n; k++) {
			char x = a[i - 1] == '-' ? '_' : a[i - 1], y = b[k - 1] == '-' ? '_' : b[k - 1];
			size_t above = row[k];
			row[k] = min3(above + 1, row[k - 1] + 1, diagonal + (x != y));
			diagonal = above;
		}
	}
	return row[n];
}

const struct conf_row *conf_nearest(const char *spelled)
{
	const struct conf_row *nearest = NULL;
	size_t best = strlen(spelled) / 3 + 1;
	for (unsigned i = 0; i < CONF_N; i++) {
		size_t d = distance(spelled, conf_rows[i].name);
		if (d < best) {
			best = d;
			nearest = &conf_rows[i];
		}
	}
	return nearest;
}

void conf_unknown(const char *spelled, struct buf *out)
{
	char name[CONF_NAME_MAX];
	const struct conf_row *nearest = conf_nearest(spelled);
	for (size_t i = 0; i < sizeof(old_names) / sizeof(old_names[0]); i++) {
		if (conf_name_is(old_names[i].old, spelled)) {
			buf_printf(out, "--%s %s\n", spelled, old_names[i].now);
			return;
		}
	}
	buf_printf(out, "--%.100s: there is no such option", spelled);
	if (nearest != NULL)
		buf_printf(out, "; did you mean --%s?\n", conf_flag_name(nearest, name));
	else
		buf_put_str(out, "; see pico serve --help\n");
}

static struct slice trim(struct slice s)
{
	while (s.n > 0 && isspace(s.p[0])) {
		s.p++;
		s.n--;
	}
	while (s.n > 0 && isspace(s.p[s.n - 1]))
		s.n--;
	return s;
}

static struct slice take_line(struct slice *text)
{
	const uint8_t *nl = memchr(text->p, '\n', text->n);
	size_t n = nl != NULL ? (size_t)(nl - text->p) : text->n;
	struct slice line = slice_of(text->p, n);
	n += nl != NULL;
	text->p += n;
	text->n -= n;
	return trim(line);
}

/* A value behind its opening quote; what follows the closing one may only be a comment. */
static int unquote(struct slice s, struct conf_pair *ret)
{
	size_t out = 0, i = 1;
	for (; i < s.n && s.p[i] != '"'; i++) {
		i += s.p[i] == '\\' && i + 1 < s.n;
		if (out + 1 >= sizeof(ret->value))
			return -EINVAL;
		ret->value[out++] = (char)s.p[i];
	}
	ret->value[out] = '\0';
	if (i >= s.n)
		return -EINVAL;
	struct slice rest = trim(slice_of(s.p + i + 1, s.n - i - 1));
	return rest.n == 0 || rest.p[0] == '#' ? 0 : -EINVAL;
}

static int plain_value(struct slice s, struct conf_pair *ret)
{
	for (size_t i = 0; i + 1 < s.n; i++) {
		if (isspace(s.p[i]) && s.p[i + 1] == '#')
			s.n = i;
	}
	if (s.n > 0 && s.p[0] == '#')
		s.n = 0;
	s = trim(s);
	if (s.n >= sizeof(ret->value) || memchr(s.p, 0, s.n) != NULL)
		return -EINVAL;
	memcpy(ret->value, s.p, s.n);
	ret->value[s.n] = '\0';
	return 0;
}

int conf_next(struct slice *text, struct conf_pair *ret_pair)
{
	struct slice line;
	do {
		if (text->n == 0)
			return 0;
		line = take_line(text);
	} while (line.n == 0 || line.p[0] == '#');
	const uint8_t *eq = memchr(line.p, '=', line.n);
	if (eq == NULL)
		return -EINVAL;
	struct slice key = trim(slice_of(line.p, (size_t)(eq - line.p)));
	struct slice value = trim(slice_of(eq + 1, line.n - (size_t)(eq + 1 - line.p)));
	if (key.n == 0 || key.n >= sizeof(ret_pair->key) || memchr(key.p, 0, key.n) != NULL)
		return -EINVAL;
	memcpy(ret_pair->key, key.p, key.n);
	ret_pair->key[key.n] = '\0';
	int err = value.n > 0 && value.p[0] == '"' ? unquote(value, ret_pair) : plain_value(value, ret_pair);
	return err < 0 ? err : 1;
}

void conf_write_pair(struct buf *out, const char *key, const char *value)
{
	buf_printf(out, "%s = \"", key);
	for (; *value != '\0'; value++) {
		if (*value == '"' || *value == '\\')
			buf_put_u8(out, '\\');
		buf_put_u8(out, (uint8_t)*value);
	}
	buf_put_str(out, "\"\n");
}

void conf_write(const struct conf *c, struct buf *out)
{
	struct buf value;
	buf_init(&value, TEXT_MAX);
	for (unsigned i = 0; i < CONF_N; i++) {
		if (conf_is_secret(&conf_rows[i]))
			continue;
		buf_reset(&value, TEXT_MAX);
		conf_print(c, &conf_rows[i], &value);
		if (!value.failed)
			conf_write_pair(out, conf_rows[i].name, (const char *)buf_head(&value));
	}
	buf_done(&value);
}

int conf_read(struct conf *c, struct slice text, struct buf *faults)
{
	struct conf_pair pair;
	int n_faults = 0, n;
	while ((n = conf_next(&text, &pair)) != 0) {
		if (n < 0)
			buf_put_str(faults, "a line is not key = value\n");
		if (n < 0 || conf_set(c, pair.key, pair.value, true, faults) < 0)
			n_faults++;
	}
	return n_faults;
}

static const char *argument_name(enum conf_type type)
{
	switch (type) {
	case CONF_TYPE_STRING: return " TEXT";
	case CONF_TYPE_LIST: return " TEXT[,...]";
	case CONF_TYPE_FLAG: return "";
	case CONF_TYPE_SWITCH: return " on|off";
	case CONF_TYPE_U64: return " N";
	case CONF_TYPE_SIZE: return " SIZE";
	case CONF_TYPE_MS: return " MS";
	case CONF_TYPE_I64: return " N";
	}
	return "";
}

void conf_help(struct buf *out)
{
	char name[CONF_NAME_MAX], left[128];
	for (unsigned i = 0; i < CONF_N; i++) {
		const struct conf_row *row = &conf_rows[i];
		snprintf(left, sizeof(left), "--%s%s", conf_flag_name(row, name), argument_name(row->type));
		buf_printf(out, "  %-36s %s", left, row->help);
		if (row->def[0] != '\0' && row->type != CONF_TYPE_FLAG)
			buf_printf(out, " [%s]", row->def);
		buf_put_str(out, row->later ? " (no effect yet)\n" : "\n");
	}
}

void conf_show(const struct conf *c, const struct conf_origins *o, struct buf *out)
{
	static const char *const origins[] = { "default", "file", "environment", "flag" };
	struct buf value;
	buf_init(&value, TEXT_MAX);
	for (unsigned i = 0; i < CONF_N; i++) {
		buf_reset(&value, TEXT_MAX);
		conf_print(c, &conf_rows[i], &value);
		const char *text = value.failed ? "" : (const char *)buf_head(&value);
		if (conf_is_secret(&conf_rows[i]) && text[0] != '\0')
			text = "***";
		buf_printf(out, "%s = %s  # %s\n", conf_rows[i].name, text, origins[o->of[i]]);
		if (i == CONF_ID_meta_url && c->meta_password[0] != '\0')
			buf_put_str(out, "# its password = ***\n");
	}
	buf_done(&value);
}
