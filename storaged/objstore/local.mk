# SPDX-License-Identifier: Apache-2.0
storaged_libstoraged_a_SOURCES += \
	storaged/objstore/file.c storaged/objstore/file.h \
	storaged/objstore/file_put.c \
	storaged/objstore/file_read.c \
	storaged/objstore/file_upload.c storaged/objstore/file_upload.h \
	storaged/objstore/mem.c storaged/objstore/mem.h \
	storaged/objstore/objstore.h \
	storaged/objstore/s3.c storaged/objstore/s3.h \
	storaged/objstore/s3_call.c storaged/objstore/s3_call.h \
	storaged/objstore/s3_config.c storaged/objstore/s3_config.h \
	storaged/objstore/s3_credentials.c storaged/objstore/s3_credentials.h \
	storaged/objstore/s3_error.c storaged/objstore/s3_error.h \
	storaged/objstore/s3_latency.c storaged/objstore/s3_latency.h \
	storaged/objstore/s3_request.c storaged/objstore/s3_request.h \
	storaged/objstore/s3_sign.c storaged/objstore/s3_sign.h \
	storaged/objstore/s3_transfer.c storaged/objstore/s3_transfer.h \
	storaged/objstore/s3_transport.c storaged/objstore/s3_transport.h \
	storaged/objstore/s3_upload.c \
	storaged/objstore/s3_xml.c storaged/objstore/s3_xml.h \
	storaged/objstore/url.c storaged/objstore/url.h
EXTRA_DIST += storaged/objstore/README
