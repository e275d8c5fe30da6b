"""The test cases of the engine without the tag [gpu], among them those that compare with golden values of PyTorch, and published
losses on MNIST."""

import os

import catch_cases
import data_sets
from outcomes import check, failed, skipped
from runner import Check

GROUP = 60  # cases of one check
REHEARSED = 4


def group(number, names):
    """Runs some cases, several at a time."""
    def run(context):
        program = context.build / "bin/unit_torch"
        at_once = max(1, len(os.sched_getaffinity(0)) // 2)
        return catch_cases.summary(catch_cases.run_group(context, program, names, at_once, {"OMP_NUM_THREADS": 2}))

    return Check(f"cases {number * GROUP + 1} to {number * GROUP + len(names)}", run, 120)


def mnist(context):
    """The tutorial network with Adam at 1e-3 and batches of 64: the ranges contain the losses that PyTorch reaches."""
    _, is_real = data_sets.mnist(context)
    if not is_real:
        return skipped("data/mnist is not here")
    if context.quick:
        return skipped("not part of a rehearsal")
    run = context.train(context.config("mnist/ffn.yaml"), environment={"TRAINCTL_DATA": data_sets.folder(context)})
    if run.done.code != 0:
        return failed(run.done.end)
    losses = [row["train/loss"] for row in run.rows("epochs.csv")]
    accuracy = max(row["val/accuracy"] for row in run.rows("epochs.csv"))
    good = 0.22 <= losses[0] <= 0.29 and losses[-1] < 0.07 and accuracy >= 0.97
    return check(good, f"losses {losses}, best accuracy {accuracy}", losses=losses, accuracy=accuracy)


def checks(context):
    program = context.build / "bin/unit_torch"
    found = [Check("MNIST: published losses", mnist, 120)]
    if not program.exists():
        return [*found, Check("unit_torch", lambda _: skipped(f"{program} does not exist"), 1)]
    names = catch_cases.names(context, program, "~[gpu]")
    if context.quick:
        names = names[:REHEARSED]
    return found + [group(i // GROUP, names[i:i + GROUP]) for i in range(0, len(names), GROUP)]
