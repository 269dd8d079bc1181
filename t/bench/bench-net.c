/* SPDX-License-Identifier: Apache-2.0
 *
 * The two ends of the read benchmarks. What comes is discarded; both ways have their base line, which answers every
 * request with the next BYTES of MEMORY bytes, by writev() in pieces. It goes through as much memory as what it is
 * compared with: from one MiB again and again, which never leaves the processor's cache, it would be faster by half.
 *
 *   bench-net pull PORT SECONDS TARGET [TARGET...]   GETs the targets in turn on one connection; prints MB/s of bodies
 *   bench-net serve BYTES PIECE MEMORY               the base line; prints its port
 *   bench-net frames PORT SECONDS FILE               sends the frames of a file in turn (32-bit length, then so many
 *                                                    bytes), each after the answer to the one before; prints MB/s and
 *                                                    the bytes of an answer
 *   bench-net serve-frames BYTES PIECE MEMORY        the base line
 */
#include <arpa/inet.h>
#include <netinet/tcp.h>
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
#define REQUESTS_MAX (1u << 20)

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

static int connect_to(int port)
{
	struct sockaddr_in a = { .sin_family = AF_INET, .sin_port = htons((uint16_t)port),
				 .sin_addr = { htonl(INADDR_LOOPBACK) } };
	int fd = socket(AF_INET, SOCK_STREAM, 0), one = 1;
	must(connect(fd, (struct sockaddr *)&a, sizeof(a)) == 0);
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	return fd;
}

static int pull(int port, double seconds, char **targets, int n_targets)
{
	static char buffer[BUFFER + 1];
	size_t len = 0;
	int fd = connect_to(port);
	uint64_t bytes = 0;
	double began = now();
	for (int i = 0; now() - began < seconds; i++) {
		char request[1024];
		int n = snprintf(request, sizeof(request), "GET %s HTTP/1.1\r\nHost: x\r\n\r\n", targets[i % n_targets]);
		must(write(fd, request, (size_t)n) == n);
		bytes += answer(fd, buffer, &len);
	}
	printf("%.1f\n", (double)bytes / 1e6 / (now() - began));
	return 0;
}

/* ------------------------------------------------------------------- frames */

static uint32_t frame_length(const char *p)
{
	uint32_t n;
	memcpy(&n, p, sizeof(n));
	return ntohl(n);
}

static int pull_frames(int port, double seconds, const char *path)
{
	static char buffer[BUFFER + 1], requests[REQUESTS_MAX];
	FILE *f = fopen(path, "rb");
	must(f != NULL);
	size_t size = fread(requests, 1, sizeof(requests), f), len = 0, at = 0;
	uint64_t bytes = 0, n = 0;
	fclose(f);
	int fd = connect_to(port);
	double began = now();
	for (; now() - began < seconds; n++) {
		size_t request = 4 + frame_length(requests + at);
		must(at + request <= size && write(fd, requests + at, request) == (ssize_t)request);
		at = at + request < size ? at + request : 0;
		while (len < 4)
			read_some(fd, buffer, &len);
		uint64_t frame = 4 + (uint64_t)frame_length(buffer);
		discard(fd, buffer, &len, frame);
		bytes += frame;
	}
	printf("%.1f %.0f\n", (double)bytes / 1e6 / (now() - began), (double)bytes / (double)n);
	return 0;
}

/* --------------------------------------------------------------- base lines */

struct source {
	uint64_t bytes, memory_bytes, at;
	size_t piece;
	char *memory;
	bool frames;
};

/* `head`, then one answer from p on. False when the client is gone. */
static bool write_all(int fd, const struct source *s, struct iovec head, const char *p)
{
	for (uint64_t sent = 0; sent < head.iov_len + s->bytes; ) {
		struct iovec iov[64];
		int k = 0;
		if (sent < head.iov_len)
			iov[k++] = (struct iovec){ (char *)head.iov_base + sent, head.iov_len - sent };
		for (uint64_t at = sent > head.iov_len ? sent - head.iov_len : 0; k < 64 && at < s->bytes; k++) {
			size_t take = s->bytes - at < s->piece ? (size_t)(s->bytes - at) : s->piece;
			iov[k] = (struct iovec){ (char *)(uintptr_t)p + at, take };
			at += take;
		}
		ssize_t w = writev(fd, iov, k);
		if (w <= 0)
			return false;
		sent += (uint64_t)w;
	}
	return true;
}

static const char *source_next(struct source *s)
{
	if (s->at + s->bytes > s->memory_bytes)
		s->at = 0;
	s->at += s->bytes;
	return s->memory + s->at - s->bytes;
}

static void serve_one(int fd, struct source *s)
{
	char request[4096], text[128];
	uint32_t length = htonl((uint32_t)s->bytes);
	struct iovec head = { &length, sizeof(length) };
	if (!s->frames) {
		head.iov_base = text;
		head.iov_len = (size_t)snprintf(text, sizeof(text), "HTTP/1.1 200 OK\r\nContent-Length: %llu\r\n\r\n",
						(unsigned long long)s->bytes);
	}
	while (read(fd, request, sizeof(request)) > 0 && write_all(fd, s, head, source_next(s)))
		;
}

static int serve(struct source *s)
{
	struct sockaddr_in a = { .sin_family = AF_INET, .sin_addr = { htonl(INADDR_LOOPBACK) } };
	socklen_t n = sizeof(a);
	int fd = socket(AF_INET, SOCK_STREAM, 0), one = 1;
	must(s->bytes > 0 && s->piece > 0 && s->memory_bytes >= s->bytes);
	must(bind(fd, (struct sockaddr *)&a, n) == 0 && listen(fd, 8) == 0);
	must(getsockname(fd, (struct sockaddr *)&a, &n) == 0);
	s->memory = must_calloc(1, s->memory_bytes);
	memset(s->memory, 'x', s->memory_bytes);
	printf("%d\n", ntohs(a.sin_port));
	fflush(stdout);
	for (;;) {
		int c = accept(fd, NULL, NULL);
		if (c < 0)
			return 1;
		setsockopt(c, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
		serve_one(c, s);
		close(c);
	}
}

static bool is(const char *a, const char *b)
{
	return strcmp(a, b) == 0;
}

int main(int argc, char **argv)
{
	if (argc >= 5 && is(argv[1], "pull"))
		return pull(atoi(argv[2]), atof(argv[3]), argv + 4, argc - 4);
	if (argc == 5 && is(argv[1], "frames"))
		return pull_frames(atoi(argv[2]), atof(argv[3]), argv[4]);
	if (argc == 5 && (is(argv[1], "serve") || is(argv[1], "serve-frames"))) {
		struct source s = { .bytes = strtoull(argv[2], NULL, 10), .piece = (size_t)strtoull(argv[3], NULL, 10),
				    .memory_bytes = strtoull(argv[4], NULL, 10), .frames = is(argv[1], "serve-frames") };
		return serve(&s);
	}
	fprintf(stderr, "usage: bench-net pull PORT SECONDS TARGET... | bench-net serve BYTES PIECE MEMORY |\n"
		"       bench-net frames PORT SECONDS FILE | bench-net serve-frames BYTES PIECE MEMORY\n");
	return 2;
}
