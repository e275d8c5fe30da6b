#!/usr/bin/env python3
"""Flips conditions of the program, one at a time, and counts how many flips the tests detect.

A seed chooses the conditions. All of them are compiled into one copy of the tree, and the environment variable TRAINCTL_MUTANT
selects the one to flip, so that a trial needs one build. scripts/mutation-trial starts this program.

exit codes: 0 the tests detected the requested share, 1 they detected less, 2 wrong arguments, or the copy does not build"""

import argparse
import dataclasses
import json
import os
import random
import re
import shutil
import subprocess
import sys
import time
import xml.etree.ElementTree
from pathlib import Path

import limits
import tree

VARIABLE = "TRAINCTL_MUTANT"
HEADER = f"""#pragma once
#include <cstdlib>
/// True where {VARIABLE} names the place of this number.
inline bool trainctl_mutant(int number) {{
  static const int chosen = [] {{
    const char* text = std::getenv("{VARIABLE}");
    return text == nullptr ? 0 : std::atoi(text);
  }}();
  return chosen == number;
}}
"""
# The tests of the half that a source belongs to run first.
ENGINE = ("device", "dist", "stages", "train", "engine")
# A declaration within the parentheses, as in `if (const auto found = find(name))`, is not an expression that can be flipped.
DECLARATION = re.compile(r";|^\s*(const\s+)?[\w:<>,*&\s]+[\s&*]\[?[\w, ]+\]?\s*=(?!=)|\{")
PLACES = re.compile(r"\b(?:if|while)\s*\(|\bENSURE\s*\(")


@dataclasses.dataclass
class Place:
    """A condition: text[begin:end] of a source file."""

    path: str
    line: int
    begin: int
    end: int
    condition: str


def blanked(text):
    """Returns the C++ text with comments, strings and directives replaced by as many blanks."""
    token = re.compile(r'R"([^(\s]*)\((?:.|\n)*?\)\1"|//(?:\\\n|[^\n])*|/\*(?:.|\n)*?\*/|"(?:\\.|[^"\\\n])*"'
                       r"|(?<![0-9A-Fa-f])'(?:\\.|[^'\\\n])+'|^[ \t]*#(?:\\\n|[^\n])*", re.M)
    return token.sub(lambda match: re.sub(r"[^\n]", " ", match.group(0)), text)


def closing(text, at):
    """Returns the position of the parenthesis that closes the one at `at`, and the positions of the commas directly inside the
    pair."""
    depth, commas = 0, []
    for i in range(at, len(text)):
        depth += (text[i] in "([{") - (text[i] in ")]}")
        if depth == 0:
            return i, commas
        if depth == 1 and text[i] == ",":
            commas.append(i)
    raise ValueError("a parenthesis is not closed")


def places_in(path, text):
    """Yields the conditions of `if`, `while` and ENSURE, except those that are evaluated at compile time."""
    plain = blanked(text)
    constant = [(first, last) for first, last, head in limits.functions(text) if re.search(r"\bconst(expr|eval)\b", head)]
    for match in PLACES.finditer(plain):
        opened = match.end() - 1
        end, commas = closing(plain, opened)
        begin = opened + 1
        if match.group(0).startswith("ENSURE"):
            if len(commas) < 2:
                continue
            begin, end = commas[0] + 1, commas[1]
        condition = text[begin:end]
        line = text.count("\n", 0, begin) + 1
        if condition.strip() == "true" or DECLARATION.search(plain[begin:end]) or any(first <= line <= last for first, last in constant):
            continue
        yield Place(path, line, begin, end, " ".join(condition.split()))


def all_places(root):
    return [place for path in tree.files(root, ".cpp") if path.parts[0] == "lib" and "fuzz" not in path.parts
            for place in places_in(str(path), tree.read(root, path))]


def flipped(text, numbered):
    """Returns the source with its numbered places, [(number, place)], made selectable."""
    for number, place in sorted(numbered, key=lambda pair: -pair[1].begin):
        condition = text[place.begin:place.end].strip()
        text = f"{text[:place.begin]}trainctl_mutant({number}) != static_cast<bool>({condition}){text[place.end:]}"
    return '#include "base/mutant.hpp"\n' + text


def copy_of_tree(root, copy):
    """Copies the files that git tracks or would add, except unchanged ones, so that few files are built again."""
    for path in tree.files(root):
        source, target = Path(root) / path, copy / path
        if target.is_file() and target.read_bytes() == source.read_bytes():
            continue
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(source, target, follow_symlinks=False)
    for name in (".deps", ".arrow", ".torchrun"):  # what scripts/setup installed
        if (Path(root) / name).exists() and not (copy / name).exists():
            (copy / name).symlink_to((Path(root) / name).resolve())


