#!/usr/bin/env python3
"""Compares a run of trainctl on several processes with PyTorch's DistributedDataParallel (ddp_loops.py). Both use Gloo and run in
alternating order, in fresh processes, with the same model, batch size, optimizer and threads, and the data in memory.

usage: ddp.py TRAINCTL MNIST_FOLDER PYTHON [--rows ffn,resnet18_cifar,mlp25m] [--ranks 2] [--threads 1] [--rounds N] [--write]

PYTHON has torch and torchvision (build/peers-venv/bin/python). --write adds docs/benchmarks/ddp_<cores>core_<date>.md and its
CSV."""

import argparse
import csv
import datetime
import json
import os
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile

from kept import versions_of
from report import cpu_model, filled, quartiles
from steps import ROOT, wait_for_quiet

LOOPS = pathlib.Path(__file__).with_name("ddp_loops.py")
CORES = len(os.sched_getaffinity(0))
# Steps per epoch: enough to take a second or more.
ROWS = {"ffn": 400, "resnet18_cifar": 16, "mlp25m": 48}
BAR = 1.0
DIGITS = ROOT / "configs/mnist/ffn.yaml"
WIDE = "model={type: mlp, hidden: [2048, 4096, 3584]}"
SGD = "optimizer={type: sgd, lr: 0.01, momentum: 0.9}"
PICTURES = """\
name: resnet18_cifar
dataset:
  train: {{ type: synthetic_images, height: 32, width: 32, classes: 10, samples: {samples} }}
  cache: {{ mode: decoded }}
loader: {{ batch_size: 64 }}
model: resnet18
optimizer: {{ type: sgd, lr: 0.1, momentum: 0.9 }}
metrics: [accuracy]
trainer: {{ max_epochs: 2 }}
checkpoint: {{ save_top_k: 0, save_last: false }}
"""


class Trainctl:
    name = "trainctl"

    def __init__(self, options, row):
        self.options, self.row, self.config = options, row, ""

    def words(self, folder):
        """Returns the config file and its overrides: two epochs, of which the first is warm-up."""
        common = ["trainer.accelerator=cpu", f"trainer.devices={self.options.ranks}", f"trainer.num_threads={self.options.threads}",
                  "trainer.max_epochs=2", "loader.num_workers=0"]
        if self.row == "resnet18_cifar":
            file = folder / "resnet18_cifar.yaml"
            file.write_text(PICTURES.format(samples=64 * self.options.ranks * ROWS[self.row]), encoding="utf-8")
            return [file, *common]
        quiet = ["trainer.check_val_every_n_epoch=3", "checkpoint.monitor=train/loss", "++checkpoint.save_top_k=0",
                 "++checkpoint.save_last=false", f"++trainer.limit_train_batches={ROWS[self.row]}"]
        return [DIGITS, *common, *quiet, *([WIDE, SGD] if self.row == "mlp25m" else [])]

    def run(self):
        """Returns the seconds of a step, the exposed part of the gradient exchange, and the wait for other ranks at the end of a
        step."""
        with tempfile.TemporaryDirectory() as folder:
            folder = pathlib.Path(folder)
            subprocess.run([self.options.trainctl, "run", *self.words(folder), "--quiet", "--run-dir", folder / "run"],
                           env=dict(os.environ, TRAINCTL_DATA=str(self.options.mnist.parent)), check=True, capture_output=True, text=True)
            with open(folder / "run/timing.csv", encoding="utf-8") as lines:
                steady = list(csv.DictReader(lines))[-1]
            with open(folder / "run/ranks.csv", encoding="utf-8") as lines:
                first = [row for row in csv.DictReader(lines) if row["rank"] == "0"][-1]
            self.config = (folder / "run/config.resolved.yaml").read_text(encoding="utf-8")
        trained = float(steady["wall_s"]) - float(steady["eval_s"]) - float(steady["checkpoint_s"])
        exposed, waited = float(first["exposed_s"]), float(first["allreduce_exposed_s"])
        return [seconds / ROWS[self.row] for seconds in (trained, exposed, waited - exposed)]


class Ddp:
    name = "DDP"

    def __init__(self, options, row):
        self.options, self.row = options, row

    def run(self):
        words = [self.options.python, LOOPS, str(self.options.mnist), self.row, self.options.ranks, self.options.threads, ROWS[self.row]]
        out = subprocess.run(list(map(str, words)), check=True, capture_output=True, text=True).stdout
        document = json.loads(out.splitlines()[-1])
        return document["step_s"], document["exposed_s"], 0.0


def measure(options, row):
    """Returns {program: [(step, exposed, wait) of each round]} and the resolved config."""
    found, config = {Trainctl.name: [], Ddp.name: []}, ""
    for round_number in range(options.rounds):
        for program in (Trainctl(options, row), Ddp(options, row)):
            wait_for_quiet()
            try:
                found[program.name].append(program.run())
            except subprocess.CalledProcessError as error:
                raise SystemExit(f"{row}, {program.name}: {(error.stderr or '').strip()[-2000:]}") from None
            config = getattr(program, "config", config)
            step, exposed, met = found[program.name][-1]
            print(f"{row} round {round_number + 1} of {options.rounds}  {program.name}: {1000 * step:.3f} ms a step, "
                  f"{1000 * exposed:.3f} of them exposed, {1000 * met:.3f} to agree", file=sys.stderr, flush=True)
    return found, config


