/* SPDX-License-Identifier: Apache-2.0
 *
 * CRC-32C (Castagnoli, RFC 3720 appendix B.4): isa-l where it is, SSE4.2 or a table elsewhere.
 */
#ifndef COMMON_CRC32C_H
#define COMMON_CRC32C_H

#include <stddef.h>
#include <stdint.h>

uint32_t crc32c(const void *p, size_t n);

/* crc32c(a ++ b) == crc32c_extend(crc32c(a), b). */
uint32_t crc32c_extend(uint32_t crc, const void *p, size_t n);

/* The portable table version, for tests to compare with. */
uint32_t crc32c_table(uint32_t crc, const void *p, size_t n);

#endif
