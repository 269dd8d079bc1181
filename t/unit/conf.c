/* SPDX-License-Identifier: Apache-2.0
 *
 * The configuration: every way to say a value, what is refused and in which words, precedence, secrets,
 * and the text form.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "common/conf.h"

struct loaded {
	struct conf conf;
	struct conf_origins origins;
	struct buf faults;
	int n;
	char *argv[16], *env[16];
};

/* Loads from copies of argv and env, which may be overwritten. */
static void load(struct loaded *l, const char *const *argv, const char *const *env)
{
	int argc = 0;
	memset(l, 0, sizeof(*l));
	for (; argv[argc] != NULL; argc++)
		l->argv[argc] = strdup(argv[argc]);
	for (int i = 0; env[i] != NULL; i++)
		l->env[i] = strdup(env[i]);
	buf_init(&l->faults, 65536);
	conf_init(&l->conf);
	l->n = conf_load(&l->conf, &l->origins, argc, l->argv, l->env, &l->faults);
	buf_put_u8(&l->faults, 0);
}

static void unload(struct loaded *l)
{
	for (int i = 0; i < 16; i++) {
		free(l->argv[i]);
		free(l->env[i]);
	}
	conf_done(&l->conf);
	buf_done(&l->faults);
}

#define ARGV(...) ((const char *const[]){ "pico serve", __VA_ARGS__, NULL })
#define NO_ARGV ((const char *const[]){ "pico serve", NULL })
#define ENV(...) ((const char *const[]){ __VA_ARGS__, NULL })
#define NO_ENV ((const char *const[]){ NULL })

static void test_defaults(void **state)
{
	struct loaded l;
	load(&l, NO_ARGV, NO_ENV);
	assert_int_equal(l.n, 0);
	assert_string_equal(l.conf.meta_url, "sqlite:./data/meta.db");
	assert_string_equal(l.conf.storage, "-2@file://./data/objects");
	assert_string_equal(l.conf.wal, "-3@file://./data/objects");
	assert_string_equal(l.conf.data_dir, "./data");
	assert_string_equal(l.conf.runtime_dir, "./data");
	assert_int_equal(l.conf.listen.n, 1);
	assert_string_equal(l.conf.listen.item[0], "127.0.0.1:4437");
	assert_int_equal(l.conf.wal_cache_size, 200 << 20);
	assert_int_equal(l.conf.retention_ms, -1);
	assert_true(l.conf.auto_create_topics);
	assert_false(l.conf.no_ds);
	assert_int_equal(l.origins.of[CONF_ID_listen], CONF_DEFAULT);
	unload(&l);
}

static void test_flags(void **state)
{
	struct loaded l;
	load(&l, ARGV("--storage", "-5@file://./x", "--wal-cache-size=256M", "--no-ds", "--retention-ms", "-1",
		      "--listen", "127.0.0.1:1", "--listen=[::1]:2,localhost:3", "--auto-create-topics", "off"), NO_ENV);
	assert_string_equal((char *)l.faults.p, "");
	assert_int_equal(l.n, 0);
	assert_string_equal(l.conf.storage, "-5@file://./x");
	assert_string_equal(l.conf.wal, "-6@file://./x");
	assert_int_equal(l.conf.wal_cache_size, 256 << 20);
	assert_true(l.conf.no_ds);
	assert_false(l.conf.auto_create_topics);
	assert_int_equal(l.conf.listen.n, 3);
	assert_string_equal(l.conf.listen.item[0], "127.0.0.1:1");
	assert_string_equal(l.conf.listen.item[2], "localhost:3");
	assert_int_equal(l.origins.of[CONF_ID_no_ds], CONF_FLAG);
	unload(&l);
}

