#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Binary batches against a real node: appended and read back in every format, and each malformed one refused."""
import json, struct

import tap
from binary_batch import TYPE, batch, parse, record, u32
from node import Node

node = Node("--max-request-size", "4M", "--max-message-size", "1M").start()
http = node.client()


def append(name, body, status=200, **headers):
    a = http("POST", name, body, Content_Type=TYPE, **headers)
    tap.same(a.status, status, repr(a))
    return a


def create(name):
    assert http("PUT", name).status == 201


def read(name, query="seq=-1"):
    a = http("GET", f"{name}?format=binary&{query}")
    tap.same((a.status, a["content-type"]), (200, TYPE), repr(a))
    return a


RECORDS = [(None, [], b"first"), (b"", [], b""), (b"key", [(b"a", b"1"), (b"a", b"\xff\0"), (b"", b"")], b"\xfe\xff"),
           (b"\xff", [("n\u00e4me".encode(), b"")], b"x" * 70000)]


@tap.test("records go in and come out as they were, in every format")
def _():
    create("/t")
    a = append("/t", batch(*(record(b, k, h) for k, h, b in RECORDS)))
    tap.same((a["pico-start-seq"], a["pico-next-seq"]), ("0", "4"))
    a = read("/t", "seq=0&bytes=1000000")
    got = parse(a.body)
    tap.same([(s, k, h, b) for s, _, k, h, b in got], [(i, *r) for i, r in enumerate(RECORDS)])
    tap.same((a["pico-next-seq"], a["pico-up-to-date"]), ("4", "true"))
    records = http("GET", "/t?seq=0&bytes=1000000").json()
    tap.same({r["timestamp"] for r in records}, {r[1] for r in got})
    tap.same(records[0]["body"], "first")
    tap.same(("key" in records[0], records[1]["key"], records[1]["body"]), (False, "", ""))
    tap.same(records[2]["headers"], [["a", "1"], ["a", {"b64": "/wA="}], ["", ""]])
    tap.same((records[2]["body_b64"], records[3]["key_b64"]), ("/v8=", "/w=="))
    tap.same(http("GET", "/t?seq=0&format=raw&bytes=1000000").body, b"".join(b for _, _, b in RECORDS))


@tap.test("what JSON wrote is read as binary: null reads as empty")
def _():
    create("/j")
    body = {"records": [{"body": None, "headers": [["h", None], ["b", {"b64": "/w=="}]]}, {"key": "k", "body": "\u00e9"}]}
    tap.same(http("POST", "/j", json.dumps(body).encode(), Content_Type=TYPE + "+json").status, 200)
    got = [(s, k, h, b) for s, _, k, h, b in parse(read("/j").body)]
    tap.same(got, [(0, None, [(b"h", b""), (b"b", b"\xff")], b""), (1, b"k", [], "\u00e9".encode())])


@tap.test("positions, counts, pages; nothing there is a batch of no records")
def _():
    tap.same([r[0] for r in parse(read("/t", "seq=1&count=2").body)], [1, 2])
    a = read("/t", "seq=0&bytes=1")
    tap.same(([r[0] for r in parse(a.body)], a["pico-next-seq"], a["pico-up-to-date"]), ([0], "1", None))
    a = read("/t", "seq=4")
    tap.same((a.body, a["pico-up-to-date"]), (b"\1\0\0\0\0", "true"))
    a = read("/t", "seq=0&bytes=1000000&live=long-poll")
    tap.same((len(parse(a.body)), a["cache-control"]), (4, "no-store"))
    seen, seq = [], 0
    while seq < 4:
        a = read("/t", f"seq={seq}&bytes=10")
        seen += parse(a.body)
        seq = int(a["pico-next-seq"])
    tap.same([(s, k, h, b) for s, _, k, h, b in seen], [(i, *r) for i, r in enumerate(RECORDS)])


@tap.test("the entity tag names the format")
def _():
    tags = {f: http("GET", f"/t?seq=0&format={f}")["etag"] for f in ("json", "raw", "binary")}
    tap.same(len(set(tags.values())), 3, repr(tags))
    tap.same(http("GET", "/t?seq=0&format=binary", If_None_Match=tags["binary"]).status, 304)
    tap.same(http("GET", "/t?seq=0&format=binary", If_None_Match=tags["json"]).status, 200)


