#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Durable Streams: JSON keeps its bytes; the same records over Durable Streams, Pico and Kafka."""
import base64, json

import kafka_wire, tap
from ds import TEXT, Events, Streams, offset
from node import Node

JSON = "application/json"
node = Node(kafka=True, ds=True)
ds = Streams(node)


def put(name, body=None, status=201, **headers):
    return ds.put(name, status, body, Content_Type=JSON, **headers)


def post(name, body, status=204, **headers):
    return ds.post(name, body, status, Content_Type=JSON, **headers)


@tap.test("an array is messages, anything else is one; nested arrays stay")
def _():
    node.start()
    put("/m")
    for body, n in ((b"[1,2]", 2), (b"3", 1), (b"[[4,5]]", 1), (b"[[[6]]]", 1), (b' {"a" : [7]} ', 1), (b"[ ]", None), (b'"[8]"', 1),
                    (b"null", 1), (b"[[]]", 1)):
        before = int(ds.head("/m")["stream-next-offset"])
        post("/m", body, 400 if n is None else 204)
        tap.same(int(ds.head("/m")["stream-next-offset"]) - before, n or 0, body)
    a = ds.get("/m")
    tap.same(a.json(), [1, 2, 3, [4, 5], [[6]], {"a": [7]}, "[8]", None, []])
    tap.same(a["content-type"], JSON)
    tap.same(ds.get("/m?offset=1").json(), [2, 3, [4, 5], [[6]], {"a": [7]}, "[8]", None, []], "from inside an append")
    tap.same(ds.get("/m?offset=now").body, b"[]")


@tap.test("the bytes of a message stay: large numbers, 1.0, names twice, spaces, escapes")
def _():
    values = [b"12345678901234567890", b"1.0", b"1e400", b'{"a":1,"a":2}', b'"\\u0041\\/"', b'{ "x" :\t1 }', b"-0", b'"\xc3\xa9"', b'{"__proto__":1}',
              b'"\\ud800"', b'{"headers":{"operation":"insert"}}']
    put("/bytes", b"[" + b" , ".join(values) + b"\n]")
    tap.same(ds.get("/bytes").body, b"[" + b",".join(values) + b"]")


@tap.test("what is not JSON is refused whole, and a PUT with it creates nothing")
def _():
    bad = (b"{", b"[1,", b"[1,]", b"1 2", b"[1] [2]", b"[1]x", b"'a'", b"nul", b"NaN", b"01", b"\xff", b'"\n"', b"\xef\xbb\xbf1", b" ", b"[1,{]}",
           b"[" * 600 + b"]" * 600)
    put("/bad", b"[0]")
    for body in bad:
        post("/bad", body, 400)
        put("/bad/new", body, 400)
    ds.head("/bad/new", 404)
    tap.same(ds.get("/bad").json(), [0])
    put("/bad/empty", b"[]")
    tap.same((ds.get("/bad/empty").body, ds.head("/bad/empty")["stream-next-offset"]), (b"[]", offset(0)))
    put("/bad/charset", b"[1]", 201)
    ds.post("/bad/charset", b"[2]", Content_Type="application/json; charset=utf-8")
    tap.same(ds.get("/bad/charset").json(), [1, 2])


@tap.test("a bad body is judged last: closed, type, producer and Stream-Seq come before it, and none of them moves")
def _():
    put("/last")
    ds.produce("/last", "p", 1, 0, 200, b"1", Content_Type=JSON)
    ds.produce("/last", "p", 1, 1, 400, b"{", Content_Type=JSON)
    ds.produce("/last", "p", 1, 0, 204, b"{", Content_Type=JSON)
    ds.produce("/last", "p", 0, 0, 403, b"{", Content_Type=JSON)
    ds.produce("/last", "p", 1, 5, 409, b"[]", Content_Type=JSON)
    post("/last", b"2", Stream_Seq="m")
    post("/last", b"{", 409, Stream_Seq="a")
    post("/last", b"{", 400, Stream_Seq="z")
    post("/last", b"3", Stream_Seq="n")
    post("/last", b"{", 400, Stream_Closed="true")
    tap.same(ds.head("/last")["stream-closed"], None)
    ds.produce("/last", "p", 1, 1, 200, b"4", Content_Type=JSON)
    ds.close("/last")
    tap.same(post("/last", b"{", 409)["stream-closed"], "true")
    tap.same(post("/last", b"{", 409, Stream_Closed="true")["stream-closed"], "true")
    ds.put("/last/text")
    post("/last/text", b"{", 409)
    post("/last/none", b"{", 404)
    tap.same(ds.get("/last").json(), [1, 2, 3, 4])


