/* SPDX-License-Identifier: Apache-2.0
 *
 * What may be bound: loopback always; beyond it with --insecure-allow-remote, because nobody is asked who
 * he is yet; a wildcard only with an advertised address. A port that the children of a killed supervisor
 * still hold is tried for TRY_MS.
 */
#include "supervisor/listeners.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "common/log.h"
#include "supervisor/address.h"

#define TRY_MS 5000
#define TRY_STEP_MS 50

/* One option that names addresses. */
struct wanted {
	const char *option;             /* in flag spelling */
	const char *protocol;
	const struct conf_list *list;
	const char *advertised;         /* NULL: none is needed */
	const char *advertise_option;
	bool tls;
};

static int bind_once(const struct address *a, int backlog, int *ret_fd)
{
	int on = 1;
	int fd = socket(a->any.sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return -errno;
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
	if (a->any.sa_family == AF_INET6)
		setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof(on));
	if (bind(fd, &a->any, a->len) < 0 || listen(fd, backlog) < 0) {
		int err = -errno;
		close(fd);
		return err;
	}
	*ret_fd = fd;
	return 0;
}

static int bind_patiently(const struct address *a, int backlog, bool patient, int *ret_fd)
{
	struct timespec step = { .tv_nsec = TRY_STEP_MS * 1000000L };
	for (unsigned waited = 0; ; waited += TRY_STEP_MS) {
		int err = bind_once(a, backlog, ret_fd);
		if (err != -EADDRINUSE || !patient || waited >= TRY_MS)
			return err;
		nanosleep(&step, NULL);
	}
}

static int add(struct listeners *l, const struct wanted *w, const struct address *a, int fd)
{
	if (l->n == CHILD_LISTENERS_MAX) {
		log_error("--%s: more than %d addresses", w->option, CHILD_LISTENERS_MAX);
		close(fd);
		return 1;
	}
	struct child_listener *item = &l->item[l->n++];
	struct address real = *a;
	getsockname(fd, &real.any, &real.len);
	*item = (struct child_listener){ .fd = fd, .beyond_loopback = !address_is_loopback(a), .tls = w->tls };
	snprintf(item->protocol, sizeof(item->protocol), "%s", w->protocol);
	address_print(&real, item->address);
	return 0;
}

/* Whether the rules allow this address. */
static int check(const struct conf *conf, const struct wanted *w, const char *text, const struct address *a)
{
	if (!address_is_loopback(a) && !conf->insecure_allow_remote) {
		log_error("--%s: %s is reachable from other machines and nobody is asked for a credential yet; "
			  "listen on loopback, or give --insecure-allow-remote if the network is yours", w->option, text);
		return 1;
	}
	if (address_is_wildcard(a) && w->advertised != NULL && w->advertised[0] == '\0') {
		log_error("--%s: %s is every address of this machine; say with --%s which one clients use, "
			  "as in --%s %snode1.example:%u", w->option, text, w->advertise_option, w->advertise_option,
			  strcmp(w->protocol, "kafka") == 0 ? "" : w->tls ? "https://" : "http://", address_port(a));
		return 1;
	}
	return 0;
}

/* A family that this machine lacks is passed over while the other one serves. */
static bool is_missing_family(int err)
{
	return err == -EAFNOSUPPORT || err == -EADDRNOTAVAIL;
}

static int bind_text(struct listeners *l, const struct conf *conf, const struct wanted *w, const char *text, bool patient)
{
	struct address each[ADDRESS_EACH_MAX];
	char fault[256];
	unsigned n, bound = 0, port = 0;
	int err = 0, code = 0;
	if (address_parse(text, each, &n, fault, sizeof(fault)) < 0) {
		log_error("--%s: %s", w->option, fault);
		return 1;
	}
	for (unsigned i = 0; i < n && code == 0; i++) {
		int fd = -1;
		code = check(conf, w, text, &each[i]);
		if (code != 0)
			break;
		if (address_port(&each[i]) == 0)
			address_set_port(&each[i], port);
		int e = bind_patiently(&each[i], (int)conf->backlog, patient, &fd);
		if (e < 0) {
			err = e;
			if (is_missing_family(e))
				continue;
			break;
		}
		struct address real = each[i];
		getsockname(fd, &real.any, &real.len);
		port = address_port(&real);
		code = add(l, w, &each[i], fd);
		bound++;
	}
	if (code == 0 && err < 0 && (bound == 0 || !is_missing_family(err))) {
		log_error("--%s: cannot listen on %s: %s", w->option, text, strerror(-err));
		code = 1;
	}
	return code;
}

