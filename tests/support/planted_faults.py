"""Experiments with one fault that shows on a machine of two cores, for `trainctl tune` to find. They need neither a GPU nor a
download."""

import dataclasses
import os
import pathlib
import random
import struct
import zlib

INPUT = {"input_bound"}
WAITS = INPUT | {"transfer_bound", "communication_bound", "checkpoint_bound"}
TAIL = "optimizer: {type: sgd, lr: 0.001}\n"
NORMALIZE = "{type: normalize, mean: [0.5, 0.5, 0.5], std: [0.25, 0.25, 0.25]}"


@dataclasses.dataclass
class Fault:
    name: str
    config: str
    keys: set  # the patch must have one of them; an empty set requires an empty patch
    verdicts: set = None  # None accepts any verdict that is not a wait
    environment: dict = dataclasses.field(default_factory=dict)
    needs_cores: int = 1
    causes: set = None  # None accepts any cause

    def verdict_fits(self, found):
        """Returns whether `verdict` of tune.json has an expected name and cause."""
        name = found["verdict"]
        fits = name in self.verdicts if self.verdicts is not None else name not in WAITS
        return fits and (self.causes is None or found["cause"] in self.causes)


def png(path, side, seed):
    """Writes noise, which takes long to inflate."""
    draw = random.Random(seed)
    rows = b"".join(b"\0" + draw.randbytes(3 * side) for _ in range(side))

    def chunk(kind, body):
        return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))

    path.write_bytes(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">2I5B", side, side, 8, 2, 0, 0, 0)) +
                     chunk(b"IDAT", zlib.compress(rows, 6)) + chunk(b"IEND", b""))


def pictures(folder):
    """Returns the folder of real photographs if there is one, and otherwise writes pictures of noise."""
    real = pathlib.Path(os.environ.get("TRAINCTL_DATA", "")) / "imagenet-sample"
    if os.environ.get("TRAINCTL_DATA") and real.is_dir():
        return real
    made = folder / "pictures"
    for number in range(120):
        path = made / "ab"[number % 2] / f"{number}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        png(path, 400, number)
    return made


def heavy(size):
    """Returns transforms that take far longer than a step of a small network."""
    return (f"[{{type: random_resized_crop, size: {size}}}, "
            f"{{type: color_jitter, brightness: 0.4, contrast: 0.4, saturation: 0.4}}, {NORMALIZE}]")


def no_workers(folder, plugin):
    """Heavy augmentation runs in the training thread."""
    return Fault("0 workers, heavy augmentation", f"""\
name: no-workers
seed: 1
dataset:
  train: {{type: synthetic_images, height: 256, width: 256, classes: 10, samples: 2000, transforms: {heavy(64)}}}
  cache: {{mode: none}}
loader: {{batch_size: 16, num_workers: 0}}
model: {{type: mlp, hidden: [512]}}
trainer: {{accelerator: cpu, devices: 1, num_threads: 1}}
""" + TAIL, {"loader.num_workers"}, INPUT, needs_cores=2, causes={"no_workers"})


def slow_decode(folder, plugin):
    """Every epoch decodes the pictures again, on all cores."""
    cores = len(os.sched_getaffinity(0))
    return Fault("slow decode", f"""\
name: slow-decode
seed: 1
dataset:
  train: {{type: image_folder, root: "{pictures(folder)}", transforms: [{{type: resize, size: [32, 32]}}, {NORMALIZE}]}}
  cache: {{mode: none}}
loader: {{batch_size: 20, num_workers: {cores}}}
model: linear
trainer: {{accelerator: cpu, devices: 1, num_threads: 1}}
""" + TAIL, {"dataset.cache.mode"}, INPUT, causes={"slow_decode"})


def throttled_disk(folder, plugin):
    """Every sample waits for the disk, and no core is busy meanwhile."""
    return Fault("throttled disk", f"""\
name: throttled-disk
seed: 1
plugins: ["{plugin}"]
dataset: {{train: {{type: slow_rows, samples: 4000, microseconds: 2000}}}}
loader: {{batch_size: 16, num_workers: 1}}
model: linear
trainer: {{accelerator: cpu, devices: 1, num_threads: 1}}
""" + TAIL, {"loader.num_workers"}, INPUT, causes={"slow_source"})


def threads(folder, plugin):
    """The run has far more threads than cores."""
    many = 8 * len(os.sched_getaffinity(0))
    return Fault("oversubscribed threads", f"""\
name: many-threads
seed: 1
dataset: {{train: {{type: synthetic_digits, samples: 12800}}}}
loader: {{batch_size: 64, num_workers: 0}}
model: {{type: mlp, hidden: [512, 512]}}
trainer: {{accelerator: cpu, devices: 1, num_threads: {many}}}
""" + TAIL, {"trainer.num_threads"}, {"host_bound"}, causes={"threads_oversubscribed"})


def forced_sync(folder, plugin):
    """Anomaly detection synchronizes and checks every operation."""
    return Fault("forced sync", """\
name: forced-sync
seed: 1
dataset: {train: {type: synthetic_digits, samples: 12800}}
loader: {batch_size: 16, num_workers: 0}
model: {type: mlp, hidden: [64, 64, 64, 64]}
trainer: {accelerator: cpu, devices: 1, num_threads: 1, detect_anomaly: true}
""" + TAIL, {"trainer.detect_anomaly"}, causes={"anomaly_checks", "small_steps"})


def spinning_threads(folder, plugin):
    """OMP_WAIT_POLICY lets idle OpenMP threads of the step spin on the cores that the loader needs; with one thread, no thread
    spins."""
    cores = len(os.sched_getaffinity(0))
    return Fault("spinning threads", f"""\
name: spinning-threads
seed: 1
dataset:
  train: {{type: synthetic_images, height: 256, width: 256, classes: 10, samples: 4000, transforms: {heavy(32)}}}
  cache: {{mode: none}}
loader: {{batch_size: 16, num_workers: {cores}}}
model: {{type: mlp, hidden: [64]}}
trainer: {{accelerator: cpu, devices: 1, num_threads: {cores}}}
""" + TAIL, {"trainer.num_threads"}, INPUT, {"OMP_WAIT_POLICY": "active"}, needs_cores=2, causes={"spinning_threads"})


def slow_rank(folder, plugin):
    """Rank 1 has a slow disk, and rank 0 waits for rank 1."""
    return Fault("slow rank", f"""\
name: slow-rank
seed: 1
plugins: ["{plugin}"]
dataset: {{train: {{type: slow_rows, samples: 4000, microseconds: 2000, rank: 1}}}}
loader: {{batch_size: 16, num_workers: 0}}
model: linear
trainer: {{accelerator: cpu, devices: 2, num_threads: 1}}
""" + TAIL, {"loader.num_workers"}, {"communication_bound"}, needs_cores=2, causes={"slow_loading_rank"})


def control(folder, plugin):
    """The experiment has no fault."""
    return Fault("healthy control", """\
name: control
seed: 1
dataset: {train: {type: synthetic_digits, samples: 12800}}
loader: {batch_size: 64}
model: {type: mlp, hidden: [128, 64]}
trainer: {accelerator: cpu, devices: 1}
""" + TAIL, set())


ALL = [no_workers, slow_decode, throttled_disk, threads, forced_sync, spinning_threads, slow_rank, control]
