# SPDX-License-Identifier: Apache-2.0
"""A Kafka client for tests: every API in every version, by the tables of proto/kafka, one frame at a time.

    with kafka_wire.Client(node.kafka_port) as c:
        answer = c.call("Metadata", 12, topics=[{"name": "t"}])         # answer.topics[0].partitions[1].leader_id
        c.send("Fetch", 4, ...); c.send("Metadata", 0); c.receive()     # answers are taken in the order of the requests
        c.create("t", 3); c.produce("t", 0, batch([(b"key", b"value")])); c.fetch("t", 0, 5).records

Fields are those of the .kmsg files in snake case; what is not given has its default. batch() makes a RecordBatch v2, lies
included; records() reads them. That the tables are Kafka's own is what t/10-kmsg-differential.py shows, not this."""
import functools, glob, importlib.util, os, re, socket, struct, time, zlib

import tap

PLAIN = {"bool": ">?", "int8": ">b", "int16": ">h", "int32": ">i", "int64": ">q", "uint16": ">H", "uint32": ">I",
         "float64": ">d"}
ZERO_ID = bytes(16)


class Struct(dict):
    """Fields by name; also as attributes."""
    __getattr__ = dict.__getitem__


class Closed(Exception):
    """The node closed the connection instead of answering."""


@functools.cache
def tables():
    """({message name: gen.py's Message}, {api name: key})"""
    top = os.path.join(tap.src, "proto", "kafka")
    spec = importlib.util.spec_from_file_location("kmsg_gen", os.path.join(top, "gen.py"))
    gen = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(gen)
    messages = []
    for path in sorted(glob.glob(os.path.join(top, "*.kmsg"))):
        gen.parse(path, messages)
    return {m.name: m for m in messages}, {m.name[:-7]: m.key for m in messages if m.key >= 0 and m.name.endswith("Request")}


def key_of(api):
    return tables()[1][api]


def served():
    """{api name: (key, lowest, highest version)} as common/kafka_api.def has it; what is not implemented stands there, too."""
    with open(os.path.join(tap.src, "common", "kafka_api.def"), encoding="utf-8") as f:
        rows = re.findall(r"^KAFKA_API\((\d+), +(\w+), +\w+, +(\d+), +(\d+)\)", f.read(), re.M)
    return {name: (int(key), int(low), int(high)) for key, name, low, high in rows}


# ---------------------------------------------------------------- encoding


def uvarint(n):
    out = bytearray()
    while n >= 0x80:
        out.append(n & 0x7f | 0x80)
        n >>= 7
    return bytes(out) + bytes([n])


def default_of(field):
    text = field.default_text
    if text == "null":
        return None
    if field.is_array:
        return []
    if field.of:
        return {}
    if field.kind in ("string", "string16"):
        return ""
    if field.kind in ("bytes", "records"):
        return b""
    if field.kind == "uuid":
        return ZERO_ID
    return text == "true" if field.kind == "bool" else int(text or "0", 0)


def put_length(n, flexible, short):
    """Of a string (short: 16 bits), bytes or an array; None is null."""
    if flexible:
        return uvarint(0 if n is None else n + 1)
    return struct.pack(">h" if short else ">i", -1 if n is None else n)


def put_one(field, value, version, flexible):
    if field.of:
        return put_struct(field.of, value, version, flexible)
    if field.kind in PLAIN:
        return struct.pack(PLAIN[field.kind], value)
    if field.kind == "uuid":
        return value
    data = value.encode() if isinstance(value, str) else value
    head = put_length(None if data is None else len(data), flexible and field.kind != "string16", "string" in field.kind)
    return head + (data or b"")


def put_field(field, value, version, flexible):
    if field.is_array:
        items = b"".join(put_one(field, v, version, flexible) for v in value or ())
        return put_length(None if value is None else len(value), flexible, False) + items
    if field.pointer() and version >= field.nullable:
        return b"\xff" if value is None else b"\1" + put_one(field, value, version, flexible)
    return put_one(field, value, version, flexible)


