#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Starts that cannot succeed: the metadata file is no database, a damaged one, a new one beside used storage, another node's.
The first two were waited for; the third said that two clusters had been mixed; the last served nothing that was there."""
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


@test("a lost database, or a path that names none: said as such, with what brings it back")
def lost_database():
    n = Node().start()
    same(n.http("PUT", "/kept").status, 201, "create")
    same(n.stop(), 0, "exit code")
    for name in os.listdir(f"{n.dir}/data"):
        if name.startswith("meta.db"):
            os.remove(f"{n.dir}/data/{name}")
    refused(n, rf" error storaged database sqlite:{n.dir}/data/meta\.db is new, but storage .* is in use by cluster [0-9a-f]{{32}}: .*"
               r"`pico admin restore-metadata` makes it again; .* --meta-url or --data-dir")


@test("another --node-id on the database of a node is refused, and leaves nothing behind there")
def another_node():
    n = Node().start()
    same(n.http("PUT", "/kept").status, 201, "create")
    same(n.http("POST", "/kept", b"record").status, 200, "append")
    same(n.stop(), 0, "exit code")
    n.options.append("--node-id=2")
    refused(n, rf" error storaged database sqlite:{n.dir}/data/meta\.db is of node 1, and --node-id is 2: .* Start with --node-id 1,")
    n.options.remove("--node-id=2")
    n.start()
    same(n.http("GET", "/kept?format=raw").body, b"record", "body")
    same(n.stop(), 0, "exit code")


tap.run()