static int check_text(const struct conf *conf, const struct wanted *w, const char *text)
{
	struct address each[ADDRESS_EACH_MAX];
	char fault[256];
	unsigned n;
	int code = 0;
	if (address_parse(text, each, &n, fault, sizeof(fault)) < 0) {
		log_error("--%s: %s", w->option, fault);
		return 1;
	}
	for (unsigned i = 0; i < n && code == 0; i++)
		code = check(conf, w, text, &each[i]);
	return code;
}

static int check_list(const struct conf *conf, const struct wanted *w)
{
	int code = 0;
	if (w->list->n == 0) {
		log_error("--%s: no address is left; give one", w->option);
		return 1;
	}
	for (size_t i = 0; i < w->list->n && code == 0; i++)
		code = check_text(conf, w, w->list->item[i]);
	return code;
}

static int bind_list(struct listeners *l, const struct conf *conf, const struct wanted *w, bool patient)
{
	int code = 0;
	if (w->list->n == 0) {
		log_error("--%s: no address is left; give one", w->option);
		return 1;
	}
	for (size_t i = 0; i < w->list->n && code == 0; i++)
		code = bind_text(l, conf, w, w->list->item[i], patient);
	return code;
}

/* A path beyond the size of sun_path is named through the directory's descriptor. */
static int ipc_address(const struct home *home, struct sockaddr_un *ret)
{
	*ret = (struct sockaddr_un){ .sun_family = AF_UNIX };
	int n = snprintf(ret->sun_path, sizeof(ret->sun_path), "/proc/self/fd/%d/storaged.sock", home->runtime.fd);
	return n > 0 && (size_t)n < sizeof(ret->sun_path) ? 0 : -ENAMETOOLONG;
}

/* The lock on the directory is ours, so a socket that stands there is nobody's. */
static int bind_ipc(struct listeners *l, const struct home *home, int backlog)
{
	struct sockaddr_un a;
	const char *what = "address";
	int n = snprintf(l->socket_path, sizeof(l->socket_path), "%s/storaged.sock", home->runtime.path);
	int err = n < 0 || (size_t)n >= sizeof(l->socket_path) ? -ENAMETOOLONG : ipc_address(home, &a);
	int fd = err < 0 ? -1 : socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (err == 0 && fd < 0)
		err = -errno;
	unlinkat(home->runtime.fd, "storaged.sock", 0);
	mode_t mask = umask(0177);
	if (err == 0 && bind(fd, (struct sockaddr *)&a, sizeof(a)) < 0) {
		what = "bind";
		err = -errno;
	}
	umask(mask);
	if (err == 0 && listen(fd, backlog) < 0) {
		what = "listen";
		err = -errno;
	}
	if (err < 0) {
		log_error("--runtime-dir: %s/storaged.sock: %s: %s", home->runtime.path, what, strerror(-err));
		if (fd >= 0)
			close(fd);
		return 1;
	}
	struct child_listener *item = &l->item[l->n++];
	*item = (struct child_listener){ .fd = fd, .protocol = "ipc", .address = "storaged.sock" };
	return 0;
}

/* The first one that speaks so; "" when there is none. */
static const char *first_address(const struct listeners *l, const char *protocol, bool tls)
{
	for (unsigned i = 0; i < l->n; i++)
		if (strcmp(l->item[i].protocol, protocol) == 0 && l->item[i].tls == tls)
			return l->item[i].address;
	return "";
}

static void set_url(char *to, size_t size, const char *given, const char *first)
{
	if (given[0] != '\0')
		snprintf(to, size, "%s", given);
	else if (first[0] != '\0')
		snprintf(to, size, "http://%s", first);
}

