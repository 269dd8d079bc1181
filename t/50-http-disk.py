#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A full disk, a read-only directory and EIO from fdatasync: no ack, /ready red with path and errno, reads go on, and
everything goes on by itself once there is room."""
import os, shutil, subprocess, tempfile, time

import tap
from node import Node

node = None
mount = tempfile.mkdtemp(prefix="pico-disk-")


def start(*options, **more):
    global node
    node = Node(*options, **more).start()
    tap.same(node.http("PUT", "/t").status, 201, "create")
    tap.same(node.http("POST", "/t", b"first").status, 200, "append")


def refused():
    """One append that cannot be stored: 503, and nothing else."""
    a = node.http("POST", "/t", b"not stored")
    tap.same(a.status, 503, "append without room")
    assert a["Retry-After"], a
    return a.json()["error"]


def red(*words):
    def is_red():
        a = node.admin("/ready")
        return a.status == 503 and all(w in a.json()["reason"] for w in words) and a.json()["reason"]
    reason = tap.until(is_red, 30, f"/ready red with {words}: {node.admin('/ready')}")
    tap.diag(reason)


def good_again(count):
    tap.until(lambda: node.admin("/ready").status == 200, 60, "/ready green by itself")
    tap.until(lambda: node.http("POST", "/t", b"after").status == 200, 60, "appends again")
    records = node.http("GET", "/t?bytes=4000000").json()
    tap.same([r["seq"] for r in records], list(range(len(records))), "offsets")
    tap.same(records[0]["body"], "first", "the first record")
    tap.same(records[-1]["body"], "after", "the last record")
    # What was not acknowledged is there at most once.
    assert sum(r["body"] == "not stored" for r in records) <= count, records


def mounted(size):
    if subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "none", mount], capture_output=True).returncode:
        raise tap.Skip("mounting a tmpfs is not allowed here")
    os.mkdir(mount + "/objects")


def unmount():
    subprocess.run(["umount", "-l", mount], capture_output=True)


@tap.test("a full disk")
def _():
    mounted("24M")
    start(f"--storage=-2@file://{mount}/objects", "--request-timeout-ms", "2000")
    with open(mount + "/fill", "wb") as f:
        try:
            while f.write(b"x" * 65536):
                f.flush()
        except OSError:
            pass
    for _ in range(3):
        refused()
    red("No space left on device", mount)
    tap.same(node.http("GET", "/t?format=raw").body, b"first", "reads go on")
    os.unlink(mount + "/fill")
    good_again(3)
    tap.same(node.stop(), 0, "exit code")
    unmount()


@tap.test("a directory that became read-only")
def _():
    mounted("24M")
    start(f"--storage=-2@file://{mount}/objects", "--request-timeout-ms", "2000")
    if subprocess.run(["mount", "-o", "remount,ro", mount], capture_output=True).returncode:
        raise tap.Skip("remounting is not allowed here")
    for _ in range(3):
        refused()
    red("Read-only file system", mount)
    subprocess.run(["mount", "-o", "remount,rw", mount], check=True)
    good_again(3)
    tap.same(node.stop(), 0, "exit code")
    unmount()


@tap.test("EIO from fdatasync")
def _():
    start("--request-timeout-ms", "2000")
    trace = subprocess.Popen(["strace", "-f", "-qq", "-o", "/dev/null", "-e", "trace=fdatasync", "-e",
                              "inject=fdatasync:error=EIO", "-p", str(node.pid("storaged"))], stderr=subprocess.DEVNULL)
    time.sleep(1)
    if trace.poll() is not None:
        raise tap.Skip("strace may not attach here")
    for _ in range(3):
        refused()
    red("Input/output error", node.dir)
    trace.terminate()
    trace.wait()
    good_again(3)
    tap.same(node.stop(), 0, "exit code")


@tap.test("a start on a directory that cannot be written says so in one line")
def _():
    broken = Node("--start-timeout-ms", "2000")
    open(broken.dir + "/data", "w").close()
    broken.spawn()
    tap.same(broken.process.wait(30), 1, "exit code")
    lines = broken.log().splitlines()
    assert len(lines) == 1 and "data" in lines[0] and "Not a directory" in lines[0], lines


def cleanup():
    unmount()
    shutil.rmtree(mount, ignore_errors=True)


tap.run(cleanup)
