/* SPDX-License-Identifier: Apache-2.0
 *
 * The worker's inbox: which ranges of the shared memory stand for payloads of open calls. Ranges are large (64 KiB and
 * up) and bounded by the credit, so they are few: a sorted array and first fit.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "common/topics_impl.h"

#define INBOX_ALIGN 4096u

int topics_inbox_new(int fd, size_t size, struct topics_inbox **ret_inbox)
{
	struct stat st;
	if (fstat(fd, &st) < 0 || size % INBOX_ALIGN != 0 || st.st_size < (off_t)IPC_NOTICE_SIZE ||
	    (uint64_t)st.st_size - IPC_NOTICE_SIZE < size)
		return -EPROTO;
	void *base = mmap(NULL, size + IPC_NOTICE_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (base == MAP_FAILED)
		return -errno;
	struct topics_inbox *i = must_calloc(1, sizeof(*i));
	i->base = base;
	i->size = size;
	i->current = true;
	*ret_inbox = i;
	return 0;
}

int topics_inbox_take(struct topics_inbox *i, size_t length, uint64_t *ret_offset)
{
	uint64_t need = (length + INBOX_ALIGN - 1) & ~(uint64_t)(INBOX_ALIGN - 1);
	uint64_t at = 0;
	size_t k = 0;
	while (k < i->n && i->range[k].offset - at < need) {
		at = i->range[k].offset + i->range[k].length;
		k++;
	}
	if (at > i->size || need > i->size - at)
		return -ENOSPC;
	if (i->n == i->capacity) {
		i->capacity = i->capacity > 0 ? 2 * i->capacity : 16;
		i->range = must_realloc(i->range, i->capacity * sizeof(i->range[0]));
	}
	memmove(&i->range[k + 1], &i->range[k], (i->n - k) * sizeof(i->range[0]));
	i->range[k] = (struct topics_range){ .offset = at, .length = need };
	i->n++;
	*ret_offset = at;
	return 0;
}

uint64_t topics_inbox_cuts(const struct topics_inbox *i)
{
	const struct ipc_notice *n = (const struct ipc_notice *)(i->base + i->size);
	return __atomic_load_n(&n->cuts, __ATOMIC_ACQUIRE);
}

static void inbox_free_if_unused(struct topics_inbox *i)
{
	if (i->current || i->n > 0)
		return;
	munmap(i->base, i->size + IPC_NOTICE_SIZE);
	free(i->range);
	free(i);
}

void topics_inbox_give(struct topics_inbox *i, uint64_t offset)
{
	size_t k = 0;
	while (k < i->n && i->range[k].offset != offset)
		k++;
	must(k < i->n);
	i->n--;
	memmove(&i->range[k], &i->range[k + 1], (i->n - k) * sizeof(i->range[0]));
	inbox_free_if_unused(i);
}

void topics_inbox_retire(struct topics_inbox *i)
{
	if (i == NULL)
		return;
	i->current = false;
	inbox_free_if_unused(i);
}
