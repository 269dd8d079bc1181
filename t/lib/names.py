# SPDX-License-Identifier: Apache-2.0
"""What becomes of names, row by row, for every protocol:

  words   what the row shows
  before  steps over HTTP that set the scene; each must succeed
  http    steps of an HTTP client; [] when the row has no HTTP side
  kafka   steps of a Kafka client, with steps over HTTP between them where both meet; [] when there is none
  after   {path: Kafka name or None} of all streams then, whichever side was taken
  after_kafka  the same behind the Kafka side where that differs
  hidden  Kafka names that exist behind the Kafka side and are not HTTP's to see

An HTTP step is (method, path, headers or body, status, Kafka name expected in the answer). A Kafka step is
(call, topic, error code) or (call, topic, error code, text of the error): CreateTopics, DeleteTopics, Fetch, Metadata, or
AutoCreate, which is a Metadata that makes what it asks for. (TopicId, topic, letter): equal letters of a row are one topic id,
different ones are two.

A test takes the sides that it can speak, each on a node without streams, and compares what every protocol lists."""
import collections, json

NONE = None
EU, DOTTED = "/orders/eu", "/orders.eu"
OCTETS = {"Content-Type": "application/octet-stream"}
RESERVED = ["_sys", "_schemas", "_streams", "_groups", "_kafka", "__ds"]
ILLEGAL = ["a/b", "a b", ".", "..", "x" * 250, "\u00e4"]

Row = collections.namedtuple("Row", "words before http kafka after after_kafka hidden", defaults=(None, []))

