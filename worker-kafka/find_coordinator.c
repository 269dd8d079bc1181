/* SPDX-License-Identifier: Apache-2.0
 *
 * FindCoordinator: of a group it is this node. There are no transactions, so nobody coordinates them, and that is
 * final. Other kinds of keys are unknown.
 */
#include "worker-kafka/api.h"
#include "worker-kafka/conn.h"

#define KEY_GROUP 0
#define KEY_TRANSACTION 1

static enum kafka_error key_error(int8_t key_type, const char **ret_text)
{
	*ret_text = NULL;
	if (key_type == KEY_GROUP)
		return KAFKA_NONE;
	*ret_text = key_type == KEY_TRANSACTION ? "transactions are not supported" : "no such kind of coordinator";
	return key_type == KEY_TRANSACTION ? KAFKA_TRANSACTIONAL_ID_AUTHORIZATION_FAILED : KAFKA_INVALID_REQUEST;
}

static void fill(const struct request *r, enum kafka_error error, const char *text, struct slice key,
		 struct kmsg_find_coordinator_response_coordinator *c)
{
	const struct advertised *here = conn_advertised(r->conn);
	c->key = key;
	c->error_code = (int16_t)error;
	c->error_message = text != NULL ? slice_str(text) : slice_of(NULL, 0);
	c->node_id = error == KAFKA_NONE ? (int32_t)r->server->conf->node_id : -1;
	c->host = error == KAFKA_NONE ? slice_str(here->host) : slice_str("");
	c->port = error == KAFKA_NONE ? here->port : -1;
}

void find_coordinator_handle(struct request *r)
{
	const struct kmsg_find_coordinator_request *q = r->message;
	struct kmsg_find_coordinator_response *m = KMSG_NEW(&r->region, find_coordinator_response, 1);
	uint32_t n = r->head.api_version >= 4 ? q->n_coordinator_keys : 1;
	struct kmsg_find_coordinator_response_coordinator *c = KMSG_NEW(&r->region, find_coordinator_response_coordinator, n);
	const char *text;
	enum kafka_error error = key_error(q->key_type, &text);
	if (m == NULL || c == NULL) {
		request_close(r, "memory");
		return;
	}
	for (uint32_t i = 0; i < n; i++)
		fill(r, error, text, r->head.api_version >= 4 ? q->coordinator_keys[i] : q->key, &c[i]);
	if (r->head.api_version >= 4) {
		m->coordinators = c;
		m->n_coordinators = n;
	} else {
		m->error_code = c->error_code;
		m->error_message = c->error_message;
		m->node_id = c->node_id;
		m->host = c->host;
		m->port = c->port;
	}
	request_answer(r, m);
}
