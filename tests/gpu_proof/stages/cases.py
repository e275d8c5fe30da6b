"""Every test case with the tag [gpu], in a separate process each: a case that corrupts the CUDA context ends alone."""

import catch_cases
from outcomes import FAILED, Outcome, skipped
from runner import Check

REHEARSED = 2  # cases of a rehearsal on a CPU, where all of them are skipped


def case(name):
    def run(context):
        outcome = catch_cases.run(context, context.build / "bin/unit_torch", name)
        if context.device == "cuda" and outcome.reason.startswith("no GPU"):
            return Outcome(FAILED, f"skipped on a GPU machine: {outcome.reason}")
        return outcome

    return Check(name, run, 60)


def checks(context):
    program = context.build / "bin/unit_torch"
    if not program.exists():
        return [Check("unit_torch", lambda _: skipped(f"{program} does not exist"), 1)]
    found = catch_cases.names(context, program, "[gpu]")
    return [case(name) for name in (found[:REHEARSED] if context.quick else found)]
