#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Dependencies point one way: process directories -> client, common -> proto. An include that points back, or from
one process directory into another, fails; so does a path that exists on one machine only, and a file that does not
say its licence."""
import re

import tree
from tap import run, test

# Directory -> directories that its files may include from. Programs that look at storage without a node stand in
# storaged/offline, which knows the formats; the command line calls them.
ALLOWED = {
    "proto": {"proto"},
    "common": {"common", "proto"},
    "client": {"client", "proto"},
    "storaged": {"storaged", "common", "proto"},
    "supervisor": {"supervisor", "common", "proto"},
    "cli": {"cli", "client", "common", "proto", "storaged/offline"},
    "worker-": {"client", "common", "proto"},      # and its own
}
INCLUDE = re.compile(r'^\s*#\s*include\s+"([^"]+)"')
IMPORT = re.compile(r'^\s*import\s+(?:public\s+)?"([^"]+)"')
# Written in two parts, so that this file does not find itself.
FOREIGN = re.compile(rb"\.\./sha" rb"red\b|(?<![\w./-])/wor" rb"k/")
NO_LICENCE_LINE = re.compile(
    r"(^|/)(README(\.md)?|LICENSE|\.gitignore|\.gitattributes|\.clang-format|\.editorconfig|ACCEPTANCE)$"
    r"|\.(bin|md|json|txt|svg|png|sum)$|^t/fuzz/corpus/")


def allowed(directory):
    if directory.startswith("worker-"):
        return ALLOWED["worker-"] | {directory}
    return ALLOWED.get(directory)


def fault(name, line):
    """Why this include is refused in this file, or None."""
    directory = name.split("/")[0]
    found = (IMPORT if name.endswith(".proto") else INCLUDE).match(line)
    if not found or allowed(directory) is None:
        return None
    target = found[1]
    if name.endswith(".proto"):
        return None if "/" not in target or target.startswith("google/") else f'{name} imports "{target}"'
    if target == "config.h":
        return None
    if "/" not in target or target.startswith((".", "/")):
        return f'{name} includes "{target}", which does not begin with a directory of the tree'
    return None if any(target.startswith(a + "/") for a in allowed(directory)) else f'{name} includes "{target}"'


@test("the rules refuse what they must")
def _():
    refused = [("common/a.c", '#include "storaged/node.h"'), ("storaged/a.c", '#include "supervisor/a.h"'),
               ("worker-http/a.c", '#include "worker-kafka/a.h"'), ("worker-http/a.c", '#include "storaged/a.h"'),
               ("supervisor/a.c", ' # include "worker-http/a.h"'), ("cli/a.c", '#include "worker-http/a.h"'),
               ("common/a.h", '#include "../storaged/a.h"'), ("common/a.h", '#include "buf.h"'),
               ("client/a.c", '#include "common/buf.h"'), ("proto/a.proto", 'import "common/a.proto";'),
               ("storaged/meta/a.c", '#include "cli/a.h"'), ("cli/a.c", '#include "storaged/meta/meta.h"'), ("common/a.c", '#include "t/sim/sim.h"')]
    passed = [("common/a.c", '#include "proto/topics.pb-c.h"'), ("storaged/a.c", '#include "storaged/meta/meta.h"'),
              ("worker-http/a.c", '#include "worker-http/a.h"'), ("t/unit/a.c", '#include "storaged/node.h"'),
              ("cli/a.c", '#include "client/a.h"'), ("cli/a.c", '#include "storaged/offline/a.h"'), ("proto/a.proto", 'import "topics.proto";'),
              ("common/a.c", "#include <uv.h>"), ("common/a.c", '#include "config.h"')]
    assert [r for r in refused if fault(*r) is None] == []
    assert [p for p in passed if fault(*p) is not None] == []


@test("no include points back or across")
def _():
    sources = [n for n in tree.files() if tree.is_c(n) or n.endswith(".proto")]
    faults = [f for n in sources for line in tree.lines(n) if (f := fault(n, line))]
    assert len(sources) > 50, sources
    assert not faults, "\n".join(faults)


@test("each directory with C sources has its rule")
def _():
    tops = {n.split("/")[0] for n in tree.files() if tree.is_c(n)}
    assert {t for t in tops if allowed(t) is None} <= {"t"}, tops


@test("no file names a path of one machine")
def _():
    assert FOREIGN.search(b"see .." + b"/shared") and FOREIGN.search(b'"/wor' + b'k/x"')
    faults = [n for n in tree.files() if FOREIGN.search(tree.read(n))]
    assert not faults, "\n".join(faults)


@test("each source says its licence in its first lines")
def _():
    faults = [n for n in tree.files() if not NO_LICENCE_LINE.search(n)
              and b"SPDX-License-Identifier: Apache-2.0" not in b"\n".join(tree.read(n).split(b"\n")[:5])]
    assert not faults, "\n".join(faults)


run()
