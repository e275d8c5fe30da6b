#!/usr/bin/env python3
"""Compares stages.def and data.def with the folders and the docs: a stage has one line, one options struct and one registration, and
its place in the sections that list its kind."""

import re
from pathlib import Path

import tree

LISTS = {"lib/stages/stages.def": "lib/stages", "lib/data/data.def": "lib/data"}
REGISTERS_FAMILIES = {"lib/stages"}  # other folders have one registration function per stage
SPEC = "lib/spec/options"
NAMES_EVERY = {"docs/reference/failures.md#Skipped steps": "optimizer",
               "docs/reference/learning-rates.md#Momentum of one_cycle_lr": "optimizer"}


def read_list(root, path):
    """Returns [(line number, kind, name, family)], and the lines that cannot be parsed."""
    stages, violations = [], []
    for number, line in enumerate(tree.read(root, path).splitlines(), 1):
        match = re.fullmatch(r"STAGE\(([a-z_]+), ([a-z0-9_]+)(?:, ([a-z0-9_]+))?\)", line)
        if match:
            stages.append((number, match[1], match[2], match[3] or match[2]))
        elif line.strip() and not line.startswith("//"):
            violations.append(f"{path}:{number}: expected 'STAGE(kind, name)', 'STAGE(kind, name, family)' or a comment, found '{line}'")
    return stages, violations


def options_type(name):
    """Turns multi_step_lr into MultiStepLr, like trainctl_vocabulary in cmake/TrainctlStages.cmake."""
    return "".join(word[:1].upper() + word[1:] for word in name.split("_"))


def options_text(root, header):
    """Returns the header of a kind, and the headers of options that it includes."""
    text = tree.read(root, header)
    return text + "".join(tree.read(root, f"{SPEC}/{name}") for name in re.findall(r'#include "spec/options/(\w+\.hpp)"', text))


def check_lines(root, path, folder, stages):
    violations, seen = [], set()
    for number, kind, name, family in stages:
        if (kind, name) in seen:
            violations.append(f"{path}:{number}: {kind}/{name} is listed twice")
        seen.add((kind, name))
        header = Path(SPEC) / f"{kind}.hpp"
        if not (Path(root) / header).is_file():
            violations.append(f"{path}:{number}: {kind}/{name} has no header {header}")
        elif not re.search(rf"^(?:struct|class) {options_type(name)}\b", options_text(root, header), re.MULTILINE):
            violations.append(f"{header}: struct {options_type(name)}, the options of {kind}/{name}, is missing")
        source = Path(folder) / kind / f"{family}.cpp"
        if not (Path(root) / source).is_file():
            violations.append(f"{path}:{number}: {kind}/{name} has no source {source}")
        else:
            unit = family if folder in REGISTERS_FAMILIES else name
            text = tree.read(root, source)
            if f"register_{kind}_{unit}(" not in text:
                violations.append(f"{source}: register_{kind}_{unit} is missing")
            elif unit != name and f'"{name}"' not in text:
                violations.append(f"{source}: register_{kind}_{unit} does not register {name}")
    return violations


def check_sources(root, path, folder, stages):
    """Finds sources without a line: they register a stage, or have no header of the same name next to them."""
    violations = []
    for kind in sorted({kind for _, kind, _, _ in stages}):
        families = {family for _, other, _, family in stages if other == kind}
        for source in sorted((Path(root) / folder / kind).glob("*.cpp")):
            shown = source.relative_to(root)
            if source.stem in families:
                continue
            if f"register_{kind}_" in tree.read(root, shown) or not source.with_suffix(".hpp").is_file():
                violations.append(f"{shown}: no line STAGE({kind}, {source.stem}) or STAGE({kind}, ..., {source.stem}) in {path}")
    return violations


def check_headers(root, listed):
    """Finds headers that are not the kind of any line and that no header or source includes."""
    violations = []
    shown_in = "\n".join(tree.read(root, path) for path in tree.files(root, ".hpp", ".cpp") if path.parts[0] == "lib")
    for header in sorted((Path(root) / SPEC).glob("*.hpp")):
        if header.stem not in listed and f'#include "spec/options/{header.name}"' not in shown_in:
            violations.append(f"{header.relative_to(root)}: no line STAGE({header.stem}, ...), and nothing includes it")
    return violations


def check_docs(root, stages):
    """Finds stages that a section of the docs leaves out although it lists all stages of their kind."""
    violations = []
    for place, kind in NAMES_EVERY.items():
        path, heading = place.split("#")
        names = [name for _, other, name, _ in stages if other == kind]
        section = re.search(rf"^#+ {re.escape(heading)}\n(.*?)(?=^#|\Z)", tree.read(root, path) if names else "", re.M | re.S)
        violations += [f"{path}: the section '{heading}' does not name {kind}/{name}" for name in names
                       if not section or f"`{name}`" not in section[1]]
    return violations


def check(root):
    violations, listed = [], set()
    for path, folder in LISTS.items():
        stages, unread = read_list(root, path)
        violations += unread + check_lines(root, path, folder, stages) + check_sources(root, path, folder, stages)
        violations += check_docs(root, stages)
        listed |= {kind for _, kind, _, _ in stages}
    return violations + check_headers(root, listed)


if __name__ == "__main__":
    tree.run("stages", check)
