#!/usr/bin/env python3
"""The C++ sources are as clang-format 14 writes them (scripts/format). Other versions differ, so they are not asked."""

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
