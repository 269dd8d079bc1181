/* SPDX-License-Identifier: Apache-2.0
 *
 * The object store in memory, for tests: its content lives as long as a store of that name is open.
 */
#ifndef STORAGED_OBJSTORE_MEM_H
#define STORAGED_OBJSTORE_MEM_H

#include "storaged/objstore/objstore.h"

/* Never fails. Stores of one name share their content. */
struct objstore *mem_store_open(struct env *env, const char *name);

#endif
