# SPDX-License-Identifier: Apache-2.0
"""The binary batches of the Pico protocol (doc/http.md): what is appended, and what a read brings."""
import struct

import tap

TYPE = "application/vnd.picomq.batch"


def u32(n):
    return struct.pack(">I", n)


def record(body=b"", key=None, headers=()):
    out = struct.pack(">i", -1) if key is None else struct.pack(">i", len(key)) + key
    out += u32(len(headers)) + b"".join(u32(len(n)) + n + u32(len(v)) + v for n, v in headers)
    return out + u32(len(body)) + body


def batch(*records, version=1, count=None):
    return bytes([version]) + u32(len(records) if count is None else count) + b"".join(records)


def take(data, at, n):
    assert at + n <= len(data), (at, n, len(data))
    return data[at:at + n], at + n


def parse(data):
    """[(seq, timestamp, key, headers, body)] of a binary read; nothing may be left."""
    tap.same(data[0], 1, "version")
    (count,), at, out = struct.unpack(">I", data[1:5]), 5, []
    for _ in range(count):
        fixed, at = take(data, at, 20)
        seq, timestamp, n = struct.unpack(">Qqi", fixed)
        key, headers = None, []
        if n >= 0:
            key, at = take(data, at, n)
        many, at = take(data, at, 4)
        for _ in range(struct.unpack(">I", many)[0]):
            pair = []
            for _ in range(2):
                size, at = take(data, at, 4)
                part, at = take(data, at, struct.unpack(">I", size)[0])
                pair.append(part)
            headers.append(tuple(pair))
        size, at = take(data, at, 4)
        body, at = take(data, at, struct.unpack(">I", size)[0])
        out.append((seq, timestamp, key, headers, body))
    tap.same(at, len(data), "bytes read")
    return out
