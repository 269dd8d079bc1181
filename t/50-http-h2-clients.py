#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Real clients of HTTP/2 by prior knowledge: curl, nghttp, h2load, Node.js. (python3-h2: 50-http-h2-pico.py.)"""
import re, shutil, subprocess

import tap
from node import Node

node = Node("--long-poll-timeout-ms", "20000")
LARGE = bytes(i * 7 % 251 for i in range(3000000))
NODE_JS = """
const http2 = require("http2");
const session = http2.connect(process.argv[1]);
session.on("error", e => { console.log("session: " + e.message); process.exit(1); });
function ask(headers, body) {
  return new Promise((done, fail) => {
    const r = session.request(headers);
    let status = 0, n = 0, text = "";
    r.on("response", h => status = h[":status"]);
    r.on("data", d => { n += d.length; if (n < 1000) text += d; });
    r.on("end", () => done({ status, n, text }));
    r.on("error", fail);
    r.end(body);
  });
}
(async () => {
  const made = await ask({ ":method": "PUT", ":path": "/js" });
  const polls = Array.from({ length: 50 }, () => ask({ ":path": "/js?seq=0&live=long-poll&format=raw" }));
  const first = await ask({ ":method": "POST", ":path": "/js" }, "news");
  const seen = await Promise.all(polls);
  const many = await Promise.all(Array.from({ length: 100 }, (_, i) => ask({ ":method": "POST", ":path": "/js" }, "r" + i)));
  const large = await ask({ ":path": "/large?format=raw" });
  const up = await ask({ ":method": "POST", ":path": "/js" }, Buffer.alloc(2000000, 65));
  console.log(JSON.stringify([made.status, first.status, seen.filter(s => s.status == 200 && s.text == "news").length,
    many.filter(s => s.status == 200).length, large.status, large.n, up.status]));
  session.close();
})().catch(e => { console.log(e.stack); process.exit(1); });
"""


def run(*argv, **kw):
    r = subprocess.run(argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=120, **kw)
    assert r.returncode == 0, r.stdout.decode(errors="replace")
    return r.stdout


def client(program, words):
    """A test of that program, or its name among those that are not here."""
    if shutil.which(program) is None:
        tap.skip(words, f"{program} is not installed")
        return lambda function: function
    return tap.test(words)


def curl(path, *more, **kw):
    return run("curl", "-sS", "--http2-prior-knowledge", node.url + path, *more, **kw)


@client("curl", "curl: creates, appends 3 MB, reads it back, HEAD, 304, 404, DELETE, Expect: 100-continue")
def _():
    node.start()
    tap.same(curl("/large", "-X", "PUT", "-w", "%{http_code} %{http_version}"), b"201 2", "create")
    tap.same(curl("/large", "--data-binary", "@-", "-H", "Expect: 100-continue", "-w", "%{http_code}", input=LARGE), b"200",
             "append")
    assert curl("/large?format=raw") == LARGE
    tap.same(node.http("GET", "/large?format=raw").body, LARGE, "the same over HTTP/1.1")
    head = curl("/large", "-I").decode()
    assert head.startswith("HTTP/2 200") and "pico-next-seq: 1" in head, head
    etag = re.search(r"etag: (.*)\r\n", curl("/large?format=raw", "-D", "-", "-o", "/dev/null").decode())[1]
    tap.same(curl("/large?format=raw", "-H", "If-None-Match: " + etag, "-w", "%{http_code} %{size_download}"), b"304 0", "304")
    tap.same(curl("/nothing", "-o", "/dev/null", "-w", "%{http_code}"), b"404", "404")
    tap.same(curl("/nothing", "-X", "PUT", "-w", "%{http_code}"), b"201", "create")
    tap.same(curl("/nothing", "-X", "DELETE", "-w", "%{http_code}"), b"204", "delete")


@client("nghttp", "nghttp: reads 3 MB through small windows")
def _():
    tap.same(run("nghttp", "-w", "10", "-W", "12", f"{node.url}/large?format=raw"), LARGE, "body")


@client("h2load", "h2load: 10,000 reads and 2,000 appends, 200 streams on each of 4 connections")
def _():
    tap.same(node.http("PUT", "/load").status, 201, "create")
    with open(f"{node.dir}/record", "w") as f:
        f.write("record")
    for n, more in (2000, ["-d", f.name]), (10000, []):
        out = run("h2load", "-n", str(n), "-c", "4", "-m", "200", f"{node.url}/load" + ("" if more else "?count=1"), *more).decode()
        assert f"{n} succeeded, 0 failed, 0 errored, 0 timeout" in out, out
    tap.same(node.http("HEAD", "/load")["pico-next-seq"], "2000", "records")


@client("node", "Node.js: 50 long polls, 100 appends at once, 3 MB down, 2 MB up, on one session")
def _():
    out = run("node", "-e", NODE_JS, node.url).decode()
    tap.same(out, "[201,200,50,100,200,3000000,200]\n", "answers")


@tap.test("the node stops")
def _():
    tap.same(node.stop(), 0, "exit code")


tap.run()
