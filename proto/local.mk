# SPDX-License-Identifier: Apache-2.0
noinst_LIBRARIES += proto/libproto.a
proto_libproto_a_SOURCES = proto/topics.proto proto/frame.proto proto/meta.proto
nodist_proto_libproto_a_SOURCES = \
	proto/topics.pb-c.c proto/topics.pb-c.h \
	proto/frame.pb-c.c proto/frame.pb-c.h \
	proto/meta.pb-c.c proto/meta.pb-c.h
# Generated code: our warnings are not for it.
proto_libproto_a_CFLAGS = $(AM_CFLAGS) -w
BUILT_SOURCES += $(nodist_proto_libproto_a_SOURCES)
CLEANFILES += $(nodist_proto_libproto_a_SOURCES)

proto/%.pb-c.c proto/%.pb-c.h: proto/%.proto
	$(AM_V_GEN)$(MKDIR_P) proto && $(PROTOC_C) --proto_path=$(srcdir)/proto --c_out=proto $<
