#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""@platformatic/kafka begins every producer by naming id 0 with epoch 0. Producers that were given one id had their batches
acknowledged as duplicates of each other's."""
import kafka_wire, node
from tap import run, same, test

n = node.Node(kafka=True)


@test("producers that name the same id: what each of them sends is stored")
def both_stored():
    with kafka_wire.Client(n.kafka_port) as c:
        same(c.create("t"), [0], "create")
        ids = []
        for i in range(4):
            a = c.call("InitProducerId", 4, transactional_id=None, producer_id=0, producer_epoch=0)
            same(a.error_code, 0, "InitProducerId")
            ids.append((a.producer_id, a.producer_epoch))
            sent = kafka_wire.batch([(None, b"%d" % i)], producer=(*ids[-1], 0))
            p = c.produce("t", 0, sent)
            same((p.error_code, p.base_offset), (0, i), f"producer {i} with {ids[-1]}")
        same([r.value for r in c.read_all("t")], [b"0", b"1", b"2", b"3"], "records")
        same(len(set(ids)), 4, f"ids {ids}")


n.start()
run(lambda: n.stop())
