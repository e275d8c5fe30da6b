#!/usr/bin/env python3
"""Checks the table in docs/architecture.md: includes go down in rank, and each outside library lives in one folder."""

import re
from collections import namedtuple
from pathlib import Path

import tree

DOC = "docs/architecture.md"
Layer = namedtuple("Layer", "rank libraries engine")

# Patterns of #include for the names in the table's last column. fmt is allowed anywhere.
LIBRARIES = {
    "fmt": None,
    "POSIX only": None,
    "xxhash": r"xxhash\.h",
    "ISA-L": r"isa-l/|isa-l\.h",
    "OpenSSL": r"openssl/",
    "nlohmann-json": r"nlohmann/",
    "spdlog": r"spdlog/",
    "yaml-cpp": r"yaml-cpp/",
    "protobuf": r"google/protobuf/|.*\.pb\.h",
    "OpenCV": r"opencv2?/",
    "libjpeg-turbo": r"jpeglib\.h|turbojpeg\.h|jerror\.h",
    "libpng": r"png\.h",
    "libcurl": r"curl/",
    "pugixml": r"pugixml\.hpp",
    "zlib": r"zlib\.h",
    "zstd": r"zstd\.h",
    "liburing": r"liburing\.h|liburing/",
    "Arrow": r"arrow/|parquet/",
    "SentencePiece": r"sentencepiece_\w+\.h",
    "CUDA": r"cuda[a-zA-Z0-9_]*\.h|nvml\.h|nvToolsExt\.h|nvtx3/|(c10|ATen)/cuda/",
    "NCCL": r"nccl\.h",
    "c10d": r"torch/csrc/distributed/|gloo/",
    "SQLite": r"sqlite3\.h",
    "CLI11": r"CLI/",
}
TORCH = re.compile(r"torch/|ATen/|c10/|caffe2/")
CATCH = re.compile(r"catch2/")
# System headers. Those of the standard library have no suffix. Those of C and POSIX are listed, since a flat "x.h" may belong to
# any library. Those of Linux are in folders.
FLAT = """cxxabi dirent dlfcn elf endian errno execinfo fcntl fnmatch getopt glob grp ifaddrs immintrin langinfo link locale malloc netdb poll pthread
    pwd sched semaphore signal spawn termios time unistd"""
SYSTEM = re.compile(r"[a-z_0-9]+|(%s)\.h|(sys|linux|netinet|arpa|net)/[a-z_0-9]+\.h|fmt/[a-z]+\.h" % "|".join(FLAT.split()))
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^">]+)[">]', re.M)


def parse_table(text):
    """Returns {folder: Layer}; the row without a rank starts the engine half."""
    layers, engine = {}, False
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        if not line.startswith("|") or len(cells) != 4:
            continue
        if not cells[0]:
            engine = True
        elif cells[0].isdigit():
            libraries = [name.strip() for name in cells[3].split(",") if name.strip()]
            layers[cells[1].strip("`")] = Layer(int(cells[0]), libraries, engine and not cells[1].startswith("`apps"))
    return layers


def place(path, layers):
    """Returns (folder whose rules apply, kind of file): the rules for a test are those of the folder that it mirrors."""
    parts = path.parts
    if parts[0] == "lib":
        return parts[1], "lib"
    if parts[0] == "apps":
        return "/".join(parts[:2]), "lib"
    if parts[0] == "tests" and len(parts) > 2 and parts[1] in layers:
        return parts[1], "test"
    return None, "free"


def quoted(root, name, folder, kind, layers):
    """Returns the complaint about `#include "name"`, or None."""
    target = name.split("/")[0]
    if folder.startswith("apps/") and (Path(root) / folder / name).is_file():
        return None  # the program includes its own headers by a path from its folder
    if "/" not in name:
        if kind == "test" or folder.startswith("apps/"):
            return None  # these headers are in the same folder
        return f'"{name}" names no folder: write "{folder}/{name}"'
    if target == folder or (kind == "test" and target in ("support", "golden")):
        return None
    if target not in layers:
        return f'"{name}": {target} is no folder of the table in {DOC}'
    if layers[target].engine and not layers[folder].engine and name != "engine/entry.h":
        return f'"{name}": {folder} is of the front half, {target} of the engine half'
    if layers[target].rank >= layers[folder].rank:
        return f'"{name}": {folder} has rank {layers[folder].rank}, {target} has {layers[target].rank}; includes go down'
    return None


def outside(name, folder, kind, layers, header):
    """Returns the complaint about `#include <name>`, or None."""
    for library, pattern in LIBRARIES.items():
        if pattern and re.match(f"(?:{pattern})", name):
            homes = [home for home, layer in layers.items() if library in layer.libraries]
            return None if folder in homes else f"<{name}>: {library} lives in {', '.join(homes)} only"
    if TORCH.match(name):
        if not layers[folder].engine:
            return f"<{name}>: {folder} is of the front half, which never sees libtorch"
        if header and name == "torch/torch.h":
            return f"<{name}>: no header includes it; use ATen/core/Tensor.h and forward declarations"
        return None
    if CATCH.match(name):
        return f'<{name}>: Catch2 comes through "support/catch.hpp"'
    if not SYSTEM.fullmatch(name):
        return f"<{name}>: this library has no home in the table of {DOC} (and no pattern in tests/tree/layers.py)"
    return None


def check_includes(root, layers):
    violations = []
    for path in tree.files(root, ".hpp", ".cpp", ".h", ".cu", ".cuh"):
        folder, kind = place(path, layers)
        if kind == "free":
            continue
        if folder not in layers:
            violations.append(f"{path}: {folder} is not in the table of {DOC}")
            continue
        text = tree.without_comments(tree.read(root, path), keep_strings=True)
        for match in INCLUDE.finditer(text):
            line = text.count("\n", 0, match.start(1)) + 1
            header = path.suffix in (".hpp", ".h") and kind == "lib"
            complaint = (quoted(root, match[2], folder, kind, layers) if match[1] == '"'
                         else outside(match[2], folder, kind, layers, header))
            if complaint:
                violations.append(f"{path}:{line}: {complaint}")
    return violations


def check_targets(root, layers):
    """Checks that DEPS of trainctl_library respect the ranks: a library could otherwise link against one that no include shows."""
    violations = []
    for path in tree.files(root, "CMakeLists.txt"):
        call = re.search(r"trainctl_library\((\w+)[^)]*?\bDEPS\s+([a-z_ \n]+)", tree.read(root, path))
        if path.parts[0] != "lib" or not call or call[1] not in layers:
            continue
        for name in call[2].split():
            if name not in layers or layers[name].rank >= layers[call[1]].rank:
                violations.append(f"{path}: {call[1]} may not depend on {name}: dependencies go down in rank")
    return violations


def check(root):
    layers = parse_table(tree.read(root, DOC))
    if len(layers) < 2:
        return [f"{DOC}: the table of ranks was not found"]
    unknown = [f"{DOC}: no pattern in tests/tree/layers.py for the library '{name}' of {folder}"
               for folder, layer in layers.items() for name in layer.libraries if name not in LIBRARIES]
    return unknown + check_includes(root, layers) + check_targets(root, layers)


if __name__ == "__main__":
    tree.run("layers", check)
