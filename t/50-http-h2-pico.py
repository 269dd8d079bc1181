#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The tests of 50-http-pico.py over HTTP/2: one list for both versions. What speaks HTTP/1.1 byte by byte there
does so here, too."""
import importlib.util, os, sys

import tap

os.environ["PICO_TEST_HTTP"] = "2"
sys.path.append("/usr/lib/python3/dist-packages")
if importlib.util.find_spec("h2") is None:
    tap.skip("the Pico protocol over HTTP/2", "python3-h2 is not installed")
    tap.run()
path = os.path.join(tap.src, "t", "50-http-pico.py")
exec(compile(open(path).read(), path, "exec"))