/* Who came over TLS is sent to the TLS listener: the host as advertised, the port its own. */
static void set_kafka_addresses(struct listeners *l, const struct conf *conf)
{
	const char *given = conf->kafka_advertise, *secure = first_address(l, "kafka", true);
	snprintf(l->kafka_address, sizeof(l->kafka_address), "%s", given[0] != '\0' ? given : first_address(l, "kafka", false));
	if (secure[0] == '\0')
		return;
	const char *host = given[0] != '\0' ? given : secure;
	snprintf(l->kafka_tls_address, sizeof(l->kafka_tls_address), "%.*s%s", (int)(strrchr(host, ':') - host), host,
		 strrchr(secure, ':'));
}

/* Listeners of --listen stand first. */
static void set_addresses(struct listeners *l, const struct conf *conf)
{
	set_url(l->http_address, sizeof(l->http_address), conf->http_address, first_address(l, conf->protocol, false));
	set_url(l->ds_address, sizeof(l->ds_address), conf->ds_address, first_address(l, "ds", false));
	if (!conf->no_kafka)
		set_kafka_addresses(l, conf);
}

#define WANTED_MAX 7

/* Everything that is listened on, in the order of the ready lines. */
static unsigned all_wanted(const struct conf *conf, struct wanted ret[static WANTED_MAX])
{
	unsigned n = 0;
	ret[n++] = (struct wanted){ "listen", conf->protocol, &conf->listen, conf->http_address, "http-address", false };
	if (!conf->no_ds)
		ret[n++] = (struct wanted){ "ds-listen", "ds", &conf->ds_listen, conf->ds_address, "ds-address", false };
	if (!conf->no_admin)
		ret[n++] = (struct wanted){ "admin-listen", "admin", &conf->admin_listen, NULL, NULL, false };
	if (!conf->no_kafka)
		ret[n++] = (struct wanted){ "kafka-listen", "kafka", &conf->kafka_listen, conf->kafka_advertise, "kafka-advertise", false };
	if (conf->tls_listen.n > 0)
		ret[n++] = (struct wanted){ "tls-listen", conf->protocol, &conf->tls_listen, conf->http_address, "http-address", true };
	if (!conf->no_ds && conf->ds_tls_listen.n > 0)
		ret[n++] = (struct wanted){ "ds-tls-listen", "ds", &conf->ds_tls_listen, conf->ds_address, "ds-address", true };
	if (!conf->no_kafka && conf->kafka_tls_listen.n > 0)
		ret[n++] = (struct wanted){ "kafka-tls-listen", "kafka", &conf->kafka_tls_listen, conf->kafka_advertise,
					    "kafka-advertise", true };
	return n;
}

int listeners_check(const struct conf *conf)
{
	struct wanted wanted[WANTED_MAX];
	unsigned n = all_wanted(conf, wanted);
	int code = 0;
	for (unsigned i = 0; i < n && code == 0; i++)
		code = check_list(conf, &wanted[i]);
	return code;
}

int listeners_open(struct listeners *l, const struct conf *conf, const struct home *home)
{
	struct wanted wanted[WANTED_MAX];
	unsigned n = all_wanted(conf, wanted);
	memset(l, 0, sizeof(*l));
	int code = bind_ipc(l, home, (int)conf->backlog);
	for (unsigned i = 0; i < n && code == 0; i++)
		code = bind_list(l, conf, &wanted[i], home->stale);
	if (code != 0) {
		listeners_close(l, home);
		return code;
	}
	set_addresses(l, conf);
	return 0;
}

void listeners_close_tcp(struct listeners *l)
{
	unsigned kept = 0;
	for (unsigned i = 0; i < l->n; i++) {
		if (strcmp(l->item[i].protocol, "ipc") == 0)
			l->item[kept++] = l->item[i];
		else
			close(l->item[i].fd);
	}
	l->n = kept;
}

void listeners_close(struct listeners *l, const struct home *home)
{
	listeners_close_tcp(l);
	for (unsigned i = 0; i < l->n; i++) {
		close(l->item[i].fd);
		unlinkat(home->runtime.fd, "storaged.sock", 0);
	}
	l->n = 0;
}
