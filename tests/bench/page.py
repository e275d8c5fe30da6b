"""Writes pages of docs/benchmarks: their path, their description of machine and build, and their raw numbers as CSV."""

import csv
import datetime
import json
import os
import pathlib
import re
import subprocess
import textwrap

ROOT = pathlib.Path(__file__).resolve().parents[2]


def filled(text):
    """Returns Markdown paragraphs and lists with lines of at most 140 characters."""
    def fill(item):
        return textwrap.fill(" ".join(item.split()), 140, subsequent_indent="  " * item.startswith("* "), break_long_words=False, break_on_hyphens=False)

    return "\n\n".join("\n".join(map(fill, re.split(r"\n(?=\* )", block))) for block in text.strip().split("\n\n"))


def title(subject):
    """Returns the first line: the subject, the number of cores, the date."""
    return f"# {subject}, {len(os.sched_getaffinity(0))} cores, {datetime.date.today().isoformat()}"


def circumstances(build):
    """Returns one line about the cores, their current load, and the measured program."""
    version = json.loads(subprocess.run([build / "bin/trainctl", "version", "--json"], capture_output=True, check=True).stdout)
    return (f"{len(os.sched_getaffinity(0))} cores; load average at the end {os.getloadavg()[0]:.1f}. trainctl {version['version']}, "
            f"git {version['git']}, {version['build']['type']}, {version['build']['compiler']}.")


def write(name, lines, columns, rows):
    """Writes docs/benchmarks/NAME_<cores>core_<date>.md, and the rows as a CSV of the same name."""
    path = ROOT / "docs/benchmarks" / f"{name}_{len(os.sched_getaffinity(0))}core_{datetime.date.today().isoformat()}.md"
    path.write_text("\n".join([*lines, ""]), encoding="utf-8")
    with open(path.with_suffix(".csv"), "w", encoding="utf-8", newline="") as file:
        out = csv.writer(file, lineterminator="\n")
        out.writerow(columns)
        out.writerows(rows)
    print(f"wrote {path.relative_to(ROOT)}")
