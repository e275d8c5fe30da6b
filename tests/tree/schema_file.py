#!/usr/bin/env python3
"""Checks that configs/schema.json is the JSON Schema that the program prints, with each key and each definition on one line, and that
the first line of each config refers editors to this file.

usage: schema_file.py TRAINCTL configs/schema.json [--write]"""

import json
import subprocess
import sys
from pathlib import Path

import tree

LINE = "# yaml-language-server: $schema="


def compact(value):
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def lines_of(schema):
    """Yields the lines of the file."""
    entries = list(schema.items())
    for i, (key, value) in enumerate(entries):
        comma = "," if i + 1 < len(entries) else ""
        if key in ("properties", "$defs"):
            yield f'"{key}":{{'
            yield ",\n".join(f"{json.dumps(name)}:{compact(inner)}" for name, inner in value.items())
            yield "}" + comma
        else:
            yield f'"{key}":{compact(value)}{comma}'


def check_references(schema):
    """Finds configs whose first line does not name the schema by its relative path."""
    violations = []
    for path in sorted(schema.parent.rglob("*.yaml")):
        expected = LINE + "../" * (len(path.relative_to(schema.parent).parts) - 1) + schema.name
        first = path.read_text().partition("\n")[0]
        if first != expected:
            violations.append(f"{path}:1: must be '{expected}', got '{first}'")
    return violations


def check(program, path, write):
    printed = subprocess.run([program, "schema"], capture_output=True, text=True, check=True).stdout
    text = "{\n" + "\n".join(lines_of(json.loads(printed))) + "\n}\n"
    assert json.loads(text) == json.loads(printed)
    return tree.compare_page(path, text, f"{program} schema", write) + check_references(Path(path))


if __name__ == "__main__":
    if len(sys.argv) not in (3, 4):
        sys.exit(__doc__)
    tree.finish("schema_file", check(sys.argv[1], sys.argv[2], sys.argv[3:] == ["--write"]))
