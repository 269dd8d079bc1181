/* SPDX-License-Identifier: Apache-2.0
 *
 * The files behind --tls-cert, --tls-key and --tls-client-ca: read and tried here, where rights and people are, and
 * handed to workers as a memfd that nobody can change.
 */
#ifndef SUPERVISOR_CERTIFICATES_H
#define SUPERVISOR_CERTIFICATES_H

#include "common/conf.h"

#define CERTIFICATES_FAULT_MAX 4600

/* Whether something listens with TLS. */
bool certificates_wanted(const struct conf *conf);
/* A descriptor with tls_pem_write()'s text; or -1 and a line that names the option and the cause. */
int certificates_open(const struct conf *conf, char ret_fault[static CERTIFICATES_FAULT_MAX]);

#endif
