#!/usr/bin/env python3
"""Compares a training run of trainctl with PyTorch loops (step_loops.py), in alternating order, in fresh processes, with the same
threads.

usage: steps.py TRAINCTL MNIST_FOLDER PYTHON [--rows ffn,resnet18_cifar,...] [--without compiled,...] [--rounds N] [--write]

PYTHON has torch and torchvision (build/peers-venv/bin/python). ffn is configs/mnist/ffn.yaml, whole epochs with validation on one
thread; the others are steps of a network on random pixels, on all cores. --write adds docs/benchmarks/steps_<cores>core_<date>.md
and its CSV."""

import argparse
import array
import csv
import datetime
import json
import os
import pathlib
import random
import re
import statistics
import subprocess
import sys
import tempfile
import time

from report import cpu_model, filled, quartiles
from kept import versions_of

ROOT = pathlib.Path(__file__).resolve().parents[3]
LOOPS = pathlib.Path(__file__).with_name("step_loops.py")

CORES = len(os.sched_getaffinity(0))
FFN_EPOCHS, STEPS = 3, 10
NETWORKS = {"resnet18_cifar": ("resnet18", 32, 64, 10), "resnet50": ("resnet50", 224, 8, 1000),
            "mobilenet_v2": ("mobilenet_v2", 224, 8, 1000)}
GPT_BATCH, GPT_LENGTH, GPT_VOCABULARY = 2, 64, 50257
ALLOCATORS = ("system", "jemalloc", "mimalloc")
BARS = {"dataloader:0": 18, "dataloader best": 11, "eager": 1.4, "compiled": 1.0}


def gpt_experiment(folder):
    """Returns an experiment with GPT-2's small shape on random tokens."""
    tokens = random.Random(1)
    drawn = array.array("H", (tokens.randrange(GPT_VOCABULARY) for _ in range(GPT_BATCH * GPT_LENGTH * (STEPS + 3) + 1)))
    (folder / "tokens.bin").write_bytes(drawn.tobytes())
    return (f"name: gpt2_small\ndataset:\n  train: {{ type: tokens, path: tokens.bin, sequence_length: {GPT_LENGTH}, "
            f"vocab_size: {GPT_VOCABULARY} }}\nloader: {{ batch_size: {GPT_BATCH}, num_workers: 0 }}\n"
            f"model: {{ type: gpt, layers: 12, heads: 12, width: 768, context: 1024, dropout: 0 }}\nloss: cross_entropy\n"
            f"optimizer: {{ type: adamw, lr: 0.0003, weight_decay: 0.1 }}\n" + LENGTH)


# The first epoch is warm-up.
LENGTH = f"trainer: {{ accelerator: cpu, num_threads: {CORES}, max_epochs: 2, log_every_n_steps: 1 }}\ncheckpoint: {{ save_top_k: 0, save_last: false }}\n"


def experiment(row, folder):
    if row == "gpt2_small":
        return gpt_experiment(folder)
    model, side, batch, classes = NETWORKS[row]
    samples = batch * (STEPS + 3)
    return (f"name: {row}\ndataset:\n  train: {{ type: synthetic_images, height: {side}, width: {side}, classes: {classes}, "
            f"samples: {samples} }}\n  cache: {{ mode: decoded }}\nloader: {{ batch_size: {batch}, num_workers: 0 }}\n"
            f"model: {model}\noptimizer: {{ type: sgd, lr: 0.1, momentum: 0.9 }}\n"
            + LENGTH)


class Trainctl:
    def __init__(self, options, row, allocator=None):
        self.options, self.row, self.config = options, row, ""
        self.name = allocator or "trainctl"
        self.overrides = [f"trainer.allocator={allocator}"] if allocator else []

    def steps(self, count, environment):
        """Runs steps of ffn without measuring."""
        with tempfile.TemporaryDirectory() as folder:
            subprocess.run([self.options.trainctl, "run", ROOT / "configs/mnist/ffn.yaml", "trainer.accelerator=cpu",
                            "trainer.num_threads=1", "loader.num_workers=0", f"trainer.max_steps={count}", "trainer.max_epochs=1",
                            "trainer.check_val_every_n_epoch=2", "checkpoint.monitor=train/loss", "--quiet", "--run-dir", f"{folder}/run"],
                           env=dict(environment, TRAINCTL_DATA=str(self.options.mnist.parent)), check=True, stdout=subprocess.DEVNULL)

    def run(self):
        """Returns the seconds of each epoch, or of each step."""
        with tempfile.TemporaryDirectory() as folder:
            folder = pathlib.Path(folder)
            if self.row == "ffn":
                file, extra = ROOT / "configs/mnist/ffn.yaml", ["trainer.num_threads=1", f"trainer.max_epochs={FFN_EPOCHS}"]
            else:
                file, extra = folder / f"{self.row}.yaml", []
                file.write_text(experiment(self.row, folder), encoding="utf-8")
            subprocess.run([self.options.trainctl, "run", file, "trainer.accelerator=cpu", *extra, *self.overrides, "--quiet", "--run-dir",
                            folder / "run"],
                           env=dict(os.environ, TRAINCTL_DATA=str(self.options.mnist.parent)), check=True, stdout=subprocess.DEVNULL)
            with open(folder / "run/timing.csv", encoding="utf-8") as lines:
                rows = [{key: float(value) for key, value in row.items() if value} for row in csv.DictReader(lines)]
            steps = [json.loads(line) for line in (folder / "run/metrics.jsonl").read_text(encoding="utf-8").splitlines()]
            self.config = (folder / "run/config.resolved.yaml").read_text(encoding="utf-8")
            self.trained = [row["wall_s"] - row["eval_s"] - row["checkpoint_s"] for row in rows]
        if self.row == "ffn":
            return [row["wall_s"] for row in rows]
        ends = [step["elapsed_s"] for step in steps if step["type"] == "step" and step["epoch"] == 2]
        return [end - begin for begin, end in zip(ends, ends[1:])]


