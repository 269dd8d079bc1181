#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Administration and idempotent producing by Kafka clients of several makes: each makes, describes, alters, grows, lists and
deletes a topic, and what it is told is what stands; each produces numbered records while storaged is killed twice, and all of
them are there, once and in order (at least once by a client without idempotence).

PICO_CLIENTS=all (make client-matrix) takes all that t/clients/install knows; else those that are quick."""
import threading

import kafka_clients, kafka_wire, node
from kafka_clients import ADMIN, CONFIGS, IDEMPOTENCE
from tap import diag, run, same, test, until

PARTITIONS, COUNT = 4, 400
n = node.Node(kafka=True)


def wire():
    return kafka_wire.Client(n.kafka_port)


def bootstrap():
    return f"127.0.0.1:{n.kafka_port}"


def steps(c, topic, *names):
    process = kafka_clients.start(c, "admin", bootstrap(), topic, *names)
    return kafka_clients.output(c, process).decode().splitlines()


def stands(topic):
    """(error, partitions, retention.ms) as the node tells it."""
    with wire() as w:
        t, = w.call("Metadata", 8, topics=[{"name": topic}], allow_auto_topic_creation=False).topics
        a = w.call("DescribeConfigs", 4, resources=[{"resource_type": 2, "resource_name": topic, "configuration_keys": ["retention.ms"]}])
        return t.error_code, len(t.partitions), next((k.value for k in a.results[0].configs), None)


def administer(c):
    topic, configs = "admin-" + c.name, CONFIGS not in c.cannot
    tells = lambda n, ms: f"partitions {n} retention.ms {ms}" if configs else f"partitions {n}"
    got = steps(c, topic, "create", "list", "describe", *(["alter"] if configs else []), "grow")
    same(got, ["created", "listed yes", tells(2, "3600000"), *(["altered"] if configs else []), "grown"], c.name)
    ms = "7200000" if configs else "3600000"
    same(stands(topic), (0, 3, ms), "what stands")
    same(steps(c, topic, "describe", "delete", "list"), [tells(3, ms), "deleted", "listed no"], c.name)
    same(stands(topic)[0], 3, "it is gone")


def values(topic):
    """By partition the numbers that stand there, in order."""
    with wire() as w:
        return [[int(r.value) for r in w.read_all(topic, p)] for p in range(PARTITIONS)]


def acknowledged(process, seen):
    for line in process.stdout:
        if line.startswith(b"+"):
            seen.append(int(line[1:]))


def killed(c):
    n.stop()                        # who kills it again and again waits longer each time
    n.start()
    topic = "kill-" + c.name
    with wire() as w:
        same(w.create(topic, partitions=PARTITIONS), [0], "create")
    process, seen = kafka_clients.start(c, "stream", bootstrap(), topic, COUNT), [0]
    reader = threading.Thread(target=acknowledged, args=(process, seen), daemon=True)
    errors = []
    threading.Thread(target=lambda: errors.append(process.stderr.read()), daemon=True).start()
    reader.start()
    for at in (COUNT // 5, 3 * COUNT // 5):
        until(lambda: seen[-1] >= at or process.poll() is not None, 60, f"{at} of {COUNT}")
        assert process.poll() is None, f"{c.name} ended with {process.returncode}"
        n.kill("storaged")
    same(process.wait(90), 0, f"{c.name}: {errors}")
    rows = values(topic)
    numbers = [x for row in rows for x in row]
    same(sorted(set(numbers)), list(range(COUNT)), f"{c.name}: what was acknowledged is there")
    if IDEMPOTENCE not in c.cannot:
        same((len(numbers), [row == sorted(row) for row in rows]), (COUNT, [True] * PARTITIONS), f"{c.name}: once, in order")
    else:
        diag(f"{c.name}: {len(numbers) - COUNT} twice")


for one in kafka_clients.chosen():
    if ADMIN not in one.cannot:
        test(f"{kafka_clients.title(one)}: administers topics")(lambda one=one: administer(one))
    test(f"{one.name}: produces while storaged is killed twice")(lambda one=one: killed(one))
n.start()
run(n.stop)
