"""What the stages need of the machine: the program, processes with time limits, run folders, the GPU's energy counter."""

import csv
import ctypes
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import typing

from runner import OutOfTime

ROOT = pathlib.Path(__file__).resolve().parents[2]
KEPT_OUTPUT = 4000    # characters of a command's output in the reason of a failure
REHEARSAL_FACTOR = 5  # on the limits of commands: a rehearsal runs on machines that others use, too
# A small network and small pictures, with which a rehearsal takes steps of configs/imagenet-sample/synthetic.yaml.
SMALL = ["dataset.train.height=32", "dataset.train.width=32", "loader.batch_size=4", "model={type: resnet_cifar, depth: 8}"]
RESERVE_S = 5         # the time that a call needs to store what it has found


class Done(typing.NamedTuple):
    """A command that has ended, or was killed at its limit: code is then None."""

    code: typing.Optional[int]
    out: str
    err: str
    seconds: float

    @property
    def text(self):
        return (self.out + self.err).strip()

    @property
    def end(self):
        return self.text[-KEPT_OUTPUT:]

    @property
    def json(self):
        return json.loads(self.out)


class Training(typing.NamedTuple):
    """A run of the program, with the documents of its run folder."""

    done: Done
    folder: pathlib.Path

    @property
    def result(self):
        path = self.folder / "result.json"
        return json.loads(path.read_text()) if path.exists() else {}

    def rows(self, name):
        """Returns the rows of epochs.csv or timing.csv, with numbers as floats."""
        with open(self.folder / name, newline="") as file:
            return [{key: float(value) for key, value in row.items() if value} for row in csv.DictReader(file)]

    def steps(self):
        lines = (self.folder / "metrics.jsonl").read_text().splitlines()
        return [line for line in map(json.loads, lines) if line["type"] == "step"]

    def messages(self):
        """Returns what the run printed, and what its ranks wrote to their logs."""
        logs = sorted((self.folder / "logs").glob("rank_*.log"))
        return "\n".join([self.done.text, *(path.read_text(errors="replace") for path in logs)])

    def fallbacks(self):
        """Returns the lines that say why steps were not recorded as CUDA graphs."""
        return [line for line in self.messages().splitlines() if "CUDA graphs are not used" in line or "could not be captured" in line]


class EnergyMeter:
    """Samples the total energy of the GPU in a thread, together with a marker: a number that a caller computes, such as the epochs
    that a run has ended. `joules(first, last)` is the energy between the first samples with these markers."""

    PERIOD_S = 0.05

    def __init__(self, nvml, marker):
        self.nvml, self.marker, self.samples = nvml, marker, []
        self.ended = threading.Event()
        self.thread = threading.Thread(target=self._sample, daemon=True)

    def __enter__(self):
        if self.nvml:
            self.thread.start()
        return self

    def __exit__(self, *_):
        self.ended.set()
        if self.nvml:
            self.thread.join()

    def _sample(self):
        while not self.ended.wait(self.PERIOD_S):
            self.samples.append((self.marker(), self.nvml.joules()))

    def joules(self, first, last):
        """Returns None if there is no energy counter, or a marker was never seen."""
        at_first = next((energy for mark, energy in self.samples if mark >= first), None)
        at_last = next((energy for mark, energy in self.samples if mark >= last), None)
        if at_first is None or at_last is None or at_last <= at_first:
            return None
        return at_last - at_first


class Nvml:
    """The energy counter of a GPU, from the driver's libnvidia-ml."""

    def __init__(self, index=0):
        self.library = ctypes.CDLL("libnvidia-ml.so.1")
        self.device = ctypes.c_void_p()
        self._call("nvmlInit_v2")
        self._call("nvmlDeviceGetHandleByIndex_v2", ctypes.c_uint(index), ctypes.byref(self.device))
        self.joules()

    def _call(self, name, *arguments):
        code = getattr(self.library, name)(*arguments)
        if code != 0:
            raise OSError(f"{name} returned {code}")

    def joules(self):
        millijoules = ctypes.c_ulonglong()
        self._call("nvmlDeviceGetTotalEnergyConsumption", self.device, ctypes.byref(millijoules))
        return millijoules.value / 1000


