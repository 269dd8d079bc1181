/* SPDX-License-Identifier: Apache-2.0
 *
 * What stands inside messages: the error of a call, the proof of Hello, the state of a group.
 */
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <stdio.h>

#include "common/ipc.h"
#include "common/must.h"
#include "common/wire.h"

void ipc_error_fill(Ipc__Error *m, const struct pico_error *e)
{
	ipc__error__init(m);
	m->kind = e->kind;
	m->message = (char *)e->message;
	m->content_type = (char *)e->content_type;
	m->next_offset = e->next_offset;
	m->has_next_offset = e->has_next_offset;
	m->start_offset = e->start_offset;
	m->has_start_offset = e->has_start_offset;
	m->producer_epoch = e->producer_epoch;
	m->has_producer_epoch = e->has_producer_epoch;
	m->expected_seq = e->expected_seq;
	m->received_seq = e->received_seq;
	m->has_expected_seq = m->has_received_seq = e->has_gap;
}

void ipc_error_read(const Ipc__Error *m, struct pico_error *ret_error)
{
	pico_error_set(ret_error, m->kind, "%s", m->message);
	snprintf(ret_error->content_type, sizeof(ret_error->content_type), "%s", m->content_type);
	ret_error->next_offset = m->next_offset;
	ret_error->has_next_offset = m->has_next_offset;
	ret_error->start_offset = m->start_offset;
	ret_error->has_start_offset = m->has_start_offset;
	ret_error->producer_epoch = m->producer_epoch;
	ret_error->has_producer_epoch = m->has_producer_epoch;
	ret_error->expected_seq = m->expected_seq;
	ret_error->received_seq = m->received_seq;
	ret_error->has_gap = m->has_expected_seq && m->has_received_seq;
}

void ipc_proof(const uint8_t key[32], uint32_t role, uint64_t instance, uint8_t ret_proof[32])
{
	uint8_t text[12];
	unsigned n = 0;
	put_le32(text, role);
	put_le64(text + 4, instance);
	must(HMAC(EVP_sha256(), key, 32, text, sizeof(text), ret_proof, &n) != NULL && n == 32);
}

const char *ipc_group_state_name(Ipc__GroupState state)
{
	switch (state) {
	case IPC__GROUP_STATE__EMPTY: return "Empty";
	case IPC__GROUP_STATE__PREPARING_REBALANCE: return "PreparingRebalance";
	case IPC__GROUP_STATE__COMPLETING_REBALANCE: return "CompletingRebalance";
	case IPC__GROUP_STATE__STABLE: return "Stable";
	case IPC__GROUP_STATE__DEAD: return "Dead";
	case _IPC__GROUP_STATE_IS_INT_SIZE: break;
	}
	return "Unknown";
}
