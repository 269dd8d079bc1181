/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "t/lib/kafka_world.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "common/crc32c.h"
#include "common/log.h"
#include "common/must.h"
#include "common/record_batch.h"

struct kafka_world k;

/* ------------------------------------------------------------------ the world */

static bool is_connected(void *arg)
{
	return topics_is_connected(k.worker.topics);
}

static void on_room(void *arg)
{
	server_room(arg);
}

void world_open(void (*change)(struct conf *c))
{
	struct topics_config config;
	memset(&k, 0, sizeof(k));
	k.n_partitions = 4;
	k.owner = 1;
	k.settings_version = 1;
	k.answer_max = UINT32_MAX;
	region_init(&k.region, 1u << 30);
	place_open(&k.place);
	loopback_open(&k.place);
	place_up(&k.place, 1);
	peers_serve(k.place.peers);
	place_client_config(&k.place, IPC_ROLE_KAFKA, 77, &config);
	must(topics_new(k.place.env, &config, &k.worker.topics) == 0);
	k.worker.env = k.place.env;
	k.worker.loop = &k.place.loop;
	conf_init(&k.worker.child.conf);
	if (change != NULL)
		change(&k.worker.child.conf);
	snprintf(k.worker.child.kafka_address, sizeof(k.worker.child.kafka_address), "kafka.example:9192");
	k.worker.child.n_listeners = 1;
	k.worker.child.listener[0] = (struct child_listener){ .fd = loopback_listen(&k.port), .protocol = "kafka" };
	server_init(&k.server, &k.worker);
	topics_on_room(k.worker.topics, on_room, &k.server);
	assert_true(place_run(&k.place, is_connected, NULL, SOON));
}

void world_close(void)
{
	server_close(&k.server);
	topics_free(k.worker.topics);
	loopback_close();
	place_run_ms(&k.place, 1);
	close(k.worker.child.listener[0].fd);
	conf_done(&k.worker.child.conf);
	place_close(&k.place);
	region_done(&k.region);
}

static bool has_conns(void *arg)
{
	return k.server.acceptor->n_conns == *(unsigned *)arg;
}

void wait_conns(unsigned n)
{
	assert_true(place_run(&k.place, has_conns, &n, SOON));
}

/* ------------------------------------------------------------------ the log */

static int log_fd = -1, real_stderr = -1;
static off_t log_from;
static uint64_t log_clock_ms;

static uint64_t log_now(void)
{
	return log_clock_ms;
}

void log_capture(void)
{
	if (log_fd < 0) {
		log_fd = memfd_create("log", 0);
		real_stderr = dup(STDERR_FILENO);
		must(log_fd >= 0 && real_stderr >= 0);
		log_open("worker-kafka", LOG_WARN, false);
		log_set_clock(log_now);
	}
	log_flush();
	log_clock_ms += 60000; /* nothing of before counts as a repeat */
	must(dup2(log_fd, STDERR_FILENO) == STDERR_FILENO);
	log_from = lseek(log_fd, 0, SEEK_END);
}

unsigned log_lines(const char *word)
{
	static char text[65536];
	must(dup2(real_stderr, STDERR_FILENO) == STDERR_FILENO);
	ssize_t n = pread(log_fd, text, sizeof(text) - 1, log_from);
	unsigned lines = 0;
	must(n >= 0);
	text[n] = '\0';
	for (char *line = strtok(text, "\n"); line != NULL; line = strtok(NULL, "\n"))
		lines += strstr(line, word) != NULL;
	return lines;
}

/* ------------------------------------------------------------------ requests and answers */

void ask(struct client *c, int16_t key, int16_t version, int32_t correlation_id, const void *request)
{
	const struct kafka_api *api = kafka_api_find(key);
	struct kafka_request head = { .api = api, .api_key = key, .api_version = version, .correlation_id = correlation_id };
	struct buf out;
	buf_init(&out, 128u << 20);
	size_t start = kafka_request_begin(&out, &head);
	must(kmsg_encode((struct kmsg_form){ api->request, version }, request, &out, NULL) == 0);
	must(kafka_frame_end(&out, start, 0) == 0);
	client_send(c, buf_slice(&out));
	buf_done(&out);
}

void give_all_topics(void)
{
	struct node *n = &k.place.node;
	for (size_t i = 0; i < n->n_seen && !k.topics_wait; i++)
		if (n->seen[i].type == IPC_GET_MANY && n->seen[i].call != NULL)
			give_topics(&n->seen[i]);
}

struct want {
	struct client *c;
	size_t n;
};

static bool has_bytes(void *arg)
{
	struct want *want = arg;
	give_all_topics();
	client_pull(want->c);
	return buf_len(&want->c->in) >= want->n || want->c->ended;
}

