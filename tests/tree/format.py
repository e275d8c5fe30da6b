#!/usr/bin/env python3
"""Checks that the C++ sources are formatted by clang-format 14 (scripts/format). Other versions format differently, so the check
is skipped with them."""

import re
import shutil
import subprocess
import sys

import tree

VERSION = "14"


def formatter():
    for name in (f"clang-format-{VERSION}", "clang-format"):
        program = shutil.which(name)
        if program and re.search(rf"version {VERSION}\.", subprocess.run([program, "--version"], capture_output=True, text=True).stdout):
            return program
    return None


def check(root, program):
    sources = [str(path) for path in tree.files(root, ".hpp", ".cpp", ".h", ".cu", ".cuh")]
    found = subprocess.run([program, "--dry-run", *sources], capture_output=True, text=True, cwd=root)
    names = re.findall(r"^([^:\n]+):\d+:\d+: \w+: ", found.stderr, re.M)
    return [f"{name}: not as clang-format {VERSION} writes it: run scripts/format" for name in dict.fromkeys(names)]


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(f"usage: {sys.argv[0]} ROOT")
    if not formatter():
        tree.skip(f"no clang-format {VERSION} here")
    tree.finish("format", check(sys.argv[1], formatter()))
