#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""doc/http.md names every header that the HTTP worker takes or gives, every word of an error, and every parameter of a read."""
import re

import tree
from tap import run, same, test

page = tree.read("doc/http.md").decode()
sources = {n: tree.read(n).decode() for n in tree.files() if n.startswith("worker-http/pico_") and n.endswith(".c")}


def missing(names):
    return sorted(n for n in names if f"`{n}`" not in page and f"`{n}:" not in page and f'"{n}"' not in page and n not in page.split())


@test("every header")
def _():
    lists = re.findall(r"#define RE(?:QUEST|SPONSE)_HEADERS \\\n((?:\t\"[^\n]*\n)+)", sources["worker-http/pico_route.c"])
    same(len(lists), 2, "lists of headers")
    names = {n for text in lists for n in re.findall(r"[A-Z][A-Za-z-]+", text)}
    assert len(names) > 25, names
    # ds: of later releases, or HTTP's own
    same(missing(names - {"Authorization", "Location"}), [])


@test("every word of an error")
def _():
    found = set(re.findall(r"\(struct http_error\)\{ \d+, \"(\w+)\"", tree.read("worker-http/http_error.c").decode()))
    assert "outcome_unknown" in found, found
    for text in sources.values():
        found |= set(re.findall(r"answer_error\(r, \d+, \"(\w+)\"", text))
        found |= set(re.findall(r"\{ IPC__GROUP_ERROR__\w+, \d+, \"(\w+)\"", text))
    assert "illegal_generation" in found, found
    assert len(found) > 15, found
    same(missing(found), [])


@test("every member of a group's bodies")
def _():
    found = set(re.findall(r"\t\{ \"(\w+)\", GROUP_\w+, ", sources["worker-http/pico_group.c"]))
    assert {"subscription", "offsets", "generation"} <= found, found
    same(missing(found), [])


@test("every parameter")
def _():
    found = {n for text in sources.values() for n in re.findall(r"param\(r, \"(\w+)\"", text)}
    found |= {n for text in sources.values() for n in re.findall(r"query_find\(r->query, \"(\w+)\"", text)}
    assert {"seq", "count", "partition"} <= found, found
    same(missing(found), [])


run()
