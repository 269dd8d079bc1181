#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes wal_object.bin from doc/disk-format.md alone, with its own CRC-32C and protobuf, so that it agrees
with storaged/engine/wal_format.c only if both are right.

    python3 t/golden/wal_object.py > t/golden/wal_object.bin

One data object of three frames: an append of two records by a string producer with a stream sequence; one
record of a worker's request; a close without records. The tables in t/unit/wal_format.c say what must be read."""
import struct, sys


def crc32c(*parts):
    crc = 0xFFFFFFFF
    for byte in b"".join(parts):
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def varint(n):
    out = bytearray()
    while n > 127:
        out.append(n & 127 | 128)
        n >>= 7
    return bytes(out + bytes([n]))


def field(number, kind, body):
    return varint(number << 3 | kind) + body


def blob(number, body):
    return field(number, 2, varint(len(body)) + body)


def record(delta, value):
    body = bytes([0, 0, delta * 2, 1, len(value) * 2]) + value + b"\0"
    return varint(len(body) * 2) + body


def batch(base, epoch, ms, values):
    tail = struct.pack(">hiqqqhii", 8, len(values) - 1, ms, ms, -1, -1, -1, len(values))
    tail += b"".join(record(i, v) for i, v in enumerate(values))
    rest = struct.pack(">ibI", epoch, 2, crc32c(tail)) + tail
    return struct.pack(">qi", base, len(rest)) + rest


def pad(b):
    return b + bytes(-len(b) % 8)


def frame(log, base, epoch, count, ms, meta, payload):
    def header(crc):
        return struct.pack("<IIQQIIIIqqII", 0x4D524650, crc, log, base, epoch, count, len(payload), len(meta), ms, ms, 0, 0)
    return header(crc32c(header(0), meta)) + pad(meta) + pad(payload)


producer = blob(1, blob(1, b"sensor-7") + field(2, 0, varint(3)) + field(3, 0, varint(300)))
stream_seq = blob(2, b"0042") + field(102, 0, b"\1")
request = field(4, 1, struct.pack("<Q", 0x1122334455667788)) + field(5, 1, struct.pack("<Q", 9))
body = frame(0xA1, 41, 5, 2, 1700000000123, producer + stream_seq, batch(41, 5, 1700000000123, [b"first", b"second"]))
body += frame(0xB2, 0, 1, 1, 1700000000124, request, batch(0, 1, 1700000000124, [b"x"]))
body += frame(0xA1, 43, 5, 0, 1700000000125, field(3, 0, b"\1"), b"")


def header(crc):
    return struct.pack("<IIIIQQ16sQII", 0x4C415750, 1, 7, 2, 0x1234, 3, bytes(range(16)), len(body), crc32c(body), crc)


sys.stdout.buffer.write(header(crc32c(header(0))) + body)
