#!/usr/bin/env python3
"""Checks that every class of Python tests is a CTest entry: a class that no tests/*/CMakeLists.txt names is never run.

usage: registered.py SOURCE_DIR"""

import ast
import pathlib
import re
import sys

import tree

FOLDERS = ("tests/smoke", "tests/soak")


def classes_of(source):
    """Returns the classes of a module that have tests in their own body or, if no class of the module derives from them, in a
    base class."""
    classes = {node.name: node for node in ast.parse(source).body if isinstance(node, ast.ClassDef)}
    bases = {one.name: {base.id for base in one.bases if isinstance(base, ast.Name)} for one in classes.values()}
    derived_from = set().union(*bases.values()) if bases else set()

    def has_tests(name):
        own = name in classes and any(isinstance(item, ast.FunctionDef) and item.name.startswith("test") for item in classes[name].body)
        return own or any(has_tests(base) for base in bases.get(name, ()))

    return [name for name in classes if name not in derived_from and has_tests(name)]


def names_run_by(listing, script):
    """Returns the words of the calls in `listing`, the text of a CMakeLists.txt, that run classes of `script`."""
    calls = re.findall(r"\w+_tests?\(([^)]*)\)", listing)
    return {word for call in calls if script in call.split() for word in call.split()}


def unregistered(source, script, listing):
    """Returns the classes of `script` that `listing` does not run. If `listing` names the script without classes, the whole
    script runs."""
    if f"{script}.py" in listing:
        return []
    return [name for name in classes_of(source) if name not in names_run_by(listing, script)]


def check(root):
    violations = []
    for folder in FOLDERS:
        listing = (root / folder / "CMakeLists.txt").read_text()
        for path in sorted((root / folder).glob("*.py")):
            for name in unregistered(path.read_text(), path.stem, listing):
                violations.append(f"{path.relative_to(root)}: CTest does not run class {name}: add it in {folder}/CMakeLists.txt")
    return violations


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    tree.finish("registered", check(pathlib.Path(sys.argv[1])))
