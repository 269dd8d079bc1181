/* SPDX-License-Identifier: Apache-2.0
 *
 * A change of one subscription. Every one reads it, looks at the streams where it must, and writes it back only when
 * nobody was faster; else it is judged anew:
 *
 *   KV_GET -> begin() -> [LIST of what a new pattern matches] -> [GET_MANY of its streams] -> judge() -> KV_PUT -> answer()
 */
#ifndef WORKER_HTTP_SUB_CHANGE_H
#define WORKER_HTTP_SUB_CHANGE_H

#include "worker-http/sub.h"

struct change;
/* What a request does to a subscription. */
struct change_kind {
	bool creates;                   /* may begin with none */
	bool needs_tails;
	/* Both false: answered. begin() adds streams before their tails are looked up. */
	bool (*begin)(struct request *r, struct change *c);
	bool (*judge)(struct request *r, struct change *c);
	void (*answer)(struct request *r, struct change *c);
};

struct change {
	const struct change_kind *kind;
	char id[SUB_ID_MAX + 1];
	struct sub_body body;
	char *path;                     /* of a stream to take out; owned */
	Sub__Subscription *s;           /* owned */
	uint64_t version;               /* 0: it is new */
	unsigned tries;
	char *list_after;               /* owned: of the LIST under way */
	char token[SUB_TOKEN_TEXT];
	char kid[64];
	topics_cb *on_key;              /* goes on with the key */
	bool key_awaited;
};

/* r->state is the struct change: its id, its body; `kind` is what is done. */
void change_start(struct request *r);
/* A request's state_free. */
void change_free(void *state);

/* Parts of kinds. */
bool change_always(struct request *r, struct change *c);        /* nothing to do or to refuse */
void change_answer_done(struct request *r, struct change *c);   /* 204 */

void change_call_get(struct request *r, const char *key, topics_cb *cb);

/* Who holds a wake, and what he acknowledges. */
extern const struct change_kind sub_claim_kind, sub_ack_kind, sub_release_kind;

#endif
