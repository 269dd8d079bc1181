#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""--tls-listen with real clients: curl and Python over https, certificates of clients, new certificates while old
connections go on, and what is no TLS: garbage, plain HTTP, slow handshakes, TLS to a plain port."""
import http.client, os, random, shutil, socket, ssl, subprocess, time

import certificates, tap
from secure_node import SecureNode
from tap import same, until

BIG = random.Random(1).randbytes(6 << 20)


class Secure(SecureNode):
    def curl(self, path, *args, **more):
        """(exit code, what it wrote)"""
        r = subprocess.run(["curl", "-sS", "--max-time", "30", "--cacert", self.ca.pem, *args, f"https://localhost:{self.tls_port}{path}"],
                           capture_output=True, timeout=60, **more)
        return r.returncode, r.stdout

    def connect(self):
        return http.client.HTTPSConnection("localhost", self.tls_port, timeout=30, context=self.trust())


def serial(connection):
    return connection.sock.getpeercert()["serialNumber"]


def ask(connection, method, path, body=None):
    connection.request(method, path, body)
    r = connection.getresponse()
    return r.status, r.read()


n = Secure("--header-timeout-ms=2000")


@tap.test("curl: creates, appends 6 MB in one body, reads them, over HTTP/2 and HTTP/1.1, whichever is agreed on")
def curl():
    n.start()
    same(n.curl("/s", "-X", "PUT", "-w", "%{http_code}"), (0, b"201"), "create")
    with open(os.path.join(n.dir, "big"), "wb") as f:
        f.write(BIG)
    code, out = n.curl("/s", "--data-binary", "@" + f.name, "-H", "Content-Type: application/octet-stream", "-w", "%{http_code} %{http_version}")
    same((code, out), (0, b"200 2"), "append")
    same(n.curl("/s?format=raw&bytes=7000000"), (0, BIG), "read")
    same(n.curl("/s?format=raw&bytes=7000000", "--http1.1"), (0, BIG), "read over HTTP/1.1")
    same(n.http("GET", "/s?format=raw&bytes=7000000").body, BIG, "the same without TLS")
    for option, word in ("--http2", "h2"), ("--http1.1", "http/1.1"):
        verbose = subprocess.run(["curl", "-sv", option, "--cacert", n.ca.pem, f"https://localhost:{n.tls_port}/s?seq=now"],
                                 capture_output=True, text=True).stderr
        assert f"ALPN: server accepted {word}\n" in verbose, verbose


@tap.test("keep-alive, pipelined requests, a long poll that is answered by an append of another connection")
def keep_alive():
    c, d = n.connect(), n.connect()
    for i in range(20):
        same(ask(c, "POST", "/s", b"r%d" % i)[0], 200, f"append {i}")
    d.request("GET", "/s?seq=now&live=long-poll&format=raw")
    same(ask(c, "POST", "/s", b"news")[0], 200, "append")
    r = d.getresponse()
    same((r.status, r.read()), (200, b"news"), "long poll")
    raw = c.sock
    raw.sendall(b"POST /s HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\n\r\nx" * 10)
    got = b""
    while got.count(b"HTTP/1.1 200") < 10:
        got += raw.recv(65536)
    c.close(), d.close()


@tap.test("a client that does not trust the authority, and one of TLS 1.1, are refused; 1.2 is spoken")
def refused():
    code = subprocess.run(["curl", "-sS", f"https://localhost:{n.tls_port}/s"], capture_output=True).returncode
    same(code, 60, "curl without --cacert")
    same(n.curl("/s?seq=now", "--tls-max", "1.2", "-o", "/dev/null", "-w", "%{http_code}"), (0, b"200"), "TLS 1.2")
    same(n.curl("/s", "--tls-max", "1.1", "--ciphers", "DEFAULT@SECLEVEL=0")[0], 35, "TLS 1.1")


@tap.test("garbage, plain HTTP and hellos that stop: closed, one line, nobody else notices")
def garbage():
    pid = n.pid("worker-http")
    c = n.connect()
    rng = random.Random(2)
    for i in range(60):
        with socket.create_connection(("127.0.0.1", n.tls_port), timeout=10) as s:
            s.sendall(rng.randbytes(rng.randrange(1, 3000)) if i % 2 else b"\x16\x03\x01\x02\0\x01\0\x01\xfc\x03\x03" + rng.randbytes(700))
            s.shutdown(socket.SHUT_WR)
            while s.recv(4096):
                pass
    with socket.create_connection(("127.0.0.1", n.tls_port), timeout=10) as s:
        s.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        same(s.recv(4096), b"", "plain HTTP to the TLS port")
    until(lambda: "TLS failed: http request, closing the connection" in n.log(), 30, "a line")
    same(ask(c, "GET", "/s?seq=now")[0], 200, "another connection")
    same(n.pid("worker-http"), pid, "worker")
    c.close()


@tap.test("TLS to the plain port: closed, one line")
def tls_to_plain():
    with socket.create_connection(("127.0.0.1", n.port), timeout=10) as s:
        s.sendall(b"\x16\x03\x01\x02\0\x01\0\x01\xfc\x03\x03")
        same(s.recv(4096), b"", "answer")
    until(lambda: "worker-http this is no HTTP request, closing the connection reason=tls" in n.log(), 30, "a line")
    same(subprocess.run(["curl", "-sk", f"https://localhost:{n.port}/s"], capture_output=True).returncode, 35, "curl")


@tap.test("a handshake that takes longer than --header-timeout-ms is ended, silent or a byte at a time")
def slow():
    hello = b"\x16\x03\x01\x02\0\x01\0\x01\xfc\x03\x03" + bytes(100)
    for trickle in (False, True):
        with socket.create_connection(("127.0.0.1", n.tls_port), timeout=60) as s:
            began, at = time.monotonic(), 0
            s.settimeout(0.1)
            while True:
                try:
                    if s.recv(4096) == b"":
                        break
                except TimeoutError:
                    assert time.monotonic() - began < 30, "not ended"
                    if trickle:
                        s.send(hello[at:at + 1])
                        at += 1
            assert time.monotonic() - began >= 1.9, time.monotonic() - began
    until(lambda: "TLS failed: the handshake took too long, closing the connection" in n.log(), 30, "a line")


@tap.test("2,000 idle connections: their memory is little, and a reader is served beside them")
def idle():
    pid, before, open_ = n.pid("worker-http"), n.rss(n.pid("worker-http")), []
    context = n.trust()
    for i in range(2000):
        s = context.wrap_socket(socket.create_connection(("127.0.0.1", n.tls_port)), server_hostname="localhost")
        open_.append(s)
    same(n.curl("/s?seq=now", "-o", "/dev/null", "-w", "%{http_code}"), (0, b"200"), "beside them")
    each = (n.rss(pid) - before) / len(open_)
    tap.diag(f"{each:.0f} bytes each")
    assert each < 40000, each
    for s in open_:
        s.close()


@tap.test("SIGHUP: new connections get the new certificate, old ones go on, workers stay; a bad file changes nothing")
def reload():
    pid, old = n.pid("worker-http"), n.connect()
    same(ask(old, "GET", "/s?seq=now")[0], 200, "before")
    first = serial(old)
    n.replace_certificate("second")

    def is_new():
        c = n.connect()
        c.connect()
        found = serial(c)
        c.close()
        return found != first
    assert not is_new(), "new before it was asked for"
    n.reload()
    until(is_new, 30, "the new certificate")
    same((ask(old, "POST", "/s", b"x")[0], serial(old)), (200, first), "the old connection")
    second = n.connect()
    second.connect()
    shutil.copy(n.ca.path("ca.key"), n.ca.path("server.key"))
    n.reload(f"reload: --tls-key: {n.ca.path('server.key')}: the key does not belong to the certificate; nothing changes")
    third = n.connect()
    third.connect()
    same(serial(third), serial(second), "certificate")
    same(n.pid("worker-http"), pid, "worker")
    for c in (old, second, third):
        same(ask(c, "GET", "/s?seq=now")[0], 200, "goes on")
        c.close()


@tap.test("a worker that is started again has the certificate that was in use, whatever stands in the files")
def again():
    pid = n.kill("worker-http")
    until(lambda: n.children().get("worker-http", [pid])[0] != pid, 30, "another worker")
    until(lambda: n.curl("/s?seq=now", "-o", "/dev/null", "-w", "%{http_code}") == (0, b"200"), 30, "served")
    same(n.stop(), 0, "exit code")


@tap.test("--tls-client-ca: a client without a certificate, or with another authority's, is refused; with one it is served")
def client_certificates():
    friends = certificates.Authority(os.path.join(n.dir, "friends"))
    strangers = certificates.Authority(os.path.join(n.dir, "strangers"))
    m = Secure(client_ca=friends.pem).start()
    show = lambda who: ["--cert", who + ".pem", "--key", who + ".key", "-o", "/dev/null", "-w", "%{http_code}"]
    same(m.curl("/s", "-X", "PUT", *show(friends.make("friend"))), (0, b"201"), "a friend")
    for version in ("1.2", "1.3"):
        code, _ = m.curl("/s", "--tls-max", version)
        assert code in (35, 56), code
        code, _ = m.curl("/s", "--tls-max", version, *show(strangers.make("stranger")))
        assert code in (35, 56), code
    until(lambda: "TLS failed: peer did not return a certificate" in m.log(), 30, "a line")
    until(lambda: "TLS failed: unable to get local issuer certificate" in m.log(), 30, "a line")
    same(m.http("GET", "/s?seq=now").status, 200, "the plain listener asks nobody")
    same(m.stop(), 0, "exit code")


tap.run(n.stop)