def energy_counter(device):
    """Returns the energy counter of the first visible GPU, or None."""
    first = os.environ.get("CUDA_VISIBLE_DEVICES", "0").split(",")[0]
    try:
        return Nvml(int(first) if first.isdigit() else 0) if device == "cuda" else None
    except (OSError, AttributeError):
        return None


def python_with_torch():
    """Returns a Python that has torch, or None."""
    places = [os.environ.get("TRAINCTL_PYTHON_TORCH"), sys.executable, shutil.which("python3"), ROOT / ".torchrun/bin/python",
              ROOT / "build/peers-venv/bin/python"]
    for place in filter(None, places):
        found = subprocess.run([str(place), "-c", "import importlib.util, sys; sys.exit(importlib.util.find_spec('torch') is None)"],
                               capture_output=True) if pathlib.Path(place).exists() else None
        if found and found.returncode == 0:
            return str(place)
    return None


def torch_folder(python):
    """Returns the folder of the torch package of that Python, without importing it."""
    code = "import importlib.util as u; print(list(u.find_spec('torch').submodule_search_locations)[0])"
    done = subprocess.run([python, "-c", code], capture_output=True, text=True)
    return done.stdout.strip() if done.returncode == 0 else None


class Context:
    """The options of a call, and helpers that keep its deadline. The runner sets `deadline`, `stage`, `check` and
    `has_run`: whether the call has started a check."""

    def __init__(self, options):
        self.device, self.quick = options.device, options.quick
        self.out = pathlib.Path(options.out).resolve()
        self.work = pathlib.Path(options.work).resolve() if options.work else self.out / "work"
        self.build = pathlib.Path(options.build).resolve() if options.build else self._default_build()
        self.program = self.build / "bin/trainctl"
        self.airbench, self.rounds = options.airbench, options.rounds
        self.deadline, self.stage, self.check, self.has_run = time.monotonic() + 60, "", "", False
        self.python = python_with_torch()
        self.torch = os.environ.get("TRAINCTL_TORCH_ROOT") or (torch_folder(self.python) if self.python else None)
        self.nvml = energy_counter(self.device)
        self.logs = self.work / "logs"
        self.logs.mkdir(parents=True, exist_ok=True)

    @staticmethod
    def _default_build():
        """Returns build/ of an archive, or build/ci of a source tree."""
        return ROOT / "build" if (ROOT / "build/bin/trainctl").exists() else ROOT / "build/ci"

    @property
    def accelerator(self):
        return "gpu" if self.device == "cuda" else "cpu"

    def left(self):
        return self.deadline - time.monotonic() - RESERVE_S

    def log(self, text):
        name = re.sub(r"[^\w.-]+", "_", f"{self.stage}-{self.check}")[:120]
        with open(self.logs / f"{name}.log", "a") as file:
            file.write(text.rstrip() + "\n")

    def environment(self, **added):
        variables = {name: value for name, value in os.environ.items() if name not in ("NO_COLOR", "COLUMNS")}
        if self.torch:
            variables["TRAINCTL_TORCH_ROOT"] = self.torch
        if self.quick and self.device == "cpu":
            variables["OMP_NUM_THREADS"] = "1"  # more threads only wait for each other in small steps
        variables.update(TRAINCTL_GOLDEN=str(ROOT / "tests/golden"), TORCHINDUCTOR_CACHE_DIR=str(self.work / "inductor"),
                         TRITON_CACHE_DIR=str(self.work / "triton"), XDG_CACHE_HOME=str(self.work / "cache"), PYTHONDONTWRITEBYTECODE="1")
        variables.update({name: str(value) for name, value in added.items()})
        return variables

    def library_path(self):
        """Returns the folders of the libraries of the test program: in an archive, its run path does not lead to them."""
        folders = [str(self.build / "lib")]
        if self.torch:
            folders += [f"{self.torch}/lib", *map(str, sorted(pathlib.Path(self.torch).parent.glob("nvidia/*/lib")))]
        return ":".join([*folders, *filter(None, [os.environ.get("LD_LIBRARY_PATH")])])

    def start(self, words, cwd=None, environment=None, **options):
        """Starts a command in a separate process group."""
        added = dict(environment or {})
        if self.build / "bin/unit_torch" in words and (ROOT / "proof.json").exists():
            added["LD_LIBRARY_PATH"] = self.library_path()
        return subprocess.Popen([str(word) for word in words], cwd=cwd or self.work, env=self.environment(**added),
                                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, errors="replace",
                                start_new_session=True, **options)

    def finish(self, process, timeout):
        """Waits for a process and returns its output. At the limit its process group is killed: OutOfTime is raised if the call's own
        time is used up, else code is None."""
        begun, left = time.monotonic(), self.left()
        if self.device == "cpu":
            timeout *= REHEARSAL_FACTOR
        try:
            out, err = process.communicate(timeout=max(1, min(timeout, left)))
            code = process.returncode
        except subprocess.TimeoutExpired:
            kill_group(process)
            out, err = process.communicate()
            code = None
        done = Done(code, out, err, time.monotonic() - begun)
        self.log(f"$ {' '.join(map(str, process.args))}\n{done.text}\n(exit code {code}, {done.seconds:.1f} s)\n")
        if code is None and timeout >= left:
            raise OutOfTime()
        return done

    def run(self, words, timeout=240, **options):
        return self.finish(self.start(words, **options), timeout)

    def trainctl(self, *words, timeout=240, **options):
        return self.run([self.program, *words], timeout, **options)

    def scratch(self, prefix):
        return pathlib.Path(tempfile.mkdtemp(dir=self.work, prefix=f"{prefix}-"))

    def training_words(self, config, *overrides, accelerator=None):
        """Returns the arguments of `run` for one device, without checkpoints."""
        device = accelerator or self.accelerator
        words = [config, f"++trainer.accelerator={device}", "++trainer.devices=1", "++checkpoint.save_top_k=0", "++checkpoint.save_last=false"]
        if self.quick and device == "cpu":
            words.append("++trainer.num_threads=1")
            if config == self.config("quickstart.yaml"):
                words.append("++dataset.train.samples=6400")  # drawing all digits takes longer than the few steps
        return [*words, *overrides]

    def train(self, config, *overrides, flags=(), accelerator=None, timeout=240, environment=None, folder=None):
        """Runs an experiment to its end, in FOLDER/run; the default is a new folder."""
        folder = folder or self.scratch("run")
        words = [self.program, "run", *self.training_words(config, *overrides, accelerator=accelerator), *flags, "--run-dir", folder / "run"]
        return Training(self.run(words, timeout, cwd=folder, environment=environment), folder / "run")

    def config(self, name):
        return ROOT / "configs" / name


