#!/usr/bin/env python3
"""Checks which libraries the built files need and which symbols they export: trainctl does not need libtorch, the engine exports
one entry point and loads libstdc++ first, and the engine for CPUs needs no CUDA library.

usage: needed.py TRAINCTL [ENGINE [ENGINE_CUDA]]"""

import re
import subprocess
import sys

import tree

FORBIDDEN = re.compile(r"lib(torch|c10|cudart|nccl|opencv|gomp|cuda\b|cublas|cudnn)")
CUDA = re.compile(r"lib(torch_cuda|c10_cuda|cu|nccl|nv)")
ENTRY = re.compile(r"trainctl_engine_v\d+")


def readelf(flag, path):
    return subprocess.run(["readelf", "--wide", flag, path], capture_output=True, text=True, check=True).stdout


def needed(dynamic):
    return re.findall(r"\(NEEDED\)[^\[]*\[([^\]]+)\]", dynamic)


def exported(symbols):
    """Returns the defined symbols that other files may link to."""
    found = []
    for line in symbols.splitlines():
        cells = line.split()
        if len(cells) >= 8 and cells[4] in ("GLOBAL", "WEAK", "UNIQUE") and cells[5] in ("DEFAULT", "PROTECTED") and cells[6].isdigit():
            found.append(cells[7].split("@")[0])
    return found


def check_program(libraries):
    return [f"trainctl needs {name}: the front half never sees it" for name in libraries if FORBIDDEN.match(name)]


def check_engine(libraries, symbols):
    violations = []
    if not libraries or libraries[0] != "libstdc++.so.6":
        violations.append(f"the engine's first NEEDED is {(libraries or ['nothing'])[0]}, not libstdc++.so.6: "
                          "libtorch's incomplete copy of std::filesystem would win")
    if not any(name.startswith("libtorch_cpu") for name in libraries):
        violations.append("the engine does not need libtorch_cpu.so")
    if len(symbols) != 1 or not ENTRY.fullmatch(symbols[0]):
        violations.append(f"the engine exports {len(symbols)} symbols, not its one entry point: {', '.join(sorted(symbols)[:5])}")
    return violations


def check_cuda(of_cpu, of_cuda):
    violations = [f"the engine for CPUs needs {name}" for name in of_cpu if CUDA.match(name)]
    if of_cuda is not None and "libtorch_cuda.so" not in of_cuda:
        violations.append("the engine for GPUs does not need libtorch_cuda.so")
    return violations


def check(program, engine="", engine_cuda=""):
    violations = check_program(needed(readelf("--dynamic", program)))
    for path in filter(None, (engine, engine_cuda)):
        violations += check_engine(needed(readelf("--dynamic", path)), exported(readelf("--dyn-syms", path)))
    if engine:
        violations += check_cuda(needed(readelf("--dynamic", engine)), needed(readelf("--dynamic", engine_cuda)) if engine_cuda else None)
    return violations


if __name__ == "__main__":
    if len(sys.argv) not in (2, 3, 4):
        sys.exit(__doc__)
    tree.finish("needed", check(*sys.argv[1:]))
