/* SPDX-License-Identifier: Apache-2.0
 *
 * The real environment on a libuv loop.
 */
#ifndef COMMON_ENV_UV_H
#define COMMON_ENV_UV_H

#include <uv.h>

#include "common/env.h"

/* Owns its uv handles on `loop` (borrowed); they keep uv_run() going until env_uv_free(). 0 or a negative errno. */
int env_uv_new(uv_loop_t *loop, struct env **ret_env);

/*
 * Closes its handles; run the loop once more afterwards. What is still deferred, posted or timed does not
 * run any more. No job is out and no other thread posts when this is called.
 */
void env_uv_free(struct env *env);

uv_loop_t *env_uv_loop(struct env *env);

#endif
