/* SPDX-License-Identifier: Apache-2.0
 *
 * SIGHUP: everything is read again as at the start. With a fault nothing changes. What can change while the
 * node runs does; the rest is named.
 */
#include "supervisor/supervisor.h"

#include <stdlib.h>
#include <unistd.h>

#include "common/log.h"
#include "common/must.h"

#define TEXT_MAX (1u << 18)

static bool changes_at_run_time(enum conf_id id)
{
	return id == CONF_ID_log_level || id == CONF_ID_tls_cert || id == CONF_ID_tls_key || id == CONF_ID_tls_client_ca;
}

static void log_faults(struct buf *faults)
{
	buf_put_u8(faults, 0);
	char *line = faults->failed ? NULL : (char *)buf_head(faults), *rest = NULL;
	for (line = line != NULL ? strtok_r(line, "\n", &rest) : NULL; line != NULL; line = strtok_r(NULL, "\n", &rest))
		log_error("reload: %s; nothing changes", line);
}

static void warn_fixed(const struct conf *old, const struct conf *new)
{
	struct buf names;
	buf_init(&names, 8192);
	for (unsigned i = 0; i < CONF_N; i++) {
		if (!changes_at_run_time((enum conf_id)i) && !conf_same(old, new, (enum conf_id)i))
			buf_printf(&names, " %s", conf_name((enum conf_id)i));
	}
	buf_put_u8(&names, 0);
	if (buf_len(&names) > 1)
		log_warn("reload: these changed and need a restart:%s", (const char *)buf_head(&names));
	buf_done(&names);
}

static void set(char **value, const char *new)
{
	free(*value);
	*value = must_strdup(new);
}

static void apply_log_level(struct supervisor *s, const struct conf *new)
{
	enum log_level level;
	must(log_level_parse(new->log_level, &level) == 0);
	set(&s->conf.log_level, new->log_level);
	log_set_level(level);
	processes_send(s, true, CONTROL_LOG_LEVEL, level);
	processes_send(s, false, CONTROL_LOG_LEVEL, level);
}

/* For connections that begin from now on; those that are open go on as they began. False when they cannot be used. */
static bool apply_certificates(struct supervisor *s, const struct conf *new)
{
	char fault[CERTIFICATES_FAULT_MAX];
	int fd = s->tls_fd >= 0 ? certificates_open(new, fault) : -1;
	if (s->tls_fd >= 0 && fd < 0) {
		log_error("reload: %s; nothing changes", fault);
		return false;
	}
	set(&s->conf.tls_cert, new->tls_cert);
	set(&s->conf.tls_key, new->tls_key);
	set(&s->conf.tls_client_ca, new->tls_client_ca);
	if (fd >= 0) {
		close(s->tls_fd);
		s->tls_fd = fd;
		processes_send_certificates(s);
	}
	return true;
}

void reload(struct supervisor *s)
{
	struct conf new;
	struct conf_origins origins;
	struct buf faults;
	buf_init(&faults, TEXT_MAX);
	conf_init(&new);
	if (conf_load(&new, &origins, s->argc, s->argv, environ, &faults) > 0) {
		log_faults(&faults);
	} else if (apply_certificates(s, &new)) {
		apply_log_level(s, &new);
		warn_fixed(&s->conf, &new);
		log_info("reload: done log_level=%s", s->conf.log_level);
	}
	conf_done(&new);
	buf_done(&faults);
}
