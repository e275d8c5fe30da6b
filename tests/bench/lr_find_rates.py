#!/usr/bin/env python3
"""Compares the suggestion of `trainctl lr-find` with a sweep of learning rates, on eight small experiments.

usage: tests/bench/lr_find_rates.py [--trainctl BIN] [--data DIR] [--only WORD] [--threads N] [--write]

Trains an MLP, a CNN and a transformer with SGD and AdamW: on MNIST of --data (default $TRAINCTL_DATA), on digits that trainctl
generates, and on a generated language. Each trains for a few epochs with the suggested rate and with every rate of a grid of half
decades. The score is the validation accuracy, or the mean probability of the right token (1 / perplexity). --write adds
docs/benchmarks/lr_find_<cores>core_<date>.md and its CSV. Exits with 1 if the suggestion is more than two points below the best
rate, or if no rate within the range is that good."""

import argparse
import array
import csv
import datetime
import json
import math
import os
import pathlib
import random
import subprocess
import sys
import tempfile

import page

SOURCE = pathlib.Path(__file__).resolve().parents[2]
TOLERANCE = 0.02
SGD_RATES = [3.16e-3, 1e-2, 3.16e-2, 0.1, 0.316]
PLAIN_SGD_RATES = [1e-2, 3.16e-2, 0.1, 0.316, 1.0]
ADAMW_RATES = [3.16e-4, 1e-3, 3.16e-3, 1e-2, 3.16e-2]
HEADER = ["experiment", "suggested", "range", "score", "best rate", "its score", "difference", "rank", "range holds"]
HOW = """For each row, `trainctl lr-find` ran once with its defaults. Then six runs trained for a few epochs: one with the suggested learning
rate, and five with fixed rates, each √10 times the one before. The score of a run is its validation accuracy, for language models
(`tokens-...`) the mean probability of the right token. The difference is the score of the suggested rate minus that of the best fixed
rate, and the rank is that of the suggested rate among all six. The range holds if the score of a rate within it is at most 0.02 (two
points) below the best score. `tests/bench/lr_find_rates.py` contains the experiments and repeats the measurement. Raw numbers:
[{stem}.csv]({stem}.csv)."""

MNIST = """dataset:
  train: { type: mnist, root: DATA/mnist, split: train, transforms: [{ type: normalize, mean: [0.1307], std: [0.3081] }] }
  val: { type: mnist, root: DATA/mnist, split: test, transforms: [{ type: normalize, mean: [0.1307], std: [0.3081] }] }
loader: { batch_size: 64 }
metrics: [accuracy]
trainer: { max_epochs: 3, limit_train_batches: 200, limit_val_batches: 80 }
"""
DIGITS = """dataset:
  train: { type: synthetic_digits, samples: 8000, seed: 1 }
  val: { type: synthetic_digits, split: test, samples: 3000 }
loader: { batch_size: 64 }
metrics: [accuracy]
trainer: { max_epochs: 6 }
"""
TOKENS = """dataset:
  train: { type: tokens, path: train.bin, sequence_length: 32, vocab_size: 64 }
  val: { type: tokens, path: val.bin, sequence_length: 32, vocab_size: 64 }
loader: { batch_size: 32 }
metrics: [perplexity]
trainer: { max_epochs: 3 }
"""
MLP = "model: { type: mlp, hidden: [128, 64] }\n"
CNN = "model: { type: lenet }\n"
GPT = "model: { type: gpt, layers: 2, heads: 4, width: 64, context: 32, dropout: 0 }\n"
SGD = "optimizer: { type: sgd, lr: 0.01, momentum: 0.9 }\n"
PLAIN_SGD = "optimizer: { type: sgd, lr: 0.01 }\n"
ADAMW = "optimizer: { type: adamw, lr: 0.001, weight_decay: 0.01 }\n"
EXPERIMENTS = {
    "mnist-mlp-sgd": (MNIST + MLP + SGD, SGD_RATES),
    "mnist-mlp-adamw": (MNIST + MLP + ADAMW, ADAMW_RATES),
    "mnist-lenet-sgd": (MNIST + CNN + SGD, SGD_RATES),
    "mnist-lenet-adamw": (MNIST + CNN + ADAMW, ADAMW_RATES),
    "digits-mlp-plain-sgd": (DIGITS + MLP + PLAIN_SGD, PLAIN_SGD_RATES),
    "digits-lenet-adamw": (DIGITS + CNN + ADAMW, ADAMW_RATES),
    "tokens-gpt-sgd": (TOKENS + GPT + SGD, PLAIN_SGD_RATES),
    "tokens-gpt-adamw": (TOKENS + GPT + ADAMW, ADAMW_RATES),
}


def write_tokens(path, count, seed):
    """Writes a stream in which 8 tokens may follow each of the 64 tokens, each half as often as the one before."""
    language, draw = random.Random(3), random.Random(seed)
    followers = [language.sample(range(64), 8) for _ in range(64)]
    weights = [2.0 ** -i for i in range(8)]
    tokens = array.array("H", [0])
    while len(tokens) < count:
        tokens.append(draw.choices(followers[tokens[-1]], weights)[0])
    if sys.byteorder == "big":
        tokens.byteswap()
    path.write_bytes(tokens.tobytes())


