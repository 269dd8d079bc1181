#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The same records over every protocol: each way to write a record against each way to read it, one offset space."""
import base64, json, struct

import kafka_wire, tap
from ds import Events
from node import Node

BATCH = "application/vnd.picomq.batch"
node = Node(kafka=True, ds=True)
VALUE = "v\u00e9 \"1\"\n".encode()


def ok(answer, *statuses):
    assert answer.status in statuses, answer


# Each appends (key, value) to a stream and says which of the two arrived as they were given.
def pico_raw(name, key, value):
    ok(node.http("POST", name, value, **({"Pico_Key": key.decode()} if key else {})), 200)


def pico_json(name, key, value):
    record = {"body_b64": base64.b64encode(value).decode(), **({"key_b64": base64.b64encode(key).decode()} if key else {})}
    ok(node.http("POST", name, json.dumps({"records": [record]}).encode(), Content_Type=BATCH + "+json"), 200)


def pico_binary(name, key, value):
    record = struct.pack(">i", len(key) if key else -1) + (key or b"") + struct.pack(">II", 0, len(value)) + value
    ok(node.http("POST", name, b"\1" + struct.pack(">I", 1) + record, Content_Type=BATCH), 200)


def ds_bytes(name, key, value):
    ok(node.ds("POST", name, value, Content_Type=node.ds("HEAD", name)["content-type"]), 204)


def kafka(codec):
    def write(name, key, value):
        with kafka_wire.Client(node.kafka_port) as c:
            tap.same(c.produce(name[1:].replace("/", "."), 0, kafka_wire.batch([(key, value)], codec=codec)).error_code, 0)
    write.__name__ = f"kafka_{['none', 'gzip', 'snappy', 'lz4', 'zstd'][codec]}"
    return write


WRITERS = [pico_raw, pico_json, pico_binary, ds_bytes, kafka(0), kafka(1)]
COMPRESSED = [kafka(2), kafka(3), kafka(4)]     # that kafka_wire does not read
KEYLESS = {ds_bytes}


# Each gives the records of a stream as (offset, key, value); key or offset is ... where that form does not show it.
def read_pico_json(name):
    return [(r["seq"], r["key"].encode() if "key" in r else None,
             r["body"].encode() if "body" in r else base64.b64decode(r["body_b64"])) for r in node.http("GET", name).json()]


def read_pico_binary(name):
    data, at, found = node.http("GET", name + "?format=binary").body, 5, []
    for _ in range(struct.unpack(">I", data[1:5])[0]):
        seq, _, n = struct.unpack(">Qqi", data[at:at + 20])
        at += 20
        key, at = (data[at:at + n], at + n) if n >= 0 else (None, at)
        headers, size = struct.unpack(">II", data[at:at + 8])
        tap.same(headers, 0)
        found.append((seq, key, data[at + 8:at + 8 + size]))
        at += 8 + size
    return found


def read_kafka(name):
    with kafka_wire.Client(node.kafka_port) as c:
        return [(r.offset, r.key, r.value) for r in c.read_all(name[1:].replace("/", "."))]


def joined(data, name):
    """A form that shows values one behind the other."""
    return [(..., ..., data)]


def read_pico_raw(name):
    return joined(node.http("GET", name + "?format=raw").body, name)


def read_pico_sse(name):
    e = Events(node.port, name + "?seq=0&live=sse")
    found = json.loads(e.pair()[0])
    e.close()
    return [(r["seq"], r["key"].encode() if "key" in r else None, r["body"].encode()) for r in found]


def read_ds(name):
    return joined(node.ds("GET", name).body, name)


def read_ds_sse(name):
    e = Events(node.ds_port, name + "?offset=-1&live=sse")
    data = e.pair()[0]
    tap.same(e.headers["stream-sse-data-encoding"], "base64")
    e.close()
    return joined(base64.b64decode(data), name)


READERS = [read_pico_json, read_pico_binary, read_pico_raw, read_pico_sse, read_ds, read_ds_sse, read_kafka]


