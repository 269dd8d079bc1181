#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The object store on files when the system fails under it: errors injected into its system calls with strace, a
full and a read-only file system, kill -9 between link() and fsync; and the order of the calls themselves."""
import os, re, resource, shutil, signal, subprocess, sys, tempfile, time

import tap
from tap import Skip, same, test

# A mount namespace of our own: nothing stays mounted, however this ends, and it needs no root.
if "OBJSTORE_FAULTS_INSIDE" not in os.environ:
    os.environ["OBJSTORE_FAULTS_INSIDE"] = "1"
    for how in ("-m", "-Urm"):
        if shutil.which("unshare") and subprocess.run(["unshare", how, "true"], capture_output=True).returncode == 0:
            os.execvp("unshare", ["unshare", how, sys.executable, os.path.abspath(__file__)])

TOOL = os.path.join(tap.build, "t", "objstore-tool")
# A sanitized process under ptrace cannot look for leaks.
ENV = dict(os.environ, ASAN_OPTIONS=os.environ.get("ASAN_OPTIONS", "") + ":detect_leaks=0")
top = tempfile.mkdtemp(prefix="pico-objstore-")
mounts = []


def cleanup():
    for path in mounts:
        subprocess.run(["umount", path], check=False)
    shutil.rmtree(top, ignore_errors=True)


class Store:
    """t/objstore-tool on a directory, with or without strace before it."""

    def __init__(self, directory, *strace, preexec=None):
        self.log = None
        wrap = []
        if strace:
            if not shutil.which("strace"):
                raise Skip("no strace")
            self.log = directory + ".strace"
            wrap = ["strace", "-f", "-y", "-qq", "-s", "8", "-o", self.log, *strace, "--"]
        self.process = subprocess.Popen([*wrap, TOOL, f"file://{directory}"], stdin=subprocess.PIPE, text=True,
                                        stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=ENV, preexec_fn=preexec)
        first = self.process.stdout.readline()
        if first != "open\n":
            error = self.process.communicate()[1]
            if "ptrace" in error or "PTRACE" in error:
                raise Skip("strace may not trace here")
            raise AssertionError(f"did not open: {error}")

    def say(self, command, lines=1):
        self.process.stdin.write(command + "\n")
        self.process.stdin.flush()
        return [self.process.stdout.readline().rstrip("\n") for _ in range(lines)]

    def __call__(self, command):
        return self.say(command)[0]

    def end(self):
        out, error = self.process.communicate(timeout=30)
        return self.process.returncode, out, error

    def calls(self):
        """(name, text) of the finished system calls, in order of their end."""
        begun, found = {}, []
        for line in open(self.log):
            pid, text = line.split(None, 1)
            if m := re.match(r"(\w+)\((.*) <unfinished \.\.\.>", text):
                begun[pid] = m[2]
            elif m := re.match(r"<\.\.\. (\w+) resumed>(.*)", text):
                found.append((m[1], begun.pop(pid, "") + m[2]))
            elif m := re.match(r"(\w+)\((.*)", text):
                found.append((m[1], m[2]))
        return found


def directory(name):
    return os.path.join(top, name)


def size_of(path):
    try:
        return os.path.getsize(path)
    except FileNotFoundError:
        return None


def files(path):
    """All but the temporaries, still empty, that the store's two threads have for their next puts."""
    found = sorted(os.path.relpath(os.path.join(d, f), path) for d, _, names in os.walk(path) for f in names)
    sizes = {f: size_of(f"{path}/{f}") for f in found}
    ahead = [f for f in found if f.startswith(".tmp/") and sizes[f] == 0]
    assert len(ahead) <= 2, ahead
    return [f for f in found if sizes[f] is not None and f not in ahead]


def same_files(path, expected, what=""):
    """Soon: a temporary goes when its put is answered."""
    end = time.monotonic() + 10
    while files(path) != expected and time.monotonic() < end:
        time.sleep(0.01)
    same(files(path), expected, what)


