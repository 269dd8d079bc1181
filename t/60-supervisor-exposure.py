#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Who may reach the Kafka listener: nobody beyond this machine unless --insecure-allow-remote says so, whatever spells the
address and whatever --auth says; a wildcard needs --kafka-advertise, which clients are told as it was written."""
import os, re, subprocess

import kafka_wire, node, tap
from probed import scratch

REMOTE = r"^--kafka-listen: %s is reachable from other machines and nobody is asked for a credential yet; listen on loopback, or " \
         r"give --insecure-allow-remote if the network is yours$"
WILDCARD = r"^--kafka-listen: %s is every address of this machine; say with --kafka-advertise which one clients use, as in " \
           r"--kafka-advertise node1\.example:9092$"
# 0xc0000201 and 0 are no addresses for this program but names, and the resolver knows what they stand for: 192.0.2.1, 0.0.0.0.
BEYOND = ["192.0.2.1:9092", "[2001:db8::1]:9092", "[::ffff:192.0.2.1]:9092", "0xc0000201:9092"]
WILD = ["0.0.0.0:9092", "[::]:9092", ":9092", "0:9092"]
HERE = ["127.0.0.1:0", "[::1]:0", "localhost:0", "127.9.9.9:0", "[::ffff:127.0.0.1]:0", "0x7f000001:0"]


class Exposed(node.Node):
    """A node whose Kafka listeners are the options' alone."""

    def argv(self):
        return [a for a in super().argv() if a != "--no-kafka"]


def run(*options, question=False, **env):
    """(exit code, stdout, the text of each line on stderr) of a start that is refused, or of a question."""
    top = scratch()
    argv = [os.path.join(tap.build, "pico"), "serve", "--listen=127.0.0.1:0", "--admin-listen=127.0.0.1:0", "--no-ds",
            f"--data-dir={top}/data", f"--meta-url=sqlite:{top}/data/meta.db", f"--storage=-2@file://{top}/data/objects", *options]
    r = subprocess.run(argv + ["--check-config"] * question, capture_output=True, text=True, timeout=30, cwd=top,
                       env=dict(os.environ, **env))
    tap.same(os.listdir(top), [], f"{options}: left behind")
    return r.returncode, r.stdout, [re.sub(r"^\S+ error supervisor ", "", line) for line in r.stderr.splitlines()]


def refused(pattern, address, *options, **env):
    for question in (True, False):
        code, out, lines = run(*options, question=question, **env)
        tap.same((code, out, len(lines)), (1, "", 1), f"{options}: {lines}")
        assert re.search(pattern % re.escape(address), lines[0]), f"{options}: {lines[0]}"


@tap.test("beyond loopback: exit 1 and one line, with --kafka-advertise, with --auth required, beside a loopback address")
def beyond():
    for address in BEYOND + WILD:
        listen = "--kafka-listen=" + address
        refused(REMOTE, address, listen)
        refused(REMOTE, address, listen, "--kafka-advertise=node1.example:9092")
        refused(REMOTE, address, listen, "--auth=required")
        refused(REMOTE, address, "--kafka-listen=127.0.0.1:0", listen)
    refused(REMOTE, "0.0.0.0:9092", PICO_KAFKA_LISTEN="0.0.0.0:9092")


@tap.test("a wildcard that is allowed: exit 1 and what to give, without --kafka-advertise")
def wildcard():
    for address in WILD:
        refused(WILDCARD, address, "--kafka-listen=" + address, "--insecure-allow-remote")
        tap.same(run("--kafka-listen=" + address, "--insecure-allow-remote", "--kafka-advertise=node1.example:1", question=True),
                 (0, "the configuration is good\n", []), address)
    for address in BEYOND:  # one address is its own advertisement
        tap.same(run("--kafka-listen=" + address, "--insecure-allow-remote", question=True)[0], 0, address)


@tap.test("loopback needs no permission, however it is spelled; what is not listened on, neither")
def here():
    for address in HERE:
        tap.same(run("--kafka-listen=" + address, question=True), (0, "the configuration is good\n", []), address)
    tap.same(run("--no-kafka", "--kafka-listen=0.0.0.0:9092", question=True)[0], 0, "no Kafka")


def told(*options):
    """[(host, port)] of the brokers that clients are told of, and of the coordinator; the port that is served."""
    n = Exposed(*options).start()
    with kafka_wire.Client(n.kafka_port) as c:
        brokers = [(b.host, b.port) for b in c.call("Metadata", 12, topics=[]).brokers]
        a = c.call("FindCoordinator", 3, key="g", key_type=0)
        brokers.append((a.host, a.port))
    tap.same(n.stop(), 0, "exit code")
    return brokers, n.kafka_port


@tap.test("clients are told --kafka-advertise as it was written, else the address that is bound")
def advertised():
    wild = ["--kafka-listen=0.0.0.0:0", "--insecure-allow-remote"]
    for text, host, port in (("Node-1.Example.:19092", "Node-1.Example.", 19092), ("localhost:1", "localhost", 1),
                             ("[2001:DB8:0::1]:65535", "2001:DB8:0::1", 65535), ("no.such.host.invalid:9092", "no.such.host.invalid", 9092)):
        tap.same(told("--kafka-advertise=" + text, *wild)[0], [(host, port)] * 2, text)
    tap.same(told("--kafka-listen=127.0.0.1:0", "--kafka-advertise=Node-1.Example:19092")[0], [("Node-1.Example", 19092)] * 2)
    brokers, port = told("--kafka-listen=127.0.0.1:0")
    tap.same(brokers, [("127.0.0.1", port)] * 2, "the real port")


tap.run()
