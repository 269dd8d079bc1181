#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The JSON scanner against Python's json module: the same documents accepted, the same values read.

Documents are generated, then mutated, from a fixed seed (SEED= for another). Python is made strict: input is
decoded as UTF-8 first, NaN and Infinity are refused. Agreed differences:
  - the scanner refuses what is nested deeper than 512 levels; Python has a bound elsewhere;
  - a string with a lone surrogate escape is a string to both, but has no UTF-8: the scanner's decoding
    is refused ("?"), Python's holds the surrogate."""
import json, os, random, struct, subprocess, sys

SEED = int(os.environ.get("SEED", "20240229"))
GENERATED, MUTANTS_EACH, DEPTH_MAX = 1200, 3, 512
rnd = random.Random(SEED)


class Number(str):
    pass


class Members(list):
    pass


def refuse(_):
    raise ValueError


def text(s):
    try:
        s.encode()
    except UnicodeEncodeError:
        return "?"
    return json.dumps(s, ensure_ascii=False)


def show(v):
    """The value as t/json-tool writes it."""
    if isinstance(v, Number):
        return str(v)
    if isinstance(v, str):
        return text(v)
    if isinstance(v, Members):
        return "{" + ",".join(text(k) + ":" + show(x) for k, x in v) + "}"
    if isinstance(v, list):
        return "[" + ",".join(map(show, v)) + "]"
    return {None: "null", True: "true", False: "false"}[v]


def depth(v):
    if isinstance(v, Members):
        return 1 + max([depth(x) for _, x in v], default=0)
    return 1 + max(map(depth, v), default=0) if isinstance(v, list) else 0


def python_says(doc):
    try:
        v = json.loads(doc.decode("utf-8"), parse_int=Number, parse_float=Number, parse_constant=refuse,
                       object_pairs_hook=Members)
    except (ValueError, UnicodeDecodeError):
        return "-"
    return "-" if depth(v) > DEPTH_MAX else show(v)


def white():
    return "".join(rnd.choices(" \t\r\n", k=rnd.choice([0, 0, 0, 0, 1, 3])))


def digits():
    return "".join(rnd.choices("0123456789", k=rnd.choice([1, 1, 2, 5, 25])))


def number():
    n = rnd.choice(["", "-"]) + rnd.choice(["0", rnd.choice("123456789") + digits()])
    n += rnd.choice(["", "", "." + digits()])
    return n + rnd.choice(["", "", rnd.choice("eE") + rnd.choice(["", "+", "-"]) + digits()])


def char():
    kind = rnd.randrange(8)
    if kind < 3:
        return rnd.choice("abcxyz 019,:[]{}/'")
    if kind == 3:
        return "\\" + rnd.choice("\"\\/bfnrt")
    if kind == 4:
        return "\\u%04x" % rnd.choice([0, 0x1f, 0x41, 0x7f, 0x7ff, 0x800, 0xffff, rnd.randrange(0xd800)])
    if kind == 5:
        c = rnd.randrange(0x10000, 0x110000) - 0x10000
        return "\\u%04X\\u%04x" % (0xd800 + (c >> 10), 0xdc00 + (c & 1023))
    if kind == 6 and rnd.random() < 0.1:
        return "\\u%04x" % rnd.randrange(0xd800, 0xe000)
    return chr(rnd.choice([0x7f, 0x80, 0x7ff, 0x800, 0xd7ff, 0xe000, 0xffff, 0x10000, 0x10ffff, 0x2028, 0xe9]))


def string():
    return '"' + "".join(char() for _ in range(rnd.choice([0, 1, 2, 5, 9, 20]))) + '"'


def value(level):
    kind = rnd.randrange(8 if level < 6 else 5)
    if kind < 2:
        return number()
    if kind < 4:
        return string()
    if kind == 4:
        return rnd.choice(["true", "false", "null"])
    n = rnd.choice([0, 1, 2, 4])
    if kind == 5:
        return "[" + ",".join(white() + value(level + 1) + white() for _ in range(n)) + white() + "]"
    keys = [string() for _ in range(2)]
    return "{" + ",".join(white() + rnd.choice(keys) + white() + ":" + white() + value(level + 1) + white()
                          for _ in range(n)) + white() + "}"


def mutate(doc):
    b = bytearray(doc)
    for _ in range(rnd.choice([1, 1, 2])):
        at = rnd.randrange(len(b) + 1)
        kind = rnd.randrange(6)
        if kind == 0:
            del b[at:at + 1]
        elif kind == 1:
            b[at:at] = bytes([rnd.choice(b'{}[]",:\\0123456789eE+-.untfal \n')])
        elif kind == 2:
            b[at:at + 1] = bytes([rnd.randrange(256)])
        elif kind == 3:
            del b[at:]
        elif kind == 4:
            other = rnd.randrange(len(b) + 1)
            b[at:at] = b[other:other + rnd.randrange(8)]
        else:
            b[at:at] = rnd.choice([b"NaN", b"-Infinity", b"\xef\xbb\xbf", b"\xed\xa0\x80", b"\xc0\x80", b"\\ud83d",
                                   b"\\u00", b"1e999", b"00", b"/**/", b"\0", b"\x1f", b"'", b"\f", b"\xff"])
    return bytes(b)


def documents():
    for _ in range(GENERATED):
        doc = (white() + value(0) + white()).encode()
        yield doc
        for _ in range(MUTANTS_EACH):
            yield mutate(doc)
    for n in (1, 2, 511, 512, 513):
        yield b"[" * n + b"]" * n
        yield b'{"a":' * n + b"1" + b"}" * n


docs = list(documents())
sent = b"".join(struct.pack("<I", len(d)) + d for d in docs)
tool = subprocess.run([os.path.join(os.environ.get("PICO_BUILD", "."), "t/json-tool")], input=sent,
                      stdout=subprocess.PIPE)
answers = tool.stdout.decode("utf-8").split("\n")
sys.setrecursionlimit(5000)
expected = [python_says(d) for d in docs]
different = [(d, want, got) for d, want, got in zip(docs, expected, answers) if want != got]
accepted = sum(want != "-" for want in expected)
print("1..3")
done = tool.returncode == 0 and len(answers) == len(docs) + 1
print(f"{'ok' if done else 'not ok'} 1 - the tool answered for {len(docs)} documents")
for doc, want, got in different[:10]:
    print(f"# {doc!r}\n#   Python  {want!r}\n#   scanner {got!r}")
print(f"{'not ok' if different or not done else 'ok'} 2 - the same judgement and values")
# Both kinds must be there in number, or the comparison shows nothing.
both = accepted >= 1500 and len(docs) - accepted >= 1500
print(f"{'ok' if both else 'not ok'} 3 - {accepted} accepted, {len(docs) - accepted} refused (seed {SEED})")
sys.exit(0 if done and both and not different else 1)
