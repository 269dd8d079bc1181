# SPDX-License-Identifier: Apache-2.0
storaged_libstoraged_a_SOURCES += \
	storaged/engine/page_cache.c storaged/engine/page_cache.h
