#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""pico bench against a real node: its figures count what the node has, and nothing of it is left behind."""
import json, os, subprocess, time

import tap
from node import Node

node = Node(kafka=True)
pico_path = os.path.join(tap.build, "pico")
KEYS = ["protocol", "record_size", "batch", "in_flight", "streams", "connections", "elapsed_sec", "write", "read"]
KAFKA_KEYS = KEYS[:6] + ["partitions", "acks", "codec", "tail"] + KEYS[6:]
PART = ["mib_per_sec", "records_per_sec", "bytes", "records", "p50_ms", "p90_ms", "p99_ms", "p999_ms", "max_ms"]


def bench(*args, code=0):
    if "kafka" in args and "--bootstrap" not in args:
        args = (*args, "--bootstrap", f"127.0.0.1:{node.kafka_port or 1}")
    r = subprocess.run([pico_path, "bench", *args], capture_output=True, timeout=120,
                       env=dict(os.environ, PICO_ENDPOINT=node.url if node.port else "http://127.0.0.1:1"))
    assert r.returncode == code, f"bench {args}: exit {r.returncode}, {r.stderr.decode()}"
    return r.stdout.decode(), r.stderr.decode()


def result(*args, kafka=False):
    """The JSON of a run of 1 s, whose shape and sums are checked."""
    out, err = bench("-d", "1", "--output", "json", *args)
    tap.same(err, "")
    r = json.loads(out)
    tap.same(list(r), KAFKA_KEYS if kafka else KEYS)
    tap.same(r["protocol"], "kafka" if kafka else "pico")
    assert 0.5 < r["elapsed_sec"] < 30, r
    for part in filter(None, (r["write"], r["read"])):
        tap.same(list(part), PART)
        tap.same(part["bytes"], part["records"] * r["record_size"])
        low = -1 if kafka and r["acks"] == "0" and part is r["write"] else 0  # nothing is answered: no time passes
        assert low < part["p50_ms"] <= part["p90_ms"] <= part["p99_ms"] <= part["p999_ms"] <= part["max_ms"], part
        assert abs(part["mib_per_sec"] * 1048576 - part["records_per_sec"] * r["record_size"]) < 2000, part
    w = r["write"]
    assert w["records"] > 0 and w["records"] % r["batch"] == 0, w
    assert abs(w["records_per_sec"] * r["elapsed_sec"] - w["records"]) <= w["records"] * 0.01 + 1, r
    return r


def kafka(*args):
    return result("--protocol", "kafka", *args, kafka=True)


def streams():
    """{stream: [next seq of each partition]} of what benches have made."""
    def nexts(s):
        if "partitions" not in s:
            return [s["next_seq"]]
        heads = [node.http("HEAD", f"{s['name']}?partition={i}") for i in range(s["partitions"])]
        return [int(h["Pico-Next-Seq"]) for h in heads]
    found = node.http("GET", "/?prefix=/bench&limit=10000").json()["streams"]
    return {s["name"]: nexts(s) for s in found}


def started(*args):
    child = subprocess.Popen([pico_path, "--endpoint", node.url, "bench", "-d", "60", *args], stdout=subprocess.PIPE,
                             stderr=subprocess.PIPE)
    tap.until(lambda: any(any(n) for n in streams().values()), 60, "it appends")
    return child


def started_kafka(*args):
    return started("--protocol", "kafka", "--bootstrap", f"127.0.0.1:{node.kafka_port}", *args)


@tap.test("wrong usage, and no node")
def _():
    for wrong in (("-d", "0"), ("-n", "x"), ("-b", "-1"), ("--batch", "0"), ("--connections", "0"), ("--output", "xml"),
                  ("stream",), ("--what",), ("-b", "16777216", "-n", "5")):
        out, err = bench(*wrong, code=2)
        assert err and not out, wrong
    for options, words in ((("--protocol", "mqtt"), '--protocol is pico or kafka, not "mqtt"'),
                           (("--partitions", "2"), "--partitions needs --protocol kafka"),
                           (("--tail",), "--tail needs --protocol kafka"),
                           (("--acks", "all"), "--acks needs --protocol kafka"),
                           (("--replays", "2"), "--replays needs --protocol kafka"),
                           (("--codec", "none"), "--codec needs --protocol kafka"),
                           (("--bootstrap", "h:1"), "--bootstrap needs --protocol kafka")):
        tap.same(bench(*options, code=2), ("", f"pico: {words}\n"), options)
    for options, words in ((("--acks", "2"), '--acks is all, 1 or 0, not "2"'),
                           (("--codec", "brotli"), '--codec is none, gzip, snappy, lz4 or zstd, not "brotli"'),
                           (("--partitions", "0"), "--partitions is 1 to 1024"),
                           (("--partitions", "1024", "--streams", "10"), "--streams times --partitions is at most 10000"),
                           (("--tail", "--no-read"), "--tail and --no-read exclude each other"),
                           (("--tail", "--connections", "2"), "--tail needs a partition for each of the --connections"),
                           (("--replays", "2", "--no-read"), "--replays reads afterwards: not with --tail or --no-read"),
                           (("--acks", "1", "--producer"), "--producer: an idempotent producer needs --acks all"),
                           (("--bootstrap", "host"), '--bootstrap takes HOST:PORT, not "host"'),
                           (("--bootstrap", "host:1x"), '--bootstrap takes HOST:PORT, not "host:1x"')):
        tap.same(bench("--protocol", "kafka", *options, code=2), ("", f"pico: {words}\n"), options)
    for options in ((), ("--protocol", "kafka")):
        out, err = bench("-d", "1", *options, code=1)
        assert "is a node running" in err and not out, err


