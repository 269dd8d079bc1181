#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""confluent-kafka (librdkafka) as t/clients/README has it. It produces idempotently."""
import os, signal, sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from confluent_kafka import OFFSET_BEGINNING, OFFSET_END, Consumer, KafkaException, Producer, TopicPartition
import kafka_form


def client(bootstrap):
    conf, ca, me = {"bootstrap.servers": bootstrap}, os.environ.get("KAFKA_TLS_CA"), os.environ.get("KAFKA_TLS_IDENTITY")
    if ca:
        conf |= {"security.protocol": "ssl", "ssl.ca.location": ca}
    if me:
        conf |= {"ssl.certificate.location": me + ".pem", "ssl.key.location": me + ".key"}
    return conf


def produce(bootstrap, topic, codec):
    p = Producer({**client(bootstrap), "compression.codec": codec, "enable.idempotence": True,
                  "linger.ms": 200, "message.timeout.ms": 60000})
    errors = []
    done = lambda error, message: errors.append(error) if error else None
    for r in map(kafka_form.from_line, sys.stdin):
        p.produce(topic, r.value, r.key, r.partition, on_delivery=done, timestamp=r.timestamp or 0,
                  headers=list(r.headers))
    left = p.flush(60)
    assert left == 0 and not errors, (left, errors)


def offsets(c, parts, where):
    if where in ("start", "end"):
        at = OFFSET_BEGINNING if where == "start" else OFFSET_END
        return [TopicPartition(p.topic, p.partition, at) for p in parts]
    return c.offsets_for_times([TopicPartition(p.topic, p.partition, int(where)) for p in parts], 30)


def show(m):
    line = kafka_form.Record(m.partition(), m.offset(), m.timestamp()[1], m.key(), m.value(), tuple(m.headers() or ()))
    print(kafka_form.to_line(line), flush=True)


def consume(bootstrap, topic, where, count=None):
    c = Consumer({**client(bootstrap), "group.id": "unused", "enable.auto.commit": False, "check.crcs": True,
                  "enable.auto.offset.store": False, "auto.offset.reset": "error"})
    parts = [TopicPartition(topic, p) for p in sorted(c.list_topics(topic, 30).topics[topic].partitions)]
    ends = {p.partition: c.get_watermark_offsets(p, 30)[1] for p in parts}
    at = offsets(c, parts, where)
    open_parts = {p.partition for p in at if p.offset != OFFSET_END and ends[p.partition] > max(p.offset, 0)}
    c.assign(at)
    left = int(count) if count else None
    while left if left is not None else open_parts:
        m = c.poll(1)
        if m is None:
            continue
        if m.error():
            raise KafkaException(m.error())
        show(m)
        left = left and left - 1
        if m.offset() + 1 >= ends[m.partition()]:
            open_parts.discard(m.partition())
    c.close()


def commit(c, m):
    try:
        c.commit(m, asynchronous=False)
    except KafkaException as e:             # the partition is somebody else's by now
        print(f"commit of {m.offset()}: {e}", file=sys.stderr)


def group(bootstrap, topic, name, instance=None):
    stopped = []
    signal.signal(signal.SIGTERM, lambda *_: stopped.append(1))
    conf = {**client(bootstrap), "group.id": name, "enable.auto.commit": False, "auto.offset.reset": "earliest",
            "session.timeout.ms": 6000, "heartbeat.interval.ms": 500}
    if instance:
        conf["group.instance.id"] = instance
    c = Consumer(conf)
    c.subscribe([topic], on_assign=lambda _, parts: print("=", *sorted(p.partition for p in parts), flush=True))
    while not stopped:
        m = c.poll(0.2)
        if m is not None and not m.error():
            show(m)
            commit(c, m)
    c.close()


{"produce": produce, "consume": consume, "group": group}[sys.argv[1]](*sys.argv[2:])
