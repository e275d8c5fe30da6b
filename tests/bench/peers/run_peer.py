#!/usr/bin/env python3
"""Measures one peer on one row in this process and prints one line of JSON.

usage: run_peer.py PEER ROW DATA_FOLDER WORKERS SECONDS
The first epoch is start-up. Then whole epochs are counted until the time is up, so that the work of a peer between epochs is
included. The consumer sums the labels."""

import importlib
import json
import os
import pathlib
import sys
import time

from workloads import WORKLOADS

MODULES = {"dataloader": "torch_loader", "index": "index_select", "spdl": "spdl_loader", "ffcv": "ffcv_loader",
           "dali": "dali_loader"}


def processes():
    """Returns the pids of this process and its descendants."""
    parents = {}
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            parents[int(name)] = stat(name)[1]
        except OSError:
            pass  # the process has exited
    found = [os.getpid()]
    for pid in found:
        found += [child for child, parent in parents.items() if parent == pid]
    return found


def stat(pid):
    """Returns the state, the parent and the CPU seconds from /proc/PID/stat."""
    with open(f"/proc/{pid}/stat", encoding="utf-8") as file:
        cells = file.read().rpartition(")")[2].split()
    return cells[0], int(cells[1]), (int(cells[11]) + int(cells[12])) / os.sysconf("SC_CLK_TCK")


def cpu_s():
    return sum(stat(pid)[2] for pid in processes())


def quantile(values, share):
    values = sorted(values)
    return values[min(len(values) - 1, round(share * (len(values) - 1)))]


def measure(epoch, seconds):
    number, sink, intervals, samples = 0, 0, [], 0
    begun = time.perf_counter()
    for labels in epoch(number):
        sink += int(sum(labels)) if isinstance(labels, tuple) else int(labels.sum())
    startup = time.perf_counter() - begun
    cpu, start = cpu_s(), time.perf_counter()
    last = start
    while last - start < seconds:
        number += 1
        for labels in epoch(number):
            sink += int(sum(labels)) if isinstance(labels, tuple) else int(labels.sum())
            samples += len(labels)
            now = time.perf_counter()
            intervals.append(now - last)
            last = now
    return {"samples_per_s": samples / (last - start), "samples_per_cpu_s": samples / max(cpu_s() - cpu, 1e-9),
            "p50_ms": 1e3 * quantile(intervals, 0.5), "p99_ms": 1e3 * quantile(intervals, 0.99), "startup_s": startup,
            "sink": sink}


def main():
    kind, row, folder, workers, seconds = sys.argv[1:]
    module = importlib.import_module(MODULES[kind.split("_")[0]])
    epoch = module.open_loader(kind, WORKLOADS[row], pathlib.Path(folder), int(workers))
    print(json.dumps(measure(epoch, float(seconds))), flush=True)
    os._exit(0)  # some peers hang in their destructors


if __name__ == "__main__":
    main()
