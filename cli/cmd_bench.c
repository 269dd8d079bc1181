/* SPDX-License-Identifier: Apache-2.0
 *
 * `pico bench`: its options. Records are written for some seconds to streams of its own, everything is read back,
 * the streams are deleted: over HTTP (bench_pico.c) or over Kafka (bench_kafka.c).
 */
#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>

#include "cli/bench.h"
#include "common/codec.h"
#include "common/must.h"

#define PARTITIONS_MAX 10000
#define RECORD_OVERHEAD 12              /* of the protocol that has more */

static volatile sig_atomic_t interrupted;

static void on_interrupt(int signal)
{
	interrupted = 1;
}

bool bench_is_interrupted(void)
{
	return interrupted;
}

static int bench_start(struct cli *cli, const struct bench_options *o)
{
	struct bench_run *r = must_calloc(1, sizeof(*r));
	r->o = o;
	signal(SIGINT, on_interrupt);
	signal(SIGTERM, on_interrupt);
	int code = o->kafka ? bench_kafka(r) : bench_pico(cli, r);
	free(r);
	return code;
}

struct bound {
	const char *name, *text;
	uint64_t min, max;
	uint64_t *value;
};

static int take_numbers(const struct bound *bounds)
{
	for (const struct bound *n = bounds; n->name != NULL; n++) {
		int code = n->text != NULL ? cli_number(n->name, n->text, n->value) : 0;
		if (code != 0)
			return code;
		if (*n->value < n->min || *n->value > n->max)
			return cli_fail(CLI_USAGE, "%s is %" PRIu64 " to %" PRIu64, n->name, n->min, n->max);
	}
	return 0;
}

static int take_output(struct bench_options *o, const char *output)
{
	if (strcmp(output, "text") != 0 && strcmp(output, "json") != 0)
		return cli_fail(CLI_USAGE, "--output is text or json, not \"%s\"", output);
	o->json |= strcmp(output, "json") == 0;
	if (o->record_size * o->batch > BENCH_REQUEST_MAX - o->batch * RECORD_OVERHEAD)
		return cli_fail(CLI_USAGE, "--record-size times --batch is at most 64 MiB");
	return 0;
}

static int take_acks(struct bench_options *o)
{
	if (strcmp(o->acks, "all") == 0 || strcmp(o->acks, "-1") == 0)
		o->acks_number = -1;
	else if (strcmp(o->acks, "0") == 0 || strcmp(o->acks, "1") == 0)
		o->acks_number = (int16_t)(o->acks[0] - '0');
	else
		return cli_fail(CLI_USAGE, "--acks is all, 1 or 0, not \"%s\"", o->acks);
	if (o->acks_number < 0)
		o->acks = "all";
	if (o->producer && o->acks_number >= 0)
		return cli_fail(CLI_USAGE, "--producer: an idempotent producer needs --acks all");
	return 0;
}

static int take_codec(struct bench_options *o)
{
	const char *name;
	for (unsigned i = 0; (name = codec_name(i)) != NULL; i++) {
		if (strcmp(o->codec, name) != 0)
			continue;
		o->codec_number = i;
		return 0;
	}
	return cli_fail(CLI_USAGE, "--codec is none, gzip, snappy, lz4 or zstd, not \"%s\"", o->codec);
}

/* What Kafka alone has; `given` is an option of it that was named, or NULL. */
static int take_kafka(struct bench_options *o, const char *protocol, const char *given)
{
	o->kafka = strcmp(protocol, "kafka") == 0;
	if (!o->kafka && strcmp(protocol, "pico") != 0)
		return cli_fail(CLI_USAGE, "--protocol is pico or kafka, not \"%s\"", protocol);
	if (!o->kafka)
		return given == NULL ? 0 : cli_fail(CLI_USAGE, "%s needs --protocol kafka", given);
	if (o->streams * o->partitions > PARTITIONS_MAX)
		return cli_fail(CLI_USAGE, "--streams times --partitions is at most %d", PARTITIONS_MAX);
	if (o->tail && o->no_read)
		return cli_fail(CLI_USAGE, "--tail and --no-read exclude each other");
	if (o->replays > 1 && (o->tail || o->no_read))
		return cli_fail(CLI_USAGE, "--replays reads afterwards: not with --tail or --no-read");
	if (o->tail && o->connections > o->streams * o->partitions)
		return cli_fail(CLI_USAGE, "--tail needs a partition for each of the --connections");
	int code = take_acks(o);
	return code != 0 ? code : take_codec(o);
}

