"""Runs that proofs kill: a small experiment, its processes, and waiting for the moment of a fault. Needs TRAINCTL_BINARY."""

import itertools
import json
import os
import pathlib
import signal
import stat
import subprocess
import time

import compare
from processes import DEADLINE, Pages, environment_of, processes, send, wait_for
from proof import LONG, Proof, Unmet

BINARY = os.environ.get("TRAINCTL_BINARY", "")
# Every process of a run must be gone this many seconds after a kill. Other tests keep the cores busy in the fast tier.
GONE_S = 5 if LONG else 30
EPOCHS, STEPS = 3, 30  # steps per epoch, for any number of ranks
BATCHES, ROWS = 60, 12  # per epoch; per batch, over all ranks. Two batches make a step
SMALL = """\
name: soak
seed: 11
dataset:
  train:
    type: synthetic_digits
    split: train
    samples: 720
    transforms: [{type: random_affine, degrees: 10}, {type: normalize, mean: [0.2], std: [0.3]}]
  val: {type: synthetic_digits, split: test, samples: 480, transforms: [{type: normalize, mean: [0.2], std: [0.3]}]}
loader: {batch_size: 12, num_workers: 1}
model:
  type: sequential
  layers:
    - {type: conv2d, out_channels: 16, kernel_size: 3, stride: 2, padding: 1, bias: false}
    - batch_norm2d
    - relu
    - {type: conv2d, out_channels: 32, kernel_size: 3, padding: 1}
    - relu
    - {type: max_pool2d, kernel_size: 2}
    - flatten
    - {type: dropout, p: 0.2}
    - linear
optimizer: {type: adam, lr: 0.002}
scheduler: {type: step_lr, step_size: 1, gamma: 0.5}
early_stopping: {type: patience, monitor: val/loss, patience: 50, restore_best: true}
metrics: [accuracy]
trainer:
  {max_epochs: 3, accelerator: cpu, devices: 1, num_threads: 1, channels_last: false, log_every_n_steps: 1, accumulate_grad_batches: 2,
   ema: {decay: 0.9}}
checkpoint: {monitor: val/accuracy, every_n_steps: 7}
"""
WORLDS = [1, 2, 3]
ENDLESS = ["trainer.max_epochs=100000", "++early_stopping=~"]


def ranks(world):
    """Returns overrides that share the same steps among `world` ranks."""
    return [f"trainer.devices={world}", f"loader.batch_size={ROWS // world}"]


marks = (f"{os.getpid()}-{number}" for number in itertools.count())


