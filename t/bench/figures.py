# SPDX-License-Identifier: Apache-2.0
"""What the benches share: how a figure is printed, base lines, CPU of a process. A figure is the median of ROUNDS, each
with its base line beside it, because neighbours come and go."""
import mmap, os, re, statistics, subprocess, sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
import tap

SECONDS = float(os.environ.get("BENCH_SECONDS", "5"))
ROUNDS = int(os.environ.get("BENCH_ROUNDS", "3"))
bench = os.path.join(tap.build, "t/bench")
tick = os.sysconf("SC_CLK_TCK")
median = statistics.median


def figure(name, goal, got, base_name="-", ratio="-"):
    print(f"{name} goal {goal} got {got} (ratio to {base_name} in this run {ratio})", flush=True)


def run(*argv):
    return subprocess.run(argv, check=True, capture_output=True, text=True).stdout


def program(name, *argv):
    return run(os.path.join(bench, name), *map(str, argv))


def disk(directory, puts=500, *size):
    """{name: value} of bench-disk."""
    out = program("bench-disk", directory, puts, *size)
    return {m[1]: float(m[2]) for m in re.finditer(r"^(\S+) got ([\d.]+)", out, re.M)}


def sequential(directory):
    """MB/s of a file that is synced each MiB."""
    return disk(directory, 1)["sequential-fsync-MBps"]


def cpu(pid):
    """Seconds of user and system time so far."""
    with open(f"/proc/{pid}/stat") as f:
        fields = f.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / tick


class Used:
    """with Used(node, "storaged", ...) as u: ...; u.seconds is {role: CPU seconds}."""

    def __init__(self, node, *roles):
        self.pids = {r: node.pid(r) for r in roles}

    def __enter__(self):
        self.before = {r: cpu(p) for r, p in self.pids.items()}
        return self

    def __exit__(self, *_):
        self.seconds = {r: cpu(p) - self.before[r] for r, p in self.pids.items()}


class BareServer:
    """bench-net from memory, the base line of reads: with BareServer("serve", BYTES, PIECE, MEMORY) as port. Or another
    program that prints its port."""

    def __init__(self, *argv, program="bench-net"):
        self.argv = [os.path.join(bench, program), *map(str, argv)]

    def __enter__(self):
        self.process = subprocess.Popen(self.argv, stdout=subprocess.PIPE, text=True)
        return int(self.process.stdout.readline())

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()


def available():
    """Bytes of memory that nobody uses."""
    with open("/proc/meminfo") as f:
        return int(re.search(r"MemAvailable:\s+(\d+)", f.read())[1]) << 10


def touch_memory(gib=8):
    """Memory that a virtual machine gives out for the first time costs a hundred times what it costs later, and a node
    that runs for long has only the latter: so much is taken and given back before anything is measured."""
    size = min(gib << 30, available() // 2)
    page = bytes([1]) * (1 << 20)
    with mmap.mmap(-1, size, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS) as m:
        for at in range(0, size - len(page), len(page)):
            m[at:at + len(page)] = page
