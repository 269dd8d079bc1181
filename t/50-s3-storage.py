#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`pico fsck` and `pico admin restore-metadata` on S3 (t/lib/fake_s3.py), with the WAL beside the records and below another
prefix."""
import glob, json, os, subprocess

import fake_s3, tap
from node import Node
from tap import same, test

pico = os.path.join(tap.build, "pico")
s3 = fake_s3.FakeS3()


def run(node, *arguments, code=0):
    r = subprocess.run([pico, *arguments, "--data-dir", f"{node.dir}/data", *node.options], capture_output=True, text=True,
                       timeout=120, env=dict(os.environ, **s3.environment))
    assert r.returncode == code, f"pico {arguments}: exit {r.returncode}: {r.stdout[-2000:]} {r.stderr}"
    return r.stdout if code in (0, 4) else r.stderr


def make(prefix, *options):
    return Node(f"--storage={s3.url(prefix, batchInterval=0)}", "--wal-upload-threshold=16K", *options, env=s3.environment)


def write(node):
    node.start()
    same(node.http("PUT", "/a").status, 201)
    for i in range(120):
        same(node.http("POST", "/a", b"%d-" % i + b"x" * 600).status, 200)


def read(node):
    a = node.http("GET", "/a?bytes=4000000")
    return [r["body"].split("-")[0] for r in a.json()]


@test("a clean node has no findings; a database that is lost comes back with every record")
def _():
    for prefix, options in (("one", ()), ("two", (f"--wal={s3.url('two-wal', batchInterval=0)}",))):
        node = make(prefix, *options)
        write(node)
        same(json.loads(run(node, "fsck", "--json"))["findings"], [], "beside a running node")
        same(node.admin("/admin/export", "POST").status, 200)
        for i in range(120, 150):
            same(node.http("POST", "/a", b"%d-" % i).status, 200)
        node.kill_all()
        for f in glob.glob(f"{node.dir}/data/meta.db*"):
            os.unlink(f)
        run(node, "admin", "restore-metadata")
        node.start()
        same(read(node), [str(i) for i in range(150)])
        same(node.stop(), 0)


@test("after an ordered stop; what is damaged or lost in the bucket is named")
def _():
    node = make("three")
    write(node)
    same(node.stop(), 0)
    for f in glob.glob(f"{node.dir}/data/meta.db*"):
        os.unlink(f)
    out = run(node, "admin", "restore-metadata")
    assert "1 topics" in out, out
    node.start()
    same(read(node), [str(i) for i in range(120)])
    same(node.stop(), 0)
    out = json.loads(run(node, "fsck", "--json"))
    same(out["errors"] + out["warnings"], 0, out)
    key = s3.keys("three/data/")[0]
    good = s3.objects[key]
    s3.objects[key] = good[:10] + bytes([good[10] ^ 1]) + good[11:]
    out = json.loads(run(node, "fsck", "--json", code=4))
    same([(f["kind"], "three/" + f["key"]) for f in out["findings"] if f["severity"] == "error"], [("damaged", key)])
    del s3.objects[key]
    out = json.loads(run(node, "fsck", "--json", code=4))
    same([(f["kind"], "three/" + f["key"]) for f in out["findings"] if f["severity"] == "error"], [("missing", key)])


tap.run(s3.close)
