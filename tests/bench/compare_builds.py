#!/usr/bin/env python3
"""Compares two builds of trainctl on one experiment, in alternating order (A B, B A, ...), each run in a fresh process.

usage: compare_builds.py BEFORE AFTER CONFIG [key=value ...] [--rounds N] [--loader WORKERS]

BEFORE and AFTER are programs (build/ci/bin/trainctl). A run is measured by the training samples per second of its epochs after
the first, or with --loader by `trainctl data bench` with that many workers. Prints the median ratio AFTER/BEFORE of the rounds
and its quartiles: above 1 means that AFTER is faster."""

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


def measure(program, options):
    arguments = [options.config, *options.overrides]
    if options.loader is not None:
        return loader_rate(program, arguments, options.loader)
    with tempfile.TemporaryDirectory(prefix="trainctl-builds-") as folder:
        return train_rate(program, arguments, pathlib.Path(folder))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("before")
    parser.add_argument("after")
    parser.add_argument("config")
    parser.add_argument("overrides", nargs="*")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--loader", type=int, metavar="WORKERS")
    options = parser.parse_intermixed_args()
    ratios = []
    for number in range(options.rounds):
        order = (options.before, options.after) if number % 2 == 0 else (options.after, options.before)
        rates = {program: measure(program, options) for program in order}
        ratios.append(rates[options.after] / rates[options.before])
        print(f"round {number + 1}: before {rates[options.before]:,.1f}, after {rates[options.after]:,.1f} samples/s: {ratios[-1]:.4f}x", flush=True)
    low, middle, high = statistics.quantiles(ratios, n=4) if len(ratios) > 1 else ratios * 3
    print(f"after/before {middle:.4f} [{low:.4f}, {high:.4f}], {len(ratios)} rounds")


if __name__ == "__main__":
    main()
