# SPDX-License-Identifier: Apache-2.0
storaged_libstoraged_a_SOURCES += \
	storaged/meta/meta.h \
	storaged/meta/sql_log.h \
	storaged/meta/state.h
