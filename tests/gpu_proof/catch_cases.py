"""Lists and runs single test cases of a Catch2 program."""

import re

from outcomes import failed, passed, skipped

SKIPPED = 4  # the exit code of skip() in tests/support/catch.hpp


def names(context, program, spec):
    """Returns the names of the cases that match a test specification such as "[gpu]"."""
    done = context.run([program, spec, "--list-test-names-only"], timeout=120)
    if "list-test-names-only" in done.text:  # Catch2 3 does not know this option
        done = context.run([program, spec, "--list-tests", "--verbosity", "quiet"], timeout=120)
    found = [line.strip() for line in done.out.splitlines() if line.strip()]
    if not found:
        raise AssertionError(f"{program} lists no case for {spec}: {done.end}")
    return found


def escaped(name):
    """Returns a name as a test specification, in which commas and brackets have a meaning."""
    return re.sub(r"([\\,\[\]])", r"\\\1", name)


def run(context, program, name, *, timeout=150, before=(), environment=None):
    """Returns the outcome of one case in a separate process. `before` is a command that starts the program."""
    return outcome(context.run([*before, program, escaped(name)], timeout, environment=environment), timeout)


def outcome(done, timeout):
    if done.code == 0:
        return passed()
    if done.code == SKIPPED:
        reason = re.search(r"^skipped: (.*)$", done.out, re.M)
        return skipped(reason[1] if reason else "no reason given")
    if done.code is None:
        return failed(f"it did not end within {timeout} s: {done.end}")
    return failed(f"exit code {done.code}: {done.end}")
