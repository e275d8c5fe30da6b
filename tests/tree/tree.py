"""Helpers of the checks in this folder: they list the files of the tree and report the result."""

import os
import re
import subprocess
import sys
from pathlib import Path

SKIPPED = 4  # CTest counts this exit code as skipped
LEFT_OUT = {"build", "runs", "data", ".git", ".deps", "__pycache__"}


def files(root, *suffixes):
    """Returns the files of the tree relative to `root`, all or those with one of the suffixes: the files that git tracks or would
    add, or every file outside a git checkout."""
    asked = subprocess.run(["git", "-C", root, "ls-files", "-co", "--exclude-standard"], capture_output=True, text=True)
    if asked.returncode == 0 and asked.stdout:
        names = asked.stdout.splitlines()
    else:
        names = [os.path.relpath(os.path.join(folder, name), root)
                 for folder, _, found in os.walk(root) for name in found]
    for name in sorted(set(names)):
        top = name.split("/")[0]
        if top not in LEFT_OUT and name.endswith(suffixes or "") and (Path(root) / name).is_file():
            yield Path(name)


def read(root, path):
    return (Path(root) / path).read_text(encoding="utf-8", errors="replace")


def without_comments(text, keep_strings=False):
    """Returns C++ text with comments (and the contents of strings, unless kept) blanked; line numbers do not change."""
    token = re.compile(r'R"([^(\s]*)\((?:.|\n)*?\)\1"|//(?:\\\n|[^\n])*|/\*(?:.|\n)*?\*/'
                       r'|"(?:\\.|[^"\\\n])*"|(?<![0-9A-Fa-f])\'(?:\\.|[^\'\\\n])+\'')

    def blank(match):
        found = match.group(0)
        if keep_strings and not found.startswith(("//", "/*")):
            return found
        return ('""' if found[0] in "\"'R" else "") + "\n" * found.count("\n")

    return token.sub(blank, text)


def compare_page(path, expected, printed_by, write):
    """The violation of a generated page that is not `expected`, the output of `printed_by`; with `write` the page is written first."""
    if write:
        Path(path).write_text(expected)
    found = Path(path).read_text() if Path(path).is_file() else ""
    return [] if found == expected else [f"{path} is not what '{printed_by}' prints: run {Path(sys.argv[0]).name} with --write"]


def finish(name, violations):
    for line in violations:
        print(line)
    print(f"{name}: {len(violations)} violation(s)")
    sys.exit(1 if violations else 0)


def skip(reason):
    print(f"skipped: {reason}")
    sys.exit(SKIPPED)


def run(name, check):
    """Runs a check as the main program: `check(root)` returns one line for each violation."""
    if len(sys.argv) != 2:
        sys.exit(f"usage: {sys.argv[0]} ROOT")
    finish(name, check(sys.argv[1]))