def check(reader, name, want):
    got = reader(name)
    if got and got[0][0] is ...:
        want = [(..., ..., b"".join(v for _, _, v in want))]
    tap.same(got, want, f"{reader.__name__} of {name}")


@tap.test(f"{len(WRITERS + COMPRESSED)} ways to write, {len(READERS)} ways to read, each pair")
def _():
    node.start()
    for writer in WRITERS + COMPRESSED:
        name = f"/cross/{writer.__name__}"
        tap.same(node.ds("PUT", name).status, 201)
        writer(name, b"k", VALUE)
        writer(name, None, b"second")
        key = None if writer in KEYLESS else b"k"
        for reader in READERS if writer in WRITERS else READERS[:-1]:
            check(reader, name, [(0, key, VALUE), (1, None, b"second")])


@tap.test("all of them into one stream: offsets rise by one, whoever writes")
def _():
    tap.same(node.http("PUT", "/cross/all").status, 201)
    want = []
    for i, writer in enumerate(WRITERS * 2):
        writer("/cross/all", b"k", b"%d;" % i)
        want.append((i, None if writer in KEYLESS else b"k", b"%d;" % i))
    for reader in READERS:
        check(reader, "/cross/all", want)


@tap.test("JSON streams: messages of Durable Streams are records elsewhere, and records elsewhere are messages")
def _():
    tap.same(node.ds("PUT", "/cross/json", b'[{"a": 1}, 2.0]', Content_Type="application/json").status, 201)
    for writer in WRITERS:
        writer("/cross/json", None, b'{"by":"%s"}' % writer.__name__.encode())
    by = [{"by": w.__name__} for w in WRITERS]
    tap.same(node.ds("GET", "/cross/json").json(), [{"a": 1}, 2.0, *by])
    want = [b'{"a": 1}', b"2.0", *(b'{"by":"%s"}' % w.__name__.encode() for w in WRITERS)]
    for reader in (read_pico_json, read_pico_binary, read_kafka):
        tap.same([v for _, _, v in reader("/cross/json")], want, reader.__name__)
    e = Events(node.ds_port, "/cross/json?offset=-1&live=sse")
    tap.same(json.loads(e.pair()[0]), [{"a": 1}, 2.0, *by])
    e.close()


@tap.test("close, delete and expiry hold for all of them, whoever asked")
def _():
    for name, end in (("/cross/c1", lambda n: node.ds("POST", n, b"", Stream_Closed="true")),
                      ("/cross/c2", lambda n: node.http("POST", n, b"", Pico_Closed="true"))):
        tap.same(node.ds("PUT", name).status, 201)
        ok(end(name), 200, 204)
        tap.same((node.http("HEAD", name)["pico-closed"], node.ds("HEAD", name)["stream-closed"]), ("true", "true"))
        tap.same((node.http("POST", name, b"x").status,
                  node.ds("POST", name, b"x", Content_Type="application/octet-stream").status), (409, 409))
        with kafka_wire.Client(node.kafka_port) as c:
            tap.same(c.produce(name[1:].replace("/", "."), 0, kafka_wire.batch([(None, b"x")])).error_code, 44)
    tap.same(node.http("DELETE", "/cross/c1").status, 204)
    tap.same(node.ds("DELETE", "/cross/c2").status, 204)
    for name in "/cross/c1", "/cross/c2":
        tap.same((node.http("HEAD", name).status, node.ds("HEAD", name).status), (404, 404))
    tap.same(node.ds("PUT", "/cross/ttl", Stream_TTL=1).status, 201)
    tap.same(node.http("HEAD", "/cross/ttl")["pico-ttl"], "1")
    tap.until(lambda: node.http("HEAD", "/cross/ttl").status == 404, 30, "expired")
    with kafka_wire.Client(node.kafka_port) as c:
        tap.same(c.fetch("cross.ttl", 0, 0).error_code, 3)


tap.run(node.stop)
