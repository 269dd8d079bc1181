/* SPDX-License-Identifier: Apache-2.0
 *
 * A numeric address is taken as it stands; "" and localhost are both families; anything else asks the
 * resolver once.
 */
#include "supervisor/address.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct address v4_address(in_addr_t host, unsigned port)
{
	return (struct address){ .v4 = { .sin_family = AF_INET, .sin_port = htons((uint16_t)port),
					 .sin_addr.s_addr = host }, .len = sizeof(struct sockaddr_in) };
}

static struct address v6_address(const struct in6_addr *host, unsigned port)
{
	return (struct address){ .v6 = { .sin6_family = AF_INET6, .sin6_port = htons((uint16_t)port),
					 .sin6_addr = *host }, .len = sizeof(struct sockaddr_in6) };
}

/* Splits at the last colon; [v6] loses its brackets. */
static int split(const char *text, char ret_host[static 256], unsigned *ret_port)
{
	const char *colon = strrchr(text, ':');
	if (colon == NULL)
		return -EINVAL;
	char *end;
	unsigned long port = strtoul(colon + 1, &end, 10);
	if (colon[1] < '0' || colon[1] > '9' || *end != '\0' || port > 65535)
		return -EINVAL;
	size_t n = (size_t)(colon - text);
	if (n > 0 && text[0] == '[') {
		if (n < 3 || text[n - 1] != ']')
			return -EINVAL;
		text++;
		n -= 2;
	} else if (memchr(text, ':', n) != NULL) {
		return -EINVAL;
	}
	if (n >= 256)
		return -EINVAL;
	memcpy(ret_host, text, n);
	ret_host[n] = '\0';
	*ret_port = (unsigned)port;
	return 0;
}

static bool is_known(const struct address *list, unsigned n, const struct address *a)
{
	for (unsigned i = 0; i < n; i++) {
		if (list[i].len == a->len && memcmp(&list[i].any, &a->any, a->len) == 0)
			return true;
	}
	return false;
}

static int resolve(const char *host, unsigned port, struct address *ret, unsigned *ret_n)
{
	struct addrinfo hints = { .ai_socktype = SOCK_STREAM }, *list;
	int err = getaddrinfo(host, NULL, &hints, &list);
	if (err != 0)
		return err;
	for (struct addrinfo *i = list; i != NULL && *ret_n < ADDRESS_EACH_MAX; i = i->ai_next) {
		struct address a = { .len = 0 };
		if (i->ai_family != AF_INET && i->ai_family != AF_INET6)
			continue;
		memcpy(&a.any, i->ai_addr, i->ai_addrlen);
		a.len = i->ai_addrlen;
		address_set_port(&a, port);
		if (!is_known(ret, *ret_n, &a))
			ret[(*ret_n)++] = a;
	}
	freeaddrinfo(list);
	return 0;
}

int address_parse(const char *text, struct address ret[static ADDRESS_EACH_MAX], unsigned *ret_n, char *fault,
		  size_t fault_size)
{
	char host[256];
	unsigned port;
	struct in_addr v4;
	struct in6_addr v6;
	*ret_n = 0;
	if (split(text, host, &port) < 0) {
		snprintf(fault, fault_size, "'%.100s' is no address; give host:port, [v6]:port or :port", text);
		return -EINVAL;
	}
	if (host[0] == '\0') {
		ret[(*ret_n)++] = v6_address(&in6addr_any, port);
		ret[(*ret_n)++] = v4_address(htonl(INADDR_ANY), port);
	} else if (strcmp(host, "localhost") == 0) {
		ret[(*ret_n)++] = v4_address(htonl(INADDR_LOOPBACK), port);
		ret[(*ret_n)++] = v6_address(&in6addr_loopback, port);
	} else if (inet_pton(AF_INET, host, &v4) == 1) {
		ret[(*ret_n)++] = v4_address(v4.s_addr, port);
	} else if (inet_pton(AF_INET6, host, &v6) == 1) {
		ret[(*ret_n)++] = v6_address(&v6, port);
	} else {
		int err = resolve(host, port, ret, ret_n);
		if (err != 0 || *ret_n == 0) {
			snprintf(fault, fault_size, "cannot resolve '%.100s': %s", host,
				 err != 0 ? gai_strerror(err) : "no address");
			return -EINVAL;
		}
	}
	return 0;
}

void address_print(const struct address *a, char ret_text[static ADDRESS_TEXT_MAX])
{
	char host[INET6_ADDRSTRLEN] = "?";
	bool v6 = a->any.sa_family == AF_INET6;
	inet_ntop(a->any.sa_family, v6 ? (const void *)&a->v6.sin6_addr : (const void *)&a->v4.sin_addr, host,
		  sizeof(host));
	snprintf(ret_text, ADDRESS_TEXT_MAX, v6 ? "[%s]:%u" : "%s:%u", host, address_port(a));
}

bool address_is_loopback(const struct address *a)
{
	if (a->any.sa_family == AF_INET6)
		return IN6_IS_ADDR_LOOPBACK(&a->v6.sin6_addr) ||
		       (IN6_IS_ADDR_V4MAPPED(&a->v6.sin6_addr) && a->v6.sin6_addr.s6_addr[12] == 127);
	return ntohl(a->v4.sin_addr.s_addr) >> 24 == 127;
}

bool address_is_wildcard(const struct address *a)
{
	if (a->any.sa_family == AF_INET6)
		return IN6_IS_ADDR_UNSPECIFIED(&a->v6.sin6_addr);
	return a->v4.sin_addr.s_addr == htonl(INADDR_ANY);
}

unsigned address_port(const struct address *a)
{
	return ntohs(a->any.sa_family == AF_INET6 ? a->v6.sin6_port : a->v4.sin_port);
}

void address_set_port(struct address *a, unsigned port)
{
	if (a->any.sa_family == AF_INET6)
		a->v6.sin6_port = htons((uint16_t)port);
	else
		a->v4.sin_port = htons((uint16_t)port);
}
