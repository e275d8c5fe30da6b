"""Runs the whole test suite several times, every second time in random order, under load and with other random numbers, and
prints the failures of each run. scripts/repeat-tests starts it.

exit codes: 0 no test failed in any run, 1 a test failed, 2 wrong arguments"""

import argparse
import collections
import contextlib
import dataclasses
import json
import os
import pathlib
import subprocess
import sys
import time
import xml.etree.ElementTree

# A process that keeps a core busy and exits with its parent.
BUSY = "import os\nparent = os.getppid()\nwhile os.getppid() == parent:\n    for _ in range(1000000):\n        pass\n"
# Limits the instruction sets of libtorch's own kernels, oneDNN and MKL, so that float32 results are those of an older CPU.
INSTRUCTION_SETS = {
    "sse": {"ATEN_CPU_CAPABILITY": "default", "ONEDNN_MAX_CPU_ISA": "SSE41", "MKL_ENABLE_INSTRUCTIONS": "SSE4_2"},
    "avx2": {"ATEN_CPU_CAPABILITY": "avx2", "ONEDNN_MAX_CPU_ISA": "AVX2", "MKL_ENABLE_INSTRUCTIONS": "AVX2"},
}


@dataclasses.dataclass
class Run:
    """One run of the suite."""

    number: int
    shuffled: bool
    load: int
    seconds: float = 0
    tests: int = 0
    skipped: int = 0
    failed: list = dataclasses.field(default_factory=list)
    exit_code: int = 0


@contextlib.contextmanager
def load_of(processes):
    """Keeps so many cores busy while the block runs."""
    busy = [subprocess.Popen([sys.executable, "-c", BUSY]) for _ in range(processes)]
    try:
        yield
    finally:
        for process in busy:
            process.kill()
            process.wait()


def results_in(junit):
    """Returns (number of tests, number of skipped tests, names of failed tests) of a file that `ctest --output-junit` wrote."""
    cases = list(xml.etree.ElementTree.parse(junit).getroot().iter("testcase"))
    skipped = [case for case in cases if case.find("skipped") is not None]
    failed = sorted(case.get("name") for case in cases if case.find("failure") is not None or case.get("status") == "fail")
    return len(cases), len(skipped), failed


def run_suite(run, options, folder):
    junit, log = folder / f"run_{run.number}.xml", folder / f"run_{run.number}.log"
    command = ["ctest", "--test-dir", str(options.build), "--parallel", str(options.jobs), "--output-on-failure", "--no-tests=error",
               "--timeout", "900", "--output-junit", str(junit)]
    if run.shuffled:
        command.append("--schedule-random")
    environment = {**os.environ, **INSTRUCTION_SETS.get(options.cpu, {})}
    if run.shuffled:
        environment["TRAINCTL_TEST_SEED"] = str(run.number)
    began = time.monotonic()
    with load_of(run.load), open(log, "w") as output:
        run.exit_code = subprocess.run([*command, *options.ctest], stdout=output, stderr=subprocess.STDOUT, env=environment).returncode
    run.seconds = round(time.monotonic() - began, 1)
    if not junit.is_file():
        raise SystemExit(f"repeat-tests: ctest wrote no results (exit code {run.exit_code}): see {log}")
    run.tests, run.skipped, run.failed = results_in(junit)


def table_of(runs):
    rows = [("run", "order", "load", "seconds", "tests", "skipped", "failed")]
    rows += [(run.number, "random" if run.shuffled else "listed", run.load, f"{run.seconds:.1f}", run.tests, run.skipped, len(run.failed))
             for run in runs]
    widths = [max(len(str(row[i])) for row in rows) for i in range(len(rows[0]))]
    lines = ["  ".join(str(cell).rjust(width) for cell, width in zip(row, widths)) for row in rows]
    failures = collections.defaultdict(list)
    for run in runs:
        for name in run.failed:
            failures[name].append(run.number)
    lines.append("")
    if not failures:
        lines.append(f"no test failed in {len(runs)} runs")
    for name, numbers in sorted(failures.items(), key=lambda one: (-len(one[1]), one[0])):
        lines.append(f"failed in {len(numbers)} of {len(runs)} runs ({', '.join(map(str, numbers))}): {name}")
    return "\n".join(lines)


def parsed(arguments):
    cores = len(os.sched_getaffinity(0))
    parser = argparse.ArgumentParser(prog="scripts/repeat-tests", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", nargs="?", type=int, default=10, help="number of runs of the suite (10)")
    parser.add_argument("--load", type=int, default=cores, help=f"busy processes during every second run (here {cores}: one per core)")
    parser.add_argument("--jobs", type=int, default=cores, help=f"tests at once (here {cores})")
    parser.add_argument("--cpu", choices=["native", *INSTRUCTION_SETS], default="native", help="instruction set of the float32 kernels")
    parser.add_argument("--build", type=pathlib.Path, default=pathlib.Path("build/ci"), help="build folder (build/ci)")
    parser.add_argument("--out", type=pathlib.Path, help="folder of logs and results (BUILD/repeat/TIME)")
    parser.add_argument("--json", action="store_true", help="print one JSON document in place of the table")
    parser.add_argument("ctest", nargs="*", metavar="-- CTEST_ARGUMENT", help="arguments of ctest, such as -R NAME")
    split = arguments.index("--") if "--" in arguments else len(arguments)
    options = parser.parse_args(arguments[:split])
    options.ctest = arguments[split + 1:]
    if options.runs < 1 or options.load < 0 or options.jobs < 1:
        parser.error("the number of runs and jobs must be at least 1, and the load at least 0")
    return options


def main(arguments):
    options = parsed(arguments)
    options.build = options.build.resolve()
    folder = (options.out or options.build / "repeat" / time.strftime("%Y%m%d-%H%M%S")).resolve()
    folder.mkdir(parents=True, exist_ok=True)
    runs = []
    for number in range(1, options.runs + 1):
        stressed = number % 2 == 0
        run = Run(number, stressed, options.load if stressed else 0)
        run_suite(run, options, folder)
        runs.append(run)
        print(f"run {number} of {options.runs}: {len(run.failed)} of {run.tests} tests failed, {run.seconds:.0f} s", file=sys.stderr, flush=True)
        document = {"schema": "trainctl.repeat_tests/2", "cpu": options.cpu, "runs": [dataclasses.asdict(each) for each in runs]}
        (folder / "runs.json").write_text(json.dumps(document, indent=2) + "\n")
    print(json.dumps(document, indent=2) if options.json else table_of(runs))
    print(f"logs: {folder}", file=sys.stderr)
    return 1 if any(run.failed or run.exit_code != 0 for run in runs) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
