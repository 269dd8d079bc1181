#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes kafka_messages.txt: one random message of every API and version, as another implementation encodes it.

    pip install kio==0.6.5
    echo list | t/kmsg-tool >APIS && t/golden/kafka_messages.py APIS >t/golden/kafka_messages.txt

kio is generated from Apache Kafka's own message definitions. APIS says which messages, and up to
which version. A line is `Name version hex text`, the text as kmsg_print() has it, without names. Values are random from a
fixed seed; strings are lower-case letters; a third of what may be null is null."""
import dataclasses, datetime, importlib, io, random, re, sys, uuid

from kio.serial import entity_writer
from kio.serial import _introspect as look
from kio.schema.errors import ErrorCode
from kio.static.primitive import i32Timedelta, i64Timedelta

rnd = random.Random(20241101)
BITS = {"int8": 8, "int16": 16, "int32": 32, "int64": 64}
CODES = [c for c in ErrorCode if c.value < 120]


def snake(name):
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()


def word():
    return "".join(rnd.choices("abcdefghijklmnopqrstuvwxyz", k=rnd.randrange(4)))


def primitive(kind):
    """(value for kio, text)"""
    if kind in BITS:
        value = rnd.randrange(-(1 << (BITS[kind] - 1)), 1 << (BITS[kind] - 1)) >> rnd.randrange(BITS[kind])
        return value, str(value)
    if kind == "bool":
        value = rnd.random() < 0.5
        return value, str(value).lower()
    if kind == "string":
        value = word()
        return value, f'"{value}"'
    if kind in ("bytes", "records"):
        value = rnd.randbytes(rnd.randrange(6))
        return value, f"<{len(value)} bytes>"
    if kind == "uuid":
        value = uuid.UUID(bytes=rnd.randbytes(16))
        return value, str(value)
    if kind == "error_code":
        value = rnd.choice(CODES)
        return value, str(value.value)
    if kind in ("timedelta_i32", "timedelta_i64"):
        value = rnd.randrange(-1000, 100000)
        cls = i32Timedelta if kind.endswith("32") else i64Timedelta
        return cls.parse(datetime.timedelta(milliseconds=value)), str(value)
    if kind == "datetime_i64":
        value = rnd.randrange(1 << 31) * 1000
        return datetime.datetime.fromtimestamp(value // 1000, datetime.timezone.utc), str(value)
    raise ValueError(kind)


def value_of(field):
    what = look.classify_field(field)
    kind = field.metadata.get("kafka_type")
    entities = isinstance(what, (look.EntityField, look.EntityTupleField))
    if look.is_optional(field) and rnd.random() < 0.34 and look.get_field_tag(field) is None:
        return None, {"uuid": str(uuid.UUID(int=0)), "datetime_i64": "-1"}.get(kind, "null")
    one = (lambda: entity(what.type_)) if entities else (lambda: primitive(kind))
    if not what.is_array:
        return one()
    items = [one() for _ in range(rnd.choice([0, 1, 1, 1, 2]))]
    return tuple(i[0] for i in items), "[" + " ".join(i[1] for i in items) + "]"


def entity(cls):
    values, plain, tagged = {}, [], []
    for field in dataclasses.fields(cls):
        values[field.name], text = value_of(field)
        tag = look.get_field_tag(field)
        tagged.append((tag, text)) if tag is not None else plain.append(text)
    return cls(**values), "{" + " ".join(plain + [text for _, text in sorted(tagged)]) + "}"


def class_of(name, version):
    for suffix, module in (("Request", "request"), ("Response", "response"), ("", "data"), ("Header", "header")):
        if suffix and not name.endswith(suffix):
            continue
        package = snake(name.removesuffix(suffix) if module != "header" else name)
        try:
            return getattr(importlib.import_module(f"kio.schema.{package}.v{version}.{module}"), name)
        except ModuleNotFoundError:
            pass
    return None


print("# SPDX-License-Identifier: Apache-2.0")
print("# Made by kafka_messages.py: Name version hex text")
for line in open(sys.argv[1]):
    if line == ".\n":
        break
    name, low, high = line.split()
    for version in range(int(low), int(high) + 1):
        cls = class_of(name, version)
        if cls:
            value, text = entity(cls)
            with io.BytesIO() as out:
                entity_writer(cls)(out, value)
                print(name, version, out.getvalue().hex() or "-", text)
