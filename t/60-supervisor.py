#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The supervisor's life with children that tell what they see: descriptors, restarts, order of a stop, kill -9."""
import os, re, signal, socket, time

import node, tap
from probed import Probed, scratch
from tap import same, test, until

KINDS = {"storaged": 1, "worker-http": 2, "admin": 3}


@test("ready lines, then ready; children have their descriptors, names and no secret")
def start():
    n = Probed("--listen", "localhost:0", env={"AWS_SECRET_ACCESS_KEY": "geheim1", "PICO_AUTH_BOOTSTRAP_TOKEN": "geheim2",
                                              "MY_PASSWORD": "geheim3"})
    os.environ.pop("PICO_LISTEN", None)
    n.start()
    same([re.sub(r"\d+$", "N", l) for l in n.lines],
         ["pico on http://127.0.0.1:N", "pico on http://127.0.0.1:N", "pico on http://[::1]:N", "admin on http://127.0.0.1:N",
          "ready"], "stdout")
    same(sorted(n.children()), ["storaged", "worker-http", "worker-http role=admin"], "argv of children")
    for name, pid in (("storaged", n.pid("storaged")), ("worker-http", n.pid("worker-http")),
                      ("admin", n.pid("worker-http role=admin"))):
        found = n.found(name)
        with open(f"/proc/{pid}/comm") as f:
            same(f.read().strip(), "storaged" if name == "storaged" else "worker-http", "comm")
        same(found["pid"], [str(pid)], "pid")
        same(found["kind"], [str(KINDS[name])], "kind")
        same(found["pdeathsig"], ["9"], "PR_GET_PDEATHSIG")
        same(found["instance"], ["1"], "instance")
        same((found["proof"], found["key"]), (["0"], ["1"]) if name == "storaged" else (["1"], ["0"]), "proof, key")
        # Storaged alone is given the credentials of stores, which it takes out of its environment (50-s3-node.py).
        same(set(re.findall(r"geheim\d", n.read("found-" + name))), {"geheim1"} if name == "storaged" else set(),
             "secrets in " + name)
        assert not any(v.startswith(("PICO_", "NOTIFY")) for v in found.get("env", [])), found["env"]
        fixed = {int(v.split()[0]): v for v in found["fd"] if int(v.split()[0]) < 71}
        listeners = {"storaged": 1, "worker-http": 3, "admin": 1}[name]
        same(sorted(fixed), [0, 1, 2, 3] + list(range(7, 7 + listeners)), "descriptors of " + name)
        for v in found["fd"]:
            assert int(v.split()[0]) <= 2 or v.endswith("cloexec=1"), v
    sanitized = "dumpable 1" in n.read("found-storaged")
    same(n.found("storaged")["dumpable"], ["1" if sanitized else "0"], "dumpable")
    same(n.found("worker-http")["http_address"], [n.lines[0][8:]], "advertised address")
    same((n.found("admin")["table"], n.found("worker-http")["table"]), (["1"], ["1"]), "process table")
    same((n.found("storaged")["table"], n.found("storaged")["pages"]), (["0"], ["0"]), "storaged has its own page only")
    assert n.ask(n.port).startswith("worker-http ")
    same(n.stop(), 0, "exit code")
    assert not os.path.exists(n.data + "/storaged.sock") and not os.path.exists(n.data + "/pid")


@test("a killed worker is back within 1 s, connections queue, its counters stay, its gauges do not")
def restart_worker():
    n = Probed().start()
    first = int(n.ask(n.port).split()[1])
    n.ask(n.port)
    row = [r for r in n.table() if r["kind"] == 2][0]
    same((row["pid"], row["appends"], row["waiters"], row["restarts"], row["state"]), (first, 2, 2, 0, 1), "row")
    began = time.monotonic()
    os.kill(first, signal.SIGKILL)
    second = int(n.ask(n.port).split()[1])
    assert second != first
    assert time.monotonic() - began < 1, time.monotonic() - began
    row = until(lambda: [r for r in n.table() if r["kind"] == 2 and r["state"] == 1], 2, "ready in the table")[0]
    same((row["pid"], row["appends"], row["waiters"], row["restarts"]), (second, 3, 1, 1), "row")
    same(n.log().count("worker-http 0 ended, starting it again in 0 ms"), 1, "log lines")
    same(n.stop(), 0, "exit code")


@test("SIGTERM: readiness off, workers, then storaged; exit 0")
def stop_order():
    n = Probed("--shutdown-drain-ms=400").start()
    began = time.monotonic()
    n.process.terminate()
    until(lambda: "readiness off" in n.read("order"), 2, "readiness off")
    assert "stopping 1" in n.ask(n.admin_port), "serves during the pause"
    assert n.ask(n.port).startswith("worker-http ")
    same(n.process.wait(5), 0, "exit code")
    took = time.monotonic() - began
    assert 0.4 <= took < 1.4, took
    order = n.read("order").splitlines()
    same(sorted(order[:2]), ["admin readiness off", "worker-http readiness off"], "first")
    same(sorted(order[2:4]), ["admin drain", "worker-http drain"], "then")
    same(order[4:], ["storaged drain"], "last")


