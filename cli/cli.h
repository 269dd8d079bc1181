/* SPDX-License-Identifier: Apache-2.0
 *
 * What the commands of `pico` share: global options, exit codes, HTTP requests, and words for what failed.
 * Data goes to stdout, notes and errors to stderr.
 */
#ifndef CLI_CLI_H
#define CLI_CLI_H

#include "common/buf.h"

enum cli_exit { CLI_OK = 0, CLI_FAILED = 1, CLI_USAGE = 2, CLI_NOT_FOUND = 3, CLI_FOUND = 4 };

struct cli {
	const char *endpoint;           /* URL of the stream listener, without a path */
	bool json;                      /* print data as JSON */
	void *curl;                     /* private to http.c */
};

struct cli_command {
	const char *name;
	const char *arguments;          /* for the usage line */
	const char *summary;            /* one line */
	const char *help;               /* what to know, with an example */
	int (*run)(struct cli *cli, int argc, char **argv);     /* argv[0] is the command's name */
};

extern const struct cli_command cli_commands[];         /* ends with a NULL name */

int cmd_serve(struct cli *cli, int argc, char **argv);
int cmd_create(struct cli *cli, int argc, char **argv);
int cmd_append(struct cli *cli, int argc, char **argv);
int cmd_read(struct cli *cli, int argc, char **argv);
int cmd_tail(struct cli *cli, int argc, char **argv);
int cmd_head(struct cli *cli, int argc, char **argv);
int cmd_ls(struct cli *cli, int argc, char **argv);
int cmd_fsck(struct cli *cli, int argc, char **argv);
int cmd_admin(struct cli *cli, int argc, char **argv);
int cmd_bench(struct cli *cli, int argc, char **argv);
int cmd_close(struct cli *cli, int argc, char **argv);
int cmd_trim(struct cli *cli, int argc, char **argv);
int cmd_delete(struct cli *cli, int argc, char **argv);

/* "pico: " and the text on stderr; returns the code, so that a command can end with it. */
int cli_fail(int code, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
int cli_usage(const char *command);

/* One option of a command: sets *value (or *flag) when the name is given. Ends with a NULL name. */
struct cli_option {
	const char *name;
	const char **value;
	bool *flag;
};
/* Takes options and exactly one positional argument (none when ret_stream is NULL). 0 or CLI_USAGE, told. */
int cli_parse(int argc, char **argv, const struct cli_option *options, const char **ret_stream);
/* A whole number, or told: CLI_USAGE. */
int cli_number(const char *option, const char *text, uint64_t *ret_value);

/* The path of a stream in any spelling: asks the node about what does not begin with '/'. CLI_OK and a path to free,
 * or told. */
int cli_stream_path(struct cli *cli, const char *spelling, char **ret_path);
/* The same of a stream that is to be made: only the first '/' may be missing. */
int cli_new_stream_path(const char *spelling, char **ret_path);

/* ---------------------------------------------------------------------- http.c */

#define CLI_HEADERS_MAX 32

struct cli_response {
	long status;                    /* 0: no answer; `body` has the reason */
	struct buf body;
	struct {
		char name[64];          /* lower case */
		char value[512];
	} header[CLI_HEADERS_MAX];
	size_t n_headers;
};

/* headers: "Name: value" strings, NULL at the end. body p == NULL: none. timeout_ms 0: 65 s. Always fills ret. */
void cli_request(struct cli *cli, const char *method, const char *path_and_query, const char *const *headers,
		 struct slice body, long timeout_ms, struct cli_response *ret);
void cli_response_done(struct cli_response *r);
/* NULL when absent. */
const char *cli_header(const struct cli_response *r, const char *lower_case_name);
bool cli_header_is_true(const struct cli_response *r, const char *lower_case_name);
/* Says what went wrong with a request and returns the exit code for it. */
int cli_response_fail(const struct cli *cli, const struct cli_response *r, const char *stream);
void cli_http_done(struct cli *cli);

#endif
