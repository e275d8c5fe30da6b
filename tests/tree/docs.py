#!/usr/bin/env python3
"""Checks that the documents are current: the table of ranks names the existing folders, links lead somewhere, decisions are
numbered, the timing phases are described, stages in sentences and tables have the options that are written with them."""

import json
import os
import re
from pathlib import Path

import layers
import tree

LINK = re.compile(r"\[[^\]]*\]\(([^)#\s]+)(?:#[^)]*)?\)")
README_LIMIT = 120
PHASES = "lib/events/timing_fields.def"
PHASE = re.compile(r'^TIMING_PHASE\(\w+, (\w+), \w+, "(\w*)"', re.M)
SCHEMA = "configs/schema.json"
INLINE = re.compile(r"`[^`\n]+`")
# Matches { type: NAME, option: value, ... } without nested braces.
STAGE = re.compile(r"\{ ?type: (\w+)((?:, \w+: (?:\[[^][{}]*\]|[^][{},]+))*) ?\}")
COLUMNS, RANGES = "docs/reference/run-folder.md", "docs/how-to/profile.md"


def check_table(root):
    table = layers.parse_table(tree.read(root, layers.DOC))
    folders = {path.parts[1] for path in tree.files(root, ".cpp", ".hpp", ".h") if path.parts[0] == "lib"}
    return ([f"{layers.DOC}: lib/{name} is not in the table of ranks" for name in sorted(folders - set(table))] +
            [f"{layers.DOC}: the table names {name}, which is no folder of lib/"
             for name in sorted(set(table) - folders) if not (Path(root) / name).is_dir()])


def check_links(root):
    violations = []
    for path in tree.files(root, ".md"):
        for number, line in enumerate(tree.read(root, path).splitlines(), 1):
            for target in LINK.findall(line):
                if "://" not in target and not (Path(root) / path.parent / target).exists():
                    violations.append(f"{path}:{number}: the link leads nowhere: {target}")
    return violations


def check_orphans(root):
    """Finds pages of docs/ that no other page links to. Benchmarks do not need a link: readers find them in their folder."""
    linked = set()
    for path in tree.files(root, ".md"):
        for target in LINK.findall(tree.read(root, path)):
            linked.add(os.path.normpath(os.path.join(path.parent, target)))
    return [f"{path}: no page links to it" for path in tree.files(root, ".md")
            if path.parts[0] == "docs" and str(path) not in linked and not str(path).startswith("docs/benchmarks/")]


def check_decisions(root):
    numbers = sorted(path.name[:4] for path in tree.files(root, ".md") if str(path).startswith("docs/adr/0"))
    expected = [f"{i:04}" for i in range(1, len(numbers) + 1)]
    return [] if numbers == expected else [f"docs/adr: numbered {', '.join(numbers)}; expected {', '.join(expected)}"]


def check_readme(root):
    lines = tree.read(root, "README.md").count("\n") if (Path(root) / "README.md").is_file() else 0
    return [] if 0 < lines <= README_LIMIT else [f"README.md: {lines} lines; it has 1 to {README_LIMIT}"]


def check_phases(root):
    """Compares the columns of timing.csv after wall_s, and the names of the NVTX ranges, with the timing phases."""
    if not (Path(root) / PHASES).is_file():
        return []
    phases = PHASE.findall(tree.read(root, PHASES))
    expected = [member for member, _ in phases]
    rows = re.findall(r"^\| `(\w+)` \|", tree.read(root, COLUMNS).partition("| `wall_s` |")[2], re.M)
    violations = [] if rows[:len(expected)] == expected else [
        f"{COLUMNS}: the rows after wall_s must be those of {PHASES}: {', '.join(expected)}"]
    return violations + [f"{RANGES}: the NVTX range {name} of {PHASES} is missing" for _, name in phases
                         if name and f"`{name}`" not in tree.read(root, RANGES)]


def check_stages(root):
    """Compares each stage in inline code, such as `{ type: sgd, lr: 0.1 }`, with the schema of experiment files."""
    if not (Path(root) / SCHEMA).is_file():
        return []
    known = {}
    for name, schema in json.loads(tree.read(root, SCHEMA))["$defs"].items():
        known.setdefault(name.rpartition(".")[2], []).append(set(schema.get("properties", ())))
    violations = []
    for path in tree.files(root, ".md"):
        for number, line in enumerate(tree.read(root, path).splitlines(), 1):
            for name, options in STAGE.findall(" ".join(INLINE.findall(line))):
                written = set(re.findall(r", (\w+): ", options))
                if not any(written <= options for options in known.get(name, [])):
                    violations.append(f"{path}:{number}: no stage {name} has the options: {', '.join(sorted(written)) or 'none'}")
    return violations


def check(root):
    return (check_table(root) + check_links(root) + check_orphans(root) + check_decisions(root) + check_readme(root) +
            check_phases(root) + check_stages(root))


if __name__ == "__main__":
    tree.run("docs", check)
