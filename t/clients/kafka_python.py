#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""kafka-python as t/clients/README has it. Version 2.0.2 and 3.x."""
import os, signal, sys, time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from kafka import ConsumerRebalanceListener, KafkaConsumer, KafkaProducer, OffsetAndMetadata, TopicPartition
from kafka.admin import ConfigResource, ConfigResourceType, KafkaAdminClient, NewPartitions, NewTopic
from kafka.errors import KafkaError
import kafka_form


def client(bootstrap):
    conf, ca, me = {"bootstrap_servers": bootstrap}, os.environ.get("KAFKA_TLS_CA"), os.environ.get("KAFKA_TLS_IDENTITY")
    if ca:
        conf |= {"security_protocol": "SSL", "ssl_cafile": ca}
    if me:
        conf |= {"ssl_certfile": me + ".pem", "ssl_keyfile": me + ".key"}
    return conf


def produce(bootstrap, topic, codec):
    p = KafkaProducer(**client(bootstrap), compression_type=None if codec == "none" else codec, linger_ms=200,
                      acks="all", batch_size=1 << 20, retries=5)
    futures = [p.send(topic, r.value, r.key, list(r.headers), r.partition, r.timestamp)
               for r in map(kafka_form.from_line, sys.stdin)]
    p.flush(60)
    for f in futures:
        f.get(60)
    p.close()


def show(r):
    row = kafka_form.Record(r.partition, r.offset, r.timestamp, r.key, r.value, tuple(r.headers))
    print(kafka_form.to_line(row), flush=True)


def consume(bootstrap, topic, where, count=None):
    c = KafkaConsumer(**client(bootstrap), group_id=None, enable_auto_commit=False, check_crcs=True)
    parts = [TopicPartition(topic, p) for p in sorted(c.partitions_for_topic(topic))]
    ends = c.end_offsets(parts)
    c.assign(parts)
    if where == "start":
        c.seek_to_beginning(*parts)
    elif where == "end":
        c.seek_to_end(*parts)
    else:
        for tp, found in c.offsets_for_times({tp: int(where) for tp in parts}).items():
            c.seek(tp, found.offset if found else ends[tp])
    left = int(count) if count else None
    while left if left is not None else any(c.position(tp) < ends[tp] for tp in parts):
        for rows in c.poll(500).values():
            for r in rows:
                show(r)
                left = left and left - 1
    c.close()


class Shown(ConsumerRebalanceListener):
    def on_partitions_revoked(self, revoked):
        pass

    def on_partitions_assigned(self, assigned):
        print("=", *sorted(tp.partition for tp in assigned), flush=True)


def commit(c, tp, r):
    try:
        c.commit({tp: OffsetAndMetadata(r.offset + 1, "")})
    except KafkaError as e:                 # the partition is somebody else's by now
        print(f"commit of {r.offset}: {e!r}", file=sys.stderr)


def group(bootstrap, topic, name):
    stopped = []
    signal.signal(signal.SIGTERM, lambda *_: stopped.append(1))
    c = KafkaConsumer(**client(bootstrap), group_id=name, enable_auto_commit=False, auto_offset_reset="earliest",
                      session_timeout_ms=6000, heartbeat_interval_ms=500, max_poll_records=1)
    c.subscribe([topic], listener=Shown())
    while not stopped:
        for tp, rows in c.poll(200).items():
            for r in rows:
                show(r)
                commit(c, tp, r)
    c.close(autocommit=False)


def stream(bootstrap, topic, count):
    p = KafkaProducer(**client(bootstrap), linger_ms=5, acks="all", retries=100)
    acked, futures = [], []

    def done(_):
        acked.append(1)
        if len(acked) % 20 == 0:
            print("+", len(acked), flush=True)
    for i in range(int(count)):
        futures.append(p.send(topic, b"%d" % i, partition=i % 4).add_callback(done))
        time.sleep(0.003)
    for f in futures:
        f.get(60)
    p.close()


def step(a, topic, what):
    if what == "create":
        a.create_topics([NewTopic(topic, 2, 1, topic_configs={"retention.ms": "3600000"})])
        return "created"
    if what == "describe":
        answers = a.describe_configs([ConfigResource(ConfigResourceType.TOPIC, topic)])
        if isinstance(answers, list):           # of version 2
            ms = next(c[1] for c in answers[0].resources[0][4] if c[0] == "retention.ms")
            partitions = a.describe_topics([topic])[0]["partitions"]
        else:
            ms = next(iter(answers.values()))[topic]["retention.ms"]["value"]
            partitions = a.describe_topics([topic])[0]["partitions"]
        return f"partitions {len(partitions)} retention.ms {ms}"
    if what == "alter":
        a.alter_configs([ConfigResource(ConfigResourceType.TOPIC, topic, {"retention.ms": "7200000"})])
        return "altered"
    if what == "grow":
        a.create_partitions({topic: NewPartitions(3)})
        return "grown"
    if what == "list":
        return "listed yes" if topic in a.list_topics() else "listed no"
    a.delete_topics([topic])
    return "deleted"


def admin(bootstrap, topic, *steps):
    a = KafkaAdminClient(**client(bootstrap))
    for what in steps:
        print(step(a, topic, what), flush=True)
    a.close()


{"produce": produce, "consume": consume, "group": group, "stream": stream, "admin": admin}[sys.argv[1]](*sys.argv[2:])
