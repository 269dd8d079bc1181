#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""kill -9 of storaged, the workers and the supervisor at random moments under idempotent librdkafka producers on ten
partitions, a kcat with retries=0 and a producer over HTTP, while a proxy loses answers, so that batches are really sent
twice. Nothing acknowledged is lost, doubled or elsewhere than the answer said; nothing else is there twice; the order of
each producer is kept in each partition; a reader never saw what is not there at the end.

PICO_KILLS is the number of kills (10; 25 in `make chaos`), PICO_KILL_SEED replays their order and the lost answers (odd ones with two
Kafka workers)."""
import collections, http.client, os, random, re, struct, subprocess, threading, time

import kafka_proxy, kafka_wire, rdkafka, tap
from node import Client, Node

KILLS = int(os.environ.get("PICO_KILLS", "10"))
SEED = int(os.environ.get("PICO_KILL_SEED", "0")) or random.randrange(1, 1 << 30)
rng = random.Random(SEED)
PARTITIONS, TOPIC = 10, "kill"
ROLES = ["storaged", "worker-kafka", "supervisor", "storaged", "worker-http"]
proxy = kafka_proxy.Proxy()
WORKERS = 1 + SEED % 2
node = Node("--num-partitions", str(PARTITIONS), "--kafka-advertise", proxy.address, "--kafka-workers", str(WORKERS), kafka=True)
stop = threading.Event()


class Sender(threading.Thread):
    """acked is {value: (partition, offset or None)}; wrong is what must never be seen."""

    def __init__(self, name):
        super().__init__(daemon=True)
        self.name, self.acked, self.sent, self.unknown, self.wrong = name, {}, 0, 0, []
        self.rng = random.Random(f"{SEED} {name}")

    def run(self):
        try:
            self.work()
        except Exception as error:
            self.wrong.append(f"{self.name}: {error!r}")

    def take(self, value, partition, offset, error):
        if error is None and value not in self.acked and (offset is None or offset >= 0):
            self.acked[value] = (partition, offset)
        else:
            self.wrong.append(f"{value}: {partition} {offset} {error}")


class Idempotent(Sender):
    """librdkafka never gives up here: every record has to be acknowledged in the end."""

    def work(self):
        p = rdkafka.Producer(proxy.address, TOPIC, lambda v, *more: self.take(v.decode(), *more), enable_idempotence="true",
                             linger_ms=5, batch_num_messages=20, message_timeout_ms=0, request_timeout_ms=1500,
                             socket_timeout_ms=2000, reconnect_backoff_ms=10, reconnect_backoff_max_ms=100,
                             retry_backoff_ms=20)
        numbers = [0] * PARTITIONS
        while not stop.is_set():
            for _ in range(self.rng.randrange(1, 20) if p.waiting() < 1000 else 0):
                partition = self.rng.randrange(PARTITIONS)
                p.send(partition, f"{self.name}:{partition}:{numbers[partition]}".encode())
                numbers[partition] += 1
            p.poll(0.01)
        left = p.flush(120)
        if left or p.fatal_error():
            self.wrong.append(f"{left} records without an answer; {p.fatal_error()}")
        self.sent = sum(numbers)


class Kcat(Sender):
    """A kcat with retries=0 for each record: what it was not told of is stored at most once."""

    def work(self):
        for number in range(1 << 30):
            if stop.is_set():
                return
            value, partition = f"{self.name}:{number}", self.rng.randrange(PARTITIONS)
            r = subprocess.run(["kcat", "-b", proxy.address, "-P", "-t", TOPIC, "-p", str(partition), "-vv", "-X", "retries=0",
                                "-X", "message.timeout.ms=4000", "-X", "acks=1"], input=value, capture_output=True, text=True)
            told = re.findall(r"delivered to partition (\d+) \(offset (\d+)\)", r.stderr)
            if told:
                self.take(value, *map(int, told[0]), None)
            else:
                self.unknown += 1


class Http(Sender):
    """The same partitions through another door; repeats a number until it is acknowledged."""

    def work(self):
        client, numbers = Client(node.port), [0] * PARTITIONS
        while not stop.is_set():
            partition = self.rng.randrange(PARTITIONS)
            value = f"{self.name}:{partition}:{numbers[partition]}"
            while not stop.is_set():
                try:
                    a = client("POST", f"/{TOPIC}?partition={partition}", value.encode(), Pico_Producer_Id=self.name,
                               Pico_Producer_Epoch=0, Pico_Producer_Seq=numbers[partition])
                except (OSError, http.client.HTTPException):
                    time.sleep(0.05)
                    continue
                if a.status == 200:
                    start = a["Pico-Start-Seq"]         # a duplicate has none
                    self.take(value, partition, start and int(start), None)
                    numbers[partition] += 1
                    break
                if a.status != 503:
                    self.wrong.append(repr(a))
                    return
                time.sleep(0.02)
            time.sleep(0.005)


class Reader(threading.Thread):
    """A kcat that reads from the start all the time; its lines are partition, offset, value."""

    def run(self):
        self.lines = []
        self.kcat = subprocess.Popen(["kcat", "-b", proxy.address, "-C", "-t", TOPIC, "-o", "beginning", "-u", "-E", "-q", "-f",
                                      "%p %o %s\\n", "-X", "fetch.min.bytes=20000", "-X", "fetch.wait.max.ms=200", "-X",
                                      "reconnect.backoff.max.ms=200"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        for line in self.kcat.stdout:
            self.lines.append(line.decode().rstrip("\n"))


class LostAnswers(threading.Thread):
    """Sees to it that there is always a Produce to come whose answer will be lost."""

    def run(self):
        chance = random.Random(f"{SEED} answers")
        fates = [kafka_proxy.CUT] * 6 + [kafka_proxy.CUT_EARLY] * 6 + [kafka_proxy.SWALLOW]
        while not stop.is_set():
            if proxy.faults() == 0:
                proxy.lose(chance.randrange(2, 25), chance.choice(fates))
            time.sleep(0.002)


def read_partition(partition):
    """[(offset, value)] through HTTP."""
    rows, seq, client = [], 0, node.client()
    while True:
        a = client("GET", f"/{TOPIC}?partition={partition}&seq={seq}&bytes=4000000")
        tap.same(a.status, 200, "read")
        rows += [(r["seq"], r["body"]) for r in a.json()]
        seq = int(a["Pico-Next-Seq"])
        if a["Pico-Up-To-Date"] == "true":
            return rows


def read_all():
    return [read_partition(p) for p in range(PARTITIONS)]


idempotent = [Idempotent(f"i{i}") for i in range(2)]
kcats = [Kcat(f"k{i}") for i in range(2)]
https = [Http("h0")]
senders, reader = [*idempotent, *kcats, *https], Reader(daemon=True)
took = collections.defaultdict(list)
final = []


def progress():
    return sum(len(s.acked) for s in idempotent)


def wait_for_progress(more, what):
    before = progress()
    tap.until(lambda: progress() > before + more or any(s.wrong for s in senders), 90, what)


def kill(role):
    began = time.monotonic()
    if role == "supervisor":
        node.kill("supervisor")
        node.process.wait()
        node.spawn()
        tap.until(lambda: "ready" in node.lines or node.process.poll() is not None, 60, "ready again")
        assert node.process.poll() is None, node.log()[-1500:]
    else:
        old = node.kill(role)
        tap.until(lambda: old not in node.children().get(role, [old]), 60, f"a new {role}")
    wait_for_progress(0, f"answers after {role} died")
    took[role].append(time.monotonic() - began)


@tap.test(f"{KILLS} kills under load; seed {SEED}, Kafka workers {WORKERS}")
def kills():
    node.start()
    proxy.target = node.kafka_port
    tap.same(node.http("PUT", "/" + TOPIC, Pico_Partitions=PARTITIONS).status, 201, "create")
    for thread in (*senders, reader, LostAnswers(daemon=True)):
        thread.start()
    roles = (ROLES * KILLS)[:KILLS]
    rng.shuffle(roles)
    for role in roles:
        wait_for_progress(200, "the producers make progress")
        time.sleep(rng.uniform(0, 0.3))
        kill(role)
    stop.set()
    for s in senders:
        began = time.monotonic()
        s.join(150)
        assert not s.is_alive(), f"{s.name} does not end"
        tap.diag(f"{s.name} ended after {time.monotonic() - began:.2f} s")
    for role, seconds in took.items():
        tap.diag(f"{role}: {len(seconds)} kills, first answer after {min(seconds):.2f} to {max(seconds):.2f} s")
    tap.diag(f"librdkafka {rdkafka.Producer.version()}: {progress()} records; kcat {sum(len(k.acked) for k in kcats)} and "
             f"{sum(k.unknown for k in kcats)} unknown; HTTP {len(https[0].acked)}")


@tap.test("no client saw an answer that it must not see, and librdkafka got every record through")
def answers():
    tap.same([w for s in senders for w in s.wrong][:5], [], "wrong answers")
    tap.same([len(s.acked) for s in idempotent], [s.sent for s in idempotent], "acknowledged records")
    assert all(k.acked for k in kcats) and https[0].acked, "one of them got nothing through"


@tap.test("a batch that was sent again was answered with its first offset, and many were")
def sent_again():
    sent, again, unheard, bases = collections.Counter(), 0, 0, {}
    for e in proxy.of(kafka_proxy.PRODUCE):
        at = 8 + 2 + max(struct.unpack_from(">h", e.request, 8)[0], 0)         # behind the client's name
        request = kafka_wire.decode("ProduceRequest", e.version, e.request[at:])
        batches = {(p.index, b.producer_id, b.producer_epoch, b.sequence) for t in request.topic_data
                   for p in t.partition_data for b in kafka_wire.batches(p.records) if b.producer_id >= 0}
        again += sum(sent[b] > 0 for b in batches)
        sent.update(batches)
        unheard += e.fate is not None
        if e.response is None:
            continue
        response = kafka_wire.decode("ProduceResponse", e.version, e.response[4:])
        offsets = {p.index: p.base_offset for t in response.responses for p in t.partition_responses if p.error_code == 0}
        for b in batches:
            if b[0] in offsets:
                bases.setdefault(b, set()).add(offsets[b[0]])
    tap.diag(f"{len(sent)} batches of idempotent producers, {unheard} answers lost, {again} batches sent again")
    tap.same([(b, o) for b, o in bases.items() if len(o) > 1][:3], [], "batches with two offsets")
    assert again >= 5 * KILLS, f"only {again} were sent again: this shows nothing"


@tap.test("offsets are dense; nothing acknowledged is lost, doubled or elsewhere; nothing is there twice; order is kept")
def records():
    node.wait_ready()
    final.extend(read_all())
    place = {}
    for partition, rows in enumerate(final):
        tap.same([o for o, _ in rows], list(range(len(rows))), f"offsets of {partition}")
        for offset, value in rows:
            assert value not in place, f"{value} stands at {place[value]} and {partition, offset}"
            place[value] = (partition, offset)
    for s in senders:
        lost = [(v, at, place.get(v)) for v, at in s.acked.items()
                if place.get(v) != at and (at[1] is not None or v not in place or place[v][0] != at[0])]
        tap.same(lost[:5], [], f"{s.name}: acknowledged there, stands there")
    for s in [*idempotent, *https]:
        for partition, rows in enumerate(final):
            mine = [v for _, v in rows if v.startswith(s.name + ":")]
            tap.same(mine, [f"{s.name}:{partition}:{i}" for i in range(len(mine))], f"order of {s.name} in {partition}")
    for k in kcats:
        extra = sum(v.startswith(k.name + ":") for v in place) - len(k.acked)
        assert 0 <= extra <= k.unknown, f"{k.name}: {extra} beyond what was acknowledged, {k.unknown} unknown"


@tap.test("a kcat that read all the time saw these records and no others, each once")
def reader_saw():
    want = sorted(f"{p} {o} {v}" for p, rows in enumerate(final) for o, v in rows)
    tap.until(lambda: len(reader.lines) >= len(want), 60, "it has read all of them")
    reader.kcat.kill()
    reader.join()
    tap.same(sorted(reader.lines) == want, True, "what it read")


@tap.test("the same after kill -9 of everything; nothing died but what was killed")
def again():
    node.kill_all()
    node.start()
    tap.same(read_all() == final, True, "what is read")
    ended = [x for x in node.log().splitlines() if "bug:" in x or "ended, starting" in x and "signal=9" not in x]
    tap.same((ended, node.stop()), ([], 0), "deaths, exit code")


def cleanup():
    stop.set()
    proxy.close()
    if hasattr(reader, "kcat"):
        reader.kcat.kill()


tap.run(cleanup)
