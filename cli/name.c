/* SPDX-License-Identifier: Apache-2.0
 *
 * From what a user types to the path of a stream. What begins with '/' is a path. Anything else the node is asked
 * about, because only it knows the Kafka names: orders.eu, orders/eu and /orders/eu are one stream.
 */
#include <stdio.h>
#include <stdlib.h>

#include "cli/cli.h"
#include "common/json_scan.h"
#include "common/must.h"
#include "common/topic_name.h"

int cli_new_stream_path(const char *spelling, char **ret_path)
{
	char *path = must_calloc(1, strlen(spelling) + 2);
	sprintf(path, "%s%s", spelling[0] == '/' ? "" : "/", spelling);
	const char *fault = topic_path_fault(slice_str(path));
	if (fault != NULL) {
		free(path);
		return cli_fail(CLI_USAGE, "%s: %s", spelling, fault);
	}
	*ret_path = path;
	return CLI_OK;
}

/* The "name" of a stream's settings, owned; NULL when there is none. */
static char *name_of(struct slice body)
{
	struct json_scan j;
	char *name = NULL;
	json_scan_init(&j, body);
	if (json_next(&j) != JSON_OBJECT)
		return NULL;
	while (json_next(&j) == JSON_KEY) {
		bool is_name = json_string_is(j.span, "name");
		struct buf text;
		buf_init(&text, TOPIC_PATH_MAX + 1);
		if (json_skip(&j) == JSON_STRING && is_name && json_string(j.span, &text) == 0) {
			buf_put_u8(&text, '\0');
			free(name);
			name = text.failed ? NULL : must_strdup((char *)buf_head(&text));
		}
		buf_done(&text);
	}
	return name;
}

int cli_stream_path(struct cli *cli, const char *spelling, char **ret_path)
{
	char *path, *query;
	int code = cli_new_stream_path(spelling, &path);
	if (code != CLI_OK || spelling[0] == '/') {
		if (code == CLI_OK)
			*ret_path = path;
		return code;
	}
	if (asprintf(&query, "/_streams%s", path) < 0)
		abort();
	struct cli_response r;
	cli_request(cli, "GET", query, NULL, slice_of(NULL, 0), 0, &r);
	char *name = r.status == 200 ? name_of(buf_slice(&r.body)) : NULL;
	if (name != NULL) {
		free(path);
		*ret_path = name;
	} else if (r.status == 404) {
		*ret_path = path;       /* the command itself finds that it is not there */
	} else {
		free(path);
		code = cli_response_fail(cli, &r, spelling);
	}
	cli_response_done(&r);
	free(query);
	return code;
}
