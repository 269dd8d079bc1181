#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Many groups and many members at once: 20 groups of 5 while storaged is killed, a group of 100 while workers are
terminated and killed, 500 groups of 4 that commit. Members speak the protocol themselves, as clients do, each in a thread
or with its connection in turn."""
import os, random, signal, struct, threading, time

import kafka_wire, node
from kafka_wire import Client, Closed
from tap import diag, run, same, test, until

n = node.Node("--num-partitions=5", "--kafka-workers=2", kafka=True)
REBALANCE, UNKNOWN, ILLEGAL, ID_REQUIRED = 27, 25, 22, 79
LATER = (14, 15, 16, 7)                 # loading, not available, not coordinator, timed out: the same again


class Member(threading.Thread):
    """Joins, takes every partition whose number is its own in the members' order, commits rising offsets, until told to end."""

    def __init__(self, group, pause=0.05):
        super().__init__(daemon=True)
        self.group, self.pause, self.stop, self.id, self.failure = group, pause, threading.Event(), "", None
        self.joins, self.generation, self.parts, self.acked, self.c = 0, -1, [], {}, None

    def call(self, api, version, **values):
        """Over lost connections and pauses, as clients do."""
        end = time.monotonic() + 60
        while time.monotonic() < end:
            try:
                self.c = self.c or Client(n.kafka_port, timeout=60)
                a = self.c.call(api, version, group_id=self.group, **values)
                if (a["error_code"] if "error_code" in a else 0) not in LATER:
                    return a
            except (OSError, Closed):
                if self.c:
                    self.c.__exit__()
                self.c = None
            time.sleep(0.02)
        raise AssertionError(f"{self.group}: no answer to {api}")

    def join(self):
        fields = dict(session_timeout_ms=30000, rebalance_timeout_ms=60000, protocol_type="consumer",
                      protocols=[{"name": "range", "metadata": b""}])
        a = self.call("JoinGroup", 5, member_id=self.id, **fields)
        if a.error_code == ID_REQUIRED:
            self.id = a.member_id
            a = self.call("JoinGroup", 5, member_id=self.id, **fields)
        if a.error_code == UNKNOWN:
            self.id = ""
        if a.error_code:
            return False
        self.joins += 1
        self.id, self.generation = a.member_id, a.generation_id
        members = sorted(m.member_id for m in a.members)
        given = [{"member_id": m, "assignment": struct.pack(">i", i)} for i, m in enumerate(members)]
        s = self.call("SyncGroup", 3, member_id=self.id, generation_id=self.generation, assignments=given)
        if s.error_code:
            return False
        self.parts = [struct.unpack(">i", s.assignment)[0]] if s.assignment else []
        return True

    def commit(self, partition):
        known = self.call("OffsetFetch", 5, topics=[{"name": "t", "partition_indexes": [partition]}])
        at = known.topics[0].partitions[0].committed_offset
        a = self.call("OffsetCommit", 7, member_id=self.id, generation_id_or_member_epoch=self.generation,
                      topics=[{"name": "t", "partitions": [{"partition_index": partition, "committed_offset": at + 1}]}])
        error = a.topics[0].partitions[0].error_code
        if error == 0:
            self.acked[partition] = at + 1
        return error

    def step(self):
        error = self.call("Heartbeat", 3, member_id=self.id, generation_id=self.generation).error_code
        for p in self.parts if error == 0 and self.pause < 1 else ():
            if p < 5:
                error = self.commit(p)
        assert error in (0, REBALANCE, UNKNOWN, ILLEGAL, *LATER), error
        if error == UNKNOWN:
            self.id = ""
        if error in (REBALANCE, UNKNOWN, ILLEGAL):
            self.settle()

    def settle(self):
        end = time.monotonic() + 60
        while not self.join():
            assert time.monotonic() < end, f"{self.group}: does not settle"
            time.sleep(0.02)

    def run(self):
        try:
            self.settle()
            while not self.stop.wait(self.pause * random.uniform(0.5, 1.5)):
                self.step()
        except BaseException as e:
            self.failure = e

    def end(self):
        self.stop.set()
        self.join_thread()
        assert self.failure is None, self.failure

    def join_thread(self):
        threading.Thread.join(self, 60)
        assert not self.is_alive(), f"{self.group}: hangs"


def settled(members):
    for m in members:
        assert m.failure is None, m.failure
    generations = {m.generation for m in members}
    return len(generations) == 1 and -1 not in generations and len({p for m in members for p in m.parts}) == len(members)