static void test_refusals(void **state)
{
	static const struct {
		const char *flag, *fault;
	} rows[] = {
		{ "--lisen=x", "--lisen: there is no such option; did you mean --listen?\n" },
		{ "--zzzzzzzzz", "--zzzzzzzzz: there is no such option; see pico serve --help\n" },
		{ "--listen", "--listen needs a value\n" },
		{ "serve", "'serve': options begin with --\n" },
		{ "--node-id=0", "--node-id: '0' is not within 1..65535\n" },
		{ "--node-id=65536", "--node-id: '65536' is not within 1..65535\n" },
		{ "--node-id=1x", "--node-id: '1x' is not a number\n" },
		{ "--node-id=", "--node-id: '' is not a number\n" },
		{ "--node-id=-1", "--node-id: '-1' is not a number\n" },
		{ "--wal-cache-size=1T", "--wal-cache-size: '1T' is not a size (digits, then K, M or G)\n" },
		{ "--wal-cache-size=127M", "--wal-cache-size: '127M' is not within 134217728..1099511627776\n" },
		{ "--wal-cache-size=99999999999999999999", "--wal-cache-size: '99999999999999999999' is not a size (digits, then K, M or G)\n" },
		{ "--idle-timeout-ms=5s", "--idle-timeout-ms: '5s' is not a number of milliseconds\n" },
		{ "--protocol=kafka", "--protocol: 'kafka' is not one of: pico ds\n" },
		{ "--log-level=inf", "--log-level: 'inf' is not one of: error warn info debug\n" },
		{ "--no-ds=maybe", "--no-ds: 'maybe' is not on or off\n" },
		{ "--long-poll-timeout-sec=1", "--long-poll-timeout-sec is --long-poll-timeout-ms now, in milliseconds\n" },
		{ "--sse-max-duration-sec=1", "--sse-max-duration-sec is --sse-max-duration-ms now, in milliseconds\n" },
		{ "--shutdown-drain-sec=1", "--shutdown-drain-sec is --shutdown-drain-ms now, in milliseconds\n" },
		{ "--node-epoch=1", "--node-epoch is gone: --node-id is enough, the epoch is counted in the metadata\n" },
		{ "--config=/nonexistent", "--config: cannot read /nonexistent: No such file or directory\n" },
		{ "--max-message-size=32M", "--max-message-size: must be below --max-request-size\n" },
		{ "--wal=-3@mem://x", "--meta-url, --storage, --wal: sqlite::memory: and mem:// go only together\n" },
		{ "--meta-url=mysql://x", "--meta-url: begins with neither sqlite: nor postgres://\n" },
		{ "--http-address=x:1", "--http-address: 'x:1' does not begin with http:// or https://\n" },
		{ "--cluster-id=a\nb", "--cluster-id: '...' is not free of control characters\n" },
	};
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct loaded l;
		load(&l, ARGV(rows[i].flag), NO_ENV);
		assert_string_equal((char *)l.faults.p, rows[i].fault);
		assert_int_equal(l.n, 1);
		unload(&l);
	}
}

static void test_value_is_not_a_flag(void **state)
{
	struct loaded l;
	load(&l, ARGV("--listen", "--no-ds"), NO_ENV);
	assert_string_equal((char *)l.faults.p, "--listen needs a value\n");
	assert_true(l.conf.no_ds);
	unload(&l);
}

static void write_text(char *path, const char *text)
{
	int fd = mkstemp(path);
	assert_true(fd >= 0);
	assert_int_equal(write(fd, text, strlen(text)), strlen(text));
	close(fd);
}

static void test_precedence(void **state)
{
	char path[] = "/tmp/pico-conf-XXXXXX", variable[64];
	struct loaded l;
	write_text(path, "# head\nnode_id = 7\n\ncluster-id = \"a # \\\"b\\\" \\\\\"  # comment\nslots=3 # three\n"
			 "listen = 127.0.0.1:5\nlisten = 127.0.0.1:6\nbacklog = 9\n");
	snprintf(variable, sizeof(variable), "PICO_CONFIG=%s", path);
	load(&l, ARGV("--node-id=9"), ENV(variable, "PICO_NODE_ID=8", "PICO_BACKLOG=10", "PICO_SLOTS=", "PICO_OTHER=1"));
	unlink(path);
	assert_string_equal((char *)l.faults.p, "");
	assert_int_equal(l.conf.node_id, 9);
	assert_int_equal(l.conf.backlog, 10);
	assert_int_equal(l.conf.slots, 3);
	assert_string_equal(l.conf.cluster_id, "a # \"b\" \\");
	assert_int_equal(l.conf.listen.n, 2);
	assert_string_equal(l.conf.listen.item[1], "127.0.0.1:6");
	assert_int_equal(l.origins.of[CONF_ID_node_id], CONF_FLAG);
	assert_int_equal(l.origins.of[CONF_ID_backlog], CONF_ENVIRONMENT);
	assert_int_equal(l.origins.of[CONF_ID_slots], CONF_FILE);
	unload(&l);
}

