# SPDX-License-Identifier: Apache-2.0
# Fuzz targets: t/fuzz/NAME.c with a corpus in t/fuzz/corpus/NAME. See t/fuzz/README.
FUZZ_TARGETS =
FUZZ_TARGETS += json
FUZZ_TARGETS += record_batch
FUZZ_TARGETS += kafka_frame
FUZZ_TARGETS += codec
FUZZ_TARGETS += pico_binary
FUZZ_LIBS_pico_binary = worker-http/libworkerhttp.a
FUZZ_TARGETS += http
FUZZ_TARGETS += http2
FUZZ_LIBS_http2 = $(WORKER_HTTP_LIBS)
FUZZ_TARGETS += ipc
FUZZ_TARGETS += storage_url
FUZZ_LIBS_http = worker-http/libworkerhttp.a
FUZZ_TARGETS += s3_xml
FUZZ_TARGETS += wal_object
FUZZ_TARGETS += data_object
FUZZ_TARGETS += meta_row

# What every target links (archives are built first), and a target alone: FUZZ_LIBS_NAME.
FUZZ_LIBS = $(STORAGED_LIBS)
FUZZ_ARCHIVES = common/libcommon.a proto/libproto.a storaged/libstoraged.a worker-http/libworkerhttp.a

FUZZ_REPLAYS = $(FUZZ_TARGETS:%=t/80-fuzz-replay-%)
FUZZ_RUNNERS = $(FUZZ_TARGETS:%=t/fuzz/fuzz-%)
FUZZ_MAIN = $(srcdir)/t/fuzz/$*.c -DFUZZ_NAME='"$*"'
FUZZ_LINK = $(AM_LDFLAGS) $(LDFLAGS) $(FUZZ_LIBS_$*) $(FUZZ_LIBS) -o $@

t/80-fuzz-replay-%: t/fuzz/%.c t/fuzz/replay.c t/fuzz/fuzz.h $(FUZZ_ARCHIVES)
	$(AM_V_CCLD)$(MKDIR_P) t && $(COMPILE) $(FUZZ_MAIN) $(srcdir)/t/fuzz/replay.c $(FUZZ_LINK)

t/fuzz/fuzz-%: t/fuzz/%.c t/fuzz/fuzz.h $(FUZZ_ARCHIVES)
	$(AM_V_CCLD)$(MKDIR_P) t/fuzz && $(COMPILE) -fsanitize=fuzzer $(FUZZ_MAIN) $(FUZZ_LINK)

check-programs: $(FUZZ_REPLAYS)

# Seconds and executions a target; FUZZ_ONLY="json ipc" picks some.
FUZZ_SECONDS = 60
FUZZ_RUNS =
FUZZ_ONLY = $(FUZZ_TARGETS)

.PHONY: fuzz fuzz-programs
fuzz-programs: $(BUILT_SOURCES)
	$(MAKE) $(FUZZ_RUNNERS)

if ENABLE_FUZZ
fuzz: fuzz-programs
	FUZZ_SECONDS='$(FUZZ_SECONDS)' FUZZ_RUNS='$(FUZZ_RUNS)' $(srcdir)/t/fuzz/run $(FUZZ_ONLY)
else
# This build has none: one of its own beside it, with clang and sanitizers.
fuzz:
	$(MKDIR_P) fuzz-build
	test -f fuzz-build/Makefile || (cd fuzz-build && \
		$(abs_srcdir)/configure -q CC=clang --enable-fuzz --enable-sanitizers --disable-werror)
	$(MAKE) -C fuzz-build fuzz FUZZ_SECONDS='$(FUZZ_SECONDS)' FUZZ_RUNS='$(FUZZ_RUNS)' \
		FUZZ_ONLY='$(FUZZ_ONLY)'
endif

EXTRA_DIST += t/fuzz/README t/fuzz/run t/fuzz/replay.c t/fuzz/fuzz.h t/fuzz/corpus \
	$(FUZZ_TARGETS:%=t/fuzz/%.c) t/fuzz/json.dict t/fuzz/http.dict
CLEANFILES += $(FUZZ_REPLAYS) $(FUZZ_RUNNERS)
