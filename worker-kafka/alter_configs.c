/* SPDX-License-Identifier: Apache-2.0
 *
 * AlterConfigs, versions 0 to 2 (2: compact), and IncrementalAlterConfigs, 0 and 1 (1: compact; KIP-339): one change of
 * settings a topic, whole or not at all, one after the other. The older one replaces everything: what it does not name has
 * its default again. Options of a node are its configuration's and are not altered from here.
 */
#include "worker-kafka/api.h"

#include <stdlib.h>

#include "common/topic_config.h"
#include "common/topic_name.h"
#include "worker-kafka/ask_topics.h"

enum operation { OPERATION_SET, OPERATION_DELETE, OPERATION_APPEND, OPERATION_SUBTRACT };

/* One resource of either API. */
struct change {
	int8_t type;
	struct slice name;
	uint32_t n_configs;
	Ipc__UpdateRequest *update;     /* NULL: refused already */
	enum kafka_error error;
	struct slice text;              /* p == NULL: none */
};

struct alter {
	bool incremental, validate_only;
	struct change *change;
	uint32_t n, at;
};

static void fail(struct change *c, enum kafka_error error, const char *text)
{
	c->error = error;
	c->text = slice_str(text);
	c->update = NULL;
}

/* ------------------------------------------------------------------ answers */

/* The answers of both APIs are the same field by field; which one is written is the request's. */
_Static_assert(sizeof(struct kmsg_alter_configs_response) == sizeof(struct kmsg_incremental_alter_configs_response) &&
	       sizeof(struct kmsg_alter_configs_response_resource) ==
	       sizeof(struct kmsg_incremental_alter_configs_response_resource), "alike");

static void alter_end(struct request *r)
{
	const struct alter *d = r->state;
	struct kmsg_alter_configs_response *m = KMSG_NEW(&r->region, alter_configs_response, 1);
	struct kmsg_alter_configs_response_resource *to = KMSG_NEW(&r->region, alter_configs_response_resource, d->n);
	if (m == NULL || to == NULL) {
		request_close(r, "memory");
		return;
	}
	m->responses = to;
	m->n_responses = d->n;
	for (uint32_t i = 0; i < d->n; i++) {
		to[i].error_code = (int16_t)d->change[i].error;
		to[i].error_message = d->change[i].text;
		to[i].resource_type = d->change[i].type;
		to[i].resource_name = d->change[i].name;
	}
	request_answer(r, m);
}

/* ------------------------------------------------------------------ changes, one after the other */

static void alter_next(struct request *r);

static void on_updated(struct request *r, const struct pico_error *e, const ProtobufCMessage *m, struct topics_pieces *pieces)
{
	struct alter *d = r->state;
	struct change *c = &d->change[d->at++];
	const Ipc__UpdateAnswer *a = (const Ipc__UpdateAnswer *)m;
	if (e->kind == PICO_BAD_REQUEST)
		c->error = KAFKA_INVALID_CONFIG;
	else if (e->kind != PICO_OK)
		c->error = error_of(r, e->kind, ERROR_OF_TOPICS);
	if (e->kind != PICO_OK)
		c->text = region_copy(&r->region, slice_str(e->message));
	else if (a->topic != NULL)
		topic_cache_put(r->server->cache, a->topic);
	alter_next(r);
}

static void alter_next(struct request *r)
{
	struct alter *d = r->state;
	while (d->at < d->n && d->change[d->at].update == NULL)
		d->at++;
	if (d->at == d->n)
		alter_end(r);
	else
		request_call(r, IPC_UPDATE, &d->change[d->at].update->base, NO_PAYLOAD, request_deadline(r, 0), on_updated);
}

/* ------------------------------------------------------------------ what a change is */

static bool set(struct request *r, Ipc__UpdateRequest *u, struct slice name, struct slice value)
{
	Ipc__ConfigEntry *entry = REQUEST_NEW(r, Ipc__ConfigEntry, 1);
	if (entry == NULL)
		return false;
	ipc__config_entry__init(entry);
	entry->name = request_string(r, name);
	entry->value = request_string(r, value);
	u->config[u->n_config++] = entry;
	return entry->name != NULL && entry->value != NULL;
}

