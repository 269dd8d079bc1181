/* SPDX-License-Identifier: Apache-2.0
 *
 * Not public: RFC 6890's private, shared, link-local, documentation, benchmark, multicast and reserved blocks of IPv4; of
 * IPv6 what is not global unicast (2000::/3), and there what holds an IPv4 address or documentation.
 */
#include "common/hook_url.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdint.h>
#include <string.h>
#include <strings.h>

#define HOST_MAX 256

static bool v4_is_loopback(uint32_t a)
{
	return a >> 24 == 127;
}

static bool v4_is_public(uint32_t a)
{
	static const struct { uint32_t net; unsigned bits; } closed[] = {
		{ 0x00000000, 8 }, { 0x0a000000, 8 }, { 0x64400000, 10 }, { 0x7f000000, 8 }, { 0xa9fe0000, 16 }, { 0xac100000, 12 },
		{ 0xc0000000, 24 }, { 0xc0000200, 24 }, { 0xc0a80000, 16 }, { 0xc6120000, 15 }, { 0xc6336400, 24 }, { 0xcb007100, 24 },
		{ 0xe0000000, 3 },
	};
	for (size_t i = 0; i < sizeof(closed) / sizeof(closed[0]); i++)
		if (a >> (32 - closed[i].bits) == closed[i].net >> (32 - closed[i].bits))
			return false;
	return true;
}

static bool v6_is_public(const uint8_t a[16])
{
	static const uint8_t documentation[] = { 0x20, 0x01, 0x0d, 0xb8 }, teredo[] = { 0x20, 0x01, 0x00, 0x00 };
	if ((a[0] & 0xe0) != 0x20)
		return false;
	return memcmp(a, documentation, 4) != 0 && memcmp(a, teredo, 4) != 0 && !(a[0] == 0x20 && a[1] == 0x02) /* 6to4 */;
}

bool hook_address_is_allowed(const struct sockaddr *a, bool loopback)
{
	if (a->sa_family == AF_INET) {
		uint32_t v4 = ntohl(((const struct sockaddr_in *)a)->sin_addr.s_addr);
		return v4_is_loopback(v4) ? loopback : v4_is_public(v4);
	}
	if (a->sa_family != AF_INET6)
		return false;
	const struct in6_addr *v6 = &((const struct sockaddr_in6 *)a)->sin6_addr;
	if (IN6_IS_ADDR_LOOPBACK(v6))
		return loopback;
	if (IN6_IS_ADDR_V4MAPPED(v6)) {
		uint32_t v4 = (uint32_t)v6->s6_addr[12] << 24 | (uint32_t)v6->s6_addr[13] << 16 | (uint32_t)v6->s6_addr[14] << 8 |
			      v6->s6_addr[15];
		return v4_is_loopback(v4) ? loopback : v4_is_public(v4);
	}
	return v6_is_public(v6->s6_addr);
}

/* ------------------------------------------------------------------ text */

/* Host without port and brackets. False: there is none, or a user stands before it. */
static bool take_host(const char *p, char ret[HOST_MAX])
{
	size_t n = strcspn(p, "/?#");
	if (n == 0 || n >= HOST_MAX || memchr(p, '@', n) != NULL || memchr(p, '\\', n) != NULL)
		return false;
	memcpy(ret, p, n);
	ret[n] = '\0';
	if (ret[0] == '[') {
		char *end = strchr(ret, ']');
		if (end == NULL)
			return false;
		*end = '\0';
		memmove(ret, ret + 1, strlen(ret + 1) + 1);
	} else {
		ret[strcspn(ret, ":")] = '\0';
	}
	return ret[0] != '\0';
}

union address {
	struct sockaddr any;
	struct sockaddr_in v4;
	struct sockaddr_in6 v6;
};

/* Fills in the address when the host is one, or localhost. */
static bool host_address(const char *host, union address *ret)
{
	memset(ret, 0, sizeof(*ret));
	if (inet_pton(AF_INET, strcasecmp(host, "localhost") == 0 ? "127.0.0.1" : host, &ret->v4.sin_addr) == 1)
		ret->v4.sin_family = AF_INET;
	else if (inet_pton(AF_INET6, host, &ret->v6.sin6_addr) == 1)
		ret->v6.sin6_family = AF_INET6;
	return ret->any.sa_family != AF_UNSPEC;
}

const char *hook_url_fault(const char *url, bool loopback)
{
	union address a;
	char host[HOST_MAX];
	bool plain = strncasecmp(url, "http://", 7) == 0;
	if (!plain && strncasecmp(url, "https://", 8) != 0)
		return "a webhook's URL begins with https://";
	if (!take_host(url + (plain ? 7 : 8), host))
		return "a webhook's URL names a host, and no user";
	for (const char *p = url; *p != '\0'; p++)
		if (*p <= ' ' || *p > '~')
			return "a webhook's URL is printable ASCII without spaces";
	bool known = host_address(host, &a);
	if (known && !hook_address_is_allowed(&a.any, loopback))
		return "a webhook goes to a public address";
	if (plain && (!known || hook_address_is_allowed(&a.any, false)))
		return "a webhook's URL begins with https://; http is for this machine alone";
	return NULL;
}