@test("a child that does not end is killed at the bound")
def stop_bound():
    for who in ("worker-http", "storaged"):
        n = Probed(do={who: "stay"}).start()
        pids = [p for ps in n.children().values() for p in ps]
        began = time.monotonic()
        same(n.stop(5), 0, "exit code")
        assert 0.6 < time.monotonic() - began < 1.5, time.monotonic() - began
        assert "did not end in time, killing it" in n.log()
        assert not any(node.alive(p) for p in pids)


@test("a signal to the whole process group is a clean stop")
def stop_group():
    n = Probed().start()
    for pids in n.children().values():
        os.kill(pids[0], signal.SIGTERM)
        os.kill(pids[0], signal.SIGINT)
        os.kill(pids[0], signal.SIGHUP)
    n.process.send_signal(signal.SIGINT)
    same(n.process.wait(5), 0, "exit code")
    assert "ended, starting it again" not in n.log()
    same(n.read("order").splitlines()[-1], "storaged drain", "last")


@test("kill -9 of the supervisor ends its children within a second; the next start takes their ports")
def kill_supervisor():
    n = Probed().start()
    pids = [p for ps in n.children().values() for p in ps]
    port, instance = n.port, n.read("instance")
    n.process.kill()
    until(lambda: not any(node.alive(p) for p in pids), 1, "children gone")
    n.process.wait()
    assert os.path.exists(n.data + "/storaged.sock"), "a stale socket is left"
    n.start()
    same(n.port, port, "same port")
    same(n.read("instance"), instance, "same instance")
    assert re.fullmatch(r"[0-9a-f]{32}\n", instance)
    same(n.stop(), 0, "exit code")


@test("a port that the last run's children still hold is tried for")
def port_held():
    n = Probed().start()
    n.kill_all()

    def bind():
        try:
            return socket.create_server(("127.0.0.1", n.port))
        except OSError:  # a child that was just being started
            return None
    held = until(bind, 5, "the port is free")
    n.spawn()
    time.sleep(0.5)
    assert n.process.poll() is None
    held.close()
    until(lambda: "ready" in n.lines, 5, "ready")
    same(n.stop(), 0, "exit code")


@test("a second supervisor is refused at once and names the first; the first goes on")
def second_instance():
    n = Probed().start()
    second = Probed("--listen=127.0.0.1:0", directory=n.dir)
    second.port, second.admin_port, second.logfile = None, None, os.path.join(n.dir, "second.log")
    began = time.monotonic()
    code, lines, log = second.run()
    assert time.monotonic() - began < 2
    same((code, lines), (1, []), "exit code, stdout")
    same(len(log.splitlines()), 1, "lines: " + log)
    assert f"--data-dir: the node with pid {n.process.pid} runs on {n.data} already" in log, log
    assert n.ask(n.port).startswith("worker-http ")
    same(n.stop(), 0, "exit code")


@test("a runtime directory of its own: its lock, a path far beyond 107 bytes")
def long_runtime_dir():
    top = scratch()
    deep = os.path.join(top, *["d" * 60] * 4)
    n = Probed("--runtime-dir", deep).start()
    same(sorted(os.listdir(deep)), ["lock", "pid", "storaged.sock"], "runtime directory")
    same(n.found("storaged")["socket"], [deep + "/storaged.sock"], "socket path")
    with open(deep + "/pid") as f:
        same(int(f.read()), n.process.pid, "pid file")
    here = os.open(deep, os.O_PATH)
    with socket.socket(socket.AF_UNIX) as s:
        s.connect(f"/proc/self/fd/{here}/storaged.sock")
        assert s.recv(100).startswith(b"storaged ")
    same(oct(os.stat(deep + "/storaged.sock").st_mode & 0o777), "0o600", "mode")
    second = Probed("--runtime-dir", deep)  # a data directory of its own
    code, _, log = second.run()
    same(code, 1, "exit code")
    assert f"--runtime-dir: the node with pid {n.process.pid} runs on" in log, log
    same(sorted(os.listdir(deep)), ["lock", "pid", "storaged.sock"], "the first one's files are left alone")
    same(n.stop(), 0, "exit code")


@test("before it was ready: 100 ms, doubling; the others serve meanwhile")
def back_off():
    n = Probed().start()
    n.do("worker-http", "exit 3")
    os.kill(n.pid("worker-http"), signal.SIGKILL)
    until(lambda: "again in 800 ms" in n.log(), 5, "four failures")
    delays = re.findall(r"worker-http 0 ended, starting it again in (\d+) ms pid=\d+ (\S+)", n.log())
    same(delays[:5], [("0", "signal=9"), ("100", "exit=3"), ("200", "exit=3"), ("400", "exit=3"), ("800", "exit=3")], "delays")
    row = [r for r in n.table() if r["kind"] == 2][0]
    same((row["pid"], row["state"]), (0, 3), "backing off in the table")
    assert row["restarts"] >= 5, row
    os.unlink(n.data + "/do-worker-http")
    until(lambda: n.ask(n.port).startswith("worker-http "), 5, "served again")
    same(n.stop(), 0, "exit code")


