#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""confluent-kafka (librdkafka) as t/clients/README has it. It produces idempotently."""
import os, signal, sys, time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from confluent_kafka import OFFSET_BEGINNING, OFFSET_END, Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, NewPartitions, NewTopic
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


def stream(bootstrap, topic, count):
    p = Producer({**client(bootstrap), "enable.idempotence": True, "linger.ms": 5, "message.timeout.ms": 60000})
    acked, errors = [], []

    def done(error, _):
        (errors if error else acked).append(error)
        if len(acked) % 20 == 0:
            print("+", len(acked), flush=True)
    for i in range(int(count)):
        p.produce(topic, b"%d" % i, partition=i % 4, on_delivery=done)
        p.poll(0.003)
        time.sleep(0.003)
    assert p.flush(60) == 0 and not errors, errors


def configs(a, topic):
    f, = a.describe_configs([ConfigResource(ConfigResource.Type.TOPIC, topic)]).values()
    return f.result(30)


def step(a, topic, what):
    if what == "create":
        a.create_topics([NewTopic(topic, 2, 1, config={"retention.ms": "3600000"})])[topic].result(30)
        return "created"
    if what == "describe":
        partitions = a.list_topics(topic, 30).topics[topic].partitions
        return f"partitions {len(partitions)} retention.ms {configs(a, topic)['retention.ms'].value}"
    if what == "alter":
        entry = ConfigEntry("retention.ms", "7200000", incremental_operation=AlterConfigOpType.SET)
        f, = a.incremental_alter_configs([ConfigResource(ConfigResource.Type.TOPIC, topic, incremental_configs=[entry])]).values()
        f.result(30)
        return "altered"
    if what == "grow":
        a.create_partitions([NewPartitions(topic, 3)])[topic].result(30)
        return "grown"
    if what == "list":
        return "listed yes" if topic in a.list_topics(timeout=30).topics else "listed no"
    a.delete_topics([topic])[topic].result(30)
    return "deleted"


def admin(bootstrap, topic, *steps):
    a = AdminClient(client(bootstrap))
    for what in steps:
        print(step(a, topic, what), flush=True)


{"produce": produce, "consume": consume, "group": group, "stream": stream, "admin": admin}[sys.argv[1]](*sys.argv[2:])
