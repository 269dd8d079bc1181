# SPDX-License-Identifier: Apache-2.0
"""A real node on free loopback ports, in a directory of its own, stopped by pid. Its logs are kept and shown when
a test fails."""
import atexit, http.client, json, os, re, shutil, signal, subprocess, tempfile, threading, time

import tap

_nodes = []
STORE = os.environ.get("PICO_TEST_STORE", "")
_fake = []


def fake_store():
    """The server in this process that PICO_TEST_STORE=s3 asks for."""
    if not _fake:
        import fake_s3
        _fake.append(fake_s3.FakeS3())
        os.environ.update(fake_s3.FakeS3.environment)
    return _fake[0]


def sizes_of_files(where, top):
    """{path below `where`: bytes} of the files whose path begins with `top`; they may go under its hands."""
    found = {}
    for directory, _, names in os.walk(where):
        for name in names:
            path = os.path.join(directory, name)
            key = os.path.relpath(path, where)
            try:
                if key.startswith(top):
                    found[key] = os.path.getsize(path)
            except FileNotFoundError:
                pass
    return found


class Answer:
    def __init__(self, status, headers, body):
        self.status, self.headers, self.body = status, headers, body

    def __getitem__(self, name):
        return self.headers.get(name.lower())

    def json(self):
        return json.loads(self.body)

    def __repr__(self):
        return f"<{self.status} {self.headers} {self.body[:200]!r}>"


class Client:
    """One keep-alive connection; connects again when it was closed."""

    def __init__(self, port, timeout=60, host="127.0.0.1"):
        self.host, self.port, self.timeout, self.connection = host, port, timeout, None

    def __call__(self, method, path, body=None, **headers):
        if self.connection is None:
            self.connection = http.client.HTTPConnection(self.host, self.port, timeout=self.timeout)
        try:
            self.connection.putrequest(method, path, skip_accept_encoding=True)
            if body is not None:
                self.connection.putheader("Content-Length", str(len(body)))
            for name, value in headers.items():
                self.connection.putheader(name.replace("_", "-"), str(value))
            self.connection.endheaders()
            if body:
                self.connection.send(body)
            r = self.connection.getresponse()
            data = r.read()
            answer = Answer(r.status, {k.lower(): v for k, v in r.getheaders()}, data)
            if r.will_close:
                self.close()
            return answer
        except BaseException:
            self.close()
            raise

    def close(self):
        if self.connection is not None:
            self.connection.close()
            self.connection = None


