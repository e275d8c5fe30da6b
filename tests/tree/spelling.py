#!/usr/bin/env python3
"""American spelling, and no common misspelling, by codespell (.codespellrc has its settings). Skipped where codespell is missing."""

import shutil
import subprocess
import sys

import tree


def check(root):
    # With './' in front, the paths are those that the settings skip.
    names = [f"./{path}" for path in tree.files(root)]
    done = subprocess.run(["codespell", *names], cwd=root, capture_output=True, text=True)
    return done.stdout.splitlines()


if __name__ == "__main__":
    if not shutil.which("codespell"):
        print("skipped: codespell is not installed (scripts/setup --checks)")
        sys.exit(4)
    tree.run("spelling", check)
