#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""GET /admin/objects and /admin/logs page by page, POST /admin/export, and the commands of `pico admin` over them, against
what stands in the store."""
import glob, json, os, subprocess

import tap
from node import Node
from tap import same, test

pico_path = os.path.join(tap.build, "pico")
node = Node("--wal-upload-threshold=8K")


def pico(*args, code=0):
    r = subprocess.run([pico_path, *args, "--admin", f"http://127.0.0.1:{node.admin_port}"], capture_output=True, text=True,
                       timeout=60)
    assert r.returncode == code, f"pico {args}: exit {r.returncode}, {r.stdout} {r.stderr}"
    return r.stdout if code == 0 else r.stderr


def pages(path, name, cursor, limit):
    """Everything, `limit` a page."""
    all_, after = [], ""
    while True:
        a = node.admin(f"{path}?limit={limit}&start_after={after}")
        same(a.status, 200, path)
        page = a.json()
        assert len(page[name]) <= limit and (not page["hasMore"] or len(page[name]) == limit), page
        all_ += page[name]
        if not page["hasMore"]:
            return all_
        after = all_[-1][cursor]


@test("objects: the catalogue is what stands in the store, in pages of any size")
def _():
    node.start()
    for i in range(3):
        same(node.http("PUT", f"/t{i}", Pico_Partitions=i + 1).status, 201)
    for i in range(120):
        same(node.http("POST", f"/t{i % 3}?partition={i % 3 if i % 3 else 0}", b"x" * 700).status, 200)

    def settled():
        listed = pages("/admin/objects", "objects", "key", 3)
        stored = {os.path.relpath(p, f"{node.dir}/data/objects"): os.path.getsize(p)
                  for p in glob.glob(f"{node.dir}/data/objects/data/*/*/*")}
        return listed if len(listed) >= 4 and {o["key"]: o["bytes"] for o in listed} == stored else None
    listed = tap.until(settled, 30, "catalogue and store agree")
    same(pages("/admin/objects", "objects", "key", 1000), listed)
    for o in listed:
        assert o["origin"] == 1 and o["level"] in (0, 1, 2) and o["firstLog"] <= o["lastLog"] and o["oldestMs"] > 0, o
    whole = node.admin("/admin/objects").json()
    same((whole["objectCount"], whole["liveBytes"]), (len(listed), sum(o["bytes"] for o in listed if "removedMs" not in o)))


@test("logs: each partition once, by log id, with its bounds")
def _():
    listed = pages("/admin/logs", "logs", "logId", 2)
    same([(x["topic"], x["partition"]) for x in listed], [("/t0", 0), ("/t1", 0), ("/t1", 1), ("/t2", 0), ("/t2", 1), ("/t2", 2)])
    same([x["logId"] for x in listed], sorted(x["logId"] for x in listed))
    same([(x["start"], x["confirm"], x["next"], x["closed"]) for x in listed if x["next"]], [(0, 40, 40, False)] * 3)
    same(node.http("DELETE", "/t1").status, 204)
    same([x["topic"] for x in pages("/admin/logs", "logs", "logId", 100)], ["/t0", "/t2", "/t2", "/t2"])


@test("export: a new one is in the store when it is answered")
def _():
    a = node.admin("/admin/export", "POST")
    same(a.status, 200)
    key = a.json()["key"]
    same(os.path.getsize(f"{node.dir}/data/objects/{key}"), a.json()["bytes"])
    same(a.json()["idx"], node.admin("/ready").json()["appliedIndex"])


@test("what is wrong is refused with words; other methods are not allowed")
def _():
    for path in ("/admin/objects?limit=x", "/admin/objects?limit=-1", "/admin/objects?start_after=nonsense",
                 "/admin/objects?start_after=data/1/1/1", "/admin/logs?start_after=x", "/admin/logs?limit=01"):
        a = node.admin(path)
        same((a.status, list(a.json())), (400, ["error", "message"]), path)
    for path, method, allow in (("/admin/objects", "POST", "GET, HEAD, OPTIONS"), ("/admin/logs", "DELETE", "GET, HEAD, OPTIONS"),
                                ("/admin/export", "GET", "POST, OPTIONS")):
        a = node.admin(path, method)
        same((a.status, a["Allow"]), (405, allow), path)
    same(node.http("GET", "/admin/objects").status, 404, "on the stream listener")


@test("pico admin objects, logs, export: tables, JSON, limits, errors")
def _():
    lines = pico("admin", "logs").splitlines()
    same(lines[0].split(), ["logId", "topic", "partition", "owner", "epoch", "start", "confirm", "next", "closed"])
    same([x.split()[1] for x in lines[1:]], ["/t0", "/t2", "/t2", "/t2"])
    one = [json.loads(x) for x in pico("admin", "--json", "logs", "--limit", "1").splitlines()]
    same([x["topic"] for x in one], ["/t0"])
    rest = pico("--json", "admin", "logs", "--start-after", str(one[0]["logId"])).splitlines()
    same([json.loads(x)["topic"] for x in rest], ["/t2"] * 3)
    listed = pages("/admin/objects", "objects", "key", 100)
    same([json.loads(x)["key"] for x in pico("admin", "objects", "--json").splitlines()], [o["key"] for o in listed])
    assert listed[0]["key"] in pico("admin", "objects"), "a table"
    assert pico("admin", "export").startswith("meta/")
    assert "start_after" in pico("admin", "objects", "--start-after", "x", code=1)
    pico("admin", "logs", "--what", code=2)
    pico("admin", "nothing", code=2)
    same(node.stop(), 0)
    assert "is a node running there" in pico("admin", "logs", code=1)


tap.run()
