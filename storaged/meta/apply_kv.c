/* SPDX-License-Identifier: Apache-2.0
 *
 * PutKv and DeleteKv. A version that does not fit is CONFLICT and changes nothing; a delete of what is not there is as done.
 */
#include <inttypes.h>

#include "common/must.h"
#include "storaged/meta/apply.h"

static bool version_fits(const struct kv_entry *e, bool check, uint64_t version, const char *key, Meta__Result__One *one)
{
	uint64_t stands = e == NULL ? 0 : e->version;
	if (!check || version == stands)
		return true;
	apply_refuse(one, PICO_CONFLICT, "%s has version %" PRIu64 ", not %" PRIu64, key, stands, version);
	return false;
}

static bool put_is_good(const struct state *s, const Meta__PutKv *p, Meta__Result__One *one)
{
	const char *fault = kv_key_fault(p->key);
	if (fault != NULL)
		apply_refuse(one, PICO_BAD_REQUEST, "%s", fault);
	else if (p->value.len > KV_VALUE_MAX)
		apply_refuse(one, PICO_TOO_LARGE, "a value has at most %u bytes, not %zu", KV_VALUE_MAX, p->value.len);
	else if (!kv_takes(&s->kv, p->key, p->value.len))
		apply_refuse(one, PICO_THROTTLED, "%zu keys with %zu bytes are stored: delete some first", s->kv.n, s->kv.bytes);
	return one->error == PICO_OK;
}

void apply_put_kv(struct state *s, const struct sql_row *row, const Meta__Command *c, Meta__Result__One *one)
{
	const Meta__PutKv *p = c->put_kv;
	struct kv_entry *old = kv_find(&s->kv, slice_str(p->key));
	if (!put_is_good(s, p, one) || !version_fits(old, p->check, p->version, p->key, one))
		return;
	one->created = old == NULL;
	if (old != NULL)
		snapshot_save_kv(s, old);
	kv_put(&s->kv, p->key, slice_of(p->value.data, p->value.len), s->kv.version + 1, row->idx);
	one->kv_version = s->kv.version;
}

void apply_delete_kv(struct state *s, const struct sql_row *row, const Meta__Command *c, Meta__Result__One *one)
{
	const Meta__DeleteKv *d = c->delete_kv;
	struct kv_entry *old = kv_find(&s->kv, slice_str(d->key));
	if (old == NULL || !version_fits(old, d->check, d->version, d->key, one))
		return;
	one->created = true;    /* it was there */
	snapshot_save_kv(s, old);
	state_remember_deleted(s, (struct state_deleted){
		.idx = row->idx, .kind = DELETED_KV, .kv_key = must_strdup(d->key) });
	kv_delete(&s->kv, old, s->kv.version + 1);
	one->kv_version = s->kv.version;
}
