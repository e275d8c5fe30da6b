"""Killed runs that resume. With deterministic kernels they must be bitwise equal; without, the result is recorded."""

from outcomes import check, skipped
from runner import Check


def verify(deterministic):
    def run(context):
        if context.quick and context.device == "cpu" and not deterministic:
            return skipped("not part of a rehearsal")  # kernels of a CPU are deterministic in both
        kills = 1 if context.quick else 3
        steps = 30 if context.quick else 120
        words = ["verify-resume", context.config("quickstart.yaml"), "model=lenet", f"++trainer.accelerator={context.accelerator}",
                 "++trainer.devices=1", f"++trainer.deterministic={str(deterministic).lower()}", "trainer.max_epochs=1",
                 f"++trainer.limit_train_batches={steps}", "++trainer.limit_val_batches=2", "--kills", kills, "--json"]
        done = context.trainctl(*words, *(["++trainer.num_threads=1", "++dataset.train.samples=1920"] if context.quick else []), timeout=300, cwd=context.scratch("resume"))
        rows = done.json.get("rows", []) if done.out.startswith("{") else []
        found = [{key: row[key] for key in ("step", "identical", "failure")} for row in rows]
        resumed = bool(rows) and not any(row["failure"] for row in rows)
        identical = done.code == 0
        return check(identical or (resumed and not deterministic), f"exit code {done.code}: {done.end}", identical=identical, rows=found)

    return run


def checks(_context):
    return [Check("deterministic", verify(True), 180), Check("not deterministic", verify(False), 180)]
