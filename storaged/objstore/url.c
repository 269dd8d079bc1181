/* SPDX-License-Identifier: Apache-2.0
 *
 * Storage URLs, `[ID@]SCHEME://PATH[?name=value&...]`, and the door to the stores. A fault is a sentence that
 * names what is wrong and what would be right; nothing unknown is ignored.
 */
#include "storaged/objstore/url.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "storaged/objstore/file.h"
#include "storaged/objstore/mem.h"
#include "storaged/objstore/s3.h"

#define BUCKET_ID_DEFAULT (-2)

struct url_fault {
	char *text;
	size_t size;
};

#define FAULT(f, ...) (snprintf((f)->text, (f)->size, __VA_ARGS__), -EINVAL)

/* Digits with an optional K, M or G where `sizes`. */
static int number_parse(const char *text, bool sizes, uint64_t *ret)
{
	uint64_t v = 0;
	const char *p = text;
	for (; *p >= '0' && *p <= '9'; p++) {
		if (__builtin_mul_overflow(v, 10, &v) || __builtin_add_overflow(v, (uint64_t)(*p - '0'), &v))
			return -EINVAL;
	}
	if (p == text)
		return -EINVAL;
	unsigned shift = 0;
	if (sizes && *p != 0)
		shift = *p == 'K' ? 10 : *p == 'M' ? 20 : *p == 'G' ? 30 : 0;
	if (*p != 0 && (shift == 0 || p[1] != 0 || v > UINT64_MAX >> shift))
		return -EINVAL;
	*ret = v << shift;
	return 0;
}

static int parameter_number(struct url_fault *f, const char *name, const char *value, bool size, uint64_t min,
			    uint64_t max, uint64_t *ret)
{
	uint64_t v;
	if (number_parse(value, size, &v) < 0 || v < min || v > max)
		return FAULT(f, "storage URL: %s=%s: give a number from %llu to %llu", name, value,
			     (unsigned long long)min, (unsigned long long)max);
	*ret = v;
	return 0;
}

static int parameter_text(struct url_fault *f, const char *name, const char *value, char *to, size_t size)
{
	if (value[0] == 0 || strlen(value) >= size)
		return FAULT(f, "storage URL: %s has 1 to %zu bytes", name, size - 1);
	strcpy(to, value);
	return 0;
}

static int parameter_set_s3(struct objstore_url *u, struct url_fault *f, const char *name, const char *value)
{
	uint64_t ms;
	int r;
	if (strcmp(name, "region") == 0)
		return parameter_text(f, name, value, u->region, sizeof(u->region));
	if (strcmp(name, "endpoint") == 0)
		return parameter_text(f, name, value, u->endpoint, sizeof(u->endpoint));
	if (strcmp(name, "requestTimeout") == 0) {
		r = parameter_number(f, name, value, false, 100, 600000, &ms);
		if (r == 0)
			u->request_timeout_ms = (uint32_t)ms;
		return r;
	}
	if (strcmp(name, "pathStyle") != 0)
		return FAULT(f, "storage URL: unknown parameter %s; s3:// knows region, endpoint, pathStyle, requestTimeout "
			     "and the WAL parameters", name);
	if (strcmp(value, "true") != 0 && strcmp(value, "false") != 0)
		return FAULT(f, "storage URL: pathStyle=%s: give true or false", value);
	u->path_style = strcmp(value, "true") == 0;
	return 0;
}

static int parameter_set(struct objstore_url *u, struct url_fault *f, const char *name, const char *value)
{
	uint64_t inflight;
	int r;
	if (strcmp(name, "batchInterval") == 0) {
		r = parameter_number(f, name, value, false, 0, 60000, &u->batch_interval_ms);
		u->has_batch_interval = r == 0;
	} else if (strcmp(name, "maxBytesInBatch") == 0) {
		r = parameter_number(f, name, value, true, 1024, 1073741824, &u->max_bytes_in_batch);
		u->has_max_bytes = r == 0;
	} else if (strcmp(name, "maxUnflushedBytes") == 0) {
		r = parameter_number(f, name, value, true, 1048576, 1099511627776, &u->max_unflushed_bytes);
		u->has_max_unflushed = r == 0;
	} else if (strcmp(name, "maxInflightUploadCount") == 0) {
		r = parameter_number(f, name, value, false, 1, 64, &inflight);
		if (r == 0)
			u->max_inflight = (uint32_t)inflight;
	} else if (strcmp(u->scheme, "s3") == 0) {
		r = parameter_set_s3(u, f, name, value);
	} else {
		r = FAULT(f, "storage URL: unknown parameter %s; known are batchInterval, maxBytesInBatch, "
			  "maxUnflushedBytes, maxInflightUploadCount", name);
	}
	return r;
}

