# SPDX-License-Identifier: Apache-2.0
"""The files of the source tree, for the tests that read them: what git tracks, or in an unpacked tarball all."""
import os, subprocess

SRC = os.environ.get("PICO_SRC", os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))


def files():
    """Paths from the top of the tree, of regular files."""
    git = subprocess.run(["git", "-C", SRC, "ls-files", "-z"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    if git.returncode == 0:
        names = git.stdout.decode().split("\0")
    else:
        names = [os.path.relpath(os.path.join(top, f), SRC) for top, _, found in os.walk(SRC) for f in found]
    return sorted(n for n in names if n and os.path.isfile(os.path.join(SRC, n))
                  and not os.path.islink(os.path.join(SRC, n)))


def read(name):
    with open(os.path.join(SRC, name), "rb") as f:
        return f.read()


def lines(name):
    return read(name).decode("utf-8", "replace").splitlines()


def is_c(name):
    return name.endswith((".c", ".h", ".def"))
