# SPDX-License-Identifier: Apache-2.0
"""What many topics cost: BENCH_TOPICS of them (100,000), each with one partition and a name of 24 bytes. How fast they
are made, what each takes of storaged's own memory (segments that workers map are not counted; 10,000 logs may be open), how
long kill -9 takes to the first append, and one record into and out of each of them."""
import os, re, socket, threading, time

from figures import figure
from node import Node

TOPICS = int(os.environ.get("BENCH_TOPICS", "100000"))
CONNECTIONS, AHEAD = 8, 32
QUIET_S = 20


def own_memory(pid):
    """Bytes of anonymous memory: not the segments of arena and block cache."""
    with open(f"/proc/{pid}/status") as f:
        return int(re.search(r"RssAnon:\s+(\d+)", f.read())[1]) << 10


def run_some(port, requests, status, faults):
    """Sends them over one connection, AHEAD at a time; answers are counted by their status line."""
    with socket.create_connection(("127.0.0.1", port), 120) as s:
        for first in range(0, len(requests), AHEAD):
            batch = requests[first:first + AHEAD]
            s.sendall(b"".join(batch))
            got, good, bad = b"", 0, 0
            while good + bad < len(batch):
                piece = s.recv(1 << 18)
                if not piece:
                    faults.append("closed")
                    return
                got += piece
                good = got.count(b"HTTP/1.1 " + status)
                bad = got.count(b"HTTP/1.1 ") - good
            if bad > 0:
                faults.append(got[:300])
                return


def all_topics(port, make, status):
    """Requests a second of one for each topic, over several connections."""
    faults, threads, began = [], [], time.monotonic()
    for k in range(CONNECTIONS):
        requests = [make(i) for i in range(k, TOPICS, CONNECTIONS)]
        threads.append(threading.Thread(target=run_some, args=(port, requests, status, faults)))
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not faults, faults[0]
    return TOPICS / (time.monotonic() - began)


def name(i):
    return f"/topics/{i:016d}"


def put(i):
    return f"PUT {name(i)} HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n".encode()


def append(i):
    return f"POST {name(i)} HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\n0123456789".encode()


def read(i):
    return f"GET {name(i)}?seq=0 HTTP/1.1\r\nHost: x\r\n\r\n".encode()


def restart(node, what):
    """kill -9 of storaged; seconds to the first append that is acknowledged."""
    node.kill("storaged")
    began, client = time.monotonic(), node.client(300)
    while client("POST", name(TOPICS // 2), b"0123456789").status != 200:
        time.sleep(0.01)
    figure(f"restart-{what}-s", "2 at 100,000, 10 at 1,000,000", f"{time.monotonic() - began:.2f}")


def memory(node, what, base):
    """The least of some seconds: an export of the metadata stands in memory until it is stored, 150 bytes a topic."""
    own, pid, end = [], node.pid("storaged"), time.monotonic() + QUIET_S
    while time.monotonic() < end:
        own.append(own_memory(pid))
        time.sleep(0.2)
    own = min(own)
    figure(f"memory-a-topic-{what}-B", "400", f"{(own - base) / TOPICS:.0f}")


def figures():
    node = Node("--request-timeout-ms", "120000", "--start-timeout-ms", "600000", "--open-logs", "10000").start()
    base = own_memory(node.pid("storaged"))
    print("topics", TOPICS)
    figure("create-topics-per-s", "-", f"{all_topics(node.port, put, b'201'):.0f}")
    memory(node, "created", base)
    restart(node, "created")
    memory(node, "restarted", base)
    figure("append-one-to-each-per-s", "-", f"{all_topics(node.port, append, b'200'):.0f}")
    memory(node, "appended", base)
    restart(node, "appended")
    memory(node, "appended-restarted", base)
    figure("read-one-of-each-per-s", "-", f"{all_topics(node.port, read, b'200'):.0f}")
    memory(node, "read", base)
    node.stop()