def plant(copy, chosen):
    (copy / "lib/base/mutant.hpp").write_text(HEADER)
    for path in sorted({place.path for place in chosen}):
        numbered = [(number, place) for number, place in enumerate(chosen, 1) if place.path == path]
        (copy / path).write_text(flipped((copy / path).read_text(), numbered))


def build(copy):
    for command in (["cmake", "--preset", "ci", "-DTRAINCTL_BENCHES=OFF"], ["cmake", "--build", "--preset", "ci", "--parallel", os.environ.get("TRAINCTL_JOBS", "2")]):
        run = subprocess.run(command, cwd=copy, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace")
        if run.returncode != 0:
            print(f"{run.stdout[-4000:]}\nmutation-trial: '{' '.join(command)}' failed in {copy}; the places are in it", file=sys.stderr)
            sys.exit(2)


def failed_tests(copy, number, jobs, *selection):
    """Returns the tests that fail with the place flipped; CTest stops at the first failure."""
    junit = copy / "build/mutants.xml"
    junit.unlink(missing_ok=True)  # CTest writes none if no test is selected
    command = ["ctest", "--test-dir", "build/ci", "--parallel", str(jobs), "--timeout", "600", "--stop-on-failure", "--output-junit", str(junit), *selection]
    environment = {**os.environ, VARIABLE: str(number)}
    subprocess.run(command, cwd=copy, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    cases = xml.etree.ElementTree.parse(junit).getroot().iter("testcase") if junit.exists() else []
    return sorted(case.get("name") for case in cases if case.get("status") == "fail")


def notices(copy, number, place, jobs):
    """Returns a test that detects the flipped place: it fails again when it runs alone, and passes without the flip. Returns None
    if no test does."""
    folder = place.path.split("/")[1]
    own, other = ("unit_torch", "unit") if folder in ENGINE else ("unit", "unit_torch")
    near = [("-R", f"^{program} {folder}/") for program in (own, other)]
    for selection in [*near, *(("-L", f"^{label}$", "-LE", "soak") for label in (own, "smoke", other))]:
        for name in failed_tests(copy, number, jobs, *selection):
            alone = ("-R", f"^{re.escape(name)}$")
            if failed_tests(copy, number, 1, *alone) and not failed_tests(copy, 0, 1, *alone):
                return name
    return None


def report_of(results, wanted):
    noticed = [result for result in results if result["test"]]
    lines = [f"{result['place']['path']}:{result['place']['line']}  {result['place']['condition'][:80]}" for result in results if not result["test"]]
    share = len(noticed) / max(len(results), 1)
    return share >= wanted, "\n".join([*(["not noticed:"] if lines else []), *lines, f"{len(noticed)} of {len(results)} noticed ({share:.0%})"])


def arguments():
    parser = argparse.ArgumentParser(prog="mutation-trial", description=__doc__.split("\n\n")[0])
    parser.add_argument("--seed", type=int, default=1, help="which places are chosen (default 1)")
    parser.add_argument("--count", type=int, default=60, help="number of places (default 60)")
    parser.add_argument("--least", type=float, default=0.9, help="share that has to be noticed (default 0.9)")
    parser.add_argument("--jobs", type=int, default=2, help="tests at a time (default 2)")
    parser.add_argument("--list", action="store_true", help="print the places, and neither build nor test")
    parser.add_argument("--only", default="", help="numbers of places, 3,17: these alone are tested, the results of others stay")
    parser.add_argument("--until", type=float, default=float("inf"), help="minutes after which no other place is tested; the next call continues")
    parser.add_argument("--out", type=Path, default=Path("build/mutation"), help="folder of the copy and of results.json")
    return parser.parse_args()


def main():
    options = arguments()
    root = Path(__file__).resolve().parents[2]
    chosen = random.Random(options.seed).sample(all_places(root), options.count)
    if options.list:
        for number, place in enumerate(chosen, 1):
            print(f"{number:3}  {place.path}:{place.line}  {place.condition[:90]}")
        return 0
    began = time.monotonic()
    copy, file = options.out.resolve() / "source", options.out / "results.json"
    copy_of_tree(root, copy)
    plant(copy, chosen)
    build(copy)
    done = json.loads(file.read_text()) if file.is_file() else {}
    only = {int(number) for number in options.only.split(",") if number}
    for number, place in enumerate(chosen, 1):
        known = done.get(str(number), {}).get("place") == dataclasses.asdict(place)
        if (number not in only if only else known) or time.monotonic() - began > 60 * options.until:
            continue
        done[str(number)] = {"place": dataclasses.asdict(place), "test": notices(copy, number, place, options.jobs)}
        file.write_text(json.dumps(done, indent=1))
        print(f"{number:3}  {place.path}:{place.line}  {done[str(number)]['test'] or 'NOT NOTICED'}", flush=True)
    results = [done.get(str(number)) for number in range(1, options.count + 1)]
    good, text = report_of([result for result, place in zip(results, chosen) if result and result["place"] == dataclasses.asdict(place)], options.least)
    print(text)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
