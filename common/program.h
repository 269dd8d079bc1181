/* SPDX-License-Identifier: Apache-2.0
 *
 * Where the other programs of PicoMQ are, seen from the one that runs.
 */
#ifndef COMMON_PROGRAM_H
#define COMMON_PROGRAM_H

#include <stddef.h>

/*
 * The path of supervisor, storaged, worker-http, ...: in the build tree this program was built in, else in the
 * libexec directory beside its bin directory, else in PKGLIBEXECDIR. The variable PICO_LIBEXEC, which
 * only tests set, names a directory that is looked at first. 0 or -ENOENT, ret_path then says where it should be.
 */
int program_find(const char *name, char *ret_path, size_t size);

#endif