class Run:
    """A run folder, and the processes that train in it, one after the other."""

    def __init__(self, place, *overrides, name="run", config=None):
        self.place, self.folder = pathlib.Path(place), pathlib.Path(place) / name
        self.name, self.overrides, self.mark = name, list(overrides), next(marks)
        self.temporary = self.place / f"{name}-tmp"
        self.temporary.mkdir()
        self.config = config or self.place / f"{name}.yaml"
        if not config:
            self.config.write_text(SMALL)
        self.starts, self.process, self.pages = 0, None, None

    def start(self, *words):
        self.starts += 1
        self.pages = None
        self.began = time.time()
        with open(self.said_path("out"), "w") as out, open(self.said_path("err"), "w") as err:
            self.process = subprocess.Popen(
                [BINARY, "run", str(self.config), *self.overrides, "--run-dir", str(self.folder), *map(str, words)],
                cwd=self.place, stdin=subprocess.DEVNULL, stdout=out, stderr=err, start_new_session=True,
                env={**os.environ, "SOAK_MARK": f"<{self.mark}>", "TMPDIR": str(self.temporary)})
        return self

    def said_path(self, stream):
        return self.place / f"{self.name}.{self.starts}.{stream}"

    def said(self):
        return self.said_path("out").read_text(errors="replace") + self.said_path("err").read_text(errors="replace")

    def wait(self, timeout=DEADLINE):
        """Returns the exit code. A run that hangs is killed, and that is a failure."""
        try:
            return self.process.wait(timeout)
        except subprocess.TimeoutExpired:
            self.end()
            raise AssertionError(f"the run did not end within {timeout} s: {self.said()[-800:]}") from None

    def finish(self, *words):
        """Trains to the end, and raises if the run fails."""
        code = self.start(*words).wait()
        if code != 0:
            raise AssertionError(f"run {' '.join(map(str, words))}: exit code {code}: {self.said()[-800:]}")
        return self

    def result(self):
        return json.loads((self.folder / "result.json").read_text())

    def logged_step(self):
        """Returns the highest step in metrics.jsonl."""
        try:
            lines = (self.folder / "metrics.jsonl").read_bytes().split(b"\n")
            return max((json.loads(line).get("step", 0) for line in lines[:-1] if line.startswith(b"{")), default=0)
        except (OSError, ValueError):
            return 0

    def rows(self):
        """Returns the number of epochs in epochs.csv."""
        try:
            return max(0, (self.folder / "epochs.csv").read_bytes().count(b"\n") - 1)
        except OSError:
            return 0

    def members(self):
        return processes(f"SOAK_MARK=<{self.mark}>", str(self.folder))

    def worker(self, rank=0):
        """Returns the pid of a rank's worker, or None before it starts."""
        for pid in self.members():
            if pid != self.process.pid and f"RANK={rank}".encode() in environment_of(pid):
                return pid
        return None

    def beats(self):
        """Returns the last heartbeat of each rank; empty before the first one."""
        if self.pages is None or not self.pages.maps or time.monotonic() > self.pages.read_at + 0.2:
            try:
                self.pages = Pages(self.process.pid)
            except (OSError, ValueError):  # the supervisor is still creating the pages
                return []
        return self.pages.beats()

    def until(self, what, condition, timeout=DEADLINE, pause=0.0005):
        """Waits while the run lives. Raises Unmet if the run finishes first, and AssertionError if it fails."""
        def met():
            found = condition()
            if not found and self.process.poll() == 0:
                raise Unmet(what)
            if not found and self.process.poll() is not None:
                raise AssertionError(f"while {what} was waited for, the run ended with {self.process.poll()}: {self.said()[-800:]}")
            return found
        return wait_for(what, met, timeout, pause)

    def until_step(self, step):
        """Waits until rank 0 has reached that step or a later one."""
        def there():
            beats = self.beats()
            return beats[0].step >= step if beats else self.logged_step() >= step
        self.until(f"step {step}", there)

    def let_pass(self, seconds):
        """Waits so many seconds. Raises Unmet if the run ends before."""
        end = time.monotonic() + seconds
        self.until("a random moment", lambda: time.monotonic() >= end)

    def until_phase(self, phase, step=0):
        self.until(f"phase {phase}", lambda: any(beat.phase == phase and beat.step >= step for beat in self.beats()))

    def kill(self, victim="group", number=signal.SIGKILL, rank=0):
        """Sends the signal to a victim: supervisor, worker (of that rank) or group. Raises Unmet if the victim does not exist."""
        victims = {"supervisor": lambda: [self.process.pid], "worker": lambda: [self.worker(rank)], "group": self.members}[victim]()
        if self.process.poll() is not None or not victims or None in victims:
            raise Unmet(f"there is no {victim}")
        for pid in victims:
            send(pid, number)

    def gone(self):
        """Waits until no process of the run is left, and returns the seconds that this took."""
        began = time.monotonic()
        self.process.wait(DEADLINE)
        wait_for(f"the end of the processes {self.members()}", lambda: not self.members(), GONE_S, 0.01)
        return time.monotonic() - began

    def end(self):
        """Kills every process that is left, so that the next try starts alone."""
        for pid in self.members():
            send(pid, signal.SIGKILL)
        if self.process:
            self.process.wait(DEADLINE)

    def sockets(self):
        return [str(path) for root in (self.folder, self.temporary) for path in root.rglob("*")
                if stat.S_ISSOCK(path.lstat().st_mode)]

    def stray_files(self, before=None):
        """Returns the temporary files: all of them, or those that are older than a time."""
        found = []
        for path in [*self.folder.rglob(".*"), *self.temporary.rglob("*")]:
            try:
                if path.name != ".lock" and (before is None or path.lstat().st_mtime < before):
                    found.append(str(path.relative_to(self.place)))
            except OSError:
                continue
        return found

    def check_same(self, reference):
        found = compare.differences(self.folder, reference.folder)
        if found:
            raise AssertionError(f"{len(found)} differences: {'; '.join(found[:4])}")
        self.check_clean()

    def check_clean(self):
        """Checks that a finished run has removed its temporary files, and those of killed runs before it."""
        found = self.stray_files() + self.sockets() + [str(path) for path in self.folder.glob(".lock")]
        found += [str(path) for path in (self.folder / "checkpoints").glob("epoch=*") if not (path / "manifest").exists()]
        if found:
            raise AssertionError(f"left over: {', '.join(found[:6])}")

    def check_checkpoints(self):
        """Checks that `checkpoint verify` accepts each committed checkpoint, and returns their number."""
        found = compare.committed(self.folder)
        for path in found:
            ended = subprocess.run([BINARY, "checkpoint", "verify", str(path)], capture_output=True, text=True, timeout=DEADLINE)
            if ended.returncode != 0:
                raise AssertionError(f"checkpoint verify {path.name}: {ended.returncode}: {ended.stdout}{ended.stderr}")
        return len(found)