def put_struct(of, values, version, flexible):
    unknown = set(values) - {f.name for f in of.fields}
    assert not unknown, f"{of.symbol} has no {unknown}"
    out, tagged = b"", []
    for field in of.order():
        value = values.get(field.name, default_of(field))
        if not field.low <= version <= field.high:
            continue
        if field.tag is None:
            out += put_field(field, value, version, flexible)
        elif field.name in values and value != default_of(field):
            data = put_field(field, value, version, flexible)
            tagged.append(uvarint(field.tag) + uvarint(len(data)) + data)
    return out + (uvarint(len(tagged)) + b"".join(tagged) if flexible else b"")


def encode(name, version, values):
    """A message's bytes: name is "ProduceRequest", "RequestHeader", ..."""
    message = tables()[0][name]
    return put_struct(message.top, values, version, message.flexible is not None and version >= message.flexible)


def frame(api, version, correlation_id=1, client_id="t", **values):
    """A whole request, its length included."""
    flexible = tables()[0][api + "Request"].flexible
    head = {"request_api_key": key_of(api), "request_api_version": version, "correlation_id": correlation_id,
            "client_id": client_id}
    data = encode("RequestHeader", 2 if flexible is not None and version >= flexible else 1, head)
    data += encode(api + "Request", version, values)
    return struct.pack(">i", len(data)) + data


# ---------------------------------------------------------------- decoding


class Reader:
    def __init__(self, data):
        self.data, self.at = data, 0

    def take(self, n):
        assert 0 <= n <= len(self.data) - self.at, f"{n} bytes at {self.at} of {len(self.data)}"
        self.at += n
        return self.data[self.at - n:self.at]

    def plain(self, form):
        return struct.unpack(form, self.take(struct.calcsize(form)))[0]

    def uvarint(self):
        shift = value = 0
        while True:
            byte = self.take(1)[0]
            value |= (byte & 0x7f) << shift
            shift += 7
            if byte < 0x80:
                return value

    def varint(self):
        n = self.uvarint()
        return n >> 1 ^ -(n & 1)

    def length(self, flexible, short):
        n = self.uvarint() - 1 if flexible else self.plain(">h" if short else ">i")
        return None if n == -1 else n

    def one(self, field, version, flexible):
        if field.of:
            return self.struct(field.of, version, flexible)
        if field.kind in PLAIN:
            return self.plain(PLAIN[field.kind])
        if field.kind == "uuid":
            return self.take(16)
        n = self.length(flexible and field.kind != "string16", "string" in field.kind)
        if n is None:
            assert field.nullable is not None and version >= field.nullable, f"{field.name} is null"
            return None
        data = self.take(n)
        return data.decode() if "string" in field.kind else data

    def field(self, field, version, flexible):
        if field.is_array:
            n = self.length(flexible, False)
            assert n is not None or field.nullable is not None and version >= field.nullable, f"{field.name} is null"
            return None if n is None else [self.one(field, version, flexible) for _ in range(n)]
        if field.pointer() and version >= field.nullable and self.plain(">b") < 0:
            return None
        return self.one(field, version, flexible)

    def struct(self, of, version, flexible):
        """Fields that the version has not got have their default."""
        fields = of.order()
        out = Struct({f.name: default_of(f) for f in fields})
        for field in fields:
            if field.tag is None and field.low <= version <= field.high:
                out[field.name] = self.field(field, version, flexible)
        for _ in range(self.uvarint() if flexible else 0):
            tag, size = self.uvarint(), self.uvarint()
            field = next(f for f in fields if f.tag == tag and f.low <= version <= f.high)
            inner = Reader(self.take(size))
            out[field.name] = inner.field(field, version, flexible)
            assert inner.at == size, f"{field.name}: bytes behind it"
        return out


def decode(name, version, data, behind=False):
    """A message; nothing may stand behind it, unless that is said."""
    message = tables()[0][name]
    reader = Reader(data)
    value = reader.struct(message.top, version, message.flexible is not None and version >= message.flexible)
    assert behind or reader.at == len(data), f"{name} {version}: {len(data) - reader.at} bytes behind it"
    return value


# ---------------------------------------------------------------- record batches


def _crc_table():
    table = []
    for n in range(256):
        for _ in range(8):
            n = n >> 1 ^ (0x82f63b78 if n & 1 else 0)
        table.append(n)
    return table


_CRC = _crc_table()


def crc32c(data):
    crc = 0xffffffff
    for byte in data:
        crc = _CRC[(crc ^ byte) & 0xff] ^ crc >> 8
    return crc ^ 0xffffffff


