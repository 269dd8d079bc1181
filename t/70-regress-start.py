#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Starts that cannot succeed and were waited for: the metadata file is no database, or a damaged one."""
import os, re, sqlite3, time

import tap
from node import Node
from tap import same, test


def refused(n, pattern):
    began = time.monotonic()
    n.spawn()
    code = n.process.wait(20)
    log = n.log()
    errors = [line for line in log.splitlines() if " error " in line]
    same((code, len(errors)), (1, 1), f"exit code, errors: {log}")
    assert re.search(pattern, errors[0]), f"{errors[0]!r} does not match {pattern!r}"
    assert time.monotonic() - began < 10, "refused at once"


@test("a metadata file that is no database is refused at once, by name, and left as it is")
def no_database():
    n = Node()
    os.makedirs(f"{n.dir}/data")
    text = b"these are the notes of somebody\n" * 64
    with open(f"{n.dir}/data/meta.db", "wb") as f:
        f.write(text)
    refused(n, rf" error storaged sqlite:{n.dir}/data/meta\.db: .*file is not a database .*: this is not the metadata of a "
               r"node, or it is damaged")
    with open(f"{n.dir}/data/meta.db", "rb") as f:
        same(f.read(), text, "the file")


@test("a damaged database is refused at once, by name")
def damaged():
    n = Node().start()
    for i in range(40):
        same(n.http("PUT", f"/stream/{i}").status, 201, "create")
    same(n.stop(), 0, "exit code")
    path = f"{n.dir}/data/meta.db"
    db = sqlite3.connect(path)
    db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    db.close()
    with open(path, "r+b") as f:
        f.seek(0, os.SEEK_END)
        size = f.tell()
        f.seek(4096)
        f.write(b"\xff" * (size - 4096))
    refused(n, rf" error storaged sqlite:{path}: .*malformed.*: this is not the metadata of a node, or it is damaged")


tap.run()
