/* SPDX-License-Identifier: Apache-2.0
 *
 * Where the configuration comes from: the file, then the environment, then the flags, each over the one
 * before; then what follows from other options, then the checks between them. A secret found in argv or
 * the environment is copied out and overwritten there, so that ps and /proc show it no longer.
 */
#include "common/conf.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "common/conf_row.h"
#include "common/must.h"

#define FILE_MAX (1u << 20)

struct loader {
	struct conf *conf;
	struct conf_origins *origins;
	struct buf *faults;
	int n_faults;
};

struct flag {
	const char *name;
	char *value;            /* NULL: none follows */
	bool attached;          /* --name=value */
};

__attribute__((format(printf, 2, 3))) static void fault(struct loader *l, const char *fmt, ...)
{
	char line[512];
	va_list ap;
	va_start(ap, fmt);
	vsnprintf(line, sizeof(line), fmt, ap);
	va_end(ap);
	buf_printf(l->faults, "%s\n", line);
	l->n_faults++;
}

static char *after(char *s, const char *word)
{
	char *p = strstr(s, word);
	return p != NULL ? p + strlen(word) : NULL;
}

/* The password in a URL: user:PASSWORD@ or password=PASSWORD; NULL when there is none. */
static char *find_password(char *url, size_t *ret_len)
{
	char *authority = after(url, "://");
	if (authority == NULL)
		return NULL;
	size_t n = strcspn(authority, "/?");
	char *colon = memchr(authority, ':', n), *at = memrchr(authority, '@', n);
	if (colon != NULL && at != NULL && colon < at) {
		*ret_len = (size_t)(at - colon - 1);
		return colon + 1;
	}
	char *query = strchr(authority, '?');
	char *value = query != NULL ? after(query, "password=") : NULL;
	if (value != NULL)
		*ret_len = strcspn(value, "&");
	return value;
}

/* Takes the password out of conf.meta_url. `in_place`: where the text stands that everybody can read, or NULL. */
static void hide_password(struct loader *l, char *in_place, bool in_argv)
{
	size_t n = 0;
	char *url = l->conf->meta_url, *p = find_password(url, &n);
	if (p == NULL || n == 0)
		return;
	free(l->conf->meta_password);
	l->conf->meta_password = strndup(p, n);
	must(l->conf->meta_password != NULL);
	explicit_bzero(p, n);
	bool userinfo = p[n] == '@' && p[-1] == ':';
	memmove(p - userinfo, p + n, strlen(p + n) + 1);
	p = in_place != NULL ? find_password(in_place, &n) : NULL;
	if (p != NULL)
		memset(p, '*', n);
	l->origins->secret_in_argv |= in_argv;
}

static void set(struct loader *l, const struct conf_row *row, char *value, enum conf_origin origin)
{
	enum conf_id id = (enum conf_id)(row - conf_rows);
	bool first = l->origins->of[id] != origin;
	if (conf_set_row(l->conf, row, value, first, l->faults) < 0)
		l->n_faults++;
	l->origins->of[id] = origin;
	if (id == CONF_ID_meta_url) {
		hide_password(l, origin >= CONF_ENVIRONMENT ? value : NULL, origin == CONF_FLAG);
	} else if (conf_is_secret(row) && origin >= CONF_ENVIRONMENT && value[0] != '\0') {
		memset(value, '*', strlen(value));
		l->origins->secret_in_argv |= origin == CONF_FLAG;
	}
}

/* Reads a small file whole; the fault names `option`. */
static int read_file(struct loader *l, const char *option, const char *path, struct buf *ret_text)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : 1;
	while (n > 0) {
		uint8_t *to = buf_reserve(ret_text, 4096);
		n = to != NULL ? read(fd, to, 4096) : (errno = EFBIG, -1);
		if (n > 0)
			buf_commit(ret_text, (size_t)n);
	}
	if (n < 0)
		fault(l, "--%s: cannot read %s: %s", option, path, strerror(errno));
	if (fd >= 0)
		close(fd);
	return n < 0 ? -EIO : 0;
}

static void load_pair(struct loader *l, struct conf_pair *pair)
{
	const struct conf_row *row = conf_find(pair->key);
	if (row == &conf_rows[CONF_ID_config]) {
		fault(l, "--config: a file cannot name another");
	} else if (row != NULL) {
		set(l, row, pair->value, CONF_FILE);
	} else {
		conf_unknown(pair->key, l->faults);
		l->n_faults++;
	}
}

