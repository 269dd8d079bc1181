/* SPDX-License-Identifier: Apache-2.0
 *
 * A number is passed on as the text that came, so the same header again is the same config.
 */
#include "worker-http/pico_retention.h"

#include <inttypes.h>
#include <stdlib.h>

#include "worker-http/query.h"

static const struct {
	const char *header, *lower, *member;
	char *config;
} retentions[PICO_RETENTIONS] = {
	{ "Pico-Retention-Ms", "pico-retention-ms", "retention_ms", "retention.ms" },
	{ "Pico-Retention-Bytes", "pico-retention-bytes", "retention_bytes", "retention.bytes" },
};

static bool is_retention(struct slice s)
{
	uint64_t n;
	return slice_is(s, "-1") || (strict_u64(s, &n) && n <= INT64_MAX);
}

bool pico_take_retention(struct request *r, struct pico_retention *x, Ipc__CreateRequest *m)
{
	m->config = x->pointer;
	m->n_config = 0;
	for (size_t i = 0; i < PICO_RETENTIONS; i++) {
		struct slice s = request_field(r, retentions[i].lower);
		if (s.n == 0)
			continue;
		if (!is_retention(s)) {
			answer_bad_request(r, "%s must be a number without leading zeros, or -1 to keep all", retentions[i].header);
			return false;
		}
		memcpy(x->value[i], s.p, s.n);
		x->value[i][s.n] = '\0';
		ipc__config_entry__init(&x->entry[i]);
		x->entry[i].name = retentions[i].config;
		x->entry[i].value = x->value[i];
		m->config[m->n_config++] = &x->entry[i];
	}
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