static void reset(Ipc__UpdateRequest *u, const char *name)
{
	u->config_delete[u->n_config_delete++] = (char *)(uintptr_t)name;
}

/* An update of the topic with room for n configs set and n_delete reset. */
static Ipc__UpdateRequest *update_new(struct request *r, const Ipc__Topic *topic, size_t n, size_t n_delete)
{
	const struct alter *d = r->state;
	Ipc__UpdateRequest *u = REQUEST_NEW(r, Ipc__UpdateRequest, 1);
	Ipc__TopicRef *ref = REQUEST_NEW(r, Ipc__TopicRef, 1);
	struct slice id = region_copy(&r->region, slice_of(topic->topic_id.data, topic->topic_id.len));
	if (u == NULL || ref == NULL || id.p == NULL)
		return NULL;
	ipc__update_request__init(u);
	ipc__topic_ref__init(ref);
	ref->topic_id = (ProtobufCBinaryData){ .len = id.n, .data = (uint8_t *)(uintptr_t)id.p };
	u->topic = ref;
	u->validate_only = d->validate_only;
	u->config = REQUEST_NEW(r, Ipc__ConfigEntry *, n);
	u->config_delete = REQUEST_NEW(r, char *, n_delete);
	return u->config != NULL && u->config_delete != NULL ? u : NULL;
}

static bool whole_change(struct request *r, const struct kmsg_alter_configs_request_resource *of, const Ipc__Topic *topic,
			 struct change *c)
{
	bool good = (c->update = update_new(r, topic, of->n_configs, TOPIC_CONFIG_N)) != NULL;
	bool named[TOPIC_CONFIG_N] = { false };
	for (uint32_t i = 0; i < of->n_configs && good; i++) {
		const char *name = request_string(r, of->configs[i].name);
		const struct topic_config *row = name != NULL ? topic_config_find(name) : NULL;
		if (of->configs[i].value.p == NULL)
			continue;       /* its default, as if it were not named */
		if (row != NULL)
			named[row - topic_configs] = true;
		good = set(r, c->update, of->configs[i].name, of->configs[i].value);
	}
	for (size_t i = 0; i < TOPIC_CONFIG_N && good; i++)
		if (!named[i])
			reset(c->update, topic_configs[i].name);
	return good;
}

static struct slice value_now(struct request *r, const Ipc__Topic *topic, const struct topic_config *row)
{
	char def[TOPIC_CONFIG_DEFAULT_MAX];
	for (size_t i = 0; i < topic->n_config; i++)
		if (strcmp(topic->config[i]->name, row->name) == 0)
			return slice_str(topic->config[i]->value);
	topic_config_default(row, r->server->conf, def);
	return region_copy(&r->region, slice_str(def));
}

static struct slice next_item(struct slice *list)
{
	const uint8_t *comma = list->n > 0 ? memchr(list->p, ',', list->n) : NULL;
	struct slice item = slice_of(list->p, comma != NULL ? (size_t)(comma - list->p) : list->n);
	size_t n = item.n + (comma != NULL);
	*list = slice_of(list->p + n, list->n - n);
	return item;
}

static bool list_has(struct slice list, struct slice item)
{
	while (list.n > 0)
		if (slice_eq(next_item(&list), item))
			return true;
	return false;
}

/* The items of `from` that are not in `without`, behind what stands in out. */
static void add_items(struct buf *out, struct slice from, struct slice without)
{
	while (from.n > 0) {
		struct slice item = next_item(&from);
		if (item.n == 0 || list_has(without, item))
			continue;
		if (buf_len(out) > 0)
			buf_put(out, ",", 1);
		buf_put(out, item.p, item.n);
	}
}

