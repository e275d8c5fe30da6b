#!/usr/bin/env python3
"""Finds words that docs/glossary.txt replaces in names, strings, comments, docs and tests."""

import re

import tree

GLOSSARY = "docs/glossary.txt"
TEXT = (".hpp", ".inc", ".js", ".css", ".proto", ".sbatch", ".toml", ".in", ".cpp", ".h", ".cu", ".cuh", ".def", ".py", ".md", ".yaml", ".yml", ".json", ".txt", ".cmake", ".sh")
CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


def words_of(line):
    """Returns the line in lower case, with snake_case and CamelCase names split into words, and without Python's None."""
    return re.sub(r"[_\s]+", " ", CAMEL.sub(" ", re.sub(r"None\b", "", line))).lower()


def read_glossary(text):
    """Returns ([(pattern, replacement)], [(path, pattern)], lines that cannot be parsed)."""
    words, exceptions, wrong = [], [], []
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip() or line.startswith("#"):
            continue
        kind, _, rest = line.partition(" ")
        value, bar, note = rest.rpartition(" | ")
        if kind == "word" and bar and note:
            words.append((value, note))
        elif kind == "except" and bar and note and " " in value:
            exceptions.append(tuple(value.split(" ", 1)))
        else:
            wrong.append(f"{GLOSSARY}:{number}: must be 'word PATTERN | REPLACEMENT' or 'except PATH PATTERN | REASON'")
    return words, exceptions, wrong


def check(root):
    if not (tree.Path(root) / GLOSSARY).is_file():
        return [f"{GLOSSARY}: is missing"]
    words, exceptions, violations = read_glossary(tree.read(root, GLOSSARY))
    rules = [(re.compile(rf"(?<![a-z])(?:{pattern})(?![a-z])"), pattern, instead) for pattern, instead in words]
    # One search through a whole file is much faster than one for each word and line.
    any_word = re.compile(r"(?<![a-z])(?:" + "|".join(pattern for pattern, _ in words) + ")(?![a-z])")
    used = set()
    for path in tree.files(root):
        is_text = path.suffix in TEXT or "." not in path.name  # scripts have no suffix
        if str(path) == GLOSSARY or {"golden", "seeds"} & set(path.parts) or not is_text:
            continue
        allowed = {(place, pattern) for place, pattern in exceptions if path.is_relative_to(place)}
        whole = tree.read(root, path)
        for number, line in enumerate(whole.splitlines() if any_word.search(words_of(whole)) else (), 1):
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
    tree.run("language", check)
