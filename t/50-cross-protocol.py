#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""One node, one set of streams, three protocols: each form of a record from each writer to each reader, what happens to a
stream through one protocol as the others answer it, writers of all protocols at once, and streams that are older than the node's
Kafka listener. Names have a table of their own: t/lib/names.py."""
import base64, collections, concurrent.futures, json, subprocess, tempfile, urllib.parse

import binary_batch, kafka_wire, tap
from ds import Events, Streams, offset
from node import Client, Node
from tap import same, test

OCTETS = "application/octet-stream"
BATCH = "application/vnd.picomq.batch+json"
node = Node("--long-poll-timeout-ms=30000", "--max-message-size=1M", kafka=True, ds=True)
ds = Streams(node)
pool = concurrent.futures.ThreadPoolExecutor(16)


def wire():
    return kafka_wire.Client(node.kafka_port)


def pico(method, path, status=200, body=None, **headers):
    a = node.http(method, path, body, **headers)
    same(a.status, status, f"{method} {path} {headers} {a.body[:300]}")
    return a


def put(name, status=201, **headers):
    return pico("PUT", name, status, Content_Type=OCTETS, **headers)


def produce(topic, *records, code=0, **more):
    with wire() as c:
        a = c.produce(topic, 0, kafka_wire.batch(list(records), **more))
        same(a.error_code, code, f"produce to {topic}")
        return a.base_offset


def kcat(*args, stdin=None, port=None):
    r = subprocess.run(["kcat", "-b", f"127.0.0.1:{port or node.kafka_port}", "-X", "message.timeout.ms=30000", *args], input=stdin,
                       capture_output=True, timeout=90)
    same(r.returncode, 0, f"kcat {args}: {r.stderr.decode()[-600:]}")
    return r.stdout


# ------------------------------------------------------------------------ records

# A record, and what a JSON read of it shows besides seq and timestamp. Other readers: see READERS.
Form = collections.namedtuple("Form", "words key headers value shown")


def b64(data):
    return base64.b64encode(data).decode()


FORMS = [
    Form("text", None, [], b"text", {"body": "text"}),
    Form("a null value: a tombstone", b"k", [], None, {"key": "k", "body": None}),
    Form("an empty value is not null", b"k", [], b"", {"key": "k", "body": ""}),
    Form("nothing but nulls", None, [], None, {"body": None}),
    Form("an empty key is not null", b"", [], b"v", {"key": "", "body": "v"}),
    Form("a key that is no text", b"\xff\0", [], b"v", {"key_b64": b64(b"\xff\0"), "body": "v"}),
    Form("a value that is no text", b"k", [], b"\x80\0\xff", {"key": "k", "body_b64": b64(b"\x80\0\xff")}),
    Form("a value that is no text, alone", None, [], b"\xfe\0", {"body_b64": b64(b"\xfe\0")}),
    Form("text with all that JSON escapes", "ключ".encode(), [], '"\\/\b\f\n\r\t\x01 é \U0001f600'.encode(),
         {"key": "ключ", "body": '"\\/\b\f\n\r\t\x01 é \U0001f600'}),
    Form("text that looks like JSON", None, [], b'{"body":null}', {"body": '{"body":null}'}),
    Form("names of headers once each: an object", None, [(b"a", b"1"), (b"b", b"2")], b"v", {"headers": {"a": "1", "b": "2"}, "body": "v"}),
    Form("a name twice: an array, in order", b"k", [(b"b", b"1"), (b"a", b"2"), (b"b", b"1")], b"v",
         {"key": "k", "headers": [["b", "1"], ["a", "2"], ["b", "1"]], "body": "v"}),
    Form("a header's value that is no text", b"k", [(b"a", b"\xff"), (b"b", b"2")], b"v",
         {"key": "k", "headers": [["a", {"b64": "/w=="}], ["b", "2"]], "body": "v"}),
    Form("a header's value that is empty", None, [(b"a", b"")], b"v", {"headers": {"a": ""}, "body": "v"}),
    Form("a header's value that is null", None, [(b"a", None)], b"v", {"headers": [["a", None]], "body": "v"}),
    Form("a header without a name", None, [(b"", b"x")], b"v", {"headers": {"": "x"}, "body": "v"}),
    Form("a header's name that is no text", None, [(b"\xff", b"x")], b"v", {"headers": [[{"b64": "/w=="}, "x"]], "body": "v"}),
    Form("a tombstone with headers", b"k", [(b"why", b"gone")], None, {"key": "k", "headers": {"why": "gone"}, "body": None}),
    Form("large", b"k" * 3000, [(b"h%d" % i, b"v" * 100) for i in range(60)], b"x" * 70000,
         {"key": "k" * 3000, "headers": {f"h{i}": "v" * 100 for i in range(60)}, "body": "x" * 70000}),
]

def filled(headers):
    """As one reads who knows no null."""
    return [(name, value or b"") for name, value in headers]


# Each writer: the forms it can write, and how; it returns the position of the first.

def by_kafka(codec):
    return lambda topic, forms: produce(topic, *[(f.key, f.value, f.headers) for f in forms], codec=codec)


def by_json(topic, forms):
    a = pico("POST", "/" + topic, 200, json.dumps({"records": [f.shown for f in forms]}).encode(), Content_Type=BATCH)
    return int(a["pico-start-seq"])


def by_binary(topic, forms):
    body = binary_batch.batch(*[binary_batch.record(f.value, f.key, f.headers) for f in forms])
    return int(pico("POST", "/" + topic, 200, body, Content_Type=binary_batch.TYPE)["pico-start-seq"])


def in_a_file(data, run):
    """What curl and kcat take as it is only from a file."""
    with tempfile.NamedTemporaryFile() as body:
        body.write(data)
        body.flush()
        return run(body.name)


def by_raw(topic, forms):
    """By curl, which can send a header more than once."""
    f = forms[0]
    headers = [f"Pico-Header: {name.decode()}={urllib.parse.quote_from_bytes(value)}" for name, value in f.headers]
    headers += [] if f.key is None else ["Pico-Key: " + f.key.decode()]
    args = ["curl", "-sS", "-D", "-", "-H", "Content-Type:", *[x for h in headers for x in ("-H", h)], node.url + "/" + topic]
    out = in_a_file(f.value, lambda name: subprocess.run([*args, "--data-binary", "@" + name], capture_output=True, timeout=60)).stdout
    told = [line.split(b":")[1] for line in out.splitlines() if line.lower().startswith(b"pico-start-seq")]
    assert told, f"{f.words}: {out}"
    return int(told[0])


def by_ds(topic, forms):
    return int(ds.post("/" + topic, forms[0].value, Content_Type=OCTETS)["stream-next-offset"]) - 1


def by_kcat(topic, forms):
    f = forms[0]
    key = [] if f.key is None else ["-k", f.key.decode()]
    headers = [x for name, value in f.headers for x in ("-H", f"{name.decode()}={value.decode()}")]
    in_a_file(f.value, lambda name: kcat("-P", "-t", topic, "-p", "0", *key, *headers, name))
    return int(node.http("HEAD", "/" + topic)["pico-next-seq"]) - 1


def is_utf8(data):
    try:
        return data.decode() is not None
    except UnicodeDecodeError:
        return False


def is_word(data):
    """For command lines."""
    return bool(data) and data.isascii() and data.isalnum()


def has_names(form):
    """Of UTF-8: HTTP writes no others."""
    return all(is_utf8(name) for name, _ in form.headers)


def is_raw(form):
    """Headers of HTTP have no null, and an empty one is none."""
    names = all(is_word(name) and value is not None for name, value in form.headers)
    return form.value and (form.key is None or is_word(form.key)) and names


WRITERS = [  # name, what it can write, records a request, how
    ("Kafka, as it is", lambda f: True, 1000, by_kafka(0)),
    ("Kafka, gzip", lambda f: True, 1000, by_kafka(1)),
    ("Pico, JSON", has_names, 1000, by_json),
    ("Pico, binary", lambda f: f.value is not None and has_names(f) and None not in dict(f.headers).values(), 1000, by_binary),
    ("Pico, raw", is_raw, 1, by_raw),
    ("Durable Streams", lambda f: f.value and f.key is None and not f.headers, 1, by_ds),
    ("kcat", lambda f: is_raw(f) and all(is_word(value) for _, value in f.headers), 1, by_kcat),
]


# Each reader: everything from a position on as it sees it, and how a form looks to it.

def pages(name, at, query, take):
    got = []
    while True:
        a = pico("GET", f"{name}?seq={at}&bytes=0&{query}")
        got, at = got + take(a), a["pico-next-seq"]
        if a["pico-up-to-date"]:
            return got


def read_json(topic, at):
    take = lambda a: [(r.pop("seq"), r.pop("timestamp") > 0 and r) for r in a.json()]
    return pages("/" + topic, at, "format=json", take)


def read_binary(topic, at):
    return pages("/" + topic, at, "format=binary", lambda a: [(seq, (key, headers, body)) for seq, _, key, headers, body in binary_batch.parse(a.body)])


def read_raw(topic, at):
    return b"".join(pages("/" + topic, at, "format=raw", lambda a: [a.body]))


def read_ds(topic, at):
    got, at = b"", offset(at)
    while True:
        a = ds.get(f"/{topic}?offset={at}")
        got, at = got + a.body, a["stream-next-offset"]
        if a["stream-up-to-date"]:
            return got


def read_kafka(topic, at):
    with wire() as c:
        return [(r.offset, (r.key, [tuple(h) for h in r.headers], r.value)) for r in c.read_all(topic) if r.offset >= at]


READERS = [
    ("JSON", read_json, lambda want: [(i, f.shown) for i, f in want]),
    ("binary", read_binary, lambda want: [(i, (f.key, filled(f.headers), f.value or b"")) for i, f in want]),
    ("raw", read_raw, lambda want: b"".join(f.value or b"" for _, f in want)),
    ("Durable Streams", read_ds, lambda want: b"".join(f.value or b"" for _, f in want)),
    ("Kafka", read_kafka, lambda want: [(i, (f.key, f.headers, f.value)) for i, f in want]),
]
written = []


@test("a node")
def _():
    node.start()
    ds.put("/table", Content_Type=OCTETS)


def write(name, can, many, how):
    forms = [f for f in FORMS if can(f)]
    assert len(forms) >= 3, f"{name} writes {len(forms)} forms"
    for i in range(0, len(forms), many):
        same(how("table", forms[i:i + many]), len(written), f"the position of {forms[i].words}")
        written.extend(forms[i:i + many])
    tap.diag(f"{len(forms)} forms")


def read(name, how, look):
    want = list(enumerate(written))
    for at in (0, *range(1, len(want), 7), len(want) - 1, len(want)):
        got, expected = how("table", at), look(want[at:])
        if got != expected:
            for g, e in zip(got, expected):
                same(str(g)[:300], str(e)[:300], f"{name} from {at}")
        same(len(got), len(expected), f"{name} from {at}")


for row in WRITERS:
    test(f"records: written by {row[0]}, each in its place")(lambda row=row: write(*row))
for row in READERS:
    test(f"records: read by {row[0]}, whoever wrote them, from any place in a batch")(lambda row=row: read(*row))


@test("what Kafka clients read is what they wrote, byte for byte but for the base offset and the leader epoch")
def _():
    put("/verbatim")
    sent = [kafka_wire.batch([(f.key, f.value, f.headers) for f in FORMS], codec=c) for c in range(5)]
    with wire() as c:
        for data in sent:
            same(c.produce("verbatim", 0, data).error_code, 0)
        got = [b.bytes for b in kafka_wire.batches(c.fetch("verbatim", 0, 0).records)]
    same([b[16:] for b in got], [b[16:] for b in sent])
    same([f.shown for f in FORMS] * 5, [r for _, r in read_json("verbatim", 0)], "and each codec is read over HTTP")


@test("what JSON shows is what JSON takes, but for names that are no text: Kafka sees no difference")
def _():
    put("/copy")
    shown = pico("GET", "/table?bytes=0").json()
    kept = [r for r, f in zip(shown, written) if has_names(f)]
    same(len(shown), len(written))
    pico("POST", "/copy", 200, json.dumps({"records": kept}).encode(), Content_Type=BATCH)
    want = [r for (_, r), f in zip(read_kafka("table", 0), written) if has_names(f)]
    same([r for _, r in read_kafka("copy", 0)] == want, True)
    refused = [r for r, f in zip(shown, written) if not has_names(f)][:1]
    pico("POST", "/copy", 400, json.dumps({"records": refused}).encode(), Content_Type=BATCH)


@test("times: an append's is the node's, for Kafka, too; a producer's own is shown over HTTP; LogAppendTime has the node's")
def _():
    put("/times")
    told = int(pico("POST", "/times", 200, b"x")["pico-timestamp"])
    produce("times", (None, b"a"), (None, b"b"), times=[1700000000123, 1600000000000])
    with wire() as c:
        found = c.read_all("times")
        same([r.timestamp for r in found], [told, 1700000000123, 1600000000000])
        same([b.attributes & 8 for b in kafka_wire.batches(c.fetch("times", 0, 0).records)], [8, 0])
        same([r["timestamp"] for r in pico("GET", "/times").json()], [r.timestamp for r in found])
        same(c.create("stamped", configs=[("message.timestamp.type", "LogAppendTime")]), [0])
        produce("stamped", (None, b"a"), (None, b"b"), times=[1, 2])
        stamps = [r["timestamp"] for r in pico("GET", "/stamped").json()]
        assert stamps[0] == stamps[1] >= told, (stamps, told)
        same([r.timestamp for r in c.read_all("stamped")], stamps)


@test("a JSON stream of Durable Streams: each message is a record to Pico and Kafka, and theirs are messages")
def _():
    ds.put("/messages", Content_Type="application/json", body=b'[{"n":0},[1], 2.50]')
    produce("messages", (b"k", b'{"n":3}'), (None, b'"4"'))
    pico("POST", "/messages", 200, json.dumps({"records": [{"body": "[5,6]"}, {"key": "k", "body": None}]}).encode(), Content_Type=BATCH)
    same([v for _, (_, _, v) in read_kafka("messages", 0)], [b'{"n":0}', b"[1]", b"2.50", b'{"n":3}', b'"4"', b"[5,6]", None])
    same(ds.get("/messages").body, b'[{"n":0},[1],2.50,{"n":3},"4",[5,6],null]')
    same([r["body"] for r in pico("GET", "/messages").json()], ['{"n":0}', "[1]", "2.50", '{"n":3}', '"4"', "[5,6]", None])
    out = kcat("-C", "-t", "messages", "-e", "-q", "-f", "%o %k %S\n").decode().splitlines()
    same(out[3:], ["3 k 7", "4  3", "5  5", "6 k -1"])


# ------------------------------------------------------------------------ what happens to a stream

def kafka_read(topic, at=0):
    with wire() as c:
        return c.fetch(topic, 0, at).error_code


def kafka_write(topic, value=b"x"):
    with wire() as c:
        return c.produce(topic, 0, kafka_wire.batch([(None, value)])).error_code


def kafka_delete(topic):
    with wire() as c:
        same(c.call("DeleteTopics", 5, timeout_ms=30000, topic_names=[topic]).responses[0].error_code, 0)


def kafka_trim(topic, at):
    with wire() as c:
        a = c.call("DeleteRecords", 2, timeout_ms=9000, topics=[{"name": topic, "partitions": [{"partition_index": 0, "offset": at}]}])
        same((a.topics[0].partitions[0].error_code, a.topics[0].partitions[0].low_watermark), (0, at))


def scene(name, n=4):
    put("/" + name)
    for i in range(n):
        pico("POST", "/" + name, 200, b"%d" % i)


def closed_by(how):
    def before(name):
        scene(name)
        how(name)
    return before


def forked(name):
    scene(name)
    ds("PUT", "/fork/of/" + name, 201, Stream_Forked_From="/" + name)
    ds.delete("/" + name)


def expired(name):
    put("/" + name, Pico_TTL=1)
    tap.until(lambda: node.http("HEAD", "/" + name).status == 404, 30, "it is over")


def trimmed_by(how):
    def before(name):
        scene(name)
        how(name)
    return before


def pico_close(name):
    pico("POST", "/" + name, 200, b"", Pico_Closed="true")


BIG = b"x" * (1 << 20)
# words, the scene, then what an append answers and what a read at a position does: Pico status and word, Durable Streams' status, Kafka's code
FATES = [
    ("nothing there", lambda name: None, (404, "not_found", 404, 3), (0, 404, "not_found", 404, 3)),
    ("deleted over Pico", lambda n: (scene(n), pico("DELETE", "/" + n, 204)), (404, "not_found", 404, 3), (0, 404, "not_found", 404, 3)),
    ("deleted over Durable Streams", lambda n: (scene(n), ds.delete("/" + n)), (404, "not_found", 404, 3), (0, 404, "not_found", 404, 3)),
    ("deleted over Kafka", lambda n: (scene(n), kafka_delete(n)), (404, "not_found", 404, 3), (0, 404, "not_found", 404, 3)),
    ("past its TTL", expired, (404, "not_found", 404, 3), (0, 404, "not_found", 404, 3)),
    ("deleted, with forks", forked, (410, "gone", 410, 3), (0, 410, "gone", 410, 3)),
    ("closed over Pico", closed_by(pico_close), (409, "closed", 409, 44), (4, 200, None, 200, 0)),
    ("closed over Durable Streams", closed_by(lambda n: ds.close("/" + n)), (409, "closed", 409, 44), (4, 200, None, 200, 0)),
    ("below the start, trimmed over Pico", trimmed_by(lambda n: pico("POST", "/" + n, 200, b"", Pico_Trim_Seq=2)), (200, None, 204, 0),
     (1, 410, "trimmed", 410, 1)),
    ("below the start, trimmed over Kafka", trimmed_by(lambda n: kafka_trim(n, 2)), (200, None, 204, 0), (1, 410, "trimmed", 410, 1)),
    ("at the start, trimmed over Kafka", trimmed_by(lambda n: kafka_trim(n, 2)), (200, None, 204, 0), (2, 200, None, 200, 0)),
    ("beyond the end", scene, None, (5, 400, "bad_request", 400, 1)),
    ("of several partitions", lambda n: put("/" + n, Pico_Partitions=3), (200, None, 409, 0), (0, 400, "partition_required", 409, 0)),
]


def fate(name, before, append, read):
    before(name)
    at, *want = read
    p, d = node.http("GET", f"/{name}?seq={at}"), node.ds("GET", f"/{name}?offset={at}")
    same([p.status, p.json()["error"] if p.status >= 400 else None, d.status, kafka_read(name, at)], want, "reads")
    if append is not None:
        p, d = node.http("POST", "/" + name, b"x"), node.ds("POST", "/" + name, b"x", Content_Type=OCTETS)
        same((p.status, p.json()["error"] if p.status >= 400 else None, d.status, kafka_write(name)), append, "appends")
    if 44 in (append or ()):
        same((p["pico-closed"], d["stream-closed"]), ("true", "true"))


for i, row in enumerate(FATES):
    test(f"{row[0]}: the same to every protocol")(lambda i=i, row=row: fate(f"fate{i}", *row[1:]))


@test("too large for a record: refused in each protocol's words, and nothing is stored")
def _():
    put("/large")
    same((node.http("POST", "/large", BIG + b"x").status, node.ds("POST", "/large", BIG + b"x", Content_Type=OCTETS).status,
          kafka_write("large", BIG + b"x")), (413, 413, 10))
    same(pico("HEAD", "/large")["pico-next-seq"], "0")


@test("made over one protocol it is there for the others, empty, with its type")
def _():
    put("/made/pico")
    ds.put("/made/ds", Content_Type="text/csv")
    with wire() as c:
        same(c.create("made.kafka"), [0])
        for topic, path, type_ in (("made.pico", "/made/pico", OCTETS), ("made.ds", "/made/ds", "text/csv"), ("made.kafka", "/made.kafka", OCTETS)):
            same(c.read_all(topic), [])
            a, d = pico("HEAD", path), ds.head(path)
            same((a["content-type"], a["pico-kafka-topic"], a["pico-next-seq"]), (type_, topic, "0"))
            same((d["content-type"], d["stream-next-offset"]), (type_, offset(0)))


@test("a producer's numbers are of its protocol: the same id and seq are two producers, and each knows its duplicates")
def _():
    put("/ids")
    with wire() as c:
        id_ = c.call("InitProducerId", 4, transactional_id=None, transaction_timeout_ms=1000, producer_id=-1, producer_epoch=-1)
        numbered = dict(producer=(id_.producer_id, id_.producer_epoch, 0))
        headers = dict(Pico_Producer_Id=str(id_.producer_id), Pico_Producer_Epoch=0, Pico_Producer_Seq=0)
        for start in ("0", None):
            same(pico("POST", "/ids", 200, b"pico", **headers)["pico-start-seq"], start)
        same([produce("ids", (None, b"kafka"), **numbered) for _ in range(2)], [1, 1], "the first place, again")
        for status in (200, 204):
            ds.produce("/ids", "another", 0, 0, status, b"ds", Content_Type=OCTETS)
    same([r["body"] for r in pico("GET", "/ids").json()], ["pico", "kafka", "ds"])


# ------------------------------------------------------------------------ who waits

WAITERS = {
    "a Pico long poll": lambda t, at: lambda: pico("GET", f"/{t}?seq={at}&live=long-poll&format=raw").body,
    "a long poll of Durable Streams": lambda t, at: lambda: ds.get(f"/{t}?offset={at}&live=long-poll").body,
    "a fetch": lambda t, at: lambda: wire().fetch(t, 0, at, min_bytes=1, max_wait_ms=25000).records,
}
WAKERS = {
    "Pico": lambda t, value: pico("POST", "/" + t, 200, value),
    "Durable Streams": lambda t, value: ds.post("/" + t, value, Content_Type=OCTETS),
    "Kafka": lambda t, value: produce(t, (None, value)),
}


@test("whoever waits is woken by an append of any protocol; events, too")
def _():
    put("/live")
    pico_events, ds_events = Events(node.port, "/live?live=sse"), Events(node.ds_port, "/v1/stream/live?offset=-1&live=sse")
    pico_events.pair(), ds_events.pair()
    for at, (waker, wake) in enumerate(WAKERS.items()):
        value = b"from " + waker.encode()
        waiting = {w: pool.submit(ask("live", at)) for w, ask in WAITERS.items()}
        wake("live", value)
        for waiter, answer in waiting.items():
            got = answer.result(20)
            same(value in got, True, f"{waiter}, woken by {waker}: {got}")
        same(json.loads(pico_events.pair()[0])[0]["body"].encode(), value)
        same(base64.b64decode(ds_events.pair()[0]), value)
    ds.close("/live")
    same((pico_events.pair()[1]["closed"], ds_events.pair()[1]["streamClosed"]), (True, True), "closed over Durable Streams")


# ------------------------------------------------------------------------ all at once

N = 150


def many(topic, writer):
    """Appends N records; {value: position it was told}."""
    told, client, connection = {}, Client(node.port), wire()
    streams = Client(node.ds_port)
    producer = connection.call("InitProducerId", 4, transactional_id=None, transaction_timeout_ms=1000, producer_id=-1, producer_epoch=-1)
    for i in range(N):
        value = b"%s:%d" % (writer.encode(), i)
        if writer == "pico":
            a = client("POST", "/" + topic, value, Pico_Producer_Id="p", Pico_Producer_Epoch=0, Pico_Producer_Seq=i)
            told[value] = int(a["pico-start-seq"])
        elif writer == "ds":
            a = streams("POST", "/" + topic, value, Content_Type=OCTETS, Producer_Id="d", Producer_Epoch=0, Producer_Seq=i)
            told[value] = int(a["stream-next-offset"]) - 1
        else:
            data = kafka_wire.batch([(None, value)], producer=(producer.producer_id, producer.producer_epoch, i))
            told[value] = connection.produce(topic, 0, data).base_offset
    return told


@test("writers of all protocols at once: one offset space without holes, each record where its writer was told, each writer's in order")
def _():
    put("/mixed")
    writers = [pool.submit(many, "mixed", w) for w in ("pico", "ds", "kafka")]
    kcat("-P", "-t", "mixed", "-p", "0", "-X", "enable.idempotence=true", stdin=b"".join(b"kcat:%d\n" % i for i in range(N)))
    told = {}
    for w in writers:
        told.update(w.result(60))
    found = read_kafka("mixed", 0)
    same([at for at, _ in found], list(range(4 * N)), "positions")
    place = {value: at for at, (_, _, value) in found}
    same(len(place), 4 * N, "each once")
    same({v: place.get(v) for v in told}, told, "where they were told")
    for w in (b"pico", b"ds", b"kafka", b"kcat"):
        mine = [v for _, (_, _, v) in found if v.startswith(w + b":")]
        same(mine, [b"%s:%d" % (w, i) for i in range(N)])
    same([r["body"].encode() for _, r in read_json("mixed", 0)], [v for _, (_, _, v) in found], "over Pico")
    same(read_ds("mixed", 0), b"".join(v for _, (_, _, v) in found), "over Durable Streams")


# ------------------------------------------------------------------------ older than the listener

@test("Kafka is switched on later: streams and records that are older are there, and what it wrote stays when it is off again")
def _():
    late = Node(ds=True).start()
    s = Streams(late)
    same(late.http("PUT", "/old/pico", Content_Type="text/plain", Pico_Partitions=2).status, 201)
    same(late.http("POST", "/old/pico?partition=1", b"p", Pico_Key="k").status, 200)
    s.put("/old/ds", body=b"d")
    same(late.http("PUT", "/_groups/g/offsets", b'{"offsets":{"/old/ds":{"position":1,"metadata":"m"}}}').status, 204)
    same(late.stop(), 0)
    late.kafka = True
    late.start()
    same(json.loads(kcat("-L", "-J", port=late.kafka_port))["topics"].__len__(), 2)
    same(kcat("-C", "-t", "old.pico", "-p", "1", "-e", "-q", "-f", "%p %o %k %s", port=late.kafka_port), b"1 0 k p")
    same(kcat("-C", "-t", "old.ds", "-e", "-q", port=late.kafka_port), b"d\n")
    kcat("-P", "-t", "old.ds", "-p", "0", port=late.kafka_port, stdin=b"k\n")
    kcat("-P", "-t", "new", "-p", "0", port=late.kafka_port, stdin=b"n\n")
    same(kcat("-G", "g", "-c", "1", "-q", "-f", "%o %s", "old.ds", port=late.kafka_port), b"1 k", "behind what HTTP committed")
    late.kill_all()
    late.kafka = False
    late.start()
    same((late.http("GET", "/old/ds?format=raw").body, late.http("GET", "/new?format=raw").body, Streams(late).get("/old/ds").body), (b"dk", b"n", b"dk"))
    same(late.stop(), 0)


@test("everything reads the same after kill -9")
def _():
    before = [how("table", 0) for _, how, _ in READERS]
    node.kill_all()
    node.start()
    same([how("table", 0) == b for (_, how, _), b in zip(READERS, before)], [True] * len(READERS))
    same(node.stop(), 0, "exit code")


tap.run()
