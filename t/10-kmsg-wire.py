#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The tests' own Kafka client (t/lib/kafka_wire.py) against golden bytes: each message as another implementation encodes
it, and batches as kafka-python builds them."""
import os, re

import kafka_wire
from tap import run, same, src, test


@test("every golden message is decoded and encoded to the same bytes")
def messages():
    n = 0
    with open(os.path.join(src, "t", "golden", "kafka_messages.txt")) as f:
        for line in f:
            if m := re.match(r"(\w+) (\d+) ([0-9a-f]+) ", line):
                data = bytes.fromhex(m[3])
                value = kafka_wire.decode(m[1], int(m[2]), data)
                same(kafka_wire.encode(m[1], int(m[2]), value), data, line)
                n += 1
    assert n > 300, n


@test("golden batches are read, and written to the same bytes")
def batches():
    def golden(name):
        with open(os.path.join(src, "t", "golden", f"kafka_{name}.bin"), "rb") as f:
            return f.read()
    plain = golden("none")
    found = kafka_wire.records(plain)
    base = 1700000000000
    same([(r.offset, r.timestamp - base, r.key, r.value[:5] if r.value else r.value, len(r.headers)) for r in found],
         [(0, 0, None, b"first", 0), (1, 250, b"", b"", 3), (2, -40, b"key", None, 0), (3, 1, b"\xff\xfe", b"the s", 1)],
         "records")
    same(kafka_wire.records(golden("gzip")), found, "gzip")
    items = [(r.key, r.value, r.headers) for r in found]
    again = kafka_wire.batch(items, times=[r.timestamp for r in found], producer=(4711, 3, 90), epoch=0)
    assert again == plain, (again[:100], plain[:100])
    same(kafka_wire.crc32c(b"123456789"), 0xe3069283, "CRC-32C's check value")


run()
