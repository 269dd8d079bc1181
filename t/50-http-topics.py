#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""10,000 topics created and listed; a restart has them all."""
import threading, time

import tap
from node import Node

N, PAGE = 10000, 3000
node = Node()
names = [f"/many/{i % 7}/t{i:05d}" for i in range(N)]


def create(part):
    client = node.client()
    for name in part:
        a = client("PUT", name)
        assert a.status == 201, a


def listed():
    client, got, after = node.client(), [], ""
    while True:
        a = client("GET", f"/?prefix=/many/&start_after={after}&limit={PAGE}")
        tap.same(a.status, 200, "list")
        page = a.json()
        got += [s["name"] for s in page["streams"]]
        assert len(page["streams"]) <= PAGE, len(page["streams"])
        if not page["has_more"]:
            return got
        tap.same(len(page["streams"]), PAGE, "a page that is not the last")
        after = got[-1]


@tap.test(f"{N} topics are created")
def _():
    node.start()
    for other in ("/man", "/many", "/manyfold/t", "/z"):
        tap.same(node.http("PUT", other).status, 201, "a topic that the prefix leaves out")
    began = time.monotonic()
    threads = [threading.Thread(target=create, args=(names[i::32],)) for i in range(32)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    tap.diag(f"{N / (time.monotonic() - began):.0f} topics/s")


@tap.test("all are listed, in order of name, each once")
def _():
    tap.same(listed() == sorted(names), True, "the list")


@tap.test("a record each in 100 of them, and a restart after kill -9 has everything")
def _():
    client = node.client()
    for i, name in enumerate(names[::100]):
        tap.same(client("POST", name, b"r%d" % i).status, 200, "append")
    node.kill_all()
    began = time.monotonic()
    node.start()
    tap.diag(f"ready after {time.monotonic() - began:.2f} s")
    tap.same(listed() == sorted(names), True, "the list")
    client = node.client()
    for i, name in enumerate(names[::100]):
        tap.same(client("GET", name + "?format=raw").body, b"r%d" % i, name)


@tap.test("a deleted topic is gone for good, and its name is free")
def _():
    client = node.client()
    tap.same(client("DELETE", names[0]).status, 204, "delete")
    tap.same(client("DELETE", names[0]).status, 404, "delete again")
    tap.same(client("GET", names[0]).status, 404, "read")
    tap.same(client("PUT", names[0]).status, 201, "create again")
    a = client("GET", names[0])
    tap.same((a.status, a.json()), (200, []), "it is empty")
    tap.same(client("DELETE", names[100]).status, 204, "delete another")
    node.kill_all()
    node.start()
    client = node.client()
    tap.same(client("GET", names[0]).json(), [], "still empty after a restart")
    tap.same((client("GET", names[100]).status, client("GET", names[200]).status), (404, 200), "gone, not gone")
    tap.same(listed() == sorted(set(names) - {names[100]}), True, "the list")
    tap.same(node.stop(), 0, "exit code")


tap.run()
