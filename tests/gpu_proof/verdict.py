"""Computes the medians and bars of a proof from its state, and writes the machine-readable verdict."""

import json
import statistics

from outcomes import FAILED, PASSED, SKIPPED
from speed_rows import AIRBENCH_BAR, CIFAR_ACCURACY, COMPILED_BAR, ROWS, peak_of

SCHEMA = "trainctl.gpu_proof/1"
MET, MISSED, UNDECIDED = "met", "missed", "undecided"


def quartiles(values):
    """Returns (first quartile, median, third quartile)."""
    if len(values) == 1:
        return (values[0],) * 3
    low, middle, high = statistics.quantiles(values, n=4, method="inclusive")
    return low, middle, high


def measurements(state):
    """Returns the records of the speed table: its first round and the others are two stages."""
    return {**state["stages"].get("speed", {}), **state["stages"].get("rounds", {})}


def rounds_of(stage, row, name):
    """Returns {round: figures} of a program in a row, for the rounds that it passed."""
    found = {}
    for check, record in stage.items():
        head, _, program = check.partition(": ")
        label, _, number = head.rpartition(" round ")
        if label == row and program == name and record.get("status") == PASSED:
            found[int(number)] = record["figures"]
    return found


def programs_of(stage, row):
    """Returns the names of the programs of a row, trainctl first."""
    names = {check.partition(": ")[2] for check in stage if check.startswith(f"{row} round ")}
    return sorted(names, key=lambda name: (name != "trainctl", name))


def speed_table(state):
    """Returns [{row, program, rate, memory_mb, joules_per_unit, mfu, ratio, rounds, why_not}] of the rows with a rate. `ratio` is the speed of
    trainctl divided by that of the program, from the rounds in which both measured."""
    stage, peak = measurements(state), peak_of(state["machine"].get("gpu", ""))
    table = []
    for row in ROWS:
        ours = rounds_of(stage, row.name, "trainctl")
        for name in programs_of(stage, row.name):
            rounds = rounds_of(stage, row.name, name)
            entry = {"row": row.name, "program": name, "unit": row.unit, "rounds": len(rounds), "rate": None, "memory_mb": None,
                     "joules_per_unit": None, "mfu": None, "ratio": None, "why_not": ""}
            if rounds:
                entry["rate"] = quartiles([one["rate"] for one in rounds.values()])
                for key in ("memory_mb", "joules_per_unit"):
                    values = [one[key] for one in rounds.values() if one[key] is not None]
                    entry[key] = statistics.median(values) if values else None
                if peak and row.flops:
                    entry["mfu"] = entry["rate"][1] * row.flops / peak
                shared = [ours[number]["rate"] / rounds[number]["rate"] for number in rounds if number in ours]
                entry["ratio"] = quartiles(shared) if shared and name != "trainctl" else None
            else:
                records = [record for check, record in stage.items() if check.startswith(f"{row.name} round ") and check.endswith(f": {name}")]
                entry["why_not"] = next((record["reason"] for record in records if record.get("reason")), "not measured yet")
            table.append(entry)
    return table


def cifar_table(state):
    """Returns [{program, seconds, accuracy, rounds, real_data, why_not}] of the row that trains CIFAR-10."""
    stage, table = measurements(state), []
    for name in programs_of(stage, "cifar10"):
        rounds = rounds_of(stage, "cifar10", name)
        reasons = [record.get("reason", "") for check, record in stage.items() if check.startswith("cifar10 round ") and check.endswith(f": {name}")]
        table.append({"program": name, "rounds": len(rounds), "seconds": quartiles([one["seconds"] for one in rounds.values()]) if rounds else None,
                      "accuracy": statistics.mean(one["accuracy"] for one in rounds.values()) if rounds else None,
                      "real_data": all(one["real_data"] for one in rounds.values()) if rounds else None,
                      "why_not": "" if rounds else next(filter(None, reasons), "not measured yet")})
    return table


def bar(name, measured, least, reason):
    """Returns a bar: met or missed, or undecided for a reason."""
    verdict = UNDECIDED if reason or measured is None else MET if measured >= least else MISSED
    return {"name": name, "measured": measured, "bar": least, "verdict": verdict, "reason": reason if verdict == UNDECIDED else ""}


def bars_of(state):
    rehearsal = "" if state["settings"]["device"] == "cuda" else "a rehearsal on a CPU decides no bar"
    found = []
    for entry in speed_table(state):
        least = COMPILED_BAR.get(entry["program"])
        if least is not None:
            found.append(bar(f"{entry['row']}: speed of {entry['program']}", entry["ratio"][1] if entry["ratio"] else None, least,
                             rehearsal or entry["why_not"] or ("" if entry["ratio"] else "trainctl was not measured")))
    cifar = {entry["program"]: entry for entry in cifar_table(state)}
    ours = cifar.get("trainctl", {})
    invented = "" if ours.get("real_data") else "data/cifar10 is not here"
    found.append(bar("cifar10: accuracy", ours.get("accuracy"), CIFAR_ACCURACY, rehearsal or ours.get("why_not", "not measured yet") or invented))
    original = cifar.get("airbench94_muon.py", {})
    peer = original if original.get("seconds") else cifar.get("compiled", {})
    both = ours.get("seconds") and peer.get("seconds")
    found.append(bar(f"cifar10: speed of {peer.get('program', 'airbench94_muon.py')}", peer["seconds"][1] / ours["seconds"][1] if both else None,
                     AIRBENCH_BAR, rehearsal or ("" if both else "one of the two was not measured") or invented))
    return found


def make(state, stages):
    """Returns the verdict: every check with its status, every bar, and one word for all: passed, failed or incomplete."""
    document = {"schema": SCHEMA, **state["settings"], "machine": state["machine"], "stages": [], "bars": bars_of(state)}
    counts = {PASSED: 0, FAILED: 0, SKIPPED: 0, "pending": 0}
    for stage in stages:
        records = state["stages"].get(stage.name, {})
        checks = [{"name": name, "status": record.get("status", "pending"), "reason": record.get("reason", ""),
                   "seconds": record.get("seconds"), "figures": record.get("figures", {})} for name, record in records.items()]
        for one in checks:
            counts[one["status"]] += 1
        document["stages"].append({"name": stage.name, "summary": stage.summary, "complete": bool(state.get("complete", {}).get(stage.name)),
                                   "checks": checks})
    document["counts"] = counts
    missed = [one["name"] for one in document["bars"] if one["verdict"] == MISSED]
    complete = all(stage["complete"] for stage in document["stages"])
    document["open"] = open_points(document) if state["settings"]["device"] == "cuda" else []
    document["verdict"] = "failed" if counts[FAILED] or missed else "passed" if complete and not document["open"] else "incomplete"
    return document


def open_points(document):
    """Returns what a complete proof has not shown: bars that are undecided, and stages of which every check was skipped."""
    bars = [f"{one['name']}: {one['reason'] or 'not measured'}" for one in document["bars"] if one["verdict"] == UNDECIDED]
    stages = [f"{stage['name']}: every check was skipped" for stage in document["stages"]
              if stage["checks"] and all(one["status"] == SKIPPED for one in stage["checks"])]
    return bars + stages


def write(state, stages, path):
    document = make(state, stages)
    path.write_text(json.dumps(document, indent=1) + "\n")
    return document