@tap.test("many messages in one body, in chunks of whole ones")
def _():
    put("/many")
    messages = [{"i": i, "pad": "x" * (i % 700)} for i in range(5000)]
    post("/many", json.dumps(messages).encode())
    got, at = [], "-1"
    while True:
        a = ds.get(f"/many?offset={at}")
        got, at = got + a.json(), a["stream-next-offset"]
        if a["stream-up-to-date"]:
            break
    tap.same((got == messages, at), (True, offset(5000)))
    post("/many", json.dumps("y" * 3000000).encode())
    tap.same(ds.get(f"/many?offset={at}").json() == ["y" * 3000000], True)


@tap.test("values of others in a JSON stream: a GET is one valid array whatever they are")
def _():
    put("/others", b"[1]")
    values = [(b"{", "{"), (b"", ""), (b"plain \"text\"\n", "plain \"text\"\n"), (b"\xff\xfe", {"body_b64": base64.b64encode(b"\xff\xfe").decode()}),
              (None, None), (b" [1, 2] ", [1, 2]), (b"1 2", "1 2"), (b"\xff" * 100000, {"body_b64": base64.b64encode(b"\xff" * 100000).decode()})]
    with kafka_wire.Client(node.kafka_port) as c:
        tap.same(c.produce("others", 0, kafka_wire.batch([(None, v) for v, _ in values])).error_code, 0)
    want = [1] + [shown for _, shown in values]
    got, at = [], "-1"
    while len(got) < len(want):
        a = ds.get(f"/others?offset={at}")
        got, at = got + a.json(), a["stream-next-offset"]
    tap.same(got, want)
    e, got = Events(node.ds_port, "/others?offset=-1&live=sse"), []
    while len(got) < len(want):
        got += json.loads(e.pair()[0])
    e.close()
    tap.same(got, want)


@tap.test("/v1/stream/orders/eu = /orders/eu = orders.eu: one offset space, each reads what the others wrote")
def _():
    ds.put("/orders/eu", body=b"ds0")
    tap.same(node.http("POST", "/orders/eu", b"pico1").status, 200)
    with kafka_wire.Client(node.kafka_port) as c:
        a = c.produce("orders.eu", 0, kafka_wire.batch([(b"k", b"kafka2"), (None, b"kafka3")]))
        tap.same((a.error_code, a.base_offset), (0, 2))
        ds.post("/orders/eu", b"ds4")
        tap.same([r["value"] for r in c.read_all("orders.eu")] if isinstance(c.read_all("orders.eu")[0], dict) else
                 [r.value for r in c.read_all("orders.eu")], [b"ds0", b"pico1", b"kafka2", b"kafka3", b"ds4"])
    a = ds.get("/orders/eu")
    tap.same((a.body, a["stream-next-offset"]), (b"ds0pico1kafka2kafka3ds4", offset(5)))
    tap.same([(r["seq"], r["body"]) for r in node.http("GET", "/orders/eu").json()],
             list(enumerate(["ds0", "pico1", "kafka2", "kafka3", "ds4"])))
    tap.same(ds.get("/orders/eu?offset=3").body, b"kafka3ds4", "from inside a Kafka client's batch")
    ds.close("/orders/eu")
    tap.same(node.http("POST", "/orders/eu", b"x").status, 409)
    with kafka_wire.Client(node.kafka_port) as c:
        tap.same(c.produce("orders.eu", 0, kafka_wire.batch([(None, b"x")])).error_code, 44)


@tap.test("a stream of several Kafka partitions is 409; records below the start are 410, but -1 is the start")
def _():
    with kafka_wire.Client(node.kafka_port) as c:
        c.create("three", partitions=3)
        c.create("cut")
        c.produce("cut", 0, kafka_wire.batch([(None, b"%d" % i) for i in range(5)]))
        a = c.call("DeleteRecords", 2, timeout_ms=9000, topics=[{"name": "cut", "partitions": [{"partition_index": 0, "offset": 3}]}])
        tap.same(a.topics[0].partitions[0].error_code, 0)
    ds.get("/three", 409)
    ds.post("/three", b"x", 409, Content_Type="application/octet-stream")
    for query in "?offset=-1", "", "?offset=3", "?offset=-1&live=long-poll":
        tap.same(ds.get("/cut" + query).body, b"34", query)
    for query in "?offset=0", "?offset=2", "?offset=2&live=long-poll", "?offset=0&live=sse":
        ds.get("/cut" + query, 410)


tap.run(node.stop)
