#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""kcat (librdkafka of the system) as t/clients/README has it: turns the one form into kcat's options and back. It
cannot set timestamps; it sets headers for a whole run and knows null or empty, not both in one run: so one run for each
stretch of records that are alike. Idempotent."""
import itertools, os, re, signal, subprocess, sys, threading, time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
import kafka_form

KEY_END, RECORD_END = b"\x01", b"\x02"
FORMAT = "%p %o %T %K %S %h\n%k%s\n"


def tls():
    ca, me = os.environ.get("KAFKA_TLS_CA"), os.environ.get("KAFKA_TLS_IDENTITY")
    options = ["security.protocol=ssl", "ssl.ca.location=" + ca] if ca else []
    if me:
        options += [f"ssl.certificate.location={me}.pem", f"ssl.key.location={me}.key"]
    return [x for o in options for x in ("-X", o)]


def kcat(bootstrap, topic, *args, **more):
    return subprocess.Popen(["kcat", "-b", bootstrap, "-t", topic, *tls(), *args], **more)


def alike(r):
    """Records of one run: partition, headers, whether what is empty is null."""
    return r.partition, r.headers, None in (r.key, r.value)


def produce(bootstrap, topic, codec):
    rows = sorted(map(kafka_form.from_line, sys.stdin), key=lambda r: r.partition)
    for (partition, headers, null), group in itertools.groupby(rows, alike):
        # The delimiter stands behind every record but the last, or kcat makes one more of nothing.
        data = RECORD_END.join((r.key or b"") + KEY_END + (r.value or b"") for r in group)
        options = [x for name, value in headers for x in ("-H", name if value is None else name + "=" + value.decode())]
        k = kcat(bootstrap, topic, "-P", "-p", str(partition), "-z", codec, "-K", KEY_END, "-D", RECORD_END, "-X",
                 "enable.idempotence=true", *options, *(["-Z"] if null else []), stdin=subprocess.PIPE)
        k.communicate(data)
        if k.returncode:
            sys.exit(k.returncode)


def bytes_of(stream, n):
    return None if n < 0 else stream.read(n)


def header(text):
    name, _, value = text.partition("=")
    return name, None if value == "NULL" else value.encode()


def consume(bootstrap, topic, where, count=None):
    place = {"start": "beginning", "end": "end"}.get(where, "s@" + where)
    k = kcat(bootstrap, topic, "-C", "-q", "-u", "-o", place, "-f", FORMAT, *(["-c", count] if count else ["-e"]),
             stdout=subprocess.PIPE)
    rows(k)
    sys.exit(k.wait())


def rows(k):
    while line := k.stdout.readline():
        partition, offset, timestamp, n_key, n_value, headers = line.decode().rstrip("\n").split(" ", 5)
        key, value = bytes_of(k.stdout, int(n_key)), bytes_of(k.stdout, int(n_value))
        assert k.stdout.read(1) == b"\n"
        named = tuple(map(header, headers.split(","))) if headers else ()
        row = kafka_form.Record(int(partition), int(offset), int(timestamp), key, value, named)
        print(kafka_form.to_line(row), flush=True)


def assignments(stream):
    for line in stream:
        sys.stderr.buffer.write(line)
        if b"assigned:" in line:
            print("=", *sorted(map(int, re.findall(rb"\[(\d+)\]", line.split(b"assigned:")[1]))), flush=True)


def group(bootstrap, topic, name):
    options = [x for o in ("session.timeout.ms=6000", "heartbeat.interval.ms=500", "auto.offset.reset=earliest",
                           "auto.commit.interval.ms=200") for x in ("-X", o)]
    k = subprocess.Popen(["kcat", "-b", bootstrap, *tls(), "-E", "-u", "-f", FORMAT, *options, "-G", name, topic],
                         stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    signal.signal(signal.SIGTERM, lambda *_: k.terminate())
    threading.Thread(target=assignments, args=(k.stderr,), daemon=True).start()
    rows(k)
    sys.exit(k.wait())


def stream(bootstrap, topic, count):
    """It tells of no acknowledgement, so what it was given is counted; it ends well when all were acknowledged."""
    k = kcat(bootstrap, topic, "-P", "-E", "-D", "\n", "-X", "enable.idempotence=true", "-X", "linger.ms=5", stdin=subprocess.PIPE)
    for i in range(int(count)):
        k.stdin.write(b"%d\n" % i)
        k.stdin.flush()
        if i % 20 == 19:
            print("+", i + 1, flush=True)
        time.sleep(0.003)
    k.stdin.close()
    sys.exit(k.wait())


{"produce": produce, "consume": consume, "group": group, "stream": stream}[sys.argv[1]](*sys.argv[2:])
