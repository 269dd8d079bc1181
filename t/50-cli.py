#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The command line against a real node: what it prints, where, and its exit codes."""
import json, os, subprocess, time

import tap
from node import Node

node = Node()
pico_path = os.path.join(tap.build, "pico")


def pico(*args, stdin=b"", code=0):
    r = subprocess.run([pico_path, *args], input=stdin, capture_output=True, timeout=60,
                       env=dict(os.environ, PICO_ENDPOINT=node.url if node.port else ""))
    assert r.returncode == code, f"pico {args}: exit {r.returncode}, {r.stderr.decode()}"
    return r.stdout.decode("utf-8", "replace"), r.stderr.decode()


@tap.test("version, help and wrong usage")
def _():
    assert pico("--version")[0].startswith("pico ")
    out, _ = pico("--help")
    for command in ("serve", "create", "append", "read", "tail", "head", "ls", "bench", "close", "trim", "delete"):
        assert f"  {command} " in out, command
        text, _ = pico(command, "--help")
        assert "pico " + command in text or command == "serve", text
    for wrong in ((), ("nonsense",), ("create",), ("create", "a", "b"), ("create", "a", "--what"), ("append", "a", "--batch", "0"),
                  ("append", "a", "--batch", "x"), ("read", "a", "--from", "b"), ("create", "/a b"), ("create", "a", "--partitions")):
        out, err = pico(*wrong, code=2)
        assert err and not out, wrong


@tap.test("--help stands anywhere, and behind a subcommand of admin")
def _():
    for words in (("create", "a", "--help"), ("append", "--batch", "7", "--help"), ("admin", "--help"), ("admin", "objects", "--help"),
                  ("admin", "backup", "--help"), ("admin", "restore-metadata", "--help"), ("fsck", "--help")):
        assert pico(*words)[0].startswith(f"usage: pico {words[0]} "), words
    assert "which subcommand?" in pico("admin", code=2)[1]
    tap.same(pico("fsck", "data", code=2)[1], "pico: 'data': options begin with --\n")


@tap.test("no node: one line that says what to do, exit 1")
def _():
    out, err = pico("--endpoint", "http://127.0.0.1:1", "ls", code=1)
    assert len(err.splitlines()) == 1 and "is a node running" in err, err
    out, err = pico("--endpoint", "https://127.0.0.1:1", "ls", code=1)
    assert len(err.splitlines()) == 1 and "give http://" in err, err


@tap.test("create, append, read, head")
def _():
    node.start()
    tap.same(pico("create", "orders/eu", "--content-type", "text/plain")[1], "created=true\n")
    tap.same(pico("create", "/orders/eu", "--content-type", "text/plain")[1], "created=false\n")
    assert "409" in pico("create", "orders/eu", "--content-type", "text/html", code=1)[1]
    tap.same(pico("append", "orders/eu", stdin=b"one\ntwo\n")[1], "start=0 next=1\nstart=1 next=2\n")
    tap.same(pico("append", "orders/eu", "--batch", "2", stdin=b'a"b\\c\n\xff\xfe\nlast')[1], "start=2 next=4\nstart=4 next=5\n")
    tap.same(pico("read", "orders/eu")[0], '0\tone\n1\ttwo\n2\ta"b\\c\n3\t<2 bytes>\n4\tlast\n')
    tap.same(pico("read", "orders/eu", "--from", "4")[0], "4\tlast\n")
    records = [json.loads(line) for line in pico("--json", "read", "orders/eu")[0].splitlines()]
    tap.same([r["seq"] for r in records], [0, 1, 2, 3, 4])
    tap.same(records[3]["body_b64"], "//4=")
    tap.same(pico("head", "orders/eu")[0], "start=0 next=5 closed=false type=text/plain\n")
    assert "400" in pico("read", "orders/eu", "--from", "6", code=1)[1]
    for command in ("read", "head", "close", "tail"):
        assert "no such stream" in pico(command, "nothing", code=3)[1]
    assert "no such stream" in pico("append", "nothing", stdin=b"x\n", code=3)[1]


