/* SPDX-License-Identifier: Apache-2.0
 *
 * What the process table, /proc and the metrics pages say, as JSON and as Prometheus text.
 */
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "config.h"
#include "common/must.h"
#include "worker-http/admin.h"
#include "worker-http/server.h"

struct usage {
	uint64_t rss_bytes;
	double cpu_seconds;
};

/* A process that is gone by now uses nothing. */
static struct usage usage_of(int32_t pid)
{
	char path[64], text[1024];
	struct usage u = { 0 };
	snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n = fd >= 0 ? read(fd, text, sizeof(text) - 1) : -1;
	if (fd >= 0)
		close(fd);
	if (n <= 0)
		return u;
	text[n] = '\0';
	const char *fields = strrchr(text, ')'); /* comm may hold anything */
	unsigned long long user, kernel;
	long long rss;
	if (fields != NULL &&
	    sscanf(fields + 1, " %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %llu %llu %*d %*d %*d %*d %*d %*d"
		   " %*u %*u %lld", &user, &kernel, &rss) == 3) {
		u.cpu_seconds = (double)(user + kernel) / (double)sysconf(_SC_CLK_TCK);
		u.rss_bytes = (uint64_t)rss * (uint64_t)sysconf(_SC_PAGESIZE);
	}
	return u;
}

static const char *state_name(uint32_t state)
{
	static const char *const names[] = {
		[PROCESS_STARTING] = "starting", [PROCESS_READY] = "ready",
		[PROCESS_DRAINING] = "draining", [PROCESS_BACKING_OFF] = "backing_off",
	};
	return state < sizeof(names) / sizeof(names[0]) ? names[state] : "unknown";
}

static double uptime_of(const struct server *s, const struct process_entry *p)
{
	uint64_t now = env_now_ms(s->env);
	return p->started_ms > 0 && now > p->started_ms ? (double)(now - p->started_ms) / 1000 : 0;
}

static bool is_used(const struct process_entry *p)
{
	return p->pid > 0 || p->state == PROCESS_BACKING_OFF;
}

/* Clients that are connected to it. */
static uint64_t connections_of(const struct metrics_page *page)
{
	if (page == NULL)
		return 0;
	return __atomic_load_n(&page->value[METRIC_HTTP_CONNECTIONS], __ATOMIC_RELAXED) +
	       __atomic_load_n(&page->value[METRIC_KAFKA_CONNECTIONS], __ATOMIC_RELAXED);
}

void admin_print_processes(const struct server *s, struct buf *out)
{
	const struct process_table *t = s->child->processes;
	bool any = false;
	buf_put_str(out, "{\"processes\":[");
	for (size_t i = 0; t != NULL && i < METRICS_SLOTS; i++) {
		struct process_entry p = t->slot[i];
		if (!is_used(&p))
			continue;
		struct usage u = p.pid > 0 ? usage_of(p.pid) : (struct usage){ 0 };
		buf_printf(out, "%s{\"kind\":\"%s\",\"index\":%u,\"pid\":%d,\"state\":\"%s\",\"uptime\":%.3f,"
			   "\"restarts\":%" PRIu64 ",\"rss\":%" PRIu64 ",\"cpu\":%.2f,\"connections\":%" PRIu64 "}",
			   any ? "," : "",
			   process_role_name(p.kind), p.index, (int)p.pid, state_name(p.state), uptime_of(s, &p),
			   p.restarts, u.rss_bytes, u.cpu_seconds, connections_of(s->child->pages[i]));
		any = true;
	}
	buf_put_str(out, "]}\n");
}

/* ------------------------------------------------------------------ metrics */

enum gauge { RESIDENT, CPU, RESTARTS, UPTIME };

static const struct {
	const char *name, *type, *help;
} gauges[] = {
	[RESIDENT] = { "pico_process_resident_memory_bytes", "gauge", "Resident memory" },
	[CPU] = { "pico_process_cpu_seconds_total", "counter", "CPU time used" },
	[RESTARTS] = { "pico_process_restarts_total", "counter", "Times the process was started again" },
	[UPTIME] = { "pico_process_uptime_seconds", "gauge", "Time since the process was started" },
};

static void print_gauge(const struct server *s, enum gauge g, struct buf *out)
{
	const struct process_table *t = s->child->processes;
	buf_printf(out, "# HELP %s %s\n# TYPE %s %s\n", gauges[g].name, gauges[g].help, gauges[g].name,
		   gauges[g].type);
	for (size_t i = 0; i < METRICS_SLOTS; i++) {
		struct process_entry p = t->slot[i];
		if (p.pid <= 0)
			continue;
		struct usage u = g == RESIDENT || g == CPU ? usage_of(p.pid) : (struct usage){ 0 };
		double value = g == RESIDENT ? (double)u.rss_bytes : g == CPU ? u.cpu_seconds :
			g == RESTARTS ? (double)p.restarts : uptime_of(s, &p);
		buf_printf(out, "%s{process=\"%s\",index=\"%u\"} %.15g\n", gauges[g].name, process_role_name(p.kind),
			   p.index, value);
	}
}

void admin_print_metrics(const struct server *s, struct buf *out)
{
	const char *kinds[METRICS_SLOTS] = { NULL };
	const struct metrics_page *pages[METRICS_SLOTS] = { NULL };
	const struct process_table *t = s->child->processes;
	buf_printf(out, "# HELP pico_build_info Version of this build\n# TYPE pico_build_info gauge\n"
		   "pico_build_info{version=\"%s\"} 1\n", PACKAGE_VERSION);
	if (t == NULL)
		return;
	for (size_t i = 0; i < METRICS_SLOTS; i++) {
		kinds[i] = process_role_name(t->slot[i].kind);
		if (is_used(&t->slot[i]))
			pages[i] = s->child->pages[i];
	}
	metrics_print(out, pages, kinds, METRICS_SLOTS);
	for (size_t g = 0; g < sizeof(gauges) / sizeof(gauges[0]); g++)
		print_gauge(s, (enum gauge)g, out);
}