/* The number of the line that ends where `rest` begins. */
static unsigned line_before(struct slice text, struct slice rest)
{
	size_t n = text.n - rest.n;
	unsigned line = n > 0 && text.p[n - 1] != '\n'; /* the last one may lack its end */
	for (size_t i = 0; i < n; i++)
		line += text.p[i] == '\n';
	return line;
}

/* One line, or what is wrong with it behind FILE:LINE. */
static void load_line(struct loader *l, const char *path, unsigned line, struct conf_pair *pair)
{
	size_t before = buf_len(l->faults);
	int n_faults = l->n_faults;
	buf_printf(l->faults, "%s:%u: ", path, line);
	size_t prefix = buf_len(l->faults) - before;
	if (pair == NULL)
		fault(l, "a line is key = value");
	else
		load_pair(l, pair);
	if (l->n_faults == n_faults)
		l->faults->end -= prefix;
}

static void load_file(struct loader *l, const char *path)
{
	struct buf text;
	struct conf_pair pair;
	buf_init(&text, FILE_MAX);
	if (read_file(l, "config", path, &text) == 0) {
		struct slice rest = buf_slice(&text);
		int n;
		while ((n = conf_next(&rest, &pair)) != 0)
			load_line(l, path, line_before(buf_slice(&text), rest), n < 0 ? NULL : &pair);
	}
	buf_done(&text);
}

/* PICO_WAL_CACHE_SIZE as wal_cache_size; false when it is no PICO_ variable, or an empty one. */
static bool split_variable(char *variable, char ret_name[static CONF_NAME_MAX], char **ret_value)
{
	char *eq = strchr(variable, '=');
	if (strncmp(variable, "PICO_", 5) != 0 || eq == NULL || eq[1] == '\0')
		return false;
	size_t n = (size_t)(eq - variable) - 5;
	if (n == 0 || n >= CONF_NAME_MAX)
		return false;
	for (size_t i = 0; i < n; i++) {
		char c = variable[5 + i];
		ret_name[i] = c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
	}
	ret_name[n] = '\0';
	*ret_value = eq + 1;
	return true;
}

/* Kept for a warning; a fault it is not, for it may be somebody else's. */
static void note_mistyped(struct loader *l, const char *name)
{
	const struct conf_row *nearest = conf_nearest(name);
	if (nearest == NULL)
		return;
	snprintf(l->origins->mistyped, sizeof(l->origins->mistyped), "PICO_%s", name);
	for (char *c = l->origins->mistyped; *c != '\0'; c++)
		*c = *c >= 'a' && *c <= 'z' ? (char)(*c - 'a' + 'A') : *c;
	l->origins->mistyped_for = (enum conf_id)(nearest - conf_rows);
}

/* Variables that are no option belong to others (the command line client has some) and are left alone. */
static void load_environment(struct loader *l, char **environ_, bool only_config)
{
	char name[CONF_NAME_MAX], *value;
	for (; *environ_ != NULL; environ_++) {
		if (!split_variable(*environ_, name, &value))
			continue;
		const struct conf_row *row = conf_find(name);
		if (row == NULL)
			note_mistyped(l, name);
		else if (only_config == (row == &conf_rows[CONF_ID_config]))
			set(l, row, value, CONF_ENVIRONMENT);
	}
}

/* Takes the next flag off argv; false at its end. A FLAG takes only an attached value. */
static bool next_flag(int *i, int argc, char **argv, struct flag *ret, char ret_name[static CONF_NAME_MAX])
{
	if (*i >= argc)
		return false;
	char *arg = argv[(*i)++];
	*ret = (struct flag){ .name = arg };
	if (strncmp(arg, "--", 2) != 0)
		return true;
	size_t n = strcspn(arg + 2, "=");
	snprintf(ret_name, CONF_NAME_MAX, "%.*s", (int)(n < CONF_NAME_MAX ? n : CONF_NAME_MAX - 1), arg + 2);
	ret->name = ret_name;
	ret->attached = arg[2 + n] == '=';
	const struct conf_row *row = conf_find(ret_name);
	if (ret->attached)
		ret->value = arg + 2 + n + 1;
	else if (row != NULL && row->type != CONF_TYPE_FLAG && *i < argc && strncmp(argv[*i], "--", 2) != 0)
		ret->value = argv[(*i)++];
	return true;
}

