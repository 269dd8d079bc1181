# SPDX-License-Identifier: Apache-2.0
"""node.Client over HTTP/2 by prior knowledge, or over TLS with an ssl.SSLContext: python3-h2, a real client's state
machine, on a socket. One request at a time."""
import socket, sys

sys.path.append("/usr/lib/python3/dist-packages")
import h2.config, h2.connection, h2.events  # noqa: E402


class Client:
    def __init__(self, port, timeout=60, host="127.0.0.1", context=None):
        self.host, self.port, self.timeout, self.context, self.sock = host, port, timeout, context, None

    def connect(self):
        self.sock = socket.create_connection((self.host, self.port), timeout=self.timeout)
        if self.context is not None:
            self.context.set_alpn_protocols(["h2"])
            self.sock = self.context.wrap_socket(self.sock, server_hostname=self.host)
            assert self.sock.selected_alpn_protocol() == "h2", self.sock.selected_alpn_protocol()
        self.h2 = h2.connection.H2Connection(h2.config.H2Configuration(header_encoding="latin-1"))
        self.h2.initiate_connection()
        self.flush()

    def flush(self):
        self.sock.sendall(self.h2.data_to_send())

    def send_body(self, stream, body):
        while body:
            n = min(self.h2.local_flow_control_window(stream), self.h2.max_outbound_frame_size, len(body))
            if n > 0:
                self.h2.send_data(stream, body[:n])
                body = body[n:]
            self.flush()
            if n == 0 and self.take(stream):
                return
        self.h2.end_stream(stream)
        self.flush()

    def take(self, stream):
        """Events of one read; true when the answer is whole."""
        data = self.sock.recv(65536)
        if not data:
            raise ConnectionError("the connection ended")
        for event in self.h2.receive_data(data):
            if isinstance(event, h2.events.ResponseReceived):
                self.fields = [(k.lower(), v) for k, v in event.headers]
            elif isinstance(event, h2.events.DataReceived):
                self.body += event.data
                self.h2.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
            elif isinstance(event, h2.events.StreamEnded):
                self.ended = True
            elif isinstance(event, h2.events.StreamReset):
                if not self.ended:
                    raise ConnectionError(f"the stream was reset: {event.error_code}")
            elif isinstance(event, h2.events.ConnectionTerminated):
                self.going = True
        self.flush()
        return self.ended

    def __call__(self, method, path, body=None, **headers):
        from node import Answer
        if self.sock is None:
            self.connect()
        try:
            self.fields, self.body, self.ended, self.going = [], b"", False, False
            stream = self.h2.get_next_available_stream_id()
            fields = [(":method", method), (":scheme", "https" if self.context else "http"), (":path", path),
                      (":authority", f"{self.host}:{self.port}")]
            if body is not None:
                fields.append(("content-length", str(len(body))))
            fields += [(k.replace("_", "-").lower(), str(v)) for k, v in headers.items()]
            self.h2.send_headers(stream, fields, end_stream=not body)
            self.flush()
            if body:
                self.send_body(stream, body)
            while not self.ended:
                self.take(stream)
            answer = Answer(int(self.fields[0][1]), dict(self.fields[1:]), self.body)
            if self.going:
                self.close()
            return answer
        except BaseException:
            self.close()
            raise

    def close(self):
        if self.sock is not None:
            self.sock.close()
            self.sock = None
