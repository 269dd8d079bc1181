# SPDX-License-Identifier: Apache-2.0
"""A node whose storaged and worker-http are t/child-probe: the supervisor is real, its children tell what they found."""
import atexit, os, re, shutil, socket, tempfile

import node, tap


def scratch():
    """A directory that is gone when the test ends."""
    path = tempfile.mkdtemp(prefix="pico-t-")
    atexit.register(shutil.rmtree, path, ignore_errors=True)
    return path


class Probed(node.Node):
    def __init__(self, *options, do=None, env=None, directory=None):
        super().__init__(*options, directory=directory, env=dict(env or {}))
        self.libexec = os.path.join(self.dir, "libexec")
        if not os.path.isdir(self.libexec):
            os.mkdir(self.libexec)
            for name in ("storaged", "worker-http"):
                os.symlink(os.path.join(tap.build, "t", "child-probe"), os.path.join(self.libexec, name))
        self.env["PICO_LIBEXEC"] = self.libexec
        self.data = os.path.join(self.dir, "data")
        for name, text in (do or {}).items():
            self.do(name, text)

    def do(self, name, text):
        os.makedirs(self.data, exist_ok=True)
        with open(os.path.join(self.data, "do-" + name), "w") as f:
            f.write(text)

    def read(self, name):
        try:
            with open(os.path.join(self.data, name)) as f:
                return f.read()
        except FileNotFoundError:
            return ""

    def found(self, name):
        """{key: [values]} of what a probe wrote at its start."""
        result = {}
        for line in self.read("found-" + name).splitlines():
            key, _, value = line.partition(" ")
            result.setdefault(key, []).append(value)
        return result

    def ask(self, port, host="127.0.0.1", seconds=5):
        with socket.create_connection((host, port), seconds) as s:
            data = b""
            while piece := s.recv(65536):
                data += piece
        return data.decode()

    def table(self):
        """[{kind, index, pid, state, restarts, ...}] as the admin probe reads it."""
        rows = []
        for line in self.ask(self.admin_port).splitlines():
            if line.startswith("slot "):
                rows.append({k: int(v) for k, v in re.findall(r"(\w+)=(\d+)", line)})
        return rows

    def run(self, seconds=30):
        """A start that is expected to end by itself: exit code, stdout lines, stderr."""
        self.spawn()
        code = self.process.wait(seconds)
        self.reader.join(seconds)
        return code, self.lines, self.log()