def spread(values, unit=1000):
    q1, middle, q3 = (unit * value for value in quartiles(values))
    return f"{middle:.3f} [{q1:.3f}, {q3:.3f}]"


def table(found):
    lines = ["| program | ms a step [quartiles] | exposed, ms a step | exposed share | to agree, ms a step |",
             "| --- | ---: | ---: | ---: | ---: |"]
    for name, rounds in found.items():
        steps, exposed, met = zip(*rounds)
        share = statistics.median(e / s for s, e, _ in rounds)
        agreed = spread(met) if any(met) else "never"
        lines.append(f"| {name} | {spread(steps)} | {spread(exposed)} | {100 * share:.0f} % | {agreed} |")
    pairs = list(zip(found[Trainctl.name], found[Ddp.name]))
    q1, middle, q3 = quartiles([peer[0] / mine[0] for mine, peer in pairs])
    lines += ["", f"A step of DDP takes {middle:.2f}x [{q1:.2f}, {q3:.2f}] as long as a step of trainctl (bar: {BAR}x)."]
    known = [peer[1] / mine[1] for mine, peer in pairs if mine[1] > 0]
    if known:
        q1, middle, q3 = quartiles(known)
        lines[-1] += f" The exposed exchange of DDP takes {middle:.2f}x [{q1:.2f}, {q3:.2f}] as long as that of trainctl (bar: {BAR}x)."
    return [*lines[:-1], filled(lines[-1])]


HOW = """The numbers are medians [quartiles] of {rounds} rounds. In each round, the two programs run one after the other, each as {ranks}
new processes with {threads} each. A ratio is computed within each round.

* **Step:** for trainctl, the mean time of a step in the second epoch of a run, with everything between two steps, but without validation
  and saving. For DDP, the mean of as many steps after five steps of warm-up, with the loop of its tutorial, fused optimizers, gradients
  as views of the buckets, and all data in memory.
* **Exposed:** the part of a step in which rank 0 waits for the exchange, from the launch of the last bucket to the end of the backward
  pass. For trainctl, it is `exposed_s` of `ranks.csv`. For DDP, a hook records it in a separate run.
* **To agree:** the time at the end of a step in which the ranks of trainctl ask each other for requests to stop or to save. It is part of
  the step of trainctl. DDP has no such exchange.
* **Bar:** the ratio that trainctl must reach.

Both programs exchange through Gloo on the loopback interface, with a first bucket of 1 MiB and further buckets of 25 MiB. trainctl binds
its ranks to separate cores. DDP leaves the choice of cores to the Linux kernel.

The experiments are `ffn` (configs/mnist/ffn.yaml), `resnet18_cifar` (random images of 32x32 pixels, SGD) and `mlp25m` (MNIST, layers of
2,048, 4,096 and 3,584 units, 24.7 million parameters, SGD), each with 64 samples per rank and step."""


def write(options, measured):
    stem = f"ddp_{CORES}core_{datetime.date.today().isoformat()}"
    ours = versions_of(options.trainctl)
    torch = subprocess.run([options.python, "-c", "import torch; print(torch.__version__)"], capture_output=True, text=True, check=True).stdout.strip()
    text = [f"# {options.ranks} processes, {CORES} cores, {datetime.date.today().isoformat()}", "",
            "This page compares a run of trainctl on several ranks with PyTorch's DistributedDataParallel (DDP). The baseline is trainctl.", "",
            f"{cpu_model()}, {CORES} cores. trainctl {ours['version']} (git {ours['git']}, {ours['build']['type']}), torch {torch}.", "",
            filled(HOW.format(rounds=options.rounds, ranks=options.ranks, threads=f"{options.threads} thread{'s' * (options.threads > 1)}")), ""]
    for row, (found, _) in measured.items():
        text += [f"## {row}", "", *table(found), ""]
    text += ["## Resolved configs", ""]
    for row, (_, config) in measured.items():
        shown = config.replace(str(ROOT) + "/", "").replace(str(options.mnist.parent) + "/", "").rstrip()
        shown = re.sub(rf"{re.escape(tempfile.gettempdir())}/[^/\s]+/", "", shown)
        text += [f"### {row}", "", "```yaml", shown, "```", ""]
    folder = ROOT / "docs/benchmarks"
    (folder / f"{stem}.md").write_text("\n".join(text), encoding="utf-8")
    with open(folder / f"{stem}.csv", "w", encoding="utf-8", newline="") as file:
        rows = csv.writer(file, lineterminator="\n")
        rows.writerow(["row", "program", "round", "step_s", "exposed_s", "agree_s"])
        for row, (found, _) in measured.items():
            rows.writerows([row, name, i + 1, *(f"{value:.6f}" for value in values)]
                           for name, rounds in found.items() for i, values in enumerate(rounds))
    print(f"wrote docs/benchmarks/{stem}.md")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("trainctl", type=lambda text: pathlib.Path(text).resolve())
    parser.add_argument("mnist", type=lambda text: pathlib.Path(text).resolve())
    parser.add_argument("python", type=lambda text: pathlib.Path(text).absolute())
    parser.add_argument("--rows", default=",".join(ROWS))
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    unknown = set(options.rows.split(",")) - set(ROWS)
    if unknown:
        parser.error(f"there is no row {', '.join(sorted(unknown))}; there are {', '.join(ROWS)}")
    measured = {}
    for row in options.rows.split(","):
        measured[row] = measure(options, row)
        print("\n".join([f"## {row}", *table(measured[row][0])]))
    if options.write:
        write(options, measured)


if __name__ == "__main__":
    main()
