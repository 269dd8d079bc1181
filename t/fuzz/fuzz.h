/* SPDX-License-Identifier: Apache-2.0
 *
 * What a fuzz target is: one function that takes any bytes and aborts (must()) when a property of the
 * code under test does not hold. It keeps nothing between two calls.
 */
#ifndef T_FUZZ_FUZZ_H
#define T_FUZZ_FUZZ_H

#include <stddef.h>
#include <stdint.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#endif
