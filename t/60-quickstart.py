#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""./quickstart: what it refuses, --build-only, --demo, and a node on ./data that says what to try. Everything is built and
installed by the time tests run, so nothing of that is seen here."""
import os, re, shutil, signal, subprocess, tempfile, threading

import node, tap
from tap import same, test, until

script = os.path.join(tap.src, "quickstart")


def quickstart(*options, cwd=None):
    r = subprocess.run([script, *options], capture_output=True, text=True, timeout=600, stdin=subprocess.DEVNULL, cwd=cwd)
    return r.returncode, r.stdout, r.stderr


@test("unknown options and companions are refused with 2, before anything is built")
def refused():
    for options, words in ((["--zzz"], "--zzz: there is no such option"), (["zzz"], "'zzz': options begin with --"),
                           (["--demo", "--build-only"], "--demo stands alone"), (["--node-id=1", "--demo"], "--demo stands alone"),
                           (["--node-id=1", "--lisen", "x"], "--lisen: there is no such option")):
        code, out, err = quickstart(*options)
        same((code, out), (2, ""), f"{options}")
        assert words in err, err


@test("--help tells")
def help_text():
    code, out, err = quickstart("--help")
    same((code, err), (0, ""), "exit code, stderr")
    assert "--build-only" in out and "--demo" in out


@test("--build-only leaves ./pico, which runs")
def build_only():
    code, out, err = quickstart("--build-only")
    same(code, 0, out + err)
    r = subprocess.run([os.path.join(tap.src, "pico"), "--version"], capture_output=True, text=True)
    assert r.returncode == 0 and re.fullmatch(r"pico \d+\.\d+\.\d+\n", r.stdout), r


@test("--demo appends and reads once, ends with 0 and leaves nothing")
def demo():
    top = tempfile.mkdtemp(prefix="pico-t-")
    code, out, err = quickstart("--demo", cwd=top)
    same(code, 0, out + err)
    same(out.splitlines()[-1], "appended 'a record' and read 'a record'", "last line")
    same(os.listdir(top), [], "left")
    os.rmdir(top)


@test("a wrong value is refused with 2")
def wrong_value():
    code, _, err = quickstart("--node-id=x")
    same(code, 2, err)
    assert "--node-id: 'x' is not a number" in err, err


@test("a node on ./data: the commands it prints work; Ctrl-C ends it with 0")
def run_node():
    top = tempfile.mkdtemp(prefix="pico-t-")
    p = subprocess.Popen([script, "--listen", "127.0.0.1:0", "--admin-listen=127.0.0.1:0"], stdout=subprocess.PIPE,
                         stderr=subprocess.PIPE, text=True, cwd=top, start_new_session=True)
    lines, errors = [], []
    readers = [threading.Thread(target=lambda s, l: l.extend(iter(s.readline, "")), args=a, daemon=True)
               for a in ((p.stdout, lines), (p.stderr, errors))]
    for r in readers:
        r.start()
    try:
        until(lambda: any("Ctrl-C ends it" in l for l in lines) or p.poll() is not None, 120, "the text")
        assert p.poll() is None, "".join(lines + errors)
        curls = [l.strip() for l in lines if l.startswith("  curl")]
        same(len(curls), 5, "commands: " + "".join(lines))
        outputs = [subprocess.run(["bash", "-c", c], capture_output=True, text=True, timeout=60).stdout
                   for c in curls if "live=" not in c]
        assert outputs[0].startswith("HTTP/1.1 201"), outputs[0]
        assert outputs[1].startswith("HTTP/1.1 20"), outputs[1]
        assert "first record" in outputs[2], outputs[2]
        assert '"ready":true' in outputs[3].replace(" ", ""), outputs[3]
        assert os.path.exists(top + "/data/meta.db")
        os.killpg(p.pid, signal.SIGINT)
        same(p.wait(20), 0, "exit code: " + "".join(errors))
    finally:
        if p.poll() is None:
            os.killpg(p.pid, signal.SIGKILL)
            p.wait()
        shutil.rmtree(top, ignore_errors=True)


tap.run()