static void wait_bytes(struct client *c, size_t n)
{
	struct want want = { c, n };
	assert_true(place_run(&k.place, has_bytes, &want, SOON));
	assert_true(buf_len(&c->in) >= n);
}

const void *answer(struct client *c, int16_t key, int16_t version, int32_t correlation_id)
{
	struct kafka_request head = { .api = kafka_api_find(key), .api_key = key, .api_version = version,
				      .correlation_id = correlation_id };
	wait_bytes(c, KAFKA_FRAME_LENGTH);
	size_t n = KAFKA_FRAME_LENGTH + get_be32(buf_head(&c->in));
	wait_bytes(c, n);
	struct slice body, frame = region_copy(&k.region, slice_of(buf_head(&c->in) + KAFKA_FRAME_LENGTH, n - KAFKA_FRAME_LENGTH));
	buf_consume(&c->in, n);
	assert_int_equal((int32_t)get_be32(frame.p), correlation_id);
	assert_int_equal(kafka_response_read(frame, &head, &body), 0);
	void *response = region_alloc(&k.region, head.api->response->of->size);
	assert_int_equal(kmsg_decode((struct kmsg_form){ head.api->response, version }, body, &k.region, response), 0);
	return response;
}

void expect_silence(struct client *c)
{
	place_run_ms(&k.place, 30);
	client_pull(c);
	assert_int_equal(buf_len(&c->in), 0);
	assert_false(c->ended);
}

void expect_cut(struct client *c, const char *word, unsigned n_lines)
{
	client_wait_end(c);
	assert_int_equal(buf_len(&c->in), 0);
	if (log_lines(word) != n_lines || log_lines("") != n_lines)
		fail_msg("%u lines, %u of them with %s; expected %u", log_lines(""), log_lines(word), word, n_lines);
}

/* ------------------------------------------------------------------ batches */

uint8_t *bytes_of(struct slice batch)
{
	return (uint8_t *)(uintptr_t)batch.p;
}

struct slice sealed(struct slice batch)
{
	put_be32(bytes_of(batch) + 17, crc32c(batch.p + 21, batch.n - 21));
	return batch;
}

static struct slice batch_with(unsigned n, struct slice value)
{
	struct record_batch_writer writer;
	struct buf b;
	buf_init(&b, 64u << 20);
	record_batch_begin(&writer, &b);
	for (unsigned i = 0; i < n; i++)
		record_batch_add(&writer, slice_str("k"), value, NULL, 0);
	must(record_batch_end(&writer) > 0);
	struct slice batch = region_copy(&k.region, buf_slice(&b));
	buf_done(&b);
	put_be16(bytes_of(batch) + 21, 0);
	return sealed(batch);
}

struct slice batch_of(unsigned n, const char *value)
{
	return batch_with(n, slice_str(value));
}

struct slice large_batch(size_t n)
{
	uint8_t *value = must_calloc(1, n);
	for (size_t i = 0; i < n; i++)
		value[i] = (uint8_t)(i * 7 + i / 251);
	struct slice batch = batch_with(1, slice_of(value, n));
	free(value);
	return batch;
}

/* ------------------------------------------------------------------ produce */

/* How many parts from there on are of one topic. */
static size_t same_topic(const struct part *parts, size_t n)
{
	size_t i = 1;
	while (i < n && strcmp(parts[i].topic, parts[0].topic) == 0)
		i++;
	return i;
}

static size_t n_topics(const struct part *parts, size_t n)
{
	size_t topics = 0;
	for (size_t i = 0; i < n; i += same_topic(parts + i, n - i))
		topics++;
	return topics;
}

void ask_produce(struct client *c, int16_t version, int32_t correlation_id, int16_t acks, const struct part *parts, size_t n)
{
	struct kmsg_produce_request m;
	memcpy(&m, kmsg_produce_request_struct.defaults, sizeof(m));
	m.acks = acks;
	m.timeout_ms = 3000;
	m.n_topic_data = (uint32_t)n_topics(parts, n);
	struct kmsg_produce_request_topic *t = m.topic_data = KMSG_NEW(&k.region, produce_request_topic, m.n_topic_data);
	for (size_t at = 0; at < n; t++) {
		t->name = slice_str(parts[at].topic);
		t->n_partition_data = (uint32_t)same_topic(parts + at, n - at);
		t->partition_data = KMSG_NEW(&k.region, produce_request_partition, t->n_partition_data);
		for (uint32_t i = 0; i < t->n_partition_data; i++, at++) {
			t->partition_data[i].index = parts[at].partition;
			t->partition_data[i].records.bytes = parts[at].batch;
		}
	}
	ask(c, PRODUCE, version, correlation_id, &m);
}

const struct kmsg_produce_response_partition *produced(const void *response, size_t i)
{
	const struct kmsg_produce_response *m = response;
	for (uint32_t t = 0; t < m->n_responses; t++) {
		if (i < m->responses[t].n_partition_responses)
			return &m->responses[t].partition_responses[i];
		i -= m->responses[t].n_partition_responses;
	}
	fail();
	return NULL;
}

