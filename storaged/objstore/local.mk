# SPDX-License-Identifier: Apache-2.0
storaged_libstoraged_a_SOURCES += \
	storaged/objstore/file.c storaged/objstore/file.h \
	storaged/objstore/file_put.c \
	storaged/objstore/file_read.c \
	storaged/objstore/mem.c storaged/objstore/mem.h \
	storaged/objstore/objstore.h \
	storaged/objstore/url.c
EXTRA_DIST += storaged/objstore/README
