#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Durable Streams: forks. What they show, at every point, of every kind of batch; what they do not take along; sources that are
deleted under them."""
import concurrent.futures, json, time

import kafka_wire, tap
from ds import TEXT, Events, Streams, offset
from node import Node

JSON = "application/json"
node = Node("--long-poll-timeout-ms", "2000", kafka=True, ds=True)
ds = Streams(node)


def fork(name, source, status=201, body=None, at=None, sub=None, **headers):
    headers.update({} if at is None else {"Stream_Fork_Offset": at}, **({} if sub is None else {"Stream_Fork_Sub_Offset": sub}))
    return ds("PUT", name, status, body, Stream_Forked_From=source, **headers)


def body(name, query=""):
    return ds.get(name + query).body


@tap.test("at the end, at each offset, at both ends in other servers' form; what the source gets later is not shown")
def _():
    node.start()
    ds.put("/s")
    for i in range(5):
        ds.post("/s", b"%d" % i)
    a = fork("/f/end", "/v1/stream/s")
    tap.same((a["content-type"], a["stream-next-offset"], a["location"].endswith("/v1/stream/f/end")), (TEXT, offset(5), True))
    tap.same([k for k in a.headers if "fork" in k], [], "headers that tell")
    for i in range(6):
        fork(f"/f/{i}", "/s", at=offset(i))
    fork("/f/start", "/s", at="0000000000000000_0000000000000000")
    fork("/f/start2", "/s", at="-1")
    fork("/f/now", "/s", at="now")
    ds.post("/s", b"later")
    for i in range(6):
        tap.same((body(f"/f/{i}"), ds.head(f"/f/{i}")["stream-next-offset"]), (b"01234"[:i], offset(i)), f"fork at {i}")
        ds.post(f"/f/{i}", b"own")
        tap.same((body(f"/f/{i}"), body(f"/f/{i}", f"?offset={i}")), (b"01234"[:i] + b"own", b"own"))
    tap.same([body("/f/" + n) for n in ("start", "start2", "now", "end")], [b"", b"", b"01234", b"01234"])
    tap.same(body("/s"), b"01234later")


@tap.test("refused: no such source, beyond the end, another type, nonsense; and nothing keeps the source then")
def _():
    ds.put("/r", body=b"abc")
    for status, source, more in ((404, "/none", {}), (400, "/r", {"at": "2"}), (400, "/r", {"at": "9999999999999999_9999999999999999"}),
                                 (400, "/r", {"at": "x"}), (400, "/r", {"at": "1_1"}), (409, "/r", {"Content_Type": "text/html"}),
                                 (400, "/r", {"sub": "1"}), (400, "/r", {"at": "0", "sub": "4"}), (400, "/r", {"at": "1", "sub": "1"}),
                                 (400, "/r", {"at": "0", "sub": "01"}), (400, "/r", {"at": "0", "sub": "-1"}), (400, "r", {}),
                                 (400, "/r/../x", {}), (400, "http://x/r", {}), (400, "/_sys/x", {}), (400, "/r", {"Stream_TTL": "x"})):
        fork("/r/f", source, status, **more)
    ds("PUT", "/r/f", 400, Stream_Fork_Offset="0")
    ds("PUT", "/r/f", 400, Stream_Fork_Sub_Offset="0")
    ds.head("/r/f", 404)
    tap.same(node.http("PUT", "/r/many", Pico_Partitions=2).status, 201)
    fork("/r/f", "/r/many", 409)
    fork("/r/f", "/r")
    fork("/r/f", "/r", 200)
    ds.put("/r/f", 409)
    fork("/r/f", "/r", 409, at="0")
    fork("/r/f", "/r", 409, Stream_TTL=5)
    ds.put("/r/other")
    fork("/r/other", "/r", 409)
    ds.delete("/r/f")
    ds.delete("/r")
    ds.head("/r", 404)


@tap.test("sub-offsets of bytes: each prefix of each append, then the first content")
def _():
    ds.put("/b", body=b"hello")
    ds.post("/b", b"world!")
    for at, whole in ((0, b"hello"), (1, b"world!")):
        for sub in range(len(whole) + 1):
            name = f"/b/{at}-{sub}"
            a = fork(name, "/b", at=at, sub=sub, body=b"+")
            want = b"hello"[:at * 5] + whole[:sub] + b"+"
            tap.same((body(name), a["stream-next-offset"]), (want, offset(at + (sub > 0) + 1)), name)
            fork(name, "/b", 200, at=at, sub=sub)
            fork(name, "/b", 409, at=at, sub=sub + 1 if sub < len(whole) else sub - 1)
        fork("/b/over", "/b", 400, at=at, sub=len(whole) + 1)
    fork("/b/f/f", "/b/1-3", at=1, sub=2)
    tap.same(body("/b/f/f"), b"hellowo", "a fork of a copied piece")


@tap.test("sub-offsets of JSON: messages of the append that follows, counted from inside it, too")
def _():
    ds.put("/j", body=b"[0,1,2,3]", Content_Type=JSON)
    ds.post("/j", b"[4, 5.0]", Content_Type=JSON)
    for at, most in ((0, 4), (2, 2), (4, 2), (5, 1)):
        for sub in range(most + 1):
            name = f"/j/{at}-{sub}"
            a = fork(name, "/j", at=at, sub=sub, body=b'["own"]', Content_Type=JSON)
            tap.same(json.loads(body(name)), [0, 1, 2, 3, 4, 5.0][:at + sub] + ["own"], name)
            tap.same(a["stream-next-offset"], offset(at + sub + 1))
            fork(name, "/j", 200, at=at, sub=sub)
        fork("/j/over", "/j", 400, at=at, sub=most + 1)
    fork("/j/2-1", "/j", 409, at=2, sub=2)
    fork("/j/bad", "/j", 400, at=2, body=b"{")
    ds.head("/j/bad", 404)
    tap.same(body("/j/4-2"), b'[0,1,2,3,4,5.0,"own"]', "bytes as they were")


@tap.test("inside a Kafka client's batch, of every codec: keys, headers and times come along")
def _():
    items = [(b"k%d" % i, b"v%d" % i, [("h", b"%d" % i)]) for i in range(6)]
    with kafka_wire.Client(node.kafka_port) as c:
        for codec in range(5):
            topic = f"k{codec}"
            c.create(topic)
            for _ in range(2):
                a = c.produce(topic, 0, kafka_wire.batch(items, codec=codec, times=[1700000000000 + 7 * i for i in range(6)]))
                tap.same(a.error_code, 0)
            source = {r["seq"]: r for r in node.http("GET", "/" + topic).json()}
            for at, sub, own in ((8, None, None), (8, None, b"x"), (8, 1, None), (8, 2, b"x"), (6, None, b"x"), (12, None, None)):
                name = f"/{topic}/{at}-{sub}-{own}"
                fork(name, "/" + topic, at=at, sub=sub, body=own)
                shown = node.http("GET", name).json()
                tap.same([r for r in shown if r["seq"] < at], [source[i] for i in range(at)], name)
                rest = [(r["seq"], r["body"]) for r in shown if r["seq"] >= at]
                want = ([(at, "v2"[:sub])] if sub else []) + ([(at + (sub is not None), "x")] if own else [])
                tap.same(rest, want, name)
                if own:
                    assert abs(shown[-1]["timestamp"] / 1000 - time.time()) < 60, shown[-1]


@tap.test("not taken along: producers, Stream-Seq, the end of a closed source; TTL and expiry are, unless the fork has its own")
def _():
    ds.put("/n", Stream_TTL=3600)
    ds.produce("/n", "p", 4, 0, 200, b"a", Stream_Seq="m")
    ds.close("/n")
    fork("/n/f", "/n")
    a = ds.head("/n/f")
    tap.same((a["stream-closed"], a["stream-ttl"]), (None, "3600"))
    ds.produce("/n/f", "p", 0, 0, 200, b"b", Stream_Seq="a")
    tap.same(body("/n/f"), b"ab")
    fork("/n/g", "/n", Stream_Expires_At="2099-01-01T00:00:00Z")
    a = ds.head("/n/g")
    tap.same((a["stream-ttl"], a["stream-expires-at"]), (None, "2099-01-01T00:00:00Z"))
    a = fork("/n/h", "/n", body=b"z", Stream_Closed="true")
    tap.same((a["stream-closed"], body("/n/h")), ("true", b"az"))


@tap.test("live: what is inherited comes at once; only the fork's own appends wake who waits for it")
def _():
    ds.put("/l", body=b"a")
    fork("/l/f", "/l")
    tap.same(body("/l/f", "?offset=-1&live=long-poll"), b"a")
    e = Events(node.ds_port, "/v1/stream/l/f?offset=-1&live=sse")
    tap.same(e.pair()[0], b"a")
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        f = pool.submit(lambda: node.ds("GET", "/l/f?offset=1&live=long-poll"))
        time.sleep(0.3)
        ds.post("/l", b"not for the fork")
        tap.same(f.result(30).status, 204)
    ds.post("/l/f", b"b")
    tap.same(e.pair()[0], b"b")
    e.close()


@tap.test("a source that is deleted is gone for every protocol, its name taken, its forks whole; it goes with the last one")
def _():
    ds.put("/d", body=b"abc")
    fork("/d/f", "/d", at=0, sub=2)
    fork("/d/g", "/d")
    fork("/d/g/h", "/d/g")
    ds.delete("/d")
    ds.delete("/d/g")
    for name in "/d", "/d/g":
        ds.head(name, 410)
        ds.get(name, 410)
        ds.get(name + "?offset=-1&live=sse", 410)
        ds.post(name, status=410)
        ds.delete(name, 410)
        ds.put(name, 409)
        fork("/d/new", name, 409)
        tap.same(node.http("GET", name).status, 410)
    fork("/d/f", "/d", 200, at=0, sub=2)
    fork("/d/f", "/d", 409, at=0, sub=1)
    node.kill_all()
    node.start()
    tap.same([body(n) for n in ("/d/f", "/d/g/h")], [b"ab", b"abc"])
    ds.post("/d/g/h", b"!")
    tap.same(body("/d/g/h"), b"abc!")
    ds.delete("/d/f")
    ds.head("/d", 410)
    ds.delete("/d/g/h")
    for name in "/d", "/d/g":
        tap.until(lambda: node.ds("HEAD", name).status == 404, 30, f"{name} is gone")
    ds.put("/d", body=b"new")
    tap.same(body("/d"), b"new")


@tap.test("a JSON fork that exists is found again when its source was deleted")
def _():
    ds.put("/jd", body=b"[1,2,3]", Content_Type=JSON)
    fork("/jd/f", "/jd", at=0, sub=2)
    ds.delete("/jd")
    fork("/jd/f", "/jd", 200, at=0, sub=2)
    fork("/jd/f", "/jd", 200, at=2)
    fork("/jd/f", "/jd", 409, at=0, sub=1)
    tap.same(body("/jd/f"), b"[1,2]")


tap.run(node.stop)
