#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Consumer groups over HTTP: members that share streams, rebalances, commits that Kafka's clients see and the other way
round, what is refused, and what becomes of a group when a worker or storaged is killed."""
import concurrent.futures, http.client, json, struct, subprocess, threading, time

import kafka_wire, tap
from node import Node
from tap import same, test, until

node = Node("--http-workers=2", "--group-max-session-timeout-ms=60000", "--max-group-members=20", kafka=True)
ask_node = node.http
pool = concurrent.futures.ThreadPoolExecutor(32)


def ask(method, path, status, body=None):
    a = ask_node(method, "/_groups" + path, None if body is None else json.dumps(body).encode())
    same(a.status, status, f"{method} {path} {body} {a.body}")
    return a.json() if a.body else None


def refused(method, path, status, word, body=None):
    a = ask(method, path, status, body)
    same(a["error"], word, f"{method} {path} {body} {a}")
    return a["message"]


def join(group, *streams, member=None, status=200, **more):
    body = {"subscription": list(streams), **more}
    if member is not None:
        body["memberId"] = member
    return ask("POST", f"/{group}/members", status, body)


def later(group, *streams, **more):
    """A join, known to wait."""
    before = len(members(group))
    known = more.get("member") is not None
    future = pool.submit(join, group, *streams, **more)
    until(lambda: (known and state(group) == "PreparingRebalance") or len(members(group)) > before, 30, "it joins")
    return future


def beat(group, member, generation, status=204, **more):
    return ask("POST", f"/{group}/members/{member}/heartbeat", status, {"generation": generation, **more})


def leave(group, member, status=204):
    return ask("DELETE", f"/{group}/members/{member}", status)


def described(group):
    a = ask_node("GET", "/_groups/" + group)
    return a.json() if a.status == 200 else {"state": "none", "members": []}


def members(group):
    return described(group)["members"]


def state(group):
    return described(group)["state"]


def commit(group, offsets, status=204, **more):
    return ask("PUT", f"/{group}/offsets", status, {"offsets": offsets, **more})


def offsets(group, query=""):
    return ask("GET", f"/{group}/offsets{query}", 200)["offsets"]


def put(name, **headers):
    same(ask_node("PUT", name, **headers).status, 201, name)


def post(name, body):
    same(ask_node("POST", name, body).status, 200, name)


def pair(group, *streams, **more):
    """A stable group of two: their joins' answers, the leader's first."""
    a = join(group, *streams, **more)
    b = later(group, *streams, **more)
    again = pool.submit(join, group, *streams, member=a["memberId"], **more)
    return again.result(30), b.result(30)


@test("one member: all it subscribed to; shown, listed, kept by heartbeats, gone when it leaves")
def _():
    node.start()
    for name in "/a", "/b", "/c", "/d":
        put(name)
    refused("GET", "/one", 404, "not_found")
    a = join("one", "/b", "/a", "/b", clientId="me")
    same((a["assignment"], a["generation"]), (["/a", "/b"], 1))
    same(a["members"], [{"memberId": a["memberId"], "subscription": ["/a", "/b"], "assignment": ["/a", "/b"]}])
    same(ask("GET", "/one", 200), {"group": "one", "state": "Stable", "generation": 1, "protocolType": "pico", "members": [
        {"memberId": a["memberId"], "instanceId": None, "clientId": "me", "subscription": ["/a", "/b"], "assignment": ["/a", "/b"]}]})
    same({"group": "one", "state": "Stable"} in ask("GET", "", 200)["groups"], True)
    same(ask("GET", f"/one/members/{a['memberId']}?generation=1", 200), {"generation": 1, "assignment": ["/a", "/b"]})
    beat("one", a["memberId"], 1)
    leave("one", a["memberId"])
    same((state("one"), members("one")), ("Empty", []))
    refused("POST", f"/one/members/{a['memberId']}/heartbeat", 404, "unknown_member", {"generation": 1})
    refused("DELETE", f"/one/members/{a['memberId']}", 404, "unknown_member")
    refused("GET", f"/one/members/{a['memberId']}?generation=1", 404, "unknown_member")


@test("two members: a join begins a rebalance; streams go to one each, whole; who leaves gives them back")
def _():
    a = join("two", "/a", "/b", "/c")
    b = later("two", "/a", "/b", "/c")
    same(state("two"), "PreparingRebalance")
    refused("POST", f"/two/members/{a['memberId']}/heartbeat", 409, "rebalance_in_progress", {"generation": 1})
    refused("GET", f"/two/members/{a['memberId']}?generation=1", 409, "rebalance_in_progress")
    a2 = join("two", "/a", "/b", "/c", member=a["memberId"])
    b = b.result(30)
    same((a2["memberId"], a2["generation"], b["generation"]), (a["memberId"], 2, 2))
    first, second = sorted((a2, b), key=lambda m: m["memberId"])
    same((first["assignment"], second["assignment"]), (["/a", "/c"], ["/b"]), "dealt by the rule")
    same((len(a2["members"]), b["members"]), (2, []), "the leader is told of all")
    for m in a2, b:
        beat("two", m["memberId"], 2)
        same(ask("GET", f"/two/members/{m['memberId']}?generation=2", 200)["assignment"], m["assignment"])
        refused("POST", f"/two/members/{m['memberId']}/heartbeat", 409, "illegal_generation", {"generation": 1})
        refused("GET", f"/two/members/{m['memberId']}?generation=1", 409, "illegal_generation")
    leave("two", a["memberId"])
    refused("POST", f"/two/members/{b['memberId']}/heartbeat", 409, "rebalance_in_progress", {"generation": 2})
    b = join("two", "/a", "/b", "/c", member=b["memberId"])
    same((b["assignment"], b["generation"]), (["/a", "/b", "/c"], 3))
    leave("two", b["memberId"])


@test("each its own subscription; a stream that is not there is assigned like any")
def _():
    a = join("own", "/a", "/b")
    b = later("own", "/b", "/nothing")
    a = join("own", "/a", "/b", member=a["memberId"])
    b = b.result(30)
    same((a["assignment"], b["assignment"]) in ((["/a", "/b"], ["/nothing"]), (["/a"], ["/b", "/nothing"])), True, f"{a} {b}")
    # /a and /nothing have one subscriber each and come first; /b goes to the lower id
    same("/b" in min(a, b, key=lambda m: m["memberId"])["assignment"], True)


@test("a session that ends makes a rebalance")
def _():
    a, b = pair("end", "/a", "/b", sessionTimeoutMs=1000)
    same(sorted(a["assignment"] + b["assignment"]), ["/a", "/b"])
    # a alone goes on
    until(lambda: ask_node("POST", f"/_groups/end/members/{a['memberId']}/heartbeat",
                       json.dumps({"generation": a["generation"]}).encode()).status == 409 or None, 30, "the other is missed")
    a = join("end", "/a", "/b", member=a["memberId"], sessionTimeoutMs=1000)
    same(a["assignment"], ["/a", "/b"])
    until(lambda: state("end") == "Empty", 30, "nobody beats any more")


@test("a static member comes back under its instance id; a second one with it fences the first")
def _():
    a = join("static", "/a", instanceId="i")
    again = join("static", "/a", instanceId="i")
    same((again["generation"], again["assignment"]), (1, ["/a"]), "no rebalance")
    same(again["memberId"] != a["memberId"], True)
    same([m["instanceId"] for m in members("static")], ["i"])
    refused("POST", f"/static/members/{a['memberId']}/heartbeat", 403, "fenced", {"generation": 1, "instanceId": "i"})
    beat("static", again["memberId"], 1, instanceId="i")
    same(ask("GET", f"/static/members/{again['memberId']}?generation=1&instanceId=i", 200)["assignment"], ["/a"])
    refused("DELETE", f"/static/members/{a['memberId']}?instanceId=i", 403, "fenced")
    ask("DELETE", f"/static/members/{again['memberId']}?instanceId=i", 204)
    same(members("static"), [])


@test("who goes away while it joins is no member")
def _():
    a = join("away", "/a", sessionTimeoutMs=60000)
    body = json.dumps({"subscription": ["/a"], "sessionTimeoutMs": 60000}).encode()
    raw = http.client.HTTPConnection("127.0.0.1", node.port)
    raw.request("POST", "/_groups/away/members", body)
    until(lambda: len(members("away")) == 2, 30, "it is there")
    raw.close()
    until(lambda: len(members("away")) == 1, 30, "it is gone")
    a = join("away", "/a", member=a["memberId"], sessionTimeoutMs=60000)
    same(a["assignment"], ["/a"])
    leave("away", a["memberId"])


@test("bad requests: each is refused with what to do, and makes no group")
def _():
    for body, text in (({}, "subscription"), ({"subscription": "x"}, "array"), ({"subscription": [1]}, "array of strings"),
                       ({"subscription": ["a"]}, "subscription"), ({"subscription": ["/a/../b"]}, "subscription"),
                       ({"subscription": ["/a"], "what": 1}, "what"), ({"subscription": ["/a"], "generation": 1}, "generation"),
                       ({"subscription": ["/a"], "memberId": 1}, "memberId"), ({"subscription": ["/a"], "memberId": "m" * 513}, "memberId"),
                       ({"subscription": ["/a"], "sessionTimeoutMs": -1}, "sessionTimeoutMs"),
                       ({"subscription": ["/a"], "sessionTimeoutMs": 1.5}, "sessionTimeoutMs"), ([], "object")):
        assert text in refused("POST", "/bad/members", 400, "bad_request", body), (body, text)
    for text in b"", b"{", b'{"subscription":["/a"]} x', b'{"subscription":["\\ud800"]}':
        same(ask_node("POST", "/_groups/bad/members", text).status, 400, text)
    same(ask_node("POST", "/_groups/bad/members", b'{"subscription":["/a"]}', Content_Encoding="gzip").status, 415)
    refused("GET", "/bad", 404, "not_found")
    for ms in 999, 60001:
        assert "sessionTimeoutMs" in refused("POST", "/bad/members", 400, "bad_request", {"subscription": ["/a"], "sessionTimeoutMs": ms})
    refused("POST", "/bad/members", 404, "unknown_member", {"subscription": ["/a"], "memberId": "nobody"})
    refused("POST", "/" + "g" * 250 + "/members", 400, "bad_request", {"subscription": ["/a"]})
    refused("POST", "//members", 400, "bad_request", {"subscription": ["/a"]})
    refused("GET", "/bad/members/m", 400, "bad_request")
    refused("GET", "/bad/members/m?generation=-1", 400, "bad_request")
    refused("POST", "/bad/members/m/heartbeat", 400, "bad_request", {})
    refused("GET", "/bad/what", 404, "not_found")
    refused("GET", "/bad/members/m/heartbeat/more", 404, "not_found")
    for method, path, allow in (("PUT", "", "GET, HEAD, OPTIONS"), ("POST", "/bad", "GET, HEAD, OPTIONS"), ("GET", "/bad/members", "POST, OPTIONS"),
                                ("PATCH", "/bad/members/m", "GET, DELETE, HEAD, OPTIONS"), ("DELETE", "/bad/offsets", "GET, PUT, HEAD, OPTIONS")):
        a = ask_node(method, "/_groups" + path)
        same((a.status, a["allow"], a.json()["error"]), (405, allow, "method_not_allowed"), path)
        a = ask_node("OPTIONS", "/_groups" + path)
        same((a.status, a["access-control-allow-methods"]), (204, allow))
    a = ask_node("HEAD", "/_groups/two")
    same((a.status, a.body, a["content-type"]), (200, b"", "application/json"))
    for method in "PUT", "DELETE":
        same(ask_node(method, "/_groupsx/a").status, 201 if method == "PUT" else 204, "only by whole segments")


@test("ids are any bytes, percent-encoded")
def _():
    a = join("a%2Fb%20%25", "/a")
    same(ask("GET", "/a%2fb%20%25", 200)["group"], "a/b %")
    same("a/b %" in [g["group"] for g in ask("GET", "", 200)["groups"]], True)
    leave("a%2Fb%20%25", a["memberId"])
    b = join("g" * 249, "/a")
    leave("g" * 249, b["memberId"])


@test("bounds: members of a group")
def _():
    first = [pool.submit(join, "full", "/a", rebalanceTimeoutMs=60000) for _ in range(20)]
    until(lambda: len(members("full")) + sum(f.done() for f in first) >= 20 and len(members("full")) == 20, 30, "twenty")
    assert "bound" in refused("POST", "/full/members", 429, "capacity_exceeded", {"subscription": ["/a"]})


@test("commits: without a member while there is none, of a member in its generation; a stream's two forms")
def _():
    put("/p", Pico_Partitions="4")
    same(offsets("never"), {})
    commit("c", {"/a": {"position": 10, "metadata": "m é"}, "/p": {"partitions": {"0": {"position": 1}, "3": {"position": 7, "metadata": "x"}}}})
    want = {"/a": {"position": 10, "metadata": "m é"},
            "/p": {"partitions": {"0": {"position": 1, "metadata": ""}, "3": {"position": 7, "metadata": "x"}}}}
    same(offsets("c"), want)
    same(offsets("c", "?stream=/a"), {"/a": want["/a"]})
    same(offsets("c", "?stream=/nothing&stream=%2Fp"), {"/p": want["/p"]})
    same(offsets("c", "?stream=/b"), {})
    commit("c", {"/a": {"partitions": {"0": {"position": 11}}}})
    same(offsets("c", "?stream=/a"), {"/a": {"position": 11, "metadata": ""}}, "partition 0 of one is the short form")
    commit("c", {})
    a = join("c", "/a")
    refused("PUT", "/c/offsets", 404, "unknown_member", {"offsets": {"/a": {"position": 1}}})
    commit("c", {"/a": {"position": 12}}, memberId=a["memberId"], generation=1)
    refused("PUT", "/c/offsets", 409, "illegal_generation", {"offsets": {"/a": {"position": 1}}, "memberId": a["memberId"], "generation": 2})
    refused("PUT", "/c/offsets", 404, "unknown_member", {"offsets": {"/a": {"position": 1}}, "memberId": "m", "generation": 1})
    same(offsets("c", "?stream=/a")["/a"]["position"], 12)
    leave("c", a["memberId"])


@test("a commit that is wrong in one place changes nothing")
def _():
    good = {"/a": {"position": 99}}
    for bad, word, status in (
            ({"/nothing": {"position": 1}}, "not_found", 404), ({"/p": {"position": 1}}, "partition_required", 400),
            ({"/p": {"partitions": {"4": {"position": 1}}}}, "bad_request", 400), ({"/b": {"partitions": {"1": {"position": 1}}}}, "bad_request", 400),
            ({"/b": {"position": -1}}, "bad_request", 400), ({"/b": {"position": 1.0}}, "bad_request", 400), ({"/b": {}}, "bad_request", 400),
            ({"/b": {"position": 9223372036854775808}}, "bad_request", 400), ({"/b": 1}, "bad_request", 400), ({"b": {"position": 1}}, "bad_request", 400),
            ({"/b": {"position": 1, "metadata": 1}}, "bad_request", 400), ({"/b": {"position": 1, "x": 1}}, "bad_request", 400),
            ({"/b": {"partitions": {"x": {"position": 1}}}}, "bad_request", 400), ({"/b": {"partitions": {"0": {}}}}, "bad_request", 400),
            ({"/b": {"partitions": [], "position": 1}}, "bad_request", 400), ({"/b": {"partitions": {"0": {"position": 1}}, "x": 1}}, "bad_request", 400)):
        refused("PUT", "/c/offsets", status, word, {"offsets": {**good, **bad}})
    for more in {"memberId": "m"}, {"generation": 1}, {"x": 1}:
        refused("PUT", "/c/offsets", 400, "bad_request", {"offsets": good, **more})
    refused("PUT", "/c/offsets", 400, "bad_request", {"offsets": []})
    refused("PUT", "/c/offsets", 400, "bad_request", {})
    refused("PUT", "/c/offsets", 400, "bad_request", {"offsets": {f"/{i}": {"position": 1} for i in range(10001)}})
    assert "metadata" in refused("PUT", "/c/offsets", 400, "bad_request", {"offsets": {"/b": {"position": 1, "metadata": "m" * 4097}}})
    same(offsets("c", "?stream=/a&stream=/b"), {"/a": {"position": 12, "metadata": ""}})
    commit("c", {"/b": {"position": 0, "metadata": "m" * 4096}})
    same(len(offsets("c", "?stream=/b")["/b"]["metadata"]), 4096)


@test("offsets go with their stream; a new one of that name has none; another Kafka name changes nothing")
def _():
    put("/gone")
    commit("c", {"/gone": {"position": 5}})
    same(ask_node("PATCH", "/_streams/gone", b'{"kafkaTopic":"elsewhere"}').status, 200)
    same(offsets("c", "?stream=/gone"), {"/gone": {"position": 5, "metadata": ""}})
    same(ask_node("DELETE", "/gone").status, 204)
    same(offsets("c", "?stream=/gone"), {})
    put("/gone")
    same(offsets("c", "?stream=/gone"), {})


@test("many offsets come in pages, whole")
def _():
    names = [f"/many/{i:04d}" for i in range(1200)]
    c = node.client()
    for name in names:
        same(c("PUT", name).status, 201, name)
    commit("pages", {name: {"position": i, "metadata": "m" * 2400} for i, name in enumerate(names)})
    got = offsets("pages")
    same((len(got), all(got[name]["position"] == i for i, name in enumerate(names))), (1200, True))


# --------------------------------------------------------------------- with Kafka

def subscription(topic):
    return struct.pack(">hih", 0, 1, len(topic)) + topic.encode() + struct.pack(">i", -1)


def kafka_join(c, group, protocol_type, name, metadata):
    fields = {"session_timeout_ms": 10000, "rebalance_timeout_ms": 10000, "member_id": "", "protocol_type": protocol_type,
              "protocols": [{"name": name, "metadata": metadata}]}
    return c.call("JoinGroup", 3, group_id=group, **fields)


def kafka_fetch(group, topic):
    with kafka_wire.Client(node.kafka_port) as c:
        p = c.call("OffsetFetch", 7, group_id=group, topics=[{"name": topic, "partition_indexes": [0]}]).topics[0].partitions[0]
        return p.committed_offset, p.committed_leader_epoch, p.metadata


@test("a group has members of one kind: Kafka's 23 there, 409 inconsistent_protocol here")
def _():
    a = join("mixed", "/a")
    with kafka_wire.Client(node.kafka_port) as c:
        same(kafka_join(c, "mixed", "consumer", "range", subscription("a")).error_code, 23)
        same([g.protocol_type for g in c.call("ListGroups", 4, states_filter=[]).groups if g.group_id == "mixed"], ["pico"])
        leave("mixed", a["memberId"])
        k = kafka_join(c, "mixed", "consumer", "range", subscription("a"))
        same(k.error_code, 0, "it is empty: the next member decides")
        refused("POST", "/mixed/members", 409, "inconsistent_protocol", {"subscription": ["/a"]})
        refused("GET", f"/mixed/members/{k.member_id}?generation={k.generation_id}", 409, "inconsistent_protocol")
        d = ask("GET", "/mixed", 200)
        same((d["protocolType"], [m["memberId"] for m in d["members"]], "assignment" in d["members"][0]), ("consumer", [k.member_id], False))
        same(c.call("LeaveGroup", 1, group_id="mixed", member_id=k.member_id).error_code, 0)
        # A member of Kafka's protocol that says it is of this kind, with anything in its metadata.
        k = kafka_join(c, "strange", "pico", "streams", b"\xff{")
        b = pool.submit(join, "strange", "/a")
        until(lambda: len(members("strange")) == 2, 30, "both")
        c.send("JoinGroup", 3, group_id="strange", session_timeout_ms=10000, rebalance_timeout_ms=10000, member_id=k.member_id,
               protocol_type="pico", protocols=[{"name": "streams", "metadata": b"\xff{"}])
        k = c.receive()
        same(c.call("SyncGroup", 3, group_id="strange", generation_id=k.generation_id, member_id=k.member_id,
                    assignments=[{"member_id": m.member_id, "assignment": b'["/a"'} for m in k.members]).error_code, 0)
        same(b.result(30)["assignment"], [], "what is no JSON breaks no answer")
        same([m["subscription"] for m in members("strange")].count([]), 1)


@test("a leader whose worker died before it dealt: its client's GET deals; who leaves meanwhile without an id is no member")
def _():
    with kafka_wire.Client(node.kafka_port) as c:
        def lead(member=""):
            c.send("JoinGroup", 3, group_id="dealt", session_timeout_ms=30000, rebalance_timeout_ms=30000, member_id=member,
                   protocol_type="pico", protocols=[{"name": "streams", "metadata": b'["/a","/b"]'}])

        def leads():
            """It leads a group of two and deals nothing; the other one, a connection that waits."""
            raw = http.client.HTTPConnection("127.0.0.1", node.port)
            raw.request("POST", "/_groups/dealt/members", b'{"subscription":["/a","/b"],"sessionTimeoutMs":60000}')
            until(lambda: len(members("dealt")) == 2, 30, "both")
            lead(k.member_id)
            a = c.receive()
            same((a.error_code, len(a.members), state("dealt")), (0, 2, "CompletingRebalance"))
            return raw, a.generation_id
        lead()
        k = c.receive()
        raw, _ = leads()
        raw.close()
        until(lambda: len(members("dealt")) == 1, 30, "nobody could ask for it again, long before its session ends")
        raw, generation = leads()
        mine = ask("GET", f"/dealt/members/{k.member_id}?generation={generation}", 200)["assignment"]
        other = json.loads(raw.getresponse().read())
        same((sorted(mine + other["assignment"]), len(mine), other["generation"]), (["/a", "/b"], 1, generation))


@test("offsets are the same over Kafka: committed here, seen there, and back; kcat goes on behind them")
def _():
    put("/orders/eu")
    for i in range(6):
        post("/orders/eu", b"%d" % i)
    commit("both", {"/orders/eu": {"position": 4, "metadata": "by http"}})
    same(kafka_fetch("both", "orders.eu"), (4, -1, "by http"))
    with kafka_wire.Client(node.kafka_port) as c:
        part = {"partition_index": 0, "committed_offset": 2, "committed_leader_epoch": 0, "committed_metadata": "by kafka"}
        a = c.call("OffsetCommit", 6, group_id="both", member_id="", generation_id_or_member_epoch=-1,
                   topics=[{"name": "orders.eu", "partitions": [part]}])
        same(a.topics[0].partitions[0].error_code, 0)
    same(offsets("both"), {"/orders/eu": {"position": 2, "metadata": "by kafka"}})
    commit("both", {"/orders/eu": {"position": 3}})
    out = subprocess.run(["kcat", "-b", f"127.0.0.1:{node.kafka_port}", "-G", "both", "-c", "3", "-q", "-f", "%o:%s ", "orders.eu"],
                         capture_output=True, timeout=90)
    same((out.returncode, out.stdout), (0, b"3:3 4:4 5:5 "), out.stderr.decode())
    until(lambda: offsets("both") == {"/orders/eu": {"position": 6, "metadata": ""}}, 30, "kcat's commit is seen here")


# ------------------------------------------------------------------------ crashes

class Consumer(threading.Thread):
    """What a client does: joins, reads what it is assigned from the committed positions on, commits, beats."""

    def __init__(self, group, streams, seen):
        super().__init__(daemon=True)
        self.group, self.streams, self.seen, self.id, self.stopped = group, streams, seen, None, False
        self.assigned, self.errors = [], set()

    def ask(self, method, path, body=None):
        a = ask_node(method, f"/_groups/{self.group}{path}", None if body is None else json.dumps(body).encode())
        if a.status >= 400:
            self.errors.add((a.status, a.json()["error"]))
        return a

    def enter(self):
        body = {"subscription": self.streams, "sessionTimeoutMs": 5000}
        a = self.ask("POST", "/members", {**body, "memberId": self.id} if self.id else body)
        if a.status == 404:
            self.id = None
        if a.status != 200:
            time.sleep(0.05)
            return None
        self.id, self.assigned = a.json()["memberId"], a.json()["assignment"]
        return a.json()["generation"]

    def turn(self, generation):
        if self.ask("POST", f"/members/{self.id}/heartbeat", {"generation": generation}).status != 204:
            return False
        at = self.ask("GET", "/offsets").json()["offsets"]
        for name in self.assigned:
            a = ask_node("GET", f"{name}?seq={at.get(name, {'position': 0})['position']}")
            records = a.json() if a.status == 200 else []
            if not records:
                continue
            body = {"offsets": {name: {"position": records[-1]["seq"] + 1}}, "memberId": self.id, "generation": generation}
            if self.ask("PUT", "/offsets", body).status != 204:
                return False
            self.seen.extend((name, r["seq"]) for r in records)
        time.sleep(0.02)
        return True

    def run(self):
        generation = None
        while not self.stopped:
            try:
                if generation is None:
                    generation = self.enter()
                elif not self.turn(generation):
                    generation = None
            except (OSError, ValueError, KeyError, http.client.HTTPException):
                time.sleep(0.05)


@test("two consumers read everything while workers and storaged are killed; commits never run back")
def _():
    streams = [f"/jobs/{i}" for i in range(6)]
    for name in streams:
        put(name)
    seen = []
    consumers = [Consumer("crash", streams, seen) for _ in range(2)]
    for c in consumers:
        c.start()
    until(lambda: all(len(c.assigned) == 3 for c in consumers), 60, "three each")
    high, n = {}, 0
    for kill in (None, "worker-http", "storaged", "worker-http", "storaged", None):
        if kill:
            node.kill(kill)
        for _ in range(5):
            for name in streams:
                def sent():
                    try:
                        return ask_node("POST", name, b"%d" % n, Pico_Producer_Id="t", Pico_Producer_Epoch="0", Pico_Producer_Seq=n).status == 200
                    except (OSError, http.client.HTTPException):
                        return None
                until(sent, 60, "an append")
            n += 1
        wanted = {(name, i) for name in streams for i in range(n)}
        until(lambda: wanted <= set(seen), 90, f"all is read after a kill of {kill}: {wanted - set(seen)} {[c.errors for c in consumers]}")

        def position():
            try:
                return {name: o["position"] for name, o in offsets("crash").items()}
            except (OSError, AssertionError, http.client.HTTPException):
                return None
        now = until(position, 60, "offsets")
        for name, at in high.items():
            assert now[name] >= at, (name, at, now)
        high = now
    until(lambda: sorted(consumers[0].assigned + consumers[1].assigned) == sorted(streams) and
          len(consumers[0].assigned) == 3, 60, "three each, after all")
    for c in consumers:
        c.stopped = True
    for c in consumers:
        c.join(30)
        bad = c.errors - {(503, "coordinator_unavailable"), (503, "outcome_unknown"), (503, "unavailable"), (404, "unknown_member"), (409, "illegal_generation"),
                          (409, "rebalance_in_progress")}
        same(bad, set())
    node.kill_all()
    node.start()
    same({name: o["position"] for name, o in offsets("crash").items()}, {name: n for name in streams}, "after kill -9 of everything")


@test("a member that was told its id keeps it over a restart of storaged")
def _():
    a = join("keep", "/a", sessionTimeoutMs=60000)
    node.kill("storaged")
    node.wait_ready()
    until(lambda: ask_node("POST", f"/_groups/keep/members/{a['memberId']}/heartbeat", b'{"generation":1}').status in (404, 409), 30, "to join again")
    b = join("keep", "/a", member=a["memberId"], sessionTimeoutMs=60000)
    same((b["memberId"], b["generation"] > a["generation"], b["assignment"]), (a["memberId"], True, ["/a"]))


@test("SIGTERM: a join that waits is told so")
def _():
    a = join("stop", "/a", rebalanceTimeoutMs=60000)
    b = pool.submit(lambda: ask_node("POST", "/_groups/stop/members", b'{"subscription":["/a"],"rebalanceTimeoutMs":60000}'))
    until(lambda: len(members("stop")) == 2, 30, "it waits")
    same(node.stop(), 0, "exit code")
    r = b.result(30)
    same((r.status, r.json()["error"], r["retry-after"]), (503, "coordinator_unavailable", "1"))


tap.run()
