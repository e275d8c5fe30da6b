"""Runs the checks of a stage within a time budget. What is not done in time is left to the next call."""

import time
import traceback
import typing

from outcomes import failed

MOST_ATTEMPTS = 2


class OutOfTime(Exception):
    """The call has no time left for the check. The next call tries again."""


class Check(typing.NamedTuple):
    """One check of a stage: a function of the context that returns an Outcome, and the seconds it may take on a GPU machine. A check
    starts only if the call has that much time left."""

    name: str
    run: typing.Callable
    seconds: float = 60


class Stage(typing.NamedTuple):
    """A list of checks. `checks` returns them for a context; `seconds` is the longest time of one call."""

    name: str
    summary: str
    checks: typing.Callable
    seconds: float = 520


def evaluate(context, one):
    """Runs one check, and turns an exception into a failure. OutOfTime passes through."""
    try:
        return one.run(context)
    except OutOfTime:
        raise
    except AssertionError as error:
        return failed(str(error) or "an assertion failed")
    except Exception as error:
        context.log(traceback.format_exc())
        return failed(f"{type(error).__name__}: {error}")


def pending(stage, context, state):
    """Returns the checks of a stage without an outcome. A check whose call ended twice before it did has failed."""
    left = []
    for one in stage.checks(context):
        if state.outcome(stage.name, one.name) is not None:
            continue
        if state.attempts(stage.name, one.name) >= MOST_ATTEMPTS:
            state.end(stage.name, one.name, failed(f"it did not end within the time of {MOST_ATTEMPTS} calls"), 0)
            continue
        left.append(one)
    return left


def run_stage(stage, context, state, budget_s, report=print, clock=time.monotonic):
    """Runs the pending checks of a stage for at most `budget_s` seconds, and returns the number of checks that are left. The first
    check of a call (`context.has_run` is false) starts even if it may need more time."""
    start = clock()
    context.deadline = start + min(budget_s, stage.seconds)
    context.stage = stage.name
    todo = pending(stage, context, state)
    for number, one in enumerate(todo):
        left = context.deadline - clock()
        if left < one.seconds and context.has_run:
            report(f"{stage.name}: {len(todo) - number} checks are left for the next call")
            return len(todo) - number
        state.begin(stage.name, one.name)
        context.check, context.has_run = one.name, True
        begun = clock()
        try:
            outcome = evaluate(context, one)
        except OutOfTime:
            report(f"{stage.name}: {one.name}: the time of this call is used up; {len(todo) - number} checks are left")
            return len(todo) - number
        state.end(stage.name, one.name, outcome, clock() - begun)
        report(f"{stage.name}: {one.name}: {outcome.status}{': ' + outcome.reason if outcome.reason else ''}")
    return 0
