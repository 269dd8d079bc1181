/* SPDX-License-Identifier: Apache-2.0
 *
 * Brokers are the nodes with a Kafka address. This node's own address is known here, so it is listed even before
 * the metadata says so.
 */
#include "worker-kafka/api.h"
#include "worker-kafka/conn.h"

#include <stdlib.h>

#define BROKERS_MAX 65536

static bool take_address(struct request *r, const char *address, struct broker *b)
{
	const char *colon = strrchr(address, ':');
	size_t n = colon != NULL ? (size_t)(colon - address) : 0;
	if (n == 0)
		return false;
	if (address[0] == '[' && address[n - 1] == ']' && n > 2) {
		address++;
		n -= 2;
	}
	b->host = region_copy(&r->region, slice_of(address, n));
	b->port = atoi(colon + 1);
	return b->host.p != NULL;
}

static void add_node(struct request *r, const Ipc__NodesAnswer__Node *node, struct brokers *ret)
{
	struct broker *b = &ret->broker[ret->n];
	if (node->id == r->server->conf->node_id)
		return;
	b->id = (int32_t)node->id;
	for (size_t i = 0; i < node->n_addresses; i++) {
		if (strcmp(node->addresses[i]->protocol, "kafka") != 0 || !take_address(r, node->addresses[i]->address, b))
			continue;
		ret->n++;
		return;
	}
}

bool brokers_take(struct request *r, const Ipc__NodesAnswer *answer, struct brokers *ret)
{
	const struct server *s = r->server;
	const struct advertised *here = conn_advertised(r->conn);
	size_t n = answer == NULL ? 0 : answer->n_nodes < BROKERS_MAX ? answer->n_nodes : BROKERS_MAX;
	*ret = (struct brokers){ .broker = REQUEST_NEW(r, struct broker, n + 1), .cluster_id = slice_str(s->conf->cluster_id) };
	if (ret->broker == NULL)
		return false;
	ret->broker[ret->n++] = (struct broker){ (int32_t)s->conf->node_id, slice_str(here->host), here->port };
	for (size_t i = 0; i < n; i++)
		add_node(r, answer->nodes[i], ret);
	return !r->region.failed;
}

bool brokers_has(const struct brokers *b, uint32_t id)
{
	for (size_t i = 0; i < b->n; i++)
		if (b->broker[i].id == (int32_t)id)
			return true;
	return false;
}

bool resource_is_this_node(struct request *r, struct slice name)
{
	struct slice mine = region_printf(&r->region, "%u", (unsigned)r->server->conf->node_id);
	return mine.p != NULL && slice_eq(name, mine);
}