@test("each put: write, fdatasync, link, fsync of its directory, unlink; new directories synced first")
def order():
    d = directory("order")
    s = Store(d, "-e", "trace=openat,fsync,fdatasync,linkat,mkdirat,unlinkat,write,writev")
    for i in range(4):
        same(s(f"put wal/1/{i} 100000"), f"wal/1/{i} ok")
    same(s.end()[0], 0)
    calls = s.calls()
    place = {text: i for i, text in enumerate(name + " " + text for name, text in calls)}

    def where(pattern, after=-1):
        found = [i for text, i in sorted(place.items(), key=lambda item: item[1])
                 if i > after and re.match(pattern, text)]
        assert found, f"no {pattern} after call {after}"
        return found[0]

    for name in ("wal", "wal/1"):
        parent, base = os.path.split(f"{d}/{name}")
        made = where(rf'mkdirat \d+<{parent}>, "{base}"')
        synced = [i for i, (n, text) in enumerate(calls) if n == "fsync" and f"<{parent}>" in text and i > made]
        assert synced and synced[0] < where(r"linkat .*"), f"{name} is not durable before its first object"
    opened = [text for name, text in calls if name == "openat" and "O_WRONLY" in text + "O_RDWR" and d in text]
    writing = [t for t in opened if re.search(r"O_WRONLY|O_RDWR|O_TRUNC", t)]
    assert 4 <= len(writing) <= 6, writing     # and one ahead for each thread
    assert all(f"{d}/.tmp>" in t and "O_CREAT|O_EXCL" in t for t in writing), writing
    end = -1
    for i in range(4):
        link = where(rf'linkat \d+<{d}/\.tmp>, "[0-9a-f.]+", \d+<{d}/wal/1>, "{i}", 0\) += 0')
        tmp = re.search(r'\.tmp>, "([0-9a-f.]+)"', calls[link][1])[1]
        data = [k for k, (n, t) in enumerate(calls) if n == "fdatasync" and f"/.tmp/{tmp}>" in t]
        wrote = [k for k, (n, t) in enumerate(calls) if n in ("write", "writev") and f"/.tmp/{tmp}>" in t]
        same(len(data), 1, f"fdatasyncs of {tmp}")
        assert end < wrote[-1] < data[0] < link
        entry = [k for k, (n, t) in enumerate(calls) if n == "fsync" and f"<{d}/wal/1>" in t and k > link]
        gone = [k for k, (n, t) in enumerate(calls) if n == "unlinkat" and f'"{tmp}"' in t]
        assert link < entry[0] < gone[0]
        end = entry[0]
    same_files(d, ["wal/1/0", "wal/1/1", "wal/1/2", "wal/1/3"])


@test("EIO from fdatasync: not applied, nothing linked, no file synced twice; then well again")
def fdatasync_error():
    d = directory("eio")
    s = Store(d, "-e", "trace=fdatasync,linkat", "-e", "inject=fdatasync:error=EIO:when=1")
    answers = []
    while not answers or answers[-1] != "w/a ok":
        assert len(answers) < 4, answers
        answers.append(s("put w/a 5000"))
        if answers[-1] != "w/a ok":
            same(answers[-1], f"w/a not-applied EIO {d}/w/a")
            same_files(d, [])
    assert len(answers) in (2, 3), answers          # once a thread
    same(s("get w/a"), "w/a ok 5000")
    same(s.end()[0], 0)
    synced = [re.search(r"<([^>]+)>", text)[1] for name, text in s.calls() if name == "fdatasync"]
    same(len(set(synced)), len(synced), "files synced twice")


@test("ENOSPC, EIO, EROFS, EACCES in the middle of a put: not applied with path and errno, then well again")
def call_errors():
    for i, (call, error) in enumerate((("writev", "ENOSPC"), ("writev", "EIO"), ("linkat", "ENOSPC"),
                                       ("linkat", "EROFS"), ("linkat", "EACCES"), ("mkdirat", "ENOSPC"),
                                       ("mkdirat", "EROFS"))):
        d = directory(f"call{i}")
        Store(d).say("put w/first 10")
        path = ["-P", f"{d}/w"] if call == "mkdirat" else []
        s = Store(d, "-e", f"trace={call}", *path, "-e", f"inject={call}:error={error}:when=1..2")
        failed = 0
        while (answer := s("put w/x/a 5000")) != "w/x/a ok":
            same(answer, f"w/x/a not-applied {error} {d}/w/x/a", call)
            same_files(d, ["w/first"], f"after {call} {error}")
            failed += 1
            assert failed <= 4
        assert failed > 0, f"{call} {error} was not injected"
        same(s("get w/x/a"), "w/x/a ok 5000")
        same(s.end()[0], 0)


@test("a directory that cannot be synced after link(): the process ends and says nothing of the put")
def directory_error():
    d = directory("die")
    Store(d).say("put w/first 10")
    s = Store(d, "-e", "trace=fsync", "-P", f"{d}/w", "-e", "inject=fsync:error=EIO")
    same(s("put w/a 10"), "")
    code, out, error = s.end()
    same((code, out), (1, ""))
    assert re.search(rf"cannot sync the directory of {d}/w/a: Input/output error.*exiting", error), error
    # What a later process finds is whole, or absent.
    s = Store(d)
    same(s("get w/a"), "w/a ok 10")
    same_files(d, ["w/a", "w/first"])
    s.end()


