#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""kcat (librdkafka) produces and consumes; the same records are seen through HTTP and the CLI."""
import json, os, subprocess, time

import node, tap
from tap import same, test

n = node.Node("--num-partitions=3", kafka=True)


def kcat(*args, stdin=None, seconds=60):
    r = subprocess.run(["kcat", "-b", f"127.0.0.1:{n.kafka_port}", "-X", "message.timeout.ms=30000", *args], input=stdin,
                       capture_output=True, timeout=seconds)
    same(r.returncode, 0, f"kcat {args}: {r.stderr.decode()[-600:]}")
    return r.stdout


def consume(topic, *args, start="beginning", form="%p %o [%K]%k [%S]%s {%h}\n"):
    return kcat("-C", "-t", topic, "-o", str(start), "-e", "-q", "-f", form, *args).decode().splitlines()


def create(path, partitions=1):
    same(n.http("PUT", path, Content_Type="application/octet-stream", Pico_Partitions=partitions).status, 201, path)


@test("a topic that a producer names is made, with --num-partitions")
def auto_create():
    kcat("-P", "-t", "made.by-naming", "-p", "2", stdin=b"x\n")
    meta = json.loads(kcat("-L", "-J", "-t", "made.by-naming"))
    same([b["name"] for b in meta["brokers"]], [f"127.0.0.1:{n.kafka_port}"], "brokers")
    parts = meta["topics"][0]["partitions"]
    same([(p["partition"], p["leader"], [r["id"] for r in p["replicas"]]) for p in parts],
         [(0, 1, [1]), (1, 1, [1]), (2, 1, [1])], "partitions")
    same(n.http("HEAD", "/made.by-naming")["pico-partitions"], "3", "seen through HTTP")
    same(consume("made.by-naming"), ["2 0 [-1] [1]x {}"], "the record")


@test("each codec: keys, headers, null and empty values come back as they went")
def codecs():
    create("/c/odecs")
    want, at = [], 0
    for codec in ("none", "gzip", "snappy", "lz4", "zstd"):
        kcat("-P", "-t", "c.odecs", "-z", codec, "-K:", "-H", "a=1", "-H", "b=" + codec, stdin=b"k1:v1\nk2:v2\n")
        kcat("-P", "-t", "c.odecs", "-z", codec, "-K:", "-Z", stdin=b"k3:\n:\n")
        big = b"".join(b"%d:%s\n" % (i, b"z" * 400) for i in range(200))
        kcat("-P", "-t", "c.odecs", "-z", codec, "-K:", stdin=big)
        headers = "{a=1,b=%s}" % codec
        want += [f"0 {at} [2]k1 [2]v1 {headers}", f"0 {at + 1} [2]k2 [2]v2 {headers}", f"0 {at + 2} [2]k3 [-1] {{}}",
                 f"0 {at + 3} [-1] [-1] {{}}"]
        want += [f"0 {at + 4 + i} [{len(str(i))}]{i} [400]{'z' * 400} {{}}" for i in range(200)]
        at += 204
    same(consume("c.odecs"), want, "records")
    same(n.http("HEAD", "/c/odecs")["pico-next-seq"], str(at), "next seq")


@test("start, end, an offset and a time")
def positions():
    create("/p")
    kcat("-P", "-t", "p", stdin=b"1\n2\n")
    time.sleep(0.05)
    middle = int(time.time() * 1000)
    time.sleep(0.05)
    kcat("-P", "-t", "p", "-z", "gzip", stdin=b"3\n4\n5\n")
    one = lambda *a, **k: [line.split("]")[-1].split()[0] for line in consume("p", *a, **k)]
    same(one(), ["1", "2", "3", "4", "5"], "start")
    same(one(start=3), ["4", "5"], "offset inside a compressed batch")
    same(one(start=-2), ["4", "5"], "two before the end")
    same(one(start="end"), [], "end")
    same(one(start=f"s@{middle}"), ["3", "4", "5"], "time")
    same(one(start=f"s@{middle + 3600000}"), [], "a time that has not come")
    same(kcat("-Q", "-t", f"p:0:{middle}").decode().split(), ["p", "[0]", "offset", "2"], "query")


