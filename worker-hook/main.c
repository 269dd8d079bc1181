/* SPDX-License-Identifier: Apache-2.0
 *
 * worker-hook: storaged on one side, subscribers of Durable Streams on the other. It listens nowhere.
 */
#include "worker-hook/hook.h"

static struct worker worker;

static void on_room(void *arg)
{
}

static void on_drain(void *arg)
{
	hook_stop(); /* what was told and not answered is told again by who comes next */
	worker_drained(&worker);
}

int main(int argc, char **argv)
{
	static const struct worker_events events = { .on_room = on_room, .on_drain = on_drain };
	worker_init(&worker, PROCESS_WORKER_HOOK, argc, argv);
	hook_start(&worker);
	worker_run(&worker, &events, NULL);
	return 0;
}
