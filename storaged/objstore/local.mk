# SPDX-License-Identifier: Apache-2.0
storaged_libstoraged_a_SOURCES += \
	storaged/objstore/file.c storaged/objstore/file.h \
	storaged/objstore/file_put.c \
	storaged/objstore/file_read.c \
	storaged/objstore/file_upload.c storaged/objstore/file_upload.h \
	storaged/objstore/mem.c storaged/objstore/mem.h \
	storaged/objstore/objstore.h \
	storaged/objstore/url.c storaged/objstore/url.h
EXTRA_DIST += storaged/objstore/README
