/* SPDX-License-Identifier: Apache-2.0
 *
 * The programs are opened once: what is started later is what was there at the start, even when an
 * upgrade has replaced the files meanwhile.
 */
#include "supervisor/supervisor.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <unistd.h>

#include "common/log.h"
#include "common/program.h"

int programs_open(struct supervisor *s)
{
	for (unsigned k = 0; k < PROCESS_KINDS; k++)
		s->program_fd[k] = -1;
	for (unsigned i = 0; i < s->n_processes; i++) {
		char path[PATH_MAX];
		enum process_kind kind = s->process[i].kind;
		if (s->program_fd[kind] >= 0)
			continue;
		if (program_find(process_kind_name(kind), path, sizeof(path)) == 0)
			s->program_fd[kind] = open(path, O_PATH | O_CLOEXEC);
		if (s->program_fd[kind] < 0) {
			log_error("cannot find the program %s; this installation is not complete: %s",
				  process_kind_name(kind), path);
			return 1;
		}
	}
	return 0;
}

void programs_close(struct supervisor *s)
{
	for (unsigned k = 0; k < PROCESS_KINDS; k++) {
		if (s->program_fd[k] >= 0)
			close(s->program_fd[k]);
		s->program_fd[k] = -1;
	}
}
