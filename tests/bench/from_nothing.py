#!/usr/bin/env python3
"""Measures a script of a new clone in an empty home folder, such as scripts/quickstart: libtorch is downloaded, nothing is compiled yet.

usage: from_nothing.py scripts/quickstart|scripts/test [--write]

System packages that are installed already are not installed again. Prints each line that the script says about its progress with its
time, and the total; --write also writes the page docs/benchmarks/from_nothing_SCRIPT_*.md."""

import argparse
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time

import page

KEPT = re.compile(r"^(?:setup|quickstart|test): |^Finished |tests passed|tests failed|Total Test time|\*\*\*(?:Failed|Timeout|Exception)")


def clone_of(folder):
    clone = folder / "trainctl"
    subprocess.run(["git", "clone", "--quiet", page.ROOT, clone], check=True)
    (folder / "home").mkdir()
    return clone, {**{name: value for name, value in os.environ.items() if not name.startswith(("XDG_", "CCACHE_"))}, "HOME": str(folder / "home")}


def measure(script, folder):
    """Returns the exit code, (seconds, line) for each line that is kept, and the total in seconds."""
    clone, environment = clone_of(folder)
    start = time.monotonic()
    kept = []
    with subprocess.Popen([clone / script], cwd=clone, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        for line in process.stdout:
            if KEPT.search(line):
                kept.append((time.monotonic() - start, line.strip().replace(str(folder), "")))
                print(f"{kept[-1][0]:7.1f} s  {kept[-1][1]}", flush=True)
    return process.returncode, kept, time.monotonic() - start


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("script", choices=["scripts/quickstart", "scripts/test"])
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="trainctl-nothing-") as folder:
        code, kept, total = measure(options.script, pathlib.Path(folder))
    minutes = f"{int(total // 60)} min {total % 60:.0f} s"
    print(f"{options.script}: {minutes}, exit code {code}")
    if code != 0:
        sys.exit(code)
    if options.write:
        commit = subprocess.run(["git", "-C", page.ROOT, "rev-parse", "--short=12", "HEAD"], check=True, capture_output=True, text=True).stdout.strip()
        log = [f"{seconds:7.1f} s  {line}" for seconds, line in kept]
        name = options.script.removeprefix("scripts/")
        text = page.filled(f"`{options.script}` of a new clone, in an empty home folder without a compiler cache, took **{minutes}**. The system packages were "
                           f"installed before. git {commit}; load average at the end {os.getloadavg()[0]:.1f}.")
        page.write(f"from_nothing_{name}", [page.title(f"`{options.script}` from nothing"), "", text, "", "```text", *log, "```"], ["s", "line"],
                   [(f"{seconds:.1f}", line) for seconds, line in kept])


if __name__ == "__main__":
    main()
