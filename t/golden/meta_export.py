#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes meta_export.bin from doc/disk-format.md alone, with its own CRC-32C, so that it agrees with
storaged/meta/export_format.c only if both are right.

    python3 t/golden/meta_export.py > t/golden/meta_export.bin

Row 0x1234 of the cluster 00 01 ... 0f: two entities, the first of them twice. Their payloads are no messages."""
import struct, sys


def crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def entity(key, idx, payload):
    return struct.pack("<IIQ", len(key), len(payload), idx) + key + payload


entities = [entity(b"cluster", 0x1234, b"hello"), entity(b"node/1", 7, b""), entity(b"cluster", 0x1234, b"hello")]
body = b"".join(entities)
header = struct.pack("<4sI16sQQQIQ", b"PMET", 1, bytes(range(16)), 0x1234, len(entities), len(body), crc32c(body), 0)
assert len(header) == 60
header += struct.pack("<I", crc32c(header + bytes(4)))
sys.stdout.buffer.write(header + body)
