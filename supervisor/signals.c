/* SPDX-License-Identifier: Apache-2.0
 *
 * Signals arrive as bytes on a descriptor of the poll loop. What is sent to a whole process group (by a
 * terminal, timeout(1), a service manager) reaches the children, too: they ignore it and are told what to do by
 * the supervisor. SIGKILL ends one, and it is started again.
 */
#include "supervisor/supervisor.h"

#include <errno.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "common/log.h"

int signals_open(struct supervisor *s)
{
	sigset_t set;
	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGHUP);
	sigaddset(&set, SIGCHLD);
	signal(SIGPIPE, SIG_IGN);
	signal(SIGCHLD, SIG_DFL);
	sigprocmask(SIG_SETMASK, &set, NULL);
	s->signal_fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	if (s->signal_fd >= 0)
		return 0;
	log_error("cannot listen for signals: %s", strerror(errno));
	return 1;
}

void signals_take(struct supervisor *s)
{
	struct signalfd_siginfo info;
	while (read(s->signal_fd, &info, sizeof(info)) == sizeof(info)) {
		switch (info.ssi_signo) {
		case SIGCHLD:
			processes_reap(s);
			break;
		case SIGHUP:
			reload(s);
			break;
		default:
			log_info("stopping signal=%d", (int)info.ssi_signo);
			life_stop(s, 0);
			break;
		}
	}
}

void signals_restore(void)
{
	sigset_t none;
	sigemptyset(&none);
	signal(SIGINT, SIG_IGN);
	signal(SIGHUP, SIG_IGN);
	signal(SIGTERM, SIG_IGN);
	sigprocmask(SIG_SETMASK, &none, NULL);
}
