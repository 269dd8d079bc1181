# SPDX-License-Identifier: Apache-2.0
storaged_libstoraged_a_SOURCES += \
	storaged/group/group.c storaged/group/group.h storaged/group/group_impl.h \
	storaged/group/group_member.c \
	storaged/group/group_rebalance.c \
	storaged/group/offsets.c storaged/group/offsets.h
