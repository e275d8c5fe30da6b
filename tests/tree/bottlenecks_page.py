#!/usr/bin/env python3
"""Checks that docs/reference/bottlenecks.md is the output of `trainctl explain --bottlenecks`, and that its keys exist in experiment files.

usage: bottlenecks_page.py TRAINCTL docs/reference/bottlenecks.md [--write]"""

import json
import subprocess
import sys

import tree


def ask(program, *words):
    return subprocess.run([program, *words], capture_output=True, text=True)


def check_keys(program):
    document = json.loads(ask(program, "explain", "--bottlenecks", "--json").stdout)
    keys = {key.strip() for rule in document["rules"] for key in rule["key"].split(",") if key.strip()}
    return [f"a rule names {key}, which 'trainctl explain' does not know" for key in sorted(keys)
            if ask(program, "explain", key).returncode != 0]


def check(program, path, write):
    asked = ask(program, "explain", "--bottlenecks")
    if asked.returncode != 0:
        return [f"'{program} explain --bottlenecks' ends with {asked.returncode}: {asked.stderr}"]
    return tree.compare_page(path, asked.stdout, f"{program} explain --bottlenecks", write) + check_keys(program)


if __name__ == "__main__":
    if len(sys.argv) not in (3, 4):
        sys.exit(__doc__)
    tree.finish("bottlenecks_page", check(sys.argv[1], sys.argv[2], sys.argv[3:] == ["--write"]))
