/* SPDX-License-Identifier: Apache-2.0
 *
 * pico: one program for the node (`pico serve`) and its streams. Global options may stand anywhere before the
 * command's own; each command is one row of the table and one function.
 */
#include "config.h"

#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "cli/cli.h"

#define ENDPOINT_DEFAULT "http://127.0.0.1:4437"

const struct cli_command cli_commands[] = {
	{ "serve", "[OPTIONS]", "run a node",
	  "With no option it serves the Pico protocol on 127.0.0.1:4437, Durable Streams on 127.0.0.1:4438, Kafka on\n"
	  "127.0.0.1:9092 and the admin API on 127.0.0.1:9090, and keeps everything below ./data. `pico serve --help` lists all options.\n\n"
	  "  pico serve --data-dir /var/lib/picomq\n", cmd_serve },
	{ "create", "STREAM [--content-type TYPE] [--partitions N] [--ttl SECONDS]", "create a stream",
	  "Creating a stream that exists with the same settings is fine (created=false). Without --content-type it is\n"
	  "application/octet-stream.\n\n"
	  "  --ttl SECONDS         it goes when nobody appended or read for so long ...\n"
	  "  --expires-at TIME     ... or at a time: 2030-01-31T12:00:00Z\n"
	  "  --retention-ms MS     records go when they are so old; -1 keeps all, whatever the node says\n"
	  "  --retention-bytes N   the oldest go beyond so many bytes of a partition; -1 likewise\n\n"
	  "  pico create orders/eu --content-type text/plain\n"
	  "  pico create sessions/7f3a --ttl 86400\n", cmd_create },
	{ "append", "STREAM [--batch N] [--key KEY] [--partition I]", "append the lines of stdin, one record each",
	  "Each request is durable when its line \"start= next=\" appears on stderr. --batch sends up to N lines\n"
	  "as one unit.\n\n"
	  "  seq 1000 | pico append orders/eu --batch 100\n", cmd_append },
	{ "read", "STREAM [--from POS] [--partition I]", "print records from a position to the end",
	  "Prints POS, a tab and the text; a body that is not UTF-8 is shown as <N bytes>. With --json, one JSON\n"
	  "object a line. Without --from, or with a negative one, it begins with the first record.\n\n"
	  "  pico read orders/eu --from 10\n", cmd_read },
	{ "tail", "STREAM [-f] [--partition I]", "print what comes, from the end on",
	  "Without -f it returns at once, so use -f; what is there already is printed by `pico read`. It ends when the\n"
	  "stream is closed.\n\n"
	  "  pico tail -f orders/eu\n", cmd_tail },
	{ "head", "STREAM", "print start, next, closed and type of a stream", "  pico head orders/eu\n", cmd_head },
	{ "ls", "[--prefix PATH] [--limit N]", "list streams in order of name",
	  "PATH is how the names begin; the first / may be left out. --limit 0, the default, lists all.\n\n"
	  "  pico ls --prefix /orders\n", cmd_ls },
	{ "admin", "SUBCOMMAND [OPTIONS]", "look after a node and its storage",
	  "  topics [TOPIC]                            all topics; one with its partitions and settings\n"
	  "  configs TOPIC [NAME=VALUE]... [--reset NAME,...]\n"
	  "                                            its configs, after they were changed\n"
	  "  groups [GROUP]                            consumer groups; one with members, offsets and lag\n"
	  "  objects [--limit N] [--start-after KEY]   the data objects in the catalogue\n"
	  "  logs [--limit N] [--start-after LOG-ID]   every partition as a log\n"
	  "  export                                    writes an export of the metadata to the storage now\n"
	  "      these ask the admin listener: --admin URL (PICO_ADMIN_ENDPOINT; http://127.0.0.1:9090); all lists\n"
	  "      have --limit and --start-after\n"
	  "  backup DIR [OPTIONS of pico serve]        copies the metadata to DIR, beside a running node\n"
	  "  restore-metadata [--from BACKUP] [OPTIONS of pico serve]\n"
	  "      builds a lost database from the exports and objects in the storage; nothing may run on it\n\n"
	  "      where storage and database are is said as to `pico serve`: --data-dir, --storage, --wal, --meta-url\n\n"
	  "  pico admin groups readers\n"
	  "  pico admin configs orders/eu retention.ms=86400000\n"
	  "  pico admin restore-metadata --data-dir /var/lib/picomq\n", cmd_admin },
	{ "fsck", "[OPTIONS of pico serve]", "check everything in a node's storage",
	  "Holds every object against the catalogue and checks every checksum; changes nothing. It may run beside the\n"
	  "node. Where storage and database are is said as to `pico serve`. Exit code 4: there are errors.\n\n"
	  "  pico fsck --data-dir /var/lib/picomq\n", cmd_fsck },
	{ "bench", "[OPTIONS]", "append and read as fast as it goes, and say how fast that was",
	  "Appends for --duration seconds to streams of its own below /bench/, reads everything back, deletes them.\n"
	  "A request's time is from when it was made to the end of its answer. A failed request ends the run.\n\n"
	  "  -b, --record-size N   bytes of a record (1024)       --streams N       (1)\n"
	  "  -d, --duration S      seconds of appending (15)      --connections N   (1)\n"
	  "  -w, --in-flight N     requests under way, in all connections together, at least one each (32)\n"
	  "  -n, --batch N         records a request (1)          --warmup S        seconds not counted, before (0)\n"
	  "  -t, --target-mibps N  no faster (0: as it goes)      --interval S      progress on stderr (1; 0: none)\n"
	  "  --producer            number the requests            --no-read         append only\n"
	  "  --output text|json                                   --keep            leave the streams there\n"
	  "  --protocol pico|kafka (pico)\n\n"
	  "With --protocol kafka the streams are topics, and a request is one batch of one partition:\n\n"
	  "  --bootstrap HOST:PORT where the node is (127.0.0.1:9092)\n"
	  "  --partitions N        of each topic (1)              --acks all|1|0    all: idempotent (all)\n"
	  "  --tail                consume while producing: the time is from producer to consumer\n"
	  "  --replays N           read everything so many times (1)\n"
	  "  --codec none|gzip|snappy|lz4|zstd                    of the batches (none)\n\n"
	  "  pico bench -d 10 --batch 100 --connections 4 --output json\n"
	  "  pico bench --protocol kafka -n 64 -w 5 --partitions 16\n", cmd_bench },
	{ "close", "STREAM", "close a stream: nothing can be appended any more", "  pico close orders/eu\n", cmd_close },
	{ "trim", "STREAM --seq POS [--partition I]", "drop the records before a position",
	  "The stream begins at POS then, or at its end if that is earlier.\n\n"
	  "  pico trim orders/eu --seq 1000\n", cmd_trim },
	{ "delete", "STREAM", "delete a stream and its records",
	  "deleted=false: there was none; that is no failure.\n\n"
	  "  pico delete orders/eu\n", cmd_delete },
	{ 0 },
};

