/* SPDX-License-Identifier: Apache-2.0
 *
 * Kafka messages between bytes and C structs: one interpreter for all of them. What a message looks like
 * stands in proto/kafka/NAME.kmsg; proto/kafka/gen.py makes of it a struct and the tables below
 * (common/kmsg_gen.h). Nothing here knows an API.
 *
 * In C a field has the protocol's name in snake case and
 *
 *   string, bytes   struct slice; p == NULL is null
 *   [T]             T *name with uint32_t n_name beside it; a NULL pointer is null where null is allowed
 *   T of fields     the struct itself, or a pointer to it where it may be null
 *   records         struct kmsg_records
 *
 * Null in a field or version that has no null is written as empty. A field that the version does not have
 * holds its default after decoding and is passed over when encoding.
 */
#ifndef COMMON_KMSG_H
#define COMMON_KMSG_H

#include "common/buf.h"
#include "common/region.h"
#include "common/slice.h"

struct kmsg_uuid { uint8_t bytes[16]; };

/* Decoding leaves the bytes. For encoding, n_external > 0 says that so many bytes come from elsewhere. */
struct kmsg_records {
	struct slice bytes;
	uint32_t n_external;
	void *external;                     /* the caller's, found again through struct kmsg_gap */
};

enum kmsg_type {
	KMSG_BOOL, KMSG_INT8, KMSG_INT16, KMSG_INT32, KMSG_INT64, KMSG_UINT16, KMSG_UINT32, KMSG_FLOAT64,
	KMSG_UUID, KMSG_STRING, KMSG_STRING16, KMSG_BYTES, KMSG_RECORDS, KMSG_STRUCT,
};

struct kmsg_field {
	const char *name;
	const struct kmsg_struct *of;       /* of KMSG_STRUCT */
	uint16_t at;                        /* offset of the member */
	uint16_t at_n;                      /* of an array's count */
	uint8_t type;                       /* enum kmsg_type; of an array its elements' */
	bool is_array;
	bool is_pointer;                    /* a struct that may be null */
	int8_t low, high;                   /* versions that have it */
	int8_t nullable_from;               /* 127: never null */
	uint16_t tag;
};

struct kmsg_struct {
	const char *name;
	const struct kmsg_field *fields;    /* n_plain in order, then n_tagged by tag */
	const void *defaults;               /* one of these structs */
	const uint8_t *least;               /* by version: the fewest bytes on the wire, at least 1 */
	uint32_t size;
	uint16_t n_plain;
	uint16_t n_tagged;
};

struct kmsg_desc {
	const char *name;
	const struct kmsg_struct *of;
	int16_t api_key;                    /* -1: no request or response of an API */
	int8_t low, high;                   /* versions that the tables know */
	int8_t flexible_from;               /* 127: never */
};

/* A message in one of its versions. */
struct kmsg_form {
	const struct kmsg_desc *desc;
	int16_t version;
};

static inline bool kmsg_knows(const struct kmsg_desc *desc, int16_t version)
{
	return version >= desc->low && version <= desc->high;
}

/*
 * Decodes all of `bytes` into *ret_value, the struct of form.desc. Its slices point into `bytes`, its
 * arrays into the region. -EBADMSG: not a message of this form, or bytes are left; -ENOBUFS: the region's
 * bound. After a failure *ret_value is worthless. The version must be one that the tables know.
 */
int kmsg_decode(struct kmsg_form form, struct slice bytes, struct region *region, void *ret_value);

/* The same from the front of *bytes, which then begins behind the message; unchanged on failure. */
int kmsg_decode_prefix(struct kmsg_form form, struct slice *bytes, struct region *region, void *ret_value);

/* Where external records belong: `n` bytes before what stands at `at`, counted from the start of the encoding. */
struct kmsg_gap {
	size_t at;
	const struct kmsg_records *records;
};

/* Gaps in order. The caller gives room for as many as it has records with n_external > 0. */
struct kmsg_gaps {
	struct kmsg_gap *gaps;
	size_t n, max;
	uint64_t bytes;                     /* sum of n_external */
};

/*
 * Appends the encoding to `out`. Of external records only the length is written, and a gap is added;
 * gaps may be NULL when there are none. -ENOBUFS: out's bound; -EMSGSIZE: a string over 32,767 bytes or
 * another length that the protocol cannot say. After a failure `out` ends where it did before.
 */
int kmsg_encode(struct kmsg_form form, const void *value, struct buf *out, struct kmsg_gaps *gaps);

/* n structs with their defaults, in the region; NULL when there is no room. */
void *kmsg_new(struct region *region, const struct kmsg_struct *of, size_t n);
#define KMSG_NEW(region, name, n) ((struct kmsg_##name *)kmsg_new(region, &kmsg_##name##_struct, n))

/* Whether all fields are equal; null and empty differ where null is allowed. External records: by length. */
bool kmsg_equal(const struct kmsg_struct *of, const void *a, const void *b);
/* The same for one field; a and b are the structs that hold it. */
bool kmsg_field_equal(const struct kmsg_field *f, const void *a, const void *b);

/* Bytes that one element of the field's type takes in C. */
size_t kmsg_element_size(const struct kmsg_field *f);

/*
 * One line for logs and tests, of the fields that the version has: `{acks=-1 topic_data=[{name="x" ...}]}`.
 * Bytes and records appear as their length. What is longer than out's bound ends there.
 */
void kmsg_print(struct kmsg_form form, const void *value, struct buf *out);

/* What a pointer to nothing, that is not null, points to. */
extern const uint8_t kmsg_nothing[8];

#endif
