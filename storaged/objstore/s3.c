/* SPDX-License-Identifier: Apache-2.0
 *
 * The object store on S3: opening and closing, and whole objects: put, get, delete, list. Uploads in parts are
 * s3_upload.c's, tries and hedges s3_call.c's, HTTP the transport's.
 *
 * Invariant: a put is tried once. Whether it happened is what its caller must find out if it is UNKNOWN.
 */
#include "storaged/objstore/s3.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/must.h"
#include "storaged/objstore/s3_call.h"

#define S3_STORE_MAGIC 0x65726f7473337333ull
#define GET_MAX ((uint64_t)1 << 31)
#define XML_MAX ((uint64_t)4 << 20)
#define PAGE_MAX 1000u
#define MAX_INFLIGHT 16
#define BATCH_INTERVAL_MS 100

struct s3_store *s3_store_of(struct objstore *s)
{
	struct s3_store *ss = (struct s3_store *)s;
	must(ss->magic == S3_STORE_MAGIC);
	return ss;
}

const char *s3_key_of(const struct s3_store *s, const char *name)
{
	size_t n = strlen(s->config.prefix);
	return strncmp(name, s->config.prefix, n) == 0 && objstore_key_is_legal(name + n) ? name + n : NULL;
}

static struct obj_result result_of(const struct s3_end *end)
{
	return (struct obj_result){ .outcome = end->outcome, .err = end->err, .what = end->what };
}

/* Put */

struct s3_put {
	obj_done_cb *cb;
	void *arg;
};

static void on_put_end(void *op, const struct s3_call *call, const struct s3_end *end)
{
	struct s3_put p = *(struct s3_put *)op;
	free(op);
	p.cb(p.arg, result_of(end));
}

static void s3_store_put(struct objstore *store, const char *key, const struct iovec *iov, int n_iov, bool if_absent,
			 obj_done_cb *cb, void *arg)
{
	must(objstore_key_is_legal(key));
	struct s3_put *p = must_calloc(1, sizeof(*p));
	struct s3_call *c = s3_call_new(s3_store_of(store), "PUT", key);
	*p = (struct s3_put){ cb, arg };
	s3_request_body(&c->request, iov, n_iov);
	c->request.checksum = true;
	if (if_absent)
		s3_request_header(&c->request, "if-none-match", "*");
	c->op = p;
	c->on_end = on_put_end;
	c->drop = free;
	s3_call_begin(c);
}

/* Get */

struct s3_get {
	obj_get_cb *cb;
	void *arg;
	uint64_t offset, length;
	bool suffix;
};

/* What of the answer was asked for. 0 or a negative errno. */
static int get_take(const struct s3_get *g, const struct s3_exchange *x, struct slice *ret)
{
	uint64_t size = x->object_size, n = buf_len(&x->body);
	uint64_t from = !g->suffix ? g->offset : g->length < size ? size - g->length : 0;
	uint64_t want = from < size ? size - from : 0;
	if (!g->suffix && g->length > 0 && g->length < want)
		want = g->length;
	*ret = slice_of(buf_head(&x->body), n);
	if (x->status == 206)
		return x->range_begin == from && n == want && size > 0 ? 0 : -EBADMSG;
	/* A server may answer with all there is. */
	if (from > size || (from == size && from > 0))
		return -ERANGE;
	*ret = slice_of(buf_head(&x->body) + from, want);
	return 0;
}

static void on_get_end(void *op, const struct s3_call *call, const struct s3_end *end)
{
	struct s3_get g = *(struct s3_get *)op;
	struct obj_result result = result_of(end);
	struct slice data = { 0 };
	uint64_t size = 0;
	int r;
	free(op);
	if (end->outcome == OUTCOME_OK) {
		size = end->x->object_size;
		r = get_take(&g, end->x, &data);
		if (r < 0) {
			result.outcome = r == -ERANGE ? OUTCOME_NOT_APPLIED : OUTCOME_UNKNOWN;
			result.err = r;
			data = slice_of(NULL, 0);
			size = 0;
		}
	} else if (end->err == -ERANGE && (g.offset == 0 || g.suffix)) {
		/* There is no first byte: the object is empty. */
		result.outcome = OUTCOME_OK;
		result.err = 0;
	}
	g.cb(g.arg, result, data, size);
}

