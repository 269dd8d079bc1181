#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Durable Streams on a real node: create, append, read, close, producers, caching, expiry, names."""
import concurrent.futures, time

import tap
from ds import TEXT, Streams, offset
from node import Client, Node

node = Node("--cors-allow-origin", "https://a.example", "--max-request-size", "2M", "--max-message-size", "1M", ds=True)
ds = Streams(node)


@tap.test("PUT: 201 with an absolute Location in the form the client used; again 200; another configuration 409")
def _():
    node.start()
    a = ds.put("/create/a", Content_Type="text/plain; charset=utf-8")
    tap.same((a["location"], a["content-type"], a["stream-next-offset"], a["stream-closed"], a.body),
             (f"http://127.0.0.1:{node.ds_port}/v1/stream/create/a", "text/plain; charset=utf-8", offset(0), None, b""))
    a = node.ds("PUT", "/create/b", Content_Type=TEXT)
    tap.same((a.status, a["location"]), (201, f"http://127.0.0.1:{node.ds_port}/create/b"))
    ds.post("/create/a")
    a = ds.put("/create/a", 200, b"not appended", Content_Type="Text/PLAIN")
    tap.same((a["location"], a["stream-next-offset"]), (None, offset(1)))
    ds.put("/create/a", 409, Content_Type="text/html")
    ds.put("/create/a", 409, Stream_TTL=10)
    ds.put("/create/a", 409, Stream_Closed="true")
    a = node.ds("PUT", "/v1/stream/create/none")
    tap.same((a.status, a["content-type"]), (201, "application/octet-stream"))


@tap.test("PUT with a body: its first content, before anything else; closed at once when asked")
def _():
    a = ds.put("/first", body=b"one")
    tap.same(a["stream-next-offset"], offset(1))
    a = ds.put("/first/closed", body=b"all of it", Stream_Closed="TRUE")
    tap.same((a["stream-next-offset"], a["stream-closed"]), (offset(1), "true"))
    ds.put("/first/closed", 200, body=b"all of it", Stream_Closed="true")
    ds.put("/first/closed", 409)
    a = ds.get("/first/closed")
    tap.same((a.body, a["stream-closed"], a["stream-up-to-date"]), (b"all of it", "true", "true"))
    ds.post("/first/closed", status=409)


@tap.test("POST: 204 with the new tail; what is refused changes nothing")
def _():
    ds.put("/post")
    a = ds.post("/post", b"a")
    tap.same((a["stream-next-offset"], a["stream-closed"], a.body), (offset(1), None, b""))
    ds.post("/post", b"b", Content_Type="TEXT/plain ; charset=x")
    ds.post("/post", b"", 400)
    ds.post("/post", b"", 400, Stream_Closed="yes")
    tap.same(node.ds("POST", "/post", b"x").status, 400, "no Content-Type")
    tap.same(ds.post("/post", b"x", 409, Content_Type="text/html")["stream-next-offset"], offset(2))
    ds.post("/post/none", b"x", 404)
    ds.post("/post", b"x" * (2 << 20), 413)
    ds.post("/post", b"x", 415, Content_Encoding="gzip")
    tap.same(ds.get("/post").body, b"ab")


@tap.test("Stream-Seq: bytewise advancing, of the stream; a refusal carries the tail")
def _():
    ds.put("/seq")
    for value, status in (("2", 204), ("10", 409), ("2", 409), ("a", 204), ("B", 409), ("b", 204), ("b0", 204), ("b", 409)):
        ds.post("/seq", b"x", status, Stream_Seq=value)
    ds.post("/seq")
    tap.same(ds.post("/seq", b"x", 409, Stream_Seq="b")["stream-next-offset"], offset(5))


@tap.test("HEAD: the tail and the settings, not cached; a stream that is not there has 404 everywhere")
def _():
    ds.put("/head", body=b"x", Stream_TTL=3600)
    a = ds.head("/head")
    tap.same((a["content-type"], a["stream-next-offset"], a["stream-ttl"], a["cache-control"], a["stream-closed"], a.body),
             (TEXT, offset(1), "3600", "no-store", None, b""))
    ds.put("/head/at", Stream_Expires_At="2099-01-31T13:30:00.5+01:30")
    tap.same(ds.head("/head/at")["stream-expires-at"], "2099-01-31T12:00:00.500Z")
    ds.put("/head/at", 200, Stream_Expires_At="2099-01-31T12:00:00.500z")
    ds.put("/head/at", 409, Stream_Expires_At="2099-01-31T12:00:00Z")
    ds.head("/none", 404)
    ds.delete("/none", 404)
    ds.close("/none", 404)
    for query in "", "?offset=now", "?offset=0&live=long-poll", "?offset=now&live=sse":
        ds.get("/none" + query, 404)


