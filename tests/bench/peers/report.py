"""Writes the page docs/benchmarks/loaders_<hardware>_<date>.md and its CSV from the results of bench.py."""

import csv
import datetime
import json
import os
import pathlib
import statistics
import subprocess
import sys

from kept import versions_of
from workloads import WORKLOADS

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from page import filled  # noqa: E402

VERSIONS = ("torch", "torchvision", "ffcv", "spdl", "nvidia-dali-cuda130", "numpy", "pillow", "numba")
COLUMNS = ("samples_per_s", "samples_per_cpu_s", "p50_ms", "p99_ms", "rss_mb", "startup_s", "limit", "digest")
INTRODUCTION = """This page compares the throughput of trainctl's loader with that of other loaders (peers) and with the limit of the
machine. All loaders read the same data and produce the same output."""
HOW = """Each cell is the median of {rounds} rounds (A B C, A B C, ...), with [quartiles] for the rate. Each measurement is a new process
on {cores}. The first epoch of a process is start-up and is not counted. Then at least {seconds:g} s is measured (peers: whole epochs).

* **Page cache:** the files are in the page cache, except in W7. There, the file is dropped from the page cache before each epoch, and
  the number of trainctl is its first epoch. The limit of W7 is the rate of random reads by fio (O_DIRECT, depth 32).
* **Consumer:** the code that receives the batches reads only the labels. In the f32 rows, the consumer of trainctl also converts pixels
  to float32 and normalizes them, as runs on a CPU do.
* **Samples per CPU second** include the CPU time of child processes. If other programs use the machine, this number is more reliable
  than the rate.
* **Memory** is the peak of all processes: for peers the sum of proportional set sizes, sampled twice a second, and for trainctl the
  largest resident set of the measuring process.
* **Ratios:** the first ratio compares with the rate of the best peer, the second with the best rate per CPU second of a peer.
* **`of limit`** compares with the rate of the same program without the loader. For "gather", one thread copies the rows (in the f32 rows
  it also converts them). For "crop decode" and "transforms", one thread decodes or transforms the images, and its rate is multiplied by
  the number of threads.

If samples are decoded, or if a peer uses a pool of threads, the peer runs with the largest number of workers. Otherwise, it runs with
the smallest and with the largest number. trainctl, DataLoader, FFCV (with the whole file cached) and DALI (with a buffer of the size of
the data set) shuffle exactly. SPDL returns batches in the order in which they are complete. FFCV resizes with INTER_AREA, SPDL with
FFmpeg's bilinear scaler, and the others with an antialiased bilinear filter. Only trainctl computes a hash of its batches. This hash is
the same for every number of workers."""


def quartiles(values):
    if len(values) < 2:
        return (values[0],) * 3
    return tuple(statistics.quantiles(values, n=4, method="inclusive"))


def number(value):
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def median(results, column):
    values = [result[column] for result in results if column in result]
    return statistics.median(values) if values else None


def cpu_model():
    with open("/proc/cpuinfo", encoding="utf-8") as file:
        return next((line.split(":", 1)[1].strip() for line in file if line.startswith("model name")), "unknown CPU")


