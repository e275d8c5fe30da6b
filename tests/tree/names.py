#!/usr/bin/env python3
"""Checks that a qualified type name is defined only once in the headers of lib, since the linker merges equal names, and that no
test name has a semicolon, because CTest cuts the name there and then runs nothing."""

import re

import tree

TOKEN = re.compile(r"\bnamespace\s+([\w:]*)\s*\{"
                   r"|\b(?:enum\s+(?:class\s+|struct\s+)?|struct\s+|class\s+|union\s+)(?:alignas\([^)]*\)\s*|\[\[[^\]]*\]\]\s*)?"
                   r"(\w+)(?:\s+final)?\s*(?::(?!:)[^;{}()]*)?\{"
                   r"|[{}]")


TEST = re.compile(r'TEST_CASE\(\s*((?:"(?:[^"\\]|\\.)*"\s*)+)')


def cut_tests(root):
    for path in tree.files(root, ".cpp"):
        text = tree.read(root, path) if path.parts[0] == "tests" else ""
        for match in TEST.finditer(text):
            if ";" in match[1]:
                yield f"{path}:{text.count(chr(10), 0, match.start()) + 1}: a test's name has a semicolon, where CTest cuts it"


def types(text):
    """Returns (qualified name, line) of each struct, class, union and enum that is defined outside functions."""
    scopes, found = [], []
    text = tree.without_comments(text)
    for match in TOKEN.finditer(text):
        token = match.group(0)
        if token == "}":
            if scopes:
                scopes.pop()
            continue
        if match[2] and None not in scopes:
            found.append(("::".join([*scopes, match[2]]), text.count("\n", 0, match.start()) + 1))
        scopes.append(match[2] or match[1] if token != "{" else None)
    return found


def check(root):
    places, violations = {}, list(cut_tests(root))
    for path in tree.files(root, ".hpp"):
        if path.parts[0] != "lib":
            continue
        for name, line in types(tree.read(root, path)):
            if name in places:
                violations.append(f"{path}:{line}: {name} is defined in {places[name]} too: one of them needs another name")
            places.setdefault(name, f"{path}:{line}")
    return violations


if __name__ == "__main__":
    tree.run("names", check)
