/* SPDX-License-Identifier: Apache-2.0
 *
 * DescribeAcls, versions 0 to 3 (1: patterns; 2: compact): nobody is asked who they are, so there are no ACLs, and that is
 * said as Kafka's brokers without an authorizer say it.
 */
#include "worker-kafka/api.h"

void describe_acls_handle(struct request *r)
{
	struct kmsg_describe_acls_response *m = KMSG_NEW(&r->region, describe_acls_response, 1);
	if (m == NULL) {
		request_close(r, "memory");
		return;
	}
	m->error_code = KAFKA_SECURITY_DISABLED;
	m->error_message = slice_str("no authorizer is configured");
	request_answer(r, m);
}
