# SPDX-License-Identifier: Apache-2.0
"""Kafka requests byte by byte, for what no client lets a test do: a batch sent twice, two acks at one moment.

Record batches of version 2 without compression, Produce 7 and its answer, a connection. Names are the protocol's."""
import socket, struct, time

PRODUCE, PRODUCE_VERSION, INIT_PRODUCER_ID = 0, 7, 22


def _crc_table():
    table = []
    for n in range(256):
        for _ in range(8):
            n = n >> 1 ^ 0x82f63b78 if n & 1 else n >> 1
        table.append(n)
    return table


_table = _crc_table()


def crc32c(data):
    crc = 0xffffffff
    for byte in data:
        crc = crc >> 8 ^ _table[(crc ^ byte) & 0xff]
    return crc ^ 0xffffffff


def varint(n):
    n = n << 1 ^ n >> 63
    out = bytearray()
    while n >= 0x80:
        out.append(n & 0x7f | 0x80)
        n >>= 7
    return bytes(out + bytes([n]))


def record(delta, value, key=None):
    k = varint(-1) if key is None else varint(len(key)) + key
    body = b"\0" + varint(0) + varint(delta) + k + varint(len(value)) + value + varint(0)
    return varint(len(body)) + body


def batch(values, producer_id=-1, epoch=-1, sequence=-1):
    """One record batch of these values; base offset and leader epoch are the broker's to write."""
    now = int(time.time() * 1000)
    tail = struct.pack(">hiqqqhii", 0, len(values) - 1, now, now, producer_id, epoch, sequence, len(values))
    tail += b"".join(record(i, v) for i, v in enumerate(values))
    return struct.pack(">qiibI", 0, 9 + len(tail), -1, 2, crc32c(tail)) + tail


def string(s):
    return struct.pack(">h", len(s)) + s.encode()


def produce(acks, batches, timeout_ms=30000):
    """The body of a Produce; batches is {(topic, partition): bytes}."""
    body = struct.pack(">hhii", -1, acks, timeout_ms, len(batches))
    for (topic, partition), data in batches.items():
        body += string(topic) + struct.pack(">iii", 1, partition, len(data)) + data
    return body


def produce_parts(body):
    """What a Produce 3 to 8 carries: acks and {(topic, partition): bytes}."""
    at = 2 + max(struct.unpack_from(">h", body)[0], 0)
    acks, _, n_topics = struct.unpack_from(">hii", body, at)
    at, parts = at + 10, {}
    for _ in range(n_topics):
        n = struct.unpack_from(">h", body, at)[0]
        topic, at = body[at + 2:at + 2 + n].decode(), at + 2 + n
        n_parts, at = struct.unpack_from(">i", body, at)[0], at + 4
        for _ in range(n_parts):
            partition, size = struct.unpack_from(">ii", body, at)
            parts[topic, partition], at = body[at + 8:at + 8 + size], at + 8 + size
    return acks, parts


def produce_answer(body):
    """{(topic, partition): (error code, base offset)} of the body of a Produce 5 to 7 answer."""
    n_topics, at, parts = struct.unpack_from(">i", body)[0], 4, {}
    for _ in range(n_topics):
        n = struct.unpack_from(">h", body, at)[0]
        topic, at = body[at + 2:at + 2 + n].decode(), at + 2 + n
        n_parts, at = struct.unpack_from(">i", body, at)[0], at + 4
        for _ in range(n_parts):
            partition, error, base = struct.unpack_from(">ihq", body, at)
            parts[topic, partition], at = (error, base), at + 30
    assert at + 4 == len(body), (at, len(body))
    return parts


class Connection:
    def __init__(self, port, timeout=60):
        self.socket = socket.create_connection(("127.0.0.1", port), timeout)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.correlation_id = 0

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.socket.close()

    def send(self, key, version, body):
        self.correlation_id += 1
        frame = struct.pack(">hhih", key, version, self.correlation_id, -1) + body
        self.socket.sendall(struct.pack(">i", len(frame)) + frame)
        return self.correlation_id

    def _read(self, n):
        data = b""
        while len(data) < n and (piece := self.socket.recv(n - len(data))):
            data += piece
        return data

    def receive(self):
        """(correlation id, body) of the next answer, or None when the connection was closed."""
        head = self._read(4)
        if head == b"":
            return None
        frame = self._read(struct.unpack(">i", head)[0])
        return struct.unpack(">i", frame[:4])[0], frame[4:]

    def produce(self, acks, batches, timeout_ms=30000):
        """Sends a Produce and, but for acks=0, returns its answer by partition."""
        sent = self.send(PRODUCE, PRODUCE_VERSION, produce(acks, batches, timeout_ms))
        if acks == 0:
            return None
        answer = self.receive()
        assert answer is not None and answer[0] == sent, answer
        return produce_answer(answer[1])

    def init_producer_id(self):
        """A new producer id."""
        self.send(INIT_PRODUCER_ID, 0, struct.pack(">hi", -1, 1000))
        _, error, producer_id, epoch = struct.unpack(">ihqh", self.receive()[1])
        assert (error, epoch) == (0, 0), (error, epoch)
        return producer_id
