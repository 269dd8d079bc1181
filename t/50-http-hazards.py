#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Faults that servers of this protocol had, and points where documents about it and programs differ: one test each, in their
words, of what is right here. Those that need a second node - who owns a stream, redirects, transfers, the lease - stand where clusters are
tested."""
import concurrent.futures, json, os, re, signal, sqlite3, struct, subprocess, time

import tap
from ds import Events
from node import Node
from tap import same, test, until

node = Node("--http-workers=2", "--request-timeout-ms=3000", "--max-chunk-size=8K")
http = node.http
pool = concurrent.futures.ThreadPoolExecutor(16)
BINARY = "application/vnd.picomq.batch"
JSON = "application/vnd.picomq.batch+json"


def put(name, status=201, body=None, **headers):
    a = http("PUT", name, body, **headers)
    same(a.status, status, f"PUT {name} {headers} {a.body}")
    return a


def post(name, body=b"x", status=200, **headers):
    a = http("POST", name, body, **headers)
    same(a.status, status, f"POST {name} {headers} {a.body[:200]}")
    return a


def word(answer, status, text):
    same((answer.status, answer.json()["error"]), (status, text), str(answer))
    return answer


def produce(name, seq, status=200, id="p", body=b"p"):
    return post(name, body, status, Pico_Producer_Id=id, Pico_Producer_Epoch="0", Pico_Producer_Seq=seq)


def rss(name):
    with open(f"/proc/{node.pid(name)}/status") as f:
        return next(int(line.split()[1]) for line in f if line.startswith("VmRSS"))


# ------------------------------------------------------------------------ faults

@test("timestamps: under concurrent appends, and over a restart, none is before that of an earlier position")
def _():
    node.start()
    put("/time")

    def writer(w):
        c = node.client()
        return [(int(a["pico-start-seq"]), int(a["pico-timestamp"])) for a in (c("POST", "/time", b"t") for _ in range(60))]
    told = sum(pool.map(writer, range(8)), [])
    node.kill_all()
    node.start()
    a = post("/time")
    told.append((int(a["pico-start-seq"]), int(a["pico-timestamp"])))
    times = [t for _, t in sorted(told)]
    same((len(times), times == sorted(times)), (481, True))
    same([(r["seq"], r["timestamp"]) for r in http("GET", "/time?bytes=0").json()], sorted(told), "and they are stored as they were told")


@test("producer state is never ahead of the data: what is called a duplicate after a kill is there")
def _():
    put("/ahead")
    for round in range(6):
        sent = pool.submit(lambda: [http("POST", "/ahead", b"%d" % s, Pico_Producer_Id="p", Pico_Producer_Epoch="0",
                                         Pico_Producer_Seq=s).status for s in range(round * 20, round * 20 + 20)])
        time.sleep(0.02 * round)
        node.kill("storaged")
        sent.result(120)
        node.wait_ready()
        for s in range(round * 20, round * 20 + 20):
            until(lambda: http("POST", "/ahead", b"%d" % s, Pico_Producer_Id="p", Pico_Producer_Epoch="0", Pico_Producer_Seq=s).status == 200,
                  60, "again: written or a duplicate")
    same([r["body"] for r in http("GET", "/ahead?bytes=0").json()], [str(s) for s in range(120)])


@test("a producer's append writes nothing to the metadata, however many producers there are")
def _():
    put("/metadata")

    def rows():
        with sqlite3.connect(f"file:{node.dir}/data/meta.db?mode=ro", uri=True) as db:
            return db.execute("SELECT max(idx) FROM pico_log").fetchone()[0]
    time.sleep(0.1)
    before = rows()
    c = node.client()
    for i in range(300):
        same(c("POST", "/metadata", b"m", Pico_Producer_Id=f"p{i}", Pico_Producer_Epoch="0", Pico_Producer_Seq="0").status, 200)
    # Packs and merges write a row each when they are due, so not one an append.
    assert rows() - before < 30, rows() - before


@test("records below the start are 410 with the start, not 400 and not served from a cache; a read without seq goes on")
def _():
    put("/trimmed")
    for i in range(4):
        post("/trimmed", b"%d" % i)
    http("GET", "/trimmed")
    post("/trimmed", b"", Pico_Trim_Seq="2")
    same(word(http("GET", "/trimmed?seq=0"), 410, "trimmed")["pico-start-seq"], "2")
    for query in "", "?seq=-1", "?seq=-7":
        same([r["body"] for r in http("GET", "/trimmed" + query).json()], ["2", "3"], query)
    a = word(http("GET", "/trimmed?seq=5"), 400, "bad_request")
    same(a["pico-next-seq"], "4", "beyond the end")


@test("bytes=0 is the server's cap, not everything")
def _():
    put("/cap")
    for i in range(6):
        post("/cap", b"c" * 1000000)
    a = http("GET", "/cap?bytes=0&format=raw")
    same((a["pico-next-seq"], len(a.body)), ("4", 4000000))
    same(http("GET", "/cap?bytes=999999999&format=raw")["pico-next-seq"], "4")
    same(http("GET", "/cap?format=raw")["pico-next-seq"], "1", "one record at least")


@test("a binary batch: a count that lies takes no memory, trailing bytes and every truncation are 400")
def _():
    put("/binary")
    record = struct.pack(">i1sI", 1, b"k", 1) + struct.pack(">I1sI1s", 1, b"h", 1, b"v") + struct.pack(">I2s", 2, b"bb")
    before = [rss("worker-http"), rss("storaged")]
    for count in 2**32 - 1, 2**31, 2**24, 2:
        post("/binary", struct.pack(">BI", 1, count) + record, 400, Content_Type=BINARY)
    for now, then in zip([rss("worker-http"), rss("storaged")], before):
        assert now - then < 20000, (now, then)
    good = struct.pack(">BI", 1, 1) + record
    for n in range(1, len(good)):
        post("/binary", good[:n], 400, Content_Type=BINARY)
    for bad in good + b"\0", b"\2" + good[1:], good.replace(b"h", b"\xff"):
        post("/binary", bad, 400, Content_Type=BINARY)
    same(http("HEAD", "/binary")["pico-next-seq"], "0")
    post("/binary", good, Content_Type=BINARY)


@test("what may be tried again is 503 with Retry-After, never 400 or 500: storaged hangs, is away, comes back")
def _():
    put("/outage")
    pid = node.pid("storaged")
    os.kill(pid, signal.SIGSTOP)
    try:
        asked = [pool.submit(http, m, "/outage" if m != "PUT" else "/outage2", b"x" if m == "POST" else None, **h)
                 for m, h in (("GET", {}), ("POST", {}), ("PUT", {}), ("DELETE", {}), ("POST", {"Pico_Producer_Id": "q", "Pico_Producer_Epoch": "0",
                                                                                               "Pico_Producer_Seq": "0"}))]
        for f in asked:
            a = f.result(60)
            same((a.status, a["retry-after"]), (503, "1"), str(a))
            assert a.json()["error"] in ("unavailable", "outcome_unknown"), a
    finally:
        os.kill(pid, signal.SIGCONT)
    node.wait_ready()
    until(lambda: http("HEAD", "/outage2").status in (200, 404), 30, "it answers again")


@test("no worker keeps what it knew of a stream: deleted and made anew through another connection it is the new one everywhere")
def _():
    clients = [node.client() for _ in range(8)]  # over both workers
    for round in range(8):
        same(clients[0]("PUT", "/stale", None, Content_Type=f"text/x{round}").status, 201)
        same(clients[round]("POST", "/stale", b"%d" % round, Pico_Producer_Id="p", Pico_Producer_Epoch="0", Pico_Producer_Seq="0")["pico-start-seq"], "0")
        for c in clients:
            a = c("GET", "/stale")
            same(([r["body"] for r in a.json()], c("HEAD", "/stale")["content-type"]), ([str(round)], f"text/x{round}"))
        if round % 2:
            clients[3]("POST", "/stale", b"", Pico_Closed="true")
            word(clients[5]("POST", "/stale", b"x"), 409, "closed")
        same(clients[7 - round]("DELETE", "/stale").status, 204)
        for c in clients:
            same(c("GET", "/stale").status, 404)


# --------------------------------------------------- where documents and code differ

@test("PUT with a body: 400 `append with POST`")
def _():
    a = word(put("/body", 400, b"x"), 400, "bad_request")
    assert "append with POST" in a.json()["message"]
    same(http("HEAD", "/body").status, 404)


@test("Pico-Expires-At: any RFC 3339 offset in, UTC Z out, compared as instants; unix ms 400")
def _():
    same(put("/expires", Pico_Expires_At="2045-06-01T02:00:00+02:00")["pico-expires-at"], "2045-06-01T00:00:00Z")
    put("/expires", 200, Pico_Expires_At="2045-05-31T20:00:00-04:00")
    put("/expires2", 400, Pico_Expires_At="2379888000000")


@test("re-PUT equality: media type, TTL, expiry instant, closed flag; alias, partitions, config only where the request names them")
def _():
    full = {"Content_Type": "text/plain", "Pico_TTL": "99", "Pico_Kafka_Topic": "equal", "Pico_Partitions": "2", "Pico_Retention_Ms": "5000"}
    put("/equal", **full)
    put("/equal", 200, **full)
    for left_out in "Pico_Kafka_Topic", "Pico_Partitions", "Pico_Retention_Ms":
        put("/equal", 200, **{k: v for k, v in full.items() if k != left_out})
    put("/equal", 200, **{**full, "Content_Type": "TEXT/plain;charset=utf-8"})
    for name, other in (("Content_Type", "text/html"), ("Pico_TTL", "98"), ("Pico_Kafka_Topic", "other"), ("Pico_Partitions", "3"),
                        ("Pico_Retention_Ms", "5001"), ("Pico_Closed", "true")):
        word(put("/equal", 409, **{**full, name: other}), 409, "conflict")
    for left_out in "Content_Type", "Pico_TTL":
        word(put("/equal", 409, **{k: v for k, v in full.items() if k != left_out}), 409, "conflict")
    # The flag it was created with: one that was closed since is still that stream.
    put("/equal2")
    post("/equal2", b"", Pico_Closed="true")
    same(put("/equal2", 200)["pico-closed"], "true")


@test("request type: not compared with the stream's; JSON streams are not parsed")
def _():
    put("/json", Content_Type="application/json")
    post("/json", b'{"no json', Content_Type="text/csv")
    post("/json", b"[1,2]", Content_Type="application/json")
    post("/json", b"bare")
    same([r["body"] for r in http("GET", "/json").json()], ['{"no json', "[1,2]", "bare"], "one record a request")


@test("producer seq: one a request, not one a record")
def _():
    put("/seq")
    batch = json.dumps({"records": [{"body": str(i)} for i in range(5)]}).encode()
    for seq in 0, 1:
        a = post("/seq", batch, Content_Type=JSON, Pico_Producer_Id="p", Pico_Producer_Epoch="0", Pico_Producer_Seq=seq)
        same((a["pico-start-seq"], a["pico-next-seq"]), (str(5 * seq), str(5 * seq + 5)))
    word(produce("/seq", 10, 409), 409, "sequence_gap")
    same(produce("/seq", 2)["pico-start-seq"], "10")


@test("Pico-Cursor: live reads only; it is no position")
def _():
    same(http("GET", "/seq")["pico-cursor"], None)
    same(http("GET", "/seq?cursor=99999999999")["pico-cursor"], None)
    a = http("GET", "/seq?live=long-poll&seq=3&cursor=5")
    same((a["pico-cursor"] is not None, a.json()[0]["seq"]), (True, 3))


@test("SSE: a data event a chunk, its id the next position, each followed by a control event")
def _():
    e = Events(node.port, "/seq?live=sse")
    name, data = e.next()
    same((name, len(json.loads(data)), e.id), ("data", 11, "11"))
    name, data = e.next()
    same((name, json.loads(data), e.id), ("control", {"next_seq": 11, "up_to_date": True}, "11"))
    e.close()


@test("TTL: of the whole stream after its last use, not of records")
def _():
    put("/ttl", Pico_TTL="3")
    post("/ttl", b"first")
    began = time.monotonic()
    while time.monotonic() - began < 7:
        post("/ttl", b"x")
        time.sleep(0.2)
    same(http("GET", "/ttl?count=1").json()[0]["body"], "first", "older than the TTL and there")
    until(lambda: http("HEAD", "/ttl").status == 404, 60, "unused")


@test("stream detail: state is opened, closed or null; owner fields may be null")
def _():
    one, many = node.admin("/admin/streams/seq").json(), node.admin("/admin/streams/equal").json()
    same((one["state"], one["ownerNodeId"]), ("opened", 1))
    assert node.admin("/admin/streams/equal2").json()["state"] in ("opened", "closed", None)
    same((many["ownerNodeId"], many["ownerAdvertisedAddress"]), (None, None), "of several partitions")


@test("environment: every option has PICO_NAME")
def _():
    def shown(env):
        out = subprocess.run([os.path.join(tap.build, "pico"), "serve", "--show-config"], env={**os.environ, **env}, capture_output=True, timeout=60)
        return {m[1]: (m[2], m[3]) for m in re.finditer(r"^(\w+) = (.*?)  # (.*)$", out.stdout.decode(), re.M)}, out.stderr.decode()
    default, _ = shown({})
    assert len(default) > 70, default
    text = {"protocol": "ds", "routing": "local", "log_level": "debug", "log_format": "json", "meta_url": "sqlite:m.db", "storage": "mem://x",
            "wal": "mem://y", "auto_create_topics": "off", "auth": "required", "kafka_advertise": "h:9", "ds_root": "/x", "cors_allow_origin": "*"}
    for name, (value, origin) in default.items():
        if name in ("config", "check_config", "show_config"):
            continue
        number = value if value.isdigit() else None
        other = text.get(name) or number or {"off": "on", "on": "off"}.get(value) or ("/dev/null" if not value else value)
        got, err = shown({"PICO_" + name.upper(): other})
        taken = got.get(name, ("", origin))[1] != origin
        assert taken or "--" + name.replace("_", "-") in err, (name, other, got.get(name), err)


@test("signals: SIGINT drains as SIGTERM does")
def _():
    for sig in signal.SIGTERM, signal.SIGINT:
        waits = pool.submit(http, "GET", "/seq?live=long-poll&seq=now")
        e = Events(node.port, "/seq?live=sse&seq=now")
        e.next()
        until(lambda: re.search(r"^pico_waiters\S* [1-9]", node.admin("/metrics").body.decode(), re.M), 30, "they wait")
        os.kill(node.process.pid, sig)
        same(waits.result(60).status, 204, "a parked poll is answered")
        same(e.next(), None, "events end whole")
        same(node.process.wait(60), 0, sig.name)
        node.start()
        same(http("HEAD", "/seq")["pico-next-seq"], "11")
    same(node.stop(), 0, "exit code")


tap.run()
