/* SPDX-License-Identifier: Apache-2.0
 *
 * The numbers of bounds.h.
 */
#include "storaged/bounds.h"

#define X(name, value, least, text) .name = (value),
#define VALUES { STORAGED_BOUNDS(X) }

const struct bounds bounds_default = VALUES;
struct bounds bounds = VALUES;
