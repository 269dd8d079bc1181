/* SPDX-License-Identifier: Apache-2.0
 *
 * What is known of a log only when it is loaded: how much of it is kept, and who wrote to it.
 */
#include <stdlib.h>

#include "common/must.h"
#include "storaged/engine/engine_describe.h"
#include "storaged/engine/kafka_producer.h"
#include "storaged/engine/log_load.h"

struct describe {
	struct engine_describe *asked;
	struct load_wait load;
	struct log *log;                /* one ref */
};

static void describe_free(struct describe *d)
{
	load_wait_stop(&d->load);
	d->asked->impl = NULL;
	log_unref(d->log);
	free(d);
}

static void on_loaded(struct load_wait *w, const struct pico_error *error)
{
	struct describe *d = (struct describe *)((char *)w - offsetof(struct describe, load));
	struct engine_describe *asked = d->asked;
	struct log *log = d->log;
	struct pico_error gone;
	log_table_ref(&asked->engine->logs, log); /* loaded until it was looked at */
	describe_free(d);
	if (error == NULL && !log_is_ready(log)) { /* it was removed meanwhile */
		pico_error_set(&gone, PICO_NOT_FOUND, "the stream was deleted");
		error = &gone;
	}
	asked->on_done(asked, error);
	log_unref(log);
}

void engine_describe(struct engine *e, struct engine_describe *asked)
{
	struct describe *d = must_calloc(1, sizeof(*d));
	*d = (struct describe){ .asked = asked, .log = asked->log, .load.on_loaded = on_loaded };
	asked->engine = e;
	asked->impl = d;
	log_table_ref(&e->logs, d->log);
	if (log_load(e, d->log, &d->load))
		on_loaded(&d->load, NULL);
}

void engine_describe_cancel(struct engine_describe *asked)
{
	if (asked->impl != NULL)
		describe_free(asked->impl);
}

uint64_t log_kept_bytes(const struct log *log)
{
	const struct log_state *s = &log->open->submitted;
	must(log_is_ready(log));
	if (log->start == 0 || s->next == 0)
		return s->bytes;
	uint64_t kept = s->next > log->start ? s->next - log->start : 0;
	return (uint64_t)((unsigned __int128)s->bytes * kept / s->next);
}

/* The newest batch of it that is durable; NULL: none of those that are known. */
static const struct kafka_written *newest_durable(const struct log *log, const struct kafka_producer *p)
{
	const struct kafka_written *newest = NULL;
	for (unsigned i = 0; i < p->n_written; i++)
		if (p->written[i].base < log_confirm(log) && (newest == NULL || p->written[i].base > newest->base))
			newest = &p->written[i];
	return newest;
}

bool log_kafka_writer(const struct log *log, int64_t now_ms, size_t *at, struct log_writer *ret)
{
	must(log_is_ready(log));
	const struct log_extra *extra = log->open->submitted.extra;
	while (extra != NULL && *at < extra->kafka.n) {
		const struct kafka_producer *p = &extra->kafka.entries[(*at)++];
		const struct kafka_written *w = newest_durable(log, p);
		if (w == NULL || now_ms - p->used_ms > KAFKA_PRODUCER_IDLE_MS)
			continue;
		*ret = (struct log_writer){ p->id, p->epoch, w->last, p->used_ms };
		return true;
	}
	return false;
}