def offsets(group):
    with Client(n.kafka_port) as c:
        a = c.call("OffsetFetch", 5, group_id=group, topics=[{"name": "t", "partition_indexes": list(range(5))}])
        same(a.error_code, 0, group)
        return [p.committed_offset for p in a.topics[0].partitions]


@test("20 groups of 5 members while storaged is killed three times: each has a rebalance a kill, no commit runs back")
def killed():
    with Client(n.kafka_port) as c:
        same(c.create("t", partitions=5), [0], "create")
    groups = [[Member(f"k{g}") for _ in range(5)] for g in range(20)]
    for m in (m for g in groups for m in g):
        m.start()
    until(lambda: all(map(settled, groups)), 60, "all groups stand")
    low = {g: [-1] * 5 for g in range(20)}
    for kill in range(3):
        before = [max(m.generation for m in g) for g in groups]
        time.sleep(1)
        n.kill("storaged")
        until(lambda: all(settled(g) and g[0].generation > b for g, b in zip(groups, before)), 60, f"all stand again after kill {kill}")
        time.sleep(0.5)
        for g, members in enumerate(groups):
            same({m.generation for m in members}, {before[g] + 1}, f"group {g}: one rebalance")
            now = offsets(f"k{g}")
            assert all(x >= y for x, y in zip(now, low[g])), (g, now, low[g])
            low[g] = now
    for m in (m for g in groups for m in g):
        m.end()
    total = 0
    for g, members in enumerate(groups):
        now = offsets(f"k{g}")
        total += sum(now)
        for m in members:
            for p, offset in m.acked.items():
                assert now[p] >= offset, f"group {g} partition {p}: {now[p]}, but {offset} was acknowledged"
    diag(f"{total} commits")


@test("a group of 100 members while workers are terminated and killed: no rebalance")
def workers():
    members = [Member("hundred", pause=1) for _ in range(100)]
    for m in members:
        m.start()
    until(lambda: settled(members), 90, "100 members stand")
    generation = members[0].generation
    for i in range(8):
        for pid in n.children()["worker-kafka"]:
            os.kill(pid, signal.SIGTERM if i % 2 else signal.SIGKILL)
        time.sleep(1)
        n.wait_ready()
    time.sleep(2)
    for m in members:
        m.end()
    same({m.generation for m in members}, {generation}, "no rebalance")


def join_send(c, group, member=""):
    c.send("JoinGroup", 3, group_id=group, session_timeout_ms=60000, rebalance_timeout_ms=60000, member_id=member,
           protocol_type="consumer", protocols=[{"name": "range", "metadata": b""}])


def gather(clients, other, group):
    """A stable group, a member a connection, in one rebalance but the first one's own; [(id, generation)]."""
    join_send(clients[0], group)
    lead = clients[0].receive()
    for c in clients[1:]:
        join_send(c, group)
    until(lambda: len(other.call("DescribeGroups", 4, groups=[group]).groups[0].members) == 4, 20, "four are there")
    join_send(clients[0], group, lead.member_id)
    members = [(a.member_id, a.generation_id) for a in (c.receive() for c in clients)]
    same({generation for _, generation in members}, {2}, group)
    given = [{"member_id": m, "assignment": b"x"} for m, _ in members]
    for i, (c, (member, generation)) in enumerate(zip(clients, members)):
        c.send("SyncGroup", 2, group_id=group, generation_id=generation, member_id=member, assignments=[] if i else given)
    same([c.receive().assignment for c in clients], [b"x"] * 4, group)
    return members


@test("500 groups of 4 members commit")
def many():
    clients, other = [Client(n.kafka_port, timeout=60) for _ in range(4)], Client(n.kafka_port)
    began = time.monotonic()
    groups = {f"m{g}": gather(clients, other, f"m{g}") for g in range(500)}
    joined, commits = time.monotonic(), 0
    for round in range(1, 2):
        for g, members in groups.items():
            for i, (c, (member, generation)) in enumerate(zip(clients, members)):
                c.send("OffsetCommit", 7, group_id=g, member_id=member, generation_id_or_member_epoch=generation,
                       topics=[{"name": "t", "partitions": [{"partition_index": i, "committed_offset": round}]}])
        for g in groups:
            for c in clients:
                same(c.receive().topics[0].partitions[0].error_code, 0, f"commit of group {g}")
                commits += 1
    seconds = time.monotonic() - joined
    for g in random.sample(list(groups), 20):
        same(offsets(g)[:4], [1] * 4, g)
    for c in (*clients, other):
        c.__exit__()
    diag(f"500 groups of 4 in {joined - began:.1f} s; {commits} commits in {seconds:.1f} s, {commits / seconds:.0f} a second")


n.start()
run(n.stop)
