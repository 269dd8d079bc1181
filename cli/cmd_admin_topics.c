/* SPDX-License-Identifier: Apache-2.0
 *
 * `pico admin topics`, `configs` and `groups`: lists of them, one of them with all that is known of it, and a topic's configs
 * changed. What is named stands right behind the subcommand.
 */
#include <stdio.h>
#include <stdlib.h>

#include "cli/admin.h"
#include "common/json_scan.h"
#include "common/must.h"

static const struct admin_list topics = {
	.path = "/admin/topics", .array = "topics", .cursor = "name",
	.column = { { "name", -40 }, { "kafkaTopic", -30 }, { "partitions", 10 }, { "records", 12 }, { "appendedBytes", 14 }, { "configs", 7 },
	  { "closed", 6 } },
};
static const struct admin_list partitions = {
	.array = "partitions",
	.column = { { "partition", 9 }, { "logId", 8 }, { "ownerNodeId", 11 }, { "epoch", 5 }, { "startOffset", 12 }, { "endOffset", 12 },
	  { "records", 12 }, { "appendedBytes", 14 } },
};
static const struct admin_list configs = {
	.array = "configs",
	.column = { { "name", -40 }, { "value", -24 }, { "source", -7 }, { "default", -24 }, { "acts", -5 } },
};
static const struct admin_list groups = {
	.path = "/admin/groups", .array = "groups", .cursor = "id",
	.column = { { "group", -40 }, { "state", -19 }, { "protocolType", -12 } },
};
static const struct admin_list members = {
	.array = "members",
	.column = { { "memberId", -60 }, { "instanceId", -20 }, { "clientId", -20 }, { "clientHost", -16 }, { "assignment", -1 } },
};

/* What is named, or NULL; *argc and argv go on behind it. */
static const char *take_name(int *argc, char ***argv)
{
	if (*argc < 2 || (*argv)[1][0] == '-')
		return NULL;
	++*argv;
	--*argc;
	return (*argv)[0];
}

/* "name: value" for each of these fields of a JSON object. */
static void print_fields(struct slice object, const char *const *field)
{
	struct buf value;
	buf_init(&value, 65536);
	for (; *field != NULL; field++) {
		admin_field(object, *field, &value);
		printf("%s: %.*s\n", *field, (int)buf_len(&value), (const char *)buf_head(&value));
	}
	buf_done(&value);
}

/* One request of what has no pages; 200 is printed as it came with --json. */
static int ask(struct cli *cli, const char *method, const struct buf *path, struct slice body, struct cli_response *ret)
{
	int code = CLI_OK;
	cli_request(cli, method, path->failed ? "/" : (const char *)buf_head(path), NULL, body, 0, ret);
	if (ret->status != 200)
		code = admin_fail(cli, ret);
	else if (cli->json)
		printf("%.*s", (int)buf_len(&ret->body), (const char *)buf_head(&ret->body));
	return code;
}

static void path_of(struct buf *out, const char *prefix, const char *name)
{
	buf_init(out, 65536);
	admin_path(out, prefix, name);
	buf_put_u8(out, '\0');
}

/* ---------------------------------------------------------------------- topics */

static int describe_topic(struct cli *cli, const char *name)
{
	static const char *const fields[] = {
		"name", "kafkaTopic", "topicId", "contentType", "ttlSeconds", "expiresAtMs", "closed", "configs", NULL,
	};
	struct cli_response r;
	struct buf path;
	path_of(&path, "/admin/streams/", name);
	int code = ask(cli, "GET", &path, slice_of(NULL, 0), &r);
	if (code == CLI_OK && !cli->json) {
		print_fields(buf_slice(&r.body), fields);
		admin_print_table(&partitions, buf_slice(&r.body));
	}
	cli_response_done(&r);
	buf_done(&path);
	return code;
}

int admin_topics(struct cli *cli, int argc, char **argv)
{
	const char *name = take_name(&argc, &argv);
	if (name == NULL)
		return admin_print_list(cli, &topics, argc, argv);
	int code = admin_take_options(cli, argc, argv, NULL);
	return code == CLI_OK ? describe_topic(cli, name) : code;
}

/* ---------------------------------------------------------------------- configs */

