#!/usr/bin/env python3
"""Measures the cost of fault tolerance: steps with and without checkpoints, the exposed part of a save of 100 MB, checksums.

usage: survive.py BUILD_FOLDER [--rounds N] [--write]

Heartbeats and checksums cannot be switched off, so bench_survive measures them alone and the page relates them to a step. The
settings alternate, in fresh processes. --write adds docs/benchmarks/survive_<cores>core_<date>.md with the tables, and a CSV with
the raw numbers."""

import argparse
import csv
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile

import page

BARS = {"cost": 1.0, "exposed": 5.0, "crc32c": 3.0}
STAMPS_A_STEP = 4
# Steps of about 5 ms on one thread.
STEPS = """\
name: survive-steps
seed: 3
dataset: {train: {type: synthetic_digits, split: train, samples: 9600}}
loader: {batch_size: 48, num_workers: 1}
model:
  type: sequential
  layers:
    - {type: conv2d, out_channels: 16, kernel_size: 3, stride: 2, padding: 1}
    - relu
    - {type: conv2d, out_channels: 32, kernel_size: 3, padding: 1}
    - relu
    - flatten
    - linear
optimizer: {type: adam, lr: 0.001}
trainer: {max_epochs: 8, accelerator: cpu, devices: 1, num_threads: 1}
"""
# Weights and both moments of Adam: 8.2 M numbers each, 99 MB.
STATE = """\
name: survive-state
seed: 3
dataset: {train: {type: synthetic_digits, split: train, samples: 3840}}
loader: {batch_size: 64, num_workers: 1}
model: {type: mlp, hidden: [2500, 2500]}
optimizer: {type: adam, lr: 0.0001}
trainer: {max_epochs: 5, accelerator: cpu, devices: 1, num_threads: 1}
"""
HOW = """This page shows how much time checkpoints, heartbeats and checksums cost. A heartbeat is the write of the current step to
memory that the supervisor reads. The baseline of the first table is a run without checkpoints. The baseline of the second is a save for
which training waits. The numbers are medians [quartiles] of {rounds} rounds, in which the settings alternate, each in new processes.
Percentages are computed within each round. The first epoch (warm-up) and the last epoch (with the end of the run) are left out. Heartbeats
and checksums cannot be turned off, so the last table shows the time of each operation alone. A bar is the target of a row."""
NONE = ["++checkpoint.every_n_epochs=1000000", "++checkpoint.save_top_k=0", "++checkpoint.save_last=false"]
SETTINGS = {  # name: (config, overrides)
    "no checkpoints": (STEPS, NONE),
    "every epoch": (STEPS, []),
    "every 50 steps": (STEPS, ["++checkpoint.every_n_steps=50"]),
    "100 MB, waits": (STATE, ["++checkpoint.async=false"]),
    "100 MB, in the background": (STATE, ["++checkpoint.async=true"]),
}


def train(program, what, folder):
    """Returns [(steps, wall_s, checkpoint_s)] of the epochs, without the first, which is warm-up, and the last, which ends the
    run."""
    text, overrides = SETTINGS[what]
    config = folder / "config.yaml"
    config.write_text(text)
    ended = subprocess.run([program, "run", str(config), *overrides, "--quiet", "--run-dir", str(folder / "run")],
                           capture_output=True, text=True, cwd=folder)
    if ended.returncode != 0:
        sys.exit(f"{what}: exit code {ended.returncode}: {ended.stdout}{ended.stderr}")
    batch = 64 if text is STATE else 48
    with open(folder / "run/timing.csv", newline="") as file:
        rows = list(csv.DictReader(file))[1:-1]
    return [(float(row["samples"]) / batch, float(row["wall_s"]), float(row["checkpoint_s"])) for row in rows]


def rounds_of(program, rounds):
    """Returns [(name, round, ms per step in the median epoch, seconds per epoch of waiting for checkpoints)]."""
    found = []
    for number in range(1, rounds + 1):
        for what in SETTINGS:
            with tempfile.TemporaryDirectory(prefix="trainctl-survive-") as folder:
                epochs = train(program, what, pathlib.Path(folder))
            found.append((what, number, 1e3 * statistics.median(epoch[1] / epoch[0] for epoch in epochs),
                          sum(epoch[2] for epoch in epochs) / len(epochs)))
            print(f"round {number}: {what}: {found[-1][2]:.3f} ms a step, {found[-1][3]:.4f} s of saving an epoch", file=sys.stderr)
    return found