@tap.test("offsets: 1 to 20 digits, -1, now; anything else 400, beyond the end 400")
def _():
    ds.put("/offsets")
    for i in range(4):
        ds.post("/offsets", b"%d" % i)
    for query, body in (("", b"0123"), ("?offset=-1", b"0123"), ("?offset=0", b"0123"), ("?offset=2", b"23"),
                        ("?offset=" + offset(3), b"3"), ("?offset=4", b""), ("?offset=now", b""), ("?offset=2&x=y", b"23")):
        a = ds.get("/offsets" + query)
        tap.same((a.body, a["stream-next-offset"], a["stream-up-to-date"]), (body, offset(4), "true"), query)
    for bad in ("", "a", "0,1", "0%201", "0+1", "-2", "NOW", "Now", "+1", "1.0", "../1", "%00", "0%0d%0a", "5",
                "9" * 20, "1" * 21, "0000000000000000_0000000000000000", "1&offset=2"):
        ds.get("/offsets?offset=" + bad, 400)
    tap.same(ds.get("/offsets?offset=5", 400)["stream-next-offset"], offset(4))


@tap.test("catch-up comes in chunks; only the last one is up to date")
def _():
    ds.put("/chunks", Content_Type="application/octet-stream")
    parts = [bytes([i]) * 30000 for i in range(7)]
    for part in parts:
        ds.post("/chunks", part, Content_Type="application/octet-stream")
    ds.close("/chunks")
    at, got, flags = "-1", b"", []
    while True:
        a = ds.get(f"/chunks?offset={at}")
        got, at = got + a.body, a["stream-next-offset"]
        flags.append((a["stream-up-to-date"], a["stream-closed"]))
        if a["stream-closed"]:
            break
    tap.same((got == b"".join(parts), flags), (True, [(None, None)] * 3 + [("true", "true")]))


@tap.test("ETag: 304 without a body; another one after an append, and when the stream closes without data")
def _():
    ds.put("/etag", body=b"x")
    a = ds.get("/etag")
    assert a["cache-control"].startswith("public, max-age=60"), a
    b = ds.get("/etag", 304, If_None_Match=f'"y", W/{a["etag"]}')
    tap.same((b.body, b["etag"], b["stream-next-offset"]), (b"", a["etag"], offset(1)))
    ds.close("/etag")
    b = ds.get("/etag", If_None_Match=a["etag"])
    assert b["etag"] != a["etag"] and b["stream-closed"] == "true", b
    a = ds.get("/etag?offset=now")
    tap.same((a["etag"], a["cache-control"], a.body), (None, "no-store", b""))
    ds.put("/etag/open")
    tap.same(ds.get("/etag/open")["cache-control"], "no-cache", "nothing followed yet: that is no news for an hour")


@tap.test("close: durable and for good; the conflict carries the end; the same producer's retry is no conflict")
def _():
    ds.put("/close", body=b"a")
    a = ds.close("/close", Content_Type="text/html")
    tap.same((a["stream-next-offset"], a["stream-closed"]), (offset(1), "true"))
    ds.close("/close")
    for headers in {}, {"Stream_Closed": "true"}, {"Content_Type": "text/html"}, {"Stream_Seq": "1"}:
        a = ds.post("/close", b"x", 409, **headers)
        tap.same((a["stream-closed"], a["stream-next-offset"]), ("true", offset(1)), f"{headers}")
    ds.put("/close/p")
    a = ds.produce("/close/p", "p", 0, 0, 200, b"last", Stream_Closed="true")
    tap.same((a["stream-closed"], a["producer-seq"]), ("true", "0"))
    a = ds.produce("/close/p", "p", 0, 0, 204, b"another body", Stream_Closed="true")
    tap.same((a["stream-closed"], a["producer-epoch"], a["producer-seq"]), ("true", "0", "0"))
    for id, epoch, seq in ("q", 0, 0), ("p", 0, 1), ("p", 1, 0):
        a = ds.produce("/close/p", id, epoch, seq, 409, Stream_Closed="true")
        tap.same((a["stream-closed"], a["stream-next-offset"]), ("true", offset(1)))
    tap.same(ds.get("/close/p").body, b"last")
    ds.put("/close/only")
    ds.produce("/close/only", "p", 0, 0, 200)
    for _ in range(2):
        a = ds.produce("/close/only", "p", 0, 1, 204, b"", Stream_Closed="true")
        tap.same((a["producer-seq"], a["stream-closed"]), ("1", "true"))


