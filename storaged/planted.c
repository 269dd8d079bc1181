/* SPDX-License-Identifier: Apache-2.0
 *
 * The switch of storaged/planted.h; empty in a normal build.
 */
#include "storaged/planted.h"

#ifdef PICO_PLANTED_BUGS
int planted_bug = PLANTED_NONE;
#endif
