/* SPDX-License-Identifier: Apache-2.0
 *
 * What a topic may be called, and which partition a key goes to. Pure functions over bytes: a path
 * is judged as it came, never decoded or normalised, so two spellings are two topics.
 */
#include "common/topic_name.h"

#include "common/must.h"
#include "common/wire.h"

static bool path_byte_is_good(uint8_t c)
{
	return c > ' ' && c < 0x7f && c != '?' && c != '#';
}

/* The segment that begins at p: its bytes up to the next '/' or the end. */
static struct slice segment_at(const uint8_t *p, const uint8_t *end)
{
	const uint8_t *q = p;
	while (q < end && *q != '/')
		q++;
	return slice_of(p, (size_t)(q - p));
}

static bool path_has_dot_segment(struct slice path)
{
	const uint8_t *p = path.p, *end = path.p + path.n;
	while (p < end) {
		struct slice segment = segment_at(p + 1, end); /* behind its '/' */
		if (slice_is(segment, ".") || slice_is(segment, ".."))
			return true;
		p = segment.p + segment.n;
	}
	return false;
}

const char *topic_path_fault(struct slice path)
{
	if (path.n == 0 || path.p[0] != '/')
		return "a stream's path begins with '/'";
	if (path.n == 1)
		return "the root is no stream";
	if (path.n > TOPIC_PATH_MAX)
		return "a stream's path has at most 512 bytes";
	for (size_t i = 0; i < path.n; i++)
		if (!path_byte_is_good(path.p[i]))
			return "a stream's path has printable ASCII only, without space, '?' and '#'";
	if (path_has_dot_segment(path))
		return "a stream's path has no segment '.' or '..'";
	return NULL;
}

static bool alias_byte_is_good(uint8_t c)
{
	return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') ||
	       c == '.' || c == '_' || c == '-';
}

bool topic_alias_is_legal(struct slice alias)
{
	if (alias.n == 0 || alias.n > TOPIC_ALIAS_MAX)
		return false;
	for (size_t i = 0; i < alias.n; i++)
		if (!alias_byte_is_good(alias.p[i]))
			return false;
	return !slice_is(alias, ".") && !slice_is(alias, "..") && !slice_is(alias, "__consumer_offsets") &&
	       !slice_is(alias, "__transaction_state");
}

bool topic_path_is_reserved(struct slice path)
{
	static const char *const reserved[] = {
		"_sys", "_schemas", "_streams", "_groups", "_kafka", "__ds",
	};
	if (path.n == 0 || path.p[0] != '/')
		return false;
	struct slice first = segment_at(path.p + 1, path.p + path.n);
	for (size_t i = 0; i < sizeof(reserved) / sizeof(reserved[0]); i++)
		if (slice_is(first, reserved[i]))
			return true;
	return false;
}

size_t topic_alias_derive(struct slice path, char ret_alias[TOPIC_ALIAS_MAX + 1])
{
	char alias[TOPIC_ALIAS_MAX + 1];
	if (path.n < 2 || path.n - 1 > TOPIC_ALIAS_MAX || path.p[0] != '/' || topic_path_is_reserved(path))
		return 0;
	size_t n = path.n - 1;
	for (size_t i = 0; i < n; i++)
		alias[i] = path.p[i + 1] == '/' ? '.' : (char)path.p[i + 1];
	alias[n] = '\0';
	if (!topic_alias_is_legal(slice_of(alias, n)))
		return 0;
	memcpy(ret_alias, alias, n + 1);
	return n;
}

/* Austin Appleby's MurmurHash2 (public domain), 32 bits, with the seed that Kafka clients use. */
uint32_t murmur2(struct slice key)
{
	const uint32_t m = 0x5bd1e995;
	uint32_t h = 0x9747b28c ^ (uint32_t)key.n;
	size_t i = 0;
	for (; key.n - i >= 4; i += 4) {
		uint32_t k = get_le32(key.p + i) * m;
		h = h * m ^ (k ^ k >> 24) * m;
	}
	uint32_t tail = 0;
	for (size_t left = key.n - i; left > 0; left--)
		tail = tail << 8 | key.p[i + left - 1];
	if (key.n > i)
		h = (h ^ tail) * m;
	h = (h ^ h >> 13) * m;
	return h ^ h >> 15;
}

uint32_t topic_partition_of(struct slice key, uint32_t n_partitions)
{
	must(n_partitions > 0);
	return (murmur2(key) & 0x7fffffff) % n_partitions;
}
