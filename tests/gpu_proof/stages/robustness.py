"""Runs that fail on purpose: each must end in time with the right exit code and a report, and leave the GPU usable."""

import json
import os
import resource
import signal
import time

from data_sets import sha256
from machine import kill_group, worker_of
from outcomes import check, failed, skipped
from runner import Check

OUT_OF_MEMORY, LOST, HUNG = 11, 7, 8
# On a CPU, one activation of 93 GiB exceeds the address space that the rehearsal allows.
POOLED = "{type: sequential, layers: [{type: adaptive_avg_pool2d, output_size: 5000}, {type: adaptive_avg_pool2d, output_size: 1}, flatten, linear]}"
FAULTY = """
import sys
import torch


class Faulty(torch.nn.Module):
    # Reads a row outside of a table: on a GPU, the assertion in the kernel makes every later call of CUDA fail.
    def __init__(self):
        super().__init__()
        self.table = torch.nn.Embedding(10, 10)

    def forward(self, x):
        return self.table((x.flatten(1).sum(1) * 0).long() + 100000)


torch.jit.script(Faulty()).save(sys.argv[1])
"""


def usable(context):
    """Trains a few steps, which fails if an earlier run has left the GPU unusable."""
    run = context.train(context.config("quickstart.yaml"), "trainer.max_epochs=1", "+trainer.limit_train_batches=20", "+trainer.limit_val_batches=1")
    return run.done.code == 0


def out_of_memory(context):
    words = ["loader.batch_size=20000", "dataset.train.samples=40000", "++loader.num_workers=1", "++loader.prefetch_factor=1",
             "++dataset.cache.mode=none"]
    config, options = context.config("imagenet-sample/synthetic.yaml"), {}
    if context.device == "cpu":
        config = context.config("quickstart.yaml")
        words = [f"model={POOLED}", "loader.batch_size=1000", "+loader.num_workers=0"]
        options["preexec_fn"] = lambda: resource.setrlimit(resource.RLIMIT_AS, (64 << 30, 64 << 30))
    folder = context.scratch("memory")
    process = context.start([context.program, "run", *context.training_words(config, *words), "--run-dir", folder / "run"], cwd=folder, **options)
    done = context.finish(process, 180)
    message = json.loads((folder / "run/result.json").read_text())["message"] if (folder / "run/result.json").exists() else done.end
    reported = done.code == OUT_OF_MEMORY and "out of memory" in message
    return check(reported and usable(context), f"exit code {done.code}, expected {OUT_OF_MEMORY}: {message}", message=message)


def ended_by(context, number, code, verdict, *words):
    """Sends a signal to the worker of a run that trains, and checks how the run ends."""
    folder = context.scratch("signal")
    process = context.start([context.program, "run", *context.training_words(context.config("quickstart.yaml"), "trainer.max_epochs=100000",
                                                                           "+trainer.limit_train_batches=20", "+trainer.limit_val_batches=1", *words),
                             "--run-dir", folder / "run"], cwd=folder)
    try:
        table, limit = folder / "run/epochs.csv", time.monotonic() + min(90, context.left())
        while process.poll() is None and time.monotonic() < limit and not (table.exists() and table.read_text().count("\n") >= 2):
            time.sleep(0.05)
        worker = worker_of(process)
        if worker is None:
            kill_group(process)
            return failed(f"the run did not start to train: {context.finish(process, 10).end}")
        os.kill(worker, number)
        sent = time.monotonic()
        done = context.finish(process, 120)
        seconds = time.monotonic() - sent
    finally:
        kill_group(process)
    result = json.loads((folder / "run/result.json").read_text())
    failure = result.get("first_failure") or {}
    good = done.code == code and result["verdict"] == verdict and failure.get("pid") == worker and usable(context)
    return check(good, f"exit code {done.code}, expected {code}; verdict {result['verdict']}; {done.end}", seconds=seconds, first_failure=failure)


def killed(context):
    return ended_by(context, signal.SIGKILL, LOST, "failed")


def hung(context):
    return ended_by(context, signal.SIGSTOP, HUNG, "hang", "++trainer.hang_timeout=3s")


def sticky_error(context):
    """An invalid access within a kernel ends the run with the text of CUDA's error, and does not affect the next process."""
    if context.python is None:
        return skipped("no Python here has torch, which makes the faulty module")
    folder = context.scratch("sticky")
    (folder / "faulty.py").write_text(FAULTY)
    made = context.run([context.python, folder / "faulty.py", folder / "faulty.pt"], 120)
    if made.code != 0:
        return skipped(f"torch cannot script the module: {made.end}")
    run = context.train(context.config("quickstart.yaml"), f"model={{type: torchscript, path: {folder / 'faulty.pt'}, sha256: {sha256(folder / 'faulty.pt')}}}",
                        "trainer.max_epochs=1", "+trainer.limit_train_batches=20", timeout=120)
    expected = ("CUDA error", "device-side assert", "illegal memory access") if context.device == "cuda" else ("out of range",)
    ended = run.done.code not in (None, 0) and any(text in run.messages() for text in expected)
    return check(ended and usable(context), f"exit code {run.done.code}; one of {expected} is expected in: {run.done.end}", message=run.done.end)


def checks(_context):
    return [Check("out of memory", out_of_memory, 150), Check("killed worker", killed, 120), Check("stopped worker", hung, 150),
            Check("sticky CUDA error", sticky_error, 150)]
