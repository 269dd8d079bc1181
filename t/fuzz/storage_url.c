/* SPDX-License-Identifier: Apache-2.0
 *
 * Storage URLs: what parses stands in its bounds; what does not says why and leaves the result alone.
 */
#include "t/fuzz/fuzz.h"

#include <errno.h>
#include <stdlib.h>

#include "common/must.h"
#include "storaged/objstore/url.h"

static void check_good(const struct objstore_url *u)
{
	must(strcmp(u->scheme, "file") == 0 || strcmp(u->scheme, "mem") == 0 || strcmp(u->scheme, "s3") == 0);
	must(u->path[0] != 0 || strcmp(u->scheme, "mem") == 0);
	must(strchr(u->path, '?') == NULL);
	must(u->has_batch_interval ? u->batch_interval_ms <= 60000 : u->batch_interval_ms == UINT64_MAX);
	must(u->max_inflight <= 64);
	must(!u->has_max_bytes || u->max_bytes_in_batch >= 1024);
	must(!u->has_max_unflushed || u->max_unflushed_bytes >= 1 << 20);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *text = must_calloc(1, size + 1), fault[600] = "";
	memcpy(text, data, size);
	struct objstore_url u = { .bucket_id = 77, .scheme = "none" };
	int r = objstore_url_parse(text, &u, fault, sizeof(fault));
	if (r == 0) {
		check_good(&u);
	} else {
		must(r == -EINVAL && fault[0] != 0);
		must(u.bucket_id == 77 && strcmp(u.scheme, "none") == 0);
	}
	free(text);
	return 0;
}