static void test_mistyped_variable(void **state)
{
	struct loaded l;
	load(&l, ARGV("--slots=7"), ENV("PICO_NODE_IDD=4", "PICO_ENDPOINT=http://x", "PICO_TEST_STORE=s3"));
	assert_int_equal(l.n, 0);
	assert_string_equal(l.origins.mistyped, "PICO_NODE_IDD");
	assert_int_equal(l.origins.mistyped_for, CONF_ID_node_id);
	unload(&l);
	load(&l, ARGV("--slots=7"), ENV("PICO_ENDPOINT=http://x", "PICO_ADMIN_ENDPOINT=http://x", "PICO_LIBEXEC=/x", "PICO_BUILD=/b"));
	assert_string_equal(l.origins.mistyped, "");
	unload(&l);
}

static void test_bad_file(void **state)
{
	char path[] = "/tmp/pico-conf-XXXXXX", flag[64];
	struct loaded l;
	write_text(path, "nodeid = 7\nhello\nnode_id = x\nlog_level = \"debug\nconfig = other\n");
	snprintf(flag, sizeof(flag), "--config=%s", path);
	load(&l, ARGV(flag), NO_ENV);
	unlink(path);
	assert_int_equal(l.n, 5);
	static const char *const faults[] = {
		":1: --nodeid: there is no such option; did you mean --node-id?\n", ":2: a line is key = value\n",
		":3: --node-id: 'x' is not a number\n", ":4: a line is key = value\n", ":5: --config: a file cannot name another\n",
	};
	for (size_t i = 0; i < sizeof(faults) / sizeof(faults[0]); i++) {
		char line[160];
		snprintf(line, sizeof(line), "%s%s", path, faults[i]);
		if (strstr((char *)l.faults.p, line) == NULL)
			fail_msg("%s is not in %s", line, (char *)l.faults.p);
	}
	unload(&l);
}

static void test_secrets(void **state)
{
	struct loaded l;
	struct buf out;
	load(&l, ARGV("--meta-url", "postgres://u:geheim@h/db", "--auth-bootstrap-token=tok.en"), NO_ENV);
	assert_int_equal(l.n, 0);
	assert_true(l.origins.secret_in_argv);
	assert_string_equal(l.argv[2], "postgres://u:******@h/db");
	assert_string_equal(l.argv[3], "--auth-bootstrap-token=******");
	assert_string_equal(l.conf.meta_url, "postgres://u@h/db");
	assert_string_equal(l.conf.meta_password, "geheim");
	buf_init(&out, 65536);
	conf_show(&l.conf, &l.origins, &out);
	conf_write(&l.conf, &out);
	buf_put_u8(&out, 0);
	assert_null(strstr((char *)out.p, "geheim"));
	assert_null(strstr((char *)out.p, "tok.en"));
	assert_non_null(strstr((char *)out.p, "auth_bootstrap_token = ***  # flag\n"));
	buf_done(&out);
	unload(&l);

	load(&l, NO_ARGV, ENV("PICO_META_URL=postgres://h/db?password=geheim&x=1"));
	assert_false(l.origins.secret_in_argv);
	assert_string_equal(l.env[0], "PICO_META_URL=postgres://h/db?password=******&x=1");
	assert_string_equal(l.conf.meta_password, "geheim");
	assert_string_equal(l.conf.meta_url, "postgres://h/db?password=&x=1");
	unload(&l);
}

static void test_meta_url_file(void **state)
{
	char path[] = "/tmp/pico-conf-XXXXXX", flag[64];
	struct loaded l;
	write_text(path, "postgres://u:pw@h/db\n");
	snprintf(flag, sizeof(flag), "--meta-url-file=%s", path);
	load(&l, ARGV(flag), NO_ENV);
	assert_int_equal(l.n, 0);
	assert_false(l.origins.secret_in_argv);
	assert_string_equal(l.conf.meta_url, "postgres://u@h/db");
	assert_string_equal(l.conf.meta_password, "pw");
	unload(&l);
	load(&l, ARGV(flag, "--meta-url=sqlite:x"), NO_ENV);
	assert_string_equal((char *)l.faults.p, "--meta-url and --meta-url-file: give one of them\n");
	unload(&l);
	unlink(path);
}