@tap.test("producers: every row of the decision table, and no state moves when a later check fails")
def _():
    ds.put("/producer")
    a = ds.produce("/producer", "p", 0, 1, 409)
    tap.same((a["producer-expected-seq"], a["producer-received-seq"]), ("0", "1"))
    a = ds.produce("/producer", "p", 7, 0, 200)
    tap.same((a["producer-epoch"], a["producer-seq"], a["stream-next-offset"]), ("7", "0", offset(1)))
    ds.produce("/producer", "p", 7, 1, 200)
    a = ds.produce("/producer", "p", 7, 0, 204, b"other", Stream_Seq="never looked at")
    tap.same((a["producer-epoch"], a["producer-seq"], a["stream-next-offset"]), ("7", "1", offset(2)))
    a = ds.produce("/producer", "p", 7, 4, 409)
    tap.same((a["producer-expected-seq"], a["producer-received-seq"]), ("2", "4"))
    tap.same(ds.produce("/producer", "p", 6, 9, 403)["producer-epoch"], "7")
    ds.produce("/producer", "p", 8, 1, 400)
    ds.post("/producer", b"s", Stream_Seq="m")
    ds.produce("/producer", "p", 7, 2, 409, Stream_Seq="a")
    ds.produce("/producer", "p", 7, 2, 409, Content_Type="text/html")
    ds.produce("/producer", "p", 7, 2, 200, Stream_Seq="z")
    ds.produce("/producer", "p", 8, 0, 200)
    ds.produce("/producer", "q", 2**53 - 1, 0, 200)
    for id, epoch, seq in ("", 0, 0), ("r", 2**53, 0), ("r", 0, 2**53), ("r", "1.0", 0), ("r", "", 0), ("r", 0, "-1"), ("r", "01", 0):
        ds.produce("/producer", id, epoch, seq, 400)
    ds.post("/producer", b"x", 400, Producer_Id="p", Producer_Epoch=0)
    ds.produce("/producer/none", "p", 0, 0, 404)


@tap.test("producers outlive kill -9 of the node")
def _():
    ds.put("/kill", body=b"1")
    ds.produce("/kill", "p", 3, 0, 200, b"2")
    node.kill_all()
    node.start()
    tap.same(ds.produce("/kill", "p", 3, 0, 204, b"2")["producer-seq"], "0")
    ds.produce("/kill", "p", 2, 0, 403)
    tap.same(ds.get("/kill").body, b"12")


@tap.test("one producer's seq sent ten times at once is stored once")
def _():
    ds.put("/once")
    with concurrent.futures.ThreadPoolExecutor(10) as pool:
        got = list(pool.map(lambda _: node.ds("POST", "/once", b"x", Content_Type=TEXT, Producer_Id="p", Producer_Epoch=0,
                                              Producer_Seq=0).status, range(10)))
    tap.same((sorted(got), ds.get("/once").body), ([200] + [204] * 9, b"x"))


@tap.test("expiry: bad values are refused; after a TTL the stream is gone and a PUT makes another one")
def _():
    for ttl in "01", "+1", "1.0", "1e3", "-1", "x", "9" * 21:
        ds.put("/ttl/bad", 400, Stream_TTL=ttl)
    for at in ("x", "2099-01-31", "2099-02-29T00:00:00Z", "2099-01-31T24:00:00Z", "2099-01-31T00:00:00", "1969-01-01T00:00:00Z"):
        ds.put("/ttl/bad", 400, Stream_Expires_At=at)
    ds.put("/ttl/bad", 400, Stream_TTL=1, Stream_Expires_At="2099-01-31T00:00:00Z")
    ds.put("/ttl", Stream_TTL=1, body=b"old")
    ds.put("/ttl/past", Stream_Expires_At="2001-01-01T00:00:00Z")
    ds.head("/ttl/past", 404)
    ds.put("/ttl/zero", Stream_TTL=0)
    ds.head("/ttl/zero", 404)
    tap.until(lambda: node.ds("HEAD", "/ttl").status == 404, 30, "expired")
    ds.get("/ttl", 404)
    ds.post("/ttl", status=404)
    ds.put("/ttl", Content_Type="text/html", Stream_TTL=60)
    tap.same(ds.get("/ttl").body, b"")