int cmd_bench(struct cli *cli, int argc, char **argv)
{
	struct bench_options o = { .json = cli->json, .record_size = 1024, .duration = 15, .in_flight = 32, .batch = 1,
				   .streams = 1, .connections = 1, .interval = 1, .partitions = 1, .replays = 1 };
	const char *protocol = "pico", *output = "text";
	struct bound bounds[] = {
		{ "--record-size", NULL, 1, 16u << 20, &o.record_size }, { "--duration", NULL, 1, 86400, &o.duration },
		{ "--in-flight", NULL, 1, 10000, &o.in_flight }, { "--batch", NULL, 1, 100000, &o.batch },
		{ "--target-mibps", NULL, 0, 1000000, &o.target_mibps }, { "--streams", NULL, 1, 10000, &o.streams },
		{ "--connections", NULL, 1, 1000, &o.connections }, { "--warmup", NULL, 0, 86400, &o.warmup },
		{ "--interval", NULL, 0, 86400, &o.interval }, { "--partitions", NULL, 1, 1024, &o.partitions },
		{ "--replays", NULL, 1, 1000000, &o.replays }, { 0 }
	};
	const struct cli_option options[] = {
		{ "--record-size", &bounds[0].text, NULL }, { "-b", &bounds[0].text, NULL },
		{ "--duration", &bounds[1].text, NULL }, { "-d", &bounds[1].text, NULL },
		{ "--in-flight", &bounds[2].text, NULL }, { "-w", &bounds[2].text, NULL },
		{ "--batch", &bounds[3].text, NULL }, { "-n", &bounds[3].text, NULL },
		{ "--target-mibps", &bounds[4].text, NULL }, { "-t", &bounds[4].text, NULL },
		{ "--streams", &bounds[5].text, NULL }, { "--connections", &bounds[6].text, NULL },
		{ "--warmup", &bounds[7].text, NULL }, { "--interval", &bounds[8].text, NULL },
		{ "--partitions", &bounds[9].text, NULL }, { "--replays", &bounds[10].text, NULL }, { "--bootstrap", &o.bootstrap, NULL },
		{ "--acks", &o.acks, NULL }, { "--codec", &o.codec, NULL }, { "--tail", NULL, &o.tail },
		{ "--no-read", NULL, &o.no_read }, { "--producer", NULL, &o.producer }, { "--keep", NULL, &o.keep },
		{ "--protocol", &protocol, NULL }, { "--output", &output, NULL }, { 0 }
	};
	int code = cli_parse(argc, argv, options, NULL);
	const char *given = bounds[9].text != NULL ? "--partitions" : bounds[10].text != NULL ? "--replays" : o.bootstrap != NULL ? "--bootstrap"
		: o.acks != NULL ? "--acks" : o.codec != NULL ? "--codec" : o.tail ? "--tail" : NULL;
	o.bootstrap = o.bootstrap != NULL ? o.bootstrap : "127.0.0.1:9092";
	o.acks = o.acks != NULL ? o.acks : "all";
	o.codec = o.codec != NULL ? o.codec : "none";
	if (code == 0)
		code = take_numbers(bounds);
	if (code == 0)
		code = take_output(&o, output);
	if (code == 0)
		code = take_kafka(&o, protocol, given);
	return code != 0 ? code : bench_start(cli, &o);
}
