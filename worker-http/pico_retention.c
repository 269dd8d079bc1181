/* SPDX-License-Identifier: Apache-2.0
 *
 * A number is passed on as the text that came, so the same header again is the same config.
 */
#include "worker-http/pico_retention.h"

#include <inttypes.h>
#include <stdlib.h>

#include "worker-http/query.h"

static const struct {
	const char *header, *lower, *member, *setting;
	char *config;
} retentions[PICO_RETENTIONS] = {
	[PICO_RETENTION_MS] = { "Pico-Retention-Ms", "pico-retention-ms", "retention_ms", "retentionMs", "retention.ms" },
	[PICO_RETENTION_BYTES] = { "Pico-Retention-Bytes", "pico-retention-bytes", "retention_bytes", "retentionBytes",
				   "retention.bytes" },
};

static bool is_retention(struct slice s)
{
	uint64_t n;
	return slice_is(s, "-1") || (strict_u64(s, &n) && n <= INT64_MAX);
}

static void set_value(struct pico_retention *x, size_t i, struct slice s)
{
	memcpy(x->value[i], s.p, s.n);
	x->value[i][s.n] = '\0';
}

/* How many entries there are. */
static size_t fill_entries(struct pico_retention *x)
{
	size_t n = 0;
	for (size_t i = 0; i < PICO_RETENTIONS; i++) {
		if (x->value[i][0] == '\0')
			continue;
		ipc__config_entry__init(&x->entry[i]);
		x->entry[i].name = retentions[i].config;
		x->entry[i].value = x->value[i];
		x->pointer[n++] = &x->entry[i];
	}
	return n;
}

bool pico_take_retention(struct request *r, struct pico_retention *x, Ipc__CreateRequest *m)
{
	for (size_t i = 0; i < PICO_RETENTIONS; i++) {
		struct slice s = request_field(r, retentions[i].lower);
		if (s.n == 0)
			continue;
		if (!is_retention(s)) {
			answer_bad_request(r, "%s must be a number without leading zeros, or -1 to keep all", retentions[i].header);
			return false;
		}
		set_value(x, i, s);
	}
	m->config = x->pointer;
	m->n_config = fill_entries(x);
	return true;
}

/* False: the topic follows the node's default. */
static bool find(const Ipc__Topic *t, const char *config, int64_t *ret)
{
	for (size_t i = 0; i < t->n_config; i++) {
		if (strcmp(t->config[i]->name, config) != 0)
			continue;
		*ret = strtoll(t->config[i]->value, NULL, 10);
		return true;
	}
	return false;
}

void pico_retention_fields(struct request *r, const Ipc__Topic *t)
{
	int64_t value;
	for (size_t i = 0; i < PICO_RETENTIONS; i++)
		if (find(t, retentions[i].config, &value))
			buf_printf(&r->answer.fields, "%s: %" PRId64 "\r\n", retentions[i].header, value);
}

void pico_retention_json(struct buf *out, const Ipc__Topic *t)
{
	int64_t value;
	for (size_t i = 0; i < PICO_RETENTIONS; i++)
		if (find(t, retentions[i].config, &value))
			buf_printf(out, ",\"%s\":%" PRId64, retentions[i].member, value);
}

/* ------------------------------------------------------------------ settings */

bool pico_set_retention(struct request *r, struct pico_retention *x, enum pico_retention_kind kind, enum json_token token,
			struct slice value)
{
	x->clears[kind] = token == JSON_NULL;
	x->value[kind][0] = '\0';
	if (token == JSON_NULL)
		return true;
	if (token == JSON_NUMBER && is_retention(value)) {
		set_value(x, kind, value);
		return true;
	}
	answer_bad_request(r, "%s must be a whole number, -1 to keep all, or null for what the node says", retentions[kind].setting);
	return false;
}

bool pico_sets_retention(const struct pico_retention *x)
{
	bool any = false;
	for (size_t i = 0; i < PICO_RETENTIONS; i++)
		any |= x->clears[i] || x->value[i][0] != '\0';
	return any;
}

void pico_retention_update(struct pico_retention *x, Ipc__UpdateRequest *m)
{
	m->config = x->pointer;
	m->n_config = fill_entries(x);
	m->config_delete = x->cleared;
	for (size_t i = 0; i < PICO_RETENTIONS; i++)
		if (x->clears[i])
			x->cleared[m->n_config_delete++] = retentions[i].config;
}

void pico_retention_settings(struct buf *out, const Ipc__Topic *t)
{
	int64_t value;
	for (size_t i = 0; i < PICO_RETENTIONS; i++) {
		buf_printf(out, ",\"%s\":", retentions[i].setting);
		if (find(t, retentions[i].config, &value))
			buf_printf(out, "%" PRId64, value);
		else
			buf_put_str(out, "null");
	}
}
