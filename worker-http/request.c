/* SPDX-License-Identifier: Apache-2.0
 *
 * Requests and answers, without a connection. The head is copied once, because an answer may take
 * longer than the input buffer keeps it.
 */
#include "worker-http/request.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <strings.h>

#include "common/json_scan.h"
#include "common/must.h"
#include "common/topic_name.h"
#include "worker-http/server.h"

/* ------------------------------------------------------------------ life */

static struct slice rebase(struct slice s, const struct http1_head *head, const uint8_t *copy)
{
	return s.p == NULL ? s : slice_of(copy + (s.p - head->bytes.p), s.n);
}

static void copy_head(struct request *r, const struct http1_head *head)
{
	r->head_bytes = must_memdup(head->bytes.p, head->bytes.n);
	r->method = rebase(head->method, head, r->head_bytes);
	r->path = rebase(head->path, head, r->head_bytes);
	r->query = rebase(head->query, head, r->head_bytes);
	r->field = must_calloc(head->n_fields + 1, sizeof(*r->field));
	r->n_fields = head->n_fields;
	for (unsigned i = 0; i < head->n_fields; i++) {
		r->field[i].name = rebase(head->field[i].name, head, r->head_bytes);
		r->field[i].value = rebase(head->field[i].value, head, r->head_bytes);
	}
	if (r->path.n == 0)
		r->path = slice_str("/");
	r->is_head = slice_is(r->method, "HEAD");
}

/* The client's when it is short and printable, else one of ours. */
static void choose_id(struct request *r)
{
	struct slice id = request_field(r, "x-request-id");
	bool good = id.n > 0 && id.n < sizeof(r->id);
	for (size_t i = 0; good && i < id.n; i++)
		good = id.p[i] > 0x20 && id.p[i] < 0x7f;
	if (good) {
		memcpy(r->id, id.p, id.n);
		return;
	}
	uint64_t random;
	env_random(r->server->env, &random, sizeof(random));
	snprintf(r->id, sizeof(r->id), "%016" PRIx64, random);
}

struct request *request_new(struct server *server, const struct http1_head *head)
{
	struct request *r = must_calloc(1, sizeof(*r));
	r->magic = REQUEST_MAGIC;
	r->server = server;
	r->piece_max = server->conf->conn_buffer_size / 2;
	if (head != NULL)
		copy_head(r, head);
	choose_id(r);
	buf_init(&r->body, server->conf->max_request_size);
	buf_init(&r->answer.fields, ANSWER_FIELDS_MAX);
	buf_init(&r->answer.body, SIZE_MAX / 4);
	buf_init(&r->answer.ahead, SIZE_MAX / 4);
	return r;
}

void request_free(struct request *r)
{
	if (r == NULL)
		return;
	must(r->magic == REQUEST_MAGIC);
	if (r->call != NULL)
		topics_abandon(r->call);
	turns_forget(&r->server->turns, &r->turn);
	if (r->state_free != NULL)
		r->state_free(r->state);
	buf_done(&r->body);
	buf_done(&r->answer.fields);
	buf_done(&r->answer.body);
	buf_done(&r->answer.ahead);
	free(r->field);
	free(r->head_bytes);
	r->magic = 0;
	free(r);
}

bool request_is_busy(const struct request *r)
{
	return r->call != NULL || turn_is_waiting(&r->turn);
}

/* ------------------------------------------------------------------ the question */

struct slice request_field_nth(const struct request *r, const char *lower, unsigned n)
{
	for (unsigned i = 0; i < r->n_fields; i++)
		if (http1_is_word(r->field[i].name, lower) && n-- == 0)
			return r->field[i].value;
	return slice_of(NULL, 0);
}

struct slice request_field(const struct request *r, const char *lower)
{
	return request_field_nth(r, lower, 0);
}

bool request_flag(const struct request *r, const char *lower)
{
	return http1_is_word(request_field(r, lower), "true");
}

static struct slice media_type(struct slice type)
{
	const uint8_t *semicolon = type.n > 0 ? memchr(type.p, ';', type.n) : NULL;
	if (semicolon != NULL)
		type.n = (size_t)(semicolon - type.p);
	while (type.n > 0 && (type.p[type.n - 1] == ' ' || type.p[type.n - 1] == '\t'))
		type.n--;
	return type;
}

bool media_type_same(struct slice a, struct slice b)
{
	a = media_type(a);
	b = media_type(b);
	return a.n == b.n && (a.n == 0 || strncasecmp((const char *)a.p, (const char *)b.p, a.n) == 0);
}

bool request_has_type(const struct request *r, const char *lower)
{
	return media_type_same(request_field(r, "content-type"), slice_str(lower));
}

char *request_name(const struct request *r)
{
	static char name[TOPIC_PATH_MAX + 1];
	must(r->name.n <= TOPIC_PATH_MAX);
	memcpy(name, r->name.p, r->name.n);
	name[r->name.n] = '\0';
	return name;
}

/* ------------------------------------------------------------------ calls */

