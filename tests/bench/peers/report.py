"""Writes the page docs/benchmarks/loaders_<hardware>_<date>.md and its CSV from the results of bench.py."""

import csv
import datetime
import json
import os
import statistics
import subprocess

from kept import versions_of
from workloads import WORKLOADS

VERSIONS = ("torch", "torchvision", "ffcv", "spdl", "nvidia-dali-cuda130", "numpy", "pillow", "numba")
COLUMNS = ("samples_per_s", "samples_per_cpu_s", "p50_ms", "p99_ms", "rss_mb", "startup_s", "limit", "digest")
HOW = """Every cell is the median over {rounds} interleaved rounds (A B C, A B C, ...), each in a fresh process on cores {cores};
[quartiles] for the rate. The first epoch of each process is start-up and is not counted; then at least {seconds:g} s
are (peers: in whole epochs). Page cache warm, except W7: there each epoch begins with the file dropped from it, and
trainctl's figure is its first epoch, compared with fio's random reads (O_DIRECT, depth 32). The consumer reads labels only; in
the f32 rows trainctl's consumer also widens and normalizes, as its runs on a CPU do. Samples per CPU second count
children, and are the figure to trust where the machine is shared. Memory is the peak of all processes: for peers the
sum of proportional set sizes, sampled twice a second; for trainctl the largest resident set of the measuring process.
The first ratio is to the best peer's rate, the second to the best peer's rate per CPU second. `of limit` is against
what the same program gives without the loader: one thread that copies the rows (gather; and widens them), or one that
decodes the crops, times the threads.

Peers run with the most workers where samples are decoded and where they are pools of threads, else with the least and the
most. trainctl and DataLoader shuffle exactly; FFCV too (whole file cached); DALI within a buffer of the whole set; SPDL hands out
batches in order of completion. FFCV resizes with INTER_AREA, SPDL with FFmpeg's bilinear scaler, the others with an
antialiased bilinear filter. Only trainctl's batches have a digest, equal for every worker count.
"""


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
        cores = ",".join(map(str, options.cores))
        parts = [f"# Loaders, {len(options.cores)} cores, {datetime.date.today().isoformat()}", "",
                 "The throughput of trainctl's loader compared with other loaders and the machine's limit, same data and same output.", "",
                 f"{cpu_model()}, {len(options.cores)} cores, kernel {os.uname().release}, "
                 f"{sum(found['seconds'] for found in self.rows.values()) / 60:.0f} min in all. {self.versions()}.", ""]
        if options.missing:
            parts += [f"Not installed: {options.missing}.", ""]
        parts += [HOW.format(rounds=options.rounds, cores=cores, seconds=options.seconds), f"```\n{command}\n```", "",
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
