/* SPDX-License-Identifier: Apache-2.0
 *
 * sd_notify(3) without its library: one datagram to $NOTIFY_SOCKET.
 */
#ifndef SUPERVISOR_NOTIFY_H
#define SUPERVISOR_NOTIFY_H

/* Takes the socket's name out of the environment; call once, first. */
void notify_open(void);
/* "READY=1", "STATUS=...", lines of it; nothing happens when nobody listens. */
void notify(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

#endif
