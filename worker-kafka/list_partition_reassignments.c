/* SPDX-License-Identifier: Apache-2.0
 *
 * ListPartitionReassignments, version 0: records are in object storage, so no replica ever moves.
 */
#include "worker-kafka/api.h"

void list_partition_reassignments_handle(struct request *r)
{
	struct kmsg_list_partition_reassignments_response *m =
		KMSG_NEW(&r->region, list_partition_reassignments_response, 1);
	if (m == NULL) {
		request_close(r, "memory");
		return;
	}
	m->error_message = slice_of(NULL, 0);
	request_answer(r, m);
}
