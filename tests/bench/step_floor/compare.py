#!/usr/bin/env python3
"""Measures the overhead of the runner over a bare loop: bench_step_floor and `trainctl run configs/mnist/ffn.yaml` alternate.

usage: compare.py BUILD_FOLDER MNIST_FOLDER [--rounds N] [--epochs N] [--write]

Each runs on one thread in a fresh process, and every round swaps the order. The first epoch of each process is warm-up and does
not count. --write adds docs/benchmarks/step_floor_<cores>core_<date>.md with the table and the resolved config, and a CSV with
the epochs."""

import argparse
import csv
import datetime
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import page  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parents[3]
BAR = 1.05
INTRODUCTION = """This page shows how much longer a run of trainctl takes than a bare libtorch loop (the floor, `tests/bench/step_floor`).
Both train the same network on MNIST with one thread: 784-128-64-10 units, batch size 64, Adam. Both compute loss and accuracy in training
and validation."""
HOW = """The numbers are medians [quartiles] of {rounds} rounds, in which the two programs run alternately in new processes, with one epoch
of warm-up and {epochs} measured epochs. A ratio compares the medians of one round. Both programs reuse the memory that tensors free
instead of returning it to the system (`lib/base/machine/allocator.hpp`)."""
ENVIRONMENT = dict(os.environ, OMP_WAIT_POLICY="passive")
# The settings that keep_freed_memory() makes in trainctl, so that the bare loop has no page faults either.
FLOOR_ENVIRONMENT = dict(ENVIRONMENT, MALLOC_MMAP_THRESHOLD_=str(32 << 20), MALLOC_TRIM_THRESHOLD_=str(1 << 30),
                         MALLOC_TOP_PAD_=str(64 << 20))


def floor_epochs(build, mnist, epochs):
    """Returns [(training, whole epoch, CPU)] in seconds, one per epoch."""
    out = subprocess.run([build / "bin/bench_step_floor", mnist, str(epochs), "1"], env=FLOOR_ENVIRONMENT, check=True,
                         capture_output=True, text=True).stdout
    return [(e["train_s"], e["train_s"] + e["eval_s"], e["cpu_s"]) for e in json.loads(out)["epochs"]]


def runner_epochs(build, mnist, epochs):
    """Returns the same from timing.csv, and the resolved config. The whole epoch includes saving the best weights."""
    with tempfile.TemporaryDirectory() as folder:
        run = pathlib.Path(folder) / "run"
        subprocess.run([build / "bin/trainctl", "run", ROOT / "configs/mnist/ffn.yaml", "trainer.num_threads=1",
                        "trainer.accelerator=cpu", f"trainer.max_epochs={epochs}", "--quiet", "--run-dir", run],
                       env=dict(ENVIRONMENT, TRAINCTL_DATA=str(mnist.parent)), check=True, stdout=subprocess.DEVNULL)
        with open(run / "timing.csv", encoding="utf-8") as file:
            rows = [{key: float(value) for key, value in row.items() if value} for row in csv.DictReader(file)]
        config = (run / "config.resolved.yaml").read_text(encoding="utf-8")
    return [(r["wall_s"] - r["eval_s"] - r["checkpoint_s"], r["wall_s"], r["wall_s"] * r["cpu_percent"] / 100)
            for r in rows], config


def quartiles(values):
    q1, median, q3 = statistics.quantiles(values, n=4, method="inclusive")
    return f"{median:.4f} [{q1:.4f}, {q3:.4f}]"


def measure(options):
    floor, runner, config = [], [], ""
    for round_number in range(options.rounds):
        def one():
            floor.append(floor_epochs(options.build, options.mnist, options.epochs)[1:])
        def other():
            nonlocal config
            epochs, config = runner_epochs(options.build, options.mnist, options.epochs)
            runner.append(epochs[1:])
        for step in ((one, other) if round_number % 2 == 0 else (other, one)):
            step()
        print(f"round {round_number + 1} of {options.rounds}", file=sys.stderr)
    return floor, runner, config


