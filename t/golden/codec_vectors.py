#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes codec_*.bin: one text compressed by other implementations (Python's gzip, gzip, python-snappy, kafka-python,
python-lz4, lz4, python-zstandard, zstd) in the forms that clients send. Debian: python3-kafka python3-snappy
python3-lz4 python3-zstandard gzip lz4 zstd.

    /usr/bin/python3 t/golden/codec_vectors.py t/golden

t/unit/codec.c has the text, too."""
import gzip, os, subprocess, sys

import lz4.frame, snappy, zstandard
from kafka.codec import snappy_encode

TEXT = b"".join(b"line %d of a text, %d times %d\n" % (i, i * 7 % 10, i * i % 1000) for i in range(3000))
HALF = len(TEXT) // 2


def tool(*argv):
    return subprocess.run(argv, input=TEXT, stdout=subprocess.PIPE, check=True).stdout


def stream(level, window_log):
    how = zstandard.ZstdCompressionParameters.from_level(level, window_log=window_log)
    c = zstandard.ZstdCompressor(compression_params=how).compressobj()
    return c.compress(TEXT) + c.flush()


VECTORS = {
    "gzip": gzip.compress(TEXT, 9, mtime=0),
    "gzip_tool": tool("gzip", "-1c"),
    "gzip_members": gzip.compress(TEXT[:HALF], mtime=0) + gzip.compress(b"", mtime=0) + gzip.compress(TEXT[HALF:], mtime=0),
    "snappy_raw": snappy.compress(TEXT),
    "snappy_xerial": snappy_encode(TEXT),
    "lz4": lz4.frame.compress(TEXT),
    "lz4_independent": lz4.frame.compress(TEXT, block_linked=False, block_size=lz4.frame.BLOCKSIZE_MAX64KB,
                                          content_checksum=True, block_checksum=True, store_size=False),
    "lz4_tool": tool("lz4", "-9cz", "--content-size"),
    "zstd": zstandard.ZstdCompressor(level=3, write_checksum=True).compress(TEXT),
    "zstd_frames": zstandard.ZstdCompressor().compress(TEXT[:HALF]) + zstandard.ZstdCompressor().compress(TEXT[HALF:]),
    "zstd_stream": stream(3, 23),
    "zstd_window_27": stream(19, 27),
    "zstd_tool": tool("zstd", "-19c"),
}

for name, data in VECTORS.items():
    with open(os.path.join(sys.argv[1], f"codec_{name}.bin"), "wb") as f:
        f.write(data)
    print(f"codec_{name}.bin: {len(data)} bytes of {len(TEXT)}")
