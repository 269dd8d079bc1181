#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""proto/kafka/gen.py refuses what its tables cannot say, with file and line, and then writes nothing."""
import os, re, subprocess, sys, tempfile

from tap import run, same, src, test

HEAD = "api 1 Some\nrequest 0-9 flexible 5+\n"
REFUSED = {
    "a field before its message": "\tA int8\n",
    "a request before its api": "request 0-1\n\tA int8\n",
    "versions that fall": "message A 3-2\n\tA int8\n",
    "versions past the last": "message A 0-127\n\tA int8\n",
    "an unknown type": HEAD + "\tA int7\n",
    "a field twice": HEAD + "\tA int8\n\tA int8\n",
    "a field twice in snake case": HEAD + "\tThisName int8\n\tthisName int8\n",
    "a tag twice": HEAD + "\tA int8 5+ @1\n\tB int8 5+ @1\n",
    "a tag before flexible versions": HEAD + "\tA int8 4+ @1\n",
    "a tag in a message without them": "message A 0-3\n\tA int8 @1\n",
    "versions outside of the message": HEAD + "\tA int8 3-10\n",
    "versions outside of the struct": HEAD + "\tA [B] 3+\n\t\tC int8 2+\n",
    "a struct twice": HEAD + "\tA [C]\n\t\tX int8\n\tB [C]\n\t\tX int8\n",
    "a struct without fields": HEAD + "\tA [C]\n\tB int8\n",
    "fields below a number": HEAD + "\tA int8\n\t\tB int8\n",
    "a number that may be null": HEAD + "\tA int8?\n",
    "a default of null that may not be": HEAD + "\tA string = null\n",
    "a default that does not fit": HEAD + "\tA int8 = 128\n",
    "a negative unsigned": HEAD + "\tA uint16 = -1\n",
    "a default that is no number": HEAD + "\tA int8 = x\n",
    "a bool that is 1": HEAD + "\tA bool = 1\n",
    "an array with a default": HEAD + "\tA [int8] = 3\n",
    "an open bracket": HEAD + "\tA [int8\n",
    "indentation by blanks": HEAD + "        A int8\n",
    "nine deep": HEAD + "".join("\t" * n + f"A [S{n}]\n" for n in range(1, 9)) + "\t" * 9 + "A int8\n",
    "records in a tagged field": HEAD + "\tA records 5+ @1\n",
    "records in a tagged struct": HEAD + "\tA [S] 5+ @1\n\t\tB [T]\n\t\t\tC records\n",
    "a message twice": "message A 0\n\tA int8\nmessage A 0\n\tA int8\n",
}


def generate(text, directory):
    path = os.path.join(directory, "in.kmsg")
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
    out = os.path.join(directory, "out")
    done = subprocess.run([sys.executable, os.path.join(src, "proto/kafka/gen.py"), out, path], text=True,
                          stderr=subprocess.PIPE)
    return done.returncode, done.stderr, os.path.exists(out + ".c") or os.path.exists(out + ".h")


def add(name, text):
    @test("refused: " + name)
    def _():
        with tempfile.TemporaryDirectory() as directory:
            code, message, wrote = generate(text, directory)
        same((code, wrote), (1, False), message)
        assert "Traceback" not in message and re.search(r"in\.kmsg:\d+: |^a message twice: A$|^no field in: kmsg_|^records in a tagged field: a$", message), message


@test("taken: the smallest message, and comments")
def _():
    with tempfile.TemporaryDirectory() as directory:
        same(generate("# Nothing\n\n" + HEAD + "\tA int8 # here\n", directory), (0, "", True))


for case in REFUSED.items():
    add(*case)
run()
