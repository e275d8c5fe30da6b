#!/usr/bin/env python3
"""Finds words that docs/glossary.txt replaces in names, strings, comments, docs and tests of the paths that it lists as clean."""

import re
import sys

import tree

GLOSSARY = "docs/glossary.txt"
TEXT = (".hpp", ".cpp", ".h", ".cu", ".cuh", ".def", ".py", ".md", ".yaml", ".yml", ".json", ".txt", ".cmake", ".sh")
CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


def words_of(line):
    """Returns the line in lower case, with snake_case and CamelCase names split into words, and without Python's None."""
    return re.sub(r"[_\s]+", " ", CAMEL.sub(" ", re.sub(r"None\b", "", line))).lower()


def read_glossary(text):
    """Returns (clean paths, [(pattern, replacement)], [(path, pattern)], lines that cannot be parsed)."""
    clean, words, exceptions, wrong = [], [], [], []
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip() or line.startswith("#"):
            continue
        kind, _, rest = line.partition(" ")
        value, bar, note = rest.rpartition(" | ")
        if kind == "clean" and rest:
            clean.append(rest)
        elif kind == "word" and bar and note:
            words.append((value, note))
        elif kind == "except" and bar and note and " " in value:
            exceptions.append(tuple(value.split(" ", 1)))
        else:
            wrong.append(f"{GLOSSARY}:{number}: must be 'clean PATH', 'word PATTERN | REPLACEMENT' or 'except PATH PATTERN | REASON'")
    return clean, words, exceptions, wrong


def below(path, folders):
    return any(folder == "." or str(path) == folder or str(path).startswith(folder + "/") for folder in folders)


def check(root, everywhere=False):
    """Returns the violations in the clean paths, or in all files if `everywhere`."""
    if not (tree.Path(root) / GLOSSARY).is_file():
        return [f"{GLOSSARY}: is missing"]
    clean, words, exceptions, violations = read_glossary(tree.read(root, GLOSSARY))
    rules = [(re.compile(rf"(?<![a-z])(?:{pattern})(?![a-z])"), pattern, instead) for pattern, instead in words]
    used = set()
    for path in tree.files(root, *TEXT, *(name for name in clean if "." not in name)):
        if str(path) == GLOSSARY or "/golden/" in str(path) or not (everywhere or below(path, clean)):
            continue
        allowed = {(folder, pattern) for folder, pattern in exceptions if below(path, [folder])}
        for number, line in enumerate(tree.read(root, path).splitlines(), 1):
            text = words_of(line)
            for rule, pattern, instead in rules:
                match = rule.search(text)
                if not match:
                    continue
                known = {each for each in allowed if each[1] == pattern}
                used |= known
                if not known:
                    violations.append(f"{path}:{number}: '{match[0].strip()}': write {instead}: {line.strip()[:80]}")
    for folder, pattern in set(exceptions) - used:
        violations.append(f"{GLOSSARY}: the exception of '{pattern}' for {folder} is not needed: remove it")
    return violations


if __name__ == "__main__":
    if len(sys.argv) == 3 and sys.argv[2] == "--all":
        tree.finish("language", check(sys.argv[1], everywhere=True))
    tree.run("language", check)
