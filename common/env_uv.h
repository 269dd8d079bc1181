/* SPDX-License-Identifier: Apache-2.0
 *
 * The real environment on a libuv loop.
 */
#ifndef COMMON_ENV_UV_H
#define COMMON_ENV_UV_H

#include <uv.h>

#include "common/env.h"

/* Owns its uv handles on `loop` (borrowed). 0 or a negative errno. */
int env_uv_new(uv_loop_t *loop, struct env **ret_env);

/* Closes its handles; run the loop once more afterwards. */
void env_uv_free(struct env *env);

uv_loop_t *env_uv_loop(struct env *env);

#endif
