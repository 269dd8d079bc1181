#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The Pico protocol over HTTP on a real node: what a client does and reads."""
import base64, concurrent.futures, json, socket, struct, threading, time

import tap
from node import Node

node = Node("--conn-buffer-size", "64K", "--long-poll-timeout-ms", "3000", "--max-request-size", "2M", "--max-message-size", "1M")
BATCH = "application/vnd.picomq.batch+json"


def http(*args, **kw):
    return node.http(*args, **kw)


def put(name, status=201, **headers):
    a = http("PUT", name, **headers)
    tap.same(a.status, status, f"PUT {name}")
    return a


def post(name, body=b"x", status=200, **headers):
    a = http("POST", name, body, **headers)
    tap.same(a.status, status, f"POST {name} {headers} {a.body}")
    return a


def batch(name, records, status=200, **headers):
    return post(name, json.dumps({"records": records}).encode(), status, Content_Type=BATCH, **headers)


def get(name, status=200, **headers):
    a = http("GET", name, **headers)
    tap.same(a.status, status, f"GET {name} {a.body}")
    return a


def head(name):
    return http("HEAD", name)


def seqs(answer):
    return [r["seq"] for r in answer.json()]


def error(answer, status, word):
    tap.same((answer.status, answer.json()["error"]), (status, word), str(answer))
    return answer


@tap.test("create: 201 with Location, again 200, another type 409 with next_seq")
def _():
    node.start()
    a = put("/create/a", Content_Type="text/plain")
    tap.same((a["location"], a["content-type"], a["pico-start-seq"], a["pico-next-seq"], a.body),
             ("/create/a", "text/plain", "0", "0", b""))
    post("/create/a")
    a = put("/create/a", 200, Content_Type="Text/Plain; charset=x")
    tap.same((a["location"], a["pico-next-seq"]), (None, "1"))
    a = error(put("/create/a", 409, Content_Type="text/html"), 409, "conflict")
    assert "text/plain" in a.json()["message"]
    tap.same((a.json()["next_seq"], a["pico-next-seq"]), (1, "1"))
    error(put("/create/a", 409, Content_Type="text/plain", Pico_Closed="true"), 409, "conflict")
    tap.same(put("/create/c", Pico_Closed="true")["pico-closed"], "true")


@tap.test("names are kept byte for byte; bad and reserved ones refused")
def _():
    for name in "/n/a%20b", "/n//x", "/n/x/", "/n/%2e%2e", "/n/" + "y" * 509:
        put(name)
        tap.same(head(name).status, 200, name)
    names = [s["name"] for s in get("/?prefix=/n/").json()["streams"]]
    tap.same(names, sorted(["/n/a%20b", "/n//x", "/n/x/", "/n/%2e%2e", "/n/" + "y" * 509], key=str.encode))
    for name in "/n/..", "/n/./x", "/" + "y" * 512:
        error(put(name, 400), 400, "bad_request")
    for name in "/_sys", "/_sys/x":
        error(put(name, 403), 403, "permission_denied")
        error(post(name, status=403), 403, "permission_denied")
    put("/_system")


@tap.test("append raw: positions, time, key and headers")
def _():
    put("/raw")
    a = post("/raw", b"one")
    tap.same((a["pico-start-seq"], a["pico-next-seq"], a.body), ("0", "1", b""))
    assert abs(int(a["pico-timestamp"]) - time.time() * 1000) < 60000
    post("/raw", b"\xff\x00", Pico_Key="k1", Pico_Header="h=a%20b")
    r = get("/raw").json()
    tap.same((r[0]["seq"], r[0]["body"], r[0]["timestamp"]), (0, "one", int(a["pico-timestamp"])))
    tap.same({k: r[1][k] for k in ("seq", "key", "headers", "body_b64")},
             {"seq": 1, "key": "k1", "headers": {"h": "a b"}, "body_b64": base64.b64encode(b"\xff\x00").decode()})
    assert r[1]["timestamp"] >= r[0]["timestamp"]


