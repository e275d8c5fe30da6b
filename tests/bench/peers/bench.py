#!/usr/bin/env python3
"""Runs the rows with trainctl and its peers in alternating order and writes the table. scripts/bench-loaders starts it.

usage: bench.py --trainctl BIN --python PYTHON --data FOLDER --source FOLDER [options]"""

import argparse
import collections
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import threading
import time

import report
from kept import Rows
from workloads import WORKLOADS

HERE = pathlib.Path(__file__).resolve().parent
NO_WORKERS = ("index_select", "index_select_1")  # these compute in the caller's thread
THREADS_ONLY = ("ffcv", "spdl", "dali")


class PeakMemory(threading.Thread):
    """Records the peak memory of a process and its descendants: the sum of their proportional set sizes, in MB, which counts
    shared pages once."""

    def __init__(self, pid):
        super().__init__(daemon=True)
        self.pid, self.peak_mb, self.done = pid, 0.0, threading.Event()

    def run(self):
        while not self.done.wait(0.5):
            self.peak_mb = max(self.peak_mb, sum(map(pss_mb, family(self.pid))))

    def stop(self):
        self.done.set()
        self.join()
        return self.peak_mb


def family(pid):
    found = [pid]
    for one in found:
        try:
            for task in os.listdir(f"/proc/{one}/task"):
                with open(f"/proc/{one}/task/{task}/children", encoding="utf-8") as file:
                    found += [int(word) for word in file.read().split()]
        except OSError:
            pass  # the process has exited
    return found


def pss_mb(pid):
    try:
        with open(f"/proc/{pid}/smaps_rollup", encoding="utf-8") as file:
            return next(int(line.split()[1]) for line in file if line.startswith("Pss:")) * 1024 / 1e6
    except (OSError, StopIteration):
        return 0.0


def run(command, options, timeout=1800):
    """Returns (stdout, peak memory, reason of failure)."""
    environment = dict(os.environ, OMP_NUM_THREADS=str(len(options.cores)), NUMBA_NUM_THREADS=str(len(options.cores)),
                       PYTHONDONTWRITEBYTECODE="1", PYTHONWARNINGS="ignore", CUDA_VISIBLE_DEVICES="")
    cores = ",".join(map(str, options.cores))
    with tempfile.TemporaryFile("w+") as errors:
        process = subprocess.Popen(["taskset", "-c", cores, *map(str, command)], env=environment, text=True, cwd=HERE,
                                   stdout=subprocess.PIPE, stderr=errors)
        memory = PeakMemory(process.pid)
        memory.start()
        try:
            out = process.communicate(timeout=timeout)[0]
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
            return "", memory.stop(), f"no result in {timeout} s"
        errors.seek(0)
        lines = [line for line in errors.read().splitlines() if line.strip()]
        return out, memory.stop(), "" if process.returncode == 0 else (lines or ["no message"])[-1].strip()


def run_peer(kind, row, workers, options):
    out, peak_mb, failure = run([options.python, HERE / "run_peer.py", kind, row, options.data, workers, options.seconds],
                                options)
    if failure:
        return {"failure": failure}
    return {**json.loads(out.splitlines()[-1]), "rss_mb": peak_mb}


def run_trainctl(workload, workers, folder, options):
    """Runs one measurement of `trainctl data bench`, as a user would."""
    if workload.cold:
        return run_cold(workload, workers, options)
    config = folder / f"{workload.name}.yaml"
    config.write_text(workload.experiment(options.data))
    if workload.floats:
        out, _, failure = run([options.float_batches, config, workers, options.seconds], options)
        return {"failure": failure} if failure else json.loads(out)
    out, _, failure = run([options.trainctl, "data", "bench", config, "dataset.cache.mode=none", "--workers", workers,
                           "--repeats", 1, "--seconds", options.seconds, "--json", "--progress", "none"], options)
    document = json.loads(out) if out.startswith("{") else {}
    if failure or "rows" not in document:
        problems = document.get("errors") or [{"message": document.get("message", failure)}]
        return {"failure": problems[0]["message"].splitlines()[0]}
    found = document["rows"][0]
    return {"samples_per_s": found["samples_per_s"]["median"], "samples_per_cpu_s": 1000 / found["cpu_s_per_1k"],
            "p50_ms": found["p50_ms"], "p99_ms": found["p99_ms"], "rss_mb": found["rss_mb"], "digest": found["digest"],
            "limit": found["limit"]["samples_per_s"], "limit_name": found["limit"]["name"]}