class Torch:
    def __init__(self, options, row, loop):
        self.options, self.row, self.name = options, row, loop

    def steps(self, count, environment):
        subprocess.run([self.options.python, LOOPS, str(self.options.mnist) + os.sep, f"{self.name}:{count}", "1", "1"], check=True,
                       stdout=subprocess.DEVNULL, env=environment)

    def run(self):
        what = str(self.options.mnist) + os.sep if self.row == "ffn" else self.row
        threads, count = (1, FFN_EPOCHS) if self.row == "ffn" else (CORES, STEPS)
        out = subprocess.run([self.options.python, LOOPS, what, self.name, str(threads), str(count)], check=True, capture_output=True,
                             text=True).stdout
        document = json.loads(out.splitlines()[-1])
        self.trained = document.get("trained", [])
        return document["epochs"]


def allocations_per_step(options, program):
    """Returns the number of allocations per step of ffn: the difference of two runs of different length, so that start-up cancels
    out."""
    counts, lengths = [], (200, 700)
    for steps in lengths:
        with tempfile.NamedTemporaryFile() as file:
            file.write(bytes(8))
            file.flush()
            program.steps(steps, dict(os.environ, LD_PRELOAD=str(options.trainctl.parents[1] / "lib/libcount_allocations.so"), COUNT_ALLOCATIONS=file.name))
            counts.append(int.from_bytes(pathlib.Path(file.name).read_bytes(), "little"))
    return (counts[1] - counts[0]) / (lengths[1] - lengths[0])


