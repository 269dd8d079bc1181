# SPDX-License-Identifier: Apache-2.0
"""Figures of storaged over its store, file:// or what PICO_TEST_STORE names (an s3:// URL), each beside what the bare store
gives in the same run: a lone append, ingest with packing and merging on, cold replay, puts at the bound of batchInterval,
appends while it packs, and what packing and recovery cost. BENCH_INGEST seconds of ingest (60)."""
import collections, json, os, re, statistics, threading, time

import tap
from figures import ROUNDS, SECONDS, Used, available, figure, median, program, run, sequential
from node import Node, STORE

INGEST = int(os.environ.get("BENCH_INGEST", "60"))
ON_FILES = STORE in ("", "file")
GIB = 1 << 30


def metrics(node):
    """{name: sum over all processes}"""
    values = collections.Counter()
    for m in re.finditer(r"^(pico_\w+)(?:\{[^}]*\})? ([\d.e+]+)$", node.admin("/metrics").body.decode(), re.M):
        values[m[1]] += float(m[2])
    return values


def pico_bench(node, *args, protocol="kafka"):
    where = ["--bootstrap", f"127.0.0.1:{node.kafka_port}"] if protocol == "kafka" else []
    return json.loads(run(os.path.join(tap.build, "pico"), "--endpoint", node.url, "bench", "--protocol", protocol,
                          "--output", "json", *where, *map(str, args)))


def bare_store(node, puts=200, size=200, large=0):
    """{name: value} of bench-store below the node's own place."""
    out = program("bench-store", node.storage().replace("?", "/base?", 1) if "?" in node.storage()
                  else node.storage() + "-base", puts, size, large)
    return {m[1]: float(m[2]) for m in re.finditer(r"^(\S+) got ([\d.]+)", out, re.M)}


def peak_memory(node):
    """Bytes, segments included."""
    with open(f"/proc/{node.pid('storaged')}/status") as f:
        return int(re.search(r"VmHWM:\s+(\d+)", f.read())[1]) << 10


def lone_append():
    node = Node().start()
    client = node.client()
    assert client("PUT", "/lone").status == 201
    rounds = []
    for _ in range(ROUNDS):
        base, took = bare_store(node), []
        end = time.monotonic() + min(SECONDS, 3)
        while time.monotonic() < end:
            began = time.monotonic()
            assert client("POST", "/lone", b"x" * 100).status == 200
            took.append((time.monotonic() - began) * 1000)
        rounds.append((statistics.median(took), base["put-p50-ms"]))
    got, base = median(g for g, _ in rounds), median(b for _, b in rounds)
    figure("engine-lone-append-p50-ms", f"{base + 1:.2f}", f"{got:.2f}", "one put of the store",
           f"{median(g / b for g, b in rounds):.2f}")
    node.stop()


