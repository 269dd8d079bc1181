# SPDX-License-Identifier: Apache-2.0
"""The Kafka clients of t/clients as tests see them: what runs each, what each of them lacks, and the records that they
are given. t/clients/install has put them into $PICO_CLIENTS_DIR; one that is not there says why.

PICO_CLIENTS chooses: names, or `all`; those that are quick by default."""
import collections, os, random, signal, subprocess, threading

import kafka_form, tap

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
PARTITIONS = 4
RECORDS = 40                            # of one recipe()
DIRECTORY = os.environ.get("PICO_CLIENTS_DIR") or os.path.join(tap.src, "build", "clients")
HERE = os.path.join(tap.src, "t", "clients")
DEBIAN_PYTHON = "/usr/bin/python3"

# What a client may be unable to do.
IDEMPOTENCE, TIMESTAMPS = "idempotence", "timestamps of one's own"
NO_KEY_NO_VALUE, NULL_HEADERS = "records without key and value", "null headers"
NULL_AS_EMPTY, EMPTY_HEADERS = "a null header told from an empty one", "empty headers"
FRAMED_SNAPPY = "snappy in the frames of Java's library"
ADMIN, CONFIGS = "administration", "configs described and altered"

Client = collections.namedtuple("Client", "name argv lacks cannot")     # lacks: {codec: why}


def _client(name, *argv, lacks=(), cannot=()):
    fill = {"here": HERE, "dir": os.path.join(DIRECTORY, name), "node": os.path.join(DIRECTORY, "node-22", "package", "bin", "node")}
    return Client(name, [a.format(**fill) for a in argv], dict(lacks), frozenset(cannot))