static void get_begin(struct s3_store *s, const char *key, const struct s3_get *from)
{
	must(objstore_key_is_legal(key));
	struct s3_get *g = must_memdup(from, sizeof(*from));
	struct s3_call *c = s3_call_new(s, "GET", key);
	c->request.answer_max = g->length > 0 && g->length < GET_MAX ? g->length : GET_MAX;
	if (g->suffix)
		s3_request_header(&c->request, "range", "bytes=-%" PRIu64, g->length);
	else if (g->length > 0 && g->length < GET_MAX)
		s3_request_header(&c->request, "range", "bytes=%" PRIu64 "-%" PRIu64, g->offset,
				  g->offset + g->length - 1);
	else if (g->offset > 0)
		s3_request_header(&c->request, "range", "bytes=%" PRIu64 "-", g->offset);
	c->may_retry = c->may_hedge = true;
	c->op = g;
	c->on_end = on_get_end;
	c->drop = free;
	s3_call_begin(c);
}

static void s3_store_get(struct objstore *store, const char *key, uint64_t offset, uint64_t length, obj_get_cb *cb,
			 void *arg)
{
	get_begin(s3_store_of(store), key, &(struct s3_get){ .cb = cb, .arg = arg, .offset = offset, .length = length });
}

static void s3_store_get_suffix(struct objstore *store, const char *key, uint64_t length, obj_get_cb *cb, void *arg)
{
	must(length > 0);
	get_begin(s3_store_of(store), key, &(struct s3_get){ .cb = cb, .arg = arg, .suffix = true,
							     .length = length < GET_MAX ? length : GET_MAX });
}

/* Delete: a thousand keys a request, one request after the other */

struct s3_del {
	struct s3_store *s;
	obj_done_cb *cb;
	void *arg;
	char **keys;
	size_t n, at;                   /* before `at` they are gone */
	size_t n_asked;
};

static void del_next(struct s3_del *d);

static void del_free(void *op)
{
	struct s3_del *d = op;
	for (size_t i = 0; i < d->n; i++)
		free(d->keys[i]);
	free(d->keys);
	free(d);
}

static void del_end(struct s3_del *d, struct obj_result result)
{
	obj_done_cb *cb = d->cb;
	void *arg = d->arg;
	if (result.outcome == OUTCOME_NOT_APPLIED && d->at > 0)
		result.outcome = OUTCOME_UNKNOWN;
	del_free(d);
	cb(arg, result);
}

static void on_del_end(void *op, const struct s3_call *call, const struct s3_end *end)
{
	struct s3_del *d = op;
	struct obj_result result = result_of(end);
	char what[OBJ_KEY_MAX + 600];
	if (end->outcome == OUTCOME_OK && end->x != NULL && end->x->document.failed_key != NULL) {
		const struct s3_document *doc = &end->x->document;
		struct s3_verdict v = s3_verdict_of(strcmp(doc->failed_code, "AccessDenied") == 0 ? 403 : 500,
						    doc->failed_code);
		snprintf(what, sizeof(what), "s3://%s/%.*s: %s", d->s->config.bucket, OBJ_KEY_MAX + 400, doc->failed_key,
			 doc->failed_code);
		result = (struct obj_result){ .outcome = OUTCOME_UNKNOWN, .err = v.err, .what = what };
	}
	if (result.outcome == OUTCOME_NOT_APPLIED && call->maybe_applied)
		result.outcome = OUTCOME_UNKNOWN;
	if (result.outcome != OUTCOME_OK) {
		del_end(d, result);
		return;
	}
	d->at += d->n_asked;
	if (d->at < d->n)
		del_next(d);
	else
		del_end(d, result);
}

static struct buf del_text(const struct s3_del *d)
{
	struct buf b;
	buf_init(&b, XML_MAX);
	buf_put_str(&b, "<Delete xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\"><Quiet>true</Quiet>");
	/* Neither keys nor prefixes have characters that XML would want escaped. */
	for (size_t i = d->at; i < d->at + d->n_asked; i++)
		buf_printf(&b, "<Object><Key>%s%s</Key></Object>", d->s->config.prefix, d->keys[i]);
	buf_put_str(&b, "</Delete>");
	return b;
}

