#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Answers of Produce are lost on the way to an idempotent librdkafka: what it sends again is stored once. Each record
passes through the proxy, which counts what was sent."""
import subprocess

import kafka_proxy, node
from tap import run, same, test

proxy = kafka_proxy.Proxy()
n = node.Node("--kafka-advertise=" + proxy.address, kafka=True).start()
proxy.target = n.kafka_port
QUICK = " ".join("-X " + o for o in (
    "socket.timeout.ms=1000", "request.timeout.ms=1000", "retry.backoff.ms=50", "reconnect.backoff.ms=10", "linger.ms=0",
    "batch.num.messages=10", "max.in.flight=5")).split()


def kcat(*args, stdin=None):
    r = subprocess.run(["kcat", "-b", proxy.address, "-E", *args], input=stdin, capture_output=True, timeout=60)
    same(r.returncode, 0, r.stderr[-600:])
    return r.stdout


def lost(fate):
    topic = fate.replace(" ", "-")
    kcat("-P", "-t", topic, stdin=b"0\n")
    proxy.clear()
    proxy.lose(3, fate)
    kcat("-P", "-t", topic, "-X", "enable.idempotence=true", *QUICK, stdin=b"".join(b"%d\n" % i for i in range(1, 100)))
    same(proxy.faults(), 0, "faults to come")
    sent = proxy.of(kafka_proxy.PRODUCE)
    same([i for i, e in enumerate(sent) if e.fate], [2], "requests whose answer was lost")
    assert len({e.connection for e in sent}) > 1, sent
    same(kcat("-C", "-t", topic, "-e", "-q").split(), [b"%d" % i for i in range(100)], f"{fate}: records in order")


for how in (kafka_proxy.SWALLOW, kafka_proxy.CUT, kafka_proxy.CUT_EARLY):
    test(f"an answer lost by {how}: each record once, in order")(lambda how=how: lost(how))
run(lambda: (n.stop(), proxy.close()))