static void put_member(struct buf *out, struct slice name, const char *value)
{
	buf_put_u8(out, buf_len(out) == 0 ? '{' : ',');
	json_put_string(out, name);
	buf_put_u8(out, ':');
	if (value != NULL)
		json_put_string(out, slice_str(value));
	else
		buf_put_str(out, "null");
}

/* NAME=VALUE arguments go into a JSON object and out of argv. False: one is not UTF-8. */
static bool take_changes(int *argc, char **argv, struct buf *out)
{
	int kept = 1;
	bool good = true;
	for (int i = 1; i < *argc; i++) {
		const char *equals = argv[i][0] != '-' ? strchr(argv[i], '=') : NULL;
		if (equals == NULL) {
			argv[kept++] = argv[i];
			continue;
		}
		good &= utf8_is_valid(slice_str(argv[i]));
		put_member(out, slice_of((const uint8_t *)argv[i], (size_t)(equals - argv[i])), equals + 1);
	}
	*argc = kept;
	return good;
}

static bool take_resets(const char *names, struct buf *out)
{
	while (*names != '\0') {
		size_t n = strcspn(names, ",");
		put_member(out, slice_of((const uint8_t *)names, n), NULL);
		names += n + (names[n] == ',');
	}
	return true;
}

static int ask_configs(struct cli *cli, const char *name, struct buf *changes)
{
	struct cli_response r;
	struct buf path;
	bool change = buf_len(changes) > 0;
	if (change)
		buf_put_u8(changes, '}');
	path_of(&path, "/admin/configs/", name);
	int code = ask(cli, change ? "PATCH" : "GET", &path, change ? buf_slice(changes) : slice_of(NULL, 0), &r);
	if (code == CLI_OK && !cli->json)
		admin_print_table(&configs, buf_slice(&r.body));
	cli_response_done(&r);
	buf_done(&path);
	return code;
}

int admin_configs(struct cli *cli, int argc, char **argv)
{
	const char *name = take_name(&argc, &argv), *reset = "";
	const struct cli_option options[] = { { "--reset", &reset, NULL }, { 0 } };
	struct buf changes;
	if (name == NULL) {
		cli_fail(CLI_USAGE, "configs of which topic?");
		return cli_usage("admin");
	}
	buf_init(&changes, 1 << 20);
	int code = !take_changes(&argc, argv, &changes) ? cli_fail(CLI_USAGE, "names and values are UTF-8")
							: admin_take_options(cli, argc, argv, options);
	if (code == CLI_OK && !utf8_is_valid(slice_str(reset)))
		code = cli_fail(CLI_USAGE, "names are UTF-8");
	if (code == CLI_OK) {
		take_resets(reset, &changes);
		code = ask_configs(cli, name, &changes);
	}
	buf_done(&changes);
	return code;
}

/* ---------------------------------------------------------------------- groups */

/* Its head and members: they stand in every page of its offsets. */
static int describe_group(struct cli *cli, const char *path)
{
	static const char *const fields[] = { "group", "state", "protocolType", "protocol", NULL };
	struct cli_response r;
	struct buf first;
	buf_init(&first, 65536);
	buf_printf(&first, "%s?limit=1%c", path, '\0');
	int code = ask(cli, "GET", &first, slice_of(NULL, 0), &r);
	if (code == CLI_OK) {
		print_fields(buf_slice(&r.body), fields);
		admin_print_table(&members, buf_slice(&r.body));
	}
	cli_response_done(&r);
	buf_done(&first);
	return code;
}

int admin_groups(struct cli *cli, int argc, char **argv)
{
	const char *name = take_name(&argc, &argv);
	struct buf path;
	if (name == NULL)
		return admin_print_list(cli, &groups, argc, argv);
	path_of(&path, "/admin/groups/", name);
	const struct admin_list offsets = {
		.path = (const char *)buf_head(&path), .array = "offsets", .cursor = "id",
		.column = { { "topic", -40 }, { "partition", 9 }, { "offset", 12 }, { "startOffset", 12 }, { "endOffset", 12 }, { "lag", 12 },
		  { "metadata", -1 } },
		.whole = true,
	};
	int code = cli->json ? CLI_OK : admin_take_options(cli, argc, argv, NULL);
	if (code == CLI_OK && !cli->json)
		code = describe_group(cli, offsets.path);
	if (code == CLI_OK)
		code = admin_print_list(cli, &offsets, argc, argv);
	buf_done(&path);
	return code;
}