ROWS = [
    Row("a path gets the Kafka name it spells", [],
        [("PUT", EU, {}, 201, "orders.eu")], [], {EU: "orders.eu"}),
    Row("a path that spells no legal Kafka name has none", [],
        [("PUT", "/with%20percent", {}, 201, NONE), ("PUT", "/" + "x" * 250, {}, 201, NONE)], [],
        {"/with%20percent": NONE, "/" + "x" * 250: NONE}),
    Row("an explicit Kafka name", [],
        [("PUT", EU, {"Pico-Kafka-Topic": "x"}, 201, "x"), ("PUT", EU, {"Pico-Kafka-Topic": "x"}, 200, "x"),
         ("PUT", EU, {}, 200, "x"), ("PUT", EU, {"Pico-Kafka-Topic": "y"}, 409, NONE)],
        [("PUT", EU, {"Pico-Kafka-Topic": "x"}, 201, "x"), ("Fetch", "x", 0), ("Fetch", "orders.eu", 3),
         ("CreateTopics", "x", 36)], {EU: "x"}),
    Row("an explicit Kafka name that is taken: 409, and nothing is created", [("PUT", "/x", {})],
        [("PUT", EU, {"Pico-Kafka-Topic": "x"}, 409, NONE), ("HEAD", EU, {}, 404, NONE)],
        [("CreateTopics", "k", 0), ("PUT", EU, {"Pico-Kafka-Topic": "k"}, 409, NONE), ("HEAD", EU, {}, 404, NONE)],
        {"/x": "x"}, {"/x": "x", "/k": "k"}),
    Row("an explicit Kafka name that is not legal", [],
        [("PUT", EU, {"Pico-Kafka-Topic": n}, 400, NONE) for n in ("a/b", ".", "..", "x" * 250, "__consumer_offsets")],
        [(call, n, 17) for n in ILLEGAL for call in ("CreateTopics", "AutoCreate")], {}),
    Row("an empty value: no Kafka name", [],
        [("PUT", EU, {"Pico-Kafka-Topic": ""}, 201, NONE), ("PUT", EU, {"Pico-Kafka-Topic": ""}, 200, NONE),
         ("PUT", EU, {"Pico-Kafka-Topic": "x"}, 409, NONE), ("HEAD", EU, {}, 200, NONE)],
        [("PUT", EU, {"Pico-Kafka-Topic": ""}, 201, NONE), ("Fetch", "orders.eu", 3), ("DeleteTopics", "orders.eu", 3)],
        {EU: NONE}),
    Row("a path whose Kafka name another has is created without one", [("PUT", EU, {})],
        [("PUT", DOTTED, {}, 201, NONE), ("HEAD", EU, {}, 200, "orders.eu")], [], {EU: "orders.eu", DOTTED: NONE}),
    Row("CreateTopics of a Kafka name that is taken", [("PUT", EU, {})],
        [], [("CreateTopics", "orders.eu", 36), ("AutoCreate", "orders.eu", 0)], {EU: "orders.eu"}),
    Row("CreateTopics where the path exists without a Kafka name", [("PUT", DOTTED, {"Pico-Kafka-Topic": ""})],
        [("PUT", DOTTED, {"Pico-Kafka-Topic": "orders.eu"}, 409, NONE),
         ("PATCH", DOTTED, {"kafkaTopic": "orders.eu"}, 200, "orders.eu")],
        [("CreateTopics", "orders.eu", 36, "exists without a Kafka name; PATCH /_streams/orders.eu"),
         ("AutoCreate", "orders.eu", 3)], {DOTTED: "orders.eu"}, {DOTTED: NONE}),
    Row("what CreateTopics or auto-create makes", [],
        [], [("CreateTopics", "a", 0), ("AutoCreate", "b", 0), ("HEAD", "/a", {}, 200, "a"), ("HEAD", "/b", {}, 200, "b")],
        {"/a": "a", "/b": "b"}),
    Row("the type of what Kafka clients make is application/octet-stream", [],
        [("PUT", "/a", OCTETS, 201, "a"), ("PUT", "/a", {"Content-Type": "text/plain"}, 409, NONE),
         ("PUT", "/a", OCTETS, 200, "a")],
        [(call, name, 0) if step is None else (step[0], "/" + name, *step[1:-1], step[-1] and name)
         for call, name in (("CreateTopics", "a"), ("AutoCreate", "b"))
         for step in (None, ("PUT", {"Content-Type": "text/plain"}, 409, NONE), ("PUT", {}, 200, True), ("PUT", OCTETS, 200, True))],
        {"/a": "a"}, {"/a": "a", "/b": "b"}),
    Row("a_b beside a.b", [("PUT", "/a.b", {})],
        [("PUT", "/a_b", {}, 201, "a_b")], [("CreateTopics", "a_b", 0)], {"/a.b": "a.b", "/a_b": "a_b"}),
    Row("a Kafka name is moved; the topic id stays", [("PUT", EU, {})],
        [("PATCH", EU, {"kafkaTopic": "moved"}, 200, "moved"), ("PUT", DOTTED, {}, 201, "orders.eu")],
        [("TopicId", "orders.eu", "A"), ("PATCH", EU, {"kafkaTopic": "moved"}, 200, "moved"), ("TopicId", "moved", "A"),
         ("CreateTopics", "orders.eu", 0), ("TopicId", "orders.eu", "B"), ("TopicId", "moved", "A")],
        {EU: "moved", DOTTED: "orders.eu"}),
    Row("a Kafka name is given", [("PUT", EU, {"Pico-Kafka-Topic": ""})],
        [("PATCH", EU, {"kafkaTopic": "given"}, 200, "given")],
        [("Fetch", "given", 3), ("PATCH", EU, {"kafkaTopic": "given"}, 200, "given"), ("Metadata", "given", 0), ("Fetch", "given", 0),
         ("CreateTopics", "given", 36)], {EU: "given"}),
    Row("a Kafka name is taken away; fetches under it are refused", [("PUT", EU, {})],
        [("PATCH", EU, {"kafkaTopic": None}, 200, NONE), ("PATCH", EU, {"kafkaTopic": None}, 200, NONE)],
        [("Fetch", "orders.eu", 0), ("TopicId", "orders.eu", "A"), ("PATCH", EU, {"kafkaTopic": None}, 200, NONE),
         ("Metadata", "orders.eu", 3), ("Fetch", "orders.eu", 3), ("DeleteTopics", "orders.eu", 3),
         ("PATCH", EU, {"kafkaTopic": "back"}, 200, "back"), ("TopicId", "back", "A"),
         ("PATCH", EU, {"kafkaTopic": None}, 200, NONE)], {EU: NONE}),
    Row("fetches under a name that was moved", [("PUT", EU, {})],
        [], [("Fetch", "orders.eu", 0), ("PATCH", EU, {"kafkaTopic": "moved"}, 200, "moved"), ("Metadata", "orders.eu", 3),
             ("Fetch", "orders.eu", 3), ("Fetch", "moved", 0)], {EU: "moved"}),
    Row("a Kafka name that another has is not given", [("PUT", EU, {}), ("PUT", "/x", {})],
        [("PATCH", EU, {"kafkaTopic": "x"}, 409, NONE), ("HEAD", EU, {}, 200, "orders.eu")],
        [("CreateTopics", "k", 0), ("PATCH", EU, {"kafkaTopic": "k"}, 409, NONE), ("Fetch", "orders.eu", 0)],
        {EU: "orders.eu", "/x": "x"}, {EU: "orders.eu", "/x": "x", "/k": "k"}),
    Row("a Kafka name that is not legal is not given", [("PUT", EU, {})],
        [("PATCH", EU, {"kafkaTopic": n}, 400, NONE) for n in ("a/b", "", ".", "__transaction_state", 7)], [],
        {EU: "orders.eu"}),
    Row("a deleted topic's Kafka name is free at once; a new topic has a new id", [("PUT", EU, {})],
        [("DELETE", EU, {}, 204, NONE), ("PUT", DOTTED, {}, 201, "orders.eu")],
        [("TopicId", "orders.eu", "A"), ("DeleteTopics", "orders.eu", 0), ("HEAD", EU, {}, 404, NONE),
         ("DeleteTopics", "orders.eu", 3), ("Metadata", "orders.eu", 3), ("Fetch", "orders.eu", 3),
         ("CreateTopics", "orders.eu", 0), ("TopicId", "orders.eu", "B"), ("DELETE", DOTTED, {}, 204, NONE),
         ("Metadata", "orders.eu", 3), ("AutoCreate", "orders.eu", 0), ("TopicId", "orders.eu", "C")], {DOTTED: "orders.eu"}),
    Row("Kafka's own topics", [],
        [("PUT", "/__consumer_offsets", {}, 201, NONE), ("PUT", "/__transaction_state", {}, 201, NONE)],
        [(call, n, 17) for n in ("__consumer_offsets", "__transaction_state") for call in ("CreateTopics", "AutoCreate")],
        {"/__consumer_offsets": NONE, "/__transaction_state": NONE}, {}),
    Row("reserved paths are not for HTTP clients; CreateTopics and auto-create put them below /_kafka", [],
        [(m, p, {}, 403, NONE) for p in ("/_sys/x", "/_kafka/_schemas", "/__ds/x") for m in ("PUT", "POST", "DELETE")] +
        [("PUT", "/_schemas", {}, 501, NONE), ("PUT", "/_streams/x", {}, 405, NONE)],
        [(call, n, code) for n in RESERVED
         for call, code in (("AutoCreate" if n[1] == "_" else "CreateTopics", 0), ("CreateTopics", 36), ("Fetch", 0))] +
        [("PUT", "/_kafka/_schemas", {}, 403, NONE)], {}, None, RESERVED),
]


def http_step(client, step):
    """(status, Kafka name) of one step."""
    method, path, more = step[:3]
    if method == "PATCH":
        a = client("PATCH", "/_streams/" + path, json.dumps(more).encode())
        return a.status, a.json()["kafkaTopic"] if a.status == 200 else None
    a = client(method, path, b"x" if method == "POST" else None, **more)
    return a.status, a["Pico-Kafka-Topic"]


def prepare(client, row):
    for s in client("GET", "/?limit=10000").json()["streams"]:
        assert client("DELETE", s["name"]).status == 204, s
    for step in row.before:
        assert http_step(client, step)[0] in (200, 201, 204), step


def names_over_http(client):
    """{path: Kafka name}, as the list, HEAD and GET /_streams agree on."""
    found = {s["name"]: s.get("kafka_topic") for s in client("GET", "/?limit=10000").json()["streams"]}
    for path, alias in found.items():
        settings = client("GET", "/_streams/" + path).json()
        assert client("HEAD", path)["Pico-Kafka-Topic"] == alias, path
        assert (settings["name"], settings["kafkaTopic"]) == (path, alias), settings
    return found
