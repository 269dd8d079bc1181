# SPDX-License-Identifier: Apache-2.0
"""librdkafka itself (what kcat runs on), as a producer that says of each record where it went or what became of it.

kcat does not tell which of its records failed; a test that counts losses has to know. Only what such a test needs is
bound here, by the layout of the public rdkafka.h."""
import ctypes, ctypes.util


class _Message(ctypes.Structure):
    _fields_ = [("err", ctypes.c_int), ("rkt", ctypes.c_void_p), ("partition", ctypes.c_int32),
                ("payload", ctypes.c_void_p), ("len", ctypes.c_size_t), ("key", ctypes.c_void_p),
                ("key_len", ctypes.c_size_t), ("offset", ctypes.c_int64), ("private", ctypes.c_void_p)]


_Report = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.POINTER(_Message), ctypes.c_void_p)
PRODUCER, COPY, QUEUE_FULL = 0, 2, -184


def _load():
    lib = ctypes.CDLL(ctypes.util.find_library("rdkafka") or "librdkafka.so.1")
    text, handle = ctypes.c_char_p, ctypes.c_void_p
    for name, result, arguments in (
            ("conf_new", handle, []), ("conf_set", ctypes.c_int, [handle, text, text, text, ctypes.c_size_t]),
            ("conf_set_dr_msg_cb", None, [handle, _Report]), ("conf_set_log_cb", None, [handle, handle]),
            ("new", handle, [ctypes.c_int, handle, text, ctypes.c_size_t]), ("topic_new", handle, [handle, text, handle]),
            ("produce", ctypes.c_int, [handle, ctypes.c_int32, ctypes.c_int, text, ctypes.c_size_t, text, ctypes.c_size_t, handle]),
            ("poll", ctypes.c_int, [handle, ctypes.c_int]), ("flush", ctypes.c_int, [handle, ctypes.c_int]),
            ("outq_len", ctypes.c_int, [handle]), ("last_error", ctypes.c_int, []), ("err2name", text, [ctypes.c_int]),
            ("fatal_error", ctypes.c_int, [handle, text, ctypes.c_size_t]), ("version_str", text, [])):
        function = getattr(lib, "rd_kafka_" + name)
        function.restype, function.argtypes = result, arguments
    return lib


class Producer:
    """One producer of one topic. on_report(value, partition, offset, error name or None) runs inside of send() and flush()."""
    _lib = None

    def __init__(self, address, topic, on_report, **conf):
        Producer._lib = lib = Producer._lib or _load()
        self._report = _Report(lambda _, m, __: self._take(m.contents))
        self.on_report = on_report
        settings, why = lib.rd_kafka_conf_new(), ctypes.create_string_buffer(512)
        for name, value in {"bootstrap.servers": address, **{k.replace("_", "."): v for k, v in conf.items()}}.items():
            failed = lib.rd_kafka_conf_set(settings, name.encode(), str(value).encode(), why, len(why))
            assert failed == 0, why.value
        lib.rd_kafka_conf_set_dr_msg_cb(settings, self._report)
        lib.rd_kafka_conf_set_log_cb(settings, None)
        self._handle = lib.rd_kafka_new(PRODUCER, settings, why, len(why))
        assert self._handle, why.value
        self._topic = lib.rd_kafka_topic_new(self._handle, topic.encode(), None)
        assert self._topic

    def _take(self, m):
        error = self._lib.rd_kafka_err2name(m.err).decode() if m.err else None
        self.on_report(ctypes.string_at(m.payload, m.len), m.partition, m.offset, error)

    def send(self, partition, value):
        """Queues a record, and takes the reports that have come."""
        lib = self._lib
        while lib.rd_kafka_produce(self._topic, partition, COPY, value, len(value), None, 0, None) != 0:
            assert lib.rd_kafka_last_error() == QUEUE_FULL, lib.rd_kafka_err2name(lib.rd_kafka_last_error())
            lib.rd_kafka_poll(self._handle, 50)
        lib.rd_kafka_poll(self._handle, 0)

    def poll(self, seconds):
        self._lib.rd_kafka_poll(self._handle, int(seconds * 1000))

    def waiting(self):
        """Records without a report."""
        return self._lib.rd_kafka_outq_len(self._handle)

    def flush(self, seconds):
        """Waits for all reports; how many are missing then."""
        self._lib.rd_kafka_flush(self._handle, int(seconds * 1000))
        return self.waiting()

    def fatal_error(self):
        """Why an idempotent producer gave up, or None."""
        why = ctypes.create_string_buffer(512)
        return why.value.decode() if self._lib.rd_kafka_fatal_error(self._handle, why, len(why)) else None

    @staticmethod
    def version():
        Producer._lib = Producer._lib or _load()
        return Producer._lib.rd_kafka_version_str().decode()