@tap.test("one record a request, kept: counts are those of the node")
def _():
    node.start()
    r = result("--keep", "-b", "100", "-w", "4")
    tap.same([r[k] for k in KEYS[1:6]], [100, 1, 4, 1, 1])
    tap.same(r["read"]["records"], r["write"]["records"])
    tap.same(list(streams().values()), [[r["write"]["records"]]])
    name = list(streams())[0]
    assert name.startswith("/bench/"), name
    body = node.http("GET", name + "?seq=0&format=raw&count=3").body
    tap.same(len(body), 300)
    tap.same(node.http("DELETE", name).status, 204)


@tap.test("batches over several streams and connections, numbered; nothing is left")
def _():
    r = result("--producer", "--batch", "50", "--streams", "5", "--connections", "3", "-w", "12")
    tap.same([r[k] for k in KEYS[1:6]], [1024, 50, 12, 5, 3])
    tap.same(r["read"]["records"], r["write"]["records"])
    tap.same(streams(), {})
    r = result("--producer", "--streams", "2", "--connections", "4", "--no-read")
    tap.same(r["read"], None)
    tap.same(streams(), {})


@tap.test("warm-up is read back but not counted; the target slows down")
def _():
    r = result("--warmup", "1", "-n", "10")
    assert r["read"]["records"] > r["write"]["records"], r
    r = result("-t", "1", "-n", "10", "--no-read")
    assert r["write"]["bytes"] < 1.5 * 1048576, r


@tap.test("text says the same; interrupted, it cleans up")
def _():
    out, err = bench("-d", "1", "-n", "10")
    lines = out.splitlines()
    assert len(lines) == 2 and lines[0].startswith("write: ") and lines[1].startswith("read : "), out
    assert "p99.9" in lines[0] and "MiB/s" in lines[1], out
    child = started()
    child.terminate()
    out, err = child.communicate(timeout=60)
    tap.same(child.returncode, 0, err)
    assert out.startswith(b"write: "), out
    tap.same(streams(), {})


@tap.test("a request that fails ends the run: no figures")
def _():
    out, err = bench("-d", "1", "-b", "16777216", "-n", "2", code=1)
    assert "was answered 4" in err and "no figures" in err and not out, err
    child = started()
    for name in streams():
        node.http("DELETE", name)
    out, err = child.communicate(timeout=60)
    assert child.returncode != 0 and b"was answered 404" in err and not out, (out, err)


@tap.test("kafka, one record a batch, kept: counts are those of the node, records those that were asked for")
def _():
    r = kafka("--keep", "-b", "100", "-w", "4")
    tap.same([r[k] for k in KAFKA_KEYS[1:10]], [100, 1, 4, 1, 1, 1, "all", "none", False])
    tap.same(r["read"]["records"], r["write"]["records"])
    tap.same(list(streams().values()), [[r["write"]["records"]]])
    name = list(streams())[0]
    tap.same(len(node.http("GET", name + "?seq=0&format=raw&count=3").body), 300)
    got = subprocess.run(["kcat", "-b", f"127.0.0.1:{node.kafka_port}", "-C", "-t", name[1:], "-e", "-q", "-f", "%S,%T\n"],
                         capture_output=True, timeout=60, check=True).stdout.decode().split()
    tap.same(len(got), r["write"]["records"])
    sizes, times = zip(*(line.split(",") for line in got))
    tap.same(set(sizes), {"100"})
    assert all(abs(int(t) / 1000 - time.time()) < 120 for t in times), times[:3]
    tap.same(node.http("DELETE", name).status, 204)


