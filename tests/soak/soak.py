#!/usr/bin/env python3
"""Runs the long tier of the proofs, with the full number of tries of every fault, and prints a table. scripts/soak starts it.

usage: soak.py [--list] [--only NAME ...] [--minutes N] [--seed S] [--keep DIR] [--json]

--minutes limits each proof, and the table shows which ones it cut short. Exits with 0 if nothing failed and something was tried.
Needs TRAINCTL_BINARY, TRAINCTL_SAVER and TRAINCTL_UNIT, and TRAINCTL_DATA for verify-resume; the table has a row for each proof
that was skipped because one of them is missing."""

import argparse
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
SAVES = HERE.parent / "smoke/checkpoint_test.py"
FLIPS = ["container: every flipped bit is detected", "container: a truncated file is detected by its length"]
SIZE = 64 << 10  # bytes of the checkpoint whose bits are flipped
PROOFS = {
    "kills": ("kills.py", "Kills"),
    "matrix": ("matrix.py", "Matrix"),
    "signals": ("signals.py", "Signals"),
    "launcher": ("launcher.py", "LauncherKills"),
    "faults": ("launcher.py", "MixedFaults"),
    "lost-ranks": ("lost_ranks.py", "LostRanks"),
    "corrupt": ("corrupt.py", "Corrupt"),
    "pairs": ("pairs.py", "Pairs"),
    "disk-full": ("disk_full.py", "DiskFull"),
    "power-cut": ("power_cut.py", "PowerCut"),
    "verify-resume": ("verify_resume.py", "VerifyResume"),
}


def run(words, environment):
    """Returns (exit code, output), and prints the output of a failure."""
    ended = subprocess.run(words, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace")
    if ended.returncode not in (0, 4):
        print(ended.stdout, file=sys.stderr)
    return ended.returncode, ended.stdout


def skipped(name, why):
    return {"proof": name, "wanted": 0, "tried": 0, "failed": 0, "seconds": 0, "skipped": why}


def own(name, environment):
    """Runs a proof of this folder, which writes its own tally line."""
    file, kind = PROOFS[name]
    with tempfile.NamedTemporaryFile("r", prefix="trainctl-tally-", encoding="utf-8") as tally:
        code, _ = run([sys.executable, "-B", str(HERE / file), kind], {**environment, "TRAINCTL_SOAK_TALLY": tally.name})
        lines = [json.loads(line) for line in tally]
    row = lines[-1] if lines else {**skipped(name, ""), "failed": 1, "note": "it ended before it tried anything"}
    if code not in (0, 4) and not row["failed"]:
        row["failed"] = 1
    return {**row, "proof": name}


def system_calls(name, environment):
    """Every system call of a save fails or kills the saver, in every way: tests/smoke/checkpoint_test.py."""
    if not environment.get("TRAINCTL_SAVER"):
        return skipped(name, "TRAINCTL_SAVER is not set")
    code, said = run([sys.executable, "-B", str(SAVES)], environment)
    if code == 4:
        return skipped(name, "strace cannot trace here")
    tried = sum(int(count) for count in re.findall(r"^(\d+) saves, ", said, re.M))
    failed = sum(map(int, re.findall(r"(?:failures|errors)=(\d+)", said))) or int(code not in (0, 4))
    return {"proof": name, "wanted": tried, "tried": tried, "failed": failed}


def flips(name, environment):
    """Flips every bit of a checkpoint, and truncates it to every length."""
    if not environment.get("TRAINCTL_UNIT"):
        return skipped(name, "TRAINCTL_UNIT is not set")
    codes = [run([environment["TRAINCTL_UNIT"], title], environment)[0] for title in FLIPS]
    return {"proof": name, "wanted": 9 * SIZE, "tried": 9 * SIZE, "failed": sum(code != 0 for code in codes)}


OTHERS = {"syscalls": system_calls, "flips": flips}
NAMES = [*PROOFS, *OTHERS]


def table(rows):
    lines = ["| proof | wanted | tried | failed | seconds | worst |", "| --- | --- | --- | --- | --- | --- |"]
    for row in rows:
        worst = "; ".join(f"{value} {what}" for what, value in row.get("worst", {}).items())
        note = f"skipped: {row['skipped']}" if row.get("skipped") else row.get("note", worst)
        lines.append(f"| {row['proof']} | {row['wanted']} | {row['tried']} | {row['failed']} | {row['seconds']:.0f} | {note} |")
    return "\n".join(lines)


def options():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--only", action="append", choices=NAMES)
    parser.add_argument("--minutes", type=float)
    parser.add_argument("--seed", default="0")
    parser.add_argument("--keep", type=lambda text: pathlib.Path(text).resolve())
    parser.add_argument("--json", action="store_true")
    return parser.parse_args()


def prove(name, environment):
    began = time.monotonic()
    row = OTHERS[name](name, environment) if name in OTHERS else own(name, environment)
    if not row.get("skipped"):
        row["seconds"] = round(time.monotonic() - began, 1)
    return row


def main():
    chosen = options()
    if chosen.list:
        return print("\n".join(NAMES))
    environment = {**os.environ, "TRAINCTL_LONG": "1", "TRAINCTL_SOAK_SEED": chosen.seed}
    if chosen.minutes:
        environment["TRAINCTL_SOAK_MINUTES"] = str(chosen.minutes)
    if chosen.keep:
        chosen.keep.mkdir(parents=True, exist_ok=True)
        environment["TRAINCTL_SOAK_KEEP"] = str(chosen.keep)
    rows = []
    for name in chosen.only or NAMES:
        rows.append(prove(name, environment))
        print(table(rows[-1:]).splitlines()[-1], file=sys.stderr, flush=True)
    print(json.dumps({"schema": "trainctl.soak/2", "seed": chosen.seed, "proofs": rows}, indent=2) if chosen.json else table(rows))
    failed = any(row["failed"] for row in rows) or not any(row["tried"] for row in rows)
    return sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