@tap.test("reads renew a TTL, also at `now` and by long poll; HEAD does not")
def _():
    names = {"/renew/get": "", "/renew/now": "?offset=now", "/renew/poll": "?offset=-1&live=long-poll"}
    for name in [*names, "/renew/head"]:
        ds.put(name, body=b"x", Stream_TTL=2)
    end = time.monotonic() + 4
    while time.monotonic() < end:
        for name, query in names.items():
            ds.get(name + query)
        node.ds("HEAD", "/renew/head")
        time.sleep(0.2)
    for name in names:
        ds.head(name)
    ds.head("/renew/head", 404)


@tap.test("delete: gone at once; a new stream of that name shows only what is new")
def _():
    ds.put("/delete", body=b"old")
    etag = ds.get("/delete")["etag"]
    ds.delete("/delete")
    ds.get("/delete", 404)
    ds.put("/delete", body=b"new")
    tap.same(ds.get("/delete", If_None_Match=etag).body, b"new")


@tap.test("names: with and without the root one stream, byte for byte; reserved and bad ones refused")
def _():
    ds.put("/n/a%20b//x/", body=b"x")
    tap.same(node.ds("GET", "/n/a%20b//x/").body, b"x")
    tap.same(node.http("GET", "/n/a%20b//x/?format=raw").body, b"x")
    for path, status in (("/v1/stream", 404), ("/v1/stream/", 404), ("/", 404), ("/v1/streams", 201), ("/_sys/x", 403),
                         ("/v1/stream/_streams/x", 403), ("/n/../x", 400), ("/" + "y" * 512, 400)):
        tap.same(node.ds("PUT", path, Content_Type=TEXT).status, status, path)
    tap.same(node.http("HEAD", "/v1/streams").status, 200, "the root ends at a slash")
    tap.same(node.ds("PATCH", "/n/x")["allow"], "GET, PUT, POST, DELETE, HEAD, OPTIONS")
    tap.same(node.ds("PATCH", "/n/x").status, 405)


@tap.test("a topic of several partitions is no stream: 409 everywhere, and nothing is done to it")
def _():
    tap.same(node.http("PUT", "/many", Pico_Partitions=3, Content_Type=TEXT).status, 201)
    for answer in (ds.put("/many", 409), ds.post("/many", b"x", 409), ds.close("/many", 409), ds.get("/many", 409),
                   ds.get("/many?offset=now&live=long-poll", 409), ds.get("/many?offset=0&live=sse", 409), ds.delete("/many", 409),
                   ds.produce("/many", "p", 0, 0, 409)):
        assert b"partitions" in answer.body or answer.body == b"", answer
    ds.head("/many", 409)
    a = node.http("HEAD", "/many?partition=0")
    tap.same((a["pico-partitions"], a["pico-next-seq"], a["pico-closed"]), ("3", "0", None))


@tap.test("CORS: preflight, and what a listed origin may read")
def _():
    a = ds("OPTIONS", "/cors", 204)
    for name in "If-None-Match", "Stream-Closed", "Producer-Id", "Stream-Forked-From":
        assert name in a["access-control-allow-headers"], a
    ds.put("/cors")
    a = ds.get("/cors", Origin="https://a.example")
    tap.same((a["access-control-allow-origin"], a["vary"], a["access-control-allow-credentials"]), ("https://a.example", "Origin", None))
    assert "Stream-Next-Offset" in a["access-control-expose-headers"], a
    tap.same(ds.get("/cors", Origin="https://b.example")["access-control-allow-origin"], None)


@tap.test("appends of one connection that follow each other keep their order")
def _():
    ds.put("/order")
    c = Client(node.ds_port)
    for i in range(50):
        tap.same(c("POST", "/order", b"%d," % i, Content_Type=TEXT).status, 204)
    tap.same(c("GET", "/order").body, b"".join(b"%d," % i for i in range(50)))
    c.close()


@tap.test("--protocol ds on --listen, --ds-root and --ds-address; --no-ds binds nothing")
def _():
    other = Node("--protocol", "ds", "--ds-root", "/r", "--ds-address", "https://ds.example/").start()
    try:
        tap.same(other.ds_port is not None and other.port is None, True, "the ready line names the protocol")
        tap.same(other.ds("PUT", "/r/a", Content_Type=TEXT)["location"], "https://ds.example/r/a")
        tap.same(other.ds("HEAD", "/a").status, 200)
        tap.same(other.ds("HEAD", "/v1/stream/a").status, 404)
    finally:
        other.stop()
    tap.same([line for line in other.lines if " on " in line and not line.startswith("admin")],
             [f"ds on http://127.0.0.1:{other.ds_port}"])


tap.run(node.stop)
