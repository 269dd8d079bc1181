#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes group_records.bin from doc/disk-format.md alone: values of the records of a group's log, each behind its
length (u32, little-endian).

    python3 t/golden/group_records.py > t/golden/group_records.bin

The table in t/unit/group_offsets.c says what they add up to."""
import struct, sys

A, B = bytes(range(16)), bytes(range(0xf0, 0x100))


def record(kind, count, *parts):
    value = struct.pack("<BBHI", 1, kind, 0, count) + b"".join(parts)
    return struct.pack("<I", len(value)) + value


def key(topic, partition):
    return topic + struct.pack("<I", partition)


def entry(topic, partition, epoch, offset, committed, expires, metadata=b""):
    return key(topic, partition) + struct.pack("<iqqqH", epoch, offset, committed, expires, len(metadata)) + metadata


sys.stdout.buffer.write(
    record(3, 2, struct.pack("<iqH", 7, 1700000000000, 8), b"consumer")
    + record(1, 3, entry(A, 0, -1, 10, 1700000000001, -1), entry(A, 1, 3, 1 << 40, 1700000000002, 1700000009999, b"where"),
             entry(B, 0xffffffff, 0, 5, 1700000000003, -1))
    + record(1, 1, entry(A, 0, 4, 11, 1700000000004, -1, b"x" * 4096))
    + record(2, 2, key(B, 0xffffffff), key(B, 1))
    + record(3, 0, struct.pack("<iqH", 8, 1700000000005, 0)))
