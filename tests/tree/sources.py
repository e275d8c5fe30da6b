#!/usr/bin/env python3
"""Checks that every source is in the build: a line lost in a merge would silently remove a test or a fuzz target."""

import re
from pathlib import Path

import tree

FOLDERS = ("lib", "apps", "tests")
STAGES = ("lib/stages/stages.def", "lib/data/data.def")


def words_of(root, path):
    """Returns the paths in a CMakeLists.txt, relative to its folder where they start at the top of the tree."""
    folder = path.parent.as_posix()
    text = tree.read(root, path).replace("${CMAKE_SOURCE_DIR}/" + folder + "/", "")
    return set(re.findall(r"[\w./-]+", text.replace("${CMAKE_SOURCE_DIR}/", "")))


def stage_sources(root):
    """Returns the sources that CMake takes from the lists of stages."""
    found = set()
    for path in STAGES:
        if (Path(root) / path).is_file():
            stages = re.findall(r"^STAGE\((\w+), (\w+)(?:, (\w+))?\)", tree.read(root, path), re.MULTILINE)
            found |= {f"{Path(path).parent}/{kind}/{family or name}.cpp" for kind, name, family in stages}
    return found


def is_listed(root, source, lists):
    """Returns whether a CMakeLists.txt names the source: one of its folder or above by relative path, or any by its full path.
    Fuzz targets are listed by name."""
    if any(source.as_posix() in words for words in lists.values()):
        return True
    for folder in source.parents:
        words = lists.get(folder, ())
        if source.relative_to(folder).as_posix() in words:
            return True
        if source.stem.endswith("_fuzz") and f"trainctl_fuzzer({source.stem.removesuffix('_fuzz')} " in \
                (tree.read(root, folder / "CMakeLists.txt") if folder in lists else ""):
            return True
    return False


def check(root):
    paths = [path for path in tree.files(root, ".cpp", ".cu") if path.parts[0] in FOLDERS]
    lists = {path.parent: words_of(root, path) for path in tree.files(root, ".txt") if path.name == "CMakeLists.txt"}
    of_stages = stage_sources(root)
    return [f"{path}: no CMakeLists.txt names it" for path in paths
            if path.as_posix() not in of_stages and not is_listed(root, path, lists)]


if __name__ == "__main__":
    tree.run("sources", check)
