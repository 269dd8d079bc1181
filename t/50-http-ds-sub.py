#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Subscriptions of Durable Streams: webhooks with signatures, retries and fences; pull-wake with claims and leases; both over
kills of the node."""
import base64, http.server, json, os, queue, subprocess, tempfile, threading, time

import tap
from ds import Streams, offset
from node import Node

JSON = "application/json"
node = Node(ds=True)
ds = Streams(node)
BASE = "/v1/stream/__ds"


def api(method, path, status, body=None, token=None):
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    a = node.ds(method, BASE + path, None if body is None else json.dumps(body).encode(), Content_Type=JSON, **headers)
    tap.same(a.status, status, f"{method} {path} {body} {a.body}")
    return a.json() if a.body else None


def code(answer):
    return answer["error"]["code"]


class Receiver:
    """A subscriber: each POST comes out of `got`, and is answered with the next of `answers`, else 200 {}."""

    def __init__(self):
        self.got, self.answers = queue.Queue(), queue.Queue()
        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self):
                body = self.rfile.read(int(self.headers["Content-Length"]))
                outer.got.put((body, self.headers["Webhook-Signature"], self.path))
                status, answer = outer.answers.get_nowait() if not outer.answers.empty() else (200, b"{}")
                self.send_response(status)
                self.send_header("Content-Length", str(len(answer)))
                if status == 302:
                    self.send_header("Location", "/elsewhere")
                self.end_headers()
                self.wfile.write(answer)

            def log_message(self, *_):
                pass
        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}/hook"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def next(self, seconds=30):
        body, signature, path = self.got.get(timeout=seconds)
        return json.loads(body)

    def nothing(self, seconds):
        try:
            body, _, _ = self.got.get(timeout=seconds)
        except queue.Empty:
            return
        raise AssertionError(body)


def hook(id, receiver, status=201, **more):
    more = {"pattern": "e/*", **more}
    return api("PUT", f"/subscriptions/{id}", status, {"type": "webhook", "webhook": {"url": receiver.url}, "lease_ttl_ms": 1000, **more})


def stream_of(message, path):
    return [s for s in message["streams"] if s["path"] == path][0]


def acked(id, path):
    return [s["acked_offset"] for s in api("GET", f"/subscriptions/{id}", 200)["streams"] if s["path"] == path]


def verifies(body, signature):
    fields = dict(part.split("=", 1) for part in signature.split(","))
    key = [k for k in api("GET", "/jwks.json", 200)["keys"] if k["kid"] == fields["kid"]][0]

    def decode(text):
        return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
    with tempfile.TemporaryDirectory() as d:
        for name, data in (("key", bytes.fromhex("302a300506032b6570032100") + decode(key["x"])), ("sig", decode(fields["ed25519"])),
                           ("text", fields["t"].encode() + b"." + body)):
            with open(os.path.join(d, name), "wb") as f:
                f.write(data)
        r = subprocess.run(["openssl", "pkeyutl", "-verify", "-pubin", "-inkey", "key", "-keyform", "DER", "-rawin", "-in", "text",
                            "-sigfile", "sig"], cwd=d, capture_output=True)
    return abs(int(fields["t"]) - time.time()) < 300 and r.returncode == 0


@tap.test("create, the same again, another one; what is refused; delete")
def _():
    node.start()
    r = Receiver()
    a = hook("s1", r, description="d")
    tap.same((a["id"], a["type"], a["pattern"], a["lease_ttl_ms"], a["description"], a["webhook"]["url"], a["streams"]),
             ("s1", "webhook", "e/*", 1000, "d", r.url, []))
    tap.same((a["webhook"]["signing"]["alg"], a["webhook"]["signing"]["jwks_url"]),
             ("ed25519", f"http://127.0.0.1:{node.ds_port}{BASE}/jwks.json"))
    assert "secret" not in json.dumps(a) and "token" not in json.dumps(a), a
    hook("s1", r, 200, description="d")
    tap.same(code(hook("s1", r, 409, description="other")), "CONFLICT")
    tap.same(api("GET", "/subscriptions/s1", 200), a)
    for body in ({}, {"type": "x"}, {"type": "webhook", "pattern": "a"}, {"type": "webhook", "webhook": {"url": r.url}},
                 {"type": "pull-wake", "pattern": "a"}, {"type": "webhook", "webhook": {"url": r.url}, "pattern": ""},
                 {"type": "webhook", "webhook": {"url": r.url}, "pattern": "a", "lease_ttl_ms": 999},
                 {"type": "webhook", "webhook": {"url": r.url}, "pattern": "a", "lease_ttl_ms": "1000"},
                 {"type": "webhook", "webhook": {"url": r.url}, "streams": ["/a"]}, {"type": "webhook", "webhook": {"url": r.url}, "streams": [1]},
                 {"type": "webhook", "webhook": {"url": r.url}, "streams": ["_sys/x"]}, []):
        tap.same(code(api("PUT", "/subscriptions/bad", 400, body)), "INVALID_REQUEST", body)
    for url in ("http://10.0.0.1/", "http://192.168.1.1/x", "https://169.254.169.254/", "http://example.com/", "ftp://127.0.0.1/",
                "https://user@example.com/", "https://[fe80::1]/", "https://[::ffff:10.0.0.1]/", "https://0.0.0.0/", "http://2130706433/"):
        body = {"type": "webhook", "pattern": "a", "webhook": {"url": url}}
        tap.same(code(api("PUT", "/subscriptions/bad", 400, body)), "WEBHOOK_URL_REJECTED", url)
    tap.same(node.ds("PUT", BASE + "/subscriptions/a%20b", b"{}").status, 400)
    for method, path in (("GET", "/subscriptions/none"), ("DELETE", "/subscriptions/none"), ("POST", "/subscriptions/none/ack"),
                         ("GET", "/x"), ("POST", "/subscriptions/s1/x"), ("PUT", "/jwks.json")):
        api(method, path, 404, {} if method == "POST" else None)
    api("DELETE", "/subscriptions/s1", 204)
    api("GET", "/subscriptions/s1", 404)
    a = node.ds("GET", "/__ds/jwks.json")
    tap.same((a.status, a["content-type"], a["cache-control"]), (200, "application/jwk-set+json", "public, max-age=300"))


@tap.test("webhook: streams that were there from their end, new ones from their start; signed; done acknowledges what was there")
def _():
    r = Receiver()
    ds.put("/e/old", body=b"before")
    hook("done", r)
    r.nothing(1)
    ds.post("/e/old", b"news")
    r.answers.put((200, b'{"done":true}'))
    body, signature, path = r.got.get(timeout=30)
    m = json.loads(body)
    tap.same((verifies(body, signature), verifies(body + b" ", signature), path), (True, False, "/hook"))
    tap.same((m["subscription_id"], m["callback_url"]),
             ("done", f"http://127.0.0.1:{node.ds_port}{BASE}/subscriptions/done/callback"))
    tap.same(stream_of(m, "e/old"), {"path": "e/old", "link_type": "glob", "acked_offset": offset(1), "tail_offset": offset(2), "has_pending": True})
    tap.until(lambda: acked("done", "e/old") == [offset(2)], 30, "acknowledged")
    r.answers.put((200, b'{"done":true}'))
    ds.put("/e/new", body=b"first")
    ds.put("/e/deeper/not", body=b"x")
    m = r.next()
    tap.same((stream_of(m, "e/new")["acked_offset"], stream_of(m, "e/new")["tail_offset"]), (offset(0), offset(1)))
    tap.same([s["path"] for s in m["streams"]], ["e/old", "e/new"])
    tap.until(lambda: acked("done", "e/new") == [offset(1)], 30, "acknowledged")
    r.nothing(1)
    ds.delete("/e/new")
    tap.until(lambda: acked("done", "e/new") == [], 30, "gone with its stream")
    api("DELETE", "/subscriptions/done", 204)


@tap.test("webhook: failures are told again, later and later, over a kill of the node; a redirect is a failure")
def _():
    r = Receiver()
    for answer in (500, b"no"), (302, b""), (404, b""):
        r.answers.put(answer)
    hook("retry", r, pattern="r/**")
    ds.put("/r/a/b/c", body=b"x")
    began = time.monotonic()
    first = r.next()
    tap.same(stream_of(first, "r/a/b/c")["has_pending"], True)
    second = r.next()
    assert 0.7 < time.monotonic() - began < 30 and second["generation"] > first["generation"], (first, second)
    api("POST", "/subscriptions/retry/callback", 409, {"generation": first["generation"], "wake_id": first["wake_id"], "done": True},
        first["callback_token"])
    node.kill_all()
    node.start()
    r.next(60)
    r.answers.put((200, b'{"done": true}'))
    r.next(60)
    tap.until(lambda: acked("retry", "r/a/b/c") == [offset(1)], 30, "acknowledged")
    tap.same(r.got.empty() and not any("elsewhere" in path for _, _, path in r.got.queue), True)
    api("DELETE", "/subscriptions/retry", 204)


@tap.test("callback: acknowledges, keeps the lease, ends it; the wrong generation, wake or token is kept out; a lease that is over wakes again")
def _():
    r = Receiver()
    hook("call", r, pattern="c/*")
    ds.put("/c/a", body=b"1")
    m = r.next()
    ds.post("/c/a", b"2")
    url, ok = "/subscriptions/call/callback", {"generation": m["generation"], "wake_id": m["wake_id"]}

    def callback(status, token=m["callback_token"], **more):
        return api("POST", url, status, {**ok, **more}, token)
    tap.same(code(callback(401, token=None)), "UNAUTHORIZED")
    tap.same(code(callback(401, token="x")), "UNAUTHORIZED")
    tap.same(code(callback(409, generation=m["generation"] + 1)), "FENCED")
    tap.same(code(callback(409, wake_id="x")), "FENCED")
    tap.same(code(api("POST", url, 409, {}, m["callback_token"])), "FENCED")
    tap.same(code(callback(409, acks=[{"stream": "c/a", "offset": offset(3)}])), "INVALID_OFFSET")
    tap.same(code(callback(409, acks=[{"stream": "c/b", "offset": offset(1)}])), "INVALID_OFFSET")
    tap.same(callback(200, acks=[{"stream": "c/a", "offset": offset(1)}]), {"ok": True, "next_wake": False})
    tap.same(code(callback(409, acks=[{"stream": "c/a", "offset": offset(0)}])), "INVALID_OFFSET")
    end = time.monotonic() + 2.5
    while time.monotonic() < end:
        callback(200)
        time.sleep(0.2)
    tap.same(r.got.empty(), True, "nobody else is woken while the lease is kept")
    again = r.next()
    tap.same((stream_of(again, "c/a")["acked_offset"], again["generation"] > m["generation"]), (offset(1), True))
    tap.same(code(callback(409)), "FENCED")
    ok, token = {"generation": again["generation"], "wake_id": again["wake_id"]}, again["callback_token"]
    tap.same(callback(200, token=token, done=True), {"ok": True, "next_wake": True})
    tap.same(code(callback(409, token=token, done=True)), "FENCED")
    r.answers.put((200, b'{"done":true}'))
    r.next()
    tap.until(lambda: acked("call", "c/a") == [offset(2)], 30, "acknowledged")
    api("DELETE", "/subscriptions/call", 204)


@tap.test("pull-wake: an event in the wake stream; one holder; acks, release, a lease that is over; over a kill of worker-hook")
def _():
    ds.put("/wake", body=b"[]", Content_Type=JSON)
    ds.put("/p/x", body=b"old")
    api("PUT", "/subscriptions/pull", 201, {"type": "pull-wake", "streams": ["p/x", "p/later"], "wake_stream": "wake", "lease_ttl_ms": 1000})
    tap.same(code(api("POST", "/subscriptions/pull/claim", 409, {"worker": "w"})), "NO_PENDING_WORK")
    api("POST", "/subscriptions/pull/claim", 400, {})
    ds.post("/p/x", b"new")
    event = tap.until(lambda: ds.get("/wake").json(), 30, "an event")[0]
    tap.same((event["type"], event["subscription_id"], stream_of(event, "p/x")["tail_offset"]), ("wake", "pull", offset(2)))
    c = api("POST", "/subscriptions/pull/claim", 200, {"worker": "w1"})
    tap.same((c["wake_id"], c["generation"], c["lease_ttl_ms"]), (event["wake_id"], event["generation"], 1000))
    busy = api("POST", "/subscriptions/pull/claim", 409, {"worker": "w2"})
    tap.same((code(busy), busy["error"]["current_holder"]), ("ALREADY_CLAIMED", "w1"))
    wake = {"wake_id": c["wake_id"], "generation": c["generation"]}
    api("POST", "/subscriptions/pull/release", 204, wake, c["token"])
    tap.same(code(api("POST", "/subscriptions/pull/ack", 409, wake, c["token"])), "FENCED")
    n = len(ds.get("/wake").json())
    tap.until(lambda: len(ds.get("/wake").json()) > n, 30, "woken again")
    c = api("POST", "/subscriptions/pull/claim", 200, {"worker": "w2"})
    tap.until(lambda: node.ds("POST", BASE + "/subscriptions/pull/claim", b'{"worker":"w3"}').status == 200, 30, "the lease is over")
    wake = {"wake_id": c["wake_id"], "generation": c["generation"]}
    tap.same(api("POST", "/subscriptions/pull/ack", 409, wake, c["token"])["error"]["code"], "FENCED")
    node.kill("worker-hook")
    ds.put("/p/later", body=b"l")
    tap.until(lambda: [e for e in ds.get("/wake").json() if any(s["path"] == "p/later" and s["has_pending"] for s in e["streams"])], 60, "seen")
    c = tap.until(lambda: (a := node.ds("POST", BASE + "/subscriptions/pull/claim", b'{"worker":"w4"}')).status == 200 and a.json(), 30, "claimed")
    acks = [{"stream": s["path"], "offset": s["tail_offset"]} for s in c["streams"]]
    wake = {"wake_id": c["wake_id"], "generation": c["generation"], "acks": acks, "done": True}
    tap.same(api("POST", "/subscriptions/pull/ack", 200, wake, c["token"]), {"ok": True, "next_wake": False})
    api("POST", "/subscriptions/pull/streams", 204, {"streams": ["p/x", "p/y"]})
    api("POST", "/subscriptions/pull/streams", 400, {"streams": []})
    api("DELETE", "/subscriptions/pull/streams/p%2Fy", 204)
    api("DELETE", "/subscriptions/pull/streams/p%2Fy", 404)
    tap.same([s["path"] for s in api("GET", "/subscriptions/pull", 200)["streams"]], ["p/x", "p/later"])
    tap.same(acked("pull", "p/x"), [offset(2)])


tap.run(node.stop)
