# SPDX-License-Identifier: Apache-2.0
"""TAP for scripts: decorate functions with @test("what is true"), end with run()."""
import contextlib, os, sys, time, traceback

_tests = []
_on_failure = []


def test(name):
    def add(function):
        _tests.append((name, function))
        return function
    return add


def skip(name, reason):
    """A test that cannot run here, by name."""
    _tests.append((name, reason))


class Skip(Exception):
    """Raised inside a test that finds out that it cannot run here."""


def on_failure(function):
    """Called after a failed test, to show what is known (logs)."""
    _on_failure.append(function)


def diag(text):
    for line in str(text).splitlines():
        print("#", line, flush=True)


def run(cleanup=lambda: None):
    failed = 0
    try:
        for number, (name, function) in enumerate(_tests, 1):
            if isinstance(function, str):
                print(f"ok {number} - {name} # skip {function}", flush=True)
                continue
            began = time.monotonic()
            try:
                function()
                print(f"ok {number} - {name}", flush=True)
            except Skip as reason:
                print(f"ok {number} - {name} # skip {reason}", flush=True)
            except BaseException as error:  # a failed test must not hide those behind it
                failed += 1
                print(f"not ok {number} - {name}", flush=True)
                diag(traceback.format_exc())
                for function in _on_failure:
                    with contextlib.suppress(Exception):
                        function()
                if isinstance(error, KeyboardInterrupt):
                    raise
            diag(f"{time.monotonic() - began:.2f} s")
        print(f"1..{len(_tests)}", flush=True)
    finally:
        cleanup()
    sys.exit(1 if failed else 0)


def until(condition, seconds, what):
    """Waits for a condition with a deadline; returns its value. Never a bare sleep."""
    end = time.monotonic() + seconds
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > end:
            raise AssertionError(f"not within {seconds} s: {what}")
        time.sleep(0.02)


def same(got, expected, what=""):
    assert got == expected, f"{what}: got {got!r}, expected {expected!r}"


src = os.environ.get("PICO_SRC", os.getcwd())
build = os.environ.get("PICO_BUILD", os.getcwd())
