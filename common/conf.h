/* SPDX-License-Identifier: Apache-2.0
 *
 * The configuration of `pico serve`: one struct made from conf.def, its parser (flag over
 * environment over file over default), --help, --show-config, and the text form in which the
 * supervisor hands it to its children.
 *
 * A file is lines of `key = value`. A key is an option's name, with '_' or '-'. A value may stand in
 * double quotes (\" and \\ inside); else it ends at the end of the line or before " #". Lines that
 * begin with '#' and empty ones are skipped.
 */
#ifndef COMMON_CONF_H
#define COMMON_CONF_H

#include "common/buf.h"
#include "common/slice.h"

struct conf_list {
	char **item;            /* owned strings */
	size_t n;
};

#define CONF_C_STRING char *
#define CONF_C_LIST struct conf_list
#define CONF_C_FLAG bool
#define CONF_C_SWITCH bool
#define CONF_C_U64 uint64_t
#define CONF_C_SIZE uint64_t
#define CONF_C_MS uint64_t
#define CONF_C_I64 int64_t

enum conf_origin { CONF_DEFAULT, CONF_FILE, CONF_ENVIRONMENT, CONF_FLAG };

/* Strings are owned and never NULL. SIZE is bytes, MS milliseconds. */
struct conf {
#define CONF(name, type, def, min, max, when, help) CONF_C_##type name;
#include "common/conf.def"
#undef CONF
	char *meta_password;    /* moved out of meta_url; "" when there was none */
};

enum conf_id {
#define CONF(name, type, def, min, max, when, help) CONF_ID_##name,
#include "common/conf.def"
#undef CONF
	CONF_N
};

struct conf_origins {
	enum conf_origin of[CONF_N];    /* which origin each value has */
	bool secret_in_argv;            /* one was there and is overwritten: worth a warning */
	char mistyped[80];              /* a variable that is no option, and nearly one; "": none */
	enum conf_id mistyped_for;
};

void conf_init(struct conf *c);     /* the defaults */
void conf_done(struct conf *c);

/*
 * Sets one option from text; `name` in flag spelling ("wal-cache-size"). 0, -ENOENT unknown, -EINVAL;
 * ret_fault says which option, what is wrong, what is right. A LIST value (items between commas)
 * replaces the list when `first` is set and is added otherwise.
 */
int conf_set(struct conf *c, const char *name, const char *value, bool first, struct buf *ret_fault);

/*
 * argv[1..] of `pico serve`, the environment and --config, then conf_finish() and the checks of one option
 * against another. Every fault is one line in `faults`; the result is the number of faults. Secrets in argv
 * and the environment are overwritten where they stand.
 */
int conf_load(struct conf *c, struct conf_origins *ret_origins, int argc, char **argv, char **environ_,
	      struct buf *faults);

/* Fills in what follows from other options: data_dir, meta_url, storage, wal, runtime_dir ($RUNTIME_DIRECTORY). */
void conf_finish(struct conf *c, const char *runtime_directory);

const char *conf_name(enum conf_id id);          /* in file spelling: wal_cache_size */
bool conf_is_later(enum conf_id id);             /* accepted, without effect yet */
bool conf_same(const struct conf *a, const struct conf *b, enum conf_id id);

void conf_help(struct buf *out);                 /* the options, for --help */
void conf_show(const struct conf *c, const struct conf_origins *o, struct buf *out);  /* secrets as *** */

/* key = value lines of every option; conf_read takes them back. Secrets are left out. */
void conf_write(const struct conf *c, struct buf *out);
/* The result is the number of faults, each a line in `faults`. */
int conf_read(struct conf *c, struct slice text, struct buf *faults);

struct conf_pair {
	char key[64];
	char value[8192];
};
/* Takes the next pair off *text: 1; 0 at its end; -EINVAL a line that is none (it is taken off, too). */
int conf_next(struct slice *text, struct conf_pair *ret_pair);
void conf_write_pair(struct buf *out, const char *key, const char *value);

#endif
