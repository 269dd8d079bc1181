/* SPDX-License-Identifier: Apache-2.0
 *
 * Everything that a worker will do with these texts is done here first, so what is wrong is said at the start, in
 * --check-config and by a reload, before anything depends on it. The key is in memory here while it is copied.
 */
#include "supervisor/certificates.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "common/tls.h"

bool certificates_wanted(const struct conf *conf)
{
	return conf->tls_listen.n > 0 || (conf->ds_tls_listen.n > 0 && !conf->no_ds) ||
		(conf->kafka_tls_listen.n > 0 && !conf->no_kafka);
}

/* Wipes it, too: one of them has the key. */
static void forget(struct buf *b)
{
	if (b->p != NULL)
		explicit_bzero(b->p, b->capacity);
	buf_done(b);
}

/* 0, a negative errno, or -EFBIG. A fifo or a device is read as well, so no size is asked for. */
static int read_file(const char *path, struct buf *ret)
{
	buf_init(ret, TLS_PEM_MAX + 1);
	uint8_t *p = buf_reserve(ret, TLS_PEM_MAX + 1); /* at once: what a buffer leaves behind as it grows is not wiped */
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	ssize_t n = 1;
	while (n > 0 && buf_len(ret) <= TLS_PEM_MAX) {
		n = read(fd, p + buf_len(ret), TLS_PEM_MAX + 1 - buf_len(ret));
		if (n > 0)
			buf_commit(ret, (size_t)n);
	}
	int err = n < 0 ? -errno : buf_len(ret) > TLS_PEM_MAX ? -EFBIG : 0;
	close(fd);
	return err;
}

static int sealed(struct slice text)
{
	int fd = memfd_create("pico-tls", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (fd < 0)
		return -1;
	if (write(fd, text.p, text.n) == (ssize_t)text.n &&
	    fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) == 0)
		return fd;
	close(fd);
	return -1;
}

static int hand_over(const struct tls_pem *pem, char *ret_fault)
{
	struct buf text;
	size_t n = 12 + pem->chain.n + pem->key.n + pem->client_ca.n;
	buf_init(&text, n);
	buf_reserve(&text, n);
	tls_pem_write(pem, &text);
	int fd = text.failed ? -1 : sealed(buf_slice(&text));
	forget(&text);
	if (fd < 0)
		snprintf(ret_fault, CERTIFICATES_FAULT_MAX, "--tls-cert: no memory to hand it over: %s", strerror(errno));
	return fd;
}

static const char *option_of(enum tls_part part)
{
	return part == TLS_CHAIN ? "tls-cert" : part == TLS_KEY ? "tls-key" : "tls-client-ca";
}

static int try(const struct tls_pem *pem, const char *const path[3], char *ret_fault)
{
	struct tls_context *context;
	struct tls_fault fault;
	if (tls_context_new(pem, &context, &fault) < 0) {
		snprintf(ret_fault, CERTIFICATES_FAULT_MAX, "--%s: %s: %s", option_of(fault.part), path[fault.part], fault.text);
		return -1;
	}
	tls_context_free(context);
	return hand_over(pem, ret_fault);
}

int certificates_open(const struct conf *conf, char ret_fault[static CERTIFICATES_FAULT_MAX])
{
	const char *const path[] = { conf->tls_cert, conf->tls_key, conf->tls_client_ca };
	struct buf file[3] = { { .p = NULL }, { .p = NULL }, { .p = NULL } };
	int fd = -1, err = 0;
	for (int i = 0; i < 3 && err == 0; i++) {
		if (path[i][0] == '\0' && i == TLS_CLIENT_CA)
			break;
		if (path[i][0] == '\0')
			snprintf(ret_fault, CERTIFICATES_FAULT_MAX, "--%s: a listener speaks TLS and needs this file; give it", option_of(i));
		err = path[i][0] == '\0' ? -EINVAL : read_file(path[i], &file[i]);
		if (err < 0 && path[i][0] != '\0')
			snprintf(ret_fault, CERTIFICATES_FAULT_MAX, "--%s: %s: %s", option_of(i), path[i], strerror(-err));
		else if (err == 0 && buf_len(&file[i]) == 0)
			err = snprintf(ret_fault, CERTIFICATES_FAULT_MAX, "--%s: %s: the file is empty", option_of(i), path[i]);
	}
	if (err == 0)
		fd = try(&(struct tls_pem){ buf_slice(&file[0]), buf_slice(&file[1]), buf_slice(&file[2]) }, path, ret_fault);
	for (int i = 0; i < 3; i++)
		forget(&file[i]);
	return fd;
}
