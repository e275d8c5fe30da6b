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
HOW = """This page shows how long a small run on CPUs takes from the start of the program to its end, and the most memory that one of its
processes uses. The run trains the network of `{config}` for two steps in one thread and writes its run folder. A script of PyTorch does two
steps of the same network on random images and writes nothing. "worker" is the time from the start of the worker process until its
libraries are loaded, and the peak memory of a process, as `trainctl bench` shows them. The numbers are medians [quartiles] of {rounds} rounds,
in each of which everything runs once; ratios are those of the same round. The targets (bars) are {s} s and {MB} MB for the worker."""
BARS = {"s": 0.3, "MB": 250}
RUN, LOOP_NAME, WORKER = "`trainctl run`", "script of PyTorch", "worker"


def worker(program):
    """Returns the seconds that a worker takes to start, and its memory in MB."""
    with tempfile.TemporaryDirectory(prefix="trainctl-start-") as folder:
        done = subprocess.run([program, "bench", CONFIG, *SHORT, "--workers", "0", "--repeats", "1", "--out", folder, "--json"], cwd=page.ROOT,
                              check=True, capture_output=True, text=True)
    row = json.loads(done.stdout)["rows"][0]
    return row["startup_s"], row["rss_mb"]


def whole_run(program):
    with tempfile.TemporaryDirectory(prefix="trainctl-start-") as folder:
        milliseconds, memory = once(program, ["run", CONFIG, *SHORT, "--quiet", "--run-dir", f"{folder}/run"])
    return milliseconds / 1e3, memory


def loop(python):
    milliseconds, memory = once(python, ["-c", LOOP])
    return milliseconds / 1e3, memory


def table(rows):
    lines = ["| | wall, s | peak memory, MB |", "| --- | --- | --- |"]
    for name in (RUN, LOOP_NAME, WORKER):
        mine = [row for row in rows if row[0] == name]
        lines.append(f"| {name} | {quartiles([row[2] for row in mine], 2)} | {quartiles([row[3] for row in mine], 0)} |")
    pairs = list(zip([row for row in rows if row[0] == RUN], [row for row in rows if row[0] == LOOP_NAME]))
    ratios = [quartiles([ours[column] / theirs[column] for ours, theirs in pairs], 2) for column in (2, 3)]
    return [*lines, f"| {RUN} / {LOOP_NAME} | {ratios[0]} | {ratios[1]} |"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("python")
    parser.add_argument("--rounds", type=int, default=11)
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    program = options.build.resolve() / "bin/trainctl"
    ways = [(RUN, lambda: whole_run(program)), (LOOP_NAME, lambda: loop(options.python)), (WORKER, lambda: worker(program))]
    for _, way in ways:
        way()  # the first round only brings the files into memory
    rows = []
    for number in range(1, options.rounds + 1):
        rows += [(name, number, *way()) for name, way in (ways if number % 2 else reversed(ways))]
    lines = table(rows)
    print("\n".join(lines))
    if options.write:
        torch = subprocess.run([options.python, "-c", "import torch; print(torch.__version__)"], check=True, capture_output=True, text=True)
        text = [page.title("Start of a small run"), "", page.filled(HOW.format(config=CONFIG, rounds=options.rounds, **BARS)), "",
                f"{page.circumstances(options.build.resolve())} PyTorch {torch.stdout.strip()}.", "", *lines, "",
                "```", f"tests/bench/start_up.py build/release PYTHON --rounds {options.rounds} --write", "```"]
        page.write("start_up", text, ["measured", "round", "wall_s", "peak_mb"],
                   [[name.strip("`"), number, f"{seconds:.3f}", f"{memory:.1f}"] for name, number, seconds, memory in rows])


if __name__ == "__main__":
    main()
