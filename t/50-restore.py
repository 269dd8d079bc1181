#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A node that lost its database: `pico admin restore-metadata` builds one from the store, the node starts on it, and every
acknowledged record is there; with the newest export, with one older than topics and records, and after kill -9 at any
moment of packs and merges. What must be refused: a database with content, a running node, another cluster's store, an
older copy of the database."""
import glob, json, os, random, shutil, sqlite3, subprocess, threading

import ds, tap
from node import Client, Node
from tap import same, test

pico = os.path.join(tap.build, "pico")
SEED = int(os.environ.get("PICO_KILL_SEED", "0")) or random.randrange(1, 1 << 30)
rng = random.Random(SEED)
OPTIONS = ("--wal-upload-threshold=32K", "--gc-delay-ms=100")


def restore(node, *options, code=0):
    r = subprocess.run([pico, "admin", "restore-metadata", *options, "--data-dir", f"{node.dir}/data",
                        f"--storage={node.storage()}"], capture_output=True, text=True, timeout=120)
    assert r.returncode == code, f"exit {r.returncode}: {r.stdout} {r.stderr}"
    return r.stdout if code == 0 else r.stderr


def lose_database(node):
    for f in glob.glob(f"{node.dir}/data/meta.db*"):
        os.unlink(f)


def exports(node):
    return sorted(glob.glob(f"{node.dir}/data/objects/meta/*"))


def read_all(node, stream):
    """[(offset, body)] from the beginning."""
    client, records, seq = node.client(), [], -1
    while True:
        a = client("GET", f"{stream}?seq={seq}&bytes=4000000" if seq >= 0 else f"{stream}?bytes=4000000")
        same(a.status, 200, f"read of {stream}")
        records += [(r["seq"], r["body"]) for r in a.json()]
        seq = int(a["Pico-Next-Seq"])
        if a["Pico-Up-To-Date"] == "true":
            return records


class Writer(threading.Thread):
    """Appends one record after the other until it is told to stop; remembers what was acknowledged."""

    def __init__(self, node, stream):
        super().__init__(daemon=True)
        self.node, self.stream, self.acked, self.over = node, stream, [], False
        self.start()

    def run(self):
        client, n = Client(self.node.port, 5), 0
        while not self.over:
            body = f"{self.stream}-{n}-".ljust(rng.randrange(20, 3000), "x")
            n += 1
            try:
                a = client("POST", self.stream, body.encode())
                if a.status == 200:
                    self.acked.append((int(a["Pico-Start-Seq"]), body))
            except OSError:
                continue
            except Exception:
                continue


def write_for_a_while(node, streams, enough):
    writers = [Writer(node, s) for s in streams]
    tap.until(lambda: all(len(w.acked) >= enough for w in writers), 120, "records acknowledged")
    return writers


def stop_writers(writers):
    for w in writers:
        w.over = True
    for w in writers:
        w.join(30)


def check_writers(node, writers, names=None):
    for w in writers:
        there = dict(read_all(node, (names or {}).get(w.stream, w.stream)))
        lost = [(o, b[:30]) for o, b in w.acked if there.get(o) != b]
        same(lost, [], f"acknowledged records of {w.stream} (PICO_KILL_SEED={SEED})")


@test("an ordered stop, the database gone: everything is there again, and the node goes on")
def _():
    node = Node(*OPTIONS).start()
    for s in ("/a", "/b"):
        same(node.http("PUT", s, Content_Type="text/plain").status, 201)
    writers = write_for_a_while(node, ["/a", "/b"], 150)
    stop_writers(writers)
    same(node.http("PUT", "/empty").status, 201)
    before = {s: node.http("HEAD", s).headers for s in ("/a", "/b", "/empty")}
    same(node.stop(), 0)
    assert exports(node), "no export"
    lose_database(node)
    node.spawn()        # who does not know yet: refused, and told what to do
    assert node.process.wait(60) not in (0, None)
    assert "pico admin restore-metadata" in node.log() and os.path.exists(f"{node.dir}/data/meta.db"), node.log()[-800:]
    out = restore(node)
    assert "3 topics" in out and "made after the export" not in out, out
    node.start()
    check_writers(node, writers)
    for s, headers in before.items():
        now = node.http("HEAD", s).headers
        for name in ("pico-next-seq", "pico-start-seq", "content-type", "pico-closed", "pico-kafka-topic"):
            same(now.get(name), headers.get(name), f"{s} {name}")
    same(node.http("POST", "/a", b"more")["Pico-Start-Seq"], before["/a"]["pico-next-seq"])
    same(node.stop(), 0)
    node.start()
    same(read_all(node, "/a")[-1][1], "more")
    same(node.stop(), 0)


@test("kill -9 of all under load, with an export that is older than topics, records, packs and merges")
def _():
    for round in range(4):
        node = Node(*OPTIONS).start()
        same(node.http("PUT", "/old").status, 201)
        old = write_for_a_while(node, ["/old"], 60)
        stop_writers(old)
        same(node.stop(), 0)
        kept = exports(node)[-1]
        shutil.copy(kept, f"{node.dir}/export")
        node.start()
        same(node.http("PUT", "/new").status, 201)
        same(node.http("PUT", "/gone").status, 201)
        same(node.http("POST", "/gone", b"gone").status, 200)
        writers = write_for_a_while(node, ["/old", "/new"], rng.randrange(50, 400))
        same(node.http("DELETE", "/gone").status, 204)
        node.kill_all()
        stop_writers(writers)
        for f in exports(node):
            os.unlink(f)
        shutil.copy(f"{node.dir}/export", kept)
        lose_database(node)
        out = restore(node)
        assert "export of row" in out and "1 topics" in out and "/new was made after the export" in out, out
        node.start()
        streams = [s["name"] for s in node.http("GET", "/").json()["streams"]]
        assert not [s for s in streams if s.startswith("/restored/")], (streams, out)
        check_writers(node, old + writers)
        same(node.stop(), 0)
        node.start()
        check_writers(node, old + writers)
        same(node.stop(), 0)


@test("settings and names that are younger than the export are those of the last record")
def _():
    node = Node(*OPTIONS).start()
    for s in ("/old", "/twice"):
        same(node.http("PUT", s, Content_Type="text/plain").status, 201)
        same(node.http("POST", s, b"one").status, 200)
    same(node.stop(), 0)
    kept = exports(node)[-1]
    shutil.copy(kept, f"{node.dir}/export")
    node.start()

    def patch(name, **settings):
        return node.http("PATCH", f"/_streams{name}", json.dumps(settings).encode(), Content_Type="application/json")
    same(patch("/old", kafkaTopic="renamed").status, 200)
    same(node.http("POST", "/old", b"two").status, 200)
    same(patch("/old", kafkaTopic="later").status, 200)        # no record follows: it is lost
    same(node.http("DELETE", "/twice").status, 204)
    same(node.http("PUT", "/twice", Content_Type="application/json").status, 201)
    same(node.http("POST", "/twice", b'"again"', Content_Type="application/json").status, 200)
    same(node.http("PUT", "/never").status, 201)
    same(node.http("PUT", "/shy", Content_Type="text/plain").status, 201)
    same(node.http("POST", "/shy", b"x").status, 200)
    before = {s: node.http("GET", f"/_streams{s}").json() for s in ("/twice", "/shy")}
    node.kill_all()
    for f in exports(node):
        os.unlink(f)
    shutil.copy(f"{node.dir}/export", kept)
    lose_database(node)
    out = restore(node)
    assert "/old was changed after the export" in out and "an older /twice was deleted after the export" in out, out
    node.start()
    same(node.http("GET", "/_streams/old").json()["kafkaTopic"], "renamed")
    same([b for _, b in read_all(node, "/old")], ["one", "two"])
    same(len(read_all(node, "/twice")), 1)
    for s, was in before.items():
        same(node.http("GET", f"/_streams{s}").json(), was, s)
    same(node.http("HEAD", "/never").status, 404)
    same(node.stop(), 0)


@test("forks that are younger than the export show what they showed, and go on; so does a stream with a TTL")
def _():
    node = Node(*OPTIONS, ds=True).start()
    streams = ds.Streams(node)
    streams.put("/s")
    for i in range(6):
        streams.post("/s", b"%d" % i)
    same(node.stop(), 0)
    kept = exports(node)[-1]
    shutil.copy(kept, f"{node.dir}/export")
    node.start()

    def fork(name, source, at):
        streams("PUT", name, 201, Stream_Forked_From=source, Stream_Fork_Offset=ds.offset(at), Content_Type=ds.TEXT)

    fork("/tail", "/s", 6)
    streams.post("/tail", b"t")
    fork("/middle", "/s", 3)
    fork("/of-middle", "/middle", 2)        # its source has no record of its own
    streams.post("/of-middle", b"m")
    streams.put("/gone")
    streams.post("/gone", b"abc")
    fork("/orphan", "/gone", 1)
    streams.post("/orphan", b"o")
    streams.delete("/gone")
    streams.post("/s", b"6")
    streams.put("/ttl", Stream_TTL=3600)
    streams.post("/ttl", b"x")
    expected = {"/s": b"0123456", "/tail": b"012345t", "/middle": b"012", "/of-middle": b"01m", "/orphan": b"abco", "/ttl": b"x"}
    before = {name: streams.head(name).headers for name in expected}
    node.kill_all()
    for f in exports(node):
        os.unlink(f)
    shutil.copy(f"{node.dir}/export", kept)
    lose_database(node)
    out = restore(node)
    for round in range(2):
        node.start()
        for name, body in expected.items():
            same(streams.get(name).body, body, f"{name}: {out}")
            now = streams.head(name).headers
            for header in ("stream-next-offset", "content-type", "stream-ttl"):
                same(now.get(header), before[name].get(header), f"{name} {header}")
        same(streams.get("/gone").body, b"abc", "its deletion is what nothing in the store tells of")
        for name in expected:
            streams.post(name, b"+")
            expected[name] += b"+"
            before[name] = streams.head(name).headers
        same(node.stop(), 0)


@test("refused: a database with content, a running node, no export, another cluster's export, a damaged object")
def _():
    node = Node(*OPTIONS).start()
    same(node.http("PUT", "/a").status, 201)
    writers = write_for_a_while(node, ["/a"], 60)
    stop_writers(writers)
    assert "a node runs on" in restore(node, code=1)
    same(node.stop(), 0)
    assert "is a database with content" in restore(node, code=1)
    lose_database(node)
    for f in exports(node):
        shutil.move(f, f"{node.dir}/{os.path.basename(f)}.kept")
    assert "holds no export of the metadata" in restore(node, code=1)
    other = Node().start()
    same(other.stop(), 0)
    err = restore(node, "--from", exports(other)[-1], code=1)
    assert "of another cluster" in err, err
    kept = sorted(glob.glob(f"{node.dir}/*.kept"))[-1]
    for f in glob.glob(f"{node.dir}/*.kept"):
        shutil.copy(f, f"{node.dir}/data/objects/meta/{os.path.basename(f)[:-5]}")
    data = glob.glob(f"{node.dir}/data/objects/data/1/*/*")[0]
    with open(data, "r+b") as f:
        f.seek(-20, 2)
        byte = f.read(1)
        f.seek(-20, 2)
        f.write(bytes([byte[0] ^ 1]))
    err = restore(node, code=1)
    assert os.path.relpath(data, f"{node.dir}/data/objects") in err, err
    with open(data, "r+b") as f:
        f.seek(-20, 2)
        f.write(byte)
    assert not glob.glob(f"{node.dir}/data/meta.db*"), "something is left behind"
    newest = exports(node)[-1]
    with open(newest, "r+b") as f:
        f.seek(100)
        f.write(b"damage")
    out = json.loads(restore(node, "--json")) if len(exports(node)) > 1 else None
    if out is not None:
        assert any("is damaged and was not used" in line for line in out["report"]), out
    else:
        assert "holds no export" in restore(node, code=1)
        restore(node, "--from", kept)
    node.start()
    check_writers(node, writers)
    same(node.stop(), 0)


@test("a backup made beside a running node brings everything back when the exports are gone, too")
def _():
    node = Node(*OPTIONS).start()
    same(node.http("PUT", "/a").status, 201)
    writers = write_for_a_while(node, ["/a"], 50)

    def backup(code=0):
        return subprocess.run([pico, "admin", "backup", f"{node.dir}/backup", "--data-dir", f"{node.dir}/data",
                               f"--storage={node.storage()}", "--json"], capture_output=True, text=True, timeout=60)
    r = backup()
    same(r.returncode, 0, r.stderr)
    first = json.loads(r.stdout)
    same(first["topics"], 1)
    same(node.http("PUT", "/b").status, 201)
    r = backup()
    second = json.loads(r.stdout)
    assert second["topics"] == 2 and second["idx"] > first["idx"], (first, second)
    same(os.listdir(f"{node.dir}/backup"), ["metadata"])
    tap.until(lambda: len(writers[0].acked) > 200, 120, "records behind the backup")
    node.kill_all()
    stop_writers(writers)
    lose_database(node)
    for f in exports(node):
        os.unlink(f)
    out = restore(node, "--from", f"{node.dir}/backup")
    assert f"export of row {second['idx']}: 2 topics" in out, out
    node.start()
    check_writers(node, writers)
    same(node.http("HEAD", "/b").status, 200)
    same(node.stop(), 0)
    assert "another cluster" in subprocess.run([pico, "admin", "backup", f"{node.dir}/no", "--data-dir", f"{node.dir}/data",
                                                f"--storage={Node().start().storage()}"], capture_output=True, text=True).stderr
    assert not os.path.exists(f"{node.dir}/no")


@test("a database that went back in time is refused at the start, and says what to do")
def _():
    node = Node(*OPTIONS).start()
    same(node.http("PUT", "/a").status, 201)
    same(node.stop(), 0)
    source = sqlite3.connect(f"{node.dir}/data/meta.db")
    copy = sqlite3.connect(f"{node.dir}/old.db")
    source.backup(copy)
    source.close()
    copy.close()
    node.start()
    writers = write_for_a_while(node, ["/a"], 10)
    stop_writers(writers)
    same(node.stop(), 0)
    lose_database(node)
    shutil.copy(f"{node.dir}/old.db", f"{node.dir}/data/meta.db")
    node.spawn()
    assert node.process.wait(60) not in (0, None)
    assert "restore-metadata" in node.log(), node.log()[-1500:]
    lose_database(node)
    restore(node)
    node.start()
    check_writers(node, writers)
    same(node.stop(), 0)


tap.run()
