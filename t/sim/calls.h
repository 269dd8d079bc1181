/* SPDX-License-Identifier: Apache-2.0
 *
 * A call of a client on its way to a node and back.
 */
#ifndef T_SIM_CALLS_H
#define T_SIM_CALLS_H

#include "t/sim/nodes.h"

struct client;
struct value;
struct sim_call;

/* on_result runs once, in the world: error NULL and answer, or error, or lost (neither: nobody knows). */
typedef void call_result_fn(struct sim_call *c, const struct pico_error *error, ProtobufCMessage *answer);

struct sim_call {
	struct call call;
	struct sim_call *next, **prev;  /* node->calls until it is answered */
	struct sim_node *node;
	struct client *client;
	uint32_t hist;
	uint64_t timeout_ms;
	ProtobufCMessage *request;
	uint8_t *payload;
	call_result_fn *on_result;
	struct value *value;
	bool delivered;                 /* the node has it */
	struct sim_event *give_up;
	bool told;                      /* on_result is on its way or has run */
	unsigned refs;                  /* the node's until it answers or dies, the client's until it is told */
	bool refused;
	struct pico_error error;
	ProtobufCMessage *answer;
	uint8_t *bytes;                 /* of a read */
	size_t n_bytes;
};

/* request and payload are copied. hist: the op of the history that it is an attempt of, or HIST_NONE. */
struct sim_call *call_send(struct client *c, struct sim_node *n, enum ipc_type type, ProtobufCMessage *request,
			   struct slice payload, uint64_t timeout_ms, uint32_t hist, call_result_fn *on_result);
/* Whether a call that the node took is not answered. */
bool calls_are_open(const struct sim_node *n);
bool calls_wait(const struct sim_node *n);  /* a wait is not */
/* The node died: its calls are lost. */
void calls_lost(struct sim_node *n);
void held_forget(struct sim_node *n);
void held_check_gone(struct sim_node *n, const struct segment *s);
/* Puts the records of a read's bytes into the history; those below `from` are left out. */
void records_seen(struct run *r, uint32_t hist, struct slice bytes, uint64_t from);

#endif
