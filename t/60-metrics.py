#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The metrics text: every line is one of the format, histograms are whole, and promtool finds nothing to say. A page with
everything in it, and a real node's /metrics."""
import os, re, shutil, subprocess

import node, tap
from tap import same, test

LABELS = r'\{[a-z_]+="[^"\\]*"(,[a-z_]+="[^"\\]*")*\}'


def parse(text):
    """{family: type}, {(name, labels): value}; asserts the form of every line."""
    types, values, family = {}, {}, None
    for line in text.splitlines():
        if m := re.fullmatch(r"# HELP (pico_[a-z0-9_]+) \S.*", line):
            assert m[1] not in types, "family twice: " + line
            family = m[1]
        elif m := re.fullmatch(r"# TYPE (pico_[a-z0-9_]+) (counter|gauge|histogram)", line):
            same(m[1], family, "TYPE follows HELP")
            types[family] = m[2]
        else:
            m = re.fullmatch(rf"(pico_[a-z0-9_]+)({LABELS})? (-?[0-9]+(\.[0-9]+)?)", line)
            assert m, "malformed: " + line
            assert m[1] in (family, family + "_bucket", family + "_sum", family + "_count"), line + " in " + family
            assert (m[1], m[2]) not in values, "series twice: " + line
            values[m[1], m[2]] = float(m[4])
    return types, values


def check_histograms(types, values):
    n = 0
    for family in (f for f, t in types.items() if t == "histogram"):
        series = {}
        for (name, labels), value in values.items():
            if name == family + "_bucket":
                key, le = re.sub(r',le="[^"]*"', "", labels), re.search(r'le="([^"]*)"', labels)[1]
                series.setdefault(key, []).append((float(le), value))
        for key, buckets in series.items():
            same(buckets, sorted(buckets), "rising bounds and counts of " + family)
            same(buckets[-1][0], float("inf"), "last bound")
            same(buckets[-1][1], values[family + "_count", key], "_count of " + family)
            assert (family + "_sum", key) in values
            n += 1
    return n


def promtool(text):
    tool = shutil.which("promtool")
    if tool is None:
        raise tap.Skip("promtool (package prometheus) is not installed")
    r = subprocess.run([tool, "check", "metrics"], input=text, capture_output=True, text=True, timeout=60)
    same((r.returncode, r.stdout, r.stderr), (0, "", ""), "promtool check metrics")


def printed():
    return subprocess.run([os.path.join(tap.build, "t", "00-unit-metrics"), "--print"], capture_output=True, text=True,
                          check=True).stdout


@test("a page with everything: form and histograms")
def page():
    types, values = parse(printed())
    same(len({t for t in types.values()}), 3, "all three types")
    assert check_histograms(types, values) >= 3
    for name, kind in types.items():
        same(name.endswith("_total"), kind == "counter", name + " is a " + kind)


@test("a page with everything: promtool check metrics")
def page_promtool():
    promtool(printed())


nodes = {}


@test("a node: what was done is counted in /metrics")
def live():
    n = nodes["n"] = node.Node().start()
    same(n.http("PUT", "/m", Content_Type="text/plain").status, 201, "create")
    for i in range(5):
        same(n.http("POST", "/m", b"x").status // 100, 2, "append")
    answer = n.admin("/metrics")
    same(answer.status, 200, "status")
    assert answer["content-type"].startswith("text/plain; version=0.0.4"), answer["content-type"]
    types, values = parse(answer.body.decode())
    check_histograms(types, values)
    same(values["pico_appends_total", '{process="storaged"}'], 5, "appends")
    same(values["pico_append_seconds_count", '{process="storaged"}'], 5, "timed appends")
    assert values["pico_wal_puts_total", '{process="storaged"}'] >= 1
    same(values["pico_topics", '{process="storaged"}'], 1, "topics")


@test("a node: promtool check metrics")
def live_promtool():
    promtool(nodes["n"].admin("/metrics").body.decode())


tap.run(lambda: [n.stop() for n in nodes.values()])
