#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Every start that is refused: one line on stderr that names the option and the cause, nothing on stdout, the exit code
that doc says, and nothing left behind. And what only prints: --help, --check-config, --show-config."""
import os, re, socket, subprocess, time

import node, tap
from probed import Probed, scratch
from tap import same, test, until

taken = socket.create_server(("127.0.0.1", 0))
TAKEN = taken.getsockname()[1]


def refused(code, pattern, *options, do=None, env=None, seconds=30, left=False):
    n = Probed(*options, do=do, env=env)
    got, lines, log = n.run(seconds)
    same((got, lines), (code, []), f"{options}: exit code, stdout; stderr was: {log}")
    wanted = [l for l in log.splitlines() if " info " not in l]
    same(len(wanted), 1, f"{options}: one line: {log}")
    assert re.search(pattern, wanted[0]), f"{options}: {wanted[0]!r} does not match {pattern!r}"
    until(lambda: not n.children(), 2, "no child is left")
    if left:
        same([f for f in os.listdir(n.data) if f in ("pid", "storaged.sock")], [], "left in the data directory")
    else:
        same([f for f in os.listdir(n.dir) if f not in ("libexec", "stderr.log")], [], f"{options}: left behind")
    return n


@test("options: unknown, malformed, out of range, renamed: exit 2")
def options():
    refused(2, r"^pico serve: --lisen: there is no such option; did you mean --listen\?$", "--lisen=127.0.0.1:1")
    refused(2, r"^pico serve: --node-id: '0' is not within 1\.\.65535$", "--node-id=0")
    refused(2, r"^pico serve: --wal-cache-size: '1X' is not a size", "--wal-cache-size", "1X")
    refused(2, r"^pico serve: --long-poll-timeout-sec is --long-poll-timeout-ms now", "--long-poll-timeout-sec=5")
    refused(2, r"^pico serve: --routing needs a value$", "--routing")
    refused(2, r"^pico serve: 'node2': options begin with --$", "node2")
    refused(2, r"^pico serve: --max-inflight: 'many' is not a number$", env={"PICO_MAX_INFLIGHT": "many"})
    refused(2, r"^pico serve: --config: cannot read /nonexistent/x: No such file or directory$", "--config=/nonexistent/x")
    refused(2, r"^pico serve: --meta-url, --storage, --wal: sqlite::memory: and mem:// go only together$", "--wal=-3@mem://x")


@test("addresses: in use, not an address, unknown name, beyond loopback, wildcard: exit 1")
def addresses():
    began = time.monotonic()
    refused(1, rf" error supervisor --listen: cannot listen on 127\.0\.0\.1:{TAKEN}: Address already in use$",
            f"--listen=127.0.0.1:{TAKEN}")
    assert time.monotonic() - began < 2, "refused at once"
    refused(1, rf"--admin-listen: cannot listen on 127\.0\.0\.1:{TAKEN}: Address already in use$",
            f"--admin-listen=127.0.0.1:{TAKEN}")
    refused(1, r"--listen: 'here' is no address; give host:port, \[v6\]:port or :port$", "--listen=here")
    refused(1, r"--listen: cannot resolve 'no-such-host\.invalid': ", "--listen=no-such-host.invalid:1")
    refused(1, r"--listen: cannot listen on 192\.0\.2\.1:0: Cannot assign requested address$", "--listen=192.0.2.1:0",
            "--insecure-allow-remote")
    refused(1, r"--listen: 192\.0\.2\.1:80 is reachable from other machines.*--insecure-allow-remote", "--listen=192.0.2.1:80")
    refused(1, r"--admin-listen: :9090 is reachable from other machines", "--admin-listen=:9090")
    refused(1, r"--listen: :80 is every address of this machine; say with --http-address which one", "--listen=:80",
            "--insecure-allow-remote")
    refused(1, r"--auth required: authentication is not built yet", "--auth=required")
    refused(1, r"--user: this node does not change its user yet", "--user=nobody")
    refused(1, r"--worker-user: this node does not change its user yet", "--worker-user=nobody")


@test("directories: a file in the way, a newer format, no data directory: exit 1")
def directories():
    top = scratch()
    with open(top + "/file", "w"):
        pass
    refused(1, rf"--data-dir: cannot use the directory {top}/file/x: Not a directory$", f"--data-dir={top}/file/x")
    refused(1, r"--runtime-dir: cannot use the directory /proc/x: No such file or directory$", "--runtime-dir=/proc/x")
    n = Probed(do={"x": ""})
    with open(n.data + "/FORMAT", "w") as f:
        f.write("2\n")
    code, lines, log = n.run()
    same((code, lines, len(log.splitlines())), (1, [], 1), log)
    assert f"--data-dir: {n.data} has format 2, this program knows up to 1: use the newer release" in log, log
    with open(n.data + "/FORMAT", "w") as f:
        f.write("hello\n")
    n.logfile += "2"
    same(n.run()[0], 1, "exit code")
    assert "/FORMAT holds no number: this is not a data directory" in n.log(), n.log()


@test("a directory that cannot be written: exit 1")
def read_only():
    top = scratch()
    os.chmod(top, 0o500)
    if os.access(top, os.W_OK):  # root writes anywhere but here
        top = "/proc/self"
        refused(1, r"--data-dir: cannot use the directory /proc/self/fdinfo/data: ", "--data-dir=/proc/self/fdinfo/data")
    else:
        refused(1, rf"--data-dir: cannot use the directory {top}/data: Permission denied", f"--data-dir={top}/data")


@test("a program that is missing: exit 1")
def missing_program():
    n = Probed()
    for name in ("storaged", "worker-http"):
        os.unlink(os.path.join(n.libexec, name))
    pico = os.path.join(n.libexec, "pico")
    for name in ("pico", "supervisor"):
        source = os.path.join(tap.build, "supervisor", "supervisor") if name == "supervisor" else os.path.join(tap.build, name)
        with open(source, "rb") as a, open(os.path.join(n.libexec, name), "wb") as b:
            b.write(a.read())
        os.chmod(b.name, 0o755)
    with open(n.logfile, "wb") as log:
        code = subprocess.call([pico, "serve", *n.argv()[2:]], stderr=log, cwd=n.dir, env=dict(os.environ, **n.env))
    if code != 1:
        raise tap.Skip("the programs are installed on this machine")
    assert re.search(r"cannot find the program storaged; this installation is not complete: /", n.log()), n.log()
    assert not os.path.exists(n.data)


@test("a child that cannot start gives the exit code; its line is the only one")
def fatal():
    refused(1, r" error storaged told to be fatal$", do={"storaged": "fatal 1"}, left=True)
    refused(75, r" error storaged told to be fatal$", do={"storaged": "fatal 75"}, left=True)
    refused(1, r" error worker-http told to be fatal$", do={"worker-http": "fatal 1"}, left=True)


@test("nothing is ready within --start-timeout-ms: exit 75")
def start_timeout():
    began = time.monotonic()
    refused(75, r"--start-timeout-ms: storaged is not ready after 300 ms, leaving$", "--start-timeout-ms=300",
            do={"storaged": "silent"}, left=True)
    assert time.monotonic() - began < 4  # storaged itself is given time to say why


@test("a child that only stumbles at the start is tried again")
def stumble():
    n = Probed(do={"storaged": "exit 4 once"}).start()
    assert "storaged ended, starting it again in 100 ms" in n.log()
    same(n.stop(), 0, "exit code")


@test("the real storaged: what it cannot use is one line, and nothing is left")
def real():
    for code, pattern, option in (
            (1, r" error storaged --storage: no credentials for S3: AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY are not set",
             "--storage=-2@s3://b?region=x"),
            (1, r" error storaged --meta-url: metadata in PostgreSQL is not built yet", "--meta-url=postgres://h/db"),
            (2, r" error storaged --storage -2@file://: storage URL: file:// needs a directory behind it$", "--storage=-2@file://")):
        n = node.Node(option, env={"HOME": "/nonexistent"})
        n.spawn()
        same(n.process.wait(20), code, option + ": " + n.log())
        lines = [l for l in n.log().splitlines() if " info " not in l]
        assert len(lines) == 1 and re.search(pattern, lines[0]), lines
        if "postgres" not in option:  # then the object directory was made before
            same([f for f in os.listdir(n.dir) if f != "stderr.log"], [], option + ": left behind")


@test("the programs say who starts them")
def by_hand():
    probe = os.path.join(tap.build, "t", "child-probe")
    r = subprocess.run([probe], capture_output=True, text=True, stdin=subprocess.DEVNULL)
    same((r.returncode, r.stdout, len(r.stderr.splitlines())), (1, "", 1), r.stderr)
    assert "is started by `pico serve` and not by hand" in r.stderr


def pico(*arguments, **env):
    r = subprocess.run([os.path.join(tap.build, "pico"), "serve", *arguments], capture_output=True, text=True, timeout=30,
                       env=dict(os.environ, **env), cwd=scratch())
    return r.returncode, r.stdout, r.stderr


@test("--check-config, --show-config and --help open nothing")
def questions():
    same(pico("--check-config"), (0, "the configuration is good\n", ""), "good")
    code, out, err = pico("--check-config", "--node-id=x", "--zzz", "--backlog=0")
    same((code, out, len(err.splitlines())), (2, "", 3), err)
    for wanted, pattern, options in (
            (1, r"--listen: 'here' is no address", ["--listen=here"]),
            (1, r"--admin-listen: 192\.0\.2\.1:80 is reachable from other machines", ["--admin-listen=192.0.2.1:80"]),
            (1, r"--kafka-listen: 0\.0\.0\.0:9092 is reachable from other machines", ["--kafka-listen=0.0.0.0:9092"]),
            (1, r"--kafka-listen: \[::\]:9092 is reachable from other machines", ["--kafka-listen=[::]:9092"]),
            (1, r"--kafka-listen: 192\.0\.2\.1:1 is reachable from other machines", ["--kafka-listen=192.0.2.1:1"]),
            (1, r"say with --kafka-advertise which one clients use, as in --kafka-advertise node1\.example:9092$",
             ["--kafka-listen=:9092", "--insecure-allow-remote"]),
            (2, r"--kafka-advertise: 'node1' is not host:port$", ["--kafka-advertise=node1"]),
            (2, r"--kafka-advertise: 'node1:0' is not host:port$", ["--kafka-advertise=node1:0"]),
            (1, r"--auth required: authentication is not built yet", ["--auth=required"]),
            (1, r"--worker-user: this node does not change its user yet", ["--worker-user=nobody"]),
            (2, r"--storage: '-2@http://x' is none of ID@file://DIR", ["--storage=-2@http://x", "--wal=-3@file:///x"]),
            (2, r"--wal: 'x' is none of ID@file://DIR", ["--wal=x"])):
        code, out, err = pico("--check-config", *options)
        same((code, out, len(err.splitlines())), (wanted, "", 1), f"{options}: {err}")
        assert re.search(pattern, err), f"{options}: {err}"
    same(pico("--check-config", "--listen=192.0.2.1:80", "--insecure-allow-remote")[0], 0, "allowed beyond loopback")
    code, out, err = pico("--show-config", "--node-id=7", "--auth-bootstrap-token=geheim", PICO_BACKLOG="9",
                          PICO_META_URL="postgres://u:geheim@h/db")
    same((code, err), (0, ""), "exit code, stderr")
    lines = out.splitlines()
    for line in ("node_id = 7  # flag", "backlog = 9  # environment", "wal_cache_size = 200M  # default",
                 "auth_bootstrap_token = ***  # flag", "meta_url = postgres://u@h/db  # environment",
                 "storage = -2@file://./data/objects  # default"):
        assert line in lines, line + " is not in\n" + out
    assert "geheim" not in out
    code, out, err = pico("--help")
    same((code, err), (0, ""), "exit code, stderr")
    assert "--wal-cache-size SIZE" in out and "exit codes:" in out


tap.run(taken.close)