@test("killed between link() and fsync: who reads the object next syncs its directory first")
def killed():
    d = directory("killed")
    Store(d).say("put w/first 10")
    s = Store(d, "-e", "trace=fsync", "-P", f"{d}/w", "-e", "inject=fsync:error=EIO:signal=KILL")
    same(s("put w/a 10"), "")
    same(s.end()[1], "")
    assert "w/a" in files(d) and len(files(d)) == 3, files(d)       # with its temporary
    s = Store(d, "-e", "trace=fsync,openat")
    same(s("get w/a"), "w/a ok 10")
    same(s.end()[0], 0)
    calls = s.calls()
    opened = max(i for i, (n, t) in enumerate(calls) if n == "openat" and '"w/a"' in t)
    assert any(n == "fsync" and f"<{d}/w>" in t for n, t in calls[opened:]), calls[opened:]
    same_files(d, ["w/a", "w/first"])


@test("one fsync of the directory serves the puts and the gets that wait for it")
def batching():
    d = directory("batch")
    s = Store(d, "-e", "trace=fsync", "-P", f"{d}/w", "-e", "inject=fsync:delay_exit=100000")
    same(s("put w/first 10"), "w/first ok")
    answers = s.say("puts w/n 40 1000", 40)
    same(sorted(answers), [f"w/n{i:04d} ok" for i in range(40)])
    answers = s.say("gets w/n 40", 40)
    same(sorted(answers), [f"w/n{i:04d} ok 1000" for i in range(40)])
    same(s.end()[0], 0)
    n = sum(1 for name, text in s.calls() if name == "fsync")
    tap.diag(f"{n} fsyncs for 41 puts and 40 gets")
    assert 3 <= n <= 25, f"{n} fsyncs"


@test("a file over the size limit is refused, smaller ones go on")
def limit():
    d = directory("limit")
    s = Store(d, preexec=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (65536, 65536)))
    same(s("put w/big 65537"), f"w/big not-applied EFBIG {d}/w/big")
    same(s("put w/big 65536"), "w/big ok")
    same(s("get w/big"), "w/big ok 65536")
    same(s.end()[0], 0)
    same_files(d, ["w/big"])


def tmpfs(name, size):
    path = directory(name)
    os.mkdir(path)
    r = subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "none", path], capture_output=True, text=True)
    if r.returncode != 0:
        raise Skip(f"may not mount: {r.stderr.strip()}")
    mounts.append(path)
    return path


@test("full disk: not applied ENOSPC, reads go on, well again when there is room")
def full():
    d = tmpfs("full", "256k")
    s = Store(d)
    same(s("put w/a 100000"), "w/a ok")
    for _ in range(3):
        same(s("put w/b 200000"), f"w/b not-applied ENOSPC {d}/w/b")
    same_files(d, ["w/a"])
    same(s("get w/a"), "w/a ok 100000")
    same(s("del w/a"), "w/a ok")
    same(s("put w/b 200000"), "w/b ok")
    same(s.say("list w/", 2), ["+ w/b 200000", "w/ ok 1"])
    same(s.end()[0], 0)


@test("file system turned read-only: not applied EROFS, reads go on, well again afterwards")
def read_only():
    d = tmpfs("ro", "1m")
    s = Store(d)
    same(s("put w/a 1000"), "w/a ok")
    same(s.end()[0], 0)     # who has a file to write to keeps a file system from being turned by hand
    if subprocess.run(["mount", "-o", "remount,ro", d], capture_output=True).returncode != 0:
        raise Skip("may not remount")
    s = Store(d)
    same(s("put w/b 1000"), f"w/b not-applied EROFS {d}/w/b")
    same(s("put x/y 1000"), f"x/y not-applied EROFS {d}/x/y")
    same(s("del w/a"), f"w/a not-applied EROFS {d}/w/a")
    same(s("range w/a 10 20"), "w/a ok 20")
    subprocess.run(["mount", "-o", "remount,rw", d], check=True)
    same(s("put w/b 1000"), "w/b ok")
    same(s("put x/y 1000"), "x/y ok")
    same(s.end()[0], 0)


@test("killed at any moment: each name holds all bytes or is not there, what was answered is")
def kill_anywhere():
    d = directory("anywhere")
    for turn in range(8):
        s = Store(d)
        s.process.stdin.write(f"puts t{turn}/ 400 20000\n")
        s.process.stdin.flush()
        said = [s.process.stdout.readline() for _ in range(1 + 20 * turn)]
        s.process.send_signal(signal.SIGKILL)
        said += s.process.stdout.readlines()
        s.end()
        s = Store(d)
        stored = [f for f in files(d) if f.startswith(f"t{turn}/")]
        for line in said:
            if line.endswith(" ok\n"):
                assert line.split()[0] in stored, line
        for name in stored:
            same(s(f"get {name}"), f"{name} ok 20000")
        same(s.end()[0], 0)
        same([f for f in files(d) if f.startswith(".tmp")], [])


tap.run(cleanup)