uint64_t request_deadline(const struct request *r)
{
	return env_now_ms(r->server->env) + r->server->conf->request_timeout_ms;
}

void request_call(struct request *r, enum ipc_type type, ProtobufCMessage *message, struct slice payload,
		  uint64_t deadline_ms, topics_cb *cb)
{
	must(r->call == NULL);
	r->call = topics_call(r->server->topics, type, message, payload, deadline_ms, cb, r);
	if (topics_is_full(r->server->topics))
		r->server->full = true;
	if (type == IPC_WAIT) /* it is under way no more: another may start in its place */
		r->on_answer(r);
}

/* ------------------------------------------------------------------ the answer */

void answer_field_slice(struct request *r, const char *name, struct slice value)
{
	struct buf *f = &r->answer.fields;
	buf_put_str(f, name);
	buf_put_str(f, ": ");
	/* What came from storage may hold anything: no value ends its line. */
	for (size_t i = 0; i < value.n; i++)
		buf_put_u8(f, value.p[i] < 0x20 || value.p[i] == 0x7f ? ' ' : value.p[i]);
	buf_put_str(f, "\r\n");
}

void answer_field(struct request *r, const char *name, const char *value)
{
	answer_field_slice(r, name, slice_str(value));
}

void answer_field_u64(struct request *r, const char *name, uint64_t value)
{
	buf_printf(&r->answer.fields, "%s: %" PRIu64 "\r\n", name, value);
}

static void answer_ready(struct request *r)
{
	if (r->answer.fields.failed || r->answer.body.failed)
		r->answer.broken = true;
	r->on_answer(r);
}

void answer_send(struct request *r, int status)
{
	answer_begin_stream(r, status, true, buf_len(&r->answer.body));
	answer_more(r, true);
}

void answer_send_empty(struct request *r, int status)
{
	must(buf_len(&r->answer.body) == 0);
	r->answer.no_body = status == 204 || status == 304;
	answer_send(r, status);
}

void answer_error(struct request *r, int status, const char *word, const char *message, const uint64_t *next_seq)
{
	struct buf *b = &r->answer.body;
	buf_reset(b, 4096);
	buf_put_str(b, "{\"error\":");
	json_put_string(b, slice_str(word));
	if (message != NULL && message[0] != '\0' && utf8_is_valid(slice_str(message))) {
		buf_put_str(b, ",\"message\":");
		json_put_string(b, slice_str(message));
	}
	if (next_seq != NULL) {
		buf_printf(b, ",\"next_seq\":%" PRIu64, *next_seq);
		answer_field_u64(r, "Pico-Next-Seq", *next_seq);
	}
	buf_put_str(b, "}\n");
	answer_field(r, "Content-Type", "application/json");
	answer_send(r, status);
}

void answer_bad_request(struct request *r, const char *fmt, ...)
{
	char text[300];
	va_list ap;
	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	answer_error(r, 400, "bad_request", text, NULL);
}

void answer_not_supported(struct request *r, const char *what)
{
	char text[200];
	snprintf(text, sizeof(text), "%s is not supported yet", what);
	answer_error(r, 501, "not_supported", text, NULL);
}

bool answer_encoded(struct request *r)
{
	struct slice encoding = request_field(r, "content-encoding");
	if (encoding.n == 0 || http1_is_word(encoding, "identity"))
		return false;
	answer_error(r, 415, "unsupported_media_type", "send the body without Content-Encoding", NULL);
	return true;
}

void answer_begin_stream(struct request *r, int status, bool has_length, uint64_t length)
{
	must(r->answer.status == 0 && status >= 200);
	r->on_drain = NULL;
	r->answer.status = status;
	r->answer.has_length = has_length;
	r->answer.length = length;
	buf_done(&r->body);
}

void answer_more(struct request *r, bool ended)
{
	struct answer *a = &r->answer;
	must(a->status != 0 && !a->ended);
	if (ended && !a->any_piece && !a->has_length) { /* all of it in one piece: its length is known after all */
		a->has_length = true;
		a->length = buf_len(&a->body);
	}
	a->any_piece = true;
	a->ended = ended;
	answer_ready(r);
}

void answer_ahead(struct request *r)
{
	r->on_answer(r);
}

void answer_put_fields(struct request *r, struct buf *out)
{
	const struct answer *a = &r->answer;
	buf_printf(out, "Date: %s\r\n", server_date(r->server));
	buf_put_slice(out, buf_slice(&a->fields));
	buf_printf(out, "Cache-Control: %s\r\nX-Content-Type-Options: nosniff\r\n"
		   "Cross-Origin-Resource-Policy: same-origin\r\nX-Request-Id: %s\r\n",
		   a->cache_control != NULL ? a->cache_control : "no-store", r->id);
	if (a->status == 429 || a->status == 503)
		buf_put_str(out, "Retry-After: 1\r\n");
}

void answer_break(struct request *r)
{
	r->answer.broken = true;
	r->on_answer(r);
}

size_t request_piece_max(const struct request *r)
{
	return r->piece_max;
}