def ingest():
    """16 partitions as fast as it goes; then all of it is read."""
    arena = min(GIB, available() // 8)
    node = Node(f"--wal-cache-size={arena}", f"--wal-upload-threshold={arena // 8}", "--gc-delay-ms=5000",
                "--wal-upload-interval-ms=5000", kafka=True).start()
    store = bare_store(node, 50, 200, 32)
    base = sequential(node.dir) if ON_FILES else store["put-MBps"]
    before = metrics(node)
    with Used(node, "storaged") as used:
        w = pico_bench(node, "-d", INGEST, "-n", 256, "-w", 64, "--partitions", 16, "--connections", 4, "--no-read",
                       "--keep")["write"]
    after = metrics(node)
    grown = {k: after[k] - before[k] for k in after}
    acked = grown["pico_append_bytes_total"]
    rate = w["mib_per_sec"] * 1.048576
    figure(f"ingest-16-partitions-{INGEST}s-MBps", f"{0.4 * base:.0f}", f"{rate:.0f}", "sequential write" if ON_FILES
           else "puts of 8 MiB", f"{rate / base:.2f}")
    written = grown["pico_wal_put_bytes_total"] + grown["pico_pack_put_bytes_total"]
    figure("bytes-written-per-byte-acked", "3.2", f"{written / acked:.2f}")
    figure("packs-and-merges", "-", f"{grown['pico_packs_total']:.0f} and {grown['pico_merges_total']:.0f}")
    figure("cpu-s-per-GiB-ingest-storaged", "-", f"{used.seconds['storaged'] / (acked / GIB):.2f}")
    figure("peak-memory-MiB-ingest", "-", f"{peak_memory(node) / (1 << 20):.0f}", "arena",
           f"{peak_memory(node) / arena:.2f}")
    replay(node, store)
    node.stop()


def recovery():
    """A quarter of a GiB that nobody packed, read back after kill -9."""
    node = Node("--wal-cache-size=1G", "--wal-upload-threshold=700M", kafka=True).start()
    pico_bench(node, "-d", 4, "-n", 256, "-w", 16, "--partitions", 16, "-t", 64, "--no-read", "--keep")
    unpacked = metrics(node)["pico_arena_unpacked_bytes"]
    node.kill("storaged")
    node.wait_ready(300)
    ms = int(re.findall(r"storaged serving node=\d+ ms=(\d+)", node.log())[-1])
    figure("recovery-s-per-GiB", "-", f"{ms / 1000 / (unpacked / GIB):.2f}")
    figure("peak-memory-MiB-recovery", "-", f"{peak_memory(node) / (1 << 20):.0f}", "what was read back",
           f"{peak_memory(node) / unpacked:.2f}")
    node.stop()


def merges_rest(node):
    """Nothing is merged any more: no object was committed for three seconds."""
    last = None
    while last != (last := metrics(node)["pico_merges_total"]):
        time.sleep(3)


def replay(node, store):
    """All of it from data objects, through HTTP, each partition from its start, by one client."""
    tap.until(lambda: metrics(node)["pico_arena_unpacked_bytes"] == 0, 120, "everything is packed")
    node.kill("storaged")
    node.wait_ready(300)
    merges_rest(node)
    stream = node.http("GET", "/?prefix=/bench.").json()["streams"][0]["name"]
    got, began = 0, time.monotonic()
    before = metrics(node)["pico_store_get_bytes_total"]
    client = node.client()
    for partition in range(16):
        seq = 0
        while got < 2 * GIB:
            a = client("GET", f"{stream}?partition={partition}&format=raw&bytes=4194304&seq={seq}")
            assert a.status == 200, a
            following = int(a["Pico-Next-Seq"])
            got += len(a.body)
            if following == seq:
                break
            seq = following
    seconds = time.monotonic() - began
    rate = got / 1e6 / seconds
    figure("cold-replay-MBps", f"{0.8 * store['get-MBps']:.0f}", f"{rate:.0f}", "gets of 8 MiB",
           f"{rate / store['get-MBps']:.2f}")
    fetched = metrics(node)["pico_store_get_bytes_total"] - before
    figure("replay-bytes-fetched-per-byte-read", "-", f"{fetched / got:.2f}")


def puts_at_the_bound():
    """PUT tokens come one a batchInterval: more producers make objects larger and not more."""
    for producers in (1, 10, 1000):
        storage = Node().storage()
        node = Node(f"--wal={storage.replace('-2@', '-3@')}{'&' if '?' in storage else '?'}batchInterval=100").start()
        before = metrics(node)["pico_wal_puts_total"]
        began = time.monotonic()
        w = pico_bench(node, "-d", 5, "-b", 100, "-w", producers, "--connections", min(producers, 200), "--no-read",
                       protocol="pico")["write"]
        rate = (metrics(node)["pico_wal_puts_total"] - before) / (time.monotonic() - began)
        figure(f"wal-puts-per-s-{producers}-producers", "10 + saved", f"{rate:.1f}", "1 / batchInterval", f"{rate / 10:.2f}")
        figure(f"records-per-s-{producers}-producers", "-", f"{w['records_per_sec']:.0f}")
        node.stop()


def lone_p99(node, seconds):
    client, took = node.client(), []
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        began = time.monotonic()
        assert client("POST", "/probe", b"x" * 100).status == 200
        took.append((time.monotonic() - began) * 1000)
    took.sort()
    return took[len(took) * 99 // 100]


def appends_while_packing():
    """The same load of 20 MiB/s with the packer kept off and kept busy; a probe beside it."""
    p99 = {}
    for name, options in (("off", ["--wal-upload-interval-ms=3600000"]),
                          ("on", ["--wal-upload-threshold=4M", "--wal-upload-interval-ms=200", "--gc-delay-ms=1000"])):
        node = Node("--wal-cache-size=1G", *options, kafka=True).start()
        assert node.http("PUT", "/probe").status == 201
        load = threading.Thread(target=pico_bench, args=(node, "-d", 10, "-n", 64, "-w", 8, "--partitions", 8, "-t", 20,
                                                         "--no-read"))
        load.start()
        time.sleep(1)           # past the first appends
        p99[name] = lone_p99(node, 8)
        load.join()
        if name == "on":
            m = metrics(node)
            figure("packs-and-merges-beside-appends", "-", f"{m['pico_packs_total']:.0f} and {m['pico_merges_total']:.0f}")
        node.stop()
    figure("append-p99-ms-while-packing", f"{2 * p99['off']:.2f}", f"{p99['on']:.2f}", "the packer off",
           f"{p99['on'] / p99['off']:.2f}")


def figures():
    lone_append()
    ingest()
    recovery()
    puts_at_the_bound()
    appends_while_packing()
