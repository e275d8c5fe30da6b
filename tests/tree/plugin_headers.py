#!/usr/bin/env python3
"""Checks that the headers in cmake/plugin_headers.txt are sorted, exist, and include no header outside the list."""

from pathlib import Path

import layers
import tree

LIST = "cmake/plugin_headers.txt"
WRITTEN = {"spec/plugin_abi.hpp"}  # CMake writes this header


def check(root):
    headers = tree.read(root, LIST).split()
    violations = []
    if headers != sorted(set(headers)):
        violations.append(f"{LIST}: the names are not sorted, or one stands there twice")
    for header in headers:
        path = Path("lib") / header
        if not (Path(root) / path).is_file():
            violations.append(f"{LIST}: there is no {path}")
            continue
        text = tree.without_comments(tree.read(root, path), keep_strings=True)
        violations += [f"{path}: it includes \"{name}\", which {LIST} does not name: a plug-in would not find it"
                       for mark, name in layers.INCLUDE.findall(text) if mark == '"' and name not in {*headers, *WRITTEN}]
    return violations


if __name__ == "__main__":
    tree.run("plugin_headers", check)
