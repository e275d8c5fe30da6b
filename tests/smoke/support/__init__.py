"""Helpers of the smoke tests: they start the program as a user does, in a temporary folder. Needs TRAINCTL_BINARY."""

import contextlib
import csv
import functools
import gzip
import itertools
import json
import os
import pathlib
import re
import resource
import shutil
import socket
import struct
import subprocess
import sys
import tempfile
import time
import typing
import unittest

BINARY = os.environ["TRAINCTL_BINARY"]
SOURCE = pathlib.Path(__file__).resolve().parents[3]
GOLDEN = SOURCE / "tests/golden"
DIGITS = """\
name: smoke
seed: 7
dataset:
  train: {type: synthetic_digits, split: train, samples: 2000, transforms: [{type: normalize, mean: [0.2], std: [0.3]}]}
  val: {type: synthetic_digits, split: test, samples: 500, transforms: [{type: normalize, mean: [0.2], std: [0.3]}]}
loader: {batch_size: 50}
model: {type: mlp, hidden: [32]}
optimizer: {type: adam, lr: 0.002}
metrics: [accuracy]
trainer: {max_epochs: 3, accelerator: cpu, devices: 1, num_threads: 1}
"""
# A time measurement is discarded when other processes take more than this share of the cores.
MOST_FOREIGN_SHARE = 0.1
MISSING_TORCH = "no Python with torch: scripts/setup --checks makes one, or set TRAINCTL_PYTHON_TORCH"
# A run that is still training when the test interrupts it, however fast the machine is.
ENDLESS = ["trainer.max_epochs=100000", "++early_stopping=~"]


def start(folder, *words, **options):
    return subprocess.Popen([BINARY, *map(str, words)], cwd=folder, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                            stderr=subprocess.PIPE, text=True, **options)


class Run(typing.NamedTuple):
    """The exit code and output of one command."""

    code: int
    out: str
    err: str

    @property
    def json(self):
        return json.loads(self.out)


def run(folder, *words, timeout=480, **options):
    process = start(folder, *words, **options)
    try:
        out, err = process.communicate(timeout=timeout)
    finally:
        process.kill()
    return Run(process.returncode, out, err)


def marked(mark):
    """Returns the processes with the mark in their environment: everything that a run has started."""
    found = []
    for entry in pathlib.Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            state = (entry / "stat").read_text().rsplit(")", 1)[1].split()[0]
            if f"SMOKE_MARK={mark}".encode() in (entry / "environ").read_bytes() and state != "Z":
                found.append(int(entry.name))
        except OSError:
            pass
    return found


def worker_of(run_dir, mark, process, rank=0, timeout=120):
    """Waits until the run trains, and returns the pid of a rank's worker."""
    deadline = time.monotonic() + timeout
    while time.monotonic() < deadline and process.poll() is None:
        try:
            if (run_dir / "epochs.csv").read_text().count("\n") >= 2:
                for pid in marked(mark):
                    environment = pathlib.Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
                    if pid != process.pid and f"RANK={rank}".encode() in environment:
                        return pid
        except OSError:
            pass
        time.sleep(0.05)
    out, err = process.communicate(timeout=10) if process.poll() is not None else ("", "")
    raise AssertionError("the run did not start to train: " + out + err)


class Contention:
    """Measures the share of the allowed cores that processes outside this test have used since construction."""

    def __init__(self):
        self.before = self._times()

    @staticmethod
    def _times():
        """Returns three sums in seconds: CPU time of all processes on the allowed cores, CPU time of this process and its
        children, and the total time of these cores."""
        allowed = os.sched_getaffinity(0)
        taken = idle = 0
        for line in pathlib.Path("/proc/stat").read_text().splitlines():
            name, *counts = line.split()
            if name.startswith("cpu") and name[3:].isdigit() and int(name[3:]) in allowed:
                counts = [int(count) for count in counts[:8]]
                idle += counts[3] + counts[4]
                taken += sum(counts) - counts[3] - counts[4]
        ticks = os.sysconf("SC_CLK_TCK")
        used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
        own = sum(one.ru_utime + one.ru_stime for one in used)
        return taken / ticks, own, (taken + idle) / ticks

    def share(self):
        taken, own, total = (after - before for after, before in zip(self._times(), self.before))
        return max(0.0, taken - own) / total if total > 0 else 0.0


@contextlib.contextmanager
def busy_cores():
    """Restricts this process to two of its cores, and keeps these busy with processes that end when it ends."""
    code = "import os\nparent = os.getppid()\nwhile os.getppid() == parent: pass"
    before = os.sched_getaffinity(0)
    cores = sorted(before)[:2]
    with contextlib.ExitStack() as stack:
        stack.callback(os.sched_setaffinity, 0, before)
        os.sched_setaffinity(0, cores)
        for _ in range(2 * len(cores)):
            process = subprocess.Popen([sys.executable, "-c", code])
            stack.callback(process.wait)
            stack.callback(process.kill)
        yield


# These ports are below the ephemeral range of the kernel; processes that start together begin at different ones.
PORTS = itertools.count(20000 + os.getpid() * 7 % 10000)


def python_with_torch():
    """Returns the path of a Python that has torch, or None."""
    named = os.environ.get("TRAINCTL_PYTHON_TORCH")
    places = [pathlib.Path(named)] if named else [SOURCE / ".torchrun/bin/python", SOURCE / "build/peers-venv/bin/python"]
    return next((str(place) for place in places if place.exists()), None)


def free_port():
    """Returns a port that no process listens on, for a program that needs the port number before it listens."""
    for port in PORTS:
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
                return port
            except OSError:
                pass