class RunProof(Proof):
    """A proof that runs the program. It kills the processes that a failed try leaves."""

    def setUp(self):
        super().setUp()
        if not BINARY:
            self.skip("TRAINCTL_BINARY is not set")
        self.runs, self.references = [], {}
        self.addCleanup(self.end_runs)

    def run_in(self, place, *overrides, **options):
        self.runs.append(Run(place, *overrides, **options))
        return self.runs[-1]

    def whole(self, *overrides, name="reference"):
        """Returns an uninterrupted run, with its duration in `seconds`."""
        run = self.run_in(self.folder, *overrides, name=name)
        began = time.monotonic()
        run.finish()
        run.seconds = time.monotonic() - began
        return run

    def whole_of(self, world):
        """Returns an uninterrupted run with so many ranks; each number of ranks runs only once."""
        if world not in self.references:
            self.references[world] = self.whole(*ranks(world), name=f"reference-{world}")
        return self.references[world]

    def until_in(self, phase, run, draw):
        """Waits until the run is in a phase, at a random point of it."""
        if phase == "startup":
            run.until("a worker", run.worker, pause=0.01)
            run.let_pass(draw.uniform(0, 0.5))
        elif phase == "first batch":
            run.until(phase, lambda: any(beat.phase in ("load", "train") for beat in run.beats()))
        elif phase == "step":
            run.until_step(draw.randrange(2, EPOCHS * STEPS - 2))
        elif phase == "validation":
            run.until_phase("validate")
        elif phase == "save":
            self.wait_for_save(run, draw.randrange(1, 2 * STEPS))
        else:
            run.until("shutdown", lambda: run.rows() == EPOCHS or any(b.phase == "shutdown" for b in run.beats()))

    def wait_for_save(self, run, step):
        """Waits for a save, which shows as a folder without a manifest."""
        run.until_step(step)
        place = run.folder / "checkpoints"
        run.until("a save", lambda: any(beat.phase == "checkpoint" for beat in run.beats()) or
                  any(not (path / "manifest").exists() for path in place.glob("epoch=*-step=*")))

    def after_try(self):
        self.end_runs()

    def end_runs(self):
        for run in self.runs:
            run.end()
        self.runs = []