def varint(n):
    return uvarint((n << 1 ^ n >> 63) & (1 << 64) - 1)


def _bytes(data):
    return varint(-1) if data is None else varint(len(data)) + data


def record(delta, key, value, headers=(), time_delta=0):
    """One record of a batch as it stands there."""
    body = b"\0" + varint(time_delta) + varint(delta) + _bytes(key) + _bytes(value) + varint(len(headers))
    for name, data in headers:
        body += _bytes(name.encode() if isinstance(name, str) else name) + _bytes(data)
    return varint(len(body)) + body


def pack(codec, data):
    """data in the form of a codec (2 raw snappy, 3 lz4, 4 zstd), stored and not made smaller."""
    if codec == 0:
        return data
    if codec == 1:
        squeeze = zlib.compressobj(wbits=31)
        return squeeze.compress(data) + squeeze.flush()
    pieces = [data[i:i + 65536] for i in range(0, len(data), 65536)] or [b""]
    if codec == 2:
        return uvarint(len(data)) + b"".join(b"\xf4" + struct.pack("<H", len(p) - 1) + p for p in pieces if p)
    if codec == 3:
        blocks = b"".join(struct.pack("<I", 1 << 31 | len(p)) + p for p in pieces if p)
        return b"\x04\x22\x4d\x18\x60\x40\x82" + blocks + bytes(4)
    blocks = b"".join(struct.pack("<I", len(p) << 3 | (p is pieces[-1]))[:3] + p for p in pieces)
    return b"\x28\xb5\x2f\xfd\xa0" + struct.pack("<I", len(data)) + blocks


def batch(items, codec=0, times=None, producer=(-1, -1, -1), base_time=1700000000000, base_offset=0, epoch=-1, magic=2,
          attributes=0, body=None, **lies):
    """A RecordBatch v2 of (key, value) or (key, value, headers). times: one a record. body: instead of the records, as
    it is. lies: count and last_delta instead of the right ones, length added to it, crc xor-ed with it."""
    assert set(lies) <= {"count", "last_delta", "length", "crc"}, lies
    times = times or [base_time] * len(items)
    if body is None:
        body = pack(codec, b"".join(record(i, item[0], item[1], item[2] if len(item) > 2 else (), times[i] - base_time)
                                    for i, item in enumerate(items)))
    tail = struct.pack(">hiqqqhii", attributes | codec, lies.get("last_delta", len(items) - 1), base_time, max(times, default=base_time),
                       *producer, lies.get("count", len(items))) + body
    rest = struct.pack(">ibI", epoch, magic, crc32c(tail) ^ lies.get("crc", 0)) + tail
    return struct.pack(">qi", base_offset, len(rest) + lies.get("length", 0)) + rest


def batches(data):
    """Each batch of what Fetch returned: base_offset, epoch, attributes, ..., and its bytes."""
    names = ("base_offset length epoch magic crc attributes last_delta base_time max_time producer_id producer_epoch sequence "
             "count").split()
    found = []
    while data:
        b = Struct(zip(names, struct.unpack(">qiibIhiqqqhii", data[:61])))
        b["bytes"], data = data[:12 + b.length], data[12 + b.length:]
        assert len(b.bytes) == 12 + b.length, "a batch that is cut off"
        assert b.crc == crc32c(b.bytes[21:]), "the CRC of a batch"
        found.append(b)
    return found


def records(data):
    """[offset, timestamp, key, value, headers] of each record in batches without compression or with gzip."""
    found = []
    for b in batches(data):
        assert b.attributes & 7 <= 1, f"codec {b.attributes & 7}"
        r = Reader(zlib.decompress(b.bytes[61:], 31) if b.attributes & 7 else b.bytes[61:])
        for _ in range(b.count):
            end = r.varint() + r.at
            r.take(1)
            time_delta, delta = r.varint(), r.varint()
            piece = lambda: None if (n := r.varint()) < 0 else r.take(n)
            key, value = piece(), piece()
            headers = [(piece(), piece()) for _ in range(r.varint())]
            assert r.at == end, "a record's length"
            found.append(Struct(offset=b.base_offset + delta, key=key, value=value, headers=headers,
                                timestamp=b.max_time if b.attributes & 8 else b.base_time + time_delta))
    return found


