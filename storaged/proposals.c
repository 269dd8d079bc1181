/* SPDX-License-Identifier: Apache-2.0
 *
 * What the engine proposes, as commands of the metadata log: packs and ends of recoveries. A queue that is full is
 * asked again; an outcome that is not known stays unanswered, for the session is over then.
 */
#include "storaged/proposals.h"

#include <errno.h>
#include <stdlib.h>

#include "storaged/meta/object_message.h"

#define QUEUE_FULL_RETRY_MS 100u

struct engine_proposal {
	struct node *node;
	struct engine_proposal *next, **prev;
	Meta__Command *command;         /* owned until it is taken */
	engine_proposed_cb *done;
	void *done_arg;
	struct env_timer timer;
};

static void proposal_send(struct engine_proposal *p);

static void proposal_free(struct engine_proposal *p)
{
	env_timer_stop(p->node->env, &p->timer);
	if (p->next != NULL)
		p->next->prev = p->prev;
	*p->prev = p->next;
	if (p->command != NULL)
		meta__command__free_unpacked(p->command, NULL);
	free(p);
}

static void on_result(void *arg, const Meta__Result__One *result)
{
	struct engine_proposal *p = arg;
	engine_proposed_cb *done = p->done;
	void *done_arg = p->done_arg;
	proposal_free(p);
	if (result != NULL)
		done(done_arg, result->error == PICO_OK, result->message);
}

static void on_again(void *arg)
{
	proposal_send(arg);
}

static void proposal_send(struct engine_proposal *p)
{
	struct env *env = p->node->env;
	if (meta_propose(p->node->meta, p->command, on_result, p) == 0) {
		meta__command__free_unpacked(p->command, NULL);
		p->command = NULL;
		return;
	}
	p->timer = (struct env_timer){ .on_fire = on_again, .arg = p };
	env_timer_start(env, &p->timer, env_now_ms(env) + QUEUE_FULL_RETRY_MS);
}

/* command is borrowed. */
static void propose(struct node *n, const Meta__Command *command, engine_proposed_cb *done, void *done_arg)
{
	struct engine_proposal *p = must_calloc(1, sizeof(*p));
	size_t size = meta__command__get_packed_size(command);
	uint8_t *bytes = must_calloc(1, size + 1);
	meta__command__pack(command, bytes);
	*p = (struct engine_proposal){ .node = n, .done = done, .done_arg = done_arg };
	p->command = meta__command__unpack(NULL, size, bytes);
	must(p->command != NULL);
	free(bytes);
	p->next = n->proposals;
	p->prev = &n->proposals;
	if (p->next != NULL)
		p->next->prev = &p->next;
	n->proposals = p;
	proposal_send(p);
}

void node_propose_commit(struct node *n, const struct engine_commit *c, engine_proposed_cb *done, void *done_arg)
{
	Meta__Command command = META__COMMAND__INIT;
	Meta__CommitObjects commit = META__COMMIT_OBJECTS__INIT;
	Meta__CommitObjects__Wal wal = META__COMMIT_OBJECTS__WAL__INIT;
	struct object_message *message = must_calloc(c->n_add + 1, sizeof(*message));
	Meta__ObjectId *gone = must_calloc(c->n_remove + 1, sizeof(*gone));
	commit.add = must_calloc(c->n_add + 1, sizeof(*commit.add));
	commit.remove = must_calloc(c->n_remove + 1, sizeof(*commit.remove));
	commit.n_remove = c->n_remove;
	for (size_t i = 0; i < c->n_remove; i++) {
		object_id_fill(&gone[i], c->remove[i]);
		commit.remove[i] = &gone[i];
	}
	commit.n_add = c->n_add;
	for (size_t i = 0; i < c->n_add; i++) {
		object_message_fill(&message[i], &c->add[i]);
		commit.add[i] = &message[i].m;
	}
	wal.node = n->config.meta.node;
	wal.session = c->session;
	wal.from = c->from;
	wal.to = c->to;
	commit.wal = c->session != 0 ? &wal : NULL;
	command.kind_case = META__COMMAND__KIND_COMMIT_OBJECTS;
	command.commit_objects = &commit;
	propose(n, &command, done, done_arg);
	free(commit.add);
	free(commit.remove);
	free(gone);
	free(message);
}

void node_propose_deleted(struct node *n, const struct engine_commit *c, engine_proposed_cb *done, void *done_arg)
{
	Meta__Command command = META__COMMAND__INIT;
	Meta__ObjectsDeleted deleted = META__OBJECTS_DELETED__INIT;
	Meta__ObjectId *id = must_calloc(c->n_remove, sizeof(*id));
	deleted.id = must_calloc(c->n_remove, sizeof(*deleted.id));
	deleted.n_id = c->n_remove;
	for (size_t i = 0; i < c->n_remove; i++) {
		object_id_fill(&id[i], c->remove[i]);
		deleted.id[i] = &id[i];
	}
	command.kind_case = META__COMMAND__KIND_OBJECTS_DELETED;
	command.objects_deleted = &deleted;
	propose(n, &command, done, done_arg);
	free(deleted.id);
	free(id);
}

void node_propose_trims(struct node *n, const struct engine_trim *trims, size_t n_trims, engine_proposed_cb *done,
			void *done_arg)
{
	Meta__Command command = META__COMMAND__INIT;
	Meta__TrimMany many = META__TRIM_MANY__INIT;
	Meta__TrimMany__Trim *trim = must_calloc(n_trims, sizeof(*trim));
	many.trim = must_calloc(n_trims, sizeof(*many.trim));
	many.n_trim = n_trims;
	for (size_t i = 0; i < n_trims; i++) {
		meta__trim_many__trim__init(&trim[i]);
		trim[i].log_id = trims[i].log_id;
		trim[i].start = trims[i].start;
		many.trim[i] = &trim[i];
	}
	command.kind_case = META__COMMAND__KIND_TRIM_MANY;
	command.trim_many = &many;
	propose(n, &command, done, done_arg);
	free(many.trim);
	free(trim);
}

void node_propose_recovered(struct node *n, uint64_t session, uint64_t cut, engine_proposed_cb *done, void *done_arg)
{
	Meta__Command command = META__COMMAND__INIT;
	Meta__SessionRecovered recovered = META__SESSION_RECOVERED__INIT;
	recovered.node = n->config.meta.node;
	recovered.session = session;
	recovered.cut = cut;
	command.kind_case = META__COMMAND__KIND_SESSION_RECOVERED;
	command.session_recovered = &recovered;
	propose(n, &command, done, done_arg);
}

void node_forget_proposals(struct node *n)
{
	while (n->proposals != NULL)
		proposal_free(n->proposals);
}
