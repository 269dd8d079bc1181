#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""One record, four processes: curl -> worker-http -> storaged -> fsynced WAL object -> kill -9 of everything -> curl."""
import glob, subprocess

import tap
from node import Node

node = Node()


def curl(*args):
    return subprocess.run(["curl", "-sS", "-i", "--max-time", "30", *args], check=True, capture_output=True).stdout.decode()


@tap.test("a record appended with curl is acknowledged")
def _():
    node.start()
    assert " 201 " in curl("-X", "PUT", node.url + "/orders/eu").splitlines()[0]
    answer = curl("-d", "first light", node.url + "/orders/eu")
    assert " 200 " in answer.splitlines()[0], answer
    assert "Pico-Start-Seq: 0" in answer and "Pico-Next-Seq: 1" in answer, answer


@tap.test("it stands in a WAL object")
def _():
    found = [f for f in glob.glob(node.dir + "/data/**/wal/1/*/*", recursive=True) if b"first light" in open(f, "rb").read()]
    tap.same(len(found), 1, "WAL objects that hold the record")


@tap.test("four processes serve it")
def _():
    children = node.children()
    tap.same(sorted(children), ["storaged", "worker-http", "worker-http role=admin"])


@tap.test("after kill -9 of everything it is read back")
def _():
    node.kill_all()
    node.start()
    answer = curl(node.url + "/orders/eu?format=raw")
    assert answer.endswith("first light"), answer
    assert "Pico-Next-Seq: 1" in answer, answer


@tap.test("SIGTERM ends it with 0")
def _():
    tap.same(node.stop(), 0, "exit code")


tap.run()
