#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Each row of the names table on a real node: its Kafka side step by step, and after either side that HTTP and Kafka
clients see the same topics: the names that Metadata lists, and under each the log that HTTP reads."""
import kafka_wire, names, tap
from node import Node

node = Node(kafka=True)
http, kafka = None, None


def metadata(topics, create=False):
    return kafka.call("Metadata", 12, topics=topics, allow_auto_topic_creation=create)


def topic(name, create=False):
    return metadata([{"name": name}], create).topics[0]


def kafka_names():
    """Of all topics that Kafka clients see."""
    a = metadata(None)
    tap.same([t.error_code for t in a.topics], [0] * len(a.topics), "error codes")
    tap.same(len({t.topic_id for t in a.topics} - {kafka_wire.ZERO_ID}), len(a.topics), "topic ids")
    return sorted(t.name for t in a.topics)


def kafka_step(step, ids):
    """(error code, text) of a step."""
    call, name = step[:2]
    if call == "TopicId":
        id_ = kafka.topic_id(name)
        tap.same(ids.setdefault(step[2], id_), id_, f"{step} of {ids}")
        tap.same(len(set(ids.values())), len(ids), f"{step}: ids of one letter each: {ids}")
        return step[2], ""
    if call == "CreateTopics":
        # Only validated it is answered the same, and nothing is done.
        checked, t = [kafka.call(call, 7, timeout_ms=30000, validate_only=only, topics=[
            {"name": name, "num_partitions": 1, "replication_factor": 1}]).topics[0] for only in (True, False)]
        tap.same((checked.error_code, checked.get("error_message"), checked.num_partitions),
                 (t.error_code, t.get("error_message"), t.num_partitions), f"{step} only validated")
    elif call == "DeleteTopics":
        t = kafka.call(call, 5, timeout_ms=30000, topic_names=[name]).responses[0]
    elif call == "Fetch":
        t = kafka.fetch(name, 0, 0)
    else:
        t = topic(name, {"Metadata": False, "AutoCreate": True}[call])
    return t.error_code, t.get("error_message") or ""


def empty():
    for name in kafka_names():
        tap.same(kafka_step(("DeleteTopics", name), {})[0], 0, name)
    tap.same(kafka_names(), [])


def compare(streams, hidden):
    """What both protocols list is `streams`, but for what Kafka alone sees."""
    tap.same(names.names_over_http(http), streams, "streams over HTTP")
    tap.same(kafka_names(), sorted([n for n in streams.values() if n] + hidden), "topics over Kafka")
    for path, name in streams.items():
        if name is None:
            continue
        value = (name + " is " + path).encode()
        tap.same(kafka.produce(name, 0, kafka_wire.batch([(None, value)])).error_code, 0, name)
        a = http("GET", path + "?format=raw")
        assert a.status == 200 and value in a.body, f"{path}: {a}"


def take(row):
    if row.http:
        empty()
        names.prepare(http, row)
        for step in row.http:
            tap.same(names.http_step(http, step), step[3:5], f"{step}")
        compare(row.after, [])
    empty()
    names.prepare(http, row)
    ids = {}
    for step in row.kafka:
        if step[1].startswith("/"):
            tap.same(names.http_step(http, step), step[3:5], f"{step}")
            continue
        code, text = kafka_step(step, ids)
        if step[0] == "Fetch":  # what a worker knows of names may be a second old
            tap.until(lambda: kafka_step(step, ids)[0] == step[2], 10, f"{step}: {code}")
        else:
            tap.same(code, step[2], f"{step}: {text}")
        assert len(step) < 4 or step[3] in text, f"{step}: {text!r}"
    if row.kafka:
        compare(row.after if row.after_kafka is None else row.after_kafka, row.hidden)


@tap.test("a node")
def _():
    global http, kafka
    node.start()
    http, kafka = node.client(), kafka_wire.Client(node.kafka_port)


for row in names.ROWS:
    tap.test(row.words)(lambda row=row: take(row))


@tap.test("everything is there after kill -9, and under its id")
def _():
    global http, kafka
    empty()
    names.prepare(http, names.Row("", [("PUT", names.EU, {}), ("PUT", names.DOTTED, {})], [], [], {}))
    tap.same([kafka_step(("CreateTopics", n), {})[0] for n in ("k", "_schemas")], [0, 0])
    tap.same(names.http_step(http, ("PATCH", names.EU, {"kafkaTopic": "moved"}))[0], 200)
    ids = {n: kafka.topic_id(n) for n in kafka_names()}
    tap.same(sorted(ids), ["_schemas", "k", "moved"])
    node.kill_all()
    node.start()
    http, kafka = node.client(), kafka_wire.Client(node.kafka_port)
    tap.same({n: kafka.topic_id(n) for n in kafka_names()}, ids, "names and ids")
    compare({names.EU: "moved", names.DOTTED: None, "/k": "k"}, ["_schemas"])
    tap.same(node.stop(), 0, "exit code")


tap.run()
