#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A copy of a data directory is started on the storage of the node that it was copied from, which runs. One of the two
leaves with exit code 3, or is refused at each start, and stays away; they took turns, and the records of one's new stream stood in the other's."""
import os, shutil, time

import tap
from node import Client, Node
from tap import same, test


def ask(node, method, path, body=None):
    """The answer, or None from a node that is gone."""
    try:
        return Client(node.port, 20)(method, path, body)
    except (OSError, EOFError):
        return None
    except Exception as error:  # http.client's
        assert "Remote" in repr(error) or "Bad" in repr(error), repr(error)
        return None


@test("one of two nodes on one storage leaves with 3 or is refused; no record stands in a stream of the other")
def copy():
    old = Node().start()
    same(old.http("PUT", "/s").status, 201)
    same(old.http("POST", "/s", b"first").status, 200)
    new = Node(f"--storage=-2@file://{old.dir}/data/objects")
    shutil.copytree(f"{old.dir}/data", f"{new.dir}/data", ignore=shutil.ignore_patterns("objects", "*.sock", "pid"))
    new.start()
    acknowledged = {old: [], new: []}
    is_out = lambda n: n.process.poll() is not None or "the database is an older copy" in n.log()
    for n, path in ((old, "/old"), (new, "/new")):
        ask(n, "PUT", path)
    for i in range(6):
        for n, path in ((old, "/old"), (new, "/new")):
            a = ask(n, "POST", path, f"{path}-{i} ".encode()) if not is_out(n) else None
            if a is not None and a.status == 200:
                acknowledged[n].append(f"{path}-{i} ".encode())
    tap.until(lambda: is_out(old) or is_out(new), 20, "one is out")
    gone, there = (old, new) if is_out(old) else (new, old)
    if gone.process.poll() is not None:
        same(gone.process.poll(), 3, "exit code")
        assert "was put by another process: two clusters use this prefix" in gone.log(), gone.log()
    else:  # its storaged is refused whenever it is started again, before it touches anything
        same(gone.admin("/ready").status, 503, "readiness")
    same(acknowledged[gone], [], "acknowledged by the one that left")
    time.sleep(1)  # nobody starts it again
    same(there.process.poll(), None, "the other goes on")
    path = "/new" if there is new else "/old"
    same(there.http("GET", path + "?format=raw").body, b"".join(acknowledged[there]), "its stream")
    same(len(acknowledged[there]), 6, "acknowledged")
    same(there.stop(), 0, "exit code")
    if gone.process.poll() is None:
        assert is_out(gone) and gone.admin("/ready").status == 503, gone.log()
        gone.stop()


tap.run()
