#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Consumer groups byte by byte: every API in every version, what members are told and when, static members, commits,
groups listed, described and deleted, and what becomes of a group when a worker or storaged is killed."""
import struct, time

import kafka_wire, node
from kafka_wire import Client
from tap import run, same, test, until

n = node.Node("--num-partitions=3", "--group-max-session-timeout-ms=60000", "--kafka-workers=2", kafka=True)
LEADER, FOLLOWER = b"of the leader", b"of the follower"
UNKNOWN, ILLEGAL, REBALANCE, FENCED, ID_REQUIRED = 25, 22, 27, 82, 79


def client():
    return Client(n.kafka_port)


def subscription(*topics):
    data = struct.pack(">hi", 0, len(topics))
    return data + b"".join(struct.pack(">h", len(t)) + t.encode() for t in topics) + struct.pack(">i", -1)


def join_send(c, group, member="", version=9, instance=None, metadata=subscription("g"), **more):
    fields = {"session_timeout_ms": 10000, "member_id": member, "protocol_type": "consumer",
              "protocols": [{"name": "range", "metadata": metadata}], **more}
    if version >= 1:
        fields.setdefault("rebalance_timeout_ms", 20000)
    if version >= 5:
        fields["group_instance_id"] = instance
    c.send("JoinGroup", version, group_id=group, **fields)


def join(c, group, member="", **more):
    """With the id told first where that is asked for."""
    join_send(c, group, member, **more)
    a = c.receive()
    if a.error_code != ID_REQUIRED:
        return a
    assert a.member_id.startswith("t-"), a
    join_send(c, group, a.member_id, **more)
    return c.receive()


def sync(c, group, member, generation, assignments=(), version=5, instance=None):
    more = {"group_instance_id": instance} if version >= 3 else {}
    return c.call("SyncGroup", version, group_id=group, generation_id=generation, member_id=member,
                  assignments=[{"member_id": m, "assignment": a} for m, a in assignments], **more)


def beat(c, group, member, generation, version=4, instance=None):
    more = {"group_instance_id": instance} if version >= 3 else {}
    return c.call("Heartbeat", version, group_id=group, member_id=member, generation_id=generation, **more).error_code


def leave(c, group, member, version=5, instance=None):
    if version < 3:
        return c.call("LeaveGroup", version, group_id=group, member_id=member).error_code
    a = c.call("LeaveGroup", version, group_id=group, members=[{"member_id": member, "group_instance_id": instance}])
    return a.error_code or a.members[0].error_code


def commit(c, group, offset, topic="g", partition=0, member="", generation=-1, version=9, **more):
    fields = {"member_id": member, "generation_id_or_member_epoch": generation} if version >= 1 else {}
    part = {"partition_index": partition, "committed_offset": offset, **more}
    a = c.call("OffsetCommit", version, group_id=group, topics=[{"name": topic, "partitions": [part]}], **fields)
    return a.topics[0].partitions[0].error_code


def fetch(c, group, topic="g", partition=0, version=9):
    """(error, offset, epoch, metadata)"""
    if version >= 8:
        a = c.call("OffsetFetch", version, require_stable=True,
                   groups=[{"group_id": group, "topics": [{"name": topic, "partition_indexes": [partition]}]}]).groups[0]
    else:
        a = c.call("OffsetFetch", version, group_id=group, topics=[{"name": topic, "partition_indexes": [partition]}])
    p = a.topics[0].partitions[0]
    return (p.error_code if version < 2 else a.error_code), p.committed_offset, p.committed_leader_epoch, p.metadata


def describe(c, group, version=5, **more):
    return c.call("DescribeGroups", version, groups=[group], **more).groups[0]


def pair(a, b, group, version=9):
    """A stable group of two; (leader's id, follower's id, generation)."""
    lead = join(a, group, version=version)
    same(lead.error_code, 0, "the first one")
    join_send(b, group, version=version)
    if version >= 4:
        join_send(b, group, b.receive().member_id, version=version)
    with client() as other:         # a member that waits keeps nobody from hearing that
        until(lambda: beat(other, group, lead.member_id, lead.generation_id) == REBALANCE, 20, "the leader is told")
    lead = join(a, group, lead.member_id, version=version)
    second = b.receive()
    same((lead.error_code, second.error_code, lead.generation_id), (0, 0, second.generation_id), "both are in")
    same((lead.leader, second.leader, len(lead.members), second.members), (lead.member_id, lead.member_id, 2, []), "who leads")
    b.send("SyncGroup", 3, group_id=group, generation_id=second.generation_id, member_id=second.member_id)
    got = sync(a, group, lead.member_id, lead.generation_id, [(lead.member_id, LEADER), (second.member_id, FOLLOWER)])
    same((got.error_code, got.assignment), (0, LEADER), "the leader's")
    same(b.receive().assignment, FOLLOWER, "the follower's")
    return lead.member_id, second.member_id, lead.generation_id


@test("a group of two in every version of JoinGroup; its members see each other's rebalance")
def two():
    for version in range(10):
        with client() as a, client() as b:
            group = f"two-{version}"
            lead, second, generation = pair(a, b, group, version)
            same([beat(c, group, m, generation, v) for c, m in ((a, lead), (b, second)) for v in range(5)], [0] * 10, "heartbeats")
            same(leave(b, group, second, version=min(version, 5)), 0, "leave")
            same(beat(a, group, lead, generation), REBALANCE, "the other one is told")
            same(beat(b, group, second, generation), UNKNOWN, "who left is not a member")
            same(leave(b, group, second), UNKNOWN, "and does not leave twice")
            same(leave(a, group, lead), 0, "the last one")
            same(describe(a, group).group_state, "Empty", "nobody is left")


@test("SyncGroup and Heartbeat in every version, and what they refuse")
def syncs():
    with client() as a, client() as b:
        lead, second, generation = pair(a, b, "syncs")
        for version in range(6):
            x = sync(b, "syncs", second, generation, version=version)
            same((x.error_code, x.assignment), (0, FOLLOWER), f"SyncGroup {version}")
            same(x.protocol_type, "consumer" if version >= 5 else None, "protocol type")
            same(sync(b, "syncs", second, generation - 1, version=version).error_code, ILLEGAL, "an old generation")
            same(sync(b, "syncs", "nobody", generation, version=version).error_code, UNKNOWN, "a stranger")
        x = b.call("SyncGroup", 5, group_id="syncs", generation_id=generation, member_id=second, protocol_name="other")
        same((x.error_code, x.assignment), (23, b""), "another protocol")
        same([beat(a, "syncs", lead, generation + 1), beat(a, "syncs", "nobody", 1), beat(a, "none", "nobody", 1)],
             [ILLEGAL, UNKNOWN, UNKNOWN], "heartbeats")


@test("ids first: version 4 on; a given-out id is waited for")
def ids_first():
    with client() as c:
        join_send(c, "ids", version=3)
        same(c.receive().error_code, 0, "before version 4")
        join_send(c, "ids2", version=4)
        a = c.receive()
        same((a.error_code, a.generation_id, a.members, a.protocol_name), (ID_REQUIRED, -1, [], ""), "version 4")
        join_send(c, "ids2", a.member_id, version=4)
        b = c.receive()
        same((b.error_code, b.member_id), (0, a.member_id), "with the id")
        join_send(c, "ids2", "made-up", version=4)
        same(c.receive().error_code, UNKNOWN, "an id nobody gave")


@test("what a join is refused for")
def refusals():
    with client() as c:
        for fields, error in (({"session_timeout_ms": 999}, 26), ({"session_timeout_ms": 60001}, 26), ({"protocols": []}, 23),
                              ({"protocol_type": ""}, 23), ({"instance": ""}, 42),
                              ({"protocols": [{"name": str(i)} for i in range(33)]}, 23)):
            fields = dict(fields)
            join_send(c, "refused", **fields)
            same(c.receive().error_code, error, fields)
        for group, error in (("", 24), ("x" * 250, 24), ("x" * 249, ID_REQUIRED)):
            join_send(c, group)
            same(c.receive().error_code, error, f"a group id of {len(group)} bytes")
        first = join(c, "types")
        same(first.error_code, 0, "first")
        with client() as d:
            join_send(d, "types", protocol_type="connect")
            same(d.receive().error_code, 23, "another type")
            join_send(d, "types", protocols=[{"name": "other", "metadata": b""}])
            same(d.receive().error_code, 23, "nothing in common")


@test("static members: replaced without a rebalance, fenced, SkipAssignment, leaving by instance")
def static():
    with client() as a, client() as b:
        lead = join(a, "static", instance="one")
        same(sync(a, "static", lead.member_id, lead.generation_id, [(lead.member_id, LEADER)]).error_code, 0, "sync")
        again = join(b, "static", instance="one", version=9)
        same((again.error_code, again.generation_id, again.skip_assignment, again.leader, len(again.members)),
             (0, lead.generation_id, True, again.member_id, 1), "the leader came back")
        same(again.members[0].group_instance_id, "one", "its instance")
        same(sync(b, "static", again.member_id, again.generation_id, instance="one").assignment, LEADER, "the assignment it had")
        same(beat(a, "static", lead.member_id, lead.generation_id, instance="one"), FENCED, "the former one")
        same(sync(a, "static", lead.member_id, lead.generation_id, instance="one").error_code, FENCED, "and its sync")
        older = join(a, "static", instance="one", version=8)
        same((older.error_code, older.leader, older.members), (0, again.member_id, []), "one that cannot skip does not lead")
        same(leave(a, "static", "", instance="two"), UNKNOWN, "no such instance")
        same(leave(a, "static", again.member_id, instance="one"), FENCED, "leaving with an old id")
        same(leave(a, "static", "", instance="one"), 0, "leaving by instance")
        same(describe(a, "static").group_state, "Empty", "gone")


@test("OffsetCommit and OffsetFetch in every version; unknown is -1; epochs and metadata come back")
def offsets():
    with client() as c:
        same(c.create("g", partitions=3), [0], "create")
        for version in range(1, 10):
            group = f"offsets-{version}"
            same(fetch(c, group, version=version), (0, -1, -1, ""), "never committed")
            epoch = {"committed_leader_epoch": 0} if version >= 6 else {}
            same(commit(c, group, 40 + version, version=version, committed_metadata="meta", **epoch), 0, f"commit {version}")
            for v in range(1, 10):
                same(fetch(c, group, version=v), (0, 40 + version, 0 if version >= 6 and v >= 5 else -1, "meta"), f"fetch {v}")
        same(commit(c, "offsets-1", 0), 0, "offset 0")
        same(fetch(c, "offsets-1"), (0, 0, -1, ""), "is 0 and not unknown")
        same([commit(c, "e", 1, topic="none"), commit(c, "e", 1, partition=3), commit(c, "e", 1, partition=-1), commit(c, "e", -1),
              commit(c, "e", 1, committed_metadata="x" * 4097), commit(c, "e", 1, committed_metadata="x" * 4096),
              commit(c, "", 1), commit(c, "e", 1, generation=1, member="m")], [3, 3, 3, 42, 12, 0, 24, UNKNOWN], "refusals")
        same(commit(c, "never", 1, generation=1, member="m"), ILLEGAL, "of a generation of no group")
        same([fetch(c, "e", topic="none"), fetch(c, "e", partition=7)], [(0, -1, -1, "")] * 2, "of what is not there")
        same(commit(c, "e", 1, version=0), 35, "version 0")
        same(c.call("OffsetFetch", 0, group_id="e", topics=[{"name": "g", "partition_indexes": [0]}]).topics[0].partitions[0]
             .error_code, 35, "version 0")


@test("OffsetFetch of many groups, and of all topics")
def many():
    with client() as c:
        same(c.create("h", partitions=2), [0], "create")
        for group, topic, partition, offset in (("m1", "g", 0, 1), ("m1", "h", 1, 2), ("m2", "g", 2, 3)):
            same(commit(c, group, offset, topic, partition), 0, "commit")
        asked = [{"group_id": "m1", "topics": None}, {"group_id": "m2", "topics": [{"name": "g", "partition_indexes": [0, 2]}]},
                 {"group_id": "m3", "topics": None}, {"group_id": "", "topics": None}]
        a = c.call("OffsetFetch", 8, groups=asked)
        flat = lambda topics: sorted((t.name, p.partition_index, p.committed_offset) for t in topics for p in t.partitions)
        same([(g.group_id, g.error_code, flat(g.topics)) for g in a.groups],
             [("m1", 0, [("g", 0, 1), ("h", 1, 2)]), ("m2", 0, [("g", 0, -1), ("g", 2, 3)]), ("m3", 0, []), ("", 24, [])], "all")
        for version in range(2, 8):
            same(flat(c.call("OffsetFetch", version, group_id="m1", topics=None).topics), [("g", 0, 1), ("h", 1, 2)], version)
        same(c.call("OffsetFetch", 2, group_id="m1", topics=[]).topics, [], "none is not all")


@test("a topic made anew has no committed offsets")
def anew():
    with client() as c:
        same(c.create("anew"), [0], "create")
        same(commit(c, "anew", 5, "anew"), 0, "commit")
        same([t.error_code for t in c.call("DeleteTopics", 5, topic_names=["anew"], timeout_ms=9000).responses], [0], "delete")
        same(c.create("anew"), [0], "create again")
        same(fetch(c, "anew", "anew"), (0, -1, -1, ""), "offsets")


@test("DescribeGroups and ListGroups in every version")
def seen():
    with client() as a, client() as b:
        lead, second, generation = pair(a, b, "seen")
        for version in range(6):
            more = {"include_authorized_operations": True} if version >= 3 else {}
            g = describe(a, "seen", version, **more)
            same((g.error_code, g.group_state, g.protocol_type, g.protocol_data), (0, "Stable", "consumer", "range"), version)
            same({m.member_id: (m.client_id, m.client_host, m.member_metadata, m.member_assignment) for m in g.members},
                 {lead: ("t", "/127.0.0.1", subscription("g"), LEADER), second: ("t", "/127.0.0.1", subscription("g"), FOLLOWER)}, version)
            same(g.authorized_operations, 0x148 if version >= 3 else -2147483648, "operations, asked for")
            same(describe(a, "seen", version).authorized_operations, -2147483648, "operations, not asked for")
            g = describe(a, "none", version)
            same((g.error_code, g.group_state, g.members), (0, "Dead", []), "a group that is not there")
        same(describe(a, "").error_code, 24, "an id that is none")
        for version in range(6):
            x = a.call("ListGroups", version)
            same(x.error_code, 0, version)
            found = {g.group_id: g for g in x.groups}
            same(found["seen"].protocol_type, "consumer", "type")
            assert "m1" in found and "none" not in found, list(found)
            if version >= 4:
                same((found["seen"].group_state, found["m1"].group_state), ("Stable", "Empty"), "states")
            if version >= 5:
                same(found["seen"].group_type, "classic", "type of group")
        ids = lambda **more: {g.group_id for g in a.call("ListGroups", 5, **more).groups}
        same((ids(states_filter=["stable"]) & {"seen", "m1"}, ids(states_filter=["Empty"]) & {"seen", "m1"}, ids(types_filter=["consumer"]),
              ids(types_filter=["Classic"]) == ids()), ({"seen"}, {"m1"}, set(), True), "filters")


@test("DeleteGroups and OffsetDelete")
def deleted():
    with client() as a, client() as b:
        pair(a, b, "del")
        same(commit(a, "del2", 5), 0, "commit")
        for version in range(3):
            x = a.call("DeleteGroups", version, groups_names=["del", "none", ""])
            same([(g.group_id, g.error_code) for g in x.results], [("del", 68), ("none", 69), ("", 24)], version)
        gone = lambda group, topic, partition=0: a.call("OffsetDelete", 0, group_id=group, topics=[
            {"name": topic, "partitions": [{"partition_index": partition}]}])
        code = lambda x: x.error_code or x.topics[0].partitions[0].error_code
        same([code(gone("none", "g")), code(gone("del", "g")), code(gone("del", "h")), code(gone("del2", "g", 9)), code(gone("del2", "g"))],
             [69, 86, 0, 3, 0], "offsets")
        same(fetch(a, "del2"), (0, -1, -1, ""), "gone")
        same([g.error_code for g in a.call("DeleteGroups", 2, groups_names=["del2", "del2"]).results], [0, 69], "delete")
        same(describe(a, "del2").group_state, "Dead", "it is not there")


@test("FindCoordinator and a look at offsets make no group")
def no_group():
    with client() as c:
        for version in range(7):
            more = {"coordinator_keys": ["looked-at"]} if version >= 4 else {"key": "looked-at"}
            a = c.call("FindCoordinator", version, **more)
            same((a.coordinators[0] if version >= 4 else a).error_code, 0, version)
        fetch(c, "looked-at")
        same([g.group_id for g in c.call("ListGroups", 4).groups if g.group_id == "looked-at"], [], "groups")


@test("a session that ends is a rebalance; a commit keeps it alive")
def sessions():
    with client() as a, client() as b:
        first = join(a, "ends", session_timeout_ms=2000, rebalance_timeout_ms=60000)
        same(sync(a, "ends", first.member_id, 1, [(first.member_id, LEADER)]).error_code, 0, "sync")
        for _ in range(8):
            time.sleep(0.5)
            same(commit(a, "ends", 1, member=first.member_id, generation=1), 0, "commit")
        began = time.monotonic()
        second = join(b, "ends", session_timeout_ms=2000)       # the first one does not come
        same((second.error_code, second.leader), (0, second.member_id), "without it")
        assert 1 < time.monotonic() - began < 15, time.monotonic() - began
        same(commit(a, "ends", 2, member=first.member_id, generation=1), UNKNOWN, "too late")


@test("kill -9 of the workers: nobody rebalances, a parked member finds its place again")
def workers_killed():
    with client() as a, client() as b:
        lead, second, generation = pair(a, b, "killed")
    for _ in range(2):
        for pid in n.children()["worker-kafka"]:
            n.kill("worker-kafka")
        with client() as a, client() as b:
            same([beat(a, "killed", lead, generation), beat(b, "killed", second, generation)], [0, 0], "as if nothing was")
            same(sync(b, "killed", second, generation).assignment, FOLLOWER, "its assignment")
    # In the middle of a rebalance, with a parked join.
    b = client()
    join_send(b, "killed", second, metadata=subscription("g", "h"))
    with client() as a:
        until(lambda: beat(a, "killed", lead, generation) == REBALANCE, 20, "a rebalance")
        for pid in n.children()["worker-kafka"]:
            n.kill("worker-kafka")
    b.__exit__()
    with client() as a, client() as b:
        x = join(a, "killed", lead)
        same((x.error_code, x.generation_id, len(x.members)), (0, generation + 1, 2), "the rebalance ends with both")
        y = join(b, "killed", second, metadata=subscription("g", "h"))
        same((y.error_code, y.generation_id, y.leader), (0, generation + 1, lead), "who lost the answer asks again")
        same(beat(a, "killed", lead, generation + 1), 0, "no other rebalance")


@test("kill -9 of storaged: one rebalance, ids stay, generations go on, offsets do not run back")
def storaged_killed():
    with client() as a, client() as b:
        lead, second, generation = pair(a, b, "restart")
        same(commit(a, "restart", 10, member=lead, generation=generation), 0, "commit")
        n.kill("storaged")
        same(fetch(a, "restart")[:2], (0, 10), "offsets")
        same(beat(a, "restart", lead, generation), REBALANCE, "join again")
        same(commit(b, "restart", 11, member=second, generation=generation), 0, "what was worked off before that")
        join_send(a, "restart", lead)
        join_send(b, "restart", second)
        x, y = a.receive(), b.receive()
        same((x.error_code, y.error_code, x.member_id, y.member_id), (0, 0, lead, second), "both are back")
        assert x.generation_id == y.generation_id > generation, (x.generation_id, generation)
        same(commit(a, "restart", 5, member=lead, generation=generation), ILLEGAL, "too late")
        same(fetch(a, "restart")[:2], (0, 11), "offsets")
        same(len((x.members or y.members)), 2, "one rebalance for both")


@test("a join that is parked when storaged dies goes on")
def parked_over_restart():
    with client() as a, client() as b:
        lead, second, generation = pair(a, b, "parked")
        join_send(b, "parked", second, metadata=subscription("h"))
        until(lambda: beat(a, "parked", lead, generation) == REBALANCE, 20, "a rebalance")
        n.kill("storaged")
        x = join(a, "parked", lead)
        y = b.receive()
        same((x.error_code, y.error_code, x.generation_id), (0, 0, y.generation_id), "both are in")


@test("offsets of 40 groups of 50 partitions stand after a restart of everything")
def many_groups():
    with client() as c:
        same(c.create("wide", partitions=50), [0], "create")
        for g in range(40):
            parts = [{"partition_index": p, "committed_offset": g * 100 + p} for p in range(50)]
            a = c.call("OffsetCommit", 8, group_id=f"wide-{g}", member_id="", generation_id_or_member_epoch=-1,
                       topics=[{"name": "wide", "partitions": parts}])
            same({p.error_code for p in a.topics[0].partitions}, {0}, "commit")
    n.kill_all()
    n.start()
    with client() as c:
        asked = [{"group_id": f"wide-{g}", "topics": None} for g in range(40)]
        for g, got in enumerate(c.call("OffsetFetch", 8, groups=asked).groups):
            same(sorted((p.partition_index, p.committed_offset) for t in got.topics for p in t.partitions),
                 [(p, g * 100 + p) for p in range(50)], got.group_id)


n.start()
run(n.stop)