@test("ready children: ten restarts at once, the eleventh waits")
def restart_burst():
    n = Probed().start()
    for i in range(11):
        pid = int(n.ask(n.port).split()[1])
        until(lambda: [r for r in n.table() if r["pid"] == pid and r["state"] == 1], 5, "ready")
        os.kill(pid, signal.SIGKILL)
        until(lambda: not node.alive(pid), 5, "gone")
    until(lambda: n.ask(n.port), 5, "served")
    delays = re.findall(r"worker-http 0 ended, starting it again in (\d+) ms", n.log())
    same(delays[:5], ["0"] * 5, "delays")  # the log counts what repeats after five lines
    n.process.terminate()
    n.process.wait(5)
    assert re.search(r"and 6 more like this in 10 s: worker-http 0 ended, starting it again in 100 ms", n.log()), n.log()


@test("nonsense on the control socket: killed and started again")
def nonsense():
    n = Probed(do={"worker-http": "nonsense once"}).start()
    assert "worker-http 0 sent nonsense on its control socket, killing it" in n.log()
    assert "worker-http 0 ended, starting it again in 100 ms" in n.log()
    same(n.stop(), 0, "exit code")


@test("SIGHUP: the log level applies, other changes are named once, a fault changes nothing")
def reload():
    top = scratch()
    path = os.path.join(top, "pico.conf")

    def write(text):
        with open(path, "w") as f:
            f.write(text)
    write("log_level = info\nbacklog = 7\n")
    n = Probed("--config", path).start()
    write("log_level = debug\nbacklog = 8\nmax_inflight = 3\n")
    n.process.send_signal(signal.SIGHUP)
    until(lambda: n.read("order").count("log level debug") == 3, 5, "all three heard it")
    until(lambda: "reload: done log_level=debug" in n.log(), 5, "done")
    same(len(re.findall(r"reload: these changed and need a restart: backlog max_inflight\n", n.log())), 1, "warning")
    write("log_level = loud\n")
    n.process.send_signal(signal.SIGHUP)
    until(lambda: f"reload: {path}:1: --log-level: 'loud' is not one of: error warn info debug; nothing changes" in n.log(), 5, "fault")
    same(n.read("order").count("log level"), 3, "nothing was sent")
    same(n.stop(), 0, "exit code")


@test("addresses: every family of :0 on one port, several listeners, no admin, three workers")
def addresses():
    n = Probed("--listen=:0", "--insecure-allow-remote", "--http-address=http://node1.example:80", "--no-admin",
               "--http-workers=3").start()
    shown = [l for l in n.lines if l.startswith("pico on")]
    same([re.sub(r"\d+$", "N", l) for l in shown],
         ["pico on http://127.0.0.1:N", "pico on http://[::]:N", "pico on http://0.0.0.0:N"], "lines")
    same(shown[1].rsplit(":", 1)[1], shown[2].rsplit(":", 1)[1], "one port for both families")
    port = int(shown[1].rsplit(":", 1)[1])
    assert n.ask(port, "::1").startswith("worker-http ") and n.ask(port, "127.0.0.1").startswith("worker-http ")
    same(len(n.children()["worker-http"]), 3, "workers")
    same(n.found("worker-http")["http_address"], ["http://node1.example:80"], "advertised")
    same([v.split()[3] for v in n.found("worker-http")["listener"]], ["0", "1", "1"], "beyond loopback")
    same(n.stop(), 0, "exit code")


@test("a password in --meta-url: not in argv, one warning, storaged alone has it")
def argv_secret():
    n = Probed("--meta-url=postgres://pico:geheim@127.0.0.1/db").start()
    with open(f"/proc/{n.process.pid}/cmdline", "rb") as f:
        argv = f.read()
    assert b"geheim" not in argv and b"postgres://pico:******@127.0.0.1/db" in argv, argv
    same(n.log().count("--meta-url-file"), 1, "one warning: " + n.log())
    assert "geheim" not in n.log()
    same(n.found("storaged")["password"], ["geheim"], "storaged")
    same(n.found("worker-http")["password"], [""], "worker")
    same(n.stop(), 0, "exit code")


@test("sd_notify: READY=1, a crash loop and its end, STOPPING=1")
def sd_notify():
    top = scratch()
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as s:
        s.bind(top + "/notify")
        s.settimeout(5)
        n = Probed(env={"NOTIFY_SOCKET": top + "/notify"}).start()
        same(s.recv(1000), b"STATUS=starting", "first")
        same(s.recv(1000), f"READY=1\nSTATUS=serving on 127.0.0.1:{n.port}".encode(), "second")
        n.do("worker-http", "exit 3")
        os.kill(n.pid("worker-http"), signal.SIGKILL)
        same(s.recv(1000), b"STATUS=worker-http 0 dies again and again", "crash loop")
        os.unlink(n.data + "/do-worker-http")
        same(s.recv(1000), b"STATUS=serving", "recovered")
        same(n.stop(), 0, "exit code")
        same(s.recv(1000), b"STOPPING=1\nSTATUS=stopping", "third")


tap.run()