def step_costs(options):
    """Returns a table of the allocations of a training step of ffn, and its time outside the matrix products, without validation.
    """
    steps = FFN_EPOCHS * (60000 // 64 + 1)
    pair = (Trainctl(options, "ffn"), Torch(options, "ffn", "eager"))
    products, whole = [], {program.name: [] for program in pair}
    for _ in range(options.rounds):
        products.append(statistics.median(Torch(options, "ffn", "products").run()) * 1e6)
        for program in pair:
            program.run()
            whole[program.name].append(sum(program.trained) / steps * 1e6)
    lines = ["| program | allocations a step | us a step | of that host |", "| --- | ---: | ---: | ---: |"]
    for program in pair:
        us = statistics.median(whole[program.name])
        lines.append(f"| {program.name} | {allocations_per_step(options, program):.0f} | {us:.0f} | {us - statistics.median(products):.0f} |")
    return [*lines, "", f"This table shows training steps without validation. The matrix products of a step take {statistics.median(products):.0f} us."]


def programs(options, row):
    if row == "allocators":
        return [Trainctl(options, "ffn", allocator) for allocator in ALLOCATORS]
    loops = ["dataloader:0", *(f"dataloader:{w}" for w in (1, CORES)), "eager", "compiled"] if row == "ffn" else ["eager", "compiled"]
    loops = [loop for loop in loops if loop not in options.without.split(",")]
    return [Trainctl(options, row), *(Torch(options, row, loop) for loop in loops)]


def figure(row, seconds):
    """Returns the compared number: the seconds of the whole run for ffn, of a step for the others."""
    return sum(seconds) if row in ("ffn", "allocators") else statistics.median(seconds)


def wait_for_quiet(limit_s=60):
    """Waits until the pressure on the cores from earlier processes is gone: under pressure, a run that starts lets its threads
    sleep."""
    end = time.monotonic() + limit_s
    while time.monotonic() < end:
        try:
            some = pathlib.Path("/proc/pressure/cpu").read_text(encoding="ascii").splitlines()[0]
        except OSError:
            return
        if float(some.split("avg10=")[1].split()[0]) < 5:
            return
        time.sleep(1)


def measure(options, row):
    found = {program.name: [] for program in programs(options, row)}
    failed, config = {}, ""
    for round_number in range(options.rounds):
        for program in programs(options, row):
            if program.name in failed:
                continue
            wait_for_quiet()
            try:
                found[program.name].append(figure(row, program.run()))
            except subprocess.CalledProcessError as error:
                if isinstance(program, Trainctl):
                    raise
                failed[program.name] = (error.stderr or "").strip().splitlines()[-1:] or ["it failed"]
                continue
            config = getattr(program, "config", config)
            print(f"{row} round {round_number + 1} of {options.rounds}  {program.name}: {found[program.name][-1]:.4g} s", file=sys.stderr, flush=True)
    return found, failed, config


def table(row, found, failed):
    whole = row in ("ffn", "allocators")
    what = "s a run" if whole else "ms a step"
    scale = 1 if whole else 1000
    first = next(iter(found))
    lines = [f"| program | {what} [quartiles] | of {first}'s | bar |", "| --- | ---: | ---: | ---: |"]
    ours = found[first]
    best = min((name for name in found if name.startswith("dataloader") and found[name]), key=lambda name: statistics.median(found[name]), default="")
    for name, seconds in found.items():
        if name in failed:
            lines.append(f"| {name} | not available: {failed[name][0]} | | |")
            continue
        q1, middle, q3 = (scale * value for value in quartiles(seconds))
        ratio = quartiles([peer / mine for peer, mine in zip(seconds, ours)])
        bar = BARS.get(name, BARS["dataloader best"] if name == best else "") if row == "ffn" else (1.0 if name == "eager" else "")
        lines.append(f"| {name} | {middle:.3f} [{q1:.3f}, {q3:.3f}] | " +
                     (f"{ratio[1]:.2f}x [{ratio[0]:.2f}, {ratio[2]:.2f}] | {bar}{'x' if bar else ''} |" if name != first else " | |"))
    return lines


HOW = """The numbers are medians [quartiles] of {rounds} rounds, in which the programs run alternately, each in a new process. A ratio is
computed within each round. The bar is the ratio that trainctl must reach.

* **`ffn`** measures three epochs of configs/mnist/ffn.yaml with one thread: training and validation with loss and accuracy. Start-up and
  the compilation by torch.compile are not included.
* **The other experiments** measure the median time of a step after warm-up, on a batch of random pixels, with {cores} threads and SGD
  with momentum. For trainctl, a step lasts from one log line to the next and so includes everything that a run does in between. The
  PyTorch loops use fused optimizers and always the same batch.
* **`gpt2_small`** trains on two sequences of 64 random tokens with AdamW. The PyTorch loop uses GPT2LMHeadModel of transformers with
  scaled_dot_product_attention.
* **`allocators`** measures `ffn` again, with each value of `trainer.allocator`."""


def write(options, measured, costs):
    stem = f"steps_{CORES}core_{datetime.date.today().isoformat()}"
    ours = versions_of(options.trainctl)
    torch = subprocess.run([options.python, "-c", "import torch; print(torch.__version__)"], capture_output=True, text=True, check=True).stdout.strip()
    text = [f"# Training steps, {CORES} cores, {datetime.date.today().isoformat()}", "", "This page compares a run of trainctl with training loops in PyTorch.", "",
            f"{cpu_model()}, {CORES} cores. trainctl {ours['version']} (git {ours['git']}, {ours['build']['type']}), torch {torch}.", "",
            filled(HOW.format(rounds=options.rounds, cores=CORES)), ""]
    for row, (found, failed, _) in measured.items():
        text += [f"## {row}", "", *table(row, found, failed), ""]
        text += [*costs, ""] if row == "ffn" else []
    text += ["## Resolved configs", ""]
    for row, (_, _, config) in measured.items():
        shown = config.replace(str(ROOT) + "/", "").replace(str(options.mnist.parent) + "/", "").rstrip()
        shown = re.sub(rf"{re.escape(tempfile.gettempdir())}/[^/\s]+/", "", shown)
        text += [f"### {row}", "", "```yaml", shown, "```", ""]
    folder = ROOT / "docs/benchmarks"
    (folder / f"{stem}.md").write_text("\n".join(text), encoding="utf-8")
    with open(folder / f"{stem}.csv", "w", encoding="utf-8", newline="") as file:
        rows = csv.writer(file, lineterminator="\n")
        rows.writerow(["row", "program", "round", "seconds"])
        for row, (found, _, _) in measured.items():
            rows.writerows([row, name, i + 1, f"{value:.6f}"] for name, values in found.items() for i, value in enumerate(values))
    print(f"wrote docs/benchmarks/{stem}.md")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("trainctl", type=lambda text: pathlib.Path(text).resolve())
    parser.add_argument("mnist", type=lambda text: pathlib.Path(text).resolve())
    parser.add_argument("python", type=lambda text: pathlib.Path(text).absolute())
    parser.add_argument("--rows", default=",".join(["ffn", *NETWORKS, "gpt2_small", "allocators"]))
    parser.add_argument("--without", default="", help="peers to leave out, as in compiled,dataloader:1")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    measured = {}
    for row in options.rows.split(","):
        measured[row] = measure(options, row)
        print("\n".join([f"## {row}", *table(row, *measured[row][:2])]))
    costs = step_costs(options) if "ffn" in measured else []
    print("\n".join(costs))
    if options.write:
        write(options, measured, costs)


if __name__ == "__main__":
    main()
