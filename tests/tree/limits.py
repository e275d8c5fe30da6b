#!/usr/bin/env python3
"""Checks sizes: a file has at most 600 lines, a function at most 80. The program also has limits for its files, its lines, its
median file length and the files in a folder. Headers over 150 lines are named, but do not fail."""

import collections
import re
import statistics

import tree

FILE_LIMIT, FUNCTION_LIMIT, HEADER_AIM = 600, 80, 150
# Limits of the sources and headers in lib and apps; a change that needs more gives its reason in docs/adr/0019.
MOST_FILES, LEAST_MEDIAN, MOST_LINES, MOST_IN_FOLDER = 850, 100, 129_460, 28
PROGRAM = ("lib", "apps")
FEW = 20  # the median is not checked for this many files or fewer
SOURCES = (".hpp", ".cpp", ".h", ".inc", ".cu", ".cuh")
SCOPE = re.compile(r'\b(namespace|class|struct|union|enum)\b[^(]*$|\bextern\s+""\s*$')
ANGLES = re.compile(r"<[^<>()]*>|\balignas\s*\([^()]*\)")
LAMBDA = re.compile(r"\[[^\[\]]*\]\s*(<[^<>]*>\s*)?(\(|mutable|noexcept|->|$)")
DIRECTIVE = re.compile(r"^[ \t]*#(?:\\\n|[^\n])*", re.M)


def functions(text):
    """Returns [(first line, last line, head)] of the outermost functions; lambdas and local classes belong to them."""
    text = DIRECTIVE.sub(lambda match: "\n" * match.group(0).count("\n"), tree.without_comments(text))
    found, stack, start = [], [], 0
    for match in re.finditer(r"[{};]", text):
        at, sign = match.start(), match.group(0)
        kinds = [kind for kind, _, _ in stack]
        if sign == "{":
            head = text[start:at]
            stack.append((kind_of(head, kinds), first_line(text, start, at), " ".join(head.split())))
        elif sign == "}" and stack:
            kind, line, head = stack.pop()
            if kind == "function" and "function" not in kinds[:-1]:
                found.append((line, text.count("\n", 0, at) + 1, head))
        start = at + 1
    return found


def kind_of(head, kinds):
    if "function" in kinds:
        return "block"
    if "values" in kinds or re.search(r"=\s*$|\breturn\s*$|,\s*$|^\s*$", head) and not LAMBDA.search(head):
        return "function" if LAMBDA.search(head) else "values"
    while ANGLES.search(head):
        head = ANGLES.sub(" ", head)
    if SCOPE.search(head) and "(" not in head:
        return "scope"
    return "function" if "(" in head else "values"


def first_line(text, start, at):
    skipped = len(text[start:at]) - len(text[start:at].lstrip())
    return text.count("\n", 0, start + skipped) + 1


def check_program(root):
    """Prints the figures of the program, and returns the limits that it exceeds."""
    lengths, folders = [], collections.Counter()
    for path in tree.files(root, *SOURCES):
        if path.parts[0] in PROGRAM:
            lengths.append(tree.read(root, path).count("\n"))
            folders[path.parent] += 1
    if not lengths:
        return []
    median, lines = statistics.median(lengths), sum(lengths)
    print(f"program: {len(lengths)} files, {lines} lines, median {median:g}")
    violations = [f"{folder}: {count} sources and headers; the limit is {MOST_IN_FOLDER}: add inner folders by idea"
                  for folder, count in sorted(folders.items()) if count > MOST_IN_FOLDER]
    if len(lengths) > MOST_FILES:
        violations.append(f"lib and apps: {len(lengths)} files; the limit is {MOST_FILES}: one file per idea")
    if lines > MOST_LINES:
        violations.append(f"lib and apps: {lines} lines; the limit is {MOST_LINES}")
    if len(lengths) > FEW and median < LEAST_MEDIAN:
        violations.append(f"lib and apps: the median file has {median:g} lines; the least is {LEAST_MEDIAN}")
    return violations


def check(root):
    violations = check_program(root)
    for path in tree.files(root, ".hpp", ".cpp", ".h", ".cu", ".cuh", ".py", ".cmake", "CMakeLists.txt"):
        text = tree.read(root, path)
        lines = text.count("\n")
        if lines > FILE_LIMIT:
            violations.append(f"{path}: {lines} lines; the limit is {FILE_LIMIT}: split it")
        if path.suffix == ".hpp" and lines > HEADER_AIM:
            print(f"note: {path}: {lines} lines; a header aims at {HEADER_AIM}")
        if path.suffix in (".py", ".cmake", ".txt"):
            continue
        for first, last, head in functions(text):
            if last - first + 1 > FUNCTION_LIMIT:
                length = last - first + 1
                violations.append(f"{path}:{first}: {length} lines in one function; the limit is {FUNCTION_LIMIT}: {head[:60]}")
    return violations


if __name__ == "__main__":
    tree.run("limits", check)
