#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How long streams and records live over HTTP: TTL, expiry, retention, trim."""
import datetime, time

import kafka_wire, tap
from node import Node

node = Node("--retention-interval-ms=100", "--wal-upload-interval-ms=100", kafka=True, ds=True)
http = node.http
UTC = datetime.timezone.utc


def put(name, status=201, **headers):
    a = http("PUT", name, **headers)
    tap.same(a.status, status, f"PUT {name} {headers} {a.body}")
    return a


def post(name, body=b"x", status=200, **headers):
    a = http("POST", name, body, **headers)
    tap.same(a.status, status, f"POST {name} {headers} {a.body}")
    return a


def error(answer, status, word, text=""):
    tap.same((answer.status, answer.json()["error"]), (status, word), str(answer))
    assert text in answer.json()["message"], answer
    return answer


def row(name):
    return next((s for s in http("GET", "/?prefix=" + name).json()["streams"] if s["name"] == name), None)


def text_of(seconds):
    return datetime.datetime.fromtimestamp(int(time.time()) + seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def is_gone(name):
    return http("GET", name).status == 404


@tap.test("a TTL is shown by PUT, HEAD, GET and the list; again it is 200, another one 409")
def _():
    node.start()
    tap.same(put("/ttl/a", Pico_TTL="3600")["pico-ttl"], "3600")
    for answer in http("HEAD", "/ttl/a"), http("GET", "/ttl/a"), put("/ttl/a", 200, Pico_TTL="3600"):
        tap.same((answer.status, answer["pico-ttl"], answer["pico-expires-at"]), (200, "3600", None))
    tap.same((row("/ttl/a")["ttl"], "expires_at" in row("/ttl/a")), (3600, False))
    for other in {}, {"Pico_TTL": "3601"}, {"Pico_Expires_At": text_of(3600)}:
        error(put("/ttl/a", 409, **other), 409, "conflict", "TTL")
    tap.same(put("/ttl/none")["pico-ttl"], None)
    error(put("/ttl/none", 409, Pico_TTL="1"), 409, "conflict")


@tap.test("an expiry: any offset in, UTC out, compared as instants; unix milliseconds and both together are 400")
def _():
    a = put("/at/a", Pico_Expires_At="2049-01-31T13:00:00+01:00")
    tap.same((a["pico-expires-at"], a["pico-ttl"]), ("2049-01-31T12:00:00Z", None))
    for same in "2049-01-31T12:00:00Z", "2049-01-31T12:00:00.000Z", "2049-01-31T04:30:00-07:30", "2049-01-31t12:00:00z":
        tap.same(put("/at/a", 200, Pico_Expires_At=same)["pico-expires-at"], "2049-01-31T12:00:00Z", same)
    for answer in http("HEAD", "/at/a"), http("GET", "/at/a"):
        tap.same((answer["pico-expires-at"], answer["pico-ttl"]), ("2049-01-31T12:00:00Z", None))
    tap.same((row("/at/a")["expires_at"], "ttl" in row("/at/a")), ("2049-01-31T12:00:00Z", False))
    error(put("/at/a", 409, Pico_Expires_At="2049-01-31T12:00:00.001Z"), 409, "conflict")
    tap.same(put("/at/ms", Pico_Expires_At="2049-01-31T12:00:00.120Z")["pico-expires-at"], "2049-01-31T12:00:00.120Z")
    for bad in "2493374400000", "1969-12-31T23:59:59Z", "2049-02-29T00:00:00Z", "2049-01-31", "2049-01-31T12:00:00", "soon":
        error(put("/at/b", 400, Pico_Expires_At=bad), 400, "bad_request", "Pico-Expires-At")
    for bad in "-1", "01", "1.5", "x", "18446744073709551616", "9223372036854775807":
        error(put("/at/b", 400, Pico_TTL=bad), 400, "bad_request", "Pico-TTL")
    error(put("/at/b", 400, Pico_TTL="5", Pico_Expires_At="2049-01-31T12:00:00Z"), 400, "bad_request", "exclude")
    tap.same(http("HEAD", "/at/b").status, 404, "nothing was made")
    tap.same(put("/at/b", Pico_TTL="", Pico_Expires_At="")["pico-ttl"], None, "empty headers count as absent")


@tap.test("what is over is 404 and in no list, and PUT makes a fresh one")
def _():
    put("/over/at", Pico_Expires_At=text_of(3))
    put("/over/ttl", Pico_TTL="2", Content_Type="text/plain")
    post("/over/at")
    post("/over/ttl")
    tap.until(lambda: is_gone("/over/at"), 30, "/over/at is over")
    tap.until(lambda: row("/over/ttl") is None, 30, "/over/ttl is over")
    for name in "/over/at", "/over/ttl":
        tap.same((http("HEAD", name).status, http("GET", name).status, http("DELETE", name).status, row(name)),
                 (404, 404, 404, None))
        error(post(name, status=404), 404, "not_found")
        error(post(name, b"", 404, Pico_Trim_Seq="0"), 404, "not_found")
        a = put(name, Content_Type="application/json")
        tap.same((a["pico-next-seq"], a["content-type"]), ("0", "application/json"))
        tap.same(http("GET", name).json(), [])
    put("/over/past", Pico_Expires_At="2001-01-01T00:00:00Z")
    tap.same(http("HEAD", "/over/past").status, 404, "over before it began")


@tap.test("appends and reads renew a TTL; HEAD and the list do not")
def _():
    for name in "/idle/read", "/idle/append", "/idle/looked":
        put(name, Pico_TTL="3")
    began = time.monotonic()
    while time.monotonic() - began < 9:  # three times as long as one lives unused
        if time.monotonic() - began < 2:
            tap.same((http("HEAD", "/idle/looked").status, row("/idle/looked")["ttl"]), (200, 3))
        http("HEAD", "/idle/looked")
        row("/idle/looked")
        tap.same(http("GET", "/idle/read").status, 200, "read")
        post("/idle/append")
        time.sleep(0.2)
    tap.same((http("HEAD", "/idle/looked").status, row("/idle/looked")), (404, None), "looking at it is no use")
    tap.until(lambda: http("HEAD", "/idle/append").status == 404, 60, "nobody appends any more")


@tap.test("Kafka's appends and fetches and Durable Streams' reads renew it, too; what both set is shown here")
def _():
    for name in "/other/produced", "/other/fetched", "/other/ds":
        put(name, Pico_TTL="3")
    with kafka_wire.Client(node.kafka_port) as c:
        began = time.monotonic()
        while time.monotonic() - began < 7:
            tap.same(c.produce("other.produced", 0, kafka_wire.batch([(None, b"k")])).error_code, 0, "produce")
            tap.same(c.fetch("other.fetched", 0, 0).error_code, 0, "fetch")
            tap.same(node.ds("GET", "/other/ds").status, 200, "read")
            time.sleep(0.2)
        for name in "/other/produced", "/other/fetched", "/other/ds":
            tap.same(http("HEAD", name).status, 200, name)
        tap.same(node.ds("HEAD", "/other/ds")["stream-ttl"], "3")
        tap.until(lambda: all(http("HEAD", "/other/" + n).status == 404 for n in ("produced", "fetched", "ds")), 60, "unused")
        tap.same(c.create("other.configs", configs=[("retention.ms", "12345")]), [0])
    tap.same(http("HEAD", "/other.configs")["pico-retention-ms"], "12345")
    tap.same(node.ds("PUT", "/other/expires", None, Stream_Expires_At="2049-01-31T12:00:00Z").status, 201)
    tap.same(http("HEAD", "/other/expires")["pico-expires-at"], "2049-01-31T12:00:00Z")


@tap.test("a cache never answers for a stream that ends by itself")
def _():
    for name, headers, cached in ("/cache/no", {}, True), ("/cache/ttl", {"Pico_TTL": "3600"}, False), \
            ("/cache/at", {"Pico_Expires_At": "2049-01-31T12:00:00Z"}, False):
        put(name, **headers)
        post(name)
        post(name, Pico_Closed="true")
        for query in "?count=1", "":
            a = http("GET", name + query)
            tap.same(a["cache-control"].startswith("public") == cached, True, f"{name}{query} {a['cache-control']}")
            tap.same(http("GET", name + query, If_None_Match=a["etag"]).status, 304)


@tap.test("no crash ends one early, and what is over stays so")
def _():
    put("/crash/long", Pico_TTL="3600")
    post("/crash/long", b"kept")
    put("/crash/short", Pico_TTL="1")
    tap.until(lambda: http("HEAD", "/crash/short").status == 404, 30, "over")
    node.kill_all()
    node.start()
    a = http("GET", "/crash/long")
    tap.same((a.status, a.json()[0]["body"], a["pico-ttl"]), (200, "kept", "3600"))
    tap.same(http("HEAD", "/crash/short").status, 404)


@tap.test("retention: shown, Kafka's configs, compared only where it is named")
def _():
    a = put("/keep/a", Pico_Retention_Ms="60000", Pico_Retention_Bytes="-1")
    tap.same((a["pico-retention-ms"], a["pico-retention-bytes"]), ("60000", "-1"))
    a = http("HEAD", "/keep/a")
    tap.same((a["pico-retention-ms"], a["pico-retention-bytes"]), ("60000", "-1"))
    tap.same((row("/keep/a")["retention_ms"], row("/keep/a")["retention_bytes"]), (60000, -1))
    configs = {c["name"]: c["value"] for c in node.admin("/admin/configs/keep/a").json()["configs"]}
    tap.same((configs["retention.ms"], configs["retention.bytes"]), ("60000", "-1"))
    tap.same(put("/keep/a", 200)["pico-retention-ms"], "60000")
    tap.same(put("/keep/a", 200, Pico_Retention_Ms="60000")["pico-retention-bytes"], "-1")
    error(put("/keep/a", 409, Pico_Retention_Ms="1"), 409, "conflict", "config")
    tap.same(put("/keep/none")["pico-retention-ms"], None)
    error(put("/keep/none", 409, Pico_Retention_Ms="1"), 409, "conflict", "config")
    for bad in "x", "01", "-2", "+1", "9223372036854775808":
        error(put("/keep/b", 400, Pico_Retention_Ms=bad), 400, "bad_request", "Pico-Retention-Ms")
        error(put("/keep/b", 400, Pico_Retention_Bytes=bad), 400, "bad_request", "Pico-Retention-Bytes")


@tap.test("retention is changed by PATCH, set or given back to the node, with other settings or alone")
def _():
    def patch(text, status=200):
        a = http("PATCH", "/_streams/keep/c", text.encode())
        tap.same(a.status, status, f"{text} {a.body}")
        return a.json()
    put("/keep/c")
    a = http("GET", "/_streams/keep/c").json()
    tap.same((a["retentionMs"], a["retentionBytes"]), (None, None))
    a = patch('{"retentionMs":5000,"retentionBytes":-1}')
    tap.same((a["retentionMs"], a["retentionBytes"], a["kafkaTopic"]), (5000, -1, "keep.c"))
    tap.same(http("HEAD", "/keep/c")["pico-retention-ms"], "5000")
    a = patch('{"retentionMs":null,"kafkaTopic":"other-c","partitions":2}')
    tap.same((a["retentionMs"], a["retentionBytes"], a["kafkaTopic"], a["partitions"]), (None, -1, "other-c", 2))
    tap.same(patch("{}")["retentionBytes"], -1)
    for bad in '"5"', "-2", "1.5", "9223372036854775808", "true":
        assert "retentionMs" in patch('{"retentionMs":%s,"retentionBytes":7}' % bad, 400)["message"]
    tap.same(patch("{}")["retentionBytes"], -1, "what is wrong in one place changes nothing")


@tap.test("records that are too old go; the stream stays")
def _():
    put("/old", Pico_Retention_Ms="1000")
    put("/all")
    post("/old", b"o" * 1000)
    post("/all", b"o" * 1000)
    tap.until(lambda: http("HEAD", "/old")["pico-start-seq"] == "1", 60, "the old record goes")
    tap.same((http("HEAD", "/all")["pico-start-seq"], http("HEAD", "/old")["pico-next-seq"]), ("0", "1"))
    post("/old", b"new")
    tap.same(http("GET", "/old").json()[0]["body"], "new", "a read without seq begins at the new start")


@tap.test("trim: from the start to the end, never beyond, never back; closed streams, too")
def _():
    put("/trim")
    for i in range(10):
        post("/trim", b"%d" % i)
    a = post("/trim", b"", Pico_Trim_Seq="4")
    tap.same((a["pico-start-seq"], a["pico-next-seq"], a.body), ("4", None, b""))
    tap.same([r["body"] for r in http("GET", "/trim").json()], list("456789"))
    a = error(http("GET", "/trim?seq=3"), 410, "trimmed")
    tap.same(a["pico-start-seq"], "4")
    tap.same(post("/trim", b"", Pico_Trim_Seq="2")["pico-start-seq"], "4", "never back")
    error(post("/trim", b"x", 400, Pico_Trim_Seq="5"), 400, "bad_request", "no body")
    for bad in "-1", "x", "05":
        error(post("/trim", b"", 400, Pico_Trim_Seq=bad), 400, "bad_request", "Pico-Trim-Seq")
    error(post("/nothing", b"", 404, Pico_Trim_Seq="1"), 404, "not_found")
    a = post("/trim", b"", Pico_Trim_Seq="5", Pico_Closed="true")
    tap.same((a["pico-start-seq"], a["pico-closed"], http("HEAD", "/trim")["pico-closed"]), ("5", None, None), "a trim closes nothing")
    post("/trim", b"", Pico_Closed="true")
    tap.same(post("/trim", b"", Pico_Trim_Seq="8")["pico-start-seq"], "8", "closed")
    tap.same(post("/trim", b"", Pico_Trim_Seq="18446744073709551615")["pico-start-seq"], "10", "the end")
    tap.same(http("HEAD", "/trim")["pico-next-seq"], "10")
    node.kill_all()
    node.start()
    a = http("HEAD", "/trim")
    tap.same((a["pico-start-seq"], a["pico-next-seq"], a["pico-closed"]), ("10", "10", "true"))


@tap.test("trim of a partition: it has to be named")
def _():
    put("/trims", Pico_Partitions="3")
    for i in range(3):
        http("POST", "/trims?partition=1", b"x")
        http("POST", "/trims?partition=2", b"x")
    error(post("/trims", b"", 400, Pico_Trim_Seq="1"), 400, "partition_required")
    error(post("/trims?partition=3", b"", 400, Pico_Trim_Seq="1"), 400, "bad_request")
    tap.same(post("/trims?partition=1", b"", Pico_Trim_Seq="2")["pico-start-seq"], "2")
    tap.same([http("HEAD", f"/trims?partition={i}")["pico-start-seq"] for i in range(3)], ["0", "2", "0"])
    error(post("/_sys/x", b"", 403, Pico_Trim_Seq="1"), 403, "permission_denied")
    tap.same(node.stop(), 0, "exit code")


tap.run()