@tap.test("append JSON: nulls, empties, keys, headers come back as they went in")
def _():
    put("/json")
    records = [{"body": "a"}, {"body": None}, {}, {"body": ""}, {"key": "k", "body": "é\U0001f600\n\"\\"},
               {"body_b64": "/w==", "key_b64": "AA=="}, {"headers": {"a": "1", "b": "2"}, "body": "h"},
               {"headers": [["a", "1"], ["a", "2"], ["b", {"b64": "/w=="}]], "body": "i"}]
    a = batch("/json", records)
    tap.same((a["pico-start-seq"], a["pico-next-seq"]), ("0", "8"))
    shown = get("/json").json()
    tap.same(len({r["timestamp"] for r in shown}), 1, "one time stamp for one request")
    want = [{"body": "a"}, {"body": None}, {"body": ""}, {"body": ""}, {"key": "k", "body": "é\U0001f600\n\"\\"},
            {"body_b64": "/w==", "key": "\0"}, {"headers": {"a": "1", "b": "2"}, "body": "h"},
            {"headers": [["a", "1"], ["a", "2"], ["b", {"b64": "/w=="}]], "body": "i"}]
    tap.same([{k: v for k, v in r.items() if k not in ("seq", "timestamp")} for r in shown], want)
    tap.same(seqs(get("/json?seq=5")), [5, 6, 7], "a read from the middle of a batch")
    for bad in b"{", b"[]", b'{"records":[]}', b'{"records":[1]}', b'{"records":[{"body":1}]}', b'{"records":[{"body_b64":"x"}]}':
        error(post("/json", bad, 400, Content_Type=BATCH), 400, "bad_request")
    tap.same(head("/json")["pico-next-seq"], "8")


@tap.test("read: count, bytes, formats, positions")
def _():
    put("/read", Content_Type="text/csv")
    for i in range(10):
        post("/read", b"%d" % i * 10)
    a = get("/read?count=3")
    tap.same((seqs(a), a["pico-next-seq"], a["pico-up-to-date"]), ([0, 1, 2], "3", None))
    a = get("/read?seq=3&bytes=25")
    tap.same((seqs(a), a["pico-next-seq"]), ([3, 4], "5"))
    tap.same(seqs(get("/read?seq=3&bytes=1")), [3], "one record at least")
    tap.same(seqs(get("/read?count=0&bytes=0")), list(range(10)))
    for seq in "", "seq=-1", "seq=-99", "seq=0", "seq=00000000000000000000":
        tap.same(len(get("/read?" + seq).json()), 10, seq)
    a = get("/read?seq=8&format=raw")
    tap.same((a.body, a["content-type"], a["content-length"], a["pico-up-to-date"]), (b"8" * 10 + b"9" * 10, "text/csv", "20", "true"))
    a = get("/read?seq=now")
    tap.same((a.json(), a["pico-next-seq"], a["pico-up-to-date"]), ([], "10", "true"))
    tap.same(get("/read?seq=10").json(), [])
    a = error(get("/read?seq=11", 400), 400, "bad_request")
    tap.same((a["pico-next-seq"], a.json()["next_seq"]), ("10", 10))
    tap.same(seqs(get("/read", Last_Event_ID="7")), [7, 8, 9])
    for bad in "seq=", "seq=x", "format=x", "live=x", "live=", "count=-1", "bytes=01", "partition=x":
        error(get("/read?" + bad, 400), 400, "bad_request")


@tap.test("caching: ETag, 304, Cache-Control, and never of another topic of that name")
def _():
    put("/etag")
    post("/etag")
    a = get("/etag?count=1")
    tap.same(a["cache-control"], "no-cache")
    post("/etag")
    a = get("/etag?count=1")
    assert a["cache-control"].startswith("public, max-age=60"), a
    for sent in a["etag"], "W/" + a["etag"], f'"x", {a["etag"]}', "*":
        b = get("/etag?count=1", 304, If_None_Match=sent)
        tap.same((b.body, b["etag"], b["pico-next-seq"], b["content-type"]), (b"", a["etag"], "1", None))
    get("/etag?count=1", 200, If_None_Match='"other"')
    assert get("/etag?count=1&format=raw")["etag"] != a["etag"]
    tap.same(http("DELETE", "/etag").status, 204)
    put("/etag")
    post("/etag")
    post("/etag")
    get("/etag?count=1", 200, If_None_Match=a["etag"])


