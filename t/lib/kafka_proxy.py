# SPDX-License-Identifier: Apache-2.0
"""A TCP proxy between Kafka clients and a node that keeps each request with its answer and can lose answers.

The node must advertise the proxy, or clients go past it:

    proxy = kafka_proxy.Proxy()
    n = node.Node("--kafka-advertise=" + proxy.address, kafka=True).start()
    proxy.target = n.kafka_port

Frames are forwarded unchanged and in order, whole frames at a time. It knows of a frame what every version has in
front: key, version, correlation id; what is behind is bytes."""
import collections, socket, struct, threading

PRODUCE, FETCH, LIST_OFFSETS, METADATA, API_VERSIONS, INIT_PRODUCER_ID = 0, 1, 2, 3, 18, 22

# What becomes of a request that was forwarded to the node (Proxy.lose):
SWALLOW = "swallow"     # this answer and all behind it are thrown away (TCP loses none out of the middle), the connection
                        # stays: the client runs into its time limit
CUT = "cut"             # the node's answer is awaited, then the connection is closed instead of handing it on
CUT_EARLY = "cut early"  # the client's connection is closed at once; the node keeps its own until it has answered
LONGEST = 128 << 20


class Exchange:
    """One request and what came of it. request and response are frames without their length; response is None while
    there is none (acks=0 never has one). fate is what lose() did to it, or None."""

    def __init__(self, connection, frame):
        self.connection = connection
        self.key, self.version, self.correlation_id = struct.unpack(">hhi", frame[:8])
        self.request, self.response, self.fate = frame, None, None

    def __repr__(self):
        return f"<{self.connection}: key {self.key} v{self.version} id {self.correlation_id} {self.fate or ''}>"


def read_frame(sock):
    """The next frame without its length, or None at the end of the stream."""
    head = _read(sock, 4)
    if head is None:
        return None
    n = struct.unpack(">i", head)[0]
    assert 0 <= n <= LONGEST, n
    return _read(sock, n)


def _read(sock, n):
    data = bytearray()
    while len(data) < n:
        piece = sock.recv(min(n - len(data), 1 << 20))
        if not piece:
            return None
        data += piece
    return bytes(data)


def _send(sock, frame):
    sock.sendall(struct.pack(">i", len(frame)) + frame)


def _end(sock, how=socket.SHUT_RDWR):
    try:
        sock.shutdown(how)
    except OSError:
        pass


class Proxy:
    def __init__(self, target=None):
        self.target = target                    # the node's port; may be set later, before the first client
        self.exchanges = []                     # all requests in the order they were forwarded
        self._lock = threading.Lock()
        self._faults = []                       # [how many to go, key, fate]
        self._sockets = set()
        self._n_connections = 0
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=128)
        self.port = self._listener.getsockname()[1]
        self.address = f"127.0.0.1:{self.port}"
        threading.Thread(target=self._accept, daemon=True).start()

    def of(self, key):
        """The requests of one API so far."""
        with self._lock:
            return [e for e in self.exchanges if e.key == key]

    def clear(self):
        with self._lock:
            self.exchanges = []

    def lose(self, nth, fate, key=PRODUCE):
        """The nth request with this key from now on (1: the next) is forwarded and meets its fate. May be called
        several times; faults() tells how many are still to come."""
        with self._lock:
            self._faults.append([nth, key, fate])

    def faults(self):
        with self._lock:
            return len(self._faults)

    def cut_all(self):
        """Closes every connection."""
        with self._lock:
            for s in self._sockets:
                _end(s)

    def close(self):
        _end(self._listener)
        self._listener.close()
        self.cut_all()

    def _accept(self):
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client):
        try:
            server = socket.create_connection(("127.0.0.1", self.target), 10)
        except OSError:
            client.close()                      # the node is down: so are we
            return
        server.settimeout(None)
        for s in (client, server):
            s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        waiting = collections.OrderedDict()     # correlation id -> Exchange
        with self._lock:
            self._n_connections += 1
            number = self._n_connections
            self._sockets |= {client, server}
        back = threading.Thread(target=self._answers, args=(client, server, waiting), daemon=True)
        back.start()
        self._requests(client, server, waiting, number)
        back.join()
        with self._lock:
            self._sockets -= {client, server}
        client.close()
        server.close()

    def _requests(self, client, server, waiting, number):
        try:
            while (frame := read_frame(client)) is not None:
                e = Exchange(number, frame)
                with self._lock:
                    e.fate = self._fate(e.key)
                    self.exchanges.append(e)
                    waiting[e.correlation_id] = e
                _send(server, frame)
                if e.fate == CUT_EARLY:
                    _end(client)
        except (OSError, AssertionError, struct.error):
            _end(client)
        _end(server, socket.SHUT_WR)

    def _fate(self, key):
        for f in self._faults:
            if f[1] == key:
                f[0] -= 1
        due = [f for f in self._faults if f[0] <= 0]
        for f in due:
            self._faults.remove(f)
        return due[0][2] if due else None

    def _answers(self, client, server, waiting):
        mute = False
        try:
            while (frame := read_frame(server)) is not None:
                with self._lock:
                    e = waiting.pop(struct.unpack(">i", frame[:4])[0], None)
                    if e is not None:
                        e.response = frame
                fate = e.fate if e is not None else None
                if fate in (CUT, CUT_EARLY):
                    break
                mute |= fate == SWALLOW
                if not mute:
                    _send(client, frame)
        except (OSError, AssertionError, struct.error):
            pass
        _end(client)
        _end(server)
