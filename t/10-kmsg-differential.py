#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The Kafka codec against other implementations, in bytes and in values.

  - golden/kafka_messages.txt: every API and version that kio (made from Apache Kafka's own definitions) encodes;
  - kafka-python's encoders and decoders (Debian's python3-kafka: old versions, no flexible ones), both ways, with
    random values from a fixed seed (SEED= for another).

Values are compared as text without names, because implementations name fields differently."""
import io, os, random, re, subprocess, sys

from tap import build, diag, run, same, skip, src, test

rnd = random.Random(int(os.environ.get("SEED", "20241101")))
sys.path.append("/usr/lib/python3/dist-packages")      # another python3 may come first in PATH
try:
    import kafka.protocol.types as types
    from kafka import protocol
    from kafka.protocol import admin, commit, fetch, group, metadata, offset, produce
    from kafka.protocol.struct import Struct
except ImportError:
    protocol = None
ROUNDS = 4
# Where kafka-python 2.0.2 departs from Kafka's definitions.
DEPARTS = {
    "DescribeAclsRequest_v2": "not flexible", "DescribeAclsResponse_v2": "not flexible",
    "DescribeConfigsResponse_v1": "a bool for the source", "DescribeGroupsResponse_v3": "operations outside the group",
    "GroupCoordinatorResponse_v1": "no throttle time", "ProduceResponse_v8": "errors outside the partition",
    "OffsetRequest_v4": "an epoch of 64 bits", "OffsetRequest_v5": "an epoch of 64 bits",
} | {f"FetchRequest_v{v}": "cannot encode itself" for v in range(7, 12)}


class Tool:
    def __init__(self):
        self.child = subprocess.Popen([os.path.join(build, "t", "kmsg-tool")], stdin=subprocess.PIPE,
                                      stdout=subprocess.PIPE, text=True)
        self.forms = {}
        line = self.ask("list")
        while line != ".":
            name, low, high = line.split()
            self.forms[name] = int(low), int(high)
            line = self.read()

    def read(self):
        return self.child.stdout.readline().rstrip("\n")

    def ask(self, *words):
        self.child.stdin.write(" ".join(map(str, words)) + "\n")
        self.child.stdin.flush()
        return self.read()

    def decode(self, name, version, data):
        """(bytes encoded again, text without names), or None"""
        return self.answer(self.ask("decode", name, version, data.hex() or "-"))

    def fill(self, name, version, seed):
        return self.answer(self.ask("fill", name, version, seed))

    @staticmethod
    def answer(line):
        if line == "refused":
            return None
        data, text = line.split(" ", 1)
        return bytes.fromhex(data.strip("-")), plain(re.sub(r"\w+=", "", text))


def plain(text):
    """Text without the braces of structs, which others nest differently."""
    return re.sub("[{}]", "", text)


tool = Tool()


@test("what kio encodes is decoded to the same values and encoded to the same bytes")
def _():
    seen = set()
    with open(os.path.join(src, "t", "golden", "kafka_messages.txt"), encoding="utf-8") as file:
        for line in file:
            if line.startswith("#"):
                continue
            name, version, data, text = line.rstrip("\n").split(" ", 3)
            data = bytes.fromhex(data.strip("-"))
            same(tool.decode(name, int(version), data), (data, plain(text)), f"{name} {version}")
            seen.add((name, int(version)))
    forms = {(name, v) for name, (low, high) in tool.forms.items() for v in range(low, high + 1)}
    diag(f"{len(seen)} of {len(forms)} forms; not in kio: {sorted(forms - seen)}")
    assert len(seen) > 320 and seen <= forms


def show(kind, value):
    """A value as kmsg_print() has it, without names."""
    if value is None:
        return "null"
    if isinstance(kind, types.Array):
        return "[" + " ".join(show(kind.array_of, v) for v in value) + "]"
    if isinstance(kind, types.Schema):
        return "{" + " ".join(show(k, v) for k, v in zip(kind.fields, value)) + "}"
    if isinstance(kind, types.String):
        return f'"{value}"'
    if kind is types.Bytes:
        return f"<{len(value)} bytes>"
    return str(value).lower()


def random_value(kind):
    if isinstance(kind, types.Array):
        return [random_value(kind.array_of) for _ in range(rnd.randrange(4))]
    if isinstance(kind, types.Schema):
        return tuple(random_value(k) for k in kind.fields)
    if isinstance(kind, types.String):
        return "".join(rnd.choices("abcdefghijklmnopqrstuvwxyz", k=rnd.randrange(6)))
    if kind is types.Bytes:
        return rnd.randbytes(rnd.randrange(9))
    if kind is types.Boolean:
        return rnd.random() < 0.5
    bits = {types.Int8: 8, types.Int16: 16, types.Int32: 32, types.Int64: 64}[kind]
    return rnd.randrange(-(1 << (bits - 1)), 1 << (bits - 1)) >> rnd.randrange(bits)


def python_forms():
    """(class, our message's name) of each request and response that both sides know."""
    for module in (admin, commit, fetch, group, metadata, offset, produce):
        for cls in vars(module).values():
            if not isinstance(cls, type) or not issubclass(cls, Struct) or not hasattr(cls.SCHEMA, "fields"):
                continue
            name = re.sub(r"_v\d+$", "", cls.__name__)
            name = {"GroupCoordinatorRequest": "FindCoordinatorRequest", "OffsetRequest": "ListOffsetsRequest",
                    "GroupCoordinatorResponse": "FindCoordinatorResponse", "OffsetResponse": "ListOffsetsResponse",
                    "ApiVersionRequest": "ApiVersionsRequest", "ApiVersionResponse": "ApiVersionsResponse"}.get(name, name)
            name = name if name in tool.forms else re.sub("(Request|Response)$", r"s\1", name)
            if name in tool.forms and cls.__name__ not in DEPARTS and cls.__name__ != name:
                low, high = tool.forms[name]
                if low <= cls.API_VERSION <= high:
                    yield cls, name


def from_python():
    forms = list(python_forms())
    for cls, name in forms * ROUNDS:
        value = random_value(cls.SCHEMA)
        data = cls.SCHEMA.encode(value)
        same(tool.decode(name, cls.API_VERSION, data), (data, plain(show(cls.SCHEMA, value))), cls.__name__)
    diag(f"{len(forms)} forms: {sorted(c.__name__ for c, _ in forms)}")
    assert len(forms) > 100


def to_python():
    for seed, (cls, name) in enumerate(list(python_forms()) * ROUNDS):
        data, text = tool.fill(name, cls.API_VERSION, seed)
        stream = io.BytesIO(data)
        value = cls.SCHEMA.decode(stream)
        got = stream.read(), plain(show(cls.SCHEMA, value)), cls.SCHEMA.encode(value)
        same(got, (b"", text, data), cls.__name__)


for title, function in (("what kafka-python encodes is decoded and encoded alike", from_python),
                        ("kafka-python decodes what is encoded here", to_python)):
    if protocol:
        test(title)(function)
    else:
        skip(title, "python3-kafka is not installed")
run(lambda: tool.child.kill())
