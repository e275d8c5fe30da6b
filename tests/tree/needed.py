#!/usr/bin/env python3
"""Checks which libraries the built files need, where they look for them, which symbols they export and for which GPUs they contain
kernels: trainctl does not need libtorch, the engine exports one entry point and loads libstdc++ first, the engine for CPUs needs no
CUDA library, and the engine for GPUs has kernels for each of ARCHITECTURES (separated by commas, as CMake writes them).

usage: needed.py TRAINCTL [ENGINE [ENGINE_CUDA [ARCHITECTURES]]]"""

import re
import shutil
import struct
import subprocess
import sys
from pathlib import Path

import tree

FORBIDDEN = re.compile(r"lib(torch|c10|cudart|nccl|opencv|gomp|cuda\b|cublas|cudnn)")
CUDA = re.compile(r"lib(torch_cuda|c10_cuda|cu|nccl|nv)")
PROVIDED = re.compile(r"lib(torch|c10|cudart)")  # by the wheels of torch and CUDA
FATBIN_MAGIC = 0xBA55ED50
PTX, CUBIN = 1, 2  # kinds of the entries of a fat binary
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


def check_runpath(dynamic, name, exists=lambda path: Path(path).exists()):
    """Libraries of the wheels must be found in a folder of the RUNPATH, which LD_LIBRARY_PATH precedes, unlike an RPATH."""
    if "(RPATH)" in dynamic:
        return [f"{name} has an RPATH, which TRAINCTL_TORCH_ROOT cannot override"]
    found = re.search(r"\(RUNPATH\)[^\[]*\[([^\]]*)\]", dynamic)
    folders = [folder for folder in (found[1] if found else "").split(":") if folder]  # CMake pads the entry with colons
    violations = [f"{name}'s RUNPATH contains the relative folder {folder}" for folder in folders if folder[0] not in "/$"]
    for library in filter(PROVIDED.match, needed(dynamic)):
        if not any(exists(f"{folder}/{library}") for folder in folders):
            violations.append(f"{name} needs {library}, which is in no folder of its RUNPATH")
    return violations


def architectures(fatbin):
    """Returns the architectures of the machine code (sm_80) and PTX (compute_120) in a section .nv_fatbin. NVIDIA does not document
    the format, so cuobjdump's result is compared with it where cuobjdump is installed."""
    found, at = set(), 0
    while at + 16 <= len(fatbin):
        magic, _, header, size = struct.unpack_from("<IHHQ", fatbin, at)
        if magic != FATBIN_MAGIC:
            at += 8  # padding between fat binaries
            continue
        entry, end = at + header, at + header + size
        while entry + 32 <= end:
            kind, _, entry_header, payload = struct.unpack_from("<HHIQ", fatbin, entry)
            (number,) = struct.unpack_from("<I", fatbin, entry + 28)
            found.add({PTX: "compute", CUBIN: "sm"}.get(kind, "unknown") + f"_{number}")
            entry += entry_header + payload
        at = end
    return found


def section(path, name):
    row = re.search(rf"{re.escape(name)}\s+\S+\s+\S+\s+([0-9a-f]+)\s+([0-9a-f]+)", readelf("--sections", path))
    if not row:
        return b""
    with open(path, "rb") as file:
        file.seek(int(row[1], 16))
        return file.read(int(row[2], 16))


def check_architectures(found, wanted):
    """`wanted` is CMake's list: 80-real has machine code only, 120 machine code and PTX, which later GPUs compile. The headers do not
    show the a of 90a and the f of 100f."""
    expected = set()
    for word in filter(None, wanted.split(",")):
        number, _, kind = word.partition("-")
        number = number.rstrip("af")
        expected |= {f"sm_{number}"} if kind != "virtual" else set()
        expected |= {f"compute_{number}"} if kind != "real" else set()
    missing = [f"the engine for GPUs has no kernels for {one}" for one in sorted(expected - found)]
    return missing + [f"the engine for GPUs has kernels for {one}, which CMake does not list" for one in sorted(found - expected)]


def check_cuobjdump(found, path):
    if not shutil.which("cuobjdump"):
        print("note: cuobjdump is not installed, so the architectures are only read from the file's headers")
        return []
    listed = subprocess.run(["cuobjdump", "--list-elf", path], capture_output=True, text=True, check=True).stdout
    listed = set(re.findall(r"\bsm_\d+", listed))
    found = {one for one in found if one.startswith("sm_")}
    return [] if listed == found else [f"cuobjdump lists {sorted(listed)}, the file's headers {sorted(found)}"]


def check(program, engine="", engine_cuda="", wanted=""):
    violations = check_program(needed(readelf("--dynamic", program)))
    for path in filter(None, (engine, engine_cuda)):
        dynamic = readelf("--dynamic", path)
        violations += check_engine(needed(dynamic), exported(readelf("--dyn-syms", path))) + check_runpath(dynamic, Path(path).name)
    if engine:
        violations += check_cuda(needed(readelf("--dynamic", engine)), needed(readelf("--dynamic", engine_cuda)) if engine_cuda else None)
        violations += ["the engine for CPUs contains GPU kernels"] if section(engine, ".nv_fatbin") else []
    if engine_cuda:
        found = architectures(section(engine_cuda, ".nv_fatbin"))
        violations += check_architectures(found, wanted) + (check_cuobjdump(found, engine_cuda) if found else [])
    return violations


if __name__ == "__main__":
    if not 2 <= len(sys.argv) <= 5:
        sys.exit(__doc__)
    tree.finish("needed", check(*sys.argv[1:]))
