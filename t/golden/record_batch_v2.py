#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes record_batch_v2.bin from the published format alone (Kafka's protocol guide, "Record Batch"), with
its own varints and its own CRC-32C, so that it agrees with common/record_batch.c only if both are right.

    python3 t/golden/record_batch_v2.py > t/golden/record_batch_v2.bin

Three batches follow each other. The tables in t/unit/record_batch.c say what must be read from them."""
import struct, sys


def crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def varint(n):
    u = n << 1 if n >= 0 else (-n << 1) - 1
    out = bytearray()
    while u > 127:
        out.append(u & 127 | 128)
        u >>= 7
    return bytes(out + bytes([u]))


def nullable(b):
    return varint(-1) if b is None else varint(len(b)) + b


def record(offset_delta, timestamp_delta, key, value, headers=()):
    body = b"\0" + varint(timestamp_delta) + varint(offset_delta) + nullable(key) + nullable(value)
    body += varint(len(headers))
    for name, header_value in headers:
        body += varint(len(name)) + name + nullable(header_value)
    return varint(len(body)) + body


def batch(base, epoch, attributes, last_delta, first_ms, max_ms, producer, producer_epoch, sequence, records):
    tail = struct.pack(">hiqqqhii", attributes, last_delta, first_ms, max_ms, producer, producer_epoch,
                       sequence, len(records)) + b"".join(records)
    rest = struct.pack(">ibI", epoch, 2, crc32c(tail)) + tail
    return struct.pack(">qi", base, len(rest)) + rest


out = sys.stdout.buffer
# What a Kafka producer with an id sends, after the base offset was patched; one offset (43) is compacted away.
out.write(batch(41, 7, 0, 3, 1700000000000, 1700000000300, 4711, 2, 90, [
    record(0, 0, None, b"first"),
    record(1, 300, b"", b"", [(b"trace", b"\x01\x02"), (b"trace", None), (b"", b"")]),
    record(3, -250, b"key", None),
]))
# What our own writer makes for the same bodies.
out.write(batch(0, -1, 8, 2, 0, 0, -1, -1, -1, [
    record(0, 0, None, b"first"),
    record(1, 0, b"", b"", [(b"trace", b"\x01\x02"), (b"trace", None), (b"", b"")]),
    record(2, 0, b"key", None),
]))
# The same after it was placed at 1000 in epoch 3 and stamped: the batch's time is every record's.
out.write(batch(1000, 3, 8, 0, 1700000000123, 1700000000123, -1, -1, -1, [record(0, 0, b"k" * 200, b"v" * 100)]))
