#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The object store on S3 against a server that checks signatures and fails on order (t/lib/fake_s3.py): the cases that
all stores share, and each fault by the outcome and errno that it must end in."""
import os, shutil, socket, subprocess, tempfile, time

import fake_s3, s3_client, tap
from tap import Skip, same, test

TOOL = os.path.join(tap.build, "t", "objstore-tool")
CASES = os.path.join(tap.build, "t", "00-unit-objstore")
top = tempfile.mkdtemp(prefix="pico-s3-")
servers, tools = [], []


def server(**options):
    servers.append(fake_s3.FakeS3(**options))
    return servers[-1]


def environment(**more):
    drop = ("AWS_", "OBJSTORE_")
    return dict({k: v for k, v in os.environ.items() if not k.startswith(drop)}, **fake_s3.FakeS3.environment, **more)


class Store:
    """t/objstore-tool on a URL."""

    def __init__(self, url, env=None):
        self.process = subprocess.Popen([TOOL, url], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                                        stderr=subprocess.PIPE, env=env or environment())
        tools.append(self.process)
        self.first = self.process.stdout.readline()

    def say(self, command, lines=1):
        self.process.stdin.write(command + "\n")
        self.process.stdin.flush()
        return [self.process.stdout.readline().rstrip("\n") for _ in range(lines)]

    def __call__(self, command):
        return self.say(command)[0]

    def end(self):
        out, error = self.process.communicate(timeout=30)
        same((self.process.returncode, error), (0, ""), "the tool's end")
        return out


def cleanup():
    for p in tools:
        if p.poll() is None:
            p.kill()
    for s in servers:
        s.close()
    shutil.rmtree(top, ignore_errors=True)


def run_cases(s3, **env):
    r = subprocess.run([CASES], env=environment(CMOCKA_MESSAGE_OUTPUT="TAP", OBJSTORE_URL=s3.url("cases"), **env),
                       capture_output=True, text=True, timeout=120)
    assert r.returncode == 0 and r.stdout.count("\nok ") >= 14, r.stdout + r.stderr
    assert s3.requests(), "nothing was asked"


@test("the cases of all stores, plain http, payloads signed")
def _():
    s3 = server()
    run_cases(s3)
    bodies = s3.requests("PUT", "test|a/b|cluster")
    assert bodies and all(r.headers["x-amz-content-sha256"] != "UNSIGNED-PAYLOAD" for r in bodies)
    assert all("x-amz-checksum-crc32c" in r.headers for r in s3.requests("PUT"))


@test("the same with one key a page, and with ETags without quotes")
def _():
    s3 = server()
    s3.page = 1
    s3.bare_etags = True
    run_cases(s3)


def certificate():
    if not shutil.which("openssl"):
        raise Skip("no openssl")
    cert, key = os.path.join(top, "cert.pem"), os.path.join(top, "key.pem")
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes",
                    "-keyout", key, "-out", cert, "-days", "2", "-subj", "/CN=localhost", "-addext",
                    "subjectAltName=DNS:localhost"], check=True, capture_output=True)
    return cert, key


@test("the same where uploads come all at once and in no order")
def pageless():
    s3 = server()
    s3.pageless = True
    run_cases(s3)


@test("the same over TLS, payloads not hashed; a certificate that nobody vouches for is refused")
def _():
    pair = certificate()
    s3 = server(tls=pair)
    run_cases(s3, AWS_CA_BUNDLE=pair[0])
    assert all(r.headers["x-amz-content-sha256"] == "UNSIGNED-PAYLOAD" for r in s3.requests())
    store = Store(s3.url("tls"))
    answer = store("put a 10")
    assert answer.startswith("a not-applied EPROTO s3://bucket/tls/a: "), answer
    store.end()


# What a put comes to: fault -> answer, and whether the object is there afterwards.
PUT_FAULTS = [
    (dict(status=503, code="SlowDown"), "unknown EAGAIN", "503 SlowDown", False),
    (dict(status=503, code="SlowDown", effect=True), "unknown EAGAIN", "503 SlowDown", True),
    (dict(status=500, code="InternalError"), "unknown EIO", "500 InternalError", False),
    (dict(status=500, code="InternalError", effect=True), "unknown EIO", "500 InternalError", True),
    (dict(status=409, code="ConditionalRequestConflict"), "not-applied EAGAIN", "409 ConditionalRequestConflict", False),
    (dict(status=412, code="PreconditionFailed"), "not-applied EEXIST", "412 PreconditionFailed", False),
    (dict(status=429, code="TooManyRequests"), "not-applied EAGAIN", "429 TooManyRequests", False),
    (dict(status=403, code="AccessDenied"), "not-applied EACCES", "403 AccessDenied", False),
    (dict(status=404, code="NoSuchBucket"), "not-applied ENXIO", "404 NoSuchBucket", False),
    (dict(status=400, code="RequestTimeout"), "not-applied EAGAIN", "400 RequestTimeout", False),
    (dict(status=507, code="InsufficientStorage"), "not-applied ENOSPC", "507 InsufficientStorage", False),
    (dict(status=501, code="NotImplemented"), "not-applied EOPNOTSUPP", "501 NotImplemented", False),
    (dict(cut="before"), "unknown ECONNRESET", "", False),
    (dict(cut="after"), "unknown ECONNRESET", "", True),
    (dict(hang=3), "unknown ETIMEDOUT", "no byte in 400 ms", False),
    (dict(hang=3, effect=True), "unknown ETIMEDOUT", "no byte in 400 ms", True),
]


@test("puts: each fault ends in its outcome and errno, is tried once, and the next put goes well")
def _():
    s3 = server()
    store = Store(s3.url("p", requestTimeout=400))
    for i, (fault, outcome, says, there) in enumerate(PUT_FAULTS):
        key = f"wal/{i}"
        same(store("put warm%d 10" % i), f"warm{i} ok")          # on a connection that was used
        s3.fault(method="PUT", key=key, **fault)
        answer = store(f"put {key} 5000")
        assert answer.startswith(f"{key} {outcome} s3://bucket/p/{key}: ") and says in answer, (fault, answer)
        same(f"p/{key}" in s3.objects, there, fault)
        same(len(s3.requests("PUT", f"p/{key}$")), 1, f"requests of {fault}")
        answer = store(f"put {key} 5000")
        assert answer.startswith(f"{key} not-applied EEXIST" if there else f"{key} ok"), (fault, answer)
        same(store(f"get {key}"), f"{key} ok 5000")
    store.end()


@test("a server that is not there: certainly not applied; a host without address; a wrong bucket; wrong keys")
def _():
    free = socket.socket()
    free.bind(("127.0.0.1", 0))
    store = Store(f"s3://bucket?endpoint=http://127.0.0.1:{free.getsockname()[1]}")
    answer = store("put a 10")
    assert answer.startswith("a not-applied ECONNREFUSED s3://bucket/a: Failed to connect"), answer
    store.end()
    store = Store("s3://bucket?endpoint=http://no-such-host.invalid:9")
    assert store("put a 10").startswith("a not-applied EHOSTUNREACH"), "a host without address"
    store.end()
    s3 = server()
    store = Store(s3.url().replace("//bucket", "//other"))
    same(store("put a 10"), "a not-applied ENXIO s3://other/a: 404 NoSuchBucket")
    same(store("get a"), "a not-applied ENXIO s3://other/a: 404 NoSuchBucket")
    store.end()
    for name, value, code in (("AWS_SECRET_ACCESS_KEY", "wrong", "SignatureDoesNotMatch"),
                              ("AWS_ACCESS_KEY_ID", "WRONG", "InvalidAccessKeyId")):
        store = Store(s3.url(), environment(**{name: value}) if name not in s3.environment else
                      dict(environment(), **{name: value}))
        same(store("put a 10"), f"a not-applied EACCES s3://bucket/a: 403 {code}")
        store.end()
    same(s3.objects, {})


# What reads survive, once each.
READ_FAULTS = [dict(status=503, code="SlowDown", times=2), dict(status=500, code="InternalError"), dict(truncate=True),
               dict(cut="before"), dict(cut="body"), dict(hang=3), dict(status=404, code=""),
               dict(status=429, code="TooManyRequests")]


@test("gets, suffixes, lists and deletes are tried again, and end as they should")
def _():
    s3 = server()
    store = Store(s3.url("r", requestTimeout=400))
    for i, fault in enumerate(READ_FAULTS):
        for command, answers in (("get a", ["a ok 5000"]), ("range a 10 20", ["a ok 20"]),
                                 ("suffix a 7", ["a ok 7"]), ("list a", ["+ a 5000", "a ok 1"]), ("del b", ["b ok"])):
            if command == "get a" and i == 0:
                same(store("put a 5000"), "a ok")
            s3.well()
            s3.fault(**fault)
            same(store.say(command, len(answers)), answers, f"{command} under {fault}")
            same(s3.faults[0]["times"], 0, f"{command}: {fault} was injected")
    store.end()


@test("what does not pass: six tries, then the last answer; a lack is told at once")
def _():
    s3 = server()
    store = Store(s3.url("r"))
    s3.fault(method="GET", key="r/a", status=503, code="SlowDown", times=None)
    same(store("get a"), "a unknown EAGAIN s3://bucket/r/a: 503 SlowDown")
    same(len(s3.requests("GET", "r/a")), 6)
    same(store("get none"), "none not-applied ENOENT s3://bucket/r/none: 404 NoSuchKey")
    same(len(s3.requests("GET", "r/none")), 1)
    store.end()


@test("a read that is slow is asked a second time on another connection, the first answer counts")
def _():
    s3 = server()
    store = Store(s3.url("h"))
    same(store("put a 5000"), "a ok")
    for _ in range(64):
        same(store("get a"), "a ok 5000")
    n = len(s3.requests("GET"))
    s3.fault(method="GET", key="h/a", delay=8)
    began = time.monotonic()
    same(store("get a"), "a ok 5000")
    took = time.monotonic() - began
    assert took < 4, f"{took} s"
    first, second = s3.requests("GET")[n:]
    assert first.connection != second.connection
    # Not when all are slow: second reads are at most a tenth.
    s3.fault(method="GET", delay=0.15, times=None)
    n = len(s3.requests("GET"))
    for _ in range(30):
        same(store("get a"), "a ok 5000")
    assert 30 <= len(s3.requests("GET")) - n <= 30 + 3 + 10, len(s3.requests("GET")) - n
    store.end()


@test("t/lib/s3_client.py lists page by page, below a prefix, with sizes")
def _():
    s3 = server()
    s3.objects = {f"d/k {i:04d}": b"x" * i for i in range(25)} | {"e/k": b"x"}
    s3.page = 10
    found = s3_client.sizes(s3.endpoint, s3.bucket, "d/", fake_s3.ACCESS, fake_s3.SECRET)
    same(found, {f"d/k {i:04d}": i for i in range(25)})
    same(len(s3.requests("GET")), 3)


@test("deletes: a thousand a request; an error inside is not taken for done")
def _():
    s3 = server()
    s3.objects = {f"d/k{i:04d}": b"x" for i in range(2600)}
    store = Store(s3.url("d"))
    same(store("dels k 2500"), "k ok")
    same(len(s3.requests("POST")), 3)
    same(s3.keys(), [f"d/k{i:04d}" for i in range(2500, 2600)])
    s3.fault(method="POST", inside="InternalError")
    same(store("dels k 2600"), "k ok")
    same(s3.keys(), [])
    s3.fault(method="POST", inside="InternalError", times=None)
    same(store("del a"), "a unknown EIO s3://bucket: 200 InternalError")
    store.end()


@test("uploads: parts and ends are tried again; a lost answer to the end is looked into")
def _():
    s3 = server()
    store = Store(s3.url("u", requestTimeout=2000))
    end = dict(method="POST", query="uploadId=")
    for i, fault in enumerate((dict(method="PUT", status=500), dict(method="PUT", cut="before"),
                               dict(method="POST", query="uploads=", status=503), dict(end, inside="InternalError"),
                               dict(method="PUT", truncate=True), dict(end, cut="after"),
                               dict(end, status=500, effect=True), dict(method="POST", query="uploads=", cut="after"))):
        s3.fault(key=f"u/data/{i}", **fault)
        same(store(f"upload data/{i} 3 5242880"), f"data/{i} ok", fault)
        same(s3.faults[-1]["times"], 0, f"{fault} was injected")
        same(len(s3.objects[f"u/data/{i}"]), 3 * 5242880)
        same(store(f"suffix data/{i} 100"), f"data/{i} ok 100")
    s3.uploads.clear()                                  # beginnings whose answer was lost
    s3.fault(method="PUT", key="u/bad", status=403, code="AccessDenied")
    same(store("upload bad 2 5242880"), "bad not-applied EACCES s3://bucket/u/bad: 403 AccessDenied")
    same(store.say("uploads b", 2)[1], "b ok 1")
    assert "u/bad" not in s3.objects
    store.end()


@test("a clock that is wrong by an hour, either way: the server's is taken, also in the middle")
def _():
    s3 = server()
    store = Store(s3.url("c"))
    for i, ahead in enumerate((3600, -3600, 0)):
        s3.clock = ahead
        same(store(f"put a{i} 10"), f"a{i} ok")
        same(store(f"put b{i} 10"), f"b{i} ok")
        same([len(s3.requests("PUT", f"{k}{i}$")) for k in "ab"], [2, 1])
    store.end()


@test("session tokens; keys out of a file that changes; proxies of the environment are not asked")
def _():
    s3 = server()
    s3.token = "token/1=="
    path = os.path.join(top, "credentials")
    text = "[p]\naws_access_key_id={}\naws_secret_access_key={}\naws_session_token={}\n"
    with open(path, "w") as f:
        f.write(text.format(fake_s3.ACCESS, fake_s3.SECRET, "token/1=="))
    env = {k: v for k, v in environment(AWS_SHARED_CREDENTIALS_FILE=path, AWS_PROFILE="p").items()
           if k not in s3.environment}
    dead = "http://127.0.0.1:1"
    store = Store(s3.url("t"), dict(env, http_proxy=dead, HTTP_PROXY=dead, all_proxy=dead))
    same(store("put a 10"), "a ok")
    s3.token = "token/2"
    same(store("put b 10"), "b not-applied EACCES s3://bucket/t/b: 400 ExpiredToken")
    with open(path, "w") as f:
        f.write(text.format(fake_s3.ACCESS, fake_s3.SECRET, "token/2"))
    tap.until(lambda: store("put b 10") == "b ok", 30, "the new token is taken")
    store.end()
    store = Store(s3.url("t"), environment(AWS_SESSION_TOKEN="token/2"))
    same(store("put c 10"), "c ok")
    with open(f"/proc/{store.process.pid}/environ", "rb") as f:
        variables = f.read()
    assert fake_s3.SECRET.encode() not in variables and b"token/2" not in variables
    store.end()


@test("without credentials it does not open, and says where it looked")
def _():
    r = subprocess.run([TOOL, "s3://bucket"], env=dict({k: v for k, v in environment().items() if "AWS" not in k},
                                                       HOME=top), capture_output=True, text=True, timeout=30)
    same(r.returncode, 1)
    assert "AWS_ACCESS_KEY_ID" in r.stderr and f"{top}/.aws/credentials" in r.stderr, r.stderr


@test("connections are kept: as many as are needed at once")
def _():
    s3 = server()
    store = Store(s3.url("k"))
    for i in range(100):
        same(store(f"put a{i} 10"), f"a{i} ok")
    assert s3.n_connections <= 2, s3.n_connections
    same(sorted(store.say("puts n 200 1000", 200)), [f"n{i:04d} ok" for i in range(200)])
    assert s3.n_connections <= 130, s3.n_connections
    store.end()


tap.run(cleanup)
