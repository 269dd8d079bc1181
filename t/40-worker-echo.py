#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A facade in under 300 lines (t/worker_echo.c) in worker-http's place: supervisor and storaged are real, records are
those that HTTP sees. And doc/facades.md, which quotes it, names what it calls."""
import json, os, re, shutil, socket, tempfile

import tap
from node import Node

http = Node()
libexec = tempfile.mkdtemp(prefix="pico-t-")
os.symlink(os.path.join(tap.build, "t", "worker-echo"), os.path.join(libexec, "worker-http"))
echo = Node("--no-admin", directory=http.dir, env={"PICO_LIBEXEC": libexec})


MANY = 300


class Lines:
    """A connection to the echo worker: sends lines, takes lines."""

    def __init__(self, *lines):
        self.socket = socket.create_connection(("127.0.0.1", echo.port), 60)
        self.file = self.socket.makefile("rb")
        self.send(*lines)

    def send(self, *lines):
        self.socket.sendall(b"".join(x if isinstance(x, bytes) else x.encode() + b"\n" for x in lines))

    def take(self, n=1):
        return [self.file.readline().decode() for _ in range(n)]

    def rest(self):
        data = self.file.read().decode()
        self.socket.close()
        return data


@tap.test("records appended over HTTP come as lines, and lines as records")
def _():
    http.start()
    for name in ("/both", "/shut", "/batch"):
        tap.same(http.http("PUT", name, Content_Type="text/plain").status, 201)
    for i in range(3):
        tap.same(http.http("POST", "/both", b"http %d" % i)["pico-start-seq"], str(i))
    batch = json.dumps({"records": [{"body": f"r{i}"} for i in range(5)]}).encode()
    tap.same(http.http("POST", "/batch", batch, Content_Type="application/vnd.picomq.batch+json").status, 200)
    http.http("POST", "/shut", b"only", Pico_Closed="true")
    tap.same(http.stop(), 0)
    echo.start()
    c = Lines("READ /both 0")
    tap.same(c.take(4), ["0 http 0\n", "1 http 1\n", "2 http 2\n", "end 3\n"])
    a = Lines("APPEND /both", "line 3", "", "line 5")
    tap.same(a.take(3), ["3\n", "4\n", "5\n"])
    lines = []
    while lines[-1:] != ["end 6\n"]:  # the parked wait of the first connection ends
        lines += c.take()
    tap.same([x for x in lines if not x.startswith("end")], ["3 line 3\n", "4 \n", "5 line 5\n"])
    tap.same(Lines("READ /batch 2").take(4), ["2 r2\n", "3 r3\n", "4 r4\n", "end 5\n"])
    tap.same(Lines("READ /shut 0").rest(), "0 only\nend 1\n")


@tap.test("errors are words, the last line of their connection")
def _():
    tap.same(Lines("READ /none 0").rest(), "error not_found\n")
    tap.same(Lines("APPEND /none", "x").rest(), "error not_found\n")
    tap.same(Lines("APPEND /shut", "x").rest(), "error closed\n")
    tap.same(Lines("READ /both 7").rest(), "error out_of_range\n")
    for line in ("HELLO", "READ /both", "READ /both x", "READ /both -1", "APPEND", "APPEND /both 1", ""):
        tap.same(Lines(line).rest(), "error bad_request\n", line)
    tap.same(Lines("APPEND /both", b"x" * 65536).rest(), "error too_large\n")
    tap.same(Lines("READ /both 6").take(), ["end 6\n"])


@tap.test("lines sent at once keep their order; half a line is no record")
def _():
    c = Lines("APPEND /both", *[f"many {i}" for i in range(MANY)], b"half")
    c.socket.shutdown(socket.SHUT_WR)
    tap.same(c.rest().split(), [str(6 + i) for i in range(MANY)])
    c = Lines("READ /both 6")
    tap.same(c.take(MANY + 1), [f"{6 + i} many {i}\n" for i in range(MANY)] + [f"end {6 + MANY}\n"])


@tap.test("killed, it loses connections and nothing else; storaged killed, it loses not even those")
def _():
    c = Lines("APPEND /both", "before")
    tap.same(c.take(), [f"{6 + MANY}\n"])
    echo.kill("storaged")
    c.send("after")
    tap.same(c.take(), [f"{7 + MANY}\n"])
    pid = echo.kill("worker-http")
    tap.same(c.rest(), "")
    tap.until(lambda: pid not in echo.children().get("worker-http", [pid]), 60, "another worker")
    tap.same(Lines(f"READ /both {6 + MANY}").take(3), [f"{6 + MANY} before\n", f"{7 + MANY} after\n", f"end {8 + MANY}\n"])


@tap.test("a drain ends parked reads and idle appends; HTTP then reads every line")
def _():
    r, a = Lines(f"READ /both {8 + MANY}"), Lines("APPEND /both", "last")
    tap.same(a.take(), [f"{8 + MANY}\n"])
    tap.same(r.take()[0], f"end {8 + MANY}\n")
    tap.same(echo.stop(), 0)
    tap.same(a.rest(), "")
    assert "did not end in time" not in echo.log(), echo.log()[-500:]
    http.start()
    got = http.http("GET", f"/both?seq={6 + MANY}").json()
    tap.same([(x["seq"], x["body"]) for x in got], [(6 + MANY, "before"), (7 + MANY, "after"), (8 + MANY, "last")])
    tap.same(http.http("HEAD", "/both")["pico-next-seq"], str(9 + MANY))
    tap.same(http.stop(), 0)


def source():
    with open(os.path.join(tap.src, "t", "worker_echo.c")) as f:
        return f.read()


@tap.test("it has under 300 lines, and doc/facades.md names each function that it takes from common/")
def _():
    text = source()
    assert len(text.splitlines()) < 300, len(text.splitlines())
    headers = "".join(open(os.path.join(tap.src, x)).read() for x in re.findall(r'#include "(common/\S+)"', text))
    headers += "".join(open(os.path.join(tap.src, "common", x)).read() for x in (
        "acceptor.h", "buf.h", "child.h", "control.h", "env.h", "ipc.h", "metrics.h", "pico_error.h", "record_batch.h",
        "slice.h", "topics.h"))
    code, headers = (re.sub(r"/\*.*?\*/", "", x, flags=re.S) for x in (text, headers))
    used = {f for f in re.findall(r"\b([a-z]\w+)\(", code) if re.search(r"[ *]%s\(" % f, headers)}
    assert {"topics_call", "worker_init", "acceptor_open", "record_batch_end", "batch_cursor_next", "buf_put"} <= used, used
    with open(os.path.join(tap.src, "doc", "facades.md")) as f:
        page = f.read()
    tap.same(sorted(f for f in used if f not in page), [], "doc/facades.md does not name")


@tap.test("what doc/facades.md quotes stands in the program")
def _():
    with open(os.path.join(tap.src, "doc", "facades.md")) as f:
        quotes = re.findall(r"```c\n(.*?)```", f.read(), re.S)
    assert len(quotes) >= 5, len(quotes)
    text = source()
    for quote in quotes:
        assert quote in text, f"not in t/worker_echo.c:\n{quote}"


tap.run(lambda: shutil.rmtree(libexec, ignore_errors=True))
