#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""pico bench against a real node: its figures count what the node has, and nothing of it is left behind."""
import json, os, subprocess

import tap
from node import Node

node = Node()
pico_path = os.path.join(tap.build, "pico")
KEYS = ["protocol", "record_size", "batch", "in_flight", "streams", "connections", "elapsed_sec", "write", "read"]
PART = ["mib_per_sec", "records_per_sec", "bytes", "records", "p50_ms", "p90_ms", "p99_ms", "p999_ms", "max_ms"]


def bench(*args, code=0):
    r = subprocess.run([pico_path, "bench", *args], capture_output=True, timeout=120,
                       env=dict(os.environ, PICO_ENDPOINT=node.url if node.port else "http://127.0.0.1:1"))
    assert r.returncode == code, f"bench {args}: exit {r.returncode}, {r.stderr.decode()}"
    return r.stdout.decode(), r.stderr.decode()


def result(*args):
    """The JSON of a run of 1 s, whose shape and sums are checked."""
    out, err = bench("-d", "1", "--output", "json", *args)
    tap.same(err, "")
    r = json.loads(out)
    tap.same(list(r), KEYS)
    tap.same(r["protocol"], "pico")
    assert 0.5 < r["elapsed_sec"] < 30, r
    for part in filter(None, (r["write"], r["read"])):
        tap.same(list(part), PART)
        tap.same(part["bytes"], part["records"] * r["record_size"])
        assert 0 < part["p50_ms"] <= part["p90_ms"] <= part["p99_ms"] <= part["p999_ms"] <= part["max_ms"], part
        assert abs(part["mib_per_sec"] * 1048576 - part["records_per_sec"] * r["record_size"]) < 2000, part
    w = r["write"]
    assert w["records"] > 0 and w["records"] % r["batch"] == 0, w
    assert abs(w["records_per_sec"] * r["elapsed_sec"] - w["records"]) <= w["records"] * 0.01 + 1, r
    return r


def streams():
    found = node.http("GET", "/?prefix=/bench&limit=10000").json()["streams"]
    return {s["name"]: s["next_seq"] for s in found}


@tap.test("wrong usage, and no node")
def _():
    for wrong in (("-d", "0"), ("-n", "x"), ("-b", "-1"), ("--batch", "0"), ("--connections", "0"), ("--output", "xml"),
                  ("stream",), ("--what",), ("-b", "16777216", "-n", "5")):
        out, err = bench(*wrong, code=2)
        assert err and not out, wrong
    assert "--protocol kafka: bench speaks pico alone" in bench("--protocol", "kafka", code=2)[1]
    out, err = bench("-d", "1", code=1)
    assert "is a node running" in err and not out, err


@tap.test("one record a request, kept: counts are those of the node")
def _():
    node.start()
    r = result("--keep", "-b", "100", "-w", "4")
    tap.same([r[k] for k in KEYS[1:6]], [100, 1, 4, 1, 1])
    tap.same(r["read"]["records"], r["write"]["records"])
    tap.same(list(streams().values()), [r["write"]["records"]])
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
    child = subprocess.Popen([pico_path, "--endpoint", node.url, "bench", "-d", "60"], stdout=subprocess.PIPE,
                             stderr=subprocess.PIPE)
    tap.until(lambda: any(n > 0 for n in streams().values()), 60, "it appends")
    child.terminate()
    out, err = child.communicate(timeout=60)
    tap.same(child.returncode, 0, err)
    assert out.startswith(b"write: "), out
    tap.same(streams(), {})


@tap.test("a request that fails ends the run: no figures")
def _():
    out, err = bench("-d", "1", "-b", "16777216", "-n", "2", code=1)
    assert "was answered 4" in err and "no figures" in err and not out, err
    child = subprocess.Popen([pico_path, "--endpoint", node.url, "bench", "-d", "60"], stdout=subprocess.PIPE,
                             stderr=subprocess.PIPE)
    tap.until(lambda: any(n > 0 for n in streams().values()), 60, "it appends")
    for name in streams():
        node.http("DELETE", name)
    out, err = child.communicate(timeout=60)
    assert child.returncode != 0 and b"was answered 404" in err and not out, (out, err)


tap.run()
