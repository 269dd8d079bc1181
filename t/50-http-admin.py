#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The admin listener: /health, /ready, /metrics, /admin/processes; and that it answers while the rest is down."""
import os, re, signal, socket, subprocess, time

import tap
from node import Node

node = Node()


def metric(name, text=None):
    text = text or node.admin("/metrics").body.decode()
    found = re.findall(rf"^{name}(?:{{[^}}]*}})? ([0-9.e+]+)$", text, re.M)
    return sum(float(v) for v in found) if found else None


@tap.test("health and ready")
def _():
    node.start()
    a = node.admin("/health")
    tap.same((a.status, a.body.strip()), (200, b"ok"))
    a = node.admin("/ready")
    tap.same(a.status, 200)
    body = a.json()
    tap.same({k: body[k] for k in ("ready", "serving", "registered", "nodeId", "reason")},
             {"ready": True, "serving": True, "registered": True, "nodeId": 1, "reason": ""})
    assert body["appliedIndex"] >= 2, body
    tap.same(node.admin("/nothing").status, 404)
    a = node.admin("/health", "POST")
    tap.same((a.status, bool(a["Allow"])), (405, True))


@tap.test("processes: each with its pid, uptime, restarts, memory, cpu and connections")
def _():
    children = node.children()
    node.kill("worker-http")
    tap.until(lambda: node.children().get("worker-http", [0])[0] not in (0, children["worker-http"][0]), 30, "restarted")
    node.wait_ready()

    def restarted():
        list_ = node.admin("/admin/processes").json()["processes"]
        return list_ if any(p["kind"] == "worker-http" and p["restarts"] == 1 and p["state"] == "ready" for p in list_) else None
    list_ = tap.until(restarted, 30, "one restart shown")
    children = node.children()
    shown = {p["kind"]: p["pid"] for p in list_}
    tap.same(shown["storaged"], children["storaged"][0])
    tap.same(shown["worker-http"], children["worker-http"][0])
    for p in list_:
        assert p["rss"] > 100000 and p["cpu"] >= 0 and p["uptime"] >= 0, p
    open_ = [socket.create_connection(("127.0.0.1", node.port)) for _ in range(3)]
    tap.until(lambda: {p["kind"]: p["connections"] for p in node.admin("/admin/processes").json()["processes"]} ==
              {"storaged": 0, "admin": 1, "worker-http": 3}, 10, "connections of each")
    for s in open_:
        s.close()


@tap.test("metrics count, survive a worker's death, and pass promtool")
def _():
    tap.same(node.http("PUT", "/m").status, 201)
    before = metric("pico_records_total")
    for _ in range(5):
        tap.same(node.http("POST", "/m", b"x").status, 200)
    text = node.admin("/metrics").body.decode()
    tap.same(metric("pico_records_total", text) - before, 5)
    assert metric("pico_wal_puts_total", text) >= 5
    assert metric("pico_append_seconds_count", text) >= 5
    requests = metric("pico_http_requests_total", text)
    node.kill("worker-http")
    tap.until(lambda: node.http("POST", "/m", b"x").status == 200 if node.children().get("worker-http") else False, 30, "back")
    assert metric("pico_http_requests_total") >= requests, "counters ran back"
    try:
        r = subprocess.run(["promtool", "check", "metrics"], input=text, capture_output=True, text=True)
    except FileNotFoundError:
        raise tap.Skip("promtool is not installed")
    tap.same((r.returncode, r.stderr), (0, ""), "promtool")


@tap.test("/ready is 503 within about a second when storaged does not answer, and green again by itself")
def _():
    pid = node.pid("storaged")
    os.kill(pid, signal.SIGSTOP)
    began = time.monotonic()
    a = node.admin("/ready", timeout=20)
    took = time.monotonic() - began
    tap.diag(f"503 after {took:.2f} s (goal 1 s)")
    tap.same(a.status, 503)
    assert a.json()["reason"], a
    assert took < 10
    tap.same(node.admin("/health").status, 200)
    os.kill(pid, signal.SIGCONT)
    tap.until(lambda: node.admin("/ready").status == 200, 30, "green again")
    tap.same(node.stop(), 0, "exit code")


tap.run()