@test("the records are those that curl and the command line see, in both directions")
def same_records():
    create("/s/r", 4)
    lines = b"".join(b"key-%d:value %d\n" % (i, i) for i in range(1000))
    kcat("-P", "-t", "s.r", "-K:", "-z", "lz4", stdin=lines)
    seen = {}
    for line in consume("s.r", form="%p %o %k %s\n"):
        p, o, k, v = line.split(" ", 3)
        seen[int(p), int(o)] = (k, v)
    same(len(seen), 1000, "records through kcat")
    same(sorted(v for _, v in seen.values()), sorted(f"value {i}" for i in range(1000)), "each once")
    pico = os.path.join(tap.build, "pico")
    for p in range(4):
        want = [(o, *seen[p, o]) for o in range(sum(q == p for q, _ in seen))]
        out = subprocess.run([pico, "--json", "read", "/s/r", "--partition", str(p)], capture_output=True,
                             env=dict(os.environ, PICO_ENDPOINT=n.url))
        rows = [json.loads(x) for x in out.stdout.splitlines()]
        same([(r["seq"], r["key"], r["body"]) for r in rows], want, f"pico read {p}: {out.stderr}")
        rows, at = [], 0
        while at < len(want):
            page = n.http("GET", f"/s/r?seq={at}&partition={p}").json()
            assert page and page[0]["seq"] == at, page
            rows, at = rows + page, page[-1]["seq"] + 1
        same([(r["seq"], r["key"], r["body"]) for r in rows], want, f"curl {p}")
    for i in range(20):
        same(n.http("POST", "/s/r?partition=1", b"by curl %d" % i).status, 200, "append")
    tail = consume("s.r", "-p", "1", start=-20, form="%s\n")
    same(tail, [f"by curl {i}" for i in range(20)], "kcat reads what curl wrote")


@test("a consumer that waits gets what comes, at once")
def parked():
    create("/w")
    c = subprocess.Popen(["kcat", "-b", f"127.0.0.1:{n.kafka_port}", "-C", "-t", "w", "-o", "beginning", "-c", "1", "-f", "%s",
                          "-q", "-X", "fetch.wait.max.ms=20000", "-X", "fetch.min.bytes=1"], stdout=subprocess.PIPE)
    time.sleep(1)
    began = time.monotonic()
    kcat("-P", "-t", "w", stdin=b"now\n")
    same(c.communicate(timeout=20)[0], b"now", "record")
    assert time.monotonic() - began < 3, time.monotonic() - began


@test("acks 0, 1 and all: the records are there")
def acks():
    create("/a")
    for a in ("0", "1", "all"):
        kcat("-P", "-t", "a", "-X", f"acks={a}", stdin=b"acks %s\n" % a.encode())
    tap.until(lambda: len(consume("a", form="%s\n")) == 3, 10, "three records")
    same(consume("a", form="%s\n"), ["acks 0", "acks 1", "acks all"], "records")


@test("an idempotent producer")
def idempotent():
    create("/i")
    kcat("-P", "-t", "i", "-X", "enable.idempotence=true", stdin=b"".join(b"%d\n" % i for i in range(5000)))
    same(consume("i", form="%s\n"), [str(i) for i in range(5000)], "records in order")


@test("a transactional producer fails soon and says why")
def transactions():
    r = subprocess.run(["kcat", "-b", f"127.0.0.1:{n.kafka_port}", "-P", "-t", "i", "-X", "transactional.id=t"], input=b"x\n",
                       capture_output=True, timeout=60)
    assert r.returncode != 0 and b"uthorization" in r.stderr, r


@test("storaged is killed between and under requests: connections stay, the idempotent producer loses and doubles nothing")
def kill_storaged():
    create("/k")
    p = subprocess.Popen(["kcat", "-b", f"127.0.0.1:{n.kafka_port}", "-P", "-t", "k", "-X", "enable.idempotence=true", "-X",
                          "linger.ms=1", "-X", "batch.num.messages=50"], stdin=subprocess.PIPE, stderr=subprocess.PIPE)
    for i in range(6000):
        p.stdin.write(b"%d\n" % i)
        if i % 2000 == 1000:
            p.stdin.flush()
            n.kill("storaged")
        if i % 100 == 0:
            p.stdin.flush()
            time.sleep(0.01)
    p.stdin.close()
    same(p.wait(60), 0, "kcat")
    same(consume("k", form="%s\n"), [str(i) for i in range(6000)], "records in order")


@test("a killed worker takes its connections along and nothing else")
def kill_worker():
    n.kill("worker-kafka")
    tap.until(lambda: n.children().get("worker-kafka"), 10, "a new worker")
    same(len(consume("k", form="%s\n")), 6000, "records")


@test("the node ends with clients that wait")
def end():
    c = subprocess.Popen(["kcat", "-b", f"127.0.0.1:{n.kafka_port}", "-C", "-t", "w", "-o", "end", "-q", "-X",
                          "fetch.wait.max.ms=20000"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    time.sleep(1)
    began = time.monotonic()
    same(n.stop(), 0, "exit code")
    assert time.monotonic() - began < 3, time.monotonic() - began
    c.kill()
    c.wait()


@test("no worker died but those that were killed")
def deaths():
    assert "bug:" not in n.log(), n.log()
    ended = [line for line in n.log().splitlines() if "ended, starting it again" in line and "signal=9" not in line]
    same(ended, [], "deaths")


n.start()
tap.run()
