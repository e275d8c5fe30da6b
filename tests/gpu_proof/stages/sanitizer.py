"""compute-sanitizer on the test cases with the tag [kernels], which run the program's own kernels."""

import glob
import shutil

import catch_cases
from outcomes import skipped
from runner import Check

TOOLS = ("memcheck", "racecheck", "initcheck", "synccheck")


def sanitizer():
    return shutil.which("compute-sanitizer") or next(iter(sorted(glob.glob("/usr/local/cuda*/bin/compute-sanitizer"), reverse=True)), None)


def case(tool, name):
    """Memory comes from cudaMalloc directly, because the caching allocator would hide accesses between its blocks."""
    def run(context):
        before = [sanitizer(), f"--tool={tool}", "--error-exitcode=99", "--print-limit=20"]
        return catch_cases.run(context, context.build / "bin/unit_torch", name, before=before, timeout=300,
                               environment={"PYTORCH_NO_CUDA_MEMORY_CACHING": 1})

    return Check(f"{tool}: {name}", run, 120)


def checks(context):
    program = context.build / "bin/unit_torch"
    reason = ("needs a GPU" if context.device != "cuda" else "compute-sanitizer is not installed" if sanitizer() is None else
              "" if program.exists() else f"{program} does not exist")
    if reason:
        return [Check("compute-sanitizer", lambda _: skipped(reason), 1)]
    return [case(tool, name) for tool in TOOLS for name in catch_cases.names(context, program, "[gpu][kernels]")]
