# SPDX-License-Identifier: Apache-2.0
noinst_LIBRARIES += worker-hook/libworkerhook.a
worker_hook_libworkerhook_a_SOURCES = \
	worker-hook/deliver.c worker-hook/deliver.h \
	worker-hook/hook.c worker-hook/hook.h \
	worker-hook/sign.c worker-hook/sign.h
WORKER_HOOK_LIBS = worker-hook/libworkerhook.a $(COMMON_LIBS) $(CURL_LIBS)

pkglibexec_PROGRAMS += worker-hook/worker-hook
worker_hook_worker_hook_SOURCES = worker-hook/main.c
worker_hook_worker_hook_LDADD = $(WORKER_HOOK_LIBS)
EXTRA_DIST += worker-hook/README
