#!/usr/bin/env python3
"""Checks that the linters work: .clang-tidy gives a reason for each check that it disables and finds planted faults in a source
and in a header; the scripts pass shellcheck; the formatter's settings can be read."""

import re
import shutil
import subprocess
import tempfile
from pathlib import Path

import tree

BAD_SOURCE = """#include "lib/base/bad.hpp"
int BadFunction(int value) { return value; }
"""
BAD_HEADER = """#pragma once
struct bad_struct { virtual int f() { return 1; } };
struct Derived : bad_struct { virtual int f() { return 2; } };
"""
EXPECTED = {
    "bad.cpp": ["readability-identifier-naming"],
    "bad.hpp": ["readability-identifier-naming", "modernize-use-override"],
}


def check_reasons(text):
    checks = re.search(r"^Checks: '([^']*)'", text, re.M)
    if not checks:
        return [".clang-tidy: one quoted line 'Checks:' was expected"]
    names = checks[1].split(",")
    taken_out = {name[1:] for name in names if name.startswith("-") and name != "-*"}
    reasons = dict(re.findall(r"^# -([\w.*-]+): (\S.*)$", text, re.M))
    return ([f".clang-tidy: '{name}' is no name of a check: a comma may be missing" for name in names
             if not re.fullmatch(r"-?[a-z][a-zA-Z0-9.-]*\*?|-\*", name)] +
            [f".clang-tidy: -{name} has no reason" for name in sorted(taken_out - set(reasons))] +
            [f".clang-tidy: there is a reason for -{name}, which is not taken out" for name in sorted(set(reasons) - taken_out)])


def tidy_program():
    return next(filter(None, map(shutil.which, ["clang-tidy-18", "clang-tidy-17", "clang-tidy-16", "clang-tidy-15", "clang-tidy"])), None)


def check_planted(root, tidy):
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "lib/base").mkdir(parents=True)
        (Path(folder) / "lib/base/bad.hpp").write_text(BAD_HEADER)
        (Path(folder) / "bad.cpp").write_text(BAD_SOURCE)
        found = subprocess.run([tidy, f"--config-file={Path(root).resolve()}/.clang-tidy", "bad.cpp", "--", "-std=c++20", f"-I{folder}"],
                               capture_output=True, text=True, cwd=folder)
    missed = []
    if found.returncode == 0:
        missed.append("clang-tidy passes a bad source: WarningsAsErrors is not in force")
    for name, checks in EXPECTED.items():
        lines = [line for line in found.stdout.splitlines() if re.search(rf"{re.escape(name)}:\d+:", line)]
        missed += [f"clang-tidy does not report {check} in {name}" for check in checks if not any(check in line for line in lines)]
    return missed


def check_scripts(root):
    scripts = [str(path) for path in tree.files(root) if path.parts[0] in ("scripts", ".ci") and path.suffix not in (".py", ".yaml")]
    found = subprocess.run(["shellcheck", "-x", *scripts], capture_output=True, text=True, cwd=root)
    return [line for line in found.stdout.splitlines() if line] if found.returncode else []


def check(root):
    violations = check_reasons(tree.read(root, ".clang-tidy"))
    tidy = tidy_program()
    missing = []
    if tidy:
        violations += check_planted(root, tidy)
    else:
        missing.append("clang-tidy 15 or later (the planted faults were not tried)")
    if shutil.which("shellcheck"):
        violations += check_scripts(root)
    else:
        missing.append("shellcheck (the scripts were not checked)")
    if missing and not violations:
        tree.skip("not here: " + ", ".join(missing))
    return violations


if __name__ == "__main__":
    tree.run("lint", check)