/* The list that a topic has, with items more or less. p == NULL: there is no room. */
static struct slice changed_list(struct request *r, enum operation operation, struct slice now, struct slice items)
{
	struct buf out;
	buf_init(&out, now.n + items.n + 2);
	add_items(&out, now, operation == OPERATION_SUBTRACT ? items : slice_str(""));
	if (operation == OPERATION_APPEND)
		add_items(&out, items, now);
	struct slice list = region_copy(&r->region, buf_slice(&out));
	buf_done(&out);
	return list;
}

/* False: there is no room. */
static bool one_change(struct request *r, const struct kmsg_incremental_alter_configs_request_config *k,
		       const Ipc__Topic *topic, struct change *c)
{
	const char *name = request_string(r, k->name);
	const struct topic_config *row = name != NULL ? topic_config_find(name) : NULL;
	if (name == NULL)
		return false;
	if (k->config_operation < OPERATION_SET || k->config_operation > OPERATION_SUBTRACT)
		fail(c, KAFKA_INVALID_REQUEST, "a config is set, deleted, appended to or subtracted from");
	else if (k->config_operation == OPERATION_DELETE && row == NULL)
		fail(c, KAFKA_INVALID_CONFIG, "a config that no topic has");
	else if (k->config_operation == OPERATION_DELETE)
		reset(c->update, row->name);
	else if (k->value.p == NULL)
		fail(c, KAFKA_INVALID_REQUEST, "a config has a value unless it is deleted");
	else if (k->config_operation == OPERATION_SET || row == NULL)
		return set(r, c->update, k->name, k->value);    /* who is unknown is refused there, by name */
	else if (row->type != TOPIC_CONFIG_LIST)
		fail(c, KAFKA_INVALID_CONFIG, "only a list is appended to or subtracted from");
	else
		return set(r, c->update, k->name,
			   changed_list(r, (enum operation)k->config_operation, value_now(r, topic, row), k->value));
	return true;
}

static int by_name(const void *a, const void *b)
{
	return slice_cmp(*(const struct slice *)a, *(const struct slice *)b);
}

/* Whether two of the names are the same. They end up sorted. */
static bool names_repeat(struct slice *name, size_t n)
{
	if (n > 1)
		qsort(name, n, sizeof(*name), by_name);
	for (size_t i = 1; i < n; i++)
		if (slice_eq(name[i - 1], name[i]))
			return true;
	return false;
}

static bool incremental_change(struct request *r, const struct kmsg_incremental_alter_configs_request_resource *of,
			       const Ipc__Topic *topic, struct change *c)
{
	struct slice *name = REQUEST_NEW(r, struct slice, of->n_configs);
	bool good = name != NULL && (c->update = update_new(r, topic, of->n_configs, of->n_configs)) != NULL;
	for (uint32_t i = 0; i < of->n_configs && good; i++)
		name[i] = of->configs[i].name;
	if (good && names_repeat(name, of->n_configs))
		fail(c, KAFKA_INVALID_REQUEST, "a config is named twice");
	for (uint32_t i = 0; i < of->n_configs && good && c->update != NULL; i++)
		good = one_change(r, &of->configs[i], topic, c);
	return good;
}

/* ------------------------------------------------------------------ topics */

static void topic_name(struct request *r, size_t i, struct slice *ret_name, const uint8_t **ret_id)
{
	*ret_name = ((const struct alter *)r->state)->change[i].name;
}

static bool topic_take(struct request *r, size_t i, enum pico_error_kind kind, const Ipc__Topic *topic)
{
	const struct alter *d = r->state;
	struct change *c = &d->change[i];
	if (topic == NULL) {
		fail(c, error_of(r, kind, ERROR_OF_TOPICS), kind == PICO_NOT_FOUND ? "no such topic" : "try again");
		return true;
	}
	if (d->incremental)
		return incremental_change(r, &((const struct kmsg_incremental_alter_configs_request *)r->message)->resources[i],
					  topic, c);
	return whole_change(r, &((const struct kmsg_alter_configs_request *)r->message)->resources[i], topic, c);
}

