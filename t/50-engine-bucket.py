#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What is left in the bucket when everything was deleted: the cluster object, at most two exports of the metadata, the open
object of the running session and one seal of each ended one, at its cut; on files nothing below .tmp, on S3 no upload in parts. On
files and on S3, with a kill -9 and a restart on the way.
PICO_BUCKET_MB says how much is written (64; 1024 is what was promised)."""
import http.client, os, re, signal, struct, threading

import fake_s3, tap
from node import Client, Node
from tap import same, test

TOTAL = int(os.environ.get("PICO_BUCKET_MB", "64")) << 20
STREAMS, BODY = 8, 1 << 20
OPTIONS = ("--wal-upload-threshold=2M", "--wal-upload-interval-ms=300", "--gc-delay-ms=300", "--wal-cache-size=128M")
OPEN, SEAL = 1, 3
WAL = re.compile(r"wal/1/([0-9a-f]{16})/([0-9a-f]{16})$")


class Files:
    def __init__(self):
        self.node = Node(*OPTIONS)
        self.top = os.path.join(self.node.dir, "data", "objects")

    def keys(self):
        return sorted(self.node.stored(""))

    def head(self, key):
        with open(os.path.join(self.top, key), "rb") as f:
            return f.read(64)


class Bucket:
    def __init__(self):
        self.s3 = fake_s3.FakeS3()
        self.node = Node(f"--storage={self.s3.url('b')}", *OPTIONS, env=self.s3.environment)

    def keys(self):
        uploads = [f"upload of {u['key']}" for u in list(self.s3.uploads.values())]
        return sorted([k[len("b/"):] for k in self.s3.keys("b/")] + uploads)

    def head(self, key):
        return self.s3.objects[f"b/{key}"][:64]


def append(client, stream, body):
    """Until it is acknowledged; what a kill leaves in doubt is sent again, for nobody counts."""
    def acknowledged():
        try:
            return client("POST", f"/bucket/{stream}", body).status == 200
        except (OSError, http.client.HTTPException):
            return False
    tap.until(acknowledged, 120, "an append")


def write(node, stream, n):
    client = Client(node.port, timeout=60)
    for i in range(n):
        append(client, stream, os.urandom(16) * (BODY // 16))
    client.close()


def fill(node, total):
    threads = [threading.Thread(target=write, args=(node, s, total // STREAMS // BODY)) for s in range(STREAMS)]
    for t in threads:
        t.start()
    return threads


def strangers(store):
    """Keys that have no business in the bucket."""
    found, wal, exports = [], {}, []
    for key in store.keys():
        m = WAL.match(key)
        if m:
            wal.setdefault(m[1], []).append((m[2], key))
        elif key.startswith("meta/"):
            exports.append(key)
        elif key != "cluster":
            found.append(key)
    for session, objects in wal.items():
        kinds = [struct.unpack_from("<I", store.head(key), 12)[0] for _, key in objects]
        is_last = session == max(wal)
        if kinds != [OPEN if is_last else SEAL]:
            found += [key for _, key in objects]
    return found + exports[:-2]


def emptied(store):
    try:
        return strangers(store) == []
    except (OSError, KeyError):     # went while it was looked at
        return False


def acceptance(store):
    node = store.node.start()
    client = node.client()
    for s in range(STREAMS):
        same(client("PUT", f"/bucket/{s}").status, 201, "create")
    threads = fill(node, TOTAL)
    tap.until(lambda: sum(k.startswith("data/") for k in store.keys()) >= 3, 60, "packs under way")
    node.kill("storaged")
    for t in threads:
        t.join()
    assert any(k.startswith("data/") for k in store.keys()), "nothing was packed"
    node.wait_ready()
    client = node.client()
    bytes_there = sum(int(client("HEAD", f"/bucket/{s}")["Pico-Next-Seq"]) for s in range(STREAMS)) * BODY
    assert bytes_there >= TOTAL, bytes_there
    for s in range(STREAMS):
        same(client("DELETE", f"/bucket/{s}").status, 204, "delete")
    client.close()
    try:
        tap.until(lambda: emptied(store), 120, "the bucket")
    except BaseException:
        tap.diag(f"left: {strangers(store)[:40]}")
        raise
    same(node.stop(), 0, "stop")
    node.start()
    tap.until(lambda: emptied(store), 120, "the bucket after a restart")
    assert "cluster" in store.keys()
    same(node.http("PUT", "/bucket/0").status, 201, "and it serves")
    same(node.stop(), 0, "stop")


@test("on files: create, write, kill -9, delete everything: nothing is left that should not be")
def _():
    acceptance(Files())


@test("on S3: the same")
def _():
    acceptance(Bucket())


tap.run()