# ---------------------------------------------------------------- a connection


class Client:
    def __init__(self, port, host="127.0.0.1", timeout=30, client_id="t"):
        self.client_id, self.next, self.open = client_id, 0, []
        self.socket = socket.create_connection((host, port), timeout)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.socket.close()

    def raw(self, data):
        self.socket.sendall(data)

    def send(self, api, version, **values):
        """Returns the correlation id. The answer is receive()'s, in order."""
        self.next += 1
        self.raw(frame(api, version, self.next, self.client_id, **values))
        self.open.append((api, version, self.next))
        return self.next

    def _bytes(self, n):
        data = bytearray()
        while len(data) < n:
            piece = self.socket.recv(min(n - len(data), 1 << 20))
            if not piece:
                raise Closed(f"after {len(data)} of {n} bytes")
            data += piece
        return bytes(data)

    def receive_frame(self):
        """The next frame without its length, whatever it is."""
        return self._bytes(struct.unpack(">i", self._bytes(4))[0])

    def receive(self, version=None):
        """The answer to the oldest request. version: where it comes in another one (ApiVersions refused: 0)."""
        data, (api, asked, expected) = self.receive_frame(), self.open.pop(0)
        form, version = tables()[0][api + "Response"], asked if version is None else version
        skip = 5 if api != "ApiVersions" and form.flexible is not None and asked >= form.flexible else 4
        tap.same(struct.unpack(">i", data[:4])[0], expected, "correlation id")
        tap.same(data[4:skip], b"\0" * (skip - 4), "tags of the header")
        return decode(api + "Response", version, data[skip:])

    def call(self, api, version, **values):
        self.send(api, version, **values)
        return self.receive()

    def is_closed(self, seconds=10):
        """Whether the node closes the connection without a byte more, within seconds."""
        was = self.socket.gettimeout()
        self.socket.settimeout(seconds)
        try:
            return self.socket.recv(1) == b""
        except ConnectionError:
            return True
        except TimeoutError:
            return False
        finally:
            self.socket.settimeout(was)

    # What most tests do.

    def create(self, *names, partitions=1, version=7, configs=()):
        """Creates topics; configs are (name, value). Their error codes."""
        more = {"num_partitions": partitions, "replication_factor": -1,
                "configs": [{"name": name, "value": value} for name, value in configs]}
        a = self.call("CreateTopics", version, timeout_ms=30000, topics=[{"name": n, **more} for n in names])
        return [t.error_code for t in a.topics]

    def topic_id(self, name):
        return self.call("Metadata", 12, topics=[{"name": name}], allow_auto_topic_creation=False).topics[0].topic_id

    def produce(self, topic, partition, data, acks=-1, version=9, timeout_ms=30000):
        """Produces one batch; the partition's answer (None for acks=0)."""
        parts = {"name": topic, "partition_data": [{"index": partition, "records": data}]}
        self.send("Produce", version, acks=acks, timeout_ms=timeout_ms, topic_data=[parts])
        if acks == 0:
            self.open.pop()
            return None
        return self.receive().responses[0].partition_responses[0]

    def fetch(self, topic, partition, offset, version=12, min_bytes=0, max_wait_ms=0, max_bytes=1 << 30, **more):
        """Fetches from one partition, from version 13 on by topic id; the partition's answer."""
        name = {"topic": topic} if version < 13 else {"topic_id": topic}
        one = {"partition": partition, "fetch_offset": offset, "partition_max_bytes": 1 << 30, **more}
        a = self.call("Fetch", version, max_wait_ms=max_wait_ms, min_bytes=min_bytes, max_bytes=max_bytes,
                      topics=[{**name, "partitions": [one]}])
        return a.responses[0].partitions[0]

    def read_all(self, topic, partition=0, seconds=30, start=0):
        """Every record of a partition from start up to its high watermark."""
        found, at, end = [], start, time.monotonic() + seconds
        while True:
            p = self.fetch(topic, partition, at)
            tap.same(p.error_code, 0, f"{topic}/{partition} at {at}")
            found += [r for r in records(p.records) if r.offset >= at]
            at = found[-1].offset + 1 if found else at
            if at >= p.high_watermark:
                return found
            assert time.monotonic() < end, f"{topic}/{partition}: at {at} of {p.high_watermark} after {seconds} s"
