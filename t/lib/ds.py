# SPDX-License-Identifier: Apache-2.0
"""A client of Durable Streams for tests: each call checks its status, and a reader of server-sent events."""
import json, socket

import tap

TEXT = "text/plain"


class Streams:
    def __init__(self, node, root="/v1/stream"):
        self.node, self.root = node, root

    def __call__(self, method, name, status, body=None, **headers):
        a = self.node.ds(method, self.root + name, body, **headers)
        tap.same(a.status, status, f"{method} {name} {headers} {a.body[:300]}")
        tap.same(a["x-content-type-options"], "nosniff", "on every answer")
        return a

    def put(self, name, status=201, body=None, **headers):
        headers.setdefault("Content_Type", TEXT)
        return self("PUT", name, status, body, **headers)

    def post(self, name, body=b"x", status=204, **headers):
        headers.setdefault("Content_Type", TEXT)
        return self("POST", name, status, body, **headers)

    def close(self, name, status=204, **headers):
        return self("POST", name, status, b"", Stream_Closed="true", **headers)

    def get(self, name, status=200, **headers):
        return self("GET", name, status, **headers)

    def head(self, name, status=200):
        return self("HEAD", name, status)

    def delete(self, name, status=204):
        return self("DELETE", name, status)

    def produce(self, name, id, epoch, seq, status, body=b"p", **headers):
        return self.post(name, body, status, Producer_Id=id, Producer_Epoch=epoch, Producer_Seq=seq, **headers)


def offset(n):
    return f"{n:020d}"


class Events:
    """Server-sent events of one GET, over a socket of its own. Iterating ends with the answer."""

    def __init__(self, port, path, timeout=60, **headers):
        self.socket = socket.create_connection(("127.0.0.1", port), timeout)
        more = "".join(f"{k.replace('_', '-')}: {v}\r\n" for k, v in headers.items())
        self.socket.sendall(f"GET {path} HTTP/1.1\r\nHost: x\r\n{more}\r\n".encode())
        self.raw, self.text, self.ended, self.id = b"", b"", False, None
        self.comments = 0
        while b"\r\n\r\n" not in self.raw:
            self._more()
        head, self.raw = self.raw.split(b"\r\n\r\n", 1)
        lines = head.decode().split("\r\n")
        self.status = int(lines[0].split()[1])
        self.headers = {k.lower(): v for k, v in (line.split(": ", 1) for line in lines[1:])}

    def _more(self):
        data = self.socket.recv(65536)
        assert data, "the connection was cut"
        self.raw += data

    def _chunk(self):
        while True:
            line, sep, rest = self.raw.partition(b"\r\n")
            if sep and len(rest) >= (n := int(line, 16)) + 2:
                self.text, self.raw, self.ended = self.text + rest[:n], rest[n + 2:], n == 0
                return
            self._more()

    def next(self):
        """(event, data) of the next one, comments left out; None at the end."""
        while True:
            block, sep, rest = self.text.partition(b"\n\n")
            if sep:
                self.text = rest
                lines = [line for line in block.split(b"\n") if not line.startswith(b":")]
                if not lines:
                    self.comments += 1
                    continue
                fields = [line.partition(b":") for line in lines]
                data = b"\n".join(v[1:] if v.startswith(b" ") else v for k, _, v in fields if k == b"data")
                self.id = next((v.strip().decode() for k, _, v in fields if k == b"id"), None)
                return [v.strip().decode() for k, _, v in fields if k == b"event"][0], data
            if self.ended:
                return None
            self._chunk()

    def pair(self):
        """The data of an event and what the control event behind it says; data is None where control stands alone."""
        event = self.next()
        if event is None:
            return None
        name, data = event
        if name == "control":
            return None, json.loads(data)
        tap.same(name, "data")
        name, control = self.next()
        tap.same(name, "control", "behind each data event")
        return data, json.loads(control)

    def close(self):
        self.socket.close()