def ratios(rows, what, base, column):
    """Returns the values of `what` in percent of those of `base`, paired by round."""
    def values(name):
        return [row[column] for row in rows if row[0] == name]

    return [100 * mine / other for mine, other in zip(values(what), values(base))]


def quartiles(values, digits=2):
    q1, median, q3 = statistics.quantiles(values, n=4, method="inclusive") if len(values) > 1 else values * 3
    return f"{median:.{digits}f} [{q1:.{digits}f}, {q3:.{digits}f}]"


def tables(rows, small):
    lines = ["| checkpoints | ms a step | more than none, % | bar |", "| --- | --- | --- | --- |"]
    for what in list(SETTINGS)[:3]:
        more = [ratio - 100 for ratio in ratios(rows, what, "no checkpoints", 2)]
        bar = f"{BARS['cost']} %" if what == "every epoch" else ""
        lines.append(f"| {what} | {quartiles([row[2] for row in rows if row[0] == what], 3)} | {quartiles(more)} | {bar} |")
    waits, asynchronous = list(SETTINGS)[3:]
    lines += ["", "| a save of 100 MB | seconds that training waited | of the first row, % | bar |", "| --- | --- | --- | --- |"]
    for what in (waits, asynchronous):
        bar = f"{BARS['exposed']} %" if what == asynchronous else ""
        seconds = quartiles([row[3] for row in rows if row[0] == what], 4)
        lines.append(f"| {what.split(', ')[1]} | {seconds} | {quartiles(ratios(rows, what, waits, 3))} | {bar} |")
    return lines + ["", *small_table(small)]


def small_table(small):
    share = 100 * STAMPS_A_STEP * small["stamp_ns"]["median"] / 5e6
    said = {name: f"{value['median']:.3g} [{value['q1']:.3g}, {value['q3']:.3g}]" for name, value in small.items()
            if isinstance(value, dict)}
    return ["| alone | median [quartiles] | |", "| --- | --- | --- |",
            f"| stamp of the heartbeat, ns | {said['stamp_ns']} | {STAMPS_A_STEP} a step of 5 ms: {share:.4f} % |",
            f"| CRC-32C of {small['megabytes']} MB, GB/s | {said['crc32c_gb_s']} | bar {BARS['crc32c']:.0f} GB/s |",
            f"| container of {small['megabytes']} MB written and synced, s | {said['write_s']} | |",
            f"| the same read and verified, s | {said['verify_s']} | |"]


def write_report(build, lines, rows, rounds):
    text = [page.title("Surviving"), "",
            page.filled(HOW.format(rounds=rounds)), "",
            page.circumstances(build), "", *lines, "",
            page.filled(f"The first table was measured with this experiment. The overrides `{' '.join(NONE)}` turn checkpoints off:"), "",
            "```yaml", STEPS.rstrip(), "```", "",
            "The second table was measured with this experiment, whose state has 100 MB:", "", "```yaml", STATE.rstrip(), "```", "",
            "```", f"tests/bench/survive.py build/release --rounds {rounds} --write", "```"]
    page.write("survive", text, ["setting", "round", "ms_a_step", "checkpoint_s_an_epoch"],
               [[what, number, f"{ms:.4f}", f"{seconds:.5f}"] for what, number, ms, seconds in rows])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", type=lambda text: pathlib.Path(text).resolve())
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="trainctl-survive-") as folder:
        ended = subprocess.run([options.build / "bin/bench_survive", folder], capture_output=True, text=True, check=True)
    small = json.loads(ended.stdout)
    rows = rounds_of(str(options.build / "bin/trainctl"), options.rounds)
    lines = tables(rows, small)
    print("\n".join(lines))
    if options.write:
        write_report(options.build, lines, rows, options.rounds)


if __name__ == "__main__":
    main()
