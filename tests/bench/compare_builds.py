#!/usr/bin/env python3
"""Compares two builds of trainctl on one experiment, in alternating order (A B, B A, ...), each run in a fresh process.

usage: compare_builds.py BEFORE AFTER CONFIG [key=value ...] [--rounds N] [--loader WORKERS | --start]

BEFORE and AFTER are programs (build/ci/bin/trainctl). A run is measured by the training samples per second of its epochs after
the first, or with --loader by `trainctl data bench` with that many workers; with --start by the seconds that a worker takes to
start and by its memory in MiB, in a run of two steps. Prints the median ratios AFTER/BEFORE of the rounds and their quartiles."""

import argparse
import csv
import json
import pathlib
import statistics
import subprocess
import tempfile


def train_rate(program, arguments, folder):
    subprocess.run([program, "run", *arguments, "--run-dir", folder / "run", "--quiet"], check=True, capture_output=True)
    with open(folder / "run/epochs.csv", newline="") as lines:
        rates = [float(row["samples_per_s"]) for row in csv.DictReader(lines)]
    return statistics.median(rates[1:] or rates)


def loader_rate(program, arguments, workers):
    done = subprocess.run([program, "data", "bench", *arguments, "--workers", str(workers), "--json"], check=True, capture_output=True, text=True)
    return json.loads(done.stdout)["rows"][0]["samples_per_s"]["median"]


def start(program, arguments, folder):
    short = ["trainer.max_epochs=1", "++trainer.limit_train_batches=2", "++trainer.num_threads=1"]
    done = subprocess.run([program, "bench", *arguments, *short, "--workers", "0", "--repeats", "1", "--out", folder, "--json"], check=True,
                          capture_output=True, text=True)
    row = json.loads(done.stdout)["rows"][0]
    return {"start-up, s": row["startup_s"], "memory, MiB": row["rss_mb"]}


def measure(program, options):
    """Returns the measured values by name."""
    arguments = [options.config, *options.overrides]
    if options.loader is not None:
        return {"samples/s": loader_rate(program, arguments, options.loader)}
    with tempfile.TemporaryDirectory(prefix="trainctl-builds-") as folder:
        if options.start:
            return start(program, arguments, folder)
        return {"samples/s": train_rate(program, arguments, pathlib.Path(folder))}


def middle_half(values):
    return statistics.quantiles(values, n=4) if len(values) > 1 else values * 3


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("before")
    parser.add_argument("after")
    parser.add_argument("config")
    parser.add_argument("overrides", nargs="*")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--loader", type=int, metavar="WORKERS")
    parser.add_argument("--start", action="store_true")
    options = parser.parse_intermixed_args()
    rounds = []
    for number in range(options.rounds):
        order = (options.before, options.after) if number % 2 == 0 else (options.after, options.before)
        values = {program: measure(program, options) for program in order}
        rounds.append((values[options.before], values[options.after]))
        print(f"round {number + 1}: " + "; ".join(f"{name} before {rounds[-1][0][name]:,.4g}, after {rounds[-1][1][name]:,.4g}" for name in rounds[-1][0]),
              flush=True)
    for name in rounds[0][0]:
        low, middle, high = middle_half([after[name] / before[name] for before, after in rounds])
        medians = [statistics.median(side[name] for side in sides) for sides in zip(*rounds)]
        print(f"{name}: {medians[0]:,.4g} before, {medians[1]:,.4g} after, ratio {middle:.4f} [{low:.4f}, {high:.4f}], {len(rounds)} rounds")


if __name__ == "__main__":
    main()