int cli_fail(int code, const char *fmt, ...)
{
	va_list ap;
	va_start(ap, fmt);
	fputs("pico: ", stderr);
	vfprintf(stderr, fmt, ap);
	fputc('\n', stderr);
	va_end(ap);
	return code;
}

static const struct cli_command *command_find(const char *name)
{
	for (const struct cli_command *c = cli_commands; c->name != NULL; c++)
		if (strcmp(c->name, name) == 0)
			return c;
	return NULL;
}

int cli_usage(const char *command)
{
	const struct cli_command *c = command_find(command);
	fprintf(stderr, "usage: pico %s %s   (`pico %s --help` tells more)\n", c->name, c->arguments, c->name);
	return CLI_USAGE;
}

static void help(FILE *to)
{
	fputs("pico keeps durable, ordered streams of records in object storage. A record is acknowledged when it is\n"
	      "stored, never before.\n\n"
	      "usage: pico [--endpoint URL] [--json] COMMAND ...\n\n", to);
	for (const struct cli_command *c = cli_commands; c->name != NULL; c++)
		fprintf(to, "  %-8s %s\n", c->name, c->summary);
	fputs("\n"
	      "  --endpoint URL  the node (PICO_ENDPOINT; " ENDPOINT_DEFAULT ")\n"
	      "  --json          print data as JSON\n"
	      "  --version       print the version\n"
	      "  --help          this text; `pico COMMAND --help` for a command\n\n"
	      "Try it:\n"
	      "  pico serve &                          a node on ./data\n"
	      "  pico create hello\n"
	      "  echo 'first record' | pico append hello\n"
	      "  pico read hello\n\n"
	      "A stream's name is a path, /hello; the first / may be left out, and its Kafka name means it, too. Data is\n"
	      "on stdout, notes on stderr.\n"
	      "Exit codes: 0 done, 1 failed, 2 wrong usage, 3 no such stream, 4 fsck found errors.\n", to);
}

/* ------------------------------------------------------------------- arguments */

static int take_option(const struct cli_option *options, int argc, char **argv, int *i)
{
	const char *arg = argv[*i];
	size_t n = strcspn(arg, "=");
	for (const struct cli_option *o = options; o->name != NULL; o++) {
		if (strlen(o->name) != n || strncmp(o->name, arg, n) != 0)
			continue;
		if (o->flag != NULL) {
			*o->flag = true;
		} else if (arg[n] == '=') {
			*o->value = arg + n + 1;
		} else if (*i + 1 < argc) {
			*o->value = argv[++*i];
		} else {
			return cli_fail(CLI_USAGE, "%s needs a value", arg);
		}
		return 0;
	}
	return cli_fail(CLI_USAGE, "unknown option %s", arg);
}