def run_cold(workload, workers, options):
    """Measures one epoch that is not in the page cache, and fio on the same file in the same round."""
    file, block = options.data / workload.pack, workload.shape[0] * workload.shape[1]
    out, _, failure = run([options.cold_reads, file, workload.batch, workers], options)
    if failure:
        return {"failure": failure}
    fio, _, failure = run(["fio", "--name=limit", f"--filename={file}", "--readonly", "--rw=randread", f"--bs={block}",
                           "--offset=4096", "--direct=1", "--ioengine=io_uring", "--iodepth=32", "--time_based",
                           f"--runtime={options.seconds}", "--output-format=json"], options)
    if failure:
        return {"failure": f"fio: {failure}"}
    return {**json.loads(out), "limit": json.loads(fio[fio.index("{"):])["jobs"][0]["read"]["iops"], "limit_name": "fio"}


def counts(name, workload, options):
    """Returns the worker counts to run: all for trainctl, and those that may be best for a peer. That is 0 for a peer without
    workers, the largest for decoding and for thread pools, otherwise the smallest and the largest."""
    if name == "trainctl":
        return options.workers
    if name in NO_WORKERS:
        return [0]
    if name.split("_")[0] in THREADS_ONLY or workload.job == "rrc_flip":
        return [max(1, options.workers[-1])]
    return sorted({options.workers[0], options.workers[-1]})


def contenders(workload, options):
    """Returns (name, workers) of trainctl and each peer."""
    return [(name, workers) for name in ("trainctl", *workload.peers) for workers in counts(name, workload, options)]


def pack(workload, folder, options):
    """Makes the pack that the row reads, and makes it again if trainctl is newer; a failure shows when trainctl opens the pack."""
    target = options.data / workload.pack
    if not workload.packed_from or target.exists() and target.stat().st_mtime > options.trainctl.stat().st_mtime:
        return
    target.unlink(missing_ok=True)
    source = folder / "source.yaml"
    source.write_text(workload.pack_source(options.data))
    run([options.trainctl, "data", "pack", source, "--mode", "raw", "--out", target], options)


def measure_row(workload, folder, options):
    """Returns {(name, workers): [result of each round]}; the later rounds skip a peer that failed once."""
    results = collections.defaultdict(list)
    pack(workload, folder, options)
    for round_number in range(options.rounds):
        for name, workers in contenders(workload, options):
            if any("failure" in result for result in results[name, workers]):
                continue
            result = (run_trainctl(workload, workers, folder, options) if name == "trainctl"
                      else run_peer(name, workload.name, workers, options))
            results[name, workers].append(result)
            text = result.get("failure") or f"{result['samples_per_s']:,.0f} samples/s"
            print(f"{workload.name} round {round_number + 1} of {options.rounds}  {name}, {workers} workers: {text}",
                  file=sys.stderr)
    return results


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trainctl", type=pathlib.Path, required=True)
    parser.add_argument("--python", type=pathlib.Path, required=True, help="of the peers' virtual environment")
    parser.add_argument("--data", type=pathlib.Path, required=True, help="folder for the data that is made")
    parser.add_argument("--source", type=pathlib.Path, required=True, help="folder with mnist/ and imagenet-sample/")
    parser.add_argument("--rows", type=lambda text: text.split(","), default=list(WORKLOADS))
    parser.add_argument("--workers", type=lambda text: [int(word) for word in text.split(",")], default=[0, 1, 2])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=3)
    parser.add_argument("--cores", type=lambda text: [int(word) for word in text.split(",")],
                        default=sorted(os.sched_getaffinity(0)))
    parser.add_argument("--missing", default="", help="peers that could not be installed, for the table")
    parser.add_argument("--write", type=pathlib.Path, help="folder for the page and its CSV, with all rows that are in rows.json of the data")
    options = parser.parse_args()
    for row in options.rows:
        if row not in WORKLOADS:
            parser.error(f"--rows: '{row}' must be one of {', '.join(WORKLOADS)}")
    options.cold_reads = options.trainctl.with_name("bench_cold_reads")
    options.float_batches = options.trainctl.with_name("bench_float_batches")
    for name in ("trainctl", "cold_reads", "float_batches", "python", "data", "source"):
        setattr(options, name, getattr(options, name).absolute())
    return options


def main():
    options = parse()
    kept = Rows(options.data / "rows.json", options)
    with tempfile.TemporaryDirectory() as folder:
        for row in options.rows:
            made = run([options.python, HERE / "make_data.py", options.data, options.source, row], options)[2]
            if made:
                print(f"{row}: no data: {made}", file=sys.stderr)
            load, begun = os.getloadavg()[0], time.time()
            results = measure_row(WORKLOADS[row], pathlib.Path(folder), options)
            kept.put(row, results, load, time.time() - begun)
    page = report.Page(options, kept.in_order(WORKLOADS))
    print(page.tables(options.rows))
    if options.write:
        print(f"wrote {page.write(options.write)}")


if __name__ == "__main__":
    main()