class Page:
    def __init__(self, options, rows):
        self.options, self.rows = options, rows
        self.results = {row: found["results"] for row, found in rows.items()}

    def tables(self, names):
        return "\n".join(self.table(row) for row in names)

    def table(self, row):
        """Returns the table of one row of the protocol: trainctl and each peer."""
        results = self.results[row]
        ran = {key: found for key, found in results.items() if found and "failure" not in found[-1]}
        best = self.best(ran, "samples_per_s")
        best_cpu = self.best(ran, "samples_per_cpu_s")
        lines = [f"### {row}: {WORKLOADS[row].title}", "", f"Batch {WORKLOADS[row].batch}. Limit: {WORKLOADS[row].limit}. Load average before: {self.rows[row]['load']:.1f}.", "",
                 "| loader | workers | samples/s [quartiles] | ratio | per CPU second | ratio | of limit | p99 ms | peak MB | batches |",
                 "| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | --- |"]
        for (name, workers), found in results.items():
            if (name, workers) not in ran:
                reason = found[-1]["failure"] if found else "not run"
                lines.append(f"| {name} | {workers} | not available: {reason.replace('|', '/')} | | | | | | | |")
                continue
            lines.append(self.line(name, workers, found, best, best_cpu))
        return "\n".join(lines) + "\n"

    @staticmethod
    def best(ran, column):
        return max((median(found, column) for (name, _), found in ran.items() if name != "trainctl"), default=None)

    @staticmethod
    def line(name, workers, found, best, best_cpu):
        q1, middle, q3 = quartiles([result["samples_per_s"] for result in found])
        per_cpu, limit = median(found, "samples_per_cpu_s"), median(found, "limit")
        digests = {result["digest"] for result in found if "digest" in result}
        cells = [name, workers, f"{number(middle)} [{number(q1)}, {number(q3)}]", f"{middle / best:.2f}x" if best else "",
                 number(per_cpu), f"{per_cpu / best_cpu:.2f}x" if best_cpu else "",
                 f"{100 * middle / limit:.0f} %" if limit else "", f"{median(found, 'p99_ms'):.3g}",
                 number(median(found, "rss_mb")), " / ".join(sorted(digests))]
        return "| " + " | ".join(map(str, cells)) + " |"

    def versions(self):
        code = ("import importlib.metadata as m, json, sys\n"
                f"names = {VERSIONS!r}\nfound = {{}}\n"
                "for n in names:\n  try: found[n] = m.version(n)\n  except m.PackageNotFoundError: pass\n"
                "print(json.dumps(found))")
        peers = json.loads(subprocess.run([self.options.python, "-c", code], capture_output=True, text=True, check=True).stdout)
        ours = versions_of(self.options.trainctl)
        return ", ".join([f"trainctl {ours['version']} (git {ours['git']}, {ours['build']['type']}, {ours['build']['compiler']})",
                          *(f"{name} {version}" for name, version in peers.items())])

    def resolved(self, row):
        if not WORKLOADS[row].dataset:
            return ""
        config = WORKLOADS[row].experiment("${env:BENCH_DATA}")
        return f"```yaml\n# {row}\n{config.rstrip()}\n```"

    def write(self, folder):
        options = self.options
        stem = f"loaders_{len(options.cores)}core_{datetime.date.today().isoformat()}"
        command = f"scripts/bench-loaders --rows {','.join(self.results)} --workers {','.join(map(str, options.workers))} " \
                  f"--rounds {options.rounds} --seconds {options.seconds:g} --write"
        cores = [str(core) for core in options.cores]
        cores = f"the cores {', '.join(cores[:-1])} and {cores[-1]}" if len(cores) > 1 else f"core {cores[0]}"
        parts = [f"# Loaders, {len(options.cores)} cores, {datetime.date.today().isoformat()}", "",
                 filled(INTRODUCTION), "",
                 filled(f"{cpu_model()}, {len(options.cores)} cores, kernel {os.uname().release}, "
                 f"{sum(found['seconds'] for found in self.rows.values()) / 60:.0f} minutes for all measurements. {self.versions()}."), ""]
        if options.missing:
            parts += [f"Not installed: {options.missing}.", ""]
        parts += [filled(HOW.format(rounds=options.rounds, cores=cores, seconds=options.seconds)), "", f"```\n{command}\n```", "",
                  self.tables(self.results), "## Experiment files", "", *(self.resolved(row) for row in self.results), ""]
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{stem}.md").write_text("\n".join(parts), encoding="utf-8")
        with open(folder / f"{stem}.csv", "w", encoding="utf-8", newline="") as file:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerow(["row", "loader", "workers", "round", *COLUMNS])
            for row, results in self.results.items():
                for (name, workers), found in results.items():
                    for i, result in enumerate(found):
                        if "failure" not in result:
                            writer.writerow([row, name, workers, i + 1, *(result.get(column, "") for column in COLUMNS)])
        return folder / f"{stem}.md"
