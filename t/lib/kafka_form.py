# SPDX-License-Identifier: Apache-2.0
"""The one form of records that every program of t/clients reads and writes, a line each:

    PARTITION OFFSET TIMESTAMP KEY VALUE [NAME=VALUE]...

Bytes are `:` and hexadecimal digits, null is `-`. Offset and timestamp are `-` where the client or the node chooses.
Names of headers are letters."""
import collections

Record = collections.namedtuple("Record", "partition offset timestamp key value headers")


def _put(x):
    return "-" if x is None else ":" + x.hex() if isinstance(x, bytes) else str(x)


def _bytes(text):
    return None if text == "-" else bytes.fromhex(text[1:])


def _number(text):
    return None if text == "-" else int(text)


def to_line(r):
    return " ".join([*map(_put, r[:5]), *(f"{name}={_put(value)}" for name, value in r.headers)])


def from_line(line):
    partition, offset, timestamp, key, value, *headers = line.split()
    named = tuple((name, _bytes(data)) for name, _, data in (h.partition("=") for h in headers))
    return Record(int(partition), _number(offset), _number(timestamp), _bytes(key), _bytes(value), named)
