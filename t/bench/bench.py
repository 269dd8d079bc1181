#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""make bench: figures of a node on this machine, each beside its base line in the same run. Prints
'NAME goal G got X (ratio to BASE in this run R)' and exits 0 whatever they are. BENCH_SECONDS a figure (5)."""
import http.client, os, re, statistics, subprocess, sys, tempfile, time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
import tap
from node import Node

SECONDS = float(os.environ.get("BENCH_SECONDS", "5"))
bench = os.path.join(tap.build, "t/bench")
tick = os.sysconf("SC_CLK_TCK")


def figure(name, goal, got, base_name, ratio):
    print(f"{name} goal {goal} got {got} (ratio to {base_name} in this run {ratio})", flush=True)


def run(*argv):
    return subprocess.run(argv, check=True, capture_output=True, text=True).stdout


def wrk(port, connections, path, script=None):
    """Requests a second; None when wrk is missing."""
    argv = ["wrk", "-t1", f"-c{connections}", f"-d{SECONDS:.0f}s"] + (["-s", script] if script else [])
    out = run(*argv, f"http://127.0.0.1:{port}{path}")
    assert "Non-2xx" not in out, out
    return float(re.search(r"Requests/sec:\s+([\d.]+)", out)[1])


def lua(text):
    f = tempfile.NamedTemporaryFile("w", suffix=".lua", delete=False)
    f.write(text)
    f.close()
    return f.name


def cpu(pid):
    with open(f"/proc/{pid}/stat") as f:
        fields = f.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / tick


def lone_appends(node):
    client = node.client()
    took = []
    end = time.monotonic() + SECONDS
    while time.monotonic() < end:
        began = time.monotonic()
        assert client("POST", "/lone", b"x" * 100).status == 200
        took.append((time.monotonic() - began) * 1000)
    took.sort()
    return took[len(took) // 2], took[int(len(took) * 0.99)]


def disk(directory):
    """p50, p99 in ms of one WAL object, by the bare loop of bench-disk."""
    out = run(os.path.join(bench, "bench-disk"), directory)
    print(out, end="")
    value = {m[1]: float(m[2]) for m in re.finditer(r"^(\S+) got ([\d.]+)", out, re.M)}
    return value


def main():
    node = Node().start()
    for name in ("/lone", "/small", "/big"):
        assert node.http("PUT", name).status == 201
    values = disk(node.dir)
    p50, p99 = lone_appends(node)
    base50 = next((v for k, v in values.items() if "loop" in k and "p50" in k), None)
    base99 = next((v for k, v in values.items() if "loop" in k and "p99" in k), None)
    if base50:
        figure("lone-append-p50-ms", f"{base50 + 1:.2f}", f"{p50:.2f}", "bench-disk p50", f"{p50 / base50:.2f}")
    if base99:
        figure("lone-append-p99-ms", f"{base99 + 1:.2f}", f"{p99:.2f}", "bench-disk p99", f"{p99 / base99:.2f}")

    options = lua('wrk.method = "OPTIONS"')
    post = lua('wrk.method = "POST"\nwrk.body = string.rep("x", 100)')
    for connections in (1, 64):
        base = wrk(node.port, connections, "/x", options)
        got = wrk(node.port, connections, "/small", post)
        figure(f"appends-100B-{connections}-connections-per-s", f"{0.2 * base:.0f}", f"{got:.0f}", "OPTIONS",
               f"{got / base:.3f}")

    client, batch = node.client(), b"x" * (1 << 20)
    total = 256
    roles = {"storaged": node.pid("storaged"), "worker-http": node.pid("worker-http")}
    before = {r: cpu(p) for r, p in roles.items()}
    began = time.monotonic()
    for _ in range(total):
        assert client("POST", "/big", batch).status == 200
    took = time.monotonic() - began
    used = {r: cpu(p) - before[r] for r, p in roles.items()}
    seq = values.get("sequential-fsync-MBps") or next((v for k, v in values.items() if "sequential" in k), None)
    rate = total * 1.048576 / took
    figure("ingest-1MiB-MBps", "-", f"{rate:.0f}", "sequential write", f"{rate / seq:.2f}" if seq else "-")
    for r in roles:
        figure(f"cpu-s-per-GiB-append-{r}", "-", f"{used[r] / (total / 1024):.2f}", "-", "-")

    server = subprocess.Popen([os.path.join(bench, "bench-net"), "serve", str(4 << 20), str(64 << 10)],
                              stdout=subprocess.PIPE, text=True)
    base_port = int(server.stdout.readline())
    base = float(run(os.path.join(bench, "bench-net"), "pull", str(base_port), str(SECONDS), "/"))
    server.kill()
    for kind, stream in (("1MiB-records", "/big"), ("100B-records", "/small")):
        targets = [f"{stream}?format=raw&bytes=4194304&seq={4 * i if stream == '/big' else 1000 * i}" for i in range(50)]
        last = int(node.http("HEAD", stream)["Pico-Next-Seq"])
        targets = [t for t in targets if int(t.rsplit("=", 1)[1]) < last]
        before = {r: cpu(p) for r, p in roles.items()}
        began = time.monotonic()
        got = float(run(os.path.join(bench, "bench-net"), "pull", str(node.port), str(SECONDS), *targets))
        gib = got * (time.monotonic() - began) / 1073.7
        used = {r: cpu(p) - before[r] for r, p in roles.items()}
        figure(f"catch-up-raw-{kind}-MBps", "-", f"{got:.0f}", "bare writev", f"{got / base:.3f}")
        for r in roles:
            figure(f"cpu-s-per-GiB-read-{kind}-{r}", "-", f"{used[r] / max(gib, 0.001):.2f}", "-", "-")
    node.stop()
    print(run(os.path.join(bench, "bench-kmsg")), end="")


main()