@tap.test("create with settings, head and ls show them; trim")
def _():
    tap.same(pico("create", "set/a", "--ttl", "3600", "--retention-ms", "60000", "--retention-bytes=-1")[1], "created=true\n")
    tap.same(pico("create", "set/a", "--ttl", "3600")[1], "created=false\n")
    assert "409" in pico("create", "set/a", "--ttl", "3601", code=1)[1]
    tap.same(pico("head", "set/a")[0], "start=0 next=0 closed=false type=application/octet-stream ttl=3600 retention_ms=60000 "
             "retention_bytes=-1\n")
    tap.same(pico("create", "set/b", "--expires-at", "2049-01-31T13:00:00+01:00")[1], "created=true\n")
    tap.same(pico("ls", "--prefix", "/set")[0], "/set/a start=0 next=0 ttl=3600 closed=false\n"
             "/set/b start=0 next=0 expires_at=\"2049-01-31T12:00:00Z\" closed=false\n")
    for wrong in ("--ttl", "x"), ("--ttl", "-1"), ("--retention-ms", "-2"), ("--retention-bytes", "x"):
        assert pico("create", "set/c", *wrong, code=2)[1], wrong
    assert "Pico-Expires-At" in pico("create", "set/c", "--expires-at", "soon", code=1)[1]
    pico("append", "set/b", stdin=b"1\n2\n3\n")
    tap.same(pico("trim", "set/b", "--seq", "2")[1], "trimmed start=2\n")
    tap.same(pico("read", "set/b")[0], "2\t3\n")
    tap.same(pico("trim", "set/b", "--seq", "9")[1], "trimmed start=3\n")
    pico("create", "set/p", "--partitions", "2")
    pico("append", "set/p", "--partition", "1", stdin=b"1\n")
    assert "400" in pico("trim", "set/p", "--seq", "1", code=1)[1]
    tap.same(pico("trim", "set/p", "--seq", "1", "--partition", "1")[1], "trimmed start=1\n")
    for wrong in (), ("--seq",), ("--seq", "x"), ("--seq", "1", "--partition", "x"):
        assert pico("trim", "set/p", *wrong, code=2)[1], wrong
    assert "no such stream" in pico("trim", "nothing", "--seq", "1", code=3)[1]
    for name in "set/a", "set/b", "set/p":
        tap.same(pico("delete", name)[1], "deleted=true\n")


@tap.test("create refuses a name that every other command takes for another stream's Kafka name")
def _():
    err = pico("create", "orders.eu", code=1)[1]
    tap.same(err, "pico: orders.eu is the Kafka name of /orders/eu; for a stream of its own write /orders.eu\n")
    assert "no such stream" in pico("head", "/orders.eu", code=3)[1]
    lines = pico("create", "/orders.eu")[1].splitlines()
    tap.same((len(lines), lines[0], "Kafka clients do not see it" in lines[1]), (2, "created=true", True))
    tap.same(pico("create", "/orders.eu")[1], "created=false\n")
    tap.same(pico("delete", "/orders.eu")[1], "deleted=true\n")


@tap.test("a listener of another kind is said to be one")
def _():
    admin = f"http://127.0.0.1:{node.admin_port}"
    assert "is it the admin listener?" in pico("--endpoint", admin, "ls", code=1)[1]
    assert "no admin listener (--admin)" in pico("admin", "objects", "--admin", node.url, code=1)[1]


@tap.test("many records come back in order, page by page")
def _():
    pico("create", "many")
    lines = "".join(f"line {i} {'x' * 300}\n" for i in range(20000))
    pico("append", "many", "--batch", "1000", stdin=lines.encode())
    out = pico("read", "many")[0]
    tap.same(out == "".join(f"{i}\tline {i} {'x' * 300}\n" for i in range(20000)), True, "20,000 lines")


@tap.test("partitions: a named one, all of them, by key")
def _():
    pico("create", "parts", "--partitions", "3")
    assert "partition=1" in pico("append", "parts", "--partition", "1", stdin=b"p1\n")[1]
    pico("append", "parts", "--partition", "2", stdin=b"p2\n")
    tap.same(pico("read", "parts")[0], "1:0\tp1\n2:0\tp2\n")
    tap.same(pico("read", "parts", "--partition", "2")[0], "0\tp2\n")
    assert "partitions=3" in pico("head", "parts")[0]


@tap.test("tail -f prints what comes and ends when the stream is closed")
def _():
    pico("create", "live")
    pico("append", "live", stdin=b"before\n")
    tail = subprocess.Popen([pico_path, "tail", "-f", "live"], stdout=subprocess.PIPE, text=True,
                            env=dict(os.environ, PICO_ENDPOINT=node.url))
    time.sleep(0.5)
    pico("append", "live", stdin=b"after\n")
    tap.same(tail.stdout.readline(), "1\tafter\n")
    tap.same(pico("close", "live")[1], "closed next=2\n")
    tap.same(tail.wait(30), 0, "exit code")
    tap.same(pico("tail", "live")[0], "")
    assert "closed" in pico("append", "live", stdin=b"x\n", code=1)[1]


@tap.test("ls and delete")
def _():
    names = [line.split()[0] for line in pico("ls")[0].splitlines()]
    tap.same(names, ["/live", "/many", "/orders/eu", "/parts"])
    assert pico("ls", "--prefix", "/o")[0].startswith("/orders/eu start=0 next=5 closed=false")
    tap.same(pico("ls", "--prefix", "orders")[0], pico("ls", "--prefix", "/orders")[0])
    out, err = pico("ls", "--limit", "2")
    tap.same((len(out.splitlines()), "more" in err), (2, True))
    tap.same(json.loads(pico("--json", "ls", "--prefix", "/many")[0])["name"], "/many")
    tap.same(pico("delete", "live")[1], "deleted=true\n")
    tap.same(pico("delete", "live")[1], "deleted=false\n")
    tap.same(node.stop(), 0, "exit code")


tap.run()