@tap.test("an answer of many pieces is whole")
def _():
    create("/big")
    for i in range(8):
        append("/big", batch(*(record(b"%d:%d " % (i, k) + b"z" * 4000, b"k%d" % k) for k in range(100))))
    got = parse(read("/big", "seq=0&bytes=4000000").body)
    tap.same([r[0] for r in got], list(range(800)))
    tap.same([r[4] for r in got], [b"%d:%d " % (i, k) + b"z" * 4000 for i in range(8) for k in range(100)])


@tap.test("malformed ones are 400 and write nothing")
def _():
    create("/bad")
    good = record(b"body", b"key", [(b"name", b"value")])
    whole = batch(good, good)
    cases = [(f"cut to {n}", whole[:n]) for n in range(1, len(whole))]
    cases += [("version 0", batch(good, version=0)), ("version 2", batch(good, version=2)),
              ("one byte behind", whole + b"\0"), ("a record behind", batch(good, good, count=1)),
              ("one record missing", batch(good, count=2)), ("count of 4 billion", batch(good, count=0xffffffff)),
              ("key length -2", batch(struct.pack(">i", -2) + u32(0) + u32(0))),
              ("key length of 2 billion", batch(u32(0x7fffffff) + u32(0) + u32(0))),
              ("4 billion headers", batch(u32(0xffffffff) * 2 + u32(0))),
              ("header name of 4 billion", batch(u32(0xffffffff) + u32(1) + u32(0xffffffff) + u32(0) + u32(0))),
              ("body of 4 billion", batch(u32(0xffffffff) + u32(0) + u32(0xffffffff))),
              ("name not UTF-8", batch(record(b"b", None, [(b"\xff", b"v")]))),
              ("name over 64 KiB", batch(record(b"b", None, [(b"n" * 65537, b"v")]))),
              ("1,001 headers", batch(record(b"b", None, [(b"n", b"v")] * 1001))),
              ("key over 1 MiB", batch(record(b"b", b"k" * ((1 << 20) + 1)))),
              ("JSON", b'{"records":[{"body":"x"}]}')]
    for what, body in cases:
        a = append("/bad", body, 400)
        assert a.json()["error"] == "bad_request" and a.json()["message"], (what, a)
    tap.same(http("HEAD", "/bad")["pico-next-seq"], "0")


@tap.test("at the limits it is taken, one over refused and the connection goes on")
def _():
    create("/limits")
    append("/limits", batch(record(b"b", None, [(b"n" * 65536, b"v")] * 2)))
    append("/limits", batch(record(b"b", None, [(b"n", b"v")] * 1000)))
    append("/limits", batch(record(b"b", b"k" * 900000)))
    tap.same([len(r[3]) for r in parse(read("/limits", "seq=0&bytes=4000000").body)], [2, 1000, 0])
    a = append("/limits", batch(*[record(b"x" * 100000)] * 11), 413)
    tap.same(a.json()["error"], "too_large")
    tap.same(append("/limits", batch(record(b"on")))["pico-start-seq"], "3")


@tap.test("no records: 400, or a close")
def _():
    create("/end")
    tap.same(append("/end", batch(), 400).json()["error"], "bad_request")
    a = append("/end", batch(record(b"last")), Pico_Match_Seq=0, Pico_Producer_Id="p", Pico_Producer_Epoch=0,
               Pico_Producer_Seq=0)
    tap.same(a["pico-next-seq"], "1")
    tap.same(append("/end", batch(), 412, Pico_Closed="true", Pico_Match_Seq=7).json()["error"], "match_failed")
    a = append("/end", batch(), Pico_Closed="true")
    tap.same((a["pico-next-seq"], a["pico-closed"], a["pico-start-seq"]), ("1", "true", None))
    tap.same(append("/end", batch(record(b"late")), 409).json()["error"], "closed")
    create("/both")
    a = append("/both", batch(record(b"last")), Pico_Closed="true")
    tap.same((a["pico-next-seq"], a["pico-closed"]), ("1", "true"))


@tap.test("the key of a record does not choose the partition")
def _():
    assert http("PUT", "/parts", Pico_Partitions=3).status == 201
    a = append("/parts?partition=2", batch(record(b"b", b"k"), record(b"b", b"l")))
    tap.same((a["pico-partition"], a["pico-next-seq"]), ("2", "2"))
    partition = append("/parts", batch(record(b"b", b"k"), record(b"b", b"l")))["pico-partition"]
    got = parse(read("/parts", f"partition={partition}&seq=-1").body)
    tap.same([r[2] for r in got], [b"k", b"l"] * (2 if partition == "2" else 1))


@tap.test("the node stops clean")
def _():
    tap.same(node.stop(), 0, "exit code")


tap.run()
