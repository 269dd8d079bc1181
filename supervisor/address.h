/* SPDX-License-Identifier: Apache-2.0
 *
 * The addresses that options name: host:port, [v6]:port, :port, name:port.
 */
#ifndef SUPERVISOR_ADDRESS_H
#define SUPERVISOR_ADDRESS_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>

#define ADDRESS_EACH_MAX 8      /* socket addresses one text may stand for */
#define ADDRESS_TEXT_MAX 64     /* "[v6]:port" and a 0 byte */

struct address {
	union {
		struct sockaddr any;
		struct sockaddr_in v4;
		struct sockaddr_in6 v6;
	};
	socklen_t len;
};

/*
 * All socket addresses that `text` stands for: both families for ":port" and localhost, every address of
 * a name (resolved now). 0, or -EINVAL with a sentence in fault.
 */
int address_parse(const char *text, struct address ret[static ADDRESS_EACH_MAX], unsigned *ret_n, char *fault,
		  size_t fault_size);

void address_print(const struct address *a, char ret_text[static ADDRESS_TEXT_MAX]);
bool address_is_loopback(const struct address *a);
bool address_is_wildcard(const struct address *a);
unsigned address_port(const struct address *a);
void address_set_port(struct address *a, unsigned port);

#endif
