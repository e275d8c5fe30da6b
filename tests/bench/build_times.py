#!/usr/bin/env python3
"""Measures clean builds of the program: with all build options that make them shorter, and without one of them at a time.

usage: build_times.py [--targets trainctl,trainctl_engine] [--rounds N] [--only NAME ...] [--write]

Each build is configured with the preset `release` in a new folder, without the compiler cache, with two jobs. Prints objects, seconds
and CPU seconds of each build, and their ratios to the build with all options; --write also writes the page docs/benchmarks/build_*.md.
With --edit FILE ... it measures rebuilds in an existing build folder instead, each after a line was added to one source; with --write
they are the page docs/benchmarks/rebuild_*.md."""

import argparse
import os
import pathlib
import re
import resource
import shutil
import statistics
import subprocess
import tempfile
import time

import page

VARIANTS = {
    "all options": [],
    "no unity build": ["-DTRAINCTL_UNITY=OFF"],
    "no precompiled headers": ["-DTRAINCTL_PCH=OFF"],
    "debug information (-g1)": ["-DCMAKE_CXX_FLAGS_RELEASE=-O2 -g1 -DNDEBUG"],
    "GNU ld instead of mold": ["-DTRAINCTL_MOLD=OFF"],
}
WITHOUT_CACHE = {**os.environ, "CCACHE_DISABLE": "1"}


def run(*command):
    """Returns the wall and CPU seconds of a command."""
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    subprocess.run(command, cwd=page.ROOT, env=WITHOUT_CACHE, check=True, stdout=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.monotonic() - start, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def steps(build):
    """Returns (output, seconds) of each step in ninja's log."""
    rows = [line.split("\t") for line in (build / ".ninja_log").read_text(encoding="utf-8").splitlines()[1:]]
    return [(row[3], (int(row[1]) - int(row[0])) / 1000) for row in rows]


def clean_build(flags, targets):
    """Builds in a new folder and returns objects, wall and CPU seconds, and the seconds of the objects of each source folder."""
    build = pathlib.Path(tempfile.mkdtemp(prefix="trainctl-build-"))
    try:
        run("cmake", "--preset", "release", "-B", build, *flags)
        wall, cpu = run("cmake", "--build", build, "--parallel", "2", "--target", *targets)
        objects = [(name, seconds) for name, seconds in steps(build) if name.endswith((".o", ".gch"))]
        folders = {}
        for name, seconds in objects:
            folder = re.match(r"(?:(?:lib|apps|tests)/)?[^/]*", name)[0]
            folders[folder] = folders.get(folder, 0) + seconds
        return {"objects": len(objects), "wall_s": wall, "cpu_s": cpu, "folders": folders}
    finally:
        shutil.rmtree(build)


def rebuild_after_edit(build, source, targets):
    """Returns the wall seconds of the rebuild after a comment was added to a source, and restores the source."""
    text = source.read_text(encoding="utf-8")
    try:
        source.write_text(text + "// Changed.\n", encoding="utf-8")
        return run("cmake", "--build", build, "--parallel", "2", "--target", *targets)[0]
    finally:
        source.write_text(text, encoding="utf-8")
        run("cmake", "--build", build, "--parallel", "2", "--target", *targets)


def table(results):
    """Returns a row per build: objects, seconds, CPU seconds, and the median ratio of CPU seconds to the build with all options."""
    base = results["all options"]
    lines = ["| build | objects | wall, s | CPU, s | CPU, ratio |", "| --- | --- | --- | --- | --- |"]
    for name, rounds in results.items():
        wall, cpu = (statistics.median(each[key] for each in rounds) for key in ("wall_s", "cpu_s"))
        ratio = statistics.median(each["cpu_s"] / first["cpu_s"] for each, first in zip(rounds, base))
        lines.append(f"| {name} | {rounds[0]['objects']} | {wall:.0f} | {cpu:.0f} | {ratio:.2f} |")
    return lines


def folder_table(rounds):
    lines = ["| folder | seconds of its objects |", "| --- | --- |"]
    folders = sorted(rounds[0]["folders"], key=lambda name: -rounds[0]["folders"][name])
    return lines + [f"| `{name}` | {statistics.median(each['folders'][name] for each in rounds):.1f} |" for name in folders]


def measure_edits(options, targets):
    run("cmake", "--build", options.build, "--parallel", "2", "--target", *targets)  # so that a rebuild contains only one change
    rows = [(str(source.relative_to(page.ROOT)), number, rebuild_after_edit(options.build, source, targets)) for number in range(1, options.rounds + 1) for source in options.edit]
    lines = ["| changed source | rebuild, s |", "| --- | --- |"]
    for source in dict.fromkeys(name for name, _, _ in rows):
        lines.append(f"| `{source}` | {statistics.median(seconds for name, _, seconds in rows if name == source):.1f} |")
    print("\n".join(lines))
    if options.write:
        how = page.filled(f"""The preset `release`, two jobs, without the compiler cache. A line is added to one source, and `{options.targets}` are
rebuilt: all objects that contain the source, their libraries, the program and the engine. Medians of {options.rounds} rounds. The goals are
30 s for a stage and 15 s for a source of the program.""")
        page.write("rebuild", [page.title("Rebuilds after one change"), "", how, "", page.circumstances(options.build), "", *lines],
                   ["source", "round", "s"], [(source, number, f"{seconds:.1f}") for source, number, seconds in rows])


def write_clean_builds(results, options):
    commit = subprocess.run(["git", "rev-parse", "--short=12", "HEAD"], cwd=page.ROOT, capture_output=True, text=True, check=True).stdout.strip()
    how = page.filled(f"""The preset `release` in a new folder, two jobs, without the compiler cache, targets `{options.targets}`. The first build has
all options that make a build shorter; each of the others lacks one of them. Medians of {options.rounds} round(s). The CPU seconds of a build
vary less than its wall time. The last table is the sum of the compile times of the first build by folder. git {commit}.""")
    rows = [(name, index + 1, each["objects"], f"{each['wall_s']:.1f}", f"{each['cpu_s']:.1f}")
            for name, rounds in results.items() for index, each in enumerate(rounds)]
    lines = [*table(results), "", *folder_table(results["all options"])]
    page.write("build", [page.title("Clean builds"), "", how, "", *lines], ["build", "round", "objects", "wall_s", "cpu_s"], rows)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--targets", default="trainctl,trainctl_engine")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--only", nargs="+", choices=list(VARIANTS), default=list(VARIANTS))
    parser.add_argument("--edit", type=lambda text: pathlib.Path(text).resolve(), nargs="+", default=[])
    parser.add_argument("--build", type=lambda text: pathlib.Path(text).resolve(), default=page.ROOT / "build/release")
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    targets = options.targets.split(",")
    if options.edit:
        return measure_edits(options, targets)
    results = {}
    for _ in range(options.rounds):
        for name in dict.fromkeys(["all options", *options.only]):
            results.setdefault(name, []).append(clean_build(VARIANTS[name], targets))
            print(f"{name}: {results[name][-1]}", flush=True)
    print("\n".join([*table(results), "", *folder_table(results["all options"])]))
    if options.write:
        write_clean_builds(results, options)


if __name__ == "__main__":
    main()
