#!/usr/bin/env python3
"""Measures how long a small run on CPUs takes to start, and its memory, next to a script of PyTorch, in alternating order.

usage: start_up.py BUILD_FOLDER PYTHON [--rounds N] [--write]

PYTHON has torch. Both train the network of configs/quickstart.yaml for two steps in one thread; the script has random images instead of
a data set. --write adds docs/benchmarks/start_up_<cores>core_<date>.md with the table, and a CSV with the raw numbers."""

import argparse
import json
import pathlib
import statistics
import subprocess
import tempfile

import page
from front_half import once, quartiles

CONFIG = "configs/quickstart.yaml"
SHORT = ["trainer.max_epochs=1", "++trainer.limit_train_batches=2", "trainer.num_threads=1", "dataset.val=~", "trainer.accelerator=cpu"]
LOOP = """
import torch
from torch import nn
torch.set_num_threads(1)
model = nn.Sequential(nn.Flatten(), nn.Linear(784, 128), nn.ReLU(), nn.Linear(128, 64), nn.ReLU(), nn.Linear(64, 10))
optimizer = torch.optim.Adam(model.parameters())
for _ in range(2):
    images, labels = torch.rand(64, 1, 28, 28), torch.randint(10, (64,))
    optimizer.zero_grad()
    nn.functional.cross_entropy(model(images), labels).backward()
    optimizer.step()
"""
HOW = """This page shows how long a small run on CPUs takes from the start of the program to its end, and the largest peak memory of its
processes. The run trains the network of `{config}` for two steps in one thread and writes its run folder. A PyTorch script does two
steps with the same network on random images and writes nothing. "worker" is the time from the start of the worker process until its
libraries are loaded, and the peak memory of a process, as `trainctl bench` shows them. The numbers are medians [quartiles] of {rounds} rounds,
in each of which everything runs once; ratios are those of the same round. The goals are {s} s and {MiB} MiB for the worker."""
GOALS = {"s": 0.3, "MiB": 250}
RUN, SCRIPT, WORKER = "`trainctl run`", "PyTorch script", "worker"


def worker(program):
    """Returns the seconds that a worker takes to start, and its peak memory in MiB."""
    with tempfile.TemporaryDirectory(prefix="trainctl-start-") as folder:
        done = subprocess.run([program, "bench", CONFIG, *SHORT, "--workers", "0", "--repeats", "1", "--out", folder, "--json"], cwd=page.ROOT,
                              check=True, stdout=subprocess.PIPE, text=True)
    row = json.loads(done.stdout)["rows"][0]
    return row["startup_s"], row["rss_mb"]


def whole_run(program):
    with tempfile.TemporaryDirectory(prefix="trainctl-start-") as folder:
        milliseconds, memory = once(program, ["run", CONFIG, *SHORT, "--quiet", "--run-dir", f"{folder}/run"])
    return milliseconds / 1e3, memory


def script(python):
    milliseconds, memory = once(python, ["-c", LOOP])
    return milliseconds / 1e3, memory


def table(rows):
    lines = ["| | time, s | peak memory, MiB |", "| --- | --- | --- |"]
    for name in (RUN, SCRIPT, WORKER):
        found = [row for row in rows if row[0] == name]
        lines.append(f"| {name} | {quartiles([row[2] for row in found], 2)} | {quartiles([row[3] for row in found], 0)} |")
    pairs = list(zip([row for row in rows if row[0] == RUN], [row for row in rows if row[0] == SCRIPT]))
    ratios = [quartiles([run[column] / script[column] for run, script in pairs], 2) for column in (2, 3)]
    return [*lines, f"| {RUN} / {SCRIPT} | {ratios[0]} | {ratios[1]} |"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", type=lambda text: pathlib.Path(text).resolve())
    parser.add_argument("python", type=lambda text: pathlib.Path(text).absolute())
    parser.add_argument("--rounds", type=int, default=11)
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    program = options.build / "bin/trainctl"
    measurements = [(RUN, lambda: whole_run(program)), (SCRIPT, lambda: script(options.python)), (WORKER, lambda: worker(program))]
    for _, measure in measurements:
        measure()  # warms the page cache
    rows = []
    for number in range(1, options.rounds + 1):
        rows += [(name, number, *measure()) for name, measure in (measurements if number % 2 else reversed(measurements))]
    lines = table(rows)
    print("\n".join(lines))
    if options.write:
        torch = subprocess.run([options.python, "-c", "import torch; print(torch.__version__)"], check=True, capture_output=True, text=True)
        text = [page.title("Start of a small run"), "", page.filled(HOW.format(config=CONFIG, rounds=options.rounds, **GOALS)), "",
                f"{page.circumstances(options.build)} PyTorch {torch.stdout.strip()}.", "", *lines, "",
                "```", f"tests/bench/start_up.py build/release PYTHON --rounds {options.rounds} --write", "```"]
        page.write("start_up", text, ["measured", "round", "s", "peak_mib"],
                   [[name.strip("`"), number, f"{seconds:.3f}", f"{memory:.1f}"] for name, number, seconds, memory in rows])


if __name__ == "__main__":
    main()