static void del_next(struct s3_del *d)
{
	struct s3_call *c = s3_call_new(d->s, "POST", NULL);
	c->op = d;
	c->on_end = on_del_end;
	c->drop = del_free;
	if (d->n == 0) {
		s3_call_end_later(c, OUTCOME_OK, 0);
		return;
	}
	d->n_asked = d->n - d->at < PAGE_MAX ? d->n - d->at : PAGE_MAX;
	s3_request_query(&c->request, "delete", "");
	s3_request_text(&c->request, del_text(d));
	c->request.md5 = true;
	c->request.answer_is_xml = true;
	c->request.answer_max = XML_MAX;
	c->root = "DeleteResult";
	c->may_retry = true;
	s3_call_begin(c);
}

static void s3_store_delete(struct objstore *store, const char *const *keys, size_t n, obj_done_cb *cb, void *arg)
{
	struct s3_del *d = must_calloc(1, sizeof(*d));
	*d = (struct s3_del){ .s = s3_store_of(store), .cb = cb, .arg = arg, .n = n };
	d->keys = must_calloc(n, sizeof(d->keys[0]));
	for (size_t i = 0; i < n; i++) {
		must(objstore_key_is_legal(keys[i]));
		d->keys[i] = must_strdup(keys[i]);
	}
	del_next(d);
}

/* List: pages until the limit is reached or there is no more */

struct s3_list {
	struct s3_store *s;
	obj_list_cb *cb;
	void *arg;
	char *prefix, *start_after, *token;     /* owned */
	size_t limit;
	struct obj_entry *entries;
	size_t n;
};

static void list_next(struct s3_list *l);

static void list_free(void *op)
{
	struct s3_list *l = op;
	for (size_t i = 0; i < l->n; i++)
		free(l->entries[i].key);
	free(l->entries);
	free(l->prefix);
	free(l->start_after);
	free(l->token);
	free(l);
}

/* Adds a page, without what is not ours. */
static void list_add(struct s3_list *l, const struct s3_document *d)
{
	l->entries = must_realloc(l->entries, (l->n + d->n_entries + 1) * sizeof(l->entries[0]));
	for (size_t i = 0; i < d->n_entries && l->n < l->limit; i++) {
		const char *key = s3_key_of(l->s, d->entries[i].key);
		if (key != NULL)
			l->entries[l->n++] = (struct obj_entry){ must_strdup(key), d->entries[i].size };
	}
}

static void on_list_end(void *op, const struct s3_call *call, const struct s3_end *end)
{
	struct s3_list *l = op;
	bool ok = end->outcome == OUTCOME_OK, more = false;
	if (ok) {
		const struct s3_document *d = &end->x->document;
		list_add(l, d);
		more = d->truncated && d->next != NULL;
		if (more && l->n < l->limit) {
			free(l->token);
			l->token = must_strdup(d->next);
			list_next(l);
			return;
		}
	}
	struct s3_store *s = l->s;
	s->n_refs++;
	l->cb(l->arg, result_of(end), ok ? l->entries : NULL, ok ? l->n : 0, more);
	list_free(l);
	s3_store_unref(s);
}

static void list_next(struct s3_list *l)
{
	char text[2 * OBJ_KEY_MAX + 16];
	struct s3_call *c = s3_call_new(l->s, "GET", NULL);
	size_t n = l->limit - l->n < PAGE_MAX ? l->limit - l->n : PAGE_MAX;
	if (l->token != NULL)
		s3_request_query(&c->request, "continuation-token", l->token);
	s3_request_query(&c->request, "list-type", "2");
	snprintf(text, sizeof(text), "%zu", n);
	s3_request_query(&c->request, "max-keys", text);
	snprintf(text, sizeof(text), "%s%s", l->s->config.prefix, l->prefix);
	s3_request_query(&c->request, "prefix", text);
	if (l->token == NULL && l->start_after != NULL) {
		snprintf(text, sizeof(text), "%s%s", l->s->config.prefix, l->start_after);
		s3_request_query(&c->request, "start-after", text);
	}
	c->request.answer_is_xml = true;
	c->request.answer_max = XML_MAX;
	c->root = "ListBucketResult";
	c->may_retry = true;
	c->op = l;
	c->on_end = on_list_end;
	c->drop = list_free;
	s3_call_begin(c);
}

