/* SPDX-License-Identifier: Apache-2.0
 *
 * The simulator's command line (t/sim/README). A campaign runs its seeds in child processes, so that a
 * failed must() or a signal is a failure of one seed and not the end of the campaign.
 */
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/must.h"
#include "storaged/planted.h"
#include "t/sim/run.h"

#define JOBS_MAX 16
#define FAILURES_MAX 50
#define SEED_SECONDS 120                /* real time; more is a hang */

struct options {
	uint64_t first, last;           /* seeds */
	bool one, crash_every, verbose, quiet, small, calm;
	unsigned jobs;
	int bug;
	uint64_t crash_at, fail_from;
};

/* One child's, in memory shared with the parent. */
struct slot {
	uint64_t next;                  /* seed to run next */
	uint64_t running;               /* 0: none */
	uint64_t n_runs, n_acked, n_read, n_starts, events, sim_ms, steps;
	uint64_t faults[SIM_FAULT_N];
	unsigned n_failures;
	struct {
		uint64_t seed, crash_at, fail_from;
		char text[400];
	} failures[FAILURES_MAX];
	uint64_t crash_at, fail_from;   /* of the run under way */
	bool stop;                      /* --bug: found */
};

static const struct {
	const char *name;
	int bug;
} bugs[] = {
	{ "ack-before-store", PLANTED_ACK_BEFORE_STORE },   { "ignore-seal", PLANTED_IGNORE_SEAL },
	{ "unknown-as-failure", PLANTED_UNKNOWN_AS_FAILURE }, { "unknown-as-success", PLANTED_UNKNOWN_AS_SUCCESS },
	{ "producer-forgotten", PLANTED_PRODUCER_FORGOTTEN }, { "lost-wakeup", PLANTED_LOST_WAKEUP },
	{ "ack-out-of-order", PLANTED_ACK_OUT_OF_ORDER },   { "seal-deleted", PLANTED_SEAL_DELETED },
	{ "sweep-by-age", PLANTED_SWEEP_BY_AGE },           { "newest-by-run", PLANTED_NEWEST_BY_RUN },
	{ "state-with-records", PLANTED_STATE_WITH_RECORDS }, { "commit-unchecked", PLANTED_COMMIT_UNCHECKED },
	{ "snapshot-without-base", PLANTED_SNAPSHOT_WITHOUT_BASE },
	{ "cut-without-seals", PLANTED_CUT_WITHOUT_SEALS }, { "trash-before-commit", PLANTED_TRASH_BEFORE_COMMIT },
	{ "gc-without-forks", PLANTED_GC_WITHOUT_FORKS },
	{ "ttl-not-renewed", PLANTED_TTL_NOT_RENEWED },     { "retention-by-wall", PLANTED_RETENTION_BY_WALL },
	{ "any-epoch", PLANTED_ANY_EPOCH },
	{ "old-database", PLANTED_OLD_DATABASE },
	{ "load-forgets", PLANTED_LOAD_FORGETS },            { "load-overtaken", PLANTED_LOAD_OVERTAKEN },
};
#define N_BUGS (sizeof(bugs) / sizeof(bugs[0]))

static void usage(FILE *out)
{
	fprintf(out, "usage: sim --seed N [--verbose] | --seeds A..B [--jobs N]\n"
		     "           [--crash-every] [--small] [--calm] [--crash-at STEP] [--fail-from STEP]");
#ifdef PICO_PLANTED_BUGS
	fprintf(out, " [--bug NAME]\nbugs:");
	for (size_t i = 0; i < N_BUGS; i++)
		fprintf(out, " %s", bugs[i].name);
#endif
	fprintf(out, "\n");
}

/* ---------------------------------------------------------------------- runs */

static struct run_options run_options_of(const struct options *o, uint64_t seed)
{
	return (struct run_options){ .seed = seed, .faults = !o->calm, .small = o->small || o->crash_every,
				     .crash_at_step = o->crash_at, .fail_from_step = o->fail_from, .verbose = o->verbose };
}

static void add_failure(struct slot *s, const char *text)
{
	if (s->n_failures < FAILURES_MAX) {
		s->failures[s->n_failures].seed = s->running;
		s->failures[s->n_failures].crash_at = s->crash_at;
		s->failures[s->n_failures].fail_from = s->fail_from;
		snprintf(s->failures[s->n_failures].text, sizeof(s->failures[0].text), "%s", text);
	}
	s->n_failures++;
}

static void add_result(struct slot *s, const struct run_result *r)
{
	s->n_runs++;
	s->n_acked += r->n_acked;
	s->n_read += r->n_read;
	s->n_starts += r->n_starts;
	s->events += r->events;
	s->sim_ms += r->sim_ms;
	s->steps += r->steps;
	for (int i = 0; i < SIM_FAULT_N; i++)
		s->faults[i] += r->faults[i];
	if (!r->good)
		add_failure(s, r->text);
}

