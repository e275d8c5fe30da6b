"""What the smoke tests share: the program as a user starts it, in a folder of its own. Needs TRAINCTL_BINARY."""

import csv
import functools
import gzip
import itertools
import json
import os
import pathlib
import re
import resource
import socket
import struct
import subprocess
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
# The share of the cores that other processes may take before a measurement proves nothing.
MOST_FOREIGN_SHARE = 0.1
# Enough work to be interrupted, whatever the machine's speed.
ENDLESS = ["trainer.max_epochs=100000", "++early_stopping=~"]


def start(folder, *words, **options):
    return subprocess.Popen([BINARY, *map(str, words)], cwd=folder, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                            stderr=subprocess.PIPE, text=True, **options)


class Run(typing.NamedTuple):
    """One run of the program."""

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
    """Processes that carry the mark in their environment: everything a run has started."""
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
    """Waits until the run trains, then gives the pid of a rank's worker."""
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
    """Measures which share of the allowed cores processes outside of this test took since the object was made."""

    def __init__(self):
        self.before = self._times()

    @staticmethod
    def _times():
        """CPU seconds that all processes, and this one with its children, have taken on the allowed cores; seconds of these cores."""
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


# Below the ports that the kernel gives to connections; processes that start together begin at different ones.
PORTS = itertools.count(20000 + os.getpid() * 7 % 10000)


def free_port():
    """Returns a port that nobody listens on, for a program that has to be given one before it listens."""
    for port in PORTS:
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
                return port
            except OSError:
                pass


def measures_time(test):
    """Decorates a test whose outcome is a measurement of time: where it fails while processes outside of it take the cores, it is
    skipped with that reason, since the outcome says nothing about the program."""
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
    """A few hundred made-up digits: each class has its own bright band."""
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
    """Whether a line is the golden one, where %float stands for any number and %path for any text without spaces."""
    tokens = {"%float": "[0-9+.,einfa-]++", "%path": "[^ ]++"}
    pattern = "".join(tokens.get(part) or re.escape(part) for part in re.split("(%float|%path)", expected))
    return re.fullmatch(pattern, line) is not None


class Front(unittest.TestCase):
    """Commands in an empty folder, and what they print."""

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
        """Runs the program; checks its exit code where one is given."""
        inherited = {name: value for name, value in os.environ.items() if name not in ("NO_COLOR", "COLUMNS")}
        done = run(folder or self.folder, *words, timeout=timeout, env={**inherited, **environment})
        if code is not None:
            self.assertEqual(done.code, code, (words, done.out, done.err))
        return done

    def refused(self, *words, code=2, **options):
        """What a command that fails prints on stderr."""
        return self.program(*words, code=code, **options).err

    def assert_has(self, text, *parts):
        for part in parts:
            self.assertIn(part, text)

    def assert_starts(self, text, start):
        self.assertEqual(text[:len(start)], start)

    def check_golden(self, name, text):
        """Compares with tests/golden/NAME; TRAINCTL_APPROVE=1 writes the text there, and keeps lines whose tokens still fit."""
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
    def setUp(self):
        super().setUp()
        (self.folder / "digits.yaml").write_text(DIGITS)

    def train(self, *words, config="digits.yaml", code=0, **options):
        """Runs to the end in a fresh run folder; returns that folder's result.json. What is refused before it starts has none."""
        run_dir = pathlib.Path(tempfile.mkdtemp(dir=self.folder, prefix="run-"))
        returned, out, err = run(self.folder, "run", config, *words, "--run-dir", run_dir, **options)
        self.assertEqual(returned, code, out + err)
        self.out, self.err, self.run_dir = out, err, run_dir
        result = run_dir / "result.json"
        return json.loads(result.read_text()) if code == 0 or result.exists() else None

    def losses(self, run_dir):
        with open(run_dir / "epochs.csv", newline="") as rows:
            return [(row["train/loss"], row.get("val/loss")) for row in csv.DictReader(rows)]


def main():
    """4 where every test was skipped: CTest shows it so."""
    program = unittest.main(verbosity=2, exit=False)
    failed = not program.result.wasSuccessful()
    all_skipped = len(program.result.skipped) == program.result.testsRun
    raise SystemExit(1 if failed else 4 if all_skipped else 0)
