"""Speed, memory and energy of configs/speed next to loops of PyTorch on the same machine. In each round every program measures once;
the order is reversed from round to round. The first round is a separate stage: it needs minutes, the others half an hour. tests/gpu_proof/verdict.py computes medians and compares them with the bars."""

import re
import statistics

import data_sets
from machine import ROOT, EnergyMeter
from outcomes import check, failed, passed, skipped
from peers import PeerFailed
from runner import Check
from speed_rows import ROWS

SECONDS = {"compiled": 300, "airbench94_muon.py": 400}  # with the compilation, or all trainings of the script
OTHER_S = 60
TRAINCTL, ORIGINAL = "trainctl", "airbench94_muon.py"
TOKENS = 33 * 1024 * 48     # more than the batches of an epoch of GPT-2


def epochs_ended(folder):
    """Returns a function that counts the epochs in FOLDER/run/epochs.csv."""
    path = folder / "run/epochs.csv"
    return lambda: max(0, path.read_text().count("\n") - 1) if path.exists() else -1


def data_of(context, row):
    """Returns the folder that the peers of a row read, and the overrides with which trainctl reads the same data."""
    if row.data == "mnist":
        return data_sets.mnist(context)[0].parent, []
    if row.data == "photographs":
        folder = data_sets.folder(context) / "photographs"
        return folder, [f"dataset.train.folder={folder}"]
    if row.data == "tokens":
        data_sets.generated(context, "text")  # the file names them for validation, too
        path = data_sets.tokens(context, TOKENS // 64 if context.quick else TOKENS)
        return path.parent, [f"dataset.train.path={path}"]
    return context.work, []


def trainctl(context, row):
    """Returns the speed of the epochs after the first, from the program's own table."""
    _, words = data_of(context, row)
    small = context.device == "cpu"
    words += [f"loader.batch_size={row.small_batch if small else row.batch}", *(row.small if small else row.words),
              "++trainer.limit_val_batches=0", "++checkpoint.monitor=train/loss"]
    folder = context.scratch("speed")
    with EnergyMeter(context.nvml, epochs_ended(folder)) as meter:
        run = context.train(context.config(f"speed/{row.name}.yaml"), *words, folder=folder,
                            environment={"TRAINCTL_DATA": data_sets.folder(context)})
    if run.done.code != 0:
        return failed(f"exit code {run.done.code}: {run.done.end}")
    rows = run.rows("timing.csv")
    steady = rows[1:]
    samples, seconds = sum(one["samples"] for one in steady), sum(one["wall_s"] - one["checkpoint_s"] for one in steady)
    joules = meter.joules(1, len(rows))
    return passed(**figures(row, small, samples, seconds, joules, rows[-1].get("gpu_mem_mb")), loss=run.rows("epochs.csv")[-1]["train/loss"],
                  messages=run.fallbacks())


def figures(row, small, samples, seconds, joules, memory_mb):
    units = samples * (row.small_per_sample if small else row.per_sample)
    return {"rate": units / seconds, "seconds": seconds, "memory_mb": memory_mb, "joules_per_unit": joules / units if joules else None}


def peer_failed(error):
    """A peer that lacks a package is skipped; one that fails in a measurement is a failure."""
    return failed(f"the peer failed: {error}") if error.was_ready else skipped(f"the peer cannot run: {error}")


def peer(context, row, name):
    small = context.device == "cpu"
    folder, _ = data_of(context, row)
    words = ["gpu_loops.py", row.name, name, "--device", context.device, "--batch", str(row.small_batch if small else row.batch), "--data",
             str(folder), "--seconds", "0.1" if small else "3"]
    try:
        found = context.peers.measure(context, row.name, name, words)
    except PeerFailed as error:
        return peer_failed(error)
    return passed(**figures(row, small, found["samples"], found["seconds"], found["joules"], found["memory_mb"]), loss=found["loss"])


def measured(row, number, name):
    def run(context):
        if name == TRAINCTL:
            return trainctl(context, row)
        if context.python is None:
            return skipped("no Python here has torch")
        if context.device == "cpu" and name == "graph":
            return skipped("needs a GPU")
        return peer(context, row, name)

    return Check(f"{row.name} round {number}: {name}", run, seconds_of(name))


def cifar_trainctl(context):
    """Trains the recipe once. The first epoch, in which libraries are loaded and the step is recorded, counts as long as the others, because
    airbench does not count its warm-up either. `cold_s` is the time with the real first epoch."""
    folder, is_real = data_sets.cifar10(context)
    small = ["++trainer.precision=32-true", "loader.batch_size=16", "++trainer.max_epochs=2", "++trainer.limit_train_batches=2",
             "++trainer.limit_val_batches=1", "++trainer.check_val_every_n_epoch=2", "++dataset.cache.mode=none", "++trainer.channels_last=false",
             "++loader.num_workers=0"] if context.device == "cpu" else []
    scratch = context.scratch("cifar")
    words = [*small, *first_weights(context, folder, scratch)]
    run = context.train(context.config("speed/cifar10_airbench.yaml"), *words, folder=scratch, environment={"TRAINCTL_DATA": folder.parent})
    if run.done.code != 0:
        return failed(f"exit code {run.done.code}: {run.done.end}")
    rows = run.rows("timing.csv")
    train_s = [one["wall_s"] - one["eval_s"] - one["checkpoint_s"] for one in rows]
    seconds = statistics.mean(train_s[1:]) * len(rows) + rows[-1]["eval_s"]
    return passed(seconds=seconds, cold_s=sum(one["wall_s"] for one in rows), accuracy=run.result["val"]["accuracy"], real_data=is_real,
                  memory_mb=rows[-1].get("gpu_mem_mb"), messages=run.fallbacks())


def first_weights(context, data, scratch):
    """Returns the overrides with which a run starts from whitening filters, which PyTorch computes. Without PyTorch, there are none."""
    if context.python is None:
        return []
    made = context.run([context.python, ROOT / "tests/bench/peers/cifar_speed.py", "weights", "--data", data], 120, cwd=scratch)
    assert made.code == 0, made.end
    return [f"++weights={{path: {scratch / 'weights.pth'}, strict: false}}"]


def cifar_peer(context, name):
    if context.python is None:
        return skipped("no Python here has torch")
    folder, is_real = data_sets.cifar10(context)
    words = ["cifar_speed.py", name, "--device", context.device, "--data", str(folder)]
    try:
        found = context.peers.measure(context, "cifar10", name, [*words, *(["--epochs", "1", "--samples", "8"] if context.quick else [])])
    except PeerFailed as error:
        return peer_failed(error)
    return passed(seconds=found["seconds"], accuracy=found["accuracy"], real_data=is_real, memory_mb=found["memory_mb"])


def cifar_original(context):
    """Runs the original script, which prints a table with the time and the accuracy of each training."""
    if context.airbench is None:
        return skipped("--airbench names no airbench94_muon.py")
    data, is_real = data_sets.cifar10(context)
    if not is_real:
        return skipped("data/cifar10 is not here")
    folder = context.scratch("airbench")
    cache = context.run([context.python, ROOT / "tests/bench/peers/cifar_speed.py", "cache", "--data", data], 120, cwd=folder)
    if cache.code != 0:
        return failed(f"cannot write the data of the original script: {cache.end}")
    done = context.run([context.python, context.airbench], 400, cwd=folder)
    rows = re.findall(r"^\|\s*\d+\s*\|\s*eval\s*\|.*?([\d.]+)\s*\|\s*([\d.]+)\s*\|\s*$", done.out, re.M)
    if not rows:
        return failed(f"exit code {done.code}, and no row 'eval' was printed: {done.end}")
    return passed(seconds=statistics.median(float(seconds) for _, seconds in rows), trainings=len(rows),
                  accuracy=statistics.mean(float(accuracy) for accuracy, _ in rows), real_data=True)


def cifar(number, name, seconds=None):
    seconds = seconds or seconds_of(name)

    def run(context):
        return cifar_trainctl(context) if name == TRAINCTL else cifar_original(context) if name == ORIGINAL else cifar_peer(context, name)

    return Check(f"cifar10 round {number}: {name}", run, seconds)


def environment(context):
    """Whether the GPU was free, so that the figures mean something."""
    if context.device != "cuda":
        return skipped("needs a GPU")
    done = context.run(["nvidia-smi", "--query-compute-apps=pid,used_memory", "--format=csv,noheader"], 60)
    return check(not done.out.strip(), f"other processes use the GPU: {done.out.strip()}")


def seconds_of(name):
    return SECONDS.get(name, OTHER_S)


def rounds_of(names, rounds):
    """Returns [(round, programs)]. The first round has no compiled peer, which takes minutes to start, and the last has only that one and
    trainctl, so that each program measures as often as trainctl next to it."""
    quick = [name for name in names if name != "compiled"]
    found = [(1, quick), *((number, names) for number in range(2, rounds + 1))]
    if len(quick) < len(names):
        found.append((rounds + 1, [TRAINCTL, "compiled"]))
    return [(number, programs if number % 2 else programs[::-1]) for number, programs in found]


def plans_of(context):
    """Returns [(how to make a check, rounds)] of all rows. CIFAR-10 comes first, because it is short, and the rows
    with files last, because making the files takes time."""
    rounds = 1 if context.quick else context.rounds
    rows = [(lambda number, name, row=row: measured(row, number, name), [TRAINCTL, *(row.rehearsed if context.quick else row.peers)])
            for row in sorted(ROWS, key=lambda row: row.data == "photographs")]
    rows.insert(0, (cifar, [TRAINCTL, "eager"] if context.quick else [TRAINCTL, "eager", "compiled"]))
    return [(make, rounds_of(names, rounds)) for make, names in rows]


def checks(context):
    """The first round of all rows: a whole table without the compiled peers."""
    first = [make(number, name) for make, plan in plans_of(context) for number, names in plan[:1] for name in names]
    return [Check("the GPU is free", environment, 30), *first, cifar(1, ORIGINAL, None if context.airbench else 1)]


def other_rounds(context):
    return ([make(number, name) for make, plan in plans_of(context) for number, names in plan[1:] for name in names]
            or [Check("other rounds", lambda _: skipped("this proof has one round"), 1)])
