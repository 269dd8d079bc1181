#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes kafka_CODEC.bin: the same records as one batch by kafka-python's own record builder, as its producer sends
them (CreateTime, offsets from 0). Debian: python3-kafka python3-snappy python3-lz4 python3-zstandard.

    /usr/bin/python3 t/golden/kafka_batches.py t/golden

kafka_snappy_raw.bin is the batch of kafka_snappy.bin with raw snappy, as librdkafka sends it. t/unit/record_decode.c
says what must be read."""
import os, struct, sys

import snappy
from kafka.record.default_records import DefaultRecordBatchBuilder
from kafka.record.util import calc_crc32c

CODECS = {"none": 0, "gzip": 1, "snappy": 2, "lz4": 3, "zstd": 4}
BASE = 1700000000000
RECORDS = [
    (BASE, None, b"first", []),
    (BASE + 250, b"", b"", [("trace", b"\x01\xff"), ("trace", None), ("", b"")]),
    (BASE - 40, b"key", None, []),
    (BASE + 1, b"\xff\xfe", b"the same again, " * 500, [("n\u00e4me", b"v\x00lue")]),
]


def batch(codec):
    builder = DefaultRecordBatchBuilder(magic=2, compression_type=codec, is_transactional=False, producer_id=4711,
                                        producer_epoch=3, base_sequence=90, batch_size=1 << 20)
    for i, (timestamp, key, value, headers) in enumerate(RECORDS):
        assert builder.append(i, timestamp=timestamp, key=key, value=value, headers=headers)
    return bytes(builder.build())


def raw_snappy():
    plain = batch(0)
    tail = struct.pack(">H", 2) + plain[23:61] + snappy.compress(plain[61:])
    rest = plain[12:17] + struct.pack(">I", calc_crc32c(tail)) + tail
    return plain[:8] + struct.pack(">i", len(rest)) + rest


for name, data in [*((name, batch(codec)) for name, codec in CODECS.items()), ("snappy_raw", raw_snappy())]:
    with open(os.path.join(sys.argv[1], f"kafka_{name}.bin"), "wb") as f:
        f.write(data)
    print(f"kafka_{name}.bin: {len(data)} bytes")
