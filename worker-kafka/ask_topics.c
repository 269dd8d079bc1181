/* SPDX-License-Identifier: Apache-2.0 */
#include "worker-kafka/ask_topics.h"

#include "worker-kafka/api.h"

#define PAGE 10000                      /* topics in one question */

struct asking {
	const struct topics_question *q;
	size_t *open;                   /* not answered yet */
	size_t n_open;
	size_t n_page;                  /* of them in the question under way */
};

static void ask_page(struct request *r);

static enum pico_error_kind kind_of(const struct pico_error *e, const Ipc__GetManyAnswer__One *one)
{
	if (e->kind != PICO_OK)
		return e->kind;
	if (one != NULL && one->error != NULL)
		return (enum pico_error_kind)one->error->kind;
	return one != NULL && one->topic != NULL ? PICO_OK : PICO_UNAVAILABLE;
}

/* What the answer says of its page, but for those that it had no room for. */
static bool take_page(struct request *r, const struct pico_error *e, const Ipc__GetManyAnswer *answer)
{
	struct asking *a = r->asking;
	bool good = true;
	size_t n = 0;
	for (size_t i = 0; i < a->n_open && good; i++) {
		const Ipc__GetManyAnswer__One *one =
			answer != NULL && i < a->n_page && i < answer->n_one ? answer->one[i] : NULL;
		enum pico_error_kind kind = kind_of(e, one);
		if ((i >= a->n_page && e->kind == PICO_OK) || kind == PICO_THROTTLED)
			a->open[n++] = a->open[i];
		else
			good = a->q->take(r, a->open[i], kind, kind == PICO_OK ? one->topic : NULL);
	}
	a->n_open = n;
	return good;
}

static void on_page(struct request *r, const struct pico_error *e, const ProtobufCMessage *m, struct topics_pieces *pieces)
{
	struct asking *a = r->asking;
	size_t before = a->n_open;
	bool good = take_page(r, e, (const Ipc__GetManyAnswer *)m), progress = a->n_open < before;
	if (good && progress && a->n_open > 0) {
		ask_page(r);
		return;
	}
	for (size_t i = 0; i < a->n_open && good; i++)
		good = a->q->take(r, a->open[i], PICO_THROTTLED, NULL);
	if (good)
		a->q->done(r);
	else
		request_close(r, "memory");
}

static bool fill_ref(struct request *r, size_t i, Ipc__TopicRef *ref)
{
	const struct asking *a = r->asking;
	const uint8_t *id = NULL;
	struct slice name = slice_of(NULL, 0);
	ipc__topic_ref__init(ref);
	a->q->name(r, i, &name, &id);
	if (id != NULL)
		ref->topic_id = (ProtobufCBinaryData){ .len = 16, .data = (uint8_t *)(uintptr_t)id };
	else
		ref->name = request_string(r, name);
	return ref->name != NULL;
}

static void ask_page(struct request *r)
{
	struct asking *a = r->asking;
	Ipc__GetManyRequest m = IPC__GET_MANY_REQUEST__INIT;
	size_t n = a->n_page = a->n_open < PAGE ? a->n_open : PAGE;
	Ipc__TopicRef *ref = REQUEST_NEW(r, Ipc__TopicRef, n), **list = REQUEST_NEW(r, Ipc__TopicRef *, n);
	bool good = ref != NULL && list != NULL;
	for (size_t i = 0; i < n && good; i++) {
		list[i] = &ref[i];
		good = fill_ref(r, a->open[i], &ref[i]);
	}
	if (!good) {
		request_close(r, "memory");
		return;
	}
	m.n_topic = n;
	m.topic = list;
	m.kafka_names = true;
	request_call(r, IPC_GET_MANY, &m.base, NO_PAYLOAD, request_deadline(r, 0), on_page);
}

void ask_topics(struct request *r, const struct topics_question *q, const size_t *which, size_t n)
{
	struct asking *a = r->asking = REQUEST_NEW(r, struct asking, 1);
	if (a == NULL || (a->open = REQUEST_NEW(r, size_t, n)) == NULL) {
		request_close(r, "memory");
		return;
	}
	a->q = q;
	a->n_open = n;
	if (n > 0)
		memcpy(a->open, which, n * sizeof(*which));
	if (n > 0)
		ask_page(r);
	else
		q->done(r);
}