class Node:
    def __init__(self, *options, directory=None, wrap=(), env=None, kafka=False, ds=False):
        self.own = directory is None
        self.dir = directory or tempfile.mkdtemp(prefix="pico-t-")
        self.options, self.wrap, self.env = list(options), list(wrap), env or {}
        self.process, self.port, self.admin_port = None, None, None
        self.kafka, self.kafka_port = kafka, None
        self.with_ds, self.ds_port = ds, None
        self.logfile = os.path.join(self.dir, "stderr.log")
        self.lines = []
        _nodes.append(self)

    def storage(self):
        """The storage URL, the same for every node of a directory. PICO_TEST_STORE: nothing or `file`; `s3`, a fake_s3
        of this script's own; or an s3:// URL, below which each directory has a prefix."""
        if STORE in ("", "file"):
            return f"-2@file://{self.dir}/data/objects"
        url = fake_store().url() if STORE == "s3" else STORE
        place, _, query = url.partition("?")
        return f"{place}/{os.path.basename(self.dir)}{'?' + query if query else ''}"

    def stored(self, top):
        """{key: bytes} of the stored objects whose key below the node's prefix begins with `top`."""
        url = re.fullmatch(r"-2@s3://([^/]+)/(.+)\?endpoint=([^&]+)", self.storage())
        if url is None:
            return sizes_of_files(os.path.join(self.dir, "data", "objects"), top)
        import s3_client
        bucket, prefix, endpoint = url.groups()
        found = s3_client.sizes(endpoint, bucket, f"{prefix}/{top}")
        return {k[len(prefix) + 1:]: n for k, n in found.items()}

    def argv(self):
        listen = f"127.0.0.1:{self.port or 0}"
        admin = f"127.0.0.1:{self.admin_port or 0}"
        kafka = ["--kafka-listen", f"127.0.0.1:{self.kafka_port or 0}"] if self.kafka else ["--no-kafka"]
        ds = ["--ds-listen", f"127.0.0.1:{self.ds_port or 0}"] if self.with_ds else ["--no-ds"]
        return [*self.wrap, os.path.join(tap.build, "pico"), "serve", "--listen", listen, "--admin-listen", admin,
                *kafka, *ds, "--data-dir", os.path.join(self.dir, "data"),
                "--meta-url", f"sqlite:{self.dir}/data/meta.db", f"--storage={self.storage()}",
                *self.options]

    def spawn(self):
        log = open(self.logfile, "ab")
        self.lines = []
        self.process = subprocess.Popen(self.argv(), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=log,
                                        env=dict(os.environ, **self.env), cwd=self.dir)
        log.close()
        self.reader = threading.Thread(target=self._read, args=(self.process.stdout,), daemon=True)
        self.reader.start()

    def _read(self, stream):
        for line in stream:
            line = line.decode().rstrip("\n")
            self.lines.append(line)
            if m := re.match(r"pico on http://.*:(\d+)", line):
                self.port = int(m[1])
            if m := re.match(r"admin on http://.*:(\d+)", line):
                self.admin_port = int(m[1])
            if m := re.match(r"ds on http://.*:(\d+)", line):
                self.ds_port = int(m[1])
            if m := re.match(r"kafka on .*:(\d+)", line):
                self.kafka_port = int(m[1])

    def start(self, seconds=60):
        self.spawn()
        tap.until(lambda: "ready" in self.lines or self.process.poll() is not None, seconds, "ready line")
        assert self.process.poll() is None, f"pico serve ended with {self.process.returncode}:\n{self.log()[-2000:]}"
        return self

    @property
    def url(self):
        return f"http://127.0.0.1:{self.port}"

    def client(self, timeout=60):
        return Client(self.port, timeout)

    def http(self, method, path, body=None, **headers):
        return self._ask(self.port, method, path, body, **headers)

    def ds(self, method, path, body=None, **headers):
        """The same over Durable Streams."""
        return self._ask(self.ds_port, method, path, body, **headers)

    @staticmethod
    def _ask(port, method, path, body, **headers):
        c = Client(port)
        try:
            return c(method, path, body, **headers)
        finally:
            c.close()

    def admin(self, path, method="GET", timeout=10):
        c = Client(self.admin_port, timeout)
        try:
            return c(method, path)
        finally:
            c.close()

    def children(self):
        """{name: [pid]} of the supervisor's children, from /proc."""
        found = {}
        top = self.process.pid
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                with open(f"/proc/{pid}/stat") as f:
                    parent = int(f.read().rsplit(")", 1)[1].split()[1])
                if parent == top:
                    with open(f"/proc/{pid}/cmdline", "rb") as f:
                        name = f.read().replace(b"\0", b" ").decode().strip()
                    found.setdefault(name, []).append(int(pid))
            except (OSError, ValueError, IndexError):
                continue
        return found

    def pid(self, name):
        return tap.until(lambda: self.children().get(name), 30, f"a process {name}")[0]

    def kill(self, name, sig=signal.SIGKILL):
        """Signals one of the node's processes; returns its pid."""
        pid = self.process.pid if name == "supervisor" else self.pid(name)
        try:
            os.kill(pid, sig)
        except ProcessLookupError:
            return pid
        return pid

    def wait_ready(self, seconds=60):
        def ready():
            try:
                return self.admin("/ready").status == 200
            except (OSError, http.client.HTTPException):
                return False
        tap.until(ready, seconds, "/ready is green")

    def kill_all(self):
        """kill -9 of every process at once."""
        pids = [self.process.pid] + [p for ps in self.children().values() for p in ps]  # first who would start them again
        for pid in pids:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        self.process.wait()
        tap.until(lambda: not any(alive(p) for p in pids), 20, "all processes gone")

    def stop(self, seconds=60):
        """SIGTERM; returns the exit code."""
        if self.process is None or self.process.poll() is not None:
            return self.process.returncode if self.process else None
        self.process.terminate()
        return self.process.wait(seconds)

    def rss(self, pid):
        with open(f"/proc/{pid}/status") as f:
            text = f.read()
        return int(re.search(r"VmRSS:\s+(\d+)", text)[1]) * 1024

    def log(self):
        try:
            with open(self.logfile, errors="replace") as f:
                return f.read()
        except FileNotFoundError:
            return ""


def alive(pid):
    try:
        with open(f"/proc/{pid}/stat") as f:
            return f.read().rsplit(")", 1)[1].split()[0] not in "ZX"
    except OSError:
        return False


_failed = False


def _show_logs():
    global _failed
    _failed = True
    for node in _nodes:
        tap.diag(f"log of {node.dir} (kept):")
        tap.diag(node.log()[-4000:])


def _cleanup():
    for node in _nodes:
        if node.process is not None and node.process.poll() is None:
            node.kill_all()
        if node.own and not _failed:
            shutil.rmtree(node.dir, ignore_errors=True)


tap.on_failure(_show_logs)
atexit.register(_cleanup)