static uint64_t run_into(struct slot *s, const struct run_options *o)
{
	struct run_result r;
	s->crash_at = o->crash_at_step;
	s->fail_from = o->fail_from_step;
	alarm(SEED_SECONDS);
	run_seed(o, &r);
	alarm(0);
	add_result(s, &r);
	return r.safety_steps;
}

/* The same run once for every I/O step: the process dies there; everything fails from there on. */
static void crash_at_every_step(struct slot *s, const struct options *o, uint64_t seed)
{
	struct run_options run = run_options_of(o, seed);
	run.faults = false;
	uint64_t steps = run_into(s, &run);
	for (uint64_t step = 1; step <= steps && !s->stop; step++) {
		run.crash_at_step = step;
		run.fail_from_step = 0;
		run_into(s, &run);
		run.crash_at_step = 0;
		run.fail_from_step = step;
		run_into(s, &run);
	}
}

static void run_range(struct slot *s, const struct options *o)
{
	while (s->next <= o->last && !s->stop) {
		s->running = s->next;
		s->next += o->jobs;
		struct run_options run = run_options_of(o, s->running);
		if (o->crash_every)
			crash_at_every_step(s, o, s->running);
		else
			run_into(s, &run);
		if (o->bug != PLANTED_NONE && s->n_failures > 0)
			s->stop = true;
	}
	s->running = 0;
}

/* ------------------------------------------------------------------ campaign */

static pid_t start_child(struct slot *s, const struct options *o)
{
	fflush(NULL);
	pid_t pid = fork();
	if (pid != 0)
		return pid;
	if (o->quiet && freopen("/dev/null", "w", stderr) == NULL)
		exit(1);
	run_range(s, o);
	exit(0);
}

