#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Retention of a whole node: what is older than --retention-ms is cut and its objects go, over kill -9 and restarts with
other options; who reads too far back is told where the stream begins."""
from node import Node
from tap import run, same, test, until

node = Node("--retention-ms=1500", "--retention-interval-ms=100", "--wal-upload-interval-ms=100", "--gc-delay-ms=0")


def seq(stream, name):
    return int(node.http("HEAD", stream)[f"pico-{name}-seq"])


def fill(stream, n):
    for i in range(n):
        same(node.http("POST", stream, b"record").status, 200, "append")


@test("what is older than the node keeps is cut, and its objects go")
def _():
    node.start()
    same(node.http("PUT", "/r").status, 201, "create")
    fill("/r", 5)
    same(seq("/r", "start"), 0, "nothing is old yet")
    until(lambda: seq("/r", "start") == 5, 30, "all of it is cut")
    a = node.http("GET", "/r?seq=2")
    same((a.status, a["pico-start-seq"]), (410, "5"), "a read too far back")
    fill("/r", 1)
    same(node.http("GET", "/r?seq=5").json()[0]["body"], "record", "a young record")
    until(lambda: seq("/r", "start") == 6, 30, "that is cut, too")
    until(lambda: len(node.stored("data/")) <= 1, 30, "of six packs one is left, for its entry")


@test("kill -9 and a restart with other options")
def _():
    fill("/r", 3)
    node.kill("storaged")
    node.wait_ready()
    until(lambda: seq("/r", "start") == 9, 30, "cut after the kill")
    same(node.stop(), 0, "stop")
    node.options[0] = "--retention-ms=-1"
    node.start()
    fill("/r", 2)
    until(lambda: any(k.startswith("data/") for k in node.stored("data/")), 30, "a pack")
    same((seq("/r", "start"), seq("/r", "next")), (9, 11), "nothing is cut any more")
    same(node.stop(), 0, "stop")


run()
