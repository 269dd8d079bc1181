# SPDX-License-Identifier: Apache-2.0
noinst_LIBRARIES += common/libcommon.a
common_libcommon_a_SOURCES = \
	common/buf.c common/buf.h \
	common/crc32c.c common/crc32c.h \
	common/must.c common/must.h \
	common/env.h common/env_uv.c common/env_uv.h \
	common/pico_error.c common/pico_error.h \
	common/slice.h \
	common/wire.c common/wire.h
# What a program that links libcommon.a needs behind it.
COMMON_LIBS = common/libcommon.a proto/libproto.a $(UV_LIBS) $(PROTOBUFC_LIBS) $(CRYPTO_LIBS) $(ISAL_LIBS) -lm -lpthread