static void s3_store_list(struct objstore *store, const char *prefix, const char *start_after, size_t limit,
			  obj_list_cb *cb, void *arg)
{
	must(limit > 0);
	struct s3_list *l = must_calloc(1, sizeof(*l));
	*l = (struct s3_list){ .s = s3_store_of(store), .cb = cb, .arg = arg, .limit = limit,
			       .prefix = must_strdup(prefix),
			       .start_after = start_after != NULL ? must_strdup(start_after) : NULL };
	list_next(l);
}

/* Life */

void s3_store_unref(struct s3_store *s)
{
	must(s->n_refs > 0);
	if (--s->n_refs > 0 || !s->freed)
		return;
	s3_credentials_done(&s->credentials);
	pthread_mutex_destroy(&s->lock);
	free(s->url);
	s->magic = 0;
	free(s);
}

static void s3_store_free(struct objstore *store)
{
	struct s3_store *s = s3_store_of(store);
	must(!s->freed);
	pthread_mutex_lock(&s->lock);
	s->stop = true;
	/* A task that is on its way ends the struct, else this does. */
	s->n_refs += s->posted ? 2 : 1;
	pthread_mutex_unlock(&s->lock);
	s3_transport_free(s->transport);
	s->freed = true;
	s3_calls_free(s);
	s3_uploads_free(s);
	s3_store_unref(s);
}

static const struct objstore_ops s3_store_ops = {
	.put = s3_store_put,
	.get = s3_store_get,
	.get_suffix = s3_store_get_suffix,
	.del = s3_store_delete,
	.list = s3_store_list,
	.upload_new = s3_upload_new,
	.upload_part = s3_upload_part,
	.upload_finish = s3_upload_finish,
	.upload_abort = s3_upload_abort,
	.list_uploads = s3_list_uploads,
	.abort_upload = s3_abort_upload,
	.free = s3_store_free,
};

static struct s3_store *store_new(struct env *env, const struct s3_config *config)
{
	struct s3_store *s = must_calloc(1, sizeof(*s));
	s->magic = S3_STORE_MAGIC;
	s->env = env;
	s->config = *config;
	must(asprintf(&s->url, "s3://%s/%s", config->bucket, config->prefix) >= 0);
	must(pthread_mutex_init(&s->lock, NULL) == 0);
	s->store = (struct objstore){ .ops = &s3_store_ops, .url = s->url, .max_inflight_default = MAX_INFLIGHT,
				      .batch_interval_ms_default = BATCH_INTERVAL_MS };
	s->posted_task = (struct env_task){ .run = s3_calls_on_posted, .arg = s };
	s->start_task = (struct env_task){ .run = s3_calls_on_start, .arg = s };
	s->end_task = (struct env_task){ .run = s3_calls_on_end, .arg = s };
	s->starting_tail = &s->starting;
	return s;
}

int s3_store_open(struct env *env, const struct objstore_url *url, struct objstore **ret_store, char *fault,
		  size_t fault_size)
{
	struct s3_config config;
	int r = s3_config_make(url, &config, fault, fault_size);
	if (r < 0)
		return r;
	struct s3_store *s = store_new(env, &config);
	r = s3_credentials_init(&s->credentials, fault, fault_size);
	if (r == 0) {
		r = s3_transport_open(&s->config, &s->credentials, s3_calls_on_done, s, &s->transport);
		if (r < 0) {
			snprintf(fault, fault_size, "cannot start threads for S3: %s", strerror(-r));
			s3_credentials_done(&s->credentials);
		}
	}
	if (r < 0) {
		pthread_mutex_destroy(&s->lock);
		free(s->url);
		free(s);
		return r;
	}
	*ret_store = &s->store;
	return 0;
}
