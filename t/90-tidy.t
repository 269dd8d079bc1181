#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Sizes that keep the code readable: files of at most 800 lines, headers of 150, functions of 60. No file has an
exception. And no note to oneself is left behind."""
import json, re, shutil, subprocess

import tree
from tap import run, skip, test

FILE_LINES, HEADER_LINES, FUNCTION_LINES = 800, 150, 60
# Written in parts, so that this file does not find itself.
NOTES = re.compile(r"\b(TO" r"DO|FIX" r"ME|X" r"XX)\b")
CTAGS = next((c for c in ("ctags-universal", "ctags") if shutil.which(c)), None)


def functions(names):
    """(file, function, lines) of each C function."""
    out = subprocess.run([CTAGS, "--output-format=json", "--fields=+ne", "--languages=C", "--langmap=C:.c.h",
                          "--kinds-C=f", "-f", "-", "-L", "-"], input="\n".join(names).encode(), cwd=tree.SRC,
                         stdout=subprocess.PIPE, check=True).stdout
    for line in out.splitlines():
        tag = json.loads(line)
        if "end" in tag:
            yield tag["path"], tag["name"], tag["end"] - tag["line"] + 1


def is_universal():
    return CTAGS and b"json" in subprocess.run([CTAGS, "--list-features"], stdout=subprocess.PIPE).stdout


@test("no file is longer than 800 lines, no header than 150")
def _():
    sources = [n for n in tree.files() if n.endswith((".c", ".h", ".def", ".proto", ".py", ".t"))]
    long = [f"{n}: {lines} lines" for n in sources if (lines := len(tree.lines(n))) >
            (HEADER_LINES if n.endswith(".h") else FILE_LINES)]
    assert len(sources) > 80, sources
    assert not long, "\n".join(long)


@test("no note to oneself")
def _():
    found = [f"{n}:{i}: {line.strip()}" for n in tree.files() if not n.startswith("t/fuzz/corpus/")
             for i, line in enumerate(tree.lines(n), 1) if NOTES.search(line)]
    assert not found, "\n".join(found)


def short_functions():
    names = [n for n in tree.files() if n.endswith((".c", ".h"))]
    found = list(functions(names))
    sizes = {(path, name): n for path, name, n in found}
    # ctags saw what is there: many functions, and one of known size.
    assert len(found) > 300 and 15 < sizes["common/record_batch.c", "record_batch_end"] < 40, len(found)
    long = [f"{path}: {name}() has {n} lines" for path, name, n in found if n > FUNCTION_LINES]
    assert not long, "\n".join(long)


if is_universal():
    test("no function is longer than 60 lines")(short_functions)
else:
    skip("no function is longer than 60 lines", "universal-ctags is not installed")
run()
