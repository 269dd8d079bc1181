#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes data_object.bin from doc/disk-format.md alone, with its own CRC-32C and protobuf, so that it agrees with
storaged/data/ only if both are right.

    python3 t/golden/data_object.py > t/golden/data_object.bin

A data object of three logs: 0xa1 with two blocks (a gap in its offsets) and a state entry with every field, 0xb2 with a
block alone, 0x1000000c3 with a state entry alone. The tables in t/unit/data_format.c say what must be read."""
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


def number(field, n):
    return varint(field << 3) + varint(n)


def fixed64(field, n):
    return varint(field << 3 | 1) + struct.pack("<Q", n)


def blob(field, *parts):
    body = b"".join(parts)
    return varint(field << 3 | 2) + varint(len(body)) + body


# ---- frames

def record(delta, value):
    body = bytes([0, 0, delta * 2, 1, len(value) * 2]) + value + b"\0"
    return varint(len(body) * 2) + body


def batch(base, epoch, ms, values):
    tail = struct.pack(">hiqqqhii", 0, len(values) - 1, ms, ms, -1, -1, -1, len(values))
    tail += b"".join(record(i, v) for i, v in enumerate(values))
    rest = struct.pack(">ibI", epoch, 2, crc32c(tail)) + tail
    return struct.pack(">qi", base, len(rest)) + rest


def frame(log, base, epoch, append_ms, max_ms, values):
    payload = batch(base, epoch, max_ms, values)

    def header(crc):
        return struct.pack("<IIQQIIIIqqII", 0x4D524650, crc, log, base, epoch, len(values), len(payload), 0, append_ms,
                           max_ms, 0, 0)
    return header(crc32c(header(0))) + payload + bytes(-len(payload) % 8)


# ---- blocks, and with each its log id, base, end, last append time, max timestamp, bytes before

T = 1700000000000
blocks = [
    (0xA1, 41, 44, T + 20, T + 900, 1000, frame(0xA1, 41, 5, T + 10, T + 900, [b"first", b"second"]) +
     frame(0xA1, 43, 5, T + 20, T + 7, [b"third"])),
    (0xA1, 50, 51, T + 30, T + 30, 2000, frame(0xA1, 50, 6, T + 30, T + 30, [b"behind a gap"])),
    (0xB2, 0, 1, T + 5, T + 5, 0, frame(0xB2, 0, 1, T + 5, T + 5, [b"x"])),
]

# ---- state entries

a1 = fixed64(1, 0xA1) + number(2, 6) + number(3, 51) + number(4, T + 30) + number(5, 2080) + number(6, 1) + number(7, 1)
a1 += blob(8, blob(1, b"sensor-7"), number(2, 3), number(3, 301))
a1 += number(9, 1) + blob(10, b"0042")
a1 += blob(11, number(1, 5), number(2, 41)) + blob(11, number(1, 6), number(2, 50))
a1 += number(13, 2)
a1 += blob(14, blob(1, b"sensor-7"), number(2, 3), number(3, 301), number(4, 50), number(5, 51), number(6, T + 30))
a1 += blob(15, number(1, 4000), number(2, 1), number(3, T + 20), blob(4, number(2, 1), number(3, 41)),
           blob(4, number(1, 2), number(2, 2), number(3, 43)))
c3 = fixed64(1, 0x1000000C3) + number(2, 1) + number(3, 7) + number(4, T + 1) + number(5, 700) + number(12, 1)
states = [(0xA1, a1), (0x1000000C3, c3)]

# ---- the object

body, index = b"", b""
for log, base, end, append_ms, max_ms, before, content in blocks:
    index += struct.pack("<QQQqqQQII", log, base, end, append_ms, max_ms, before, len(body), len(content), crc32c(content))
    body += content

at = 8 + 16 * len(states)
state = struct.pack("<II", len(states), 0)
for log, entry in states:
    state += struct.pack("<QII", log, at, len(entry))
    at += len(entry)
state += b"".join(entry for _, entry in states)

state_at, index_at = len(body), len(body) + len(state)
top_at = index_at + len(index)
top = struct.pack("<IIII", 3, 1, 1, 0)
top += struct.pack("<QQQII", 0x1000000C3, 0, state_at, len(state), crc32c(state))
top += struct.pack("<QQQII", 0xB2, 1, index_at, len(index), crc32c(index))
top += varint(0xA1) + varint(0xB2 - 0xA1) + varint(0x1000000C3 - 0xB2)


def footer(crc):
    return struct.pack("<IIIIQQIIQQqqQII36xI", 0x54414450, 1, 7, 9, 0x1234, 5, 0, 0, 0xA1, 0x1000000C3, T + 5, T + 30,
                       top_at, len(top), crc32c(top), crc)


sys.stdout.buffer.write(body + state + index + top + footer(crc32c(footer(0))))
