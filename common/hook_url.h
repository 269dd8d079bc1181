/* SPDX-License-Identifier: Apache-2.0
 *
 * Where a webhook may go: a subscriber names a URL, and this node must not be made to call its own network for him.
 */
#ifndef COMMON_HOOK_URL_H
#define COMMON_HOOK_URL_H

#include <stdbool.h>
#include <sys/socket.h>

/*
 * What is wrong with a URL as text, or NULL. https to names and public addresses; with `loopback` also http and https to
 * localhost, 127.0.0.0/8 and ::1. A name may still lead anywhere: see the next one.
 */
const char *hook_url_fault(const char *url, bool loopback);

/* May that address be connected to? Asked of what is really connected to, after every lookup. */
bool hook_address_is_allowed(const struct sockaddr *a, bool loopback);

#endif
