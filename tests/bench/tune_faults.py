#!/usr/bin/env python3
"""Makes the confusion matrix of `trainctl tune`: each planted fault, the verdict, the accepted patch, and the proved gain.

usage: tune_faults.py BUILD_FOLDER [--budget TIME] [--only WORD] [--write]

The faults are those of tests/support/planted_faults.py. --write adds docs/benchmarks/tune_faults_<cores>core_<date>.md with the
table, and a JSON with the raw documents of all searches. Exits with 1 if a verdict or a patch does not match the planted fault."""

import argparse
import datetime
import json
import os
import pathlib
import subprocess
import sys
import tempfile

import page

SOURCE = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(SOURCE / "tests/support"))
import planted_faults as planted  # noqa: E402

HEADER = ["fault", "bottleneck", "cause", "patch", "gain [95 %]", "of the planted key alone", "as planted"]
HOW = """Each row shows one `trainctl tune CONFIG --budget {budget}` on an experiment of `tests/support/planted_faults.py` with one fault that
was planted on purpose. [Bottleneck](../reference/bottlenecks.md) and cause are what `tune` found, and the patch lists the
changes that it accepted. The gain is the speed-up of the patched over the original experiment in the final comparison, with its 95 %
interval. "Of the planted key alone" is the speed-up that `tune` measured when it added only the change that removes the fault. The last
column says whether bottleneck and patch fit the planted fault. `tests/bench/tune_faults.py` repeats the measurement. Raw results:
[{stem}.json]({stem}.json)."""


def plugin_of(build):
    found = sorted(build.rglob("libfake_slow.so"))
    if not found:
        raise SystemExit(f"{build} has no libfake_slow.so: build its tests")
    return found[0]


def search(build, make, budget):
    with tempfile.TemporaryDirectory(prefix="trainctl-tune-") as scratch:
        folder = pathlib.Path(scratch)
        fault = make(folder, plugin_of(build))
        (folder / "fault.yaml").write_text(fault.config)
        done = subprocess.run([build / "bin/trainctl", "tune", "fault.yaml", "--budget", budget, "--json"], cwd=folder,
                              env={**os.environ, **fault.environment}, capture_output=True, text=True)
        if done.returncode not in (0, 4):
            raise SystemExit(f"{fault.name}: exit {done.returncode}: {done.stdout}{done.stderr}")
        return fault, json.loads((folder / "tune.json").read_text())


def is_as_planted(fault, document):
    patched = bool(fault.keys & set(document["patch"])) if fault.keys else not document["patch"]
    return patched and fault.verdict_fits(document["verdict"])


def gain_text(value, interval):
    return "-" if value is None else "{:.2f}x [{:.2f}, {:.2f}]".format(value, *interval)


def row_of(fault, document):
    gain = document["gain"] or {"value": None, "ci95": None}
    text = gain_text(gain["value"], gain["ci95"])
    planted_keys = [one for one in document["tried"] if one["accepted"] and one["key"] in fault.keys]
    alone = gain_text(planted_keys[0]["gain"], planted_keys[0]["ci95"]) if planted_keys else "-"
    patch = ", ".join(f"{key}={value}" for key, value in document["patch"].items()) or document["ended"].replace("_", " ")
    return [fault.name, document["verdict"]["verdict"], document["verdict"]["cause"] or "-", patch, text, alone, "yes" if is_as_planted(fault, document) else "NO"]


def table_of(rows):
    lines = ["| " + " | ".join(row) + " |" for row in [HEADER, ["---"] * len(HEADER), *rows]]
    return "\n".join(lines) + "\n"


def write_page(table, documents, build, budget):
    stem = f"tune_faults_{len(os.sched_getaffinity(0))}core_{datetime.date.today().isoformat()}"
    folder = SOURCE / "docs/benchmarks"
    text = json.dumps(documents, indent=1).replace(f"{build}/bin/", "")
    (folder / f"{stem}.json").write_text(text + "\n")
    (folder / f"{stem}.md").write_text(
        f"# What tune finds, on {len(os.sched_getaffinity(0))} cores\n\n"
        + page.filled(HOW.format(budget=budget, stem=stem)) + "\n\n"
        + table)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("--budget", default="5m")
    parser.add_argument("--only", default="", help="faults whose name has this word")
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    rows, documents = [], {}
    for make in planted.ALL:
        if options.only not in make.__name__:
            continue
        fault, document = search(options.build.resolve(), make, options.budget)
        rows.append(row_of(fault, document))
        documents[fault.name] = document
        print("  ".join(rows[-1]), flush=True)
    table = table_of(rows)
    print("\n" + table, end="")
    if options.write:
        write_page(table, documents, options.build.resolve(), options.budget)
    return 0 if all(row[-1] == "yes" for row in rows) else 1


if __name__ == "__main__":
    raise SystemExit(main())
