#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`pico fsck`: nothing to say of a clean node, stopped, running under load or killed; and every kind of damage, planted one
by one, is named with its key. It changes nothing."""
import glob, hashlib, json, os, shutil, struct, subprocess, tempfile, threading

import tap
from node import Client, Node
from tap import same, test

pico = os.path.join(tap.build, "pico")
node = Node("--wal-upload-threshold=16K", "--gc-delay-ms=200")
objects = f"{node.dir}/data/objects"


def fsck(storage=None, database=None, code=0):
    r = subprocess.run([pico, "fsck", "--json", "--data-dir", f"{node.dir}/data", f"--storage={storage or node.storage()}",
                        "--meta-url", f"sqlite:{database or node.dir + '/data/meta.db'}"],
                       capture_output=True, text=True, timeout=120)
    assert r.returncode == code, f"exit {r.returncode}: {r.stdout[-3000:]} {r.stderr}"
    return json.loads(r.stdout) if code in (0, 4) else r.stderr


def bad(out):
    return [f for f in out["findings"] if f["severity"] != "note"]


def fingerprint(directory):
    h = hashlib.sha256()
    for path in sorted(glob.glob(f"{directory}/**", recursive=True)):
        h.update(path.encode())
        if os.path.isfile(path):
            with open(path, "rb") as f:
                h.update(f.read())
    return h.hexdigest()


def load(stop, fine):
    c, n = Client(node.port, 10), 0
    while not stop.is_set():
        try:
            if c("POST", f"/t{n % 5}", b"x" * (n * 37 % 3000 + 1)).status == 200:
                fine.append(n)
        except Exception:
            pass
        n += 1


def stop_with_wal_objects():
    """How many are not packed yet when a node stops is a matter of the moment: some more, until it is three."""
    for _ in range(50):
        for i in range(5):
            same(node.http("POST", f"/t{i}", b"z" * 500).status, 200)
        same(node.stop(), 0)
        if len(wal_objects(objects)) >= 3:
            return
        node.start()
    assert False, wal_objects(objects)


@test("a clean node: nothing found, stopped, beside it under load, after kill -9, after the next start")
def _():
    node.start()
    for i in range(5):
        same(node.http("PUT", f"/t{i}").status, 201)
    stop, fine = threading.Event(), []
    writer = threading.Thread(target=load, args=(stop, fine), daemon=True)
    writer.start()
    looked = 0
    while len(fine) < 1500 or looked < 4:
        out = fsck()
        same(bad(out), [], "beside a running node")
        looked += 1
        assert "database" in out["source"], out["source"]
    node.kill_all()
    stop.set()
    writer.join(30)
    out = fsck()
    same([f for f in bad(out) if f["severity"] == "error"], [], "after kill -9")
    node.start()
    for i in range(300):
        same(node.http("POST", f"/t{i % 5}", b"y" * 500).status, 200)
    same(bad(fsck()), [], "after a restart")
    stop_with_wal_objects()
    before = fingerprint(objects)
    out = fsck()
    same(bad(out), [], "after a stop")
    assert out["data_objects"] > 1 and out["wal_objects"] > 1 and out["exports"] >= 1, out
    same(fingerprint(objects), before, "the store after fsck")


def run(copy):
    r = subprocess.run([pico, "fsck", "--json", "--data-dir", f"{node.dir}/data", f"--storage=-2@file://{copy}/objects"],
                       capture_output=True, text=True, timeout=120)
    assert r.returncode in (0, 4), f"exit {r.returncode}: {r.stdout} {r.stderr}"
    out = json.loads(r.stdout)
    same(r.returncode, 4 if out["errors"] else 0, "exit code")
    return out


def flip(path, position):
    with open(path, "r+b") as f:
        f.seek(position)
        byte = f.read(1)
        f.seek(position)
        f.write(bytes([byte[0] ^ 0x10]))


def parts(path):
    """Positions of a block, a state page, an index page, the top and the footer of a data object."""
    with open(path, "rb") as f:
        data = f.read()
    top, length = struct.unpack("<QI", data[-128 + 72:-128 + 84])
    n_states, n_index = struct.unpack("<II", data[top + 4:top + 12])
    state = struct.unpack("<Q", data[top + 16 + 16:top + 16 + 24])[0]
    index = struct.unpack("<Q", data[top + 16 + 32 * n_states + 16:top + 16 + 32 * n_states + 24])[0]
    assert n_states and n_index and state < index < top
    return {"block": state // 2, "state page": state + 20, "index page": index + 9, "top": top + 17, "footer": len(data) - 60}


def data_object(root):
    return max(glob.glob(f"{root}/data/1/*/*"), key=os.path.getsize)


def wal_objects(root):
    """The data objects of the last session that are not packed."""
    session = sorted(glob.glob(f"{root}/wal/1/*"))[-1]
    return [p for p in sorted(glob.glob(f"{session}/*")) if os.path.getsize(p) > 64]


@test("each damage is named by its key: a flipped byte of each part, a cut, a lost object")
def _():
    def expect(change, key, kind, severity="error", words=""):
        copy = tempfile.mkdtemp(prefix="pico-t-")
        shutil.copytree(objects, f"{copy}/objects")
        path = change(f"{copy}/objects")
        wanted = key or os.path.relpath(path, f"{copy}/objects")
        out = run(copy)
        found = [(f["severity"], f["kind"], f["key"]) for f in bad(out)]
        assert (severity, kind, wanted) in found and len(found) == 1, (kind, wanted, out["findings"])
        assert words in bad(out)[0]["text"], bad(out)
        shutil.rmtree(copy)

    def flipped(choose, where):
        def change(root):
            path = choose(root)
            flip(path, where(path) if callable(where) else where)
            return path
        return change

    for part in ("block", "state page", "index page", "top", "footer"):
        expect(flipped(data_object, lambda path, part=part: parts(path)[part]), None, "damaged")
    for where in (0, 33, 60, 64, 100, 150):
        expect(flipped(lambda root: wal_objects(root)[0], where), None, "damaged", words="a start is refused")
    expect(flipped(lambda root: f"{root}/cluster", 5), "cluster", "foreign", words="every start is refused")
    for where in (10, 70):
        expect(flipped(lambda root: sorted(glob.glob(f"{root}/meta/*"))[-1], where), None, "damaged", words="a restore")

    def cut(root):
        path = data_object(root)
        os.truncate(path, os.path.getsize(path) - 1)
        return path
    expect(cut, None, "truncated")

    def lost(choose):
        def change(root):
            path = choose(root)
            os.unlink(path)
            return path
        return change
    expect(lost(data_object), None, "missing", words="are lost")
    expect(lost(lambda root: f"{root}/cluster"), "cluster", "missing")
    expect(lost(lambda root: wal_objects(root)[1]), None, "missing", "warning")


@test("what nobody knows is named: foreign names, unknown nodes and sessions, orphans")
def _():
    copy = tempfile.mkdtemp(prefix="pico-t-")
    root = f"{copy}/objects"
    shutil.copytree(objects, root)
    data, session = data_object(root), sorted(os.listdir(f"{root}/data/1"))[0]

    def put(key, source):
        os.makedirs(os.path.dirname(f"{root}/{key}"), exist_ok=True)
        shutil.copy(source, f"{root}/{key}")
    planted = {"data/1/what": "foreign", "notes.txt": "foreign", "wal/1/x/0": "foreign", "meta/abc": "foreign",
               f"data/9/{session}/0000000000000000": "unknown_node",
               "data/1/00000000000000ff/0000000000000000": "unknown_session",
               "wal/9/0000000000000001/0000000000000000": "unknown_node",
               "wal/1/00000000000000ff/0000000000000000": "unknown_session",
               f"data/1/{session}/00000000000000ff": "orphan"}
    for key in planted:
        put(key, wal_objects(objects)[0] if key.startswith("wal") else data)
    out = run(copy)
    found = {f["key"]: f["kind"] for f in out["findings"] if f["key"] in planted and f["kind"] != "damaged"}
    same(found, planted, "named")
    shutil.rmtree(copy)


@test("without a database the newest export is taken; an older database than the store is named; no store, no answer")
def _():
    out = fsck(database=f"{node.dir}/nothing.db")
    assert "export of row" in out["source"] and not out["errors"], out
    shutil.copytree(f"{node.dir}/data", f"{node.dir}/old")
    node.start()
    same(node.http("PUT", "/later").status, 201)
    same(node.stop(), 0)
    out = fsck(database=f"{node.dir}/old/meta.db", code=4)
    assert any(f["kind"] == "database" and "went back in time" in f["text"] for f in out["findings"]), out
    assert any(f["kind"] == "unknown_session" for f in out["findings"]), out
    err = fsck(storage=f"-2@file://{node.dir}/nowhere", code=1)
    assert "nowhere" in err and not os.path.exists(f"{node.dir}/nowhere"), err


tap.run()
