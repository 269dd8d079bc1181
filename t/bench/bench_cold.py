# SPDX-License-Identifier: Apache-2.0
"""A log that is read from begin to end when nothing of it is in memory: one reader over HTTP after a restart, with the
kernel's cache of the objects dropped; beside GETs of 8 MiB of the same objects, two at a time. On files, and on an S3
whose every answer waits for BENCH_LATENCY_MS (20)."""
import glob, http.client, os, subprocess, sys, time

if __name__ != "__main__":
    import fake_s3
    from figures import ROUNDS, figure, median
    from node import Node
    import tap

MIB, PIECE = 1 << 20, 4 << 20
TOTAL = int(os.environ.get("BENCH_COLD_MIB", "384"))
LATENCY = float(os.environ.get("BENCH_LATENCY_MS", "20")) / 1000


def read_all(port, total):
    """MB/s of one connection that asks for the next piece when it has the last. Each record has 1 MiB."""
    c, n, seq, began = http.client.HTTPConnection("127.0.0.1", port, timeout=120), 0, 0, time.monotonic()
    while seq < total:
        c.request("GET", f"/cold?format=raw&bytes={PIECE}&seq={seq}")
        r = c.getresponse()
        body = r.read()
        assert r.status == 200 and len(body) >= MIB and len(body) % MIB == 0, (r.status, len(body))
        seq += len(body) >> 20
        n += len(body)
    return n / 1e6 / (time.monotonic() - began)


def fill(node):
    client, batch = node.client(), os.urandom(MIB)
    assert client("PUT", "/cold").status == 201
    for _ in range(TOTAL):
        assert client("POST", "/cold", batch).status == 200
    time.sleep(5)       # the packer comes by age, too


def options():
    return ("--wal-upload-threshold=128M", "--wal-upload-interval-ms=2000", "--block-cache-size=160M")


def forget(directory):
    for path in glob.glob(f"{directory}/data/objects/data/*/*/*"):
        fd = os.open(path, os.O_RDONLY)
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(fd)


def cold(node, total=None):
    """In a process of its own: a server in this one must not wait for a reader in it."""
    out = subprocess.run([sys.executable, os.path.abspath(__file__), str(node.port), str(total or TOTAL)], check=True,
                         capture_output=True, text=True).stdout
    return float(out)


class Store:
    """The store's own GETs, of all data objects as they are now."""

    def __init__(self, url, sizes):
        self.process = subprocess.Popen([os.path.join(tap.build, "t", "objstore-tool"), url.partition("@")[2]],
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert self.process.stdout.readline() == "open\n"
        self.sizes = sizes

    def gets(self):
        began = time.monotonic()
        for key, size in self.sizes:
            self.process.stdin.write(f"through {key} {size} {8 * MIB}\n")
            self.process.stdin.flush()
            line = self.process.stdout.readline()
            assert line == f"{key} ok\n", line
        return sum(size for _, size in self.sizes) / 1e6 / (time.monotonic() - began)

    def close(self):
        self.process.stdin.close()
        self.process.wait()


def restart(node):
    node.stop()
    node.start()
    time.sleep(2)       # what the start has to do in the background


def on_files():
    node = Node(*options()).start()
    fill(node)
    top = f"{node.dir}/data/objects"
    store = Store(node.storage(), [(os.path.relpath(p, top), os.path.getsize(p)) for p in glob.glob(f"{top}/data/*/*/*")])
    rounds = []
    for _ in range(ROUNDS):
        restart(node)
        forget(node.dir)
        base = store.gets()
        forget(node.dir)
        rounds.append((cold(node), base))
    show("files", rounds)
    store.close()
    node.stop()


def on_s3():
    s3 = fake_s3.FakeS3()
    os.environ.update(fake_s3.FakeS3.environment)
    node = Node(*options())
    node.storage = lambda: s3.url("cold")
    node.start()
    fill(node)
    sizes = [(k[len("cold/"):], len(s3.objects[k])) for k in s3.keys("cold/data/")]
    store, rounds = Store(node.storage(), sizes), []
    for _ in range(ROUNDS):
        s3.well()
        restart(node)
        s3.fault(method="GET", key="cold/data/", delay=LATENCY, times=None)
        base = store.gets()
        rounds.append((cold(node), base))
    s3.well()
    show(f"s3-{LATENCY * 1000:.0f}-ms", rounds)
    store.close()
    node.stop()


def show(name, rounds):
    figure(f"cold-replay-{name}-MBps", f"{0.8 * median(b for _, b in rounds):.0f}", f"{median(g for g, _ in rounds):.0f}",
           "the store's GETs of 8 MiB, 2 in flight", f"{median(g / b for g, b in rounds):.2f}")


def figures():
    on_files()
    on_s3()


if __name__ == "__main__":
    print(read_all(int(sys.argv[1]), int(sys.argv[2])))
