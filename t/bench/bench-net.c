/* SPDX-License-Identifier: Apache-2.0
 *
 * The two ends of the read benchmarks:
 *
 *   bench-net pull PORT SECONDS TARGET [TARGET...]   GETs the targets in turn on one connection and discards the
 *                                                    bodies; prints MB/s of body bytes
 *   bench-net serve BYTES PIECE                      answers every request with BYTES from memory, by writev() in
 *                                                    pieces of PIECE; prints its port. The base line.
 */
#include <arpa/inet.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#include "common/must.h"

#define BUFFER (1u << 20)

static double now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static void read_some(int fd, char *buffer, size_t *len)
{
	ssize_t n = read(fd, buffer + *len, BUFFER - *len);
	if (n <= 0) {
		fprintf(stderr, "the connection was closed\n");
		exit(1);
	}
	*len += (size_t)n;
}

/* Discards n bytes: what is in the buffer first. */
static void discard(int fd, char *buffer, size_t *len, uint64_t n)
{
	for (;;) {
		size_t take = *len < n ? *len : (size_t)n;
		memmove(buffer, buffer + take, *len - take);
		*len -= take;
		n -= take;
		if (n == 0)
			return;
		read_some(fd, buffer, len);
	}
}

static char *until(int fd, char *buffer, size_t *len, const char *end)
{
	char *at;
	while (buffer[*len] = '\0', (at = strstr(buffer, end)) == NULL)
		read_some(fd, buffer, len);
	return at;
}

/* One answer; returns its body bytes. */
static uint64_t answer(int fd, char *buffer, size_t *len)
{
	char *end = until(fd, buffer, len, "\r\n\r\n");
	must(strncmp(buffer, "HTTP/1.1 200", 12) == 0);
	char *length = strcasestr(buffer, "content-length:");
	bool chunked = length == NULL || length > end;
	uint64_t total = chunked ? 0 : strtoull(length + 15, NULL, 10);
	discard(fd, buffer, len, (uint64_t)(end - buffer) + 4);
	if (!chunked) {
		discard(fd, buffer, len, total);
		return total;
	}
	for (;;) {
		char *line = until(fd, buffer, len, "\r\n");
		uint64_t n = strtoull(buffer, NULL, 16);
		discard(fd, buffer, len, (uint64_t)(line - buffer) + 2 + n + 2);
		total += n;
		if (n == 0)
			return total;
	}
}

static int pull(int port, double seconds, char **targets, int n_targets)
{
	static char buffer[BUFFER + 1];
	size_t len = 0;
	struct sockaddr_in a = { .sin_family = AF_INET, .sin_port = htons((uint16_t)port),
				 .sin_addr = { htonl(INADDR_LOOPBACK) } };
	int fd = socket(AF_INET, SOCK_STREAM, 0);
	must(connect(fd, (struct sockaddr *)&a, sizeof(a)) == 0);
	uint64_t bytes = 0, requests = 0;
	double began = now();
	for (int i = 0; now() - began < seconds; i++, requests++) {
		char request[1024];
		int n = snprintf(request, sizeof(request), "GET %s HTTP/1.1\r\nHost: x\r\n\r\n", targets[i % n_targets]);
		must(write(fd, request, (size_t)n) == n);
		bytes += answer(fd, buffer, &len);
	}
	printf("%.1f\n", (double)bytes / 1e6 / (now() - began));
	return 0;
}

static void serve_one(int fd, uint64_t bytes, size_t piece, const char *memory)
{
	char request[4096], head[128];
	while (read(fd, request, sizeof(request)) > 0) {
		int n = snprintf(head, sizeof(head), "HTTP/1.1 200 OK\r\nContent-Length: %llu\r\n\r\n",
				 (unsigned long long)bytes);
		must(write(fd, head, (size_t)n) == n);
		for (uint64_t sent = 0; sent < bytes; ) {
			struct iovec iov[64];
			int k = 0;
			for (uint64_t at = sent; k < 64 && at < bytes; k++) {
				size_t take = bytes - at < piece ? (size_t)(bytes - at) : piece;
				iov[k] = (struct iovec){ (char *)memory + at, take };
				at += take;
			}
			ssize_t w = writev(fd, iov, k);
			if (w <= 0)
				return;
			sent += (uint64_t)w;
		}
	}
}

static int serve(uint64_t bytes, size_t piece)
{
	struct sockaddr_in a = { .sin_family = AF_INET, .sin_addr = { htonl(INADDR_LOOPBACK) } };
	socklen_t n = sizeof(a);
	int fd = socket(AF_INET, SOCK_STREAM, 0);
	must(bind(fd, (struct sockaddr *)&a, n) == 0 && listen(fd, 8) == 0);
	must(getsockname(fd, (struct sockaddr *)&a, &n) == 0);
	printf("%d\n", ntohs(a.sin_port));
	fflush(stdout);
	char *memory = must_calloc(1, bytes);
	memset(memory, 'x', bytes);
	for (;;) {
		int c = accept(fd, NULL, NULL);
		if (c < 0)
			return 1;
		serve_one(c, bytes, piece, memory);
		close(c);
	}
}

int main(int argc, char **argv)
{
	if (argc >= 5 && strcmp(argv[1], "pull") == 0)
		return pull(atoi(argv[2]), atof(argv[3]), argv + 4, argc - 4);
	if (argc == 4 && strcmp(argv[1], "serve") == 0)
		return serve(strtoull(argv[2], NULL, 10), (size_t)strtoull(argv[3], NULL, 10));
	fprintf(stderr, "usage: bench-net pull PORT SECONDS TARGET... | bench-net serve BYTES PIECE\n");
	return 2;
}
