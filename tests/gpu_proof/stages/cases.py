"""Every test case with the tag [gpu], in a process each: a case that corrupts the CUDA context ends alone. Most of the time of a case is
the start of CUDA, so several run at once. A case that fails next to others runs again alone, because they may have taken its memory."""

import catch_cases
from outcomes import FAILED, SKIPPED, Outcome, skipped
from runner import Check

GROUP, AT_ONCE = 12, 4
REHEARSED = 2  # cases of a rehearsal on a CPU, where all of them are skipped


def checked(context, outcome):
    if context.device == "cuda" and outcome.status == SKIPPED and outcome.reason.startswith("no GPU"):
        return Outcome(FAILED, f"skipped on a GPU machine: {outcome.reason}")
    return outcome


def group(number, names):
    def run(context):
        program = context.build / "bin/unit_torch"
        outcomes = catch_cases.run_group(context, program, names, AT_ONCE)
        for name in [name for name, one in outcomes.items() if one.status == FAILED]:
            outcomes[name] = catch_cases.run(context, program, name)
        return catch_cases.summary({name: checked(context, one) for name, one in outcomes.items()})

    return Check(f"cases {number * GROUP + 1} to {number * GROUP + len(names)}", run, 90)


def checks(context):
    program = context.build / "bin/unit_torch"
    if not program.exists():
        return [Check("unit_torch", lambda _: skipped(f"{program} does not exist"), 1)]
    names = catch_cases.names(context, program, "[gpu]")
    if context.quick:
        names = names[:REHEARSED]
    return [group(i // GROUP, names[i:i + GROUP]) for i in range(0, len(names), GROUP)]
