#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""doc/limits.md names exactly the configs of topics that are stored and do nothing, with their defaults and words."""
import re

import tree
from tap import run, same, test

ROW = re.compile(r'^TOPIC_CONFIG\(\w+, "([^"]+)", \w+, "([^"]*)",.*?,\s*(ACTS|STORED),\s*"([^"]+)"\)', re.S | re.M)
SHOWN = re.compile(r"^\| `([a-z0-9.]+)` \| (?:`([^`]*)`|none) \| (.*) \|$", re.M)


@test("doc/limits.md has every config of topics without effect")
def _():
    source, page = (tree.read(n).decode() for n in ("common/topic_config.def", "doc/limits.md"))
    rows = ROW.findall(source)
    same(len(rows), source.count("\nTOPIC_CONFIG("), "every row is understood")
    same(SHOWN.findall(page), [(name, default, words) for name, default, effect, words in rows if effect == "STORED"])


run()
