# SPDX-License-Identifier: Apache-2.0
pkglibexec_PROGRAMS += supervisor/supervisor
supervisor_supervisor_SOURCES = \
	supervisor/address.c supervisor/address.h \
	supervisor/certificates.c supervisor/certificates.h \
	supervisor/home.c supervisor/home.h \
	supervisor/life.c \
	supervisor/listeners.c supervisor/listeners.h \
	supervisor/main.c \
	supervisor/notify.c supervisor/notify.h \
	supervisor/options.c \
	supervisor/pages.c supervisor/pages.h \
	supervisor/process.c \
	supervisor/programs.c \
	supervisor/reload.c \
	supervisor/restart.c supervisor/restart.h \
	supervisor/signals.c \
	supervisor/spawn.c \
	supervisor/supervisor.h
supervisor_supervisor_LDADD = $(COMMON_LIBS)
EXTRA_DIST += supervisor/README
