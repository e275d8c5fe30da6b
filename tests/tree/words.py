#!/usr/bin/env python3
"""Finds absolute paths of one machine, TODOs without an issue, unresolved merges and trailing white space."""

import re

import tree

RULES = [
    (re.compile(r"(?<![\w.}~])/(?:root|home/\w+|Users/\w+|work|mnt)/[\w.]"), "an absolute path of one machine"),
    (re.compile(r"\b(?:TODO|FIXME|XXX|HACK)\b(?!\(#\d+\))"), "a note without an issue number: write 'TODO(#12)' or do it"),
    (re.compile(r"^(?:<{7}|={7}|>{7})(?: |$)"), "a merge that was left open"),
    (re.compile(r"[ \t\r]+$"), "white space at the end of the line"),
]
LEFT_OUT = ("tests/golden/", "tests/tree/", "LICENSE")
TEXT = (".hpp", ".cpp", ".h", ".cu", ".cuh", ".py", ".md", ".yaml", ".yml", ".json", ".txt", ".cmake", ".def", ".sh",
        "scripts/setup", "scripts/quickstart", "scripts/test", "scripts/fetch-data", "scripts/format", ".ci/run")


def check(root):
    violations = []
    for path in tree.files(root, *TEXT):
        if str(path).startswith(LEFT_OUT) or "/golden/" in str(path):
            continue
        text = (tree.Path(root) / path).read_bytes().decode("utf-8", errors="replace")
        for number, line in enumerate(text.split("\n"), 1):
            violations += [f"{path}:{number}: {what}: {line.strip()[:80]}" for rule, what in RULES if rule.search(line)]
        if text and not text.endswith("\n"):
            violations.append(f"{path}: the last line has no end")
    return violations


if __name__ == "__main__":
    tree.run("words", check)
