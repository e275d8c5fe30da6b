"""The quickstart, and a run that chooses its loader threads."""

import json
import re
import statistics

from machine import SMALL
from outcomes import check, skipped
from runner import Check

UNITS = {"us": 1e-6, "ms": 1e-3, "s": 1, "min": 60}
LEAST_ACCURACY = 0.95   # of the quickstart, after two epochs
LARGEST_RATIO = 1.5     # between the step time that the choice of loader threads is based on, and the measured one


def quickstart(context):
    words = ["trainer.max_epochs=1", "+trainer.limit_val_batches=20"] if context.quick else []
    run = context.train(context.config("quickstart.yaml"), *words)
    accuracy = run.result.get("val", {}).get("accuracy", 0)
    least = 0.5 if context.quick else LEAST_ACCURACY
    return check(run.done.code == 0 and accuracy >= least,
                 f"exit code {run.done.code}, accuracy {accuracy}; at least {least} is expected: {run.done.end}", accuracy=accuracy,
                 timing=run.result.get("timing"))


def captured(context):
    """With cuda_graphs=auto, a warning names the reason if a step is not recorded; with true, the run fails."""
    words = ["trainer.max_epochs=1", "+trainer.limit_train_batches=100", "+trainer.limit_val_batches=5"]
    run = context.train(context.config("quickstart.yaml"), *words)
    lines = run.fallbacks()
    if context.device != "cuda":
        return check(run.done.code == 0, run.done.end, messages=lines)
    forced = context.train(context.config("quickstart.yaml"), *words, "+trainer.cuda_graphs=true")
    return check(run.done.code == 0 and forced.done.code == 0 and not lines,
                 f"auto: {'; '.join(lines) or 'no message'}; true: exit code {forced.done.code}: {forced.done.end}", messages=lines)


def seconds_of_step(why):
    """Returns the step time that the reason for a number of workers contains, in seconds."""
    found = re.search(r"a step ([\d.,]+) (us|ms|s|min)\b", why)
    return float(found[1].replace(",", "")) * UNITS[found[2]] if found else None


def loader_threads(context):
    """The step time that the choice is based on must be that of later steps, not that of the first, which loads libraries."""
    size = SMALL if context.quick else []
    steps = 6 if context.quick else 60
    run = context.train(context.config("imagenet-sample/synthetic.yaml"), *size, "dataset.train.samples=20000", "++trainer.log_every_n_steps=1",
                        f"trainer.max_steps={steps}", "++loader.num_workers=auto")
    if run.done.code != 0:
        return check(False, run.done.end)
    chosen = json.loads((run.folder / "manifest.json").read_text())["num_workers"]
    times = [step["elapsed_s"] for step in run.steps()][len(run.steps()) // 2:]
    measured = statistics.median(b - a for a, b in zip(times, times[1:]))
    based_on = seconds_of_step(chosen["why"])
    if based_on is None:
        return skipped(f"no step time is reported: {chosen['why']}", chosen=chosen, measured_s=measured)
    ratio = max(based_on / measured, measured / based_on)
    return check(ratio <= LARGEST_RATIO or context.device == "cpu", f"based on {based_on} s a step, measured {measured:.4g} s", chosen=chosen,
                 measured_s=measured, based_on_s=based_on)


def checks(_context):
    return [Check("quickstart", quickstart, 90), Check("quickstart: CUDA graph", captured, 90), Check("num_workers: auto", loader_threads, 120)]