def _java(name):
    return _client(name, "java", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-cp", "{dir}:{dir}/lib/*", "Client")


QUICK = ("kafka-python", "confluent-kafka", "franz-go", "kcat")
# kcat is the last: its records have the time of today, those of the others rise from recipe to recipe before it.
ALL = [
    _client("kafka-python", DEBIAN_PYTHON, "{here}/kafka_python.py",
            cannot=(IDEMPOTENCE, NO_KEY_NO_VALUE, NULL_HEADERS)),
    _client("kafka-python-3", "{dir}/venv/bin/python", "{here}/kafka_python.py",
            cannot=(NO_KEY_NO_VALUE, NULL_HEADERS)),
    _client("confluent-kafka", "{dir}/venv/bin/python", "{here}/confluent.py"),
    _client("franz-go", "{dir}/client"),
    _java("java-3.9"),
    _java("java-4"),
    _client("kafkajs", "{node}", "{here}/js/kafkajs.js", cannot=(NULL_HEADERS,)),
    _client("platformatic", "{node}", "{here}/js/platformatic.js", cannot=(FRAMED_SNAPPY,)),
    _client("confluent-javascript", "{node}", "{here}/js/confluent.js", cannot=(CONFIGS, NULL_HEADERS, EMPTY_HEADERS, NULL_AS_EMPTY)),
    _client("kcat", DEBIAN_PYTHON, "{here}/kcat.py", cannot=(TIMESTAMPS, ADMIN)),
]


# Whose snappy comes in those frames.
FRAMES = ("kafka-python", "kafka-python-3", "java-3.9", "java-4")


def _read(client, name):
    try:
        with open(os.path.join(DIRECTORY, client.name, name)) as f:
            return f.read().strip()
    except FileNotFoundError:
        return None


def title(client):
    """Name, version and codecs; what it lacks stands there, too."""
    has = " ".join(c for c in CODECS if c not in client.lacks)
    lacks = "".join(f"; no {codec}: {why}" for codec, why in client.lacks.items())
    return f"{client.name} {(_read(client, 'ready') or '?').split()[0]}: {has}{lacks}"


def missing(client):
    """None, or why this client is not here."""
    if _read(client, "ready"):
        return None
    return _read(client, "why") or "t/clients/install has not run"


def chosen():
    """The clients of this run; those that are missing stand as skips, by name."""
    wanted = os.environ.get("PICO_CLIENTS", "").split() or list(QUICK)
    clients = [c for c in ALL if wanted == ["all"] or c.name in wanted]
    for c in clients:
        if why := missing(c):
            tap.skip(c.name, why)
    return [c for c in clients if not missing(c)]


def _environment(client):
    env = dict(os.environ, NODE_PATH=os.path.join(DIRECTORY, client.name, "node_modules"))
    env.pop("PYTHONPATH", None)
    return env


def start(client, *args):
    """Begins a program; its standard input is empty."""
    return subprocess.Popen([*client.argv, *map(str, args)], env=_environment(client), stdin=subprocess.DEVNULL,
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def output(client, process, seconds=60):
    """What it printed, when it ends well within the time."""
    try:
        out, err = process.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        process.kill()
        out, err = process.communicate()
        raise AssertionError(f"{client.name}: not within {seconds} s; {len(out.splitlines())} lines\n"
                             f"{err.decode()[-2000:]}")
    assert process.returncode == 0, f"{client.name} ended with {process.returncode}: {err.decode()[-2000:]}"
    return out


def finish(client, process, seconds=60):
    """Its records, likewise."""
    return [kafka_form.from_line(line) for line in output(client, process, seconds).decode().splitlines()]


def produce(client, bootstrap, topic, codec, records, seconds=60):
    lines = "".join(kafka_form.to_line(r) + "\n" for r in records).encode()
    r = subprocess.run([*client.argv, "produce", bootstrap, topic, codec], env=_environment(client), input=lines,
                       capture_output=True, timeout=seconds)
    assert r.returncode == 0, f"{client.name} {codec} ended with {r.returncode}: {r.stderr.decode()[-2000:]}"


class Member:
    """A member of a group: what it was assigned last, and the records that it has got."""
    alive = []

    def __init__(self, client, bootstrap, topic, group, *instance):
        Member.alive.append(self)
        self.client, self.assigned, self.records = client, None, []
        self.process = start(client, "group", bootstrap, topic, group, *instance)
        self.errors = b""
        self.threads = [threading.Thread(target=t, daemon=True) for t in (self._read, self._read_errors)]
        for t in self.threads:
            t.start()

    def _read(self):
        for line in self.process.stdout:
            line = line.decode()
            if line.startswith("="):
                self.assigned = [int(p) for p in line[1:].split()]
            else:
                self.records.append(kafka_form.from_line(line))

    def _read_errors(self):
        self.errors = self.process.stderr.read()

    def end(self, sig=signal.SIGTERM, seconds=30):
        """Leaves the group, unless it is killed."""
        Member.alive.remove(self)
        self.process.send_signal(sig)
        code = self.process.wait(seconds)
        for t in self.threads:
            t.join(seconds)
        assert sig != signal.SIGTERM or code == 0, f"{self.client.name} ended with {code}: {self.errors.decode()[-2000:]}"


def no_members():
    """Those that a failed test has left."""
    for m in list(Member.alive):
        m.end(signal.SIGKILL)


def consume(client, bootstrap, topic, where, seconds=60):
    """What stands in a topic from `start` or from a timestamp on."""
    return finish(client, start(client, "consume", bootstrap, topic, where), seconds)


def as_read(client, record):
    """The record as this client shows it."""
    if NULL_AS_EMPTY not in client.cannot:
        return record
    return record._replace(headers=tuple((name, value or b"") for name, value in record.headers))


# The order of timestamps in a partition; a search by time meets the first that is not earlier, whatever follows.
JUMBLED = (0, 3, 1, 2, 4, 9, 5, 7, 6, 8)


def _value(i, seed):
    if i == 17:
        return b"the same again " * 1500
    if i == 30:
        return bytes(random.Random(seed).choices(range(3, 256), k=3000))    # 1 and 2 part kcat's records
    return b"value %d of %d" % (i, seed)


def headers_of(client):
    null = () if NULL_HEADERS in client.cannot else (("null", None),)
    empty = () if EMPTY_HEADERS in client.cannot else (("empty", b""),)
    return (*empty, ("twice", b"1"), ("twice", b"2"), *null)


def recipe(client, seed, base_time):
    """RECORDS records over PARTITIONS partitions: null keys, null, empty, long and binary values, headers."""
    rows = []
    for i in range(RECORDS):
        key = None if i % 5 == 3 else b"\xff\0key" if i % 5 == 4 else b"key-%d" % i
        value = _value(i, seed)
        if i % 7 == 4 and (key or NO_KEY_NO_VALUE not in client.cannot):
            value = None
        elif i % 7 == 5 and key:
            value = b""
        headers = (("seed", b"%d" % seed), *headers_of(client)) if i >= 12 else ()
        timestamp = None if TIMESTAMPS in client.cannot else base_time + JUMBLED[i // PARTITIONS] * 10
        rows.append(kafka_form.Record(i % PARTITIONS, None, timestamp, key, value, headers))
    return rows
