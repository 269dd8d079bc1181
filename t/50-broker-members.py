#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Real consumers in groups: two that share a topic, one that leaves and one that takes over, commits and where they resume;
static members; workers killed (no rebalance) and storaged killed (one, and committed offsets never run back).

PICO_CLIENTS=all (make client-matrix) takes all that t/clients/install knows; else those that are quick."""
import os, re, signal, time

import kafka_clients, kafka_wire, node
from kafka_clients import Member
from tap import run, same, test, until

PARTITIONS = 4
n = node.Node(f"--num-partitions={PARTITIONS}", kafka=True)
QUICK = ("kafka-python", "confluent-kafka", "kcat")


def client():
    return kafka_wire.Client(n.kafka_port)


def bootstrap():
    return f"127.0.0.1:{n.kafka_port}"


def fill(topic, count, begin=0):
    """count records, numbered on, a partition each in turn."""
    with client() as c:
        for i in range(begin, begin + count):
            same(c.produce(topic, i % PARTITIONS, kafka_wire.batch([(None, b"%d" % i)])).error_code, 0, "produce")


def committed(group, topic):
    with client() as c:
        a = c.call("OffsetFetch", 7, group_id=group, topics=[{"name": topic, "partition_indexes": list(range(PARTITIONS))}])
        return [p.committed_offset for p in a.topics[0].partitions] if a.error_code == 0 else None


def values(*members):
    return {int(r.value) for m in members for r in m.records}


def rebalances():
    return int(re.search(r"^pico_group_rebalances_total.* (\d+)$", n.admin("/metrics").body.decode(), re.M)[1])


def shared(a, b):
    return a.assigned and b.assigned and sorted(a.assigned + b.assigned) == list(range(PARTITIONS)) and len(a.assigned) == 2


def couple(c, topic, *instances):
    """Two members that have shared the topic; what is in it they have got."""
    a = Member(c, bootstrap(), topic, topic, *instances[:1])
    until(lambda: a.assigned == list(range(PARTITIONS)), 40, f"{c.name}: the first has all")
    b = Member(c, bootstrap(), topic, topic, *instances[1:])
    until(lambda: shared(a, b), 60, f"{c.name}: both have two")
    return a, b


def two(c):
    topic = f"two-{c.name}"
    with client() as w:
        same(w.create(topic, partitions=PARTITIONS), [0], "create")
    fill(topic, 40)
    a, b = couple(c, topic)
    fill(topic, 40, 40)
    until(lambda: values(a, b) == set(range(80)), 40, "both get theirs")
    assert {r.partition for r in b.records} == set(b.assigned), "the second has its partitions only"
    b.end()
    until(lambda: a.assigned == list(range(PARTITIONS)), 40, "the first has all again")
    fill(topic, 40, 80)
    until(lambda: values(a, b) == set(range(120)), 40, "it gets all")
    until(lambda: committed(topic, topic) == [30] * PARTITIONS, 20, "everything is committed")
    a.end()
    again = Member(c, bootstrap(), topic, topic)
    until(lambda: again.assigned == list(range(PARTITIONS)), 40, "a third one")
    fill(topic, 4, 120)
    until(lambda: len(again.records) >= 4, 40, "it goes on")
    again.end()
    same(sorted(int(r.value) for r in again.records), [120, 121, 122, 123], "where the others were")


def survive(c):
    """Workers killed, then storaged, under two members and a producer."""
    topic = f"kill-{c.name}"
    with client() as w:
        same(w.create(topic, partitions=PARTITIONS), [0], "create")
    fill(topic, 8)
    a, b = couple(c, topic)
    until(lambda: values(a, b) == set(range(8)), 40, "the first ones")
    before = rebalances()
    for i in range(3):
        n.kill("worker-kafka")
        fill(topic, 8, 8 + 8 * i)
        until(lambda: values(a, b) >= set(range(16 + 8 * i)), 40, f"after worker {i}")
    time.sleep(2)                   # four heartbeats
    same(rebalances(), before, "no rebalance by workers")
    until(lambda: committed(topic, topic) == [8] * PARTITIONS, 20, "all is committed")
    low = [8] * PARTITIONS
    n.kill("storaged")
    end = time.monotonic() + 60
    while (now := committed(topic, topic)) is None and time.monotonic() < end:
        time.sleep(0.02)
    assert now is not None and all(x >= y for x, y in zip(now, low)), (now, low)
    fill(topic, 8, 32)
    while not values(a, b) >= set(range(40)) or committed(topic, topic) != [10] * PARTITIONS:
        assert time.monotonic() < end, f"{c.name}: {committed(topic, topic)}, {len(values(a, b))} of 40"
        now = committed(topic, topic) or low
        assert all(x >= y for x, y in zip(now, low)), (now, low)
        low = now
        time.sleep(0.05)
    until(lambda: rebalances() > before and shared(a, b), 40, "they share again")
    same(rebalances(), before + 1, "one rebalance by storaged")
    a.end()
    b.end()


def static(c):
    topic = f"static-{c.name}"
    with client() as w:
        same(w.create(topic, partitions=PARTITIONS), [0], "create")
    a, b = couple(c, topic, "one", "two")
    before, had = rebalances(), b.assigned
    b.end(signal.SIGKILL)
    b = Member(c, bootstrap(), topic, topic, "two")
    until(lambda: b.assigned is not None, 40, "it is back")
    same((b.assigned, rebalances()), (had, before), "with what it had, and nobody rebalanced")
    b.end(signal.SIGKILL)
    until(lambda: a.assigned == list(range(PARTITIONS)), 40, "when it stays away, its session ends")
    a.end()


def alone(function, c):
    try:
        function(c)
    finally:
        kafka_clients.no_members()


os.environ.setdefault("PICO_CLIENTS", " ".join(QUICK))
for chosen in kafka_clients.chosen():
    test(f"{kafka_clients.title(chosen)}: two share, one leaves, a third resumes")(lambda c=chosen: alone(two, c))
    if chosen.name in QUICK:
        test(f"{chosen.name}: workers and storaged killed")(lambda c=chosen: alone(survive, c))
    if chosen.name == "confluent-kafka":
        test(f"{chosen.name}: static members")(lambda c=chosen: alone(static, c))
n.start()
run(n.stop)
