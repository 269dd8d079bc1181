# SPDX-License-Identifier: Apache-2.0
"""A node with TLS listeners beside the plain ones."""
import os, re, shutil, signal, ssl

import certificates, node
from tap import until


class SecureNode(node.Node):
    """Its certificate is server.pem of its own authority, `ca`. After start(): tls_port, of --tls-listen, and
    kafka_tls_port."""

    def __init__(self, *options, client_ca=None, kafka=False):
        super().__init__(kafka=kafka)
        self.ca = certificates.Authority(os.path.join(self.dir, "tls"))
        me = self.ca.make("server")
        self.options = ["--tls-listen=127.0.0.1:0", f"--tls-cert={me}.pem", f"--tls-key={me}.key", *options]
        if kafka:
            self.options.append("--kafka-tls-listen=127.0.0.1:0")
        if client_ca:
            self.options.append("--tls-client-ca=" + client_ca)

    def start(self):
        super().start()
        find = lambda begin: next((int(m[1]) for line in self.lines if (m := re.match(begin + r"127\.0\.0\.1:(\d+)$", line))), None)
        self.tls_port, self.kafka_tls_port = find("pico on https://"), find("kafka tls on ")
        return self

    def trust(self):
        return ssl.create_default_context(cafile=self.ca.pem)

    def replace_certificate(self, name):
        """New files where the old ones stand."""
        new = self.ca.make(name)
        for suffix in (".pem", ".key"):
            shutil.copy(new + suffix, self.ca.path("server" + suffix))

    def reload(self, word="reload: done"):
        before = self.log().count(word)
        os.kill(self.process.pid, signal.SIGHUP)
        until(lambda: self.log().count(word) > before, 30, word)
