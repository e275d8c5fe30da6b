#!/usr/bin/env python3
"""Checks American spelling and common misspellings with codespell (settings in .codespellrc). Skipped without codespell."""

import shutil
import subprocess

import tree


def check(root):
    # The skip patterns in the settings start with './'.
    names = [f"./{path}" for path in tree.files(root)]
    done = subprocess.run(["codespell", *names], cwd=root, capture_output=True, text=True)
    return done.stdout.splitlines()


if __name__ == "__main__":
    if not shutil.which("codespell"):
        tree.skip("codespell is not installed (scripts/setup --checks)")
    tree.run("spelling", check)