@tap.test("match-seq, close, close with data")
def _():
    put("/close")
    tap.same(post("/close", Pico_Match_Seq="0")["pico-next-seq"], "1")
    a = error(post("/close", status=412, Pico_Match_Seq="0"), 412, "match_failed")
    tap.same((a["pico-next-seq"], a.json()["next_seq"]), ("1", 1))
    error(post("/close", status=400, Pico_Match_Seq="01"), 400, "bad_request")
    a = post("/close", b"last", Pico_Closed="true")
    tap.same((a["pico-start-seq"], a["pico-next-seq"], a["pico-closed"]), ("1", "2", "true"))
    a = error(post("/close", status=409), 409, "closed")
    tap.same((a["pico-closed"], a.json()["next_seq"]), ("true", 2))
    a = http("POST", "/close", b"", Pico_Closed="true")
    tap.same((a.status, a["pico-closed"], a["pico-next-seq"]), (200, "true", "2"))
    tap.same(head("/close")["pico-closed"], "true")
    tap.same(get("/close?count=1")["pico-closed"], None)
    a = get("/close?seq=1")
    tap.same((a["pico-closed"], a["pico-up-to-date"]), ("true", "true"))
    a = get("/close?seq=2&live=long-poll", 204)
    tap.same((a["pico-closed"], a["pico-up-to-date"], a["pico-next-seq"]), ("true", "true", "2"))
    error(post("/close", b"", 400), 400, "bad_request")


@tap.test("producers: every row of the decision table")
def _():
    put("/producer")

    def send(epoch, seq, status, body=b"p", id="p", **more):
        return post("/producer", body, status, Pico_Producer_Id=id, Pico_Producer_Epoch=epoch, Pico_Producer_Seq=seq, **more)
    error(send(0, 1, 400), 400, "bad_request")
    a = send(0, 0, 200)
    tap.same((a["pico-start-seq"], a["pico-producer-epoch"], a["pico-producer-seq"]), ("0", "0", "0"))
    send(0, 1, 200)
    a = send(0, 0, 200)
    tap.same((a["pico-start-seq"], a["pico-timestamp"], a["pico-producer-seq"], a["pico-next-seq"]), (None, None, "1", "2"))
    send(0, 1, 200, Pico_Match_Seq="77")
    a = error(send(0, 3, 409), 409, "sequence_gap")
    tap.same((a["pico-expected-seq"], a["pico-received-seq"]), ("2", "3"))
    error(send(2, 1, 400), 400, "bad_request")
    send(2, 0, 200)
    a = error(send(1, 0, 403), 403, "fenced")
    tap.same(a["pico-producer-epoch"], "2")
    error(post("/producer", status=400, Pico_Producer_Id="p"), 400, "bad_request")
    error(send(2, "", 400), 400, "bad_request")
    error(send(2, 1, 400, id="i" * 257), 400, "bad_request")
    send(0, 0, 200, id="i" * 256)
    tap.same(head("/producer")["pico-next-seq"], "4")
    a = send(2, 1, 200, Pico_Closed="true")
    tap.same((a["pico-closed"], a["pico-next-seq"]), ("true", "5"))
    a = send(2, 1, 200, Pico_Closed="true")
    tap.same((a["pico-start-seq"], a["pico-producer-seq"], a["pico-next-seq"]), (None, "1", "5"))
    error(send(2, 2, 409), 409, "closed")