/* A child is gone. True when its range goes on in a new one. */
static bool child_ended(struct slot *s, const struct options *o, int status)
{
	if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
		return false;
	char text[100];
	snprintf(text, sizeof(text), WIFSIGNALED(status) ? "died by signal %d" : "ended with %d",
		 WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
	add_failure(s, text);
	s->n_runs++;
	return o->bug == PLANTED_NONE && s->next <= o->last;
}

static void watch_children(struct slot *slots, pid_t *pids, const struct options *o)
{
	unsigned left = o->jobs;
	while (left > 0) {
		int status;
		pid_t pid = wait(&status);
		if (pid < 0)
			return;
		for (unsigned i = 0; i < o->jobs; i++) {
			if (pids[i] != pid)
				continue;
			left--;
			pids[i] = -1;
			if (child_ended(&slots[i], o, status)) {
				pids[i] = start_child(&slots[i], o);
				left++;
			}
		}
		for (unsigned i = 0; i < o->jobs && o->bug != PLANTED_NONE; i++)
			slots[i].stop |= slots[0].n_failures > 0 || (o->jobs > 1 && slots[1].n_failures > 0);
	}
}

static void print_failures(const struct slot *slots, const struct options *o)
{
	for (unsigned i = 0; i < o->jobs; i++)
		for (unsigned k = 0; k < slots[i].n_failures && k < FAILURES_MAX; k++) {
			printf("failed: --seed %" PRIu64 "%s%s", slots[i].failures[k].seed,
			       o->small || o->crash_every ? " --small" : "", o->calm ? " --calm" : "");
			if (slots[i].failures[k].crash_at > 0)
				printf(" --crash-at %" PRIu64, slots[i].failures[k].crash_at);
			if (slots[i].failures[k].fail_from > 0)
				printf(" --fail-from %" PRIu64, slots[i].failures[k].fail_from);
			printf(": %s\n", slots[i].failures[k].text);
		}
}

static unsigned report(const struct slot *slots, const struct options *o)
{
	struct slot sum = { 0 };
	for (unsigned i = 0; i < o->jobs; i++) {
		const struct slot *s = &slots[i];
		sum.n_runs += s->n_runs, sum.n_acked += s->n_acked, sum.n_read += s->n_read;
		sum.n_starts += s->n_starts, sum.events += s->events, sum.sim_ms += s->sim_ms, sum.steps += s->steps;
		sum.n_failures += s->n_failures;
		for (int k = 0; k < SIM_FAULT_N; k++)
			sum.faults[k] += s->faults[k];
	}
	printf("seeds %" PRIu64 "..%" PRIu64 ": %" PRIu64 " runs, %" PRIu64 " starts, %" PRIu64 " acknowledged, %" PRIu64
	       " records read, %" PRIu64 " I/O steps, %" PRIu64 " events, %" PRIu64 " simulated s\n",
	       o->first, o->last, sum.n_runs, sum.n_starts, sum.n_acked, sum.n_read, sum.steps, sum.events,
	       sum.sim_ms / 1000);
	for (int k = 0; k < SIM_FAULT_N; k++)
		printf("injected %9" PRIu64 "  %s\n", sum.faults[k], sim_fault_text[k]);
	print_failures(slots, o);
	printf("failures: %u\n", sum.n_failures);
	return sum.n_failures;
}

static int campaign(struct options *o)
{
	size_t size = sizeof(struct slot) * o->jobs;
	struct slot *slots = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	pid_t pids[JOBS_MAX];
	must(slots != MAP_FAILED);
	for (unsigned i = 0; i < o->jobs; i++) {
		slots[i].next = o->first + i;
		pids[i] = start_child(&slots[i], o);
	}
	watch_children(slots, pids, o);
	unsigned n = report(slots, o);
	munmap(slots, size);
	return n > 0 ? 1 : 0;
}

static int one_seed(const struct options *o)
{
	struct run_options run = run_options_of(o, o->first);
	struct run_result r;
	if (o->crash_at > 0 || o->fail_from > 0)
		run.faults = false;
	run_seed(&run, &r);
	printf("seed %" PRIu64 ": trace %016" PRIx64 ", %" PRIu64 " events, %" PRIu64 " I/O steps, %" PRIu64
	       " starts, %" PRIu64 " acknowledged, %" PRIu64 " records read, %" PRIu64 " simulated ms\n",
	       o->first, r.hash, r.events, r.steps, r.n_starts, r.n_acked, r.n_read, r.sim_ms);
	for (int k = 0; k < SIM_FAULT_N && !o->quiet; k++)
		if (r.faults[k] > 0)
			printf("injected %9" PRIu64 "  %s\n", r.faults[k], sim_fault_text[k]);
	printf("%s%s\n", r.good ? "good" : "failed: ", r.text);
	return r.good ? 0 : 1;
}

/* ------------------------------------------------------------------- options */

static bool bug_named(const char *name, int *ret_bug)
{
	for (size_t i = 0; i < N_BUGS; i++)
		if (strcmp(bugs[i].name, name) == 0) {
			*ret_bug = bugs[i].bug;
			return true;
		}
	return false;
}

static bool flag(struct options *o, const char *name)
{
	bool *const flags[] = { &o->crash_every, &o->verbose, &o->quiet, &o->small, &o->calm };
	static const char *const names[] = { "--crash-every", "--verbose", "--quiet", "--small", "--calm" };
	for (size_t i = 0; i < sizeof(flags) / sizeof(flags[0]); i++)
		if (strcmp(names[i], name) == 0)
			return *flags[i] = true;
	return false;
}

static bool valued(struct options *o, const char *name, const char *value)
{
	if (value == NULL)
		return false;
	if (strcmp(name, "--seed") == 0) {
		o->one = true;
		return sscanf(value, "%" SCNu64, &o->first) == 1;
	}
	if (strcmp(name, "--seeds") == 0)
		return sscanf(value, "%" SCNu64 "..%" SCNu64, &o->first, &o->last) == 2;
	if (strcmp(name, "--jobs") == 0)
		return sscanf(value, "%u", &o->jobs) == 1 && o->jobs >= 1 && o->jobs <= JOBS_MAX;
	if (strcmp(name, "--crash-at") == 0)
		return sscanf(value, "%" SCNu64, &o->crash_at) == 1;
	if (strcmp(name, "--fail-from") == 0)
		return sscanf(value, "%" SCNu64, &o->fail_from) == 1;
	return strcmp(name, "--bug") == 0 && bug_named(value, &o->bug);
}

int main(int argc, char **argv)
{
	struct options o = { .first = 1, .last = 0, .jobs = 1 };
	for (int i = 1; i < argc; i++) {
		if (strcmp(argv[i], "--help") == 0) {
			usage(stdout);
			return 0;
		}
		if (flag(&o, argv[i]))
			continue;
		if (!valued(&o, argv[i], argv[i + 1])) {
			usage(stderr);
			return 2;
		}
		i++;
	}
	if (!o.one && o.last < o.first) {
		usage(stderr);
		return 2;
	}
#ifdef PICO_PLANTED_BUGS
	planted_bug = o.bug;
#else
	if (o.bug != PLANTED_NONE) {
		fprintf(stderr, "this build has no planted bugs; sim-planted has\n");
		return 2;
	}
#endif
	return o.one ? one_seed(&o) : campaign(&o);
}
