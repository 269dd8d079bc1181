/* SPDX-License-Identifier: Apache-2.0 */
#include "worker-http/create_fields.h"

#include "worker-http/query.h"
#include "worker-http/rfc3339.h"

#define CONTENT_TYPE_MAX 255
#define LONG_AGO_MS 1           /* 0 would be no expiry */

char *create_content_type(struct request *r, const char *absent)
{
	static char type[CONTENT_TYPE_MAX + 1];
	struct slice s = request_field(r, "content-type");
	if (s.n == 0)
		s = slice_str(absent);
	bool good = s.n <= CONTENT_TYPE_MAX;
	for (size_t i = 0; good && i < s.n; i++)
		good = s.p[i] < 0x80;
	if (!good) {
		answer_bad_request(r, "Content-Type must be at most %d ASCII characters", CONTENT_TYPE_MAX);
		return NULL;
	}
	memcpy(type, s.p, s.n);
	type[s.n] = '\0';
	return type;
}

bool create_take_expiry(struct request *r, const struct expiry_names *names, Ipc__CreateRequest *m)
{
	struct slice ttl = request_field(r, names->ttl_lower), at = request_field(r, names->at_lower);
	if (ttl.n > 0 && at.n > 0) {
		answer_bad_request(r, "%s and %s exclude each other", names->ttl, names->at);
		return false;
	}
	if (ttl.n > 0 && (!strict_u64(ttl, &m->ttl_seconds) || m->ttl_seconds > INT64_MAX / 1000)) {
		answer_bad_request(r, "%s must be whole seconds, without sign or leading zeros", names->ttl);
		return false;
	}
	if (at.n > 0 && (!rfc3339_parse(at, &m->expires_at_ms) || m->expires_at_ms < 0)) {
		answer_bad_request(r, "%s must be an instant as in 2030-01-31T12:00:00Z", names->at);
		return false;
	}
	if ((ttl.n > 0 && m->ttl_seconds == 0) || (at.n > 0 && m->expires_at_ms == 0))
		m->expires_at_ms = LONG_AGO_MS; /* over as soon as it is there */
	return true;
}

void create_put_expiry(struct request *r, const struct expiry_names *names, const Ipc__Topic *topic)
{
	char text[RFC3339_TEXT];
	if (topic->ttl_seconds != 0) {
		answer_field_u64(r, names->ttl, topic->ttl_seconds);
	} else if (topic->expires_at_ms > 0) {
		rfc3339_print(topic->expires_at_ms, text);
		answer_field(r, names->at, text);
	}
}