class Bench:
    def __init__(self, binary, folder, threads):
        self.binary, self.folder, self.threads = binary, folder, threads

    def call(self, *words, codes):
        """Runs trainctl and returns the document that it prints."""
        done = subprocess.run([str(self.binary), *words, f"trainer.num_threads={self.threads}", "--json"], cwd=self.folder,
                              capture_output=True, text=True)
        if done.returncode not in codes:
            raise SystemExit(f"{' '.join(words)}: exit {done.returncode}: {done.stdout}{done.stderr}")
        return json.loads(done.stdout)

    def find(self, name):
        return self.call("lr-find", f"{name}.yaml", codes=(0,))["suggestion"]

    def score(self, name, rate):
        """Returns the score of a training run with this rate, or 0 if it diverges."""
        result = self.call("run", f"{name}.yaml", f"optimizer.lr={rate:.4g}", codes=(0, 6))
        values = {key.split("/")[-1]: value for key, value in (result["val"] or {}).items()}
        if result["exit_code"] != 0:
            return 0.0
        if "accuracy" in values:
            return values["accuracy"] or 0.0
        loss = values.get("loss")
        return 0.0 if loss is None or not math.isfinite(loss) else math.exp(-loss)


def prepare(folder, data):
    write_tokens(folder / "train.bin", 32 * 6000, 1)
    write_tokens(folder / "val.bin", 32 * 1000, 2)
    for name, (text, _) in EXPERIMENTS.items():
        head = f"name: {name}\nseed: 1\nloss: cross_entropy\ncheckpoint: {{ monitor: val/loss, save_top_k: 0, save_last: false }}\n"
        (folder / f"{name}.yaml").write_text(head + text.replace("DATA", str(data)))


def measure(bench, name, rates):
    found = bench.find(name)
    scores = {rate: bench.score(name, rate) for rate in rates}
    suggested = bench.score(name, found["lr"])
    print(f"{name}: {found['lr']:.3g} scores {suggested:.3f}; " + ", ".join(f"{rate:g} {score:.3f}" for rate, score in scores.items()),
          file=sys.stderr, flush=True)
    return found, suggested, scores


def row_of(name, found, suggested, scores):
    best = max(scores, key=scores.get)
    top = max(scores[best], suggested)
    inside = [score for rate, score in scores.items() if found["low"] <= rate <= found["high"]] + [suggested]
    rank = 1 + sum(score > suggested for score in scores.values())
    return [name, f"{found['lr']:.3g}", f"{found['low']:.2g} to {found['high']:.2g}", f"{suggested:.3f}", f"{best:g}", f"{scores[best]:.3f}",
            f"{suggested - scores[best]:+.3f}", f"{rank} of {len(scores) + 1}", "yes" if max(inside) >= top - TOLERANCE else "NO"]


def is_good(row):
    return float(row[6]) >= -TOLERANCE and row[8] == "yes"


def write_page(table, measured):
    stem = f"lr_find_{len(os.sched_getaffinity(0))}core_{datetime.date.today().isoformat()}"
    folder = SOURCE / "docs/benchmarks"
    (folder / f"{stem}.md").write_text(
        "# How well the rates train that lr-find suggests\n\n"
        + page.filled(HOW.format(stem=stem)) + "\n\n" + table, encoding="utf-8")
    with open(folder / f"{stem}.csv", "w", newline="") as file:
        rows = csv.writer(file, lineterminator="\n")
        rows.writerow(["experiment", "rate", "suggested", "score"])
        for name, (found, suggested, scores) in measured.items():
            rows.writerow([name, f"{found['lr']:.4g}", 1, f"{suggested:.4f}"])
            rows.writerows([name, f"{rate:g}", 0, f"{score:.4f}"] for rate, score in scores.items())


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trainctl", type=pathlib.Path, default=SOURCE / "build/release/bin/trainctl")
    parser.add_argument("--data", type=pathlib.Path, default=os.environ.get("TRAINCTL_DATA", SOURCE / "data"))
    parser.add_argument("--only", default="", help="experiments whose name has this word")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    if not options.trainctl.is_file():
        raise SystemExit(f"{options.trainctl} is missing: build the targets trainctl and trainctl_engine, or give --trainctl")
    with tempfile.TemporaryDirectory(prefix="trainctl-lr-find-") as scratch:
        prepare(pathlib.Path(scratch), options.data.resolve())
        bench = Bench(options.trainctl.resolve(), scratch, options.threads)
        measured = {name: measure(bench, name, rates) for name, (_, rates) in EXPERIMENTS.items() if options.only in name}
    rows = [row_of(name, *result) for name, result in measured.items()]
    table = "\n".join("| " + " | ".join(row) + " |" for row in [HEADER, ["---"] * len(HEADER), *rows]) + "\n"
    print(table, end="")
    if options.write:
        write_page(table, measured)
    return 0 if rows and all(is_good(row) for row in rows) else 1


if __name__ == "__main__":
    raise SystemExit(main())
