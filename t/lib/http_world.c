/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "t/lib/http_world.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "common/must.h"
#include "common/record_batch.h"
#include "worker-http/admin.h"
#include "worker-http/pico.h"

struct world w;

/* ------------------------------------------------------------------ the world */

static bool is_connected(void *arg)
{
	return topics_is_connected(w.worker.topics);
}

void world_open(void (*change)(struct conf *c))
{
	struct topics_config config;
	memset(&w, 0, sizeof(w));
	place_open(&w.place);
	loopback_open(&w.place);
	place_up(&w.place, 1);
	peers_serve(w.place.peers);
	place_client_config(&w.place, IPC_ROLE_ADMIN, 77, &config);
	must(topics_new(w.place.env, &config, &w.worker.topics) == 0);
	w.worker.env = w.place.env;
	w.worker.loop = &w.place.loop;
	conf_init(&w.worker.child.conf);
	if (change != NULL)
		change(&w.worker.child.conf);
	snprintf(w.worker.child.ds_address, sizeof(w.worker.child.ds_address), "http://ds.example");
	w.worker.child.processes = &w.processes;
	w.worker.child.n_listeners = 3;
	w.worker.child.listener[0] = (struct child_listener){ .fd = loopback_listen(&w.port), .protocol = "pico" };
	w.worker.child.listener[1] = (struct child_listener){ .fd = loopback_listen(&w.admin_port), .protocol = "admin" };
	w.worker.child.listener[2] = (struct child_listener){ .fd = loopback_listen(&w.ds_port), .protocol = "ds" };
	server_init(&w.server, &w.worker);
	assert_true(place_run(&w.place, is_connected, NULL, SOON));
}

void world_close(void)
{
	server_close(&w.server);
	topics_free(w.worker.topics);
	loopback_close();
	place_run_ms(&w.place, 1);
	close(w.worker.child.listener[0].fd);
	close(w.worker.child.listener[1].fd);
	close(w.worker.child.listener[2].fd);
	conf_done(&w.worker.child.conf);
	place_close(&w.place);
}

char *tidy(struct slice bytes)
{
	static const char *const drop[] = { "Date:", "X-Request-Id:", "X-Content-Type-Options: nosniff",
					    "Cross-Origin-Resource-Policy: same-origin" };
	static char text[8192];
	size_t n = 0;
	while (bytes.n > 0) {
		const uint8_t *lf = memchr(bytes.p, '\n', bytes.n);
		size_t line = lf != NULL ? (size_t)(lf - bytes.p) + 1 : bytes.n;
		bool dropped = false;
		for (size_t i = 0; i < sizeof(drop) / sizeof(drop[0]); i++)
			dropped |= line >= strlen(drop[i]) && memcmp(bytes.p, drop[i], strlen(drop[i])) == 0;
		for (size_t i = 0; i < line && !dropped && n < sizeof(text) - 1; i++)
			if (bytes.p[i] != '\r')
				text[n++] = (char)bytes.p[i];
		bytes = slice_of(bytes.p + line, bytes.n - line);
	}
	text[n] = '\0';
	return text;
}

/* ------------------------------------------------------------------ what storaged sees */

static void print_fields(const ProtobufCMessage *m, struct buf *out);

static void print_bytes(struct buf *out, const void *p, size_t n)
{
	buf_put_u8(out, '\'');
	buf_put(out, p, n);
	buf_put_u8(out, '\'');
}

static void print_scalar(const ProtobufCFieldDescriptor *f, const void *at, struct buf *out)
{
	uint64_t u = 0;
	switch (f->type) {
	case PROTOBUF_C_TYPE_UINT64: u = *(const uint64_t *)at; break;
	case PROTOBUF_C_TYPE_INT64: u = *(const uint64_t *)at; break;
	case PROTOBUF_C_TYPE_UINT32: u = *(const uint32_t *)at; break;
	case PROTOBUF_C_TYPE_ENUM: u = *(const uint32_t *)at; break;
	case PROTOBUF_C_TYPE_INT32: u = (uint64_t)(int64_t)*(const int32_t *)at; break;
	case PROTOBUF_C_TYPE_BOOL: u = (uint64_t)*(const protobuf_c_boolean *)at; break;
	case PROTOBUF_C_TYPE_MESSAGE:
		if (*(ProtobufCMessage *const *)at == NULL)
			return;
		buf_printf(out, " %s{", f->name);
		print_fields(*(ProtobufCMessage *const *)at, out);
		buf_put_str(out, " }");
		return;
	case PROTOBUF_C_TYPE_STRING:
		if (**(char *const *)at != '\0')
			buf_printf(out, " %s='%s'", f->name, *(char *const *)at);
		return;
	case PROTOBUF_C_TYPE_BYTES: {
		const ProtobufCBinaryData *b = at;
		if (b->len > 0) {
			buf_printf(out, " %s=", f->name);
			print_bytes(out, b->data, b->len);
		}
		return;
	}
	default:
		return;
	}
	if (u != 0)
		buf_printf(out, " %s=%" PRId64, f->name, (int64_t)u);
}

/* The fields that are set, but deadline and payload. */
static void print_fields(const ProtobufCMessage *m, struct buf *out)
{
	for (unsigned i = 0; i < m->descriptor->n_fields; i++) {
		const ProtobufCFieldDescriptor *f = &m->descriptor->fields[i];
		if (strcmp(f->name, "deadline_ms") != 0 && strcmp(f->name, "payload") != 0 &&
		    f->label != PROTOBUF_C_LABEL_REPEATED)
			print_scalar(f, (const char *)m + f->offset, out);
	}
}

/* Key, value and headers of each record of an append. */
static void print_records(const struct seen *s, struct buf *out)
{
	struct record_batch b;
	struct record_iter it;
	struct record r;
	if (s->payload_n == 0)
		return;
	assert_int_equal(record_batch_read(slice_of(s->payload, s->payload_n), &b), 0);
	assert_true(record_batch_crc_is_good(&b));
	assert_int_equal(record_iter_init(&it, &b), 0);
	while (record_iter_next(&it, &r) == 1) {
		struct wire_reader headers = wire_reader(r.headers_raw);
		struct record_header h;
		buf_put_str(out, " |");
		if (r.key.p != NULL)
			print_bytes(out, r.key.p, r.key.n);
		while (record_header_next(&headers, &h) == 1) {
			print_bytes(out, h.name.p, h.name.n);
			buf_put_u8(out, '=');
			print_bytes(out, h.value.p, h.value.n);
		}
		buf_put_u8(out, ':');
		if (r.value.p != NULL)
			print_bytes(out, r.value.p, r.value.n);
	}
}

const char *print_call(const struct seen *s)
{
	static struct buf out;
	buf_init(&out, 1 << 20);
	buf_put_str(&out, s->call->row->name);
	print_fields(s->call->request, &out);
	print_records(s, &out);
	buf_put_u8(&out, '\0');
	static char text[4096];
	snprintf(text, sizeof(text), "%s", (const char *)buf_head(&out));
	buf_done(&out);
	return text;
}