static void load_flag(struct loader *l, const struct flag *f, bool is_option)
{
	static char on[] = "on";
	const struct conf_row *row = is_option ? conf_find(f->name) : NULL;
	if (!is_option) {
		fault(l, "'%s': options begin with --", f->name);
	} else if (row == NULL) {
		conf_unknown(f->name, l->faults);
		l->n_faults++;
	} else if (f->value == NULL && row->type != CONF_TYPE_FLAG) {
		fault(l, "--%s needs a value", f->name);
	} else {
		set(l, row, f->value != NULL ? f->value : on, CONF_FLAG);
	}
}

static void load_flags(struct loader *l, int argc, char **argv, bool only_config)
{
	char name[CONF_NAME_MAX];
	struct flag f;
	for (int i = 1; next_flag(&i, argc, argv, &f, name); ) {
		bool is_option = f.name == name;
		bool is_config = is_option && conf_find(name) == &conf_rows[CONF_ID_config];
		if (only_config == is_config)
			load_flag(l, &f, is_option);
	}
}

static void replace(char **to, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static void replace(char **to, const char *fmt, ...)
{
	char *s;
	va_list ap;
	va_start(ap, fmt);
	int n = vasprintf(&s, fmt, ap);
	va_end(ap);
	must(n >= 0);
	free(*to);
	*to = s;
}

/* The sqlite file of a metadata URL, NULL for another kind and for memory. */
static const char *sqlite_path(const char *url)
{
	if (strncmp(url, "sqlite:", 7) != 0 || strcmp(url, "sqlite::memory:") == 0)
		return NULL;
	return url + 7;
}

static bool is_mem(const char *storage)
{
	return strstr(storage, "@mem://") != NULL;
}

void conf_finish(struct conf *c, const char *runtime_directory)
{
	const char *sqlite = sqlite_path(c->meta_url);
	char *end;
	if (c->data_dir[0] == '\0' && sqlite != NULL) {
		const char *slash = strrchr(sqlite, '/');
		int n = slash == NULL ? 0 : slash == sqlite ? 1 : (int)(slash - sqlite);
		replace(&c->data_dir, "%.*s", n > 0 ? n : 1, n > 0 ? sqlite : ".");
	} else if (c->data_dir[0] == '\0') {
		replace(&c->data_dir, "./data");
	}
	if (c->meta_url[0] == '\0' && is_mem(c->storage))
		replace(&c->meta_url, "sqlite::memory:");
	else if (c->meta_url[0] == '\0')
		replace(&c->meta_url, "sqlite:%s/meta.db", c->data_dir);
	if (c->storage[0] == '\0' && strcmp(c->meta_url, "sqlite::memory:") == 0)
		replace(&c->storage, "-2@mem://data");
	else if (c->storage[0] == '\0')
		replace(&c->storage, "-2@file://%s/objects", c->data_dir);
	long id = strtol(c->storage, &end, 10);
	if (c->wal[0] == '\0' && *end == '@')
		replace(&c->wal, "%ld%s", id - 1, end);
	if (c->runtime_dir[0] == '\0' && runtime_directory != NULL && runtime_directory[0] != '\0')
		replace(&c->runtime_dir, "%.*s", (int)strcspn(runtime_directory, ":"), runtime_directory);
	else if (c->runtime_dir[0] == '\0')
		replace(&c->runtime_dir, "%s", c->data_dir);
}

static void load_meta_url_file(struct loader *l)
{
	struct buf text;
	struct conf *c = l->conf;
	if (c->meta_url[0] != '\0') {
		fault(l, "--meta-url and --meta-url-file: give one of them");
		return;
	}
	buf_init(&text, 8192);
	if (read_file(l, "meta-url-file", c->meta_url_file, &text) == 0) {
		struct slice s = buf_slice(&text);
		size_t n = 0;
		while (n < s.n && s.p[n] > ' ')
			n++;
		if (n == 0)
			fault(l, "--meta-url-file: %s holds no URL", c->meta_url_file);
		replace(&c->meta_url, "%.*s", (int)n, (const char *)s.p);
		hide_password(l, NULL, false);
		explicit_bzero(text.p, text.capacity);
	}
	buf_done(&text);
}

/* ID@file://, ID@mem:// or ID@s3://; storaged reads the rest. */
static void check_storage(struct loader *l, const char *option, const char *url)
{
	static const char *const schemes[] = { "file://", "mem://", "s3://" };
	size_t id = url[0] == '-', n_digits = strspn(url + id, "0123456789");
	const char *at = n_digits > 0 && url[id + n_digits] == '@' ? url + id + n_digits + 1 : url;
	for (size_t i = 0; i < sizeof(schemes) / sizeof(schemes[0]); i++) {
		if (strncmp(at, schemes[i], strlen(schemes[i])) == 0)
			return;
	}
	fault(l, "--%s: '%.200s' is none of ID@file://DIR, ID@mem://NAME and ID@s3://BUCKET", option, url);
}

/* host:port with a port that can be connected to; the host is passed on as written. */
static void check_kafka_advertise(struct loader *l, const char *text)
{
	const char *colon = strrchr(text, ':');
	char *end = NULL;
	unsigned long port = colon != NULL ? strtoul(colon + 1, &end, 10) : 0;
	if (text[0] == '\0')
		return;
	if (colon == NULL || colon == text || *end != '\0' || port == 0 || port > 65535)
		fault(l, "--kafka-advertise: '%.200s' is not host:port", text);
	else if (colon - text > 255)
		fault(l, "--kafka-advertise: the host is longer than 255 bytes");
}

/* An advertised address. */
static void check_url(struct loader *l, const char *option, const char *text)
{
	if (text[0] != '\0' && strncmp(text, "http://", 7) != 0 && strncmp(text, "https://", 8) != 0)
		fault(l, "--%s: '%.200s' does not begin with http:// or https://", option, text);
	if (strlen(text) > 255)
		fault(l, "--%s: longer than 255 bytes", option);
}

static void check(struct loader *l)
{
	const struct conf *c = l->conf;
	bool memory = strcmp(c->meta_url, "sqlite::memory:") == 0;
	if (c->max_message_size >= c->max_request_size)
		fault(l, "--max-message-size: must be below --max-request-size");
	if (memory != is_mem(c->storage) || is_mem(c->wal) != is_mem(c->storage))
		fault(l, "--meta-url, --storage, --wal: sqlite::memory: and mem:// go only together");
	if (strncmp(c->meta_url, "sqlite:", 7) != 0 && strncmp(c->meta_url, "postgres://", 11) != 0)
		fault(l, "--meta-url: begins with neither sqlite: nor postgres://");
	check_storage(l, "storage", c->storage);
	if (c->wal[0] != '\0')
		check_storage(l, "wal", c->wal);
	check_url(l, "http-address", c->http_address);
	check_url(l, "ds-address", c->ds_address);
	check_kafka_advertise(l, c->kafka_advertise);
	if (c->ds_root[0] != '\0' && (c->ds_root[0] != '/' || c->ds_root[strlen(c->ds_root) - 1] == '/'))
		fault(l, "--ds-root: '%.200s' is no path as in /v1/stream; nothing puts streams at the top", c->ds_root);
	if (c->group_min_session_timeout_ms > c->group_max_session_timeout_ms)
		fault(l, "--group-min-session-timeout-ms: above --group-max-session-timeout-ms");
}

int conf_load(struct conf *c, struct conf_origins *ret_origins, int argc, char **argv, char **environ_,
	      struct buf *faults)
{
	struct loader l = { .conf = c, .origins = ret_origins, .faults = faults };
	*ret_origins = (struct conf_origins){ 0 };
	load_environment(&l, environ_, true);
	load_flags(&l, argc, argv, true);
	if (c->config[0] != '\0')
		load_file(&l, c->config);
	load_environment(&l, environ_, false);
	load_flags(&l, argc, argv, false);
	if (c->meta_url_file[0] != '\0')
		load_meta_url_file(&l);
	const char *runtime_directory = NULL;
	for (char **e = environ_; *e != NULL; e++) {
		if (strncmp(*e, "RUNTIME_DIRECTORY=", 18) == 0)
			runtime_directory = *e + 18;
	}
	conf_finish(c, runtime_directory);
	check(&l);
	return l.n_faults;
}