static int parameters_parse(struct objstore_url *u, struct url_fault *f, char *query)
{
	char *rest = NULL;
	for (char *pair = strtok_r(query, "&", &rest); pair != NULL; pair = strtok_r(NULL, "&", &rest)) {
		char *value = strchr(pair, '=');
		if (value == NULL)
			return FAULT(f, "storage URL: parameter %s has no value: write %s=VALUE", pair, pair);
		*value++ = 0;
		int r = parameter_set(u, f, pair, value);
		if (r < 0)
			return r;
	}
	return 0;
}

static int bucket_id_parse(struct objstore_url *u, struct url_fault *f, const char *text)
{
	uint64_t v;
	bool minus = text[0] == '-';
	if (number_parse(text + minus, false, &v) < 0 || v > (minus ? 32768u : 32767u))
		return FAULT(f, "storage URL: bucket id '%s': give a number from -32768 to 32767", text);
	u->bucket_id = (int16_t)(minus ? -(int64_t)v : (int64_t)v);
	return 0;
}

static int scheme_parse(struct objstore_url *u, struct url_fault *f, const char *scheme)
{
	if (strcmp(scheme, "file") != 0 && strcmp(scheme, "mem") != 0 && strcmp(scheme, "s3") != 0)
		return FAULT(f, "storage URL: unknown scheme '%s': use file, mem or s3", scheme);
	snprintf(u->scheme, sizeof(u->scheme), "%s", scheme);
	return 0;
}

/* text is cut up. */
static int url_parse(struct objstore_url *u, struct url_fault *f, char *text)
{
	char *path = strstr(text, "://");
	if (path == NULL)
		return FAULT(f, "storage URL '%s' has no '://': write ID@file://DIR, ID@mem://NAME or "
			     "ID@s3://BUCKET", text);
	*path = 0;
	path += 3;
	char *query = strchr(path, '?');
	if (query != NULL)
		*query++ = 0;
	char *scheme = text, *at = strchr(text, '@');
	int r = 0;
	if (at != NULL) {
		*at = 0;
		scheme = at + 1;
		r = bucket_id_parse(u, f, text);
	}
	if (r == 0)
		r = scheme_parse(u, f, scheme);
	if (r == 0 && path[0] == 0 && strcmp(u->scheme, "mem") != 0)
		r = FAULT(f, "storage URL: %s:// needs a %s behind it", scheme,
			  strcmp(u->scheme, "file") == 0 ? "directory" : "bucket");
	if (r == 0)
		snprintf(u->path, sizeof(u->path), "%s", path);
	if (r == 0 && query != NULL)
		r = parameters_parse(u, f, query);
	return r;
}

int objstore_url_parse(const char *url, struct objstore_url *ret_url, char *fault, size_t fault_size)
{
	struct url_fault f = { fault, fault_size };
	struct objstore_url u = { .bucket_id = BUCKET_ID_DEFAULT, .batch_interval_ms = UINT64_MAX, .path_style = -1 };
	char text[4096];
	if (strlen(url) >= sizeof(text))
		return FAULT(&f, "storage URL: longer than %zu bytes", sizeof(text) - 1);
	memcpy(text, url, strlen(url) + 1);
	int r = url_parse(&u, &f, text);
	if (r == 0)
		*ret_url = u;
	return r;
}

bool objstore_url_same_place(const struct objstore_url *a, const struct objstore_url *b)
{
	return strcmp(a->scheme, b->scheme) == 0 && strcmp(a->path, b->path) == 0 &&
	       strcmp(a->endpoint, b->endpoint) == 0 && strcmp(a->region, b->region) == 0;
}

bool objstore_key_is_legal(const char *key)
{
	for (const char *p = key; *p != 0; p++) {
		bool first = p == key || p[-1] == '/';
		bool word = (*p >= '0' && *p <= '9') || (*p >= 'a' && *p <= 'z') || *p == '_' || *p == '-';
		if (!word && (first || (*p != '.' && *p != '/')))
			return false;
	}
	return key[0] != 0 && strlen(key) < OBJ_KEY_MAX && key[strlen(key) - 1] != '/';
}

int objstore_open(struct env *env, const struct objstore_url *url, const uint8_t put_id[16],
		  struct objstore **ret_store, char *fault, size_t fault_size)
{
	if (strcmp(url->scheme, "file") == 0)
		return file_store_open(env, url->path, put_id, ret_store, fault, fault_size);
	if (strcmp(url->scheme, "mem") == 0) {
		*ret_store = mem_store_open(env, url->path);
		return 0;
	}
	return s3_store_open(env, url, ret_store, fault, fault_size);
}