/* ------------------------------------------------------------------ begin */

/* Whether storaged is asked for the topic; else the change has its error. */
static bool is_for_storaged(struct change *c)
{
	c->text = slice_of(NULL, 0);
	if (c->error != KAFKA_NONE)
		c->text = slice_str("the resource is named twice");
	else if (c->type == KAFKA_RESOURCE_BROKER)
		fail(c, KAFKA_INVALID_REQUEST, "options of a node stand in its configuration; change them there and reload");
	else if (c->type != KAFKA_RESOURCE_TOPIC)
		fail(c, KAFKA_INVALID_REQUEST, "topics have configs that can be altered");
	else if (!topic_alias_is_legal(c->name))
		fail(c, KAFKA_INVALID_TOPIC_EXCEPTION, "a topic name is 1 to 249 of A-Z a-z 0-9 . _ -");
	else if (c->n_configs > TOPIC_CONFIG_N)
		fail(c, KAFKA_INVALID_CONFIG, "there are not so many configs");
	return c->error == KAFKA_NONE;
}

static int by_resource(const void *a, const void *b)
{
	const struct change *x = *(struct change *const *)a, *y = *(struct change *const *)b;
	return x->type != y->type ? (x->type < y->type ? -1 : 1) : slice_cmp(x->name, y->name);
}

/* Those that are named more than once are refused: in which order would they hold? */
static bool find_twice(struct request *r)
{
	const struct alter *d = r->state;
	struct change **sorted = REQUEST_NEW(r, struct change *, d->n);
	if (sorted == NULL)
		return false;
	for (uint32_t i = 0; i < d->n; i++)
		sorted[i] = &d->change[i];
	if (d->n > 1)
		qsort(sorted, d->n, sizeof(sorted[0]), by_resource);
	for (uint32_t i = 1; i < d->n; i++)
		if (by_resource(&sorted[i - 1], &sorted[i]) == 0)
			sorted[i - 1]->error = sorted[i]->error = KAFKA_INVALID_REQUEST;
	return true;
}

static void alter_begin(struct request *r)
{
	static const struct topics_question question = { topic_name, topic_take, alter_next };
	const struct alter *d = r->state;
	size_t *asked = REQUEST_NEW(r, size_t, d->n), n = 0;
	if (asked == NULL || !find_twice(r)) {
		request_close(r, "memory");
		return;
	}
	for (uint32_t i = 0; i < d->n; i++)
		if (is_for_storaged(&d->change[i]))
			asked[n++] = i;
	ask_topics(r, &question, asked, n);
}

static bool alter_new(struct request *r, bool incremental, bool validate_only, uint32_t n)
{
	struct alter *d = r->state = REQUEST_NEW(r, struct alter, 1);
	if (d == NULL || (d->change = REQUEST_NEW(r, struct change, n)) == NULL) {
		request_close(r, "memory");
		return false;
	}
	d->incremental = incremental;
	d->validate_only = validate_only;
	d->n = n;
	return true;
}

void alter_configs_handle(struct request *r)
{
	const struct kmsg_alter_configs_request *q = r->message;
	if (!alter_new(r, false, q->validate_only, q->n_resources))
		return;
	for (uint32_t i = 0; i < q->n_resources; i++)
		((struct alter *)r->state)->change[i] = (struct change){
			.type = q->resources[i].resource_type,
			.name = q->resources[i].resource_name,
			.n_configs = q->resources[i].n_configs,
		};
	alter_begin(r);
}

void incremental_alter_configs_handle(struct request *r)
{
	const struct kmsg_incremental_alter_configs_request *q = r->message;
	if (!alter_new(r, true, q->validate_only, q->n_resources))
		return;
	for (uint32_t i = 0; i < q->n_resources; i++)
		((struct alter *)r->state)->change[i] = (struct change){
			.type = q->resources[i].resource_type,
			.name = q->resources[i].resource_name,
			.n_configs = q->resources[i].n_configs,
		};
	alter_begin(r);
}