static void test_directories(void **state)
{
	static const struct {
		const char *flag, *data_dir, *meta_url, *storage;
	} rows[] = {
		{ "--data-dir=/d", "/d", "sqlite:/d/meta.db", "-2@file:///d/objects" },
		{ "--meta-url=sqlite:/e/m.db", "/e", "sqlite:/e/m.db", "-2@file:///e/objects" },
		{ "--meta-url=sqlite:m.db", ".", "sqlite:m.db", "-2@file://./objects" },
		{ "--meta-url=sqlite:/m.db", "/", "sqlite:/m.db", "-2@file:////objects" },
		{ "--meta-url=sqlite::memory:", "./data", "sqlite::memory:", "-2@mem://data" },
		{ "--storage=-2@mem://x", "./data", "sqlite::memory:", "-2@mem://x" },
	};
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct loaded l;
		load(&l, ARGV(rows[i].flag), ENV("RUNTIME_DIRECTORY=/run/pico:/run/b"));
		assert_string_equal((char *)l.faults.p, "");
		assert_string_equal(l.conf.data_dir, rows[i].data_dir);
		assert_string_equal(l.conf.meta_url, rows[i].meta_url);
		assert_string_equal(l.conf.storage, rows[i].storage);
		assert_string_equal(l.conf.runtime_dir, "/run/pico");
		unload(&l);
	}
}

/* Every option, with values that need quotes, survives the way to a child. */
static void test_write_read(void **state)
{
	struct loaded l;
	struct conf back;
	struct buf text, faults;
	load(&l, ARGV("--cluster-id", " a \"b\" # c\\", "--listen", "127.0.0.1:1,[::1]:2", "--retention-bytes=5",
		      "--no-kafka", "--wal-cache-size=131073K", "--max-logs=77"), NO_ENV);
	assert_int_equal(l.n, 0);
	buf_init(&text, 65536);
	buf_init(&faults, 65536);
	conf_write(&l.conf, &text);
	conf_init(&back);
	assert_int_equal(conf_read(&back, buf_slice(&text), &faults), 0);
	for (unsigned i = 0; i < CONF_N; i++)
		assert_true(conf_same(&l.conf, &back, (enum conf_id)i));
	assert_string_equal(back.cluster_id, " a \"b\" # c\\");
	assert_int_equal(back.wal_cache_size, 131073u << 10);
	assert_int_equal(back.max_logs, 77);
	back.max_logs = 78;
	assert_false(conf_same(&l.conf, &back, CONF_ID_max_logs));
	conf_done(&back);
	buf_done(&text);
	buf_done(&faults);
	unload(&l);
}

static void test_help_names_every_option(void **state)
{
	struct buf out;
	buf_init(&out, 65536);
	conf_help(&out);
	buf_put_u8(&out, 0);
	assert_false(out.failed);
	for (unsigned i = 0; i < CONF_N; i++) {
		char flag[80] = "--";
		strcat(flag, conf_name((enum conf_id)i));
		for (char *p = flag; *p != '\0'; p++)
			*p = *p == '_' ? '-' : *p;
		assert_non_null(strstr((char *)out.p, flag));
	}
	buf_done(&out);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_defaults), cmocka_unit_test(test_flags),
		cmocka_unit_test(test_refusals), cmocka_unit_test(test_value_is_not_a_flag),
		cmocka_unit_test(test_precedence), cmocka_unit_test(test_mistyped_variable),
		cmocka_unit_test(test_bad_file),
		cmocka_unit_test(test_secrets), cmocka_unit_test(test_meta_url_file),
		cmocka_unit_test(test_directories), cmocka_unit_test(test_write_read),
		cmocka_unit_test(test_help_names_every_option),
	};
	return cmocka_run_group_tests_name("conf", tests, NULL, NULL);
}
