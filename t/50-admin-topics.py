#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""GET /admin/topics, /admin/streams/NAME, /admin/configs/NAME (and PATCH), /admin/groups and /admin/groups/GROUP: what they
say against what was done, page by page; what is refused; and `pico admin topics`, `configs` and `groups` over them."""
import json, os, struct, subprocess, urllib.parse

import kafka_wire, tap
from node import Client, Node
from tap import same, test

pico_path = os.path.join(tap.build, "pico")
node = Node("--retention-ms=777", kafka=True)
NAMES = [f"/t{i}" for i in range(7)] + ["/tä x"]


def pico(*args, code=0):
    r = subprocess.run([pico_path, *args, "--admin", f"http://127.0.0.1:{node.admin_port}"], capture_output=True, text=True,
                       timeout=60)
    assert r.returncode == code, f"pico {args}: exit {r.returncode}, {r.stdout} {r.stderr}"
    return r.stdout if code == 0 else r.stderr


def get(path, method="GET", status=200, body=None):
    c = Client(node.admin_port, 20)
    try:
        a = c(method, path, body)
    finally:
        c.close()
    same(a.status, status, path)
    return a.json() if a.body else None


def pages(path, name, cursor, limit):
    """Everything, `limit` a page, and how many pages."""
    all_, after, n = [], "", 0
    while True:
        page = get(f"{path}?limit={limit}&start_after={urllib.parse.quote(after)}")
        n += 1
        assert len(page[name]) <= limit and (not page["hasMore"] or len(page[name]) == limit), page
        all_ += page[name]
        if not page["hasMore"]:
            return all_, n
        after = all_[-1][cursor]


def client():
    return kafka_wire.Client(node.kafka_port)


def commit(c, group, offsets):
    """offsets: {(topic, partition): offset}; of no member."""
    topics = {}
    for (topic, partition), offset in offsets.items():
        topics.setdefault(topic, []).append({"partition_index": partition, "committed_offset": offset,
                                             "committed_leader_epoch": -1, "committed_metadata": f"m{offset}"})
    a = c.call("OffsetCommit", 8, group_id=group, generation_id_or_member_epoch=-1, member_id="",
               topics=[{"name": t, "partitions": p} for t, p in topics.items()])
    same({p.error_code for t in a.topics for p in t.partitions}, {0}, "commit")


@test("topics: each once in order of name, with partitions, records and bytes, in pages")
def _():
    node.start()
    for i, name in enumerate(NAMES):
        same(node.http("PUT", urllib.parse.quote(name), Pico_Partitions=i % 3 + 1).status, 201)
    for _ in range(5):
        same(node.http("POST", "/t4?partition=1", b"x" * 100).status, 200)
    with client() as c:
        same([r.error_code for r in c.call("DeleteRecords", 2, timeout_ms=10000, topics=[
            {"name": "t4", "partitions": [{"partition_index": 1, "offset": 2}]}]).topics[0].partitions], [0], "trim")
    for limit in (1, 3, 1000):
        rows, n = pages("/admin/topics", "topics", "name", limit)
        stored = [urllib.parse.quote(x) for x in NAMES]
        same([r["name"] for r in rows], sorted(stored), f"limit {limit}")
        same(n, -(-len(NAMES) // limit), "pages")
    by_name = {r["name"]: r for r in rows}
    same({k: by_name["/t4"][k] for k in ("kafkaTopic", "partitions", "records", "configs", "closed")},
         {"kafkaTopic": "t4", "partitions": 2, "records": 3, "configs": 0, "closed": False})
    assert 5 * 100 < by_name["/t4"]["appendedBytes"] < 5 * 300, by_name["/t4"]
    same([r["name"] for r in get("/admin/topics?prefix=/t4")["topics"]], ["/t4"], "prefix")


@test("streams: one topic in any spelling, its partitions and settings; nothing is opened for it")
def _():
    for spelling in ("t4", "/t4", "%2Ft4"):
        s = get("/admin/streams/" + spelling)
        same((s["name"], s["kafkaTopic"], s["contentType"], s["closed"], s["ttlSeconds"], s["expiresAtMs"], s["pendingTransfer"]),
             ("/t4", "t4", "application/octet-stream", False, None, None, None), spelling)
    same([(p["partition"], p["ownerNodeId"], p["epoch"], p["startOffset"], p["endOffset"], p["records"]) for p in s["partitions"]],
         [(0, 1, 0, 0, 0, 0), (1, 1, 0, 2, 5, 3)])
    same((s["streamId"], s["startOffset"], s["ownerNodeId"]), (None, None, None), "with several partitions")
    one = get("/admin/streams/t0")
    same((one["ownerNodeId"], one["ownerLocal"], one["state"], one["epoch"], one["startOffset"], one["endOffset"]),
         (1, True, "opened", 0, 0, 0))
    same(one["ownerAdvertisedAddress"], node.url, "address")
    same((one["streamId"], len(one["topicId"])), (one["partitions"][0]["logId"], 32))
    same(get("/admin/streams/nothing", status=404)["error"], "not_found")
    get("/admin/streams/", status=400)


@test("configs: every one with value, source and default; changed together or not at all")
def _():
    rows = {c["name"]: c for c in get("/admin/configs/t1")["configs"]}
    same([rows["retention.ms"][k] for k in ("value", "source", "default", "type", "acts")], ["777", "node", "777", "long", True])
    same([rows["segment.bytes"][k] for k in ("value", "source", "acts")], ["1073741824", "default", False])
    change = {"retention.ms": 5000, "cleanup.policy": "compact", "preallocate": True}
    rows = {c["name"]: c for c in get("/admin/configs/t1", "PATCH", body=json.dumps(change).encode())["configs"]}
    same([(rows[k]["value"], rows[k]["source"]) for k in change], [("5000", "topic"), ("compact", "topic"), ("true", "topic")])
    same(get("/admin/streams/t1")["configs"], {"cleanup.policy": "compact", "preallocate": "true", "retention.ms": "5000"})
    for bad in (b'{"retention.ms":-2}', b'{"retention.ms":"9","no.such":"1"}', b"{", b"[]", b"{}", b'{"retention.ms":[1]}', b'{"a":1} x',
                b'{"pico.schema.validate":true}', b'{"retention.ms":"1","retention.ms":"2"}', b'{"x\\u0000":"1"}'):
        assert get("/admin/configs/t1", "PATCH", 400, bad)["message"], bad
    same(get("/admin/streams/t1")["configs"]["retention.ms"], "5000", "nothing of a refused change")
    get("/admin/configs/nothing", "PATCH", 404, b'{"retention.ms":"1"}')
    rows = {c["name"]: c for c in get("/admin/configs/t1", "PATCH", body=b'{"retention.ms":null,"cleanup.policy":null}')["configs"]}
    same((rows["retention.ms"]["value"], rows["cleanup.policy"]["source"]), ("777", "default"), "defaults again")


def assignment(topic, *partitions):
    return struct.pack(">hih", 0, 1, len(topic)) + topic + struct.pack(f">i{len(partitions)}ii", len(partitions), *partitions, -1)


def join(c, group):
    ask = lambda member: c.call("JoinGroup", 7, group_id=group, session_timeout_ms=30000, rebalance_timeout_ms=30000,
                                member_id=member, group_instance_id="seat-1", protocol_type="consumer",
                                protocols=[{"name": "range", "metadata": struct.pack(">hih2si", 0, 1, 2, b"t4", -1)}])
    a = ask("")
    a = ask(a.member_id) if a.error_code == 79 else a
    same(a.error_code, 0, "join")
    x = c.call("SyncGroup", 5, group_id=group, generation_id=a.generation_id, member_id=a.member_id, group_instance_id="seat-1",
               assignments=[{"member_id": a.member_id, "assignment": assignment(b"t4", 0, 1)}])
    same(x.error_code, 0, "sync")
    return a.member_id


@test("groups: each once, in pages; one with its members, committed offsets and lag per partition")
def _():
    with client() as c:
        commit(c, "a/b c", {("t4", 1): 4, ("t4", 0): 0, ("t1", 1): 0, ("t2", 2): 0})
        for i in range(5):
            commit(c, f"g{i}", {("t0", 0): 0})
        commit(c, "behind", {("t4", 1): 1})         # below the start, which is 2
        commit(c, "beyond", {("t4", 1): 90})
        member = join(c, "g4")
        for limit in (1, 3, 1000):
            rows, n = pages("/admin/groups", "groups", "id", limit)
            same([r["group"] for r in rows], ["a/b c", "behind", "beyond", "g0", "g1", "g2", "g3", "g4"], f"limit {limit}")
        same((rows[0]["state"], rows[0]["id"]), ("Empty", b"a/b c".hex()))
        same((rows[-1]["state"], rows[-1]["protocolType"]), ("Stable", "consumer"))
        g = get("/admin/groups/g4")
        same((g["group"], g["state"], g["protocolType"], g["protocol"]), ("g4", "Stable", "consumer", "range"))
        same([(m["memberId"], m["instanceId"], m["clientId"], m["assignment"]) for m in g["members"]],
             [(member, "seat-1", "t", [{"topic": "t4", "partitions": [0, 1]}])])
    g = get("/admin/groups/a%2Fb%20c")
    same((g["state"], g["members"], g["protocol"]), ("Empty", [], None))
    want = {("/t4", 1): (4, "m4", 2, 5, 1), ("/t4", 0): (0, "m0", 0, 0, 0), ("/t1", 1): (0, "m0", 0, 0, 0),
            ("/t2", 2): (0, "m0", 0, 0, 0)}
    for limit in (1, 2, 100):
        rows, n = pages("/admin/groups/a%2Fb%20c", "offsets", "id", limit)
        same({(o["topic"], o["partition"]): (o["offset"], o["metadata"], o["startOffset"], o["endOffset"], o["lag"]) for o in rows},
             want, f"limit {limit}")
        same((len(rows), n), (4, -(-4 // limit)), "each once")
    same([get(f"/admin/groups/{g}")["offsets"][0]["lag"] for g in ("behind", "beyond")], [3, 0], "lag counts what is there")
    same(get("/admin/groups/none", status=404)["error"], "not_found")


@test("a group's offsets of a topic without a Kafka name stand there, too")
def _():
    same(node.http("PATCH", "/_streams/t0", b'{"kafkaTopic":null}').status, 200)
    same([(o["topic"], o["lag"]) for o in get("/admin/groups/g1")["offsets"]], [("/t0", 0)])


@test("what is wrong is refused with words; other methods are not allowed")
def _():
    for path in ("/admin/topics?limit=x", "/admin/groups?start_after=zz", "/admin/groups?start_after=abc", "/admin/groups?limit=01",
                 "/admin/groups/", "/admin/groups/g1?start_after=1.2", "/admin/groups/" + "x" * 250, "/admin/configs/",
                 f"/admin/groups/g1?start_after={'0' * 32}.99999999999"):
        same(list(get(path, status=400)), ["error", "message"], path)
    for path, method, allow in (("/admin/topics", "POST", "GET, HEAD, OPTIONS"), ("/admin/groups/g1", "DELETE", "GET, HEAD, OPTIONS"),
                                ("/admin/configs/t1", "PUT", "GET, HEAD, PATCH, OPTIONS")):
        a = node.admin(path, method)
        same((a.status, a["Allow"]), (405, allow), path)
    same(node.http("GET", "/admin/topics").status, 404, "on the stream listener")


@test("pico admin topics, configs, groups: tables, JSON, limits, changes, errors")
def _():
    lines = pico("admin", "topics").splitlines()
    same(lines[0].split()[:4], ["name", "kafkaTopic", "partitions", "records"])
    same([x.split()[0] for x in lines[1:]], sorted(urllib.parse.quote(x) for x in NAMES))
    same([json.loads(x)["name"] for x in pico("--json", "admin", "topics", "--limit", "2", "--start-after", "/t2").splitlines()],
         ["/t3", "/t4"])
    text = pico("admin", "topics", "t4")
    assert "name: /t4\n" in text and "kafkaTopic: t4\n" in text, text
    same([x.split()[4:7] for x in text.splitlines()[-2:]], [["0", "0", "0"], ["2", "5", "3"]])
    same(len(json.loads(pico("--json", "admin", "topics", "t4"))["partitions"]), 2)
    rows = {x.split()[0]: x.split()[1:4] for x in pico("admin", "configs", "t2", "retention.ms=60000", "segment.ms=5").splitlines()}
    same((rows["retention.ms"], rows["segment.ms"][1]), (["60000", "topic", "777"], "topic"))
    pico("admin", "configs", "t2", "--reset", "retention.ms,segment.ms")
    same(get("/admin/streams/t2")["configs"], {})
    assert "retention.ms" in pico("admin", "configs", "t2", "retention.ms=never", code=1)
    pico("admin", "configs", code=2)
    same([x.split()[0] for x in pico("admin", "groups", "--limit", "3").splitlines()[2:]], ["behind", "beyond"])
    text = pico("admin", "groups", "a/b c")
    assert text.startswith("group: a/b c\nstate: Empty\n"), text
    same(sorted(x.split()[:6] for x in text.splitlines() if x.startswith("/t4")),
         [["/t4", "0", "0", "0", "0", "0"], ["/t4", "1", "4", "2", "5", "1"]])
    same([len(json.loads(x)["offsets"]) for x in pico("--json", "admin", "groups", "a/b c", "--limit", "3").splitlines()], [3])
    assert "no such stream" in pico("admin", "topics", "nothing", code=3)
    assert "group" in pico("admin", "groups", "nothing", code=3)
    pico("admin", "topics", "--what", code=2)


@test("a group of before the restart: its offsets and lag are read back from its log")
def _():
    same(node.stop(), 0)
    node.start()
    same([(o["offset"], o["lag"]) for o in get("/admin/groups/behind")["offsets"]], [(1, 3)])
    same({g["state"] for g in get("/admin/groups")["groups"]}, {"Empty"})
    same(get("/admin/topics?prefix=/t1")["topics"][0]["records"], 0)
    same(node.stop(), 0)


tap.run()
