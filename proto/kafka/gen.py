#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Turns .kmsg files into C structs and the tables that common/kmsg.h interprets.

    gen.py PREFIX FILE...     writes PREFIX.c and PREFIX.h

README in this directory describes the format. What a table cannot say is refused here, with file and line: a name
used twice, a tag out of order, a default that does not fit, messages nested deeper than the interpreter follows."""
import os, re, sys

DEPTH_MAX = 8
VERSION_MAX = 127
MADE = "/* Made by proto/kafka/gen.py; see proto/kafka/README. */\n"
# type -> (C type, least bytes on the wire when the version is not flexible, and when it is)
TYPES = {
    "bool": ("bool", 1, 1), "int8": ("int8_t", 1, 1), "int16": ("int16_t", 2, 2), "int32": ("int32_t", 4, 4),
    "int64": ("int64_t", 8, 8), "uint16": ("uint16_t", 2, 2), "uint32": ("uint32_t", 4, 4),
    "float64": ("double", 8, 8), "uuid": ("struct kmsg_uuid", 16, 16), "string": ("struct slice", 2, 1),
    "string16": ("struct slice", 2, 2), "bytes": ("struct slice", 4, 1), "records": ("struct kmsg_records", 4, 1),
}
NULLABLE = {"string", "string16", "bytes", "records"}
BLOCK = re.compile(r"(request|response|message (\w+)) (\d+)(?:-(\d+))?(?: flexible (\d+)\+)?$")
FIELD = re.compile(r"(\w+)\s+(\[?)(\w+)(\]?)(\?(?:\d+\+)?)?(?:\s+(\d+)(\+|-\d+)?)?(?:\s+@(\d+))?(?:\s+= (\S+))?$")


def snake(name):
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()


class Fault(Exception):
    pass


class Struct:
    """One C struct: a message, or what stands in it."""

    def __init__(self, message, name):
        self.message, self.fields = message, []
        self.symbol = "kmsg_" + snake(message.name) + ("_" + snake(name) if name else "")

    def order(self):
        """Fields as the interpreter walks them: in order, those with a tag behind, by tag."""
        return ([f for f in self.fields if f.tag is None] +
                sorted((f for f in self.fields if f.tag is not None), key=lambda f: f.tag))

    def least(self, version):
        """The fewest bytes that a value takes."""
        flexible = self.message.flexible is not None and version >= self.message.flexible
        size = sum(f.least(version, flexible) for f in self.fields
                   if f.tag is None and f.low <= version <= f.high)
        return max(1, size + flexible)


class Message:
    def __init__(self, name, key, low, high, flexible):
        self.name, self.key, self.low, self.high, self.flexible = name, key, low, high, flexible
        self.structs = []       # inner ones first
        self.top = Struct(self, None)


class Field:
    def __init__(self, message, parent, match, structs):
        name, open_, kind, close, null, low, high, tag, default = match.groups()
        self.name, self.kind, self.is_array = snake(name), kind, bool(open_)
        if bool(open_) != bool(close):
            raise Fault("[ without ]")
        first, last = parent if parent else (message.low, message.high)
        self.low = int(low) if low else first
        self.high = (last if high == "+" else int(high[1:]) if high else self.low) if low else last
        if not first <= self.low <= self.high <= last:
            raise Fault(f"versions {self.low}-{self.high} outside {first}-{last}")
        self.nullable = None if null is None else int(null[1:-1]) if len(null) > 1 else self.low
        self.tag = None if tag is None else int(tag)
        self.of = None
        if kind not in TYPES:
            if not kind[0].isupper():
                raise Fault(f"unknown type {kind}")
            self.of = Struct(message, kind)
            if self.of.symbol in structs:
                raise Fault(f"struct {kind} twice in {message.name}")
            structs.add(self.of.symbol)
        if self.nullable is not None and not (self.is_array or self.of or kind in NULLABLE):
            raise Fault(f"{kind} cannot be null")
        if self.tag is not None and (message.flexible is None or self.low < message.flexible):
            raise Fault("a tag before the first flexible version")
        self.default_text = default
        self.default = self.default_of(default)

    def default_of(self, text):
        """The C text of the default, None for all bytes zero."""
        if text == "null":
            if self.nullable is None:
                raise Fault("null, but never nullable")
            return None
        if self.is_array:
            if text is not None:
                raise Fault("an array's default is empty or null")
            return "(void *)kmsg_nothing" if self.nullable is not None else None
        if self.of:
            if text is not None or self.nullable is not None:
                raise Fault("a struct that may be null says so (= null), another has no default")
            return None
        if self.kind in ("string", "string16", "bytes", "records"):
            if text is not None:
                raise Fault("a default here is null or not given")
            return "{ .bytes = { .p = kmsg_nothing } }" if self.kind == "records" else "{ .p = kmsg_nothing }"
        if text is None:
            return None
        if self.kind == "bool":
            return {"true": "true", "false": None}[text]
        if self.kind in ("uuid", "float64"):
            raise Fault(f"no defaults for {self.kind}")
        value, bits, signed = int(text, 0), int(self.kind.lstrip("uint")), not self.kind.startswith("u")
        if not -(1 << (bits - 1) if signed else 0) <= value < 1 << (bits - signed):
            raise Fault(f"{text} does not fit {self.kind}")
        if value == -1 << (bits - 1):
            return f"INT{bits}_MIN"
        return f"INT64_C({value})" if bits == 64 else f"{value}u" if bits == 32 and not signed else str(value or "") or None

    def pointer(self):
        """Whether the member is a pointer to struct: one that may be null."""
        return self.of and not self.is_array and self.nullable is not None

    def has_records(self):
        return self.kind == "records" or (self.of and any(f.has_records() for f in self.of.fields))

    def least(self, version, flexible):
        if self.is_array:
            return 1 if flexible else 4
        if self.pointer() and version >= self.nullable:
            return 1
        return self.of.least(version) if self.of else TYPES[self.kind][1 + flexible]

    def declaration(self):
        c = f"struct {self.of.symbol}" if self.of else TYPES[self.kind][0]
        star = "*" if self.is_array or self.pointer() else ""
        count = f"\tuint32_t n_{self.name};\n" if self.is_array else ""
        return f"\t{c} {star}{self.name};\n{count}"


def parse(path, messages):
    api, message, stack, structs = None, None, [], set()
    with open(path, encoding="utf-8") as file:
        for number, line in enumerate(file, 1):
            line = line.split("#")[0].rstrip()
            try:
                if not line:
                    continue
                if found := re.match(r"api (\d+) (\w+)$", line):
                    api = int(found[1]), found[2]
                elif found := BLOCK.match(line):
                    message = open_block(found, api)
                    messages.append(message)
                    stack, structs = [(message.top, None)], set()
                elif message is None:
                    raise Fault("a field outside of a message")
                else:
                    add_field(message, line, stack, structs)
            except (Fault, KeyError, ValueError) as fault:
                sys.exit(f"{path}:{number}: {fault}: {line.strip()}")


def open_block(found, api):
    what, name, low, high, flexible = found.groups()
    if name is None and api is None:
        raise Fault("a request or response before its api")
    low, high = int(low), int(high or low)
    if not low <= high < VERSION_MAX:
        raise Fault("versions out of order")
    return Message(name or api[1] + what.capitalize(), -1 if name else api[0], low, high,
                   None if flexible is None else int(flexible))


def add_field(message, line, stack, structs):
    depth = len(line) - len(line.lstrip("\t"))
    found = FIELD.match(line.strip())
    if not found:
        raise Fault("not a field")
    if not 1 <= depth <= len(stack):
        raise Fault("indented too far")
    if depth > DEPTH_MAX:
        raise Fault(f"deeper than {DEPTH_MAX}")
    del stack[depth:]
    owner, versions = stack[-1]
    field = Field(message, versions, found, structs)
    if any(f.name == field.name for f in owner.fields):
        raise Fault("a field twice")
    if field.tag is not None and any(f.tag == field.tag for f in owner.fields):
        raise Fault("a tag twice")
    owner.fields.append(field)
    if field.of:
        stack.append((field.of, (field.low, field.high)))


def inner_first(struct):
    for field in struct.fields:
        if field.of:
            yield from inner_first(field.of)
    yield struct


def declare(messages, header, stem):
    guard = re.sub(r"\W", "_", header).upper()
    out = [f'{MADE}#ifndef {guard}\n#define {guard}\n\n#include "common/kmsg.h"\n']
    for message in messages:
        for struct in inner_first(message.top):
            out.append(f"struct {struct.symbol} {{\n" + "".join(f.declaration() for f in struct.fields) + "};\n"
                       f"extern const struct kmsg_struct {struct.symbol}_struct;\n")
        out.append(f"extern const struct kmsg_desc {message.top.symbol}_desc;\n")
    out.append(f"/* Every message, in the order of the files; ends with NULL. */\n"
               f"extern const struct kmsg_desc *const {stem}_all[];\n\n#endif\n")
    return "\n".join(out)


def row(struct, field):
    kind = field.kind.upper() if not field.of else "STRUCT"
    parts = [f'.name = "{field.name}"', f".type = KMSG_{kind}", f".at = offsetof(struct {struct.symbol}, {field.name})",
             f".low = {field.low}, .high = {field.high}",
             f".nullable_from = {VERSION_MAX if field.nullable is None else field.nullable}"]
    if field.is_array:
        parts.append(f".is_array = true, .at_n = offsetof(struct {struct.symbol}, n_{field.name})")
    if field.pointer():
        parts.append(".is_pointer = true")
    if field.of:
        parts.append(f".of = &{field.of.symbol}_struct")
    if field.tag is not None:
        parts.append(f".tag = {field.tag}")
    return "\t{ " + ", ".join(parts) + " },\n"


def defaults(struct):
    """C initialisers of what is not zero."""
    out = []
    for field in struct.fields:
        value = field.default
        if field.of and not field.is_array and not field.pointer():
            inner = defaults(field.of)
            value = "{ " + ", ".join(inner) + " }" if inner else None
        if value is not None:
            out.append(f".{field.name} = {value}")
    return out


def define_struct(struct):
    name = struct.symbol
    initial = ", ".join(defaults(struct)) or "0"
    least = ", ".join(str(struct.least(v)) for v in range(struct.message.high + 1))
    tagged = sum(f.tag is not None for f in struct.fields)
    return (f"static const struct {name} {name}_defaults = {{ {initial} }};\n"
            f"static const uint8_t {name}_least[] = {{ {least} }};\n"
            f"static const struct kmsg_field {name}_fields[] = {{\n" + "".join(row(struct, f) for f in struct.order()) +
            "};\n"
            f"const struct kmsg_struct {name}_struct = {{ .name = \"{name[5:]}\", .fields = {name}_fields, "
            f".n_plain = {len(struct.fields) - tagged}, .n_tagged = {tagged}, .size = sizeof(struct {name}), "
            f".defaults = &{name}_defaults, .least = {name}_least }};\n")


def define(messages, header, stem):
    out = [f'{MADE}#include "{header}"\n\n#include <stddef.h>\n']
    for message in messages:
        out += [define_struct(s) for s in inner_first(message.top)]
        flexible = VERSION_MAX if message.flexible is None else message.flexible
        out.append(f"const struct kmsg_desc {message.top.symbol}_desc = {{ .name = \"{message.name}\", "
                   f".of = &{message.top.symbol}_struct, .api_key = {message.key}, .low = {message.low}, "
                   f".high = {message.high}, .flexible_from = {flexible} }};\n")
    rows = "".join(f"\t&{m.top.symbol}_desc,\n" for m in messages)
    out.append(f"const struct kmsg_desc *const {stem}_all[] = {{\n{rows}\tNULL,\n}};\n")
    return "\n".join(out)


def write(path, text):
    with open(path + ".new", "w", encoding="utf-8") as file:
        file.write(text)
    os.replace(path + ".new", path)


def main(prefix, *paths):
    messages = []
    for path in paths:
        parse(path, messages)
    names = [m.name for m in messages]
    twice = sorted({n for n in names if names.count(n) > 1})
    structs = [s for m in messages for s in inner_first(m.top)]
    empty = [s.symbol for s in structs if not s.fields]
    tagged = [f.name for s in structs for f in s.fields if f.tag is not None and f.has_records()]
    for fault, found in (("a message twice", twice), ("no field in", empty), ("records in a tagged field", tagged)):
        if found:
            sys.exit(f"{fault}: {' '.join(found)}")
    stem = os.path.basename(prefix)
    header = os.path.join(os.path.basename(os.path.dirname(prefix)), stem + ".h")
    write(prefix + ".c", define(messages, header, stem))
    write(prefix + ".h", declare(messages, header, stem))


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    main(*sys.argv[1:])