def kill_group(process):
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass


def worker_of(process):
    """Returns the pid of the worker of rank 0 that a started run has, or None."""
    for entry in pathlib.Path("/proc").iterdir():
        try:
            parent = int((entry / "stat").read_text().rsplit(")", 1)[1].split()[1]) if entry.name.isdigit() else 0
            if parent == process.pid and b"RANK=0" in (entry / "environ").read_bytes().split(b"\0"):
                return int(entry.name)
        except OSError:
            pass
    return None


def describe(context):
    """Returns the description of the machine that pages and the verdict show."""
    def printed(*words):
        try:
            return subprocess.run(words, capture_output=True, text=True, timeout=60).stdout.strip()
        except OSError:
            return ""

    cpu = re.search(r"model name\s*:\s*(.+)", pathlib.Path("/proc/cpuinfo").read_text())
    machine = {"host_cpu": cpu[1] if cpu else "unknown", "cores": len(os.sched_getaffinity(0)), "gpu": "none", "driver": "",
               "gpu_memory_mib": None, "torch": "", "python": sys.version.split()[0]}
    if context.device == "cuda":
        line = printed("nvidia-smi", "--query-gpu=name,driver_version,memory.total", "--format=csv,noheader,nounits").splitlines()[:1]
        if line:
            name, driver, memory = (part.strip() for part in line[0].split(","))
            machine.update(gpu=name, driver=driver, gpu_memory_mib=int(memory) if memory.isdigit() else None)
    if context.torch:
        found = re.search(r"__version__ = '([^']+)'", (pathlib.Path(context.torch) / "version.py").read_text())
        machine["torch"] = found[1] if found else ""
    version = context.trainctl("version", "--json", timeout=60)
    machine["trainctl"] = version.json if version.code == 0 else {}
    return machine
