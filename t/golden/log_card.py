#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes log_card.bin from doc/disk-format.md, meta_entity_fork.bin and meta_entity_soft_deleted.bin: the card of partition 1 of the
fork, which has two, as has its source.

    python3 t/golden/log_card.py > t/golden/log_card.bin"""
import os, sys


def blob(number, body):
    n = len(body)
    return bytes([number << 3 | 2] + ([n] if n < 128 else [n & 127 | 128, n >> 7])) + body


def card(entity):
    with open(os.path.join(os.path.dirname(__file__), entity), "rb") as f:
        return bytes([1 << 3, 1, 2 << 3, 2]) + blob(3, f.read())


sys.stdout.buffer.write(card("meta_entity_fork.bin") + blob(4, card("meta_entity_soft_deleted.bin")))
