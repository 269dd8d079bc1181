/* SPDX-License-Identifier: Apache-2.0
 *
 * References of workers that are no longer connected.
 */
#ifndef STORAGED_PEER_GRAVES_H
#define STORAGED_PEER_GRAVES_H

#include <stdbool.h>

struct peer;
struct peers;

/* Its references stay until its process is dead. False: there are none, or nobody would tell. */
bool peer_bury(struct peer *peer);
void peer_graves_free(struct peers *p);

#endif
