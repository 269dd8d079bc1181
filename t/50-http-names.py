#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Names and settings over HTTP: each row of the names table, GET and PATCH /_streams, and any spelling through the
command line."""
import json, os, subprocess

import names, tap
from node import Node

node = Node()
pico_path = os.path.join(tap.build, "pico")
client = None


def patch(name, body, **headers):
    return client("PATCH", "/_streams/" + name, body if isinstance(body, bytes) else json.dumps(body).encode(), **headers)


def settings(name):
    a = client("GET", "/_streams/" + name)
    return a.json() if a.status == 200 else a.status


def pico(*args, stdin=b"", code=0):
    r = subprocess.run([pico_path, *args], input=stdin, capture_output=True, timeout=60,
                       env=dict(os.environ, PICO_ENDPOINT=node.url))
    assert r.returncode == code, f"pico {args}: exit {r.returncode}, {r.stderr.decode()}"
    return r.stdout.decode()


@tap.test("a node")
def _():
    global client
    node.start()
    client = node.client()


def take(row):
    names.prepare(client, row)
    for step in row.http:
        tap.same(names.http_step(client, step), step[3:5], f"{step}")
    tap.same(names.names_over_http(client), row.after, "all streams")


for row in names.ROWS:
    if row.http:
        tap.test(row.words)(lambda row=row: take(row))


@tap.test("GET /_streams answers the settings of any spelling")
def _():
    names.prepare(client, names.Row("", [("PUT", "/orders/eu", {}), ("PUT", "/orders.eu", {}), ("PUT", "/plain", {})], [], [], {}))
    eu = {"name": "/orders/eu", "schema": None, "schemaValidate": False, "kafkaTopic": "orders.eu", "partitions": 1,
          "retentionMs": None, "retentionBytes": None}
    for spelling in ("orders/eu", "/orders/eu", "orders.eu"):
        tap.same(settings(spelling), eu, spelling)
    tap.same(settings("/orders.eu")["kafkaTopic"], None)
    tap.same(settings("plain")["name"], "/plain")
    a = client("GET", "/_streams/orders.eu")
    tap.same((a["Content-Type"], a["Cache-Control"]), ("application/json", "no-store"))
    h = client("HEAD", "/_streams/orders.eu")
    tap.same((h.status, h["Content-Length"], h.body), (200, str(len(a.body)), b""))


@tap.test("GET /_streams: what is not there, and what is no name")
def _():
    a = client("GET", "/_streams/nobody")
    tap.same((a.status, a.json()["error"]), (404, "not_found"))
    for path in ("/_streams", "/_streams/", "/_streams//", "/_streams/a/../b", "/_streams/" + "x" * 513):
        tap.same((path[:20], client("GET", path).status), (path[:20], 400))
    tap.same(client("PATCH", "/_streams/nobody", b'{"kafkaTopic":"x"}').status, 404)
    for method in ("PUT", "POST", "DELETE"):
        a = client(method, "/_streams/plain", b"")
        tap.same((a.status, a["Allow"]), (405, "GET, PATCH, HEAD, OPTIONS"), method)
    a = client("PATCH", "/plain", b"{}")
    tap.same((a.status, "PATCH" in a["Allow"]), (405, False))
    tap.same(client("OPTIONS", "/_streams/plain")["Access-Control-Allow-Methods"], "GET, PATCH, HEAD, OPTIONS")
    # Names that only begin alike are streams.
    tap.same(client("PUT", "/_streamsx").status, 201)
    tap.same(client("DELETE", "/_streamsx").status, 204)


@tap.test("PATCH: partitions grow and never shrink; records stay")
def _():
    tap.same(client("PUT", "/grow", Pico_Partitions=2).status, 201)
    tap.same(client("POST", "/grow?partition=1", b"one").status, 200)
    tap.same(patch("grow", {"partitions": 4}).json()["partitions"], 4)
    tap.same(patch("grow", {"partitions": 4}).status, 200)
    a = patch("grow", {"partitions": 3})
    tap.same((a.status, a.json()["error"]), (400, "bad_request"))
    assert "cannot have fewer" in a.json()["message"], a
    for wrong in (0, -1, 1025, "4", 4.0, 4.5, None, [4], 10**30):
        tap.same((wrong, patch("grow", {"partitions": wrong}).status), (wrong, 400))
    tap.same(client("HEAD", "/grow")["Pico-Partitions"], "4")
    tap.same(client("POST", "/grow?partition=3", b"three").status, 200)
    tap.same(client("GET", "/grow?partition=1&format=raw").body, b"one")
    tap.same(client("GET", "/grow?partition=3&format=raw").body, b"three")
    # From one to two: the stream has no positions of its own any more.
    tap.same(patch("plain", {"partitions": 2}).json()["partitions"], 2)
    tap.same(client("GET", "/plain").json()["error"], "partition_required")


@tap.test("PATCH: both at once, or nothing")
def _():
    client("PUT", "/both")
    a = patch("both", {"partitions": 3, "kafkaTopic": "b"})
    tap.same((a.json()["partitions"], a.json()["kafkaTopic"]), (3, "b"))
    tap.same(patch("both", {"partitions": 2, "kafkaTopic": "c"}).status, 400)
    tap.same(patch("both", {"partitions": 5, "kafkaTopic": "grow"}).status, 409)
    tap.same((settings("both")["partitions"], settings("/both")["kafkaTopic"]), (3, "b"))
    tap.same(patch("/both", {}).json()["kafkaTopic"], "b")
    tap.same(client("POST", "/both", b"", Pico_Closed="true").status, 200)
    a = patch("/both", {"partitions": 4})
    tap.same((a.status, a.json()["error"], a["Pico-Closed"]), (409, "closed", "true"))
    tap.same(patch("/both", {"kafkaTopic": None}).status, 200)


@tap.test("PATCH: the conflict says whose name it is")
def _():
    a = patch("/both", {"kafkaTopic": "grow"})
    tap.same((a.status, a.json()["error"], a.json()["message"]), (409, "conflict", "Kafka name grow belongs to /grow"))


@tap.test("PATCH: bodies that are none")
def _():
    for body in (b"", b"x", b"[]", b"null", b'{"kafkaTopic":"x"', b'{"kafkaTopic":"x"} {}', b'{"kafkaTopic":"\xff"}'):
        a = patch("grow", body)
        tap.same((body, a.status, a.json()["error"]), (body, 400, "bad_request"))
    a = patch("grow", {"kafkatopic": "x"})
    tap.same(a.status, 400)
    assert "kafkatopic" in a.json()["message"], a
    tap.same(patch("grow", b"{}", Content_Encoding="gzip").status, 415)
    tap.same(settings("grow")["kafkaTopic"], "grow")


@tap.test("PATCH: schemas are refused by name until there is a registry; clearing them is fine")
def _():
    for body, word in (({"schema": "s"}, "schema"), ({"schemaValidate": True}, "schemaValidate")):
        a = patch("grow", body)
        tap.same((a.status, a.json()["error"]), (501, "not_supported"))
        assert word in a.json()["message"], a
    tap.same(patch("grow", {"schema": None, "schemaValidate": False}).status, 200)
    tap.same(patch("grow", {"schema": 7}).status, 400)


@tap.test("the command line finds a stream under any spelling")
def _():
    pico("append", "orders.eu", stdin=b"one\n")
    pico("append", "/orders.eu", stdin=b"other\n")
    for spelling in ("orders.eu", "orders/eu", "/orders/eu"):
        tap.same(pico("read", spelling), "0\tone\n", spelling)
    tap.same(pico("read", "/orders.eu"), "0\tother\n")
    assert "next=1" in pico("head", "orders.eu")
    pico("delete", "orders.eu")
    tap.same(settings("/orders/eu"), 404)
    tap.same(pico("read", "orders.eu"), "0\tother\n")
    pico("read", "orders/eu", code=3)
    pico("read", "no such", code=2)


@tap.test("everything is there after kill -9")
def _():
    global client
    before = names.names_over_http(client)
    node.kill_all()
    node.start()
    client = node.client()
    tap.same(names.names_over_http(client), before)
    tap.same((settings("grow")["partitions"], settings("/both")["kafkaTopic"]), (4, None))
    tap.same(client("GET", "/grow?partition=3&format=raw").body, b"three")
    tap.same(node.stop(), 0, "exit code")


tap.run()