@tap.test("partitions: by key, by number, none where one is needed")
def _():
    tap.same(put("/parts", Pico_Partitions="4")["pico-partitions"], "4")
    tap.same(put("/parts", 200)["pico-partitions"], "4", "again, without naming a number")
    error(put("/parts", 409, Pico_Partitions="5"), 409, "conflict")
    a = head("/parts")
    tap.same((a["pico-partitions"], a["pico-next-seq"], a["pico-start-seq"]), ("4", None, None))
    # murmur2 of Kafka's default partitioner: "21" -> -973932308 & 0x7fffffff = 1173551340, mod 4 = 0
    tap.same(post("/parts", b"k", Pico_Key="21")["pico-partition"], "0")
    tap.same(post("/parts", b"3", status=200).status, 200)
    a = http("POST", "/parts?partition=3", b"three")
    tap.same((a.status, a["pico-partition"]), (200, "3"))
    a = get("/parts?partition=3&format=raw")
    tap.same((a["pico-partitions"], a["pico-partition"]), ("4", "3"))
    assert a.body.endswith(b"three")
    tap.same(get("/parts?partition=0").json()[0]["key"], "21")
    for answer in get("/parts", 400), post("/parts", status=400, Pico_Match_Seq="0"), \
            post("/parts", status=400, Pico_Producer_Id="p", Pico_Producer_Epoch="0", Pico_Producer_Seq="0"):
        error(answer, 400, "partition_required")
    error(get("/parts?partition=4", 400), 400, "bad_request")
    error(post("/parts?partition=4", status=400), 400, "bad_request")
    tap.same(http("HEAD", "/parts?partition=4").status, 400)
    tap.same(http("HEAD", "/parts?partition=3")["pico-partition"], "3")
    row = [s for s in get("/?prefix=/parts").json()["streams"]][0]
    tap.same((row["partitions"], "next_seq" in row), (4, False))
    error(post("/parts", status=400, Pico_Closed="true"), 400, "bad_request")
    tap.same(http("POST", "/parts", b"", Pico_Closed="true").status, 200)
    error(http("POST", "/parts?partition=1", b"x"), 409, "closed")
    for bad in "0", "1025", "x", "04":
        error(put("/parts2", 400, Pico_Partitions=bad), 400, "bad_request")
    tap.same(put("/one", Pico_Partitions="1")["pico-partitions"], None)
    tap.same(post("/one")["pico-partition"], None)
    tap.same(get("/one?partition=0").json()[0]["seq"], 0)


@tap.test("long poll: waits, is woken by append, close and delete, ends with 204 and a cursor")
def _():
    put("/poll")
    began = time.monotonic()
    a = get("/poll?live=long-poll", 204)
    assert 2.5 < time.monotonic() - began < 10
    tap.same((a["pico-next-seq"], a["pico-up-to-date"], a["cache-control"], a.body), ("0", "true", "no-store", b""))
    cursor = int(a["pico-cursor"])
    assert abs(cursor - time.time() * 1000 / 20000) < 2
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        waiting = pool.submit(get, f"/poll?live=long-poll&cursor={cursor + 5}")
        time.sleep(0.3)
        post("/poll", b"news")
        a = waiting.result(5)
        tap.same((a.json()[0]["body"], a["pico-next-seq"], a["etag"]), ("news", "1", None))
        assert cursor + 6 <= int(a["pico-cursor"]) <= cursor + 65
        tap.same(get("/poll?live=long-poll&seq=0").json()[0]["seq"], 0)
        waiting = pool.submit(http, "GET", "/poll?live=long-poll&seq=now")
        time.sleep(0.3)
        http("POST", "/poll", b"", Pico_Closed="true")
        a = waiting.result(5)
        tap.same((a.status, a["pico-closed"]), (204, "true"))
        put("/poll2")
        waiting = pool.submit(http, "GET", "/poll2?live=long-poll")
        time.sleep(0.3)
        tap.same(http("DELETE", "/poll2").status, 204)
        error(waiting.result(5), 404, "not_found")


