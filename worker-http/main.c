/* SPDX-License-Identifier: Apache-2.0
 *
 * worker-http: HTTP clients on one side, storaged on the other. When the supervisor starts it in the admin role
 * (and with the argument role=admin, for those who look at processes), it serves the admin listener instead.
 */
#include "worker-http/admin.h"
#include "worker-http/server.h"

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

static void on_stop_ready(void *arg)
{
	admin_stop_ready();
}

int main(int argc, char **argv)
{
	static const struct worker_events events = {
		.on_room = on_room, .on_drain = on_drain, .on_stop_ready = on_stop_ready,
	};
	worker_init(&worker, PROCESS_WORKER_HTTP, argc, argv);
	server_init(&server, &worker);
	worker_run(&worker, &events, NULL);
	return 0;
}
