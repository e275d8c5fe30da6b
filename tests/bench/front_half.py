#!/usr/bin/env python3
"""Measures the wall time and peak memory of the verbs that need no libtorch, in alternating order.

usage: front_half.py BUILD_FOLDER [--rounds N] [--write]

--write adds docs/benchmarks/front_half_<cores>core_<date>.md with the table, and a CSV with the raw numbers."""

import argparse
import os
import pathlib
import statistics
import subprocess
import sys
import time

import page

CONFIG = "configs/quickstart.yaml"
VERBS = [["--help"], ["version"], ["list"], ["schema"], ["explain", "optimizer.adam.lr"], ["validate", CONFIG], ["show-config", CONFIG]]
BARS = {"ms": 50, "MB": 40}
HOW = """This page shows how much time and memory commands without libtorch need. The time is that of a new process, from start to end.
The memory is an upper bound of the peak resident memory: values below {least:.1f} MB cannot be measured, because the measuring script
itself uses as much before it starts the command. The numbers are medians [quartiles] of {rounds} rounds, in each of which every command
runs once. The targets (bars) are {ms} ms and {MB} MB."""


def once(program, arguments):
    """Returns (milliseconds, peak resident MB) of one process. The peak includes the time before the exec, so it is never below
    the memory of this script."""
    began = time.perf_counter()
    with subprocess.Popen([program, *arguments], cwd=page.ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) as process:
        _, status, usage = os.wait4(process.pid, 0)
        ended = time.perf_counter()
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode != 0:
            sys.exit(f"{' '.join(arguments)}: {process.stderr.read().decode()}")
    return (ended - began) * 1e3, usage.ru_maxrss / 1024


def quartiles(values, digits=1):
    return "{1:.{3}f} [{0:.{3}f}, {2:.{3}f}]".format(*statistics.quantiles(values, n=4, method="inclusive"), digits)


def table(rows):
    lines = ["| command | wall, ms | peak memory, MB |", "| --- | --- | --- |"]
    for arguments in VERBS:
        name = " ".join(arguments)
        mine = [row for row in rows if row[0] == name]
        lines.append(f"| `{name}` | {quartiles([row[2] for row in mine])} | {quartiles([row[3] for row in mine])} |")
    return lines


def write_report(build, lines, rows, rounds):
    text = [page.title("Front half"), "",
            page.filled(HOW.format(least=min(row[3] for row in rows), rounds=rounds, **BARS)), "",
            page.circumstances(build), "", *lines, "",
            "```", f"tests/bench/front_half.py build/release --rounds {rounds} --write", "```"]
    page.write("front_half", text, ["verb", "round", "wall_ms", "peak_mb"],
               [[name, number, f"{ms:.3f}", f"{mb:.2f}"] for name, number, ms, mb in rows])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", type=lambda text: pathlib.Path(text).resolve())
    parser.add_argument("--rounds", type=int, default=21)
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    rows = [(" ".join(arguments), number + 1, *once(options.build / "bin/trainctl", arguments))
            for number in range(options.rounds) for arguments in VERBS]
    lines = table(rows)
    print("\n".join(lines))
    if options.write:
        write_report(options.build, lines, rows, options.rounds)


if __name__ == "__main__":
    main()
