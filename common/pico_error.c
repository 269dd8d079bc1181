/* SPDX-License-Identifier: Apache-2.0 */
#include "common/pico_error.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

const char *pico_error_word(enum pico_error_kind kind)
{
	switch (kind) {
#define X(id, name, word) case PICO_##name: return word;
	PICO_ERRORS(X)
#undef X
	}
	return "internal";
}

void pico_error_set(struct pico_error *e, enum pico_error_kind kind, const char *fmt, ...)
{
	memset(e, 0, sizeof(*e));
	e->kind = kind;
	va_list ap;
	va_start(ap, fmt);
	vsnprintf(e->message, sizeof(e->message), fmt, ap);
	va_end(ap);
}