@tap.test("kafka, over topics, partitions and connections: all have their share, and nothing is left")
def _():
    for connections, streams_, partitions in (("3", 2, 4), ("6", 1, 2), ("1", 3, 1)):
        r = kafka("--keep", "-n", "7", "-b", "10", "-w", "18", "--connections", connections, "--streams", str(streams_),
                  "--partitions", str(partitions))
        tap.same(r["read"]["records"], r["write"]["records"])
        found = streams()
        tap.same([len(nexts) for nexts in found.values()], [partitions] * streams_)
        tap.same(sum(map(sum, found.values())), r["write"]["records"])
        assert all(n > 0 and n % 7 == 0 for nexts in found.values() for n in nexts), found
        for name in found:
            tap.same(node.http("DELETE", name).status, 204)
    r = kafka("--partitions", "4", "--connections", "2", "-n", "20", "--replays", "3")
    tap.same(r["read"]["records"], 3 * r["write"]["records"])
    r = kafka("--partitions", "1000", "-n", "100", "-t", "1", "--replays", "2")
    tap.same(r["read"]["records"], 2 * r["write"]["records"], "most partitions are empty")
    r = kafka("--partitions", "4", "--connections", "2", "--no-read", "--producer")
    tap.same(r["read"], None)
    tap.same(streams(), {})


@tap.test("kafka, consuming meanwhile: each batch once, and later than it was acknowledged or sooner by little")
def _():
    r = kafka("--tail", "-n", "16", "-w", "5", "--partitions", "4", "--connections", "2")
    tap.same([r["tail"], r["read"]["records"]], [True, r["write"]["records"]])
    assert 0.5 * r["write"]["p50_ms"] < r["read"]["p50_ms"], r
    r = kafka("--tail", "--warmup", "1", "-t", "1", "-n", "10")
    tap.same(r["read"]["records"], r["write"]["records"])
    assert r["write"]["bytes"] < 1.5 * 1048576, r
    tap.same(streams(), {})


@tap.test("kafka, other acks and codecs")
def _():
    for acks in ("0", "1", "-1"):
        r = kafka("--acks", acks, "-n", "10", "-b", "100", "-t", "2")
        tap.same([r["acks"], r["read"]["records"]], [acks if acks != "-1" else "all", r["write"]["records"]])
    for codec in ("gzip", "snappy", "lz4", "zstd"):
        r = kafka("--codec", codec, "-n", "10", "-t", "2")
        tap.same([r["codec"], r["read"]["records"]], [codec, r["write"]["records"]])
    tap.same(streams(), {})


@tap.test("kafka, text; interrupted, it cleans up")
def _():
    for option, second in ((), "read : "), (("--tail",), "tail : "):
        out, err = bench("--protocol", "kafka", "-d", "1", "-n", "10", *option)
        lines = out.splitlines()
        assert len(lines) == 2 and lines[0].startswith("write: ") and lines[1].startswith(second), out
        assert "records/s" in err, err
        child = started_kafka(*option)
        child.terminate()
        out, err = child.communicate(timeout=60)
        tap.same(child.returncode, 0, err)
        assert out.startswith(b"write: "), out
        tap.same(streams(), {})


@tap.test("kafka, a run that is not whole has no figures")
def _():
    out, err = bench("--protocol", "kafka", "-d", "1", "-b", "16777216", code=1)
    assert "Produce was answered MESSAGE_TOO_LARGE; this run has no figures" in err and not out, err
    tap.same(streams(), {})
    child = started_kafka("--interval", "0")
    for name in streams():
        node.http("DELETE", name)
    out, err = child.communicate(timeout=60)
    assert child.returncode == 1 and b"was answered UNKNOWN_TOPIC" in err and not out, (out, err)
    for tail in ("--tail",), ():
        child = started_kafka("--interval", "0", "-d", "3", "-n", "2", *tail)
        for name in streams():
            tap.same(node.http("POST", name, b"from elsewhere").status, 200)
        out, err = child.communicate(timeout=60)
        assert child.returncode == 1 and b"1 records at" in err and not out, (out, err)
    tap.same(streams(), {})
    out, err = bench("--protocol", "kafka", "--bootstrap", f"127.0.0.1:{node.port}", code=1)
    assert err.endswith("the answer is not Kafka\n") or "closed the connection" in err and not out, err
    child = started_kafka("--interval", "0")
    node.kill("worker-kafka")
    out, err = child.communicate(timeout=60)
    assert child.returncode == 1 and not out and (b"closed the connection" in err or b"reset by peer" in err), (out, err)


tap.run()