@tap.test("missing topics and DELETE")
def _():
    error(get("/none", 404), 404, "not_found")
    error(post("/none", status=404), 404, "not_found")
    error(get("/none?live=long-poll", 404), 404, "not_found")
    for method in "HEAD", "DELETE":
        a = http(method, "/none")
        tap.same((a.status, a.body), (404, b""), method)
    put("/gone")
    post("/gone")
    tap.same(http("DELETE", "/gone").status, 204)
    error(get("/gone", 404), 404, "not_found")
    put("/gone")
    tap.same(head("/gone")["pico-next-seq"], "0", "a new topic of that name is empty")


@tap.test("list: order, prefix, start_after, limit")
def _():
    for name in "/l/b", "/l/a", "/l/c":
        put(name)
    post("/l/a")
    a = get("/?prefix=/l/&limit=2").json()
    tap.same((a["streams"], a["has_more"]), (
        [{"name": "/l/a", "content_type": "application/octet-stream", "start_seq": 0, "next_seq": 1, "kafka_topic": "l.a", "closed": False},
         {"name": "/l/b", "content_type": "application/octet-stream", "start_seq": 0, "next_seq": 0, "kafka_topic": "l.b", "closed": False}], True))
    a = get("/?prefix=/l/&start_after=/l/b").json()
    tap.same(([s["name"] for s in a["streams"]], a["has_more"]), (["/l/c"], False))
    tap.same(get("/?prefix=/zzz").json(), {"streams": [], "has_more": False})
    assert all(s["name"] != "/_sys" and not s["name"].startswith("/_sys/") for s in get("/").json()["streams"])
    error(get("/?limit=x", 400), 400, "bad_request")


@tap.test("what later releases bring is 501 by name")
def _():
    put("/later")
    for method, path, headers, word in [
            ("PUT", "/later2", {"Pico_Schema": "s"}, "Schema"), ("PUT", "/later2", {"Pico_Schema_Validate": "true"}, "Schema-Validate")]:
        a = error(http(method, path, b"x" if method == "POST" else None, **headers), 501, "not_supported")
        assert word in a.json()["message"], a
    tap.same(head("/later2").status, 404)


@tap.test("manners: methods, encodings, common headers")
def _():
    a = error(http("TRACE", "/raw"), 405, "method_not_allowed")
    assert "PUT" in a["allow"]
    error(post("/raw", status=415, Content_Encoding="gzip"), 415, "unsupported_media_type")
    post("/raw", Content_Encoding="identity")
    a = get("/raw", X_Request_Id="abc", Range="bytes=0-1")
    tap.same((a["x-request-id"], a["x-content-type-options"], a["cross-origin-resource-policy"]), ("abc", "nosniff", "same-origin"))
    assert a["date"].endswith(" GMT") and a["access-control-allow-origin"] is None
    a = http("OPTIONS", "/raw")
    tap.same((a.status, a.body), (204, b""))
    assert "Pico-Closed" in a["access-control-allow-headers"] and "DELETE" in a["access-control-allow-methods"]


@tap.test("a record of exactly the limit goes through, one byte more is 413 and the connection stays")
def _():
    put("/large")
    c = node.client()
    room = 1048576 - 61 - 13  # batch header; record: length 3, attributes, deltas 2, key 1, value length 3, headers 1, rest
    sizes = [n for n in range(room - 8, room + 8) if c("POST", "/large", b"v" * n).status == 200]
    tap.same(sizes, list(range(room - 8, max(sizes) + 1)), "one bound, all below it fit")
    assert room - 8 <= max(sizes) < room + 7, max(sizes) - room
    a = error(c("POST", "/large", b"v" * (max(sizes) + 1)), 413, "too_large")
    tap.same(a["connection"], None)
    tap.same(c("GET", f"/large?seq={len(sizes) - 1}&format=raw").body, b"v" * max(sizes))
    body = c("GET", f"/large?seq={len(sizes) - 1}").json()
    tap.same(len(body[0]["body"]), max(sizes))
    a = error(http("POST", "/large", b"v" * (2 << 20) + b"v"), 413, "too_large")
    tap.same(a["connection"], "close")