def table(floor, runner):
    """Returns Markdown rows, and the ratio of the training times, paired by round."""
    lines = ["| per epoch | floor, s | trainctl, s | ratio |", "| --- | --- | --- | --- |"]
    training_ratio = 0.0
    for column, name in enumerate(("training", "training, validation and checkpoint", "CPU time of the process")):
        ours = [epoch[column] for run in runner for epoch in run]
        theirs = [epoch[column] for run in floor for epoch in run]
        ratios = [statistics.median(e[column] for e in a) / statistics.median(e[column] for e in b)
                  for a, b in zip(runner, floor)]
        lines.append(f"| {name} | {quartiles(theirs)} | {quartiles(ours)} | {quartiles(ratios)} |")
        if column == 0:
            training_ratio = statistics.median(ratios)
    return lines, training_ratio


def cpu_model():
    with open("/proc/cpuinfo", encoding="utf-8") as file:
        return next((line.split(":", 1)[1].strip() for line in file if line.startswith("model name")), "unknown CPU")


def torch_version(build):
    for line in (build / "CMakeCache.txt").read_text(encoding="utf-8").splitlines():
        if line.startswith("TRAINCTL_TORCH_LIB:"):
            text = (pathlib.Path(line.split("=", 1)[1]).parent / "version.py").read_text(encoding="utf-8")
            return next(part.split("'")[1] for part in text.splitlines() if part.startswith("__version__"))
    return "unknown"


def write_raw(path, floor, runner):
    with open(path, "w", encoding="utf-8", newline="") as file:
        rows = csv.writer(file, lineterminator="\n")
        rows.writerow(["program", "round", "epoch", "training_s", "epoch_s", "cpu_s"])
        for name, runs in (("floor", floor), ("trainctl", runner)):
            rows.writerows([name, i + 1, j + 2, *(f"{value:.6f}" for value in epoch)]
                           for i, run in enumerate(runs) for j, epoch in enumerate(run))


def write_report(lines, options, config, floor, runner):
    cores = len(os.sched_getaffinity(0))
    date = datetime.date.today().isoformat()
    path = ROOT / "docs/benchmarks" / f"step_floor_{cores}core_{date}.md"
    path.parent.mkdir(parents=True, exist_ok=True)
    version = json.loads(subprocess.run([options.build / "bin/trainctl", "version", "--json"], capture_output=True,
                                        text=True, check=True).stdout)
    text = [f"# Step floor, {cores} cores, {date}", "",
            page.filled(INTRODUCTION), "",
            page.filled(f"{cpu_model()}, {cores} cores; load average at the end {os.getloadavg()[0]:.1f}. trainctl {version['version']}, "
                        f"git {version['git']}, {version['build']['type']}, {version['build']['compiler']}, torch {torch_version(options.build)}. "
                        + HOW.format(rounds=options.rounds, epochs=options.epochs - 1)),
            "", *lines, "", "```",
            f"tests/bench/step_floor/compare.py build/release MNIST_FOLDER --rounds {options.rounds} --epochs {options.epochs} --write",
            "```", "", "Resolved config:", "", "```yaml", config.replace(str(ROOT) + "/", "").replace(str(options.mnist.parent) + "/", "").rstrip(), "```", ""]
    path.write_text("\n".join(text), encoding="utf-8")
    write_raw(path.with_suffix(".csv"), floor, runner)
    print(f"wrote {path.relative_to(ROOT)}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", type=lambda text: pathlib.Path(text).resolve())
    parser.add_argument("mnist", type=lambda text: pathlib.Path(text).resolve())
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    floor, runner, config = measure(options)
    lines, training_ratio = table(floor, runner)
    print("\n".join(lines))
    print(f"training: {training_ratio:.3f}x of the floor, the bar is {BAR}: {'met' if training_ratio <= BAR else 'missed'}")
    if options.write:
        write_report(lines, options, config, floor, runner)


if __name__ == "__main__":
    main()
