# SPDX-License-Identifier: Apache-2.0
EXTRA_DIST += doc/ipc.md doc/decisions.md doc/disk-format.md doc/backup.md doc/limits.md doc/clients.md
EXTRA_DIST += doc/http.md doc/durable-streams.md doc/facades.md doc/coverage.md doc/ipc.md doc/decisions.md doc/disk-format.md
EXTRA_DIST += doc/ipc.md doc/decisions.md doc/disk-format.md doc/backup.md doc/limits.md doc/clients.md doc/conformance.md
EXTRA_DIST += doc/facades.md doc/coverage.md doc/ipc.md doc/decisions.md doc/disk-format.md

dist_man_MANS += doc/pico-admin.8 doc/pico-fsck.8 doc/pico-bench.1 doc/pico-serve.8
nodist_man_MANS = doc/pico.conf.5
EXTRA_DIST += doc/pico.conf.5.in doc/conf-options.sed
CLEANFILES += doc/pico.conf.5
doc/pico.conf.5: doc/pico.conf.5.in doc/conf-options.sed common/conf.def
	$(AM_V_GEN)$(MKDIR_P) doc && $(SED) -f $(srcdir)/doc/conf-options.sed $(srcdir)/common/conf.def >$@.rows && \
	$(SED) -e '/@OPTIONS@/r $@.rows' -e '/@OPTIONS@/d' $(srcdir)/doc/pico.conf.5.in >$@ && rm -f $@.rows
