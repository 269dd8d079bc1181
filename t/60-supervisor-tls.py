#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""TLS options at the start and in --check-config: what is missing, unreadable or does not belong together is one line that
names the option, and exit 1; who may be listened to is as without TLS; no process but those that need it has the key."""
import os, re, shutil, subprocess

import certificates, node, tap
from probed import scratch
from tap import same

top = scratch()
ca = certificates.Authority(os.path.join(top, "ca"))
me, other = ca.make("server"), ca.make("other")
PEM, KEY = f"--tls-cert={me}.pem", f"--tls-key={me}.key"
LISTEN, KAFKA = "--tls-listen=127.0.0.1:0", "--kafka-tls-listen=127.0.0.1:0"


def run(*options):
    """(exit code, stdout, stderr lines without time) of --check-config, the same as of a start that is refused."""
    here = scratch()
    argv = [os.path.join(tap.build, "pico"), "serve", "--listen=127.0.0.1:0", "--admin-listen=127.0.0.1:0",
            "--kafka-listen=127.0.0.1:0", "--no-ds", f"--data-dir={here}/data", *options]
    r = subprocess.run(argv + ["--check-config"], capture_output=True, text=True, timeout=60, cwd=here)
    lines = [re.sub(r"^\S+ error supervisor ", "", line) for line in r.stderr.splitlines()]
    if r.returncode:
        s = subprocess.run(argv, capture_output=True, text=True, timeout=60, cwd=here)
        again = [re.sub(r"^\S+ error supervisor ", "", line) for line in s.stderr.splitlines()]
        same((s.returncode, s.stdout, again), (r.returncode, r.stdout, lines), f"a start with {options}")
    same(os.listdir(here), [], "left behind")
    return r.returncode, r.stdout, lines


def refused(line, *options):
    same(run(*options), (1, "", [line]), str(options))


@tap.test("a good pair is good, for each listener, with and without an authority for clients")
def good():
    for listen in ([LISTEN], [KAFKA], [LISTEN, KAFKA]):
        for more in ([], [f"--tls-client-ca={ca.pem}"]):
            same(run(*listen, PEM, KEY, *more), (0, "the configuration is good\n", []), str(listen + more))


@tap.test("missing, unreadable, empty, wrong: one line that names the option")
def faults():
    empty, text, large = (os.path.join(top, name) for name in ("empty", "text", "large"))
    for path, data in ((empty, ""), (text, "no certificate\n"), (large, "x" * ((1 << 20) + 1))):
        with open(path, "w") as f:
            f.write(data)
    needs = "a listener speaks TLS and needs this file; give it"
    for listen in (LISTEN, KAFKA):
        refused(f"--tls-cert: {needs}", listen)
        refused(f"--tls-cert: {needs}", listen, KEY)
        refused(f"--tls-key: {needs}", listen, PEM)
        refused("--tls-cert: /nowhere/a.pem: No such file or directory", listen, "--tls-cert=/nowhere/a.pem", KEY)
        refused(f"--tls-key: {top}: Is a directory", listen, PEM, f"--tls-key={top}")
        refused(f"--tls-cert: {empty}: the file is empty", listen, f"--tls-cert={empty}", KEY)
        refused(f"--tls-cert: {large}: File too large", listen, f"--tls-cert={large}", KEY)
        refused(f"--tls-cert: {text}: this is no certificate that can be used: no start line", listen, f"--tls-cert={text}", KEY)
        refused(f"--tls-key: {text}: this is no private key: unsupported", listen, PEM, f"--tls-key={text}")
        refused(f"--tls-key: {other}.key: the key does not belong to the certificate", listen, PEM, f"--tls-key={other}.key")
        refused(f"--tls-client-ca: {text}: this is no certificate that can be used", listen, PEM, KEY, f"--tls-client-ca={text}")
    locked = os.path.join(top, "locked.key")
    subprocess.run(["openssl", "pkcs8", "-topk8", "-in", me + ".key", "-passout", "pass:x", "-out", locked], check=True)
    refused(f"--tls-key: {locked}: the key has a passphrase; give one without", LISTEN, PEM, f"--tls-key={locked}")


@tap.test("beyond loopback as without TLS: with --insecure-allow-remote only, a wildcard with an advertised address")
def exposure():
    remote = "%s is reachable from other machines and nobody is asked for a credential yet; listen on loopback, or give " \
             "--insecure-allow-remote if the network is yours"
    for option in ("tls-listen", "kafka-tls-listen"):
        refused(f"--{option}: " + remote % "192.0.2.1:9", f"--{option}=192.0.2.1:9", PEM, KEY)
    refused("--kafka-tls-listen: 0.0.0.0:9093 is every address of this machine; say with --kafka-advertise which one clients use, "
            "as in --kafka-advertise node1.example:9093", "--kafka-tls-listen=0.0.0.0:9093", PEM, KEY, "--insecure-allow-remote")
    refused("--tls-listen: 0.0.0.0:443 is every address of this machine; say with --http-address which one clients use, "
            "as in --http-address https://node1.example:443", "--tls-listen=0.0.0.0:443", PEM, KEY, "--insecure-allow-remote")


@tap.test("Durable Streams over TLS: Location is https")
def durable_streams():
    n = node.Node("--ds-tls-listen=127.0.0.1:0", PEM, KEY, ds=True)
    n.start()
    port = next(int(m[1]) for line in n.lines if (m := re.match(r"ds on https://127\.0\.0\.1:(\d+)$", line)))
    request = f"PUT /v1/stream/t HTTP/1.1\r\nHost: localhost:{port}\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"
    r = subprocess.run(["openssl", "s_client", "-connect", f"127.0.0.1:{port}", "-CAfile", ca.pem, "-quiet", "-ign_eof"],
                       input=request, capture_output=True, text=True, timeout=60)
    assert r.stdout.startswith("HTTP/1.1 201 ") and f"Location: https://localhost:{port}/v1/stream/t\n" in r.stdout.replace("\r", ""), r
    same(n.ds("HEAD", "/v1/stream/t").status, 200, "the same stream without TLS")
    same(n.stop(), 0, "exit code")


def memfds(pid):
    return sorted(os.readlink(f"/proc/{pid}/fd/{f}") for f in os.listdir(f"/proc/{pid}/fd")
                  if "pico-tls" in os.readlink(f"/proc/{pid}/fd/{f}"))


@tap.test("the key is in no argument, environment or descriptor of storaged and the admin worker; a file gone later hurts nobody")
def secrecy():
    mine = os.path.join(top, "mine")
    os.mkdir(mine)
    for suffix in (".pem", ".key"):
        shutil.copy(me + suffix, mine + "/server" + suffix)
    n = node.Node(LISTEN, KAFKA, f"--tls-cert={mine}/server.pem", f"--tls-key={mine}/server.key", kafka=True)
    n.start()
    shutil.rmtree(mine)
    if os.geteuid() == 0:
        for name, pids in n.children().items():
            same(memfds(pids[0]), [], f"descriptors of {name}")
        same(len(memfds(n.process.pid)), 1, "descriptors of the supervisor")
    pid = n.kill("worker-kafka")
    tap.until(lambda: n.children().get("worker-kafka", [pid])[0] != pid, 30, "another worker")
    port = next(int(m[1]) for line in n.lines if (m := re.match(r"kafka tls on 127\.0\.0\.1:(\d+)$", line)))
    r = subprocess.run(["openssl", "s_client", "-connect", f"127.0.0.1:{port}", "-CAfile", ca.pem, "-verify_return_error"],
                       stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60)
    assert "Verify return code: 0 (ok)" in r.stdout, r.stdout + r.stderr
    assert "New, TLSv1.3" in r.stdout and "Early data was not sent" in r.stdout, r.stdout
    same(n.stop(), 0, "exit code")


tap.run()
