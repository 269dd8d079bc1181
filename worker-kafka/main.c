/* SPDX-License-Identifier: Apache-2.0
 *
 * worker-kafka: Kafka clients on one side, storaged on the other.
 */
#include "worker-kafka/server.h"

static struct worker worker;
static struct server server;

static void on_room(void *arg)
{
	server_room(&server);
}

static void on_drain(void *arg)
{
	server_drain(&server, worker_drained, &worker);
}

int main(int argc, char **argv)
{
	static const struct worker_events events = { .on_room = on_room, .on_drain = on_drain };
	worker_init(&worker, PROCESS_WORKER_KAFKA, argc, argv);
	server_init(&server, &worker);
	worker_run(&worker, &events, NULL);
	return 0;
}
