#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Real input through every codec: each paragraph of `apt-cache dumpavail` is a record, its key the package's name. What
kcat, `pico read` and curl read of the four partitions is the same to the byte and is the input, each record once and in
order; and what curl appends in binary batches is what kcat reads."""
import base64, hashlib, json, os, struct, subprocess, time

import kafka_wire, tap
from node import Node

CODECS = ["none", "gzip", "snappy", "lz4", "zstd"]
RECORDS_MIN, PARTITIONS, BATCH = 10000, 4, 1000
BINARY = "application/vnd.picomq.batch"
node = Node(kafka=True)
records = []            # (key, value) in order


def run(*argv, stdin=None, env=None):
    r = subprocess.run(argv, input=stdin, capture_output=True, timeout=300, env=dict(os.environ, **(env or {})))
    tap.same(r.returncode, 0, f"{argv}: {r.stderr[-600:]}")
    return r.stdout


def kcat(*args, stdin=None):
    return run("kcat", "-b", f"127.0.0.1:{node.kafka_port}", *args, stdin=stdin)


def by_kcat(topic):
    """Of each partition [(offset, key, value)]."""
    out = kcat("-C", "-t", topic, "-o", "beginning", "-e", "-q", "-f", "%p %o %K %S\\n%k%s")
    parts, at = [[] for _ in range(PARTITIONS)], 0
    while at < len(out):
        line = out.index(b"\n", at)
        partition, offset, n_key, n_value = map(int, out[at:line].split())
        middle, at = line + 1 + n_key, line + 1 + n_key + n_value
        parts[partition].append((offset, out[line + 1:middle], out[middle:at]))
    return parts


def by_pico(topic):
    pico = os.path.join(tap.build, "pico")

    def read(partition):
        out = run(pico, "--json", "read", topic, "--partition", str(partition), env={"PICO_ENDPOINT": node.url})
        rows = [json.loads(line) for line in out.splitlines()]
        text = lambda r, name: base64.b64decode(r[name + "_b64"]) if name + "_b64" in r else r[name].encode()
        return [(r["seq"], text(r, "key"), text(r, "body")) for r in rows]
    return [read(p) for p in range(PARTITIONS)]


def parse_binary(data):
    """[(offset, key, value)] of one answer in binary."""
    at, out = 5, []
    for _ in range(struct.unpack_from(">I", data, 1)[0]):
        offset, _, n_key = struct.unpack_from(">Qqi", data, at)
        key, at = data[at + 20:at + 20 + n_key], at + 20 + n_key
        n_headers, n_value = struct.unpack_from(">II", data, at)
        tap.same(n_headers, 0, "headers")
        out.append((offset, key, data[at + 8:at + 8 + n_value]))
        at += 8 + n_value
    tap.same(at, len(data), "bytes of a binary answer")
    return out


def by_curl(topic):
    def read(partition):
        rows = []
        while True:
            url = f"{node.url}/{topic}?partition={partition}&seq={len(rows)}&bytes=4000000&format=binary"
            page = parse_binary(run("curl", "-sSf", url))
            if not page:
                return rows
            rows += page
    return [read(p) for p in range(PARTITIONS)]


def digest(parts):
    """The number of records and SHA-256 of each (partition, offset, key, value) in order."""
    h, n = hashlib.sha256(), 0
    for partition, rows in enumerate(parts):
        for offset, key, value in rows:
            h.update(struct.pack(">IQII", partition, offset, len(key), len(value)) + key + value)
        n += len(rows)
    return n, h.hexdigest()


def check_complete(parts):
    """Dense offsets; and each partition is what of the input has its keys, in the input's order."""
    home, want = {}, [[] for _ in parts]
    for partition, rows in enumerate(parts):
        tap.same([r[0] for r in rows] == list(range(len(rows))), True, f"offsets of {partition} are dense")
        home.update((r[1], partition) for r in rows)
    tap.same([k for k, _ in records if k not in home][:3], [], "keys of which there is no record")
    for key, value in records:
        want[home[key]].append((key, value))
    for partition, rows in enumerate(parts):
        tap.same(len(rows), len(want[partition]), f"records of {partition}")
        tap.same([r[1:] for r in rows] == want[partition], True, f"partition {partition} is the input")
    assert all(parts), "a partition is empty"


def create(topic):
    tap.same(node.http("PUT", "/" + topic, Pico_Partitions=PARTITIONS).status, 201, topic)


@tap.test("apt-cache dumpavail gives at least 10,000 paragraphs")
def _():
    for paragraph in run("apt-cache", "dumpavail").strip(b"\n").split(b"\n\n"):
        name = paragraph.split(b"Package: ", 1)[1].split(b"\n", 1)[0]
        assert name and b"\t" not in name, paragraph
        records.append((name, paragraph))
    tap.diag(f"{len(records)} paragraphs, {sum(len(v) for _, v in records)} bytes")
    assert len(records) >= RECORDS_MIN, f"{len(records)} paragraphs: apt-get update makes the lists"


def codec_test(codec):
    def test():
        began = time.monotonic()
        assert len(records) >= RECORDS_MIN, "no input"
        create(codec)
        kcat("-P", "-t", codec, "-z", codec, "-K", "\\t", "-D", "\\n\\n", stdin=b"\n\n".join(k + b"\t" + v for k, v in records))
        produced = time.monotonic()
        parts = by_kcat(codec)
        check_complete(parts)
        want = digest(parts)
        tap.same(digest(by_pico(codec)), want, "pico read --json")
        tap.same(digest(by_curl(codec)), want, "curl, binary")
        with kafka_wire.Client(node.kafka_port) as c:
            for p in range(PARTITIONS):
                first = kafka_wire.batches(c.fetch(codec, p, 0, max_bytes=1).records)[0]
                tap.same(first.attributes & 7, CODECS.index(codec), f"the codec of what is stored in {p}")
        tap.diag(f"{want[0]} records, SHA-256 {want[1]}; produced in {produced - began:.1f} s, "
                 f"read three times in {time.monotonic() - produced:.1f} s")
    return test


for codec in CODECS:
    tap.test(f"{codec}: kcat, pico read and curl read the input, each record once, in order")(codec_test(codec))


@tap.test("the other way: appended by curl in binary batches, read by kcat")
def _():
    assert len(records) >= RECORDS_MIN, "no input"
    create("other")
    want = [[] for _ in range(PARTITIONS)]
    for i in range(0, len(records), BATCH):
        some, rows = records[i:i + BATCH], want[i // BATCH % PARTITIONS]
        body = b"\1" + struct.pack(">I", len(some))
        body += b"".join(struct.pack(">i", len(k)) + k + struct.pack(">II", 0, len(v)) + v for k, v in some)
        head = run("curl", "-sSf", "-o", "/dev/null", "-w", "%header{pico-start-seq}", "-H", "Content-Type: " + BINARY,
                   "--data-binary", "@-", f"{node.url}/other?partition={i // BATCH % PARTITIONS}", stdin=body)
        tap.same(int(head), len(rows), "Pico-Start-Seq")
        rows += [(len(rows) + n, k, v) for n, (k, v) in enumerate(some)]
    tap.same(digest(by_kcat("other")), digest(want), "kcat")


@tap.test("the node stops clean, and nothing died")
def _():
    tap.same((node.stop(), node.log().count("bug:"), node.log().count("ended, starting")), (0, 0, 0), "exit code, deaths")


node.start()
tap.run()