int cli_parse(int argc, char **argv, const struct cli_option *options, const char **ret_stream)
{
	const char *stream = NULL;
	for (int i = 1; i < argc; i++) {
		if (argv[i][0] == '-' && argv[i][1] != '\0') {
			if (take_option(options, argc, argv, &i) != 0)
				return cli_usage(argv[0]);
		} else if (ret_stream == NULL || stream != NULL) {
			cli_fail(CLI_USAGE, "unexpected argument %s", argv[i]);
			return cli_usage(argv[0]);
		} else {
			stream = argv[i];
		}
	}
	if (ret_stream == NULL)
		return 0;
	if (stream == NULL) {
		cli_fail(CLI_USAGE, "which stream?");
		return cli_usage(argv[0]);
	}
	*ret_stream = stream;
	return 0;
}

int cli_number(const char *option, const char *text, uint64_t *ret_value)
{
	char *end;
	unsigned long long v = strtoull(text, &end, 10);
	if (*text < '0' || *text > '9' || *end != '\0')
		return cli_fail(CLI_USAGE, "%s takes a whole number, not \"%s\"", option, text);
	*ret_value = v;
	return 0;
}

/* Takes one leading global option; the number of arguments taken, 0 when there is none, negative when wrong. */
static int take_global(struct cli *cli, int argc, char **argv)
{
	static const char endpoint[] = "--endpoint";
	size_t n = sizeof(endpoint) - 1;
	if (strcmp(argv[0], "--json") == 0) {
		cli->json = true;
		return 1;
	}
	if (strncmp(argv[0], endpoint, n) != 0 || (argv[0][n] != '\0' && argv[0][n] != '='))
		return 0;
	if (argv[0][n] == '=') {
		cli->endpoint = argv[0] + n + 1;
		return 1;
	}
	if (argc < 2) {
		cli_fail(CLI_USAGE, "--endpoint needs a URL");
		return -1;
	}
	cli->endpoint = argv[1];
	return 2;
}

/* Global options may stand before and after the command's name: takes them all out of argv. */
static int take_globals(struct cli *cli, int *argc, char **argv)
{
	int kept = 1;
	bool serve = *argc > 1 && strcmp(argv[1], "serve") == 0;
	for (int i = 1; i < *argc && !serve; ) {
		int taken = take_global(cli, *argc - i, argv + i);
		if (taken < 0)
			return CLI_USAGE;
		if (taken == 0)
			argv[kept++] = argv[i++];
		i += taken;
	}
	if (!serve)
		*argc = kept;
	return 0;
}

static bool is_help(const char *argument)
{
	return strcmp(argument, "--help") == 0 || strcmp(argument, "-h") == 0;
}

/* --help stands anywhere behind a command, -h right behind it: elsewhere that may be a value. */
static bool asks_help(int argc, char **argv)
{
	for (int i = 1; i < argc; i++)
		if (strcmp(argv[i], "--help") == 0)
			return true;
	return argc > 1 && is_help(argv[1]);
}

static int run_command(struct cli *cli, int argc, char **argv)
{
	const struct cli_command *c = command_find(argv[0]);
	if (c == NULL)
		return cli_fail(CLI_USAGE, "%s is no command; `pico --help` lists them", argv[0]);
	if (c->run != cmd_serve && asks_help(argc, argv)) {
		printf("usage: pico %s %s\n\n%c%s.\n%s%s", c->name, c->arguments, toupper((unsigned char)c->summary[0]),
		       c->summary + 1, c->help[0] == ' ' ? "\n" : "", c->help);
		return CLI_OK;
	}
	return c->run(cli, argc, argv);
}

int main(int argc, char **argv)
{
	static char option_help[] = "--help";
	struct cli cli = { .endpoint = getenv("PICO_ENDPOINT") };
	if (cli.endpoint == NULL || cli.endpoint[0] == '\0')
		cli.endpoint = ENDPOINT_DEFAULT;
	if (take_globals(&cli, &argc, argv) != 0)
		return CLI_USAGE;
	if (argc < 2) {
		help(stderr);
		return CLI_USAGE;
	}
	if (strcmp(argv[1], "help") == 0 && argc > 2) {
		argv[1] = argv[2];      /* help COMMAND is COMMAND --help */
		argv[2] = option_help;
		argc = 3;
	} else if (is_help(argv[1]) || strcmp(argv[1], "help") == 0) {
		help(stdout);
		return CLI_OK;
	}
	if (strcmp(argv[1], "--version") == 0) {
		puts("pico " PACKAGE_VERSION);
		return CLI_OK;
	}
	int code = run_command(&cli, argc - 1, argv + 1);
	cli_http_done(&cli);
	if (fflush(stdout) != 0 || ferror(stdout))
		code = cli_fail(CLI_FAILED, "cannot write to stdout");
	return code;
}
