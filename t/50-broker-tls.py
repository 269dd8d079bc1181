#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""--kafka-tls-listen with real clients: kcat, confluent-kafka, kafka-python, franz-go and Java with security.protocol=SSL,
with and without certificates of their own; they are told the TLS port and never the plain one. New certificates under a
running consumer. What is no TLS is closed.

PICO_CLIENTS=all (make client-matrix) takes all that speak TLS; else those that are quick."""
import os, random, socket, ssl

import certificates, kafka_clients, kafka_wire, tap
from secure_node import SecureNode
from tap import same, until

RECORDS = 200


class Secure(SecureNode):
    def client(self):
        """kafka_wire.Client over TLS."""
        c = kafka_wire.Client(self.kafka_tls_port)
        c.socket = self.trust().wrap_socket(c.socket, server_hostname="localhost")
        return c


n = Secure(kafka=True)
friends = certificates.Authority(os.path.join(n.dir, "friends"))
m = Secure(client_ca=friends.pem, kafka=True)
CLIENTS = [c for c in kafka_clients.chosen() if c.name in
           ("kcat", "confluent-kafka", "kafka-python", "kafka-python-3", "franz-go", "java-3.9", "java-4")]


def with_tls(at, identity=None):
    """The environment of client programs."""
    os.environ["KAFKA_TLS_CA"] = at.ca.pem
    os.environ.pop("KAFKA_TLS_IDENTITY", None)
    if identity:
        os.environ["KAFKA_TLS_IDENTITY"] = identity
    return f"localhost:{at.kafka_tls_port}"


def round_trip(client, at, bootstrap):
    topic = "t-" + client.name
    with kafka_wire.Client(at.kafka_port) as c:
        same(c.create(topic, partitions=kafka_clients.PARTITIONS), [0], "create")
    records = kafka_clients.recipe(client, 1, 1700000000000)
    kafka_clients.produce(client, bootstrap, topic, "none", records)
    got = sorted(kafka_clients.consume(client, bootstrap, topic, "start"))
    want = []
    for p in range(kafka_clients.PARTITIONS):
        mine = [r for r in records if r.partition == p]
        want += [r._replace(offset=i) for i, r in enumerate(mine)]
    strip = lambda r: r._replace(timestamp=None)
    same([strip(r) for r in got], [strip(r) for r in want], client.name)


@tap.test("the TLS port is what its clients are told, in Metadata, DescribeCluster and FindCoordinator; the plain one, the others")
def advertised():
    n.start()
    for client, port in ((n.client(), n.kafka_tls_port), (kafka_wire.Client(n.kafka_port), n.kafka_port)):
        with client as c:
            same([(b.host, b.port) for b in c.call("Metadata", 12, topics=[]).brokers], [("127.0.0.1", port)], "Metadata")
            same([b.port for b in c.call("DescribeCluster", 0).brokers], [port], "DescribeCluster")
            same(c.call("FindCoordinator", 3, key="g", key_type=0).port, port, "FindCoordinator")


@tap.test("an 8 MB batch there and back, and answers in order over many requests at once")
def large():
    value = random.Random(3).randbytes(8 << 20)
    with n.client() as c:
        same(c.create("large"), [0], "create")
        same(c.produce("large", 0, kafka_wire.batch([(None, value)])).error_code, 0, "produce")
        batch = kafka_wire.batch([(b"k", b"v" * 500)])
        for i in range(RECORDS):
            c.send("Produce", 9, acks=-1, timeout_ms=30000,
                   topic_data=[dict(name="large", partition_data=[dict(index=0, records=batch)])])
        offsets = [c.receive().responses[0].partition_responses[0].base_offset for _ in range(RECORDS)]
        same(offsets, list(range(1, RECORDS + 1)), "offsets")
    with n.client() as c, kafka_wire.Client(n.kafka_port) as plain:
        secret, open_ = (x.fetch("large", 0, 0, max_bytes=20 << 20) for x in (c, plain))
        assert value in secret.records and secret.records == open_.records, "the same bytes"


for one in CLIENTS:
    tap.test(f"{kafka_clients.title(one)}: produces and consumes with security.protocol=SSL")(
        lambda one=one: round_trip(one, n, with_tls(n)))


@tap.test("a member of a group goes on over a new certificate; who comes later sees the new one")
def reload():
    client = next((c for c in CLIENTS if c.name in ("confluent-kafka", "kcat")), None)
    if client is None:
        raise tap.Skip("neither confluent-kafka nor kcat is installed by t/clients/install")
    with kafka_wire.Client(n.kafka_port) as c:
        same(c.create("group", partitions=1), [0], "create")
        member = kafka_clients.Member(client, with_tls(n), "group", "g")
        until(lambda: member.assigned is not None, 60, "assigned")
        same(c.produce("group", 0, kafka_wire.batch([(None, b"1")])).error_code, 0, "produce")
        until(lambda: len(member.records) == 1, 60, "a record")
        with n.client() as before:
            first = before.socket.getpeercert()["serialNumber"]
            n.replace_certificate("second")
            n.reload()

            def is_new():
                with n.client() as c:
                    return c.socket.getpeercert()["serialNumber"] != first
            until(is_new, 30, "the new certificate")
            same(before.call("ApiVersions", 0).error_code, 0, "an old connection")
        same(c.produce("group", 0, kafka_wire.batch([(None, b"2")])).error_code, 0, "produce")
        until(lambda: len(member.records) == 2, 60, "another record")
        member.end()


@tap.test("garbage, plain Kafka and TLS to the wrong port are closed; the worker stays")
def garbage():
    pid, rng = n.pid("worker-kafka"), random.Random(4)
    plain = kafka_wire.frame("ApiVersions", 0, 1, "t")
    for data in (plain, *(rng.randbytes(rng.randrange(1, 2000)) for _ in range(40))):
        with socket.create_connection(("127.0.0.1", n.kafka_tls_port), timeout=10) as s:
            s.sendall(data)
            s.shutdown(socket.SHUT_WR)
            while s.recv(4096):
                pass
    until(lambda: "worker-kafka TLS failed: " in n.log(), 30, "a line")
    with socket.create_connection(("127.0.0.1", n.kafka_port), timeout=10) as s:
        s.sendall(b"\x16\x03\x01\x02\0\x01\0\x01\xfc\x03\x03")
        same(s.recv(4096), b"", "TLS to the plain port")
    until(lambda: "this is no Kafka request, closing the connection reason=tls" in n.log(), 30, "a line")
    same(n.pid("worker-kafka"), pid, "worker")
    same(n.stop(), 0, "exit code")


@tap.test("--tls-client-ca: without a certificate, and with that of a stranger, no client gets in")
def refused():
    m.start()
    strangers = certificates.Authority(os.path.join(n.dir, "strangers"))
    for identity in (None, strangers.make("stranger", p12=True)):
        context = m.trust()
        if identity:
            context.load_cert_chain(identity + ".pem", identity + ".key")
        try:
            with context.wrap_socket(socket.create_connection(("127.0.0.1", m.kafka_tls_port), 10), server_hostname="localhost") as s:
                s.sendall(kafka_wire.frame("ApiVersions", 0, 1, "t"))
                assert False, s.recv(100)
        except (ssl.SSLError, ConnectionResetError):
            pass
    until(lambda: "TLS failed: peer did not return a certificate" in m.log(), 30, "a line")
    until(lambda: "TLS failed: unable to get local issuer certificate" in m.log(), 30, "a line")


for one in CLIENTS:
    tap.test(f"{one.name}: produces and consumes with a certificate of its own")(
        lambda one=one: round_trip(one, m, with_tls(m, friends.make("friend-" + one.name, p12=True))))
tap.run(lambda: (n.stop(), m.stop()))
