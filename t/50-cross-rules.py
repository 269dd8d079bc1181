#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Partitions and committed offsets are one thing over HTTP and over Kafka. Each rule about them is a test here that acts through one
protocol and looks through the other; what each protocol has to say for itself stands in its own tests."""
import concurrent.futures, json, os, signal, struct, subprocess

import kafka_wire, tap
from ds import Streams
from node import Node
from tap import same, test, until

node = Node(kafka=True, ds=True)
ds = Streams(node)
pool = concurrent.futures.ThreadPoolExecutor(8)
OCTETS = "application/octet-stream"


def wire():
    return kafka_wire.Client(node.kafka_port)


def http(method, path, status=200, body=None, **headers):
    a = node.http(method, path, json.dumps(body).encode() if isinstance(body, dict) else body, **headers)
    same(a.status, status, f"{method} {path} {headers} {body} {a.body[:300]}")
    return a


def refused(word, *args, **headers):
    a = http(*args, **headers)
    same(a.json()["error"], word, f"{args}")
    return a


def put(name, partitions=1, **headers):
    return http("PUT", name, 201, Content_Type=OCTETS, **({"Pico_Partitions": partitions} if partitions > 1 else {}), **headers)


def post(name, body=b"x", status=200, **headers):
    return http("POST", name, status, body, **headers)


def produce(topic, partition, *values):
    with wire() as c:
        a = c.produce(topic, partition, kafka_wire.batch([(None, v) for v in values]))
        return a.error_code or a.base_offset


def partitions_of(topic):
    with wire() as c:
        t = c.call("Metadata", 12, topics=[{"name": topic}], allow_auto_topic_creation=False).topics[0]
        same(t.error_code, 0, topic)
        return sorted(p.partition_index for p in t.partitions)


def values(topic, partition):
    with wire() as c:
        return [r.value for r in c.read_all(topic, partition)]


def run(*args, stdin=None):
    r = subprocess.run(args, input=stdin, capture_output=True, timeout=90, env=dict(os.environ, PICO_ENDPOINT=node.url))
    same(r.returncode, 0, f"{args}: {r.stderr.decode()[-500:]}")
    return r.stdout.decode()


PICO = os.path.join(tap.build, "pico")


# --------------------------------------------------------------------- partitions

@test("one partition unless it was made with more, 1 to 1024, whoever made it and whoever looks")
def _():
    node.start()
    put("/one")
    put("/most", 1024)
    for wrong in 0, 1025, -1, "x":
        http("PUT", "/wrong", 400, Pico_Partitions=wrong)
    http("HEAD", "/wrong", 404)
    with wire() as c:
        same([c.create("k.one"), c.create("k.three", partitions=3), c.create("k.default", partitions=-1)], [[0], [0], [0]])
    for topic, path, n in (("one", "/one", 1), ("most", "/most", 1024), ("k.one", "/k.one", 1), ("k.default", "/k.default", 1), ("k.three", "/k.three", 3)):
        same(partitions_of(topic), list(range(n)), topic)
        same(http("HEAD", path)["pico-partitions"], str(n) if n > 1 else None, path)
        same(http("GET", "/_streams" + path).json()["partitions"], n)
        same(node.ds("HEAD", path).status, 200 if n == 1 else 409)


@test("with one nothing changes: no header of partitions, and `?partition=0` is the same stream")
def _():
    a = http("PUT", "/single", 201, Content_Type=OCTETS, Pico_Partitions=1)
    answers = [a, post("/single", b"0"), post("/single?partition=0", b"1", Pico_Match_Seq=1), http("GET", "/single"), http("HEAD", "/single")]
    same([(a["pico-partitions"], a["pico-partition"]) for a in answers], [(None, None)] * 5)
    same(values("single", 0), [b"0", b"1"])
    same(produce("single", 1, b"x"), 3, "there is no other")
    refused("bad_request", "POST", "/single?partition=1", 400, b"x")


@test("with several, PUT, HEAD and GET say how many; HEAD and the list have no positions of the whole")
def _():
    put("/several", 4)
    for a in (http("PUT", "/several", 200, Content_Type=OCTETS), http("HEAD", "/several"), http("GET", "/several?partition=2")):
        same(a["pico-partitions"], "4")
    whole, one = http("HEAD", "/several"), http("HEAD", "/several?partition=2")
    same([whole["pico-start-seq"], whole["pico-next-seq"], one["pico-start-seq"], one["pico-next-seq"]], [None, None, "0", "0"])
    row = http("GET", "/?prefix=/several").json()["streams"][0]
    same((row["partitions"], {"start_seq", "next_seq"} & set(row)), (4, set()))


@test("each partition is the same log over both protocols, with positions of its own")
def _():
    for p in range(4):
        same(produce("several", p, b"k%d" % p), 0)
        a = post(f"/several?partition={p}", b"h%d" % p)
        same((a["pico-start-seq"], a["pico-partition"]), ("1", str(p)))
        same(values("several", p), [b"k%d" % p, b"h%d" % p])
        same(http("GET", f"/several?partition={p}&format=raw").body, b"k%dh%d" % (p, p))


@test("what needs a partition and names none is refused, and nothing is stored or gone")
def _():
    for method, body, headers in (("GET", None, {}), ("POST", b"", {"Pico_Trim_Seq": 1}), ("POST", b"x", {"Pico_Match_Seq": 2}),
                                  ("POST", b"x", {"Pico_Producer_Id": "p", "Pico_Producer_Epoch": 0, "Pico_Producer_Seq": 0})):
        refused("partition_required", method, "/several", 400, body, **headers)
    same([len(values("several", p)) for p in range(4)], [2] * 4)
    post("/several?partition=3", b"x", Pico_Match_Seq=2)
    post("/several?partition=3", b"x", Pico_Producer_Id="p", Pico_Producer_Epoch=0, Pico_Producer_Seq=0)
    http("POST", "/several?partition=3", 200, b"", Pico_Trim_Seq=1)
    with wire() as c:
        same([c.fetch("several", p, 0).error_code for p in range(4)], [0, 0, 0, 1], "trimmed alone")


@test("Pico-Key chooses the partition that librdkafka's and Java's murmur2 chooses: all records of a key stand together")
def _():
    put("/keyed", 7)
    keys = [f"key-{i * i}" for i in range(60)] + ["a", "ключ", "x" * 999]
    lines = "".join(f"{k}\tkcat\n" for k in keys).encode()
    run("kcat", "-b", f"127.0.0.1:{node.kafka_port}", "-P", "-t", "keyed", "-K\t", "-X", "topic.partitioner=murmur2", stdin=lines)
    mine = {}
    for k in keys:
        if k.isascii():
            mine[k.encode()] = int(post("/keyed", b"http", Pico_Key=k)["pico-partition"])
    found = {}
    with wire() as c:
        for p in range(7):
            for r in c.read_all("keyed", p):
                found.setdefault(r.key, set()).add(p)
    same({k: found[k] for k in mine}, {k: {p} for k, p in mine.items()})
    assert len({p for p in mine.values()}) == 7, "some of each"


@test("without a key the node chooses, one partition a request, and says which; keys in a batch do not choose")
def _():
    put("/chosen", 5)
    body = {"records": [{"key": f"k{i}", "body": str(i)} for i in range(20)]}
    for _ in range(10):
        a = post("/chosen", json.dumps(body).encode(), Content_Type="application/vnd.picomq.batch+json")
        at, p = int(a["pico-start-seq"]), int(a["pico-partition"])
        same(values("chosen", p)[at:at + 20], [b"%d" % i for i in range(20)], "all of it there")
    p = int(post("/chosen", b"raw")["pico-partition"])
    same(values("chosen", p)[-1], b"raw")


@test("close seals every partition for every protocol; with data it is refused and seals none")
def _():
    put("/sealed", 3)
    refused("bad_request", "POST", "/sealed?partition=0", 400, b"x", Pico_Closed="true")
    same([produce("sealed", p, b"k") for p in range(3)], [0, 0, 0])
    http("POST", "/sealed", 200, b"", Pico_Closed="true")
    same([produce("sealed", p, b"k") for p in range(3)], [44] * 3)
    for p in range(3):
        refused("closed", "POST", f"/sealed?partition={p}", 409, b"x")
        same(values("sealed", p), [b"k"], "and is read")


@test("it grows, through either protocol, and never shrinks; old records stay, the new partitions are empty")
def _():
    put("/grow")
    post("/grow", b"old")
    http("PATCH", "/_streams/grow", 200, {"partitions": 3})
    same((partitions_of("grow"), values("grow", 0), produce("grow", 2, b"new")), ([0, 1, 2], [b"old"], 0))
    with wire() as c:
        grown = lambda n: c.call("CreatePartitions", 3, topics=[{"name": "grow", "count": n, "assignments": None}], timeout_ms=30000,
                                 validate_only=False).results[0].error_code
        same((grown(5), grown(4)), (0, 37))
    same((http("HEAD", "/grow")["pico-partitions"], http("GET", "/grow?partition=2&format=raw").body), ("5", b"new"))
    refused("bad_request", "PATCH", "/_streams/grow", 400, {"partitions": 4})
    same(post("/grow?partition=4", b"last")["pico-start-seq"], "0")
    same(partitions_of("grow"), list(range(5)))


@test("pico read and pico tail without a partition have them all, each line with its partition")
def _():
    want = ["0:0\told", "2:0\tnew", "4:0\tlast"]
    same(sorted(run(PICO, "read", "/grow").splitlines()), want)
    tail = subprocess.Popen([PICO, "tail", "-f", "/grow"], stdout=subprocess.PIPE, env=dict(os.environ, PICO_ENDPOINT=node.url))
    line = pool.submit(tail.stdout.readline)
    try:
        n = 0

        def printed():  # it is not known when it has begun to wait
            nonlocal n
            n += 1
            same(produce("grow", 3, b"live"), n - 1)
            concurrent.futures.wait([line], 0.2)
            return line.done()
        until(printed, 30, "a record that Kafka appended")
        where, text = line.result().decode().rstrip("\n").split("\t")
        same((where.split(":")[0], text), ("3", "live"))
    finally:
        tail.send_signal(signal.SIGTERM)
        tail.wait(30)


@test("a stream of several partitions is none to Durable Streams: 409 to each method, and the others see no change")
def _():
    before = [values("grow", p) for p in range(5)]
    ds("GET", "/grow", 409), ds("HEAD", "/grow", 409), ds("DELETE", "/grow", 409)
    ds("POST", "/grow", 409, b"x", Content_Type=OCTETS), ds("PUT", "/grow", 409, Content_Type=OCTETS)
    ds("POST", "/grow", 409, b"", Stream_Closed="true"), ds("PUT", "/fork", 409, Stream_Forked_From="/grow")
    same(([values("grow", p) for p in range(5)], http("HEAD", "/grow")["pico-closed"]), (before, None))
    ds.put("/grown", body=b"1")
    http("PATCH", "/_streams/grown", 200, {"partitions": 2})
    ds("GET", "/grown", 409)


# --------------------------------------------------------------------- committed offsets

def commit(group, offsets, status=204, **more):
    return http("PUT", f"/_groups/{group}/offsets", status, {"offsets": offsets, **more})


def committed(group):
    return http("GET", f"/_groups/{group}/offsets").json()["offsets"]


def kafka_commit(group, topic, offset, partition=0, epoch=-1, metadata="", generation=-1, member=""):
    part = {"partition_index": partition, "committed_offset": offset, "committed_leader_epoch": epoch, "committed_metadata": metadata}
    with wire() as c:
        a = c.call("OffsetCommit", 8, group_id=group, member_id=member, generation_id_or_member_epoch=generation, group_instance_id=None,
                   topics=[{"name": topic, "partitions": [part]}])
        return a.topics[0].partitions[0].error_code


def kafka_committed(group, topic=None, partition=0):
    """(offset, epoch, metadata) of one partition, or {(topic, partition): offset} of all."""
    asked = None if topic is None else [{"name": topic, "partition_indexes": [partition]}]
    with wire() as c:
        found = c.call("OffsetFetch", 7, group_id=group, topics=asked).topics
    if topic is None:
        return {(t.name, p.partition_index): p.committed_offset for t in found for p in t.partitions}
    p = found[0].partitions[0]
    return p.committed_offset, p.committed_leader_epoch, p.metadata


def row(position, metadata=""):
    return {"position": position, "metadata": metadata}


NEVER = (-1, -1, "")


@test("they are kept by the topic's id: another Kafka name finds them, the old one does not, who takes that has none")
def _():
    put("/c/a")
    commit("id", {"/c/a": row(3, "m")})
    same(kafka_committed("id", "c.a"), (3, -1, "m"))
    http("PATCH", "/_streams/c/a", 200, {"kafkaTopic": "moved"})
    same((kafka_committed("id", "moved"), kafka_committed("id", "c.a")), ((3, -1, "m"), NEVER))
    same(kafka_commit("id", "moved", 5), 0)
    same(committed("id"), {"/c/a": row(5)})
    with wire() as c:
        same(c.create("c.a"), [0])
    same((kafka_committed("id", "c.a"), kafka_commit("id", "c.a", 1), committed("id")), (NEVER, 0, {"/c/a": row(5), "/c.a": row(1)}))


@test("without a Kafka name they are HTTP's alone until there is one")
def _():
    http("PUT", "/c/hidden", 201, Pico_Kafka_Topic="")
    commit("hidden", {"/c/hidden": row(2), "/c/a": row(1)})
    same(kafka_committed("hidden"), {("moved", 0): 1}, "all of the group")
    http("PATCH", "/_streams/c/hidden", 200, {"kafkaTopic": "shown"})
    same(kafka_committed("hidden"), {("moved", 0): 1, ("shown", 0): 2})


@test("they go with their topic, whoever deletes it, and a new one of that name has none")
def _():
    def by_kafka(topic):
        with wire() as c:
            same(c.call("DeleteTopics", 5, timeout_ms=30000, topic_names=[topic]).responses[0].error_code, 0)
    for i, delete in enumerate((by_kafka, lambda t: http("DELETE", "/" + t, 204), lambda t: ds.delete("/" + t))):
        topic = f"gone{i}"
        put("/" + topic)
        commit("gone", {"/" + topic: row(1)})
        same(kafka_commit("gone-k", topic, 2), 0)
        delete(topic)
        same((committed("gone"), committed("gone-k"), kafka_committed("gone"), kafka_committed("gone", topic)), ({}, {}, {}, NEVER))
        put("/" + topic)
        same((committed("gone"), kafka_committed("gone-k", topic)), ({}, NEVER))


@test("the short form is partition 0 of one; with more each is named, also where only Kafka committed")
def _():
    put("/c/p", 4)
    commit("forms", {"/c/a": row(10, "m"), "/c/p": {"partitions": {"0": row(1), "3": row(7, "x")}}})
    same(kafka_committed("forms"), {("moved", 0): 10, ("c.p", 0): 1, ("c.p", 3): 7})
    same(kafka_committed("forms", "c.p", 3), (7, -1, "x"))
    same(kafka_commit("forms", "c.p", 8, 2), 0)
    same(committed("forms"), {"/c/a": row(10, "m"), "/c/p": {"partitions": {"0": row(1), "2": row(8), "3": row(7, "x")}}})
    refused("partition_required", "PUT", "/_groups/forms/offsets", 400, {"offsets": {"/c/p": row(1)}})
    http("PATCH", "/_streams/c/a", 200, {"partitions": 2})
    same(committed("forms")["/c/a"], {"partitions": {"0": row(10, "m")}}, "it has grown")


@test("what is refused, in both protocols' words, leaves what there was")
def _():
    commit("no", {"/single": row(1)})
    for topic, partition, offset, metadata, code, path, body, status in (
            ("none", 0, 1, "", 3, "/none", row(1), 404), ("single", 1, 1, "", 3, "/single", {"partitions": {"1": row(1)}}, 400),
            ("single", 0, -1, "", 42, "/single", row(-1), 400), ("single", 0, 1, "m" * 4097, 12, "/single", row(1, "m" * 4097), 400)):
        same(kafka_commit("no", topic, offset, partition, metadata=metadata), code, f"{topic}/{partition} {offset}")
        commit("no", {path: body}, status)
    same((committed("no"), kafka_committed("no")), ({"/single": row(1)}, {("single", 0): 1}))
    same(kafka_commit("no", "single", 2, metadata="é" * 2048), 0)
    same(committed("no"), {"/single": row(2, "é" * 2048)}, "4096 bytes")


@test("the leader epoch of a Kafka client is kept and given back; a commit over HTTP has none")
def _():
    same(kafka_commit("epoch", "single", 1, epoch=0, metadata="k"), 0)
    same(kafka_committed("epoch", "single"), (1, 0, "k"))
    commit("epoch", {"/single": row(1, "h")})
    same(kafka_committed("epoch", "single"), (1, -1, "h"))


def kafka_join(group, protocol_type, member=""):
    metadata = struct.pack(">hih", 0, 1, 6) + b"single" + struct.pack(">i", -1)
    with wire() as c:
        return c.call("JoinGroup", 3, group_id=group, session_timeout_ms=10000, rebalance_timeout_ms=10000, member_id=member,
                      protocol_type=protocol_type, protocols=[{"name": "range", "metadata": metadata}])


def pico_join(group, status=200):
    return http("POST", f"/_groups/{group}/members", status, {"subscription": ["/single", "/c/p"]}).json()


@test("a group is of the kind of its first member - consumer, connect, pico - until it is empty; the others are refused")
def _():
    for first in "consumer", "connect":
        k = kafka_join(first, first)
        same((k.error_code, http("GET", f"/_groups/{first}").json()["protocolType"]), (0, first))
        same(pico_join(first, 409)["error"], "inconsistent_protocol")
        same(kafka_join(first, "connect" if first == "consumer" else "consumer").error_code, 23)
        with wire() as c:
            same(c.call("LeaveGroup", 1, group_id=first, member_id=k.member_id).error_code, 0)
        a = pico_join(first)
        same([kafka_join(first, t).error_code for t in ("consumer", "connect")], [23, 23])
        http("DELETE", f"/_groups/{first}/members/{a['memberId']}", 204)


@test("over HTTP a member is given whole streams, all partitions of one")
def _():
    a = pico_join("whole")
    same((a["assignment"], a["generation"]), (["/c/p", "/single"], 1))
    commit("whole", {"/c/p": {"partitions": {str(i): row(i) for i in range(4)}}}, memberId=a["memberId"], generation=1)
    same(kafka_committed("whole"), {("c.p", i): i for i in range(4)})


@test("a commit without a member is taken while the group is empty, and by neither protocol while it is not")
def _():
    same((kafka_commit("member", "single", 1), commit("member", {"/single": row(2)}).status), (0, 204))
    a = pico_join("member")
    same(kafka_commit("member", "single", 3), 25)
    refused("unknown_member", "PUT", "/_groups/member/offsets", 404, {"offsets": {"/single": row(3)}})
    same(kafka_commit("member", "single", 4, generation=1, member=a["memberId"]), 0, "its own, through either")
    commit("member", {"/single": row(5)}, memberId=a["memberId"], generation=1)
    http("DELETE", f"/_groups/member/members/{a['memberId']}", 204)
    k = kafka_join("member", "consumer")
    refused("unknown_member", "PUT", "/_groups/member/offsets", 404, {"offsets": {"/single": row(6)}})
    same((committed("member"), k.error_code), ({"/single": row(5)}, 0))
    with wire() as c:
        same(c.call("LeaveGroup", 1, group_id="member", member_id=k.member_id).error_code, 0)
    commit("member", {"/single": row(7)})
    same(kafka_committed("member", "single")[0], 7)


# --------------------------------------------------------------------- a name that changed hands

def delete_records(c, topic):
    return c.call("DeleteRecords", 2, timeout_ms=9000, topics=[{"name": topic, "partitions": [{"partition_index": 0, "offset": 1}]}]
                  ).topics[0].partitions[0].error_code


def delete_offsets(c, topic):
    return c.call("OffsetDelete", 0, group_id="hands", topics=[{"name": topic, "partitions": [{"partition_index": 0}]}]
                  ).topics[0].partitions[0].error_code


def set_config(c, topic):
    config = {"name": "retention.ms", "config_operation": 0, "value": "7777777"}
    return c.call("IncrementalAlterConfigs", 1, resources=[{"resource_type": 2, "resource_name": topic, "configs": [config]}],
                  validate_only=False).responses[0].error_code


def grow(c, topic):
    return c.call("CreatePartitions", 3, topics=[{"name": topic, "count": 2, "assignments": None}], timeout_ms=30000, validate_only=False
                  ).results[0].error_code


def delete_topic(c, topic):
    return c.call("DeleteTopics", 5, timeout_ms=30000, topic_names=[topic]).responses[0].error_code


def seen(path):
    """What any of the calls could change."""
    head = node.http("HEAD", path)
    return (head.status, head["pico-partitions"], head["pico-next-seq"], head["pico-start-seq"], head["pico-retention-ms"],
            committed("hands").get(path))


HANDS = {  # what a client that knows the name asks for, which changes something of the topic of that name
    "Produce": lambda c, t: c.produce(t, 0, kafka_wire.batch([(None, b"x")])).error_code,
    "DeleteRecords": delete_records,
    "OffsetCommit": lambda c, t: kafka_commit("hands", t, 2),
    "OffsetDelete": delete_offsets,
    "IncrementalAlterConfigs": set_config,
    "CreatePartitions": grow,
    "DeleteTopics": delete_topic,
}


def changed_hands(call):
    was, now, topic = f"/was/{call}", f"/hands.{call}", f"hands.{call}"
    http("PUT", was, 201, Pico_Kafka_Topic=topic)
    post(was), post(was)
    commit("hands", {was: row(1)})
    with wire() as c:
        same(c.fetch(topic, 0, 0).error_code, 0, "the worker knows the name")
        http("PATCH", "/_streams" + was, 200, {"kafkaTopic": None})
        put(now)
        post(now), post(now)
        commit("hands", {now: row(0)})
        before = seen(was), seen(now)
        same(HANDS[call](c, topic), 0)
    same(seen(was), before[0], "who had the name before")
    assert seen(now) != before[1], f"{call} did nothing"


for call in HANDS:
    test(f"a name that changed hands just now: {call} is for who has it")(lambda call=call: changed_hands(call))


@test("a name that changed hands just now: OffsetFetch and a new consumer find the new topic's position, and a name without a topic has none")
def _():
    for path, position in (("/was/f", 1), ("/now/f", 0)):
        http("PUT", path, 201, Pico_Kafka_Topic="hands.f" if position else "")
        commit("hands.f", {path: row(position)})
    same(kafka_committed("hands.f", "hands.f")[0], 1)
    http("PATCH", "/_streams/was/f", 200, {"kafkaTopic": None})
    same(kafka_committed("hands.f", "hands.f"), NEVER)
    http("PATCH", "/_streams/now/f", 200, {"kafkaTopic": "hands.f"})
    same(kafka_committed("hands.f", "hands.f")[0], 0)


@test("all of it stands after kill -9, seen from both sides")
def _():
    groups = ("id", "hidden", "forms", "no", "epoch", "whole", "member")
    before = [(committed(g), kafka_committed(g)) for g in groups]
    node.kill_all()
    node.start()
    same([(committed(g), kafka_committed(g)) for g in groups], before)
    same((partitions_of("grow"), values("keyed", 3) != []), (list(range(5)), True))
    same(node.stop(), 0, "exit code")


tap.run()
