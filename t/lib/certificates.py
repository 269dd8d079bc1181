# SPDX-License-Identifier: Apache-2.0
"""Certificates for tests, made by openssl on the spot: NAME.pem, NAME.key and, for those of clients, NAME.p12 with the
password `secret`."""
import os, subprocess


def _openssl(*args):
    r = subprocess.run(["openssl", *args], capture_output=True, text=True)
    assert r.returncode == 0, f"openssl {args}: {r.stderr}"


class Authority:
    """One that signs, in a directory; ca.pem is what its friends trust."""

    def __init__(self, directory, name="authority"):
        self.directory, self.name = directory, name
        os.makedirs(directory, exist_ok=True)
        self.pem = self.path("ca.pem")
        _openssl("req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", self.path("ca.key"), "-out", self.pem,
                 "-days", "2", "-subj", "/CN=" + name)

    def path(self, file):
        return os.path.join(self.directory, file)

    def make(self, name, p12=False):
        """The path without suffix of one for this machine."""
        top = self.path(name)
        with open(top + ".ext", "w") as f:
            f.write("subjectAltName=DNS:localhost,IP:127.0.0.1")
        _openssl("req", "-newkey", "rsa:2048", "-nodes", "-keyout", top + ".key", "-out", top + ".csr", "-subj", "/CN=" + name)
        _openssl("x509", "-req", "-in", top + ".csr", "-CA", self.pem, "-CAkey", self.path("ca.key"), "-CAcreateserial",
                 "-days", "2", "-extfile", top + ".ext", "-out", top + ".pem")
        if p12:
            _openssl("pkcs12", "-export", "-in", top + ".pem", "-inkey", top + ".key", "-passout", "pass:secret", "-out",
                     top + ".p12")
        return top
