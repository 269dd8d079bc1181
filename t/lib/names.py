# SPDX-License-Identifier: Apache-2.0
"""What becomes of names, row by row, for every protocol. A row is (words, before, http, kafka, after):

  before  steps over HTTP that set the scene; each must succeed
  http    steps over HTTP with what they must answer; [] when the row has no HTTP side
  kafka   steps of a Kafka client with what they must answer; [] when there is none
  after   {path: Kafka name or None} of all streams then, whichever side was taken; None instead of a
          dictionary: sides differ, or what is there is not listed over HTTP

HTTP steps are (method, path, headers or body, status, Kafka name expected in the answer). Kafka steps are
(call, topic, error code), call one of CreateTopics, Metadata (auto-create), Fetch, DeleteTopics. A test takes the rows that have its side,
each on a node without streams."""
import json

NONE = None
EU, DOTTED = "/orders/eu", "/orders.eu"

ROWS = [
    ("a path gets the Kafka name it spells", [],
     [("PUT", EU, {}, 201, "orders.eu")], [], {EU: "orders.eu"}),
    ("a path that spells no legal Kafka name has none", [],
     [("PUT", "/with%20percent", {}, 201, NONE), ("PUT", "/" + "x" * 250, {}, 201, NONE)], [],
     {"/with%20percent": NONE, "/" + "x" * 250: NONE}),
    ("an explicit Kafka name", [],
     [("PUT", EU, {"Pico-Kafka-Topic": "x"}, 201, "x"), ("PUT", EU, {"Pico-Kafka-Topic": "x"}, 200, "x"),
      ("PUT", EU, {}, 200, "x"), ("PUT", EU, {"Pico-Kafka-Topic": "y"}, 409, NONE)], [], {EU: "x"}),
    ("an explicit Kafka name that is taken: 409, and nothing is created", [("PUT", "/x", {})],
     [("PUT", EU, {"Pico-Kafka-Topic": "x"}, 409, NONE), ("HEAD", EU, {}, 404, NONE)], [], {"/x": "x"}),
    ("an explicit Kafka name that is not legal", [],
     [("PUT", EU, {"Pico-Kafka-Topic": n}, 400, NONE) for n in ("a/b", ".", "..", "x" * 250, "__consumer_offsets")],
     [], {}),
    ("an empty value: no Kafka name", [],
     [("PUT", EU, {"Pico-Kafka-Topic": ""}, 201, NONE), ("PUT", EU, {"Pico-Kafka-Topic": ""}, 200, NONE),
      ("PUT", EU, {"Pico-Kafka-Topic": "x"}, 409, NONE), ("HEAD", EU, {}, 200, NONE)], [], {EU: NONE}),
    ("a path whose Kafka name another has is created without one", [("PUT", EU, {})],
     [("PUT", DOTTED, {}, 201, NONE), ("HEAD", EU, {}, 200, "orders.eu")], [], {EU: "orders.eu", DOTTED: NONE}),
    ("CreateTopics of a Kafka name that is taken", [("PUT", EU, {})],
     [], [("CreateTopics", "orders.eu", 36)], {EU: "orders.eu"}),
    ("CreateTopics where the path exists without a Kafka name", [("PUT", DOTTED, {"Pico-Kafka-Topic": ""})],
     [("PUT", DOTTED, {"Pico-Kafka-Topic": "orders.eu"}, 409, NONE),
      ("PATCH", DOTTED, {"kafkaTopic": "orders.eu"}, 200, "orders.eu")],
     [("CreateTopics", "orders.eu", 36)], None),
    ("what CreateTopics or auto-create makes", [],
     [], [("CreateTopics", "a", 0), ("Metadata", "b", 0)], {"/a": "a", "/b": "b"}),
    ("the type of what Kafka clients make is application/octet-stream",
     [("PUT", "/a", {"Content-Type": "application/octet-stream"})],
     [("PUT", "/a", {"Content-Type": "text/plain"}, 409, NONE),
      ("PUT", "/a", {"Content-Type": "application/octet-stream"}, 200, "a")], [], {"/a": "a"}),
    ("a_b beside a.b", [("PUT", "/a.b", {})],
     [("PUT", "/a_b", {}, 201, "a_b")], [("CreateTopics", "a_b", 0)], {"/a.b": "a.b", "/a_b": "a_b"}),
    ("a Kafka name is moved", [("PUT", EU, {})],
     [("PATCH", EU, {"kafkaTopic": "moved"}, 200, "moved"), ("PUT", DOTTED, {}, 201, "orders.eu")], [],
     {EU: "moved", DOTTED: "orders.eu"}),
    ("a Kafka name is given", [("PUT", EU, {"Pico-Kafka-Topic": ""})],
     [("PATCH", EU, {"kafkaTopic": "given"}, 200, "given")], [], {EU: "given"}),
    ("a Kafka name is taken away; fetches under it are refused", [("PUT", EU, {})],
     [("PATCH", EU, {"kafkaTopic": None}, 200, NONE), ("PATCH", EU, {"kafkaTopic": None}, 200, NONE)], [], {EU: NONE}),
    ("fetches under a name that was moved", [("PUT", EU, {}), ("PATCH", EU, {"kafkaTopic": "moved"})],
     [], [("Fetch", "orders.eu", 3), ("Fetch", "moved", 0)], {EU: "moved"}),
    ("a Kafka name that another has is not given", [("PUT", EU, {}), ("PUT", "/x", {})],
     [("PATCH", EU, {"kafkaTopic": "x"}, 409, NONE), ("HEAD", EU, {}, 200, "orders.eu")], [],
     {EU: "orders.eu", "/x": "x"}),
    ("a Kafka name that is not legal is not given", [("PUT", EU, {})],
     [("PATCH", EU, {"kafkaTopic": n}, 400, NONE) for n in ("a/b", "", ".", "__transaction_state", 7)], [],
     {EU: "orders.eu"}),
    ("a deleted stream's Kafka name is free at once", [("PUT", EU, {})],
     [("DELETE", EU, {}, 204, NONE), ("PUT", DOTTED, {}, 201, "orders.eu")],
     [("DeleteTopics", "orders.eu", 0), ("CreateTopics", "orders.eu", 0)], {DOTTED: "orders.eu"}),
    ("Kafka's own topics", [],
     [("PUT", "/__consumer_offsets", {}, 201, NONE), ("PUT", "/__transaction_state", {}, 201, NONE)],
     [("CreateTopics", "__consumer_offsets", 17), ("CreateTopics", "__transaction_state", 17)], None),
    ("reserved paths are not for HTTP clients; CreateTopics puts them below /_kafka", [],
     [(m, p, {}, 403, NONE) for p in ("/_sys/x", "/_kafka/_schemas", "/__ds/x") for m in ("PUT", "POST", "DELETE")] +
     [("PUT", "/_schemas", {}, 501, NONE), ("PUT", "/_streams/x", {}, 405, NONE)],
     [("CreateTopics", "_schemas", 0)], {}),
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
    for step in row[1]:
        assert http_step(client, step)[0] in (200, 201, 204), step


def names_over_http(client):
    """{path: Kafka name}, as the list, HEAD and GET /_streams agree on."""
    found = {s["name"]: s.get("kafka_topic") for s in client("GET", "/?limit=10000").json()["streams"]}
    for path, alias in found.items():
        settings = client("GET", "/_streams/" + path).json()
        assert client("HEAD", path)["Pico-Kafka-Topic"] == alias, path
        assert (settings["name"], settings["kafkaTopic"]) == (path, alias), settings
    return found
