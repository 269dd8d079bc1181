# SPDX-License-Identifier: Apache-2.0
"""Figures over Pico HTTP."""
import os, re, tempfile, time

from figures import BareServer, SECONDS, Used, disk, figure, program, run
from node import Node


def wrk(port, connections, path, script):
    """Requests a second."""
    out = run("wrk", "-t1", f"-c{connections}", f"-d{SECONDS:.0f}s", "-s", script, f"http://127.0.0.1:{port}{path}")
    assert "Non-2xx" not in out, out
    return float(re.search(r"Requests/sec:\s+([\d.]+)", out)[1])


def lone_appends(node):
    """p50 and p99 in ms of one that waits for each answer; beside one WAL object by the bare loop of bench-disk."""
    client, took = node.client(), []
    values = disk(node.dir)
    for name, value in values.items():
        print(name, "got", value)
    end = time.monotonic() + SECONDS
    while time.monotonic() < end:
        began = time.monotonic()
        assert client("POST", "/lone", b"x" * 100).status == 200
        took.append((time.monotonic() - began) * 1000)
    took.sort()
    for p in (50, 99):
        got, base = took[len(took) * p // 100], values[f"bare-loop-put-p{p}-ms"]
        figure(f"lone-append-p{p}-ms", f"{base + 1:.2f}", f"{got:.2f}", f"bench-disk p{p}", f"{got / base:.2f}")
    return values["sequential-fsync-MBps"]


def small_appends(node):
    with tempfile.TemporaryDirectory() as d:
        options, post = os.path.join(d, "options.lua"), os.path.join(d, "post.lua")
        with open(options, "w") as f:
            f.write('wrk.method = "OPTIONS"')
        with open(post, "w") as f:
            f.write('wrk.method = "POST"\nwrk.body = string.rep("x", 100)')
        for connections in (1, 64):
            base = wrk(node.port, connections, "/x", options)
            got = wrk(node.port, connections, "/small", post)
            figure(f"appends-100B-{connections}-connections-per-s", f"{0.2 * base:.0f}", f"{got:.0f}", "OPTIONS",
                   f"{got / base:.3f}")


def large_appends(node, sequential_rate, total=256):
    client, batch = node.client(), b"x" * (1 << 20)
    with Used(node, "storaged", "worker-http") as used:
        began = time.monotonic()
        for _ in range(total):
            assert client("POST", "/big", batch).status == 200
        rate = total * 1.048576 / (time.monotonic() - began)
    figure("ingest-1MiB-MBps", "-", f"{rate:.0f}", "sequential write", f"{rate / sequential_rate:.2f}")
    for role, seconds in used.seconds.items():
        figure(f"cpu-s-per-GiB-append-{role}", "-", f"{seconds / (total / 1024):.2f}")


def catch_up(node, base):
    for kind, stream, step in (("1MiB-records", "/big", 4), ("100B-records", "/small", 1000)):
        last = int(node.http("HEAD", stream)["Pico-Next-Seq"])
        targets = [f"{stream}?format=raw&bytes=4194304&seq={i * step}" for i in range(50) if i * step < last]
        with Used(node, "storaged", "worker-http") as used:
            began = time.monotonic()
            got = float(program("bench-net", "pull", node.port, SECONDS, *targets))
            gib = got * (time.monotonic() - began) / 1073.7
        figure(f"catch-up-raw-{kind}-MBps", "-", f"{got:.0f}", "bare writev", f"{got / base:.3f}")
        for role, seconds in used.seconds.items():
            figure(f"cpu-s-per-GiB-read-{kind}-{role}", "-", f"{seconds / max(gib, 0.001):.2f}")


def figures():
    node = Node().start()
    for name in ("/lone", "/small", "/big"):
        assert node.http("PUT", name).status == 201
    sequential_rate = lone_appends(node)
    small_appends(node)
    large_appends(node, sequential_rate)
    with BareServer("serve", 4 << 20, 64 << 10, 200 << 20) as port:
        base = float(program("bench-net", "pull", port, SECONDS, "/"))
    catch_up(node, base)
    node.stop()
