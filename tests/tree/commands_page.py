#!/usr/bin/env python3
"""Checks that docs/reference/commands.md holds the help of every command and the meaning of every exit code, as the program prints them.

usage: commands_page.py TRAINCTL docs/reference/commands.md [--write]"""

import json
import re
import subprocess
import sys
from pathlib import Path

import tree

HEAD = """# Commands and exit codes

This page is written by `tests/tree/commands_page.py` from `trainctl --help`, the help of each command, and `trainctl explain`.
"""
ENTRY = re.compile(r"^  ([a-z][a-z-]*)  +\S", re.M)
GLOBAL = "Global options:\n"
EXPLAIN = Path(__file__).resolve().parents[2] / "apps/trainctl/explain.cpp"


def printed(program, *arguments):
    return subprocess.run([program, *arguments], capture_output=True, text=True, check=True).stdout


def without_global_options(text):
    """The options that every command has are shown once, in the help of the program."""
    own, _, rest = text.partition(GLOBAL)
    footer = rest.partition("\n\n")[2]
    return f"{own.rstrip()}\n\n{footer}".rstrip() + "\n"


def commands_in(text):
    """The names in the lists of commands of a help text, which end before the options."""
    lists = re.split(r"^(?:Arguments|Options|Global options):", text, maxsplit=1, flags=re.M)[0]
    return ENTRY.findall(lists)


def section(name, text, level):
    return ["", f"{'#' * level} {name}", "", "```text", text.rstrip(), "```"]


def exit_codes(program):
    """Rows of (code, meaning) of all codes that `explain` knows. Its source names the codes, because asking for each number from 0 to 255
    takes ten seconds."""
    text = EXPLAIN.read_text()
    codes = re.findall(r'NamedFact\{"(\d+)"', text[text.index("kExitCodes{"):])
    for code in codes:
        yield f"| {code} | {json.loads(printed(program, 'explain', code, '--json'))['help']} |"


def page(program):
    whole = printed(program, "--help")
    lines = HEAD.splitlines() + section("trainctl", whole, 2)
    for verb in commands_in(whole):
        text = without_global_options(printed(program, verb, "--help"))
        lines += section(f"trainctl {verb}", text, 2)
        if "\nCommands:\n" in text:
            for inner in commands_in(text):
                lines += section(f"trainctl {verb} {inner}", without_global_options(printed(program, verb, inner, "--help")), 3)
    lines += ["", "## Exit codes", "", "| code | meaning |", "| --- | --- |", *exit_codes(program)]
    return "\n".join(lines) + "\n"


def check(program, path, write):
    return tree.compare_page(path, page(program), program, write)


if __name__ == "__main__":
    if len(sys.argv) not in (3, 4):
        sys.exit(__doc__)
    tree.finish("commands_page", check(sys.argv[1], sys.argv[2], sys.argv[3:] == ["--write"]))
