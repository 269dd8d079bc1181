/* SPDX-License-Identifier: Apache-2.0
 *
 * What the command line asks for before anything is opened.
 */
#include "config.h"

#include "supervisor/supervisor.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "common/log.h"

#define TEXT_MAX (1u << 18)

static bool has_word(const struct supervisor *s, const char *word)
{
	for (int i = 1; i < s->argc; i++) {
		if (strcmp(s->argv[i], word) == 0)
			return true;
	}
	return false;
}

static void print(struct buf *text, FILE *to)
{
	if (buf_len(text) > 0)
		fwrite(buf_head(text), 1, buf_len(text), to);
	fflush(to);
}

static void print_help(void)
{
	struct buf text;
	buf_init(&text, TEXT_MAX);
	buf_put_str(&text, "usage: pico serve [OPTION...]\n\n"
			   "Runs a node. Without an option it serves the Pico protocol on http://127.0.0.1:4437, Durable Streams\n"
			   "on http://127.0.0.1:4438, Kafka on 127.0.0.1:9092, health and metrics on http://127.0.0.1:9090, and\n"
			   "keeps everything in ./data.\n\n"
			   "Each option is also a variable (PICO_NODE_ID) and a line of the --config file (node_id = 1): a flag\n"
			   "goes over the variable, that over the file, that over the default. SIZE takes K, M or G behind it.\n"
			   "SIGTERM ends the node, SIGHUP reads the configuration again.\n\n");
	conf_help(&text);
	buf_put_str(&text, "\nexit codes: 0 ended; 1 cannot start here; 2 a wrong option; 3 another node uses its storage;\n"
			   "            75 the store or the database is not reachable\n");
	print(&text, stdout);
	buf_done(&text);
}

static void print_faults(struct buf *faults)
{
	struct slice rest = buf_slice(faults);
	while (rest.n > 0) {
		const uint8_t *nl = memchr(rest.p, '\n', rest.n);
		size_t n = nl != NULL ? (size_t)(nl - rest.p) : rest.n;
		fprintf(stderr, "pico serve: %.*s\n", (int)n, (const char *)rest.p);
		n += nl != NULL;
		rest = slice_of(rest.p + n, rest.n - n);
	}
}

static void open_log(const struct conf *conf)
{
	enum log_level level = LOG_INFO;
	log_level_parse(conf->log_level, &level);
	log_open("supervisor", level, strcmp(conf->log_format, "json") == 0);
}

static int check_certificates(const struct conf *conf)
{
	char fault[CERTIFICATES_FAULT_MAX];
	int fd = certificates_wanted(conf) ? certificates_open(conf, fault) : -1;
	if (fd >= 0)
		close(fd);
	else if (certificates_wanted(conf))
		log_error("%s", fault);
	return fd < 0 && certificates_wanted(conf);
}

/* What was asked for and would be a lie, or cannot be listened on: 0 or the exit code, after one line. */
static int refusal(const struct conf *conf)
{
	int code = listeners_check(conf); /* first: tokens will not make the network ours */
	if (code == 0)
		code = check_certificates(conf);
	if (code != 0)
		return code;
	if (strcmp(conf->auth, "required") == 0)
		log_error("--auth required: authentication is not built yet and this node would answer everybody; leave it off");
	else if (conf->user[0] != '\0' || conf->worker_user[0] != '\0')
		log_error("%s: this node does not change its user yet and would go on as it is; leave it off and start it as the user",
			  conf->user[0] != '\0' ? "--user" : "--worker-user");
	else
		return 0;
	return 1;
}

/* The options that print and end the run. */
static bool is_question(struct supervisor *s)
{
	struct buf text;
	buf_init(&text, TEXT_MAX);
	bool ends = s->conf.show_config || s->conf.check_config;
	if (s->conf.show_config)
		conf_show(&s->conf, &s->origins, &text);
	else if (ends && (s->exit_code = refusal(&s->conf)) == 0)
		buf_put_str(&text, "the configuration is good\n");
	print(&text, stdout);
	buf_done(&text);
	return ends;
}

int options_load(struct supervisor *s)
{
	struct buf faults;
	if (has_word(s, "--help") || has_word(s, "-h")) {
		print_help();
		s->exit_code = 0;
		return -1;
	}
	if (has_word(s, "--version")) {
		printf("pico %s\n", PACKAGE_VERSION);
		s->exit_code = 0;
		return -1;
	}
	buf_init(&faults, TEXT_MAX);
	conf_init(&s->conf);
	int n = conf_load(&s->conf, &s->origins, s->argc, s->argv, environ, &faults);
	print_faults(&faults);
	buf_done(&faults);
	open_log(&s->conf);
	s->exit_code = n > 0 ? 2 : 0;
	if (n > 0 || is_question(s))
		return -1;
	s->exit_code = refusal(&s->conf);
	return s->exit_code != 0 ? -1 : 0;
}

static void warn_later(const struct supervisor *s)
{
	struct buf names;
	buf_init(&names, 8192);
	for (unsigned i = 0; i < CONF_N; i++) {
		if (s->origins.of[i] != CONF_DEFAULT && conf_is_later((enum conf_id)i))
			buf_printf(&names, " %s", conf_name((enum conf_id)i));
	}
	buf_put_u8(&names, 0);
	if (buf_len(&names) > 1)
		log_warn("accepted, without effect yet:%s", (const char *)buf_head(&names));
	buf_done(&names);
}

void options_warn(const struct supervisor *s)
{
	if (s->origins.secret_in_argv)
		log_warn("a secret stood on the command line and is overwritten there; better: --meta-url-file, PGPASSFILE, "
			 "--auth-bootstrap-token-file, or LoadCredential= of systemd");
	if (s->origins.mistyped[0] != '\0')
		log_warn("%s in the environment is no option and has no effect; did you mean %s?", s->origins.mistyped,
			 conf_name(s->origins.mistyped_for));
	if (strcmp(s->conf.meta_url, "sqlite::memory:") == 0)
		log_warn("mem:// keeps nothing: every record is gone when this node ends");
	warn_later(s);
}