@tap.test("a slow reader gets every byte of a large answer")
def _():
    put("/slow")
    want = b""
    for i in range(6):
        want += bytes([65 + i]) * 500000
        post("/slow", bytes([65 + i]) * 500000)
    s = socket.create_connection(("127.0.0.1", node.port))
    one = b"GET /slow?bytes=4000000&format=raw HTTP/1.1\r\nHost: x\r\n"
    s.sendall((one + b"\r\n") * 5 + one + b"Connection: close\r\n\r\n")  # more than the kernel buffers
    time.sleep(2.5)  # longer than a reference into storaged's memory may live
    got = bytearray()
    while part := s.recv(1 << 20):
        got += part
    s.close()
    for _ in range(6):
        headers, _, rest = got.partition(b"\r\n\r\n")
        assert b"Content-Length: 3000000" in headers, headers
        assert rest[:3000000] == want
        got = rest[3000000:]
    tap.same(bytes(got), b"")


@tap.test("a topic deleted under a slow reader cuts its connection")
def _():
    put("/cut")
    for i in range(6):
        post("/cut", b"c" * 1000000)
    s = socket.create_connection(("127.0.0.1", node.port))
    s.sendall((b"GET /cut?bytes=4000000&format=raw HTTP/1.1\r\nHost: x\r\n\r\n") * 6)  # more than the kernel buffers
    time.sleep(1)
    tap.same(http("DELETE", "/cut").status, 204)
    got = 0
    try:
        while part := s.recv(1 << 20):
            got += len(part)
    except ConnectionError:
        pass
    s.close()
    assert 0 < got < 6 * 3900000, got


@tap.test("pipelined appends and reads on one connection keep their order")
def _():
    put("/pipe")
    s = socket.create_connection(("127.0.0.1", node.port))
    f = s.makefile("rb")
    one = b"POST /pipe HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\n%03d"
    s.sendall(b"".join(one % i for i in range(200)) + b"GET /pipe?format=raw HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
    starts = []
    for _ in range(201):
        length, start, status = 0, None, f.readline()
        assert b" 200 " in status, status
        while (line := f.readline()) not in (b"\r\n", b""):
            name, value = line.decode().split(": ", 1)
            length = int(value) if name == "Content-Length" else length
            start = int(value) if name == "Pico-Start-Seq" else start
        body = f.read(length)
        starts.append(start)
    tap.same(starts, list(range(200)) + [None])
    tap.same(body, b"".join(b"%03d" % i for i in range(200)))
    s.close()


@tap.test("concurrent appends are dense, each writer's in order")
def _():
    put("/many")

    def writer(w):
        c = node.client()
        return [int(c("POST", "/many", b"%d:%d" % (w, i))["pico-start-seq"]) for i in range(25)]
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        results = list(pool.map(writer, range(8)))
    tap.same(sorted(sum(results, [])), list(range(200)))
    for r in results:
        tap.same(r, sorted(r))
    bodies = {}
    for r in get("/many?bytes=0").json():
        w, i = r["body"].split(":")
        bodies.setdefault(w, []).append(int(i))
    tap.same(bodies, {str(w): list(range(25)) for w in range(8)})


@tap.test("the node stops, and everything is there afterwards")
def _():
    before = get("/many?bytes=0").body, get("/json").body, get("/producer").body
    tap.same(node.stop(), 0, "exit code")
    node.start()
    for path, body in zip(("/many?bytes=0", "/json", "/producer"), before):
        assert get(path).body == body, path
    a = post("/producer", b"p", 200, Pico_Producer_Id="p", Pico_Producer_Epoch="2", Pico_Producer_Seq="1", Pico_Closed="true")
    tap.same(a["pico-start-seq"], None, "a duplicate is known after a restart")
    tap.same(node.stop(), 0, "exit code")


tap.run()
