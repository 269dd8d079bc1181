# SPDX-License-Identifier: Apache-2.0
storaged_libstoraged_a_SOURCES += \
	storaged/data/catalogue.c storaged/data/catalogue.h \
	storaged/data/data_builder.c storaged/data/data_builder.h \
	storaged/data/data_format.c storaged/data/data_format.h \
	storaged/data/data_page.c \
	storaged/data/data_state.c storaged/data/data_state.h \
	storaged/data/data_top.c \
	storaged/data/id_hash.c storaged/data/id_hash.h \
	storaged/data/sorted_index.c storaged/data/sorted_index.h