/* ------------------------------------------------------------------ fetch */

void ask_fetch(struct client *c, int16_t version, int32_t correlation_id, struct fetch_form form, const struct part *parts,
	       size_t n)
{
	struct kmsg_fetch_request m;
	memcpy(&m, kmsg_fetch_request_struct.defaults, sizeof(m));
	m.max_wait_ms = form.max_wait_ms;
	m.min_bytes = form.min_bytes;
	m.max_bytes = form.max_bytes > 0 ? form.max_bytes : 50 << 20;
	m.n_topics = (uint32_t)n_topics(parts, n);
	struct kmsg_fetch_request_topic *t = m.topics = KMSG_NEW(&k.region, fetch_request_topic, m.n_topics);
	for (size_t at = 0; at < n; t++) {
		t->topic = slice_str(parts[at].topic);
		memcpy(t->topic_id.bytes, id_of(parts[at].topic), 16);
		t->n_partitions = (uint32_t)same_topic(parts + at, n - at);
		t->partitions = KMSG_NEW(&k.region, fetch_request_partition, t->n_partitions);
		for (uint32_t i = 0; i < t->n_partitions; i++, at++) {
			t->partitions[i].partition = parts[at].partition;
			t->partitions[i].fetch_offset = parts[at].offset;
			t->partitions[i].partition_max_bytes = parts[at].max_bytes > 0 ? parts[at].max_bytes : 50 << 20;
		}
	}
	ask(c, FETCH, version, correlation_id, &m);
}

const struct kmsg_fetch_response_partition *fetched(const void *response, size_t i)
{
	const struct kmsg_fetch_response *m = response;
	for (uint32_t t = 0; t < m->n_responses; t++) {
		if (i < m->responses[t].n_partitions)
			return &m->responses[t].partitions[i];
		i -= m->responses[t].n_partitions;
	}
	fail();
	return NULL;
}

/* ------------------------------------------------------------------ storaged */

const uint8_t *id_of(const char *topic)
{
	static uint8_t id[16];
	memset(id, 0x5a, sizeof(id));
	memcpy(id, topic, strnlen(topic, sizeof(id)));
	return id;
}

Ipc__Topic *topic_of_name(const char *name)
{
	Ipc__Topic *t = region_calloc(&k.region, 1, sizeof(*t));
	ipc__topic__init(t);
	t->kafka_topic = (char *)(uintptr_t)name;
	t->name = (char *)(uintptr_t)region_printf(&k.region, "/%s", name).p;
	t->topic_id = (ProtobufCBinaryData){ .len = 16, .data = bytes_of(region_copy(&k.region, slice_of(id_of(name), 16))) };
	t->settings_version = k.settings_version;
	t->n_partitions = k.n_partitions;
	Ipc__Partition *p = region_calloc(&k.region, k.n_partitions, sizeof(*p));
	t->partitions = region_calloc(&k.region, k.n_partitions, sizeof(*t->partitions));
	for (uint32_t i = 0; i < k.n_partitions; i++) {
		ipc__partition__init(&p[i]);
		p[i].owner = k.owner;
		p[i].epoch = 3;
		t->partitions[i] = &p[i];
	}
	if (k.config[0] == NULL)
		return t;
	Ipc__ConfigEntry *entry = region_calloc(&k.region, 1, sizeof(*entry));
	ipc__config_entry__init(entry);
	entry->name = (char *)(uintptr_t)k.config[0];
	entry->value = (char *)(uintptr_t)k.config[1];
	t->n_config = 1;
	t->config = region_calloc(&k.region, 1, sizeof(*t->config));
	t->config[0] = entry;
	return t;
}

/* The same bounds as the real one. */
static enum pico_error_kind fault_of(const Ipc__TopicRef *ref, size_t n_before)
{
	return ref->name[0] == '\0' || ref->name[0] == '.' || strncmp(ref->name, "no", 2) == 0 ||
			       (k.missing != NULL && strcmp(ref->name, k.missing) == 0) ? PICO_NOT_FOUND
		: n_before >= k.answer_max ? PICO_THROTTLED : PICO_OK;
}

