"""`plan` with activation checkpointing, and `bench` over CUDA graphs, memory format and precision."""

import json

from machine import SMALL
from outcomes import check, skipped
from runner import Check

PRECISIONS = ("32-true", "bf16-mixed", "16-mixed")


def plan(context):
    size = SMALL if context.quick else ["loader.batch_size=256"]
    done = context.trainctl("plan", context.config("imagenet-sample/synthetic.yaml"), f"++trainer.accelerator={context.accelerator}", *size,
                            "++trainer.activation_checkpointing=auto", "++trainer.devices=1", "--json", timeout=150)
    if done.code != 0:
        return check(False, f"exit code {done.code}: {done.end}")
    model = done.json["model"] or {}
    return check(model, f"no model: {done.json.get('no_model')}", verdict=done.json["verdict"], memory=model.get("memory"),
                 step_bytes=model.get("step_bytes"), device=model.get("device_name"))


def bench(precision):
    def run(context):
        if context.quick and precision != "32-true":
            return skipped("not part of a rehearsal")
        size = [*SMALL, "++trainer.num_threads=1"] if context.quick else ["loader.batch_size=128"]
        steps = 4 if context.quick else 40
        grids = ["--grid", "trainer.channels_last=false,true"]
        if context.device == "cuda":
            grids += ["--grid", "trainer.cuda_graphs=false,true"]
        saved = context.scratch("bench") / "bench.json"
        words = ["bench", context.config("imagenet-sample/synthetic.yaml"), *size, f"++trainer.accelerator={context.accelerator}",
                 "++trainer.devices=1", "~trainer.max_steps", "++trainer.max_epochs=2", f"++trainer.limit_train_batches={steps}",
                 f"++trainer.precision={precision}", *grids, "--repeats", 1 if context.quick else 3, "--save", saved, "--out", saved.parent / "runs"]
        done = context.trainctl(*words, timeout=300, cwd=saved.parent)
        if not saved.exists():
            return check(False, f"exit code {done.code}: {done.end}")
        rows = json.loads(saved.read_text())["rows"]
        failures = {row["technique"]: row["failure"] for row in rows if row["failure"]}
        speeds = {row["technique"]: row["samples_per_s"] for row in rows}
        return check(done.code == 0 and not failures, f"exit code {done.code}: {failures or done.end}", samples_per_s=speeds)

    return Check(f"bench: {precision}", run, 200)


def checks(_context):
    return [Check("plan: activation_checkpointing auto", plan, 90), *map(bench, PRECISIONS)]
