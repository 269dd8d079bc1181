/* SPDX-License-Identifier: Apache-2.0
 *
 * The name is a path, or begins with '@' for the abstract space. Errors are not ours to act on.
 */
#include "supervisor/notify.h"

#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

static struct sockaddr_un address;
static socklen_t address_len;

void notify_open(void)
{
	const char *name = getenv("NOTIFY_SOCKET");
	size_t n = name != NULL ? strlen(name) : 0;
	if (n > 1 && n < sizeof(address.sun_path) && (name[0] == '/' || name[0] == '@')) {
		address.sun_family = AF_UNIX;
		memcpy(address.sun_path, name, n + 1);
		if (name[0] == '@')
			address.sun_path[0] = '\0';
		address_len = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + n);
	}
	unsetenv("NOTIFY_SOCKET");
}

void notify(const char *fmt, ...)
{
	char text[512];
	va_list ap;
	if (address_len == 0)
		return;
	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return;
	sendto(fd, text, strlen(text), MSG_NOSIGNAL | MSG_DONTWAIT, (struct sockaddr *)&address, address_len);
	close(fd);
}