void give_topics(struct seen *s)
{
	const Ipc__GetManyRequest *r = (const Ipc__GetManyRequest *)s->call->request;
	Ipc__GetManyAnswer a = IPC__GET_MANY_ANSWER__INIT;
	Ipc__GetManyAnswer__One *one = region_calloc(&k.region, r->n_topic, sizeof(*one));
	size_t n = 0;
	assert_in_range(r->n_topic, 1, 10000);
	a.n_one = r->n_topic;
	a.one = region_calloc(&k.region, r->n_topic, sizeof(*a.one));
	for (size_t i = 0; i < r->n_topic; i++) {
		struct pico_error e = { .kind = fault_of(r->topic[i], n) };
		a.one[i] = &one[i];
		ipc__get_many_answer__one__init(&one[i]);
		if (e.kind != PICO_OK) {
			one[i].error = region_calloc(&k.region, 1, sizeof(*one[i].error));
			struct pico_error *kept = region_calloc(&k.region, 1, sizeof(*kept));
			*kept = e;
			ipc_error_fill(one[i].error, kept);
			continue;
		}
		one[i].topic = topic_of_name(r->topic[i]->name);
		n++;
	}
	give(s, &a.base);
}

struct nth {
	enum ipc_type type;
	size_t index;
};

static bool has_come(void *arg)
{
	const struct nth *want = arg;
	if (want->type != IPC_GET_MANY)
		give_all_topics();
	return node_seen(&k.place.node, want->type, want->index) != NULL;
}

struct seen *nth(enum ipc_type type, size_t index)
{
	struct nth want = { type, index };
	assert_true(place_run(&k.place, has_come, &want, SOON));
	return node_seen(&k.place.node, type, index);
}

size_t n_calls(enum ipc_type type)
{
	return node_count(&k.place.node, type);
}

void give_kind(struct seen *s, enum pico_error_kind kind)
{
	struct pico_error e;
	pico_error_set(&e, kind, "scripted");
	give_error(s, &e);
}

static void give_submit(struct seen *s, uint64_t base, size_t failed, enum pico_error_kind kind)
{
	const Ipc__SubmitRequest *r = (const Ipc__SubmitRequest *)s->call->request;
	Ipc__SubmitAnswer a = IPC__SUBMIT_ANSWER__INIT;
	Ipc__SubmitAnswer__Part *part = region_calloc(&k.region, r->n_part, sizeof(*part));
	Ipc__Error error;
	struct pico_error e;
	pico_error_set(&e, kind, "scripted");
	ipc_error_fill(&error, &e);
	a.n_part = r->n_part;
	a.part = region_calloc(&k.region, r->n_part, sizeof(*a.part));
	for (size_t i = 0; i < r->n_part; i++) {
		a.part[i] = &part[i];
		ipc__submit_answer__part__init(&part[i]);
		part[i].base_offset = base + i;
		part[i].log_start = 1;
		part[i].log_append_time_ms = -1;
		part[i].error = i == failed ? &error : NULL;
	}
	give(s, &a.base);
}

void give_stored(struct seen *s, uint64_t base)
{
	give_submit(s, base, SIZE_MAX, PICO_OK);
}

void give_part_error(struct seen *s, size_t part, enum pico_error_kind kind)
{
	give_submit(s, 100, part, kind);
}

void stock_open(struct stock *s, uint32_t id, size_t size)
{
	*s = (struct stock){ .segment.id = id };
	must(k.place.env->ops->segment_new(k.place.env, ENV_SEGMENT_SHARED_READ, size, &s->segment.mem) == 0);
}

void stock_close(struct stock *s)
{
	k.place.env->ops->segment_free(k.place.env, &s->segment.mem);
}

void give_fetched(struct seen *s, struct stock *stock, const struct found *found, size_t n)
{
	struct call *c = s->call;
	Ipc__FetchAnswer a = IPC__FETCH_ANSWER__INIT;
	Ipc__FetchAnswer__Part *part = region_calloc(&k.region, n, sizeof(*part));
	struct pico_error *e = region_calloc(&k.region, n, sizeof(*e));
	a.n_part = n;
	a.part = region_calloc(&k.region, n, sizeof(*a.part));
	c->pieces = must_calloc(n, sizeof(struct piece));
	for (size_t i = 0; i < n; i++) {
		a.part[i] = &part[i];
		ipc__fetch_answer__part__init(&part[i]);
		part[i].index = (uint32_t)i;
		part[i].start = found[i].start;
		part[i].confirm = found[i].confirm;
		part[i].leader_epoch = found[i].leader_epoch;
		part[i].first_piece = (uint32_t)c->n_pieces;
		if (found[i].error != PICO_OK) {
			e[i].kind = found[i].error;
			part[i].error = region_calloc(&k.region, 1, sizeof(*part[i].error));
			ipc_error_fill(part[i].error, &e[i]);
		}
		if (found[i].length == 0)
			continue;
		part[i].n_pieces = 1;
		part[i].end = found[i].end;
		c->pieces[c->n_pieces++] = (struct piece){ .segment = &stock->segment, .pin = &stock->pin,
							   .offset = found[i].offset, .length = found[i].length };
		pin_take(&stock->pin);
	}
	if (c->n_pieces == 0) {
		free(c->pieces);
		c->pieces = NULL;
	}
	give(s, &a.base);
}