def measures_time(test):
    """Decorates a test whose outcome is a time measurement: if it fails while other processes take the cores, it is skipped with
    that reason, because the failure does not prove anything about the program."""
    @functools.wraps(test)
    def measured(self):
        contention = Contention()
        try:
            test(self)
        except AssertionError as failure:
            share = contention.share()
            if share > MOST_FOREIGN_SHARE:
                self.skipTest(f"other processes took {share:.0%} of the cores: {failure}")
            raise
    return measured


def write_miniature_mnist(folder):
    """Writes a few hundred generated digits; each class has its own bright band."""
    mnist = folder / "mnist"
    mnist.mkdir(parents=True)
    for prefix, count in (("train", 640), ("t10k", 100)):
        labels = bytes(i % 10 for i in range(count))
        images = b"".join(bytes(200 if 2 * label <= i // 28 < 2 * label + 4 else (i * 7 + label) % 50 for i in range(784))
                          for label in labels)
        (mnist / f"{prefix}-images-idx3-ubyte").write_bytes(struct.pack(">4I", 0x803, count, 28, 28) + images)
        with gzip.open(mnist / f"{prefix}-labels-idx1-ubyte.gz", "wb") as file:
            file.write(struct.pack(">2I", 0x801, count) + labels)


def fits(expected, line):
    """Returns whether a line matches the golden one, where %float matches any number and %path any text without spaces."""
    tokens = {"%float": "[0-9+.,einfa-]++", "%path": "[^ ]++"}
    pattern = "".join(tokens.get(part) or re.escape(part) for part in re.split("(%float|%path)", expected))
    return re.fullmatch(pattern, line) is not None


class Front(unittest.TestCase):
    """Runs commands in an empty folder and checks their output."""

    def setUp(self):
        self.scratch = tempfile.TemporaryDirectory(prefix="trainctl-smoke-")
        self.addCleanup(self.scratch.cleanup)
        self.folder = pathlib.Path(self.scratch.name)

    def write(self, name, text):
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    def program(self, *words, code=None, folder=None, timeout=120, **environment):
        """Runs the program, and checks its exit code if `code` is given."""
        inherited = {name: value for name, value in os.environ.items() if name not in ("NO_COLOR", "COLUMNS")}
        done = run(folder or self.folder, *words, timeout=timeout, env={**inherited, **environment})
        if code is not None:
            self.assertEqual(done.code, code, (words, done.out, done.err))
        return done

    def refused(self, *words, code=2, **options):
        """Returns the stderr of a command that fails."""
        return self.program(*words, code=code, **options).err

    def assert_has(self, text, *parts):
        for part in parts:
            self.assertIn(part, text)

    def assert_starts(self, text, start):
        self.assertEqual(text[:len(start)], start)

    def check_golden(self, name, text):
        """Compares with tests/golden/NAME; TRAINCTL_APPROVE=1 writes the text there, and keeps lines whose placeholders still
        match."""
        path = GOLDEN / name
        expected = path.read_text() if path.exists() else ""
        wanted = expected.split("\n")
        lines = text.removesuffix("\n").split("\n") if text else []
        actual = "".join((wanted[i] if i < len(wanted) and fits(wanted[i], line) else line) + "\n" for i, line in enumerate(lines))
        if os.environ.get("TRAINCTL_APPROVE") == "1":
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(actual)
            return
        self.assertTrue(path.exists(), f"{path} is missing; TRAINCTL_APPROVE=1 writes it")
        self.assertEqual(actual, expected, f"{path}; TRAINCTL_APPROVE=1 accepts the new text")


class Smoke(Front):
    trained = {}  # the runs of train_once(): folders, results and the folders of their tests

    def setUp(self):
        super().setUp()
        (self.folder / "digits.yaml").write_text(DIGITS)

    def train(self, *words, config="digits.yaml", code=0, **options):
        """Trains in a new run folder and returns its result.json, or None if the run is refused before it starts."""
        run_dir = pathlib.Path(tempfile.mkdtemp(dir=self.folder, prefix="run-"))
        returned, out, err = run(self.folder, "run", config, *words, "--run-dir", run_dir, **options)
        self.assertEqual(returned, code, out + err)
        self.out, self.err, self.run_dir = out, err, run_dir
        result = run_dir / "result.json"
        return json.loads(result.read_text()) if code == 0 or result.exists() else None

    def train_once(self, *words, **options):
        """Trains as `train` does, but once for all tests of a class: each gets a copy of the run folder, with its own paths in the
        config."""
        key = (type(self), words, *options.values())
        if key not in Smoke.trained:
            kept = tempfile.TemporaryDirectory(prefix="trainctl-smoke-")
            self.addClassCleanup(kept.cleanup)
            Smoke.trained[key] = kept.name, self.train(*words, **options), str(self.folder)
            shutil.copytree(self.run_dir, kept.name, symlinks=True, dirs_exist_ok=True)
        kept, result, folder = Smoke.trained[key]
        self.run_dir = pathlib.Path(tempfile.mkdtemp(dir=self.folder, prefix="run-"))
        shutil.copytree(kept, self.run_dir, symlinks=True, dirs_exist_ok=True)
        config = self.run_dir / "config.resolved.yaml"
        config.write_text(config.read_text().replace(folder, str(self.folder)))
        return result

    def losses(self, run_dir):
        with open(run_dir / "epochs.csv", newline="") as rows:
            return [(row["train/loss"], row.get("val/loss")) for row in csv.DictReader(rows)]


def main():
    """Exits with 4 if every test was skipped, so that CTest shows a skip."""
    program = unittest.main(verbosity=2, exit=False)
    failed = not program.result.wasSuccessful()
    all_skipped = len(program.result.skipped) == program.result.testsRun
    raise SystemExit(1 if failed else 4 if all_skipped else 0)
