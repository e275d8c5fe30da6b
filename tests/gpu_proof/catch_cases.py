"""Lists and runs single test cases of a Catch2 program."""

import re

from outcomes import FAILED, PASSED, SKIPPED as LEFT_OUT, failed, passed, skipped

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


def run_group(context, program, names, at_once, environment=None, timeout=150):
    """Runs cases in a process each, several at a time, and returns {name: outcome}."""
    outcomes, running, waiting = {}, {}, list(names)
    while waiting or running:
        while waiting and len(running) < at_once:
            name = waiting.pop(0)
            running[name] = context.start([program, escaped(name)], environment=environment)
        name, process = next(iter(running.items()))
        del running[name]
        try:
            outcomes[name] = outcome(context.finish(process, timeout), timeout)
        except BaseException:
            for other in running.values():
                other.kill()
            raise
    return outcomes


def summary(outcomes):
    """Returns one outcome for a group: failed if a case failed, and skipped if all were skipped."""
    bad = {name: one.reason for name, one in outcomes.items() if one.status == FAILED}
    left_out = {name: one.reason for name, one in outcomes.items() if one.status == LEFT_OUT}
    if bad:
        return failed("; ".join(f"{name}: {reason}" for name, reason in bad.items()), cases=len(outcomes), skipped=left_out)
    if all(one.status != PASSED for one in outcomes.values()):
        return skipped("; ".join(sorted(set(left_out.values()))), cases=len(outcomes), skipped=left_out)
    return passed(cases=len(outcomes), skipped=left_out)


def outcome(done, timeout):
    if done.code == 0:
        return passed()
    if done.code == SKIPPED:
        reason = re.search(r"^skipped: (.*)$", done.out, re.M)
        return skipped(reason[1] if reason else "no reason given")
    if done.code is None:
        return failed(f"it did not end within {timeout} s: {done.end}")
    return failed(f"exit code {done.code}: {done.end}")
