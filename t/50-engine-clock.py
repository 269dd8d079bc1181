#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A whole node whose clock on the wall is set an hour forward and back under its hands, and one that starts in 2099 and in 1970
(t/clock_shim.c). Nothing is cut before its time, nothing stays beyond it, no waiter sleeps an hour, times of records never
run backwards, and appends go on. Time on the wall is the test's own, which nobody shifts."""
import concurrent.futures, datetime, os, re, struct, tempfile, time

import tap
from node import Node
from tap import same, test, until

HOUR = 3600_000
RETENTION_S = TTL_S = 4
OPTIONS = (f"--retention-ms={RETENTION_S * 1000}", "--retention-interval-ms=100", "--wal-upload-interval-ms=100",
           "--gc-delay-ms=0")


class Clock:
    """What the node's clock is off by, in milliseconds."""

    def __init__(self):
        self.file = tempfile.NamedTemporaryFile(prefix="pico-clock-")
        self.set(0)
        shim = os.path.join(tap.build, "t", "clock_shim.so")
        assert os.path.exists(shim), shim
        self.environment = {"LD_PRELOAD": shim, "FAKETIME_SHIM": self.file.name}

    def set(self, ms):
        os.pwrite(self.file.fileno(), struct.pack("<q", int(ms)), 0)

    def set_year(self, year):
        self.set(datetime.datetime(year, 6, 1, tzinfo=datetime.timezone.utc).timestamp() * 1000 - time.time() * 1000)


def node_with(clock, *options):
    node = Node(*options, env=clock.environment).start()
    same(node.http("PUT", "/s").status, 201, "create")
    return node


def append(node, body=b"record"):
    a = node.http("POST", "/s", body)
    same(a.status, 200, "append")
    return int(a["Pico-Start-Seq"]), int(a["Pico-Timestamp"])


def metric(node, name):
    text = node.admin("/metrics").body.decode()
    return sum(int(n) for n in re.findall(rf"^{name}(?:\{{[^}}]*\}})? (\d+)$", text, re.M))


def start_of(node):
    return int(node.http("HEAD", "/s")["Pico-Start-Seq"])


def lived(node, seq, since):
    """Seconds from `since` until the record is cut."""
    until(lambda: start_of(node) > seq, 30, "the record is cut")
    return time.monotonic() - since


def logged_year(node):
    return node.log().splitlines()[-1][:4]


@test("the clock is shifted: the node's log says so")
def _():
    clock = Clock()
    clock.set_year(2031)
    node = node_with(clock)
    same(logged_year(node), "2031", "a log line's year")
    assert abs(append(node)[1] / 1000 - time.time()) > 3 * 365 * 86400, "stamp time begins as the wall clock says"
    same(node.stop(), 0)


@test("an hour forward and back: records live as long as they should, and their times rise")
def _():
    clock = Clock()
    node = node_with(clock, *OPTIONS)
    last = 0
    for step in (HOUR, 0, -HOUR, 0, 5 * HOUR):
        began = time.monotonic()
        seq, stamp = append(node)
        clock.set(step)
        assert stamp >= last, (step, stamp, last)
        last = stamp
        age = lived(node, seq, began)
        assert RETENTION_S * .9 <= age, f"cut after {age} s, the clock set to {step}"
    same(append(node)[1] >= last, True, "time")
    same(node.stop(), 0)


@test("a TTL ends when it should, the clock set an hour forward, back, and on again")
def _():
    clock = Clock()
    node = node_with(clock)
    for n, step in enumerate((HOUR, -HOUR, 3 * HOUR)):
        path = f"/ttl/{n}"
        same(node.http("PUT", path, Pico_TTL=TTL_S).status, 201, "create")
        clock.set(step / 2)
        began = time.monotonic()
        same(node.http("POST", path, b"record").status, 200, "append")
        clock.set(step)
        until(lambda: node.http("HEAD", path).status == 404, 30, f"{path} ends")
        age = time.monotonic() - began
        assert TTL_S * .9 <= age, f"ended after {age} s, the clock set to {step}"
        same(node.http("PUT", path, Pico_TTL=TTL_S).status, 201, "a new one")
    same(node.stop(), 0)


@test("long polls across a step: one is woken by a record, one ends at its time, and no sooner")
def _():
    clock = Clock()
    node = node_with(clock, "--long-poll-timeout-ms=3000")
    for step in (HOUR, -HOUR):
        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            began = time.monotonic()
            woken = pool.submit(node.http, "GET", "/s?live=long-poll&seq=now")
            until(lambda: metric(node, "pico_waiters") == 1, 10, "a waiter")
            clock.set(step)
            body = b"after %d" % step
            append(node, body)
            same(woken.result(30).json()[0]["body"].encode(), body, "what woke it")
            assert time.monotonic() - began < 30
            clock.set(0)
            began = time.monotonic()
            idle = pool.submit(node.http, "GET", "/s?live=long-poll&seq=now")
            until(lambda: metric(node, "pico_waiters") == 1, 10, "a waiter")
            clock.set(step)
            same(idle.result(60).status, 204, "nothing came")
            waited = time.monotonic() - began
            assert 2.5 < waited < 30, f"{waited} s"
        clock.set(0)
    same(node.stop(), 0)


@test("a start in 2099: nothing is cut, a warning says why, appends go on; back in the present all is there")
def _():
    clock = Clock()
    node = node_with(clock, *OPTIONS[2:])   # nothing is cut yet
    for i in range(5):
        append(node, b"old-%d" % i)
    same(node.http("PUT", "/ttl", Pico_TTL=3600).status, 201, "create")
    same(node.stop(), 0)
    node.options[:] = OPTIONS
    clock.set_year(2099)
    node.start()
    began = time.monotonic()
    while time.monotonic() - began < RETENTION_S + 2:   # longer than anything is kept
        append(node, b"2099")
        same(start_of(node), 0, "cut by a clock that nobody believes")
        time.sleep(.05)
    assert "clock" in node.log(), node.log()[-1500:]
    same(metric(node, "pico_retention_trims_total"), 0, "logs cut")
    node.kill("storaged")
    node.wait_ready()
    append(node, b"again")
    same(start_of(node), 0, "after a kill")
    same(node.http("HEAD", "/ttl").status, 200, "what ends an hour after its use")
    same(node.stop(), 0)
    clock.set(0)
    node.start()
    seq, stamp = append(node, b"present")
    assert stamp / 1000 > time.time() + 60 * 365 * 86400, "times of a log never run backwards"
    same([r["body"] for r in node.http("GET", "/s?seq=0").json()][:5], [f"old-{i}" for i in range(5)])
    same(node.http("GET", f"/s?seq={seq}").json()[0]["body"], "present")
    same(node.stop(), 0)


@test("a start in 1970: nothing is cut too early, appends go on, and in the present what is old goes")
def _():
    clock = Clock()
    node = node_with(clock, *OPTIONS[2:])
    for i in range(5):
        append(node, b"old-%d" % i)
    _, before = append(node)
    same(node.stop(), 0)
    node.options[:] = OPTIONS
    clock.set_year(1970)
    node.start()
    began = time.monotonic()
    while time.monotonic() - began < RETENTION_S + 2:
        same(append(node, b"1970")[1] >= before, True, "a record's time")
        same(start_of(node), 0, "cut although the clock says that it is young")
        time.sleep(.05)
    same(node.stop(), 0)
    clock.set(0)
    node.start()
    until(lambda: start_of(node) > 5, 60, "what is old is cut")
    same(node.http("POST", "/s", b"end").status, 200)
    same(node.stop(), 0)


tap.run()
