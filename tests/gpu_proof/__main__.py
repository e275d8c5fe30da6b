"""Proves a GPU machine: makes an archive that needs nothing but PyTorch there, and runs stages of checks that can be resumed.

usage: scripts/gpu-proof pack [--build FOLDER] [--out FOLDER]
       scripts/gpu-proof list
       scripts/gpu-proof run STAGE|next|all --device cuda|cpu --out FOLDER [--quick] [--seconds S] [--retry-failed]
       scripts/gpu-proof pages --out FOLDER [--to FOLDER]

docs/how-to/gpu-proof.md describes the stages and the files in FOLDER."""

import argparse
import datetime
import pathlib
import sys
import tarfile

import pages
import verdict
from machine import Context, describe
from outcomes import BadState, State
from pack import pack
from peers import Peers
from runner import run_stage
from table import STAGES, stage_named

CALL_S = 540  # the longest time of one call


def arguments():
    parser = argparse.ArgumentParser(prog="gpu-proof", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    verbs = parser.add_subparsers(dest="verb", required=True)
    packing = verbs.add_parser("pack", help="make the archive")
    packing.add_argument("--build", help="pack the programs of this build folder, without building")
    packing.add_argument("--out", default="dist", help="folder of the archive (default: dist)")
    verbs.add_parser("list", help="list the stages")
    running = verbs.add_parser("run", help="run checks that have no outcome yet")
    running.add_argument("stage", help="the name of a stage; next: the first that is incomplete; all: as many as the time allows")
    running.add_argument("--device", choices=("cuda", "cpu"), default="cuda", help="cpu rehearses without a GPU (default: cuda)")
    running.add_argument("--quick", action="store_true", help="rehearse with the fewest and smallest checks")
    running.add_argument("--out", required=True, help="folder of state.json, verdict.json, logs.tar.gz and the page")
    running.add_argument("--work", help="folder of runs, data and compiler caches, which can be removed (default: OUT/work)")
    running.add_argument("--build", help="folder with bin/ and lib/ (default: build/ of the archive, else build/ci)")
    running.add_argument("--seconds", type=float, default=CALL_S, help=f"end in time for this limit (default: {CALL_S})")
    running.add_argument("--retry-failed", action="store_true", help="run the failed checks of the stage again")
    running.add_argument("--rounds", type=int, default=5, help="rounds of the speed table (default: 5)")
    running.add_argument("--airbench", type=lambda text: pathlib.Path(text).resolve(), help="the original airbench94_muon.py, to compare with")
    paging = verbs.add_parser("pages", help="write the page and the CSV of a proof")
    paging.add_argument("--out", required=True, help="folder of state.json")
    paging.add_argument("--to", help="folder of the page (default: OUT)")
    return parser.parse_args()


def chosen_stages(name, state):
    """Returns the stages to run: one, the first incomplete one, or all incomplete ones."""
    if name not in ("next", "all"):
        stage = stage_named(name)
        if stage is None:
            sys.exit(f"gpu-proof: error: there is no stage '{name}': {', '.join(one.name for one in STAGES)}")
        return [stage]
    left = [stage for stage in STAGES if not state.document.setdefault("complete", {}).get(stage.name)]
    return left[:1] if name == "next" else left


def write_results(state, context, out):
    """Writes verdict.json, the page and logs.tar.gz: with state.json, they are all that has to be copied from the machine."""
    document = verdict.write(state.document, STAGES, out / "verdict.json")
    pages.write(state.document, document, out, datetime.date.today().isoformat())
    with tarfile.open(out / "logs.tar.gz", "w:gz") as archive:
        archive.add(context.logs, "logs")
    return document


def run(options):
    context, out = Context(options), pathlib.Path(options.out).resolve()
    if not context.program.exists():
        sys.exit(f"gpu-proof: error: {context.program} does not exist: build it, or set --build")
    state = State(out, {"device": options.device, "quick": options.quick})
    state.set_machine(describe(context))
    context.peers, left_s = Peers(), options.seconds
    try:
        for stage in chosen_stages(options.stage, state):
            if options.retry_failed:
                state.forget_failed(stage.name)
            begun = datetime.datetime.now()
            left = run_stage(stage, context, state, left_s, report=lambda line: print(line, flush=True))
            state.document.setdefault("complete", {})[stage.name] = left == 0
            state.save()
            left_s -= (datetime.datetime.now() - begun).total_seconds()
            if left_s < 30:  # a stage that needs more time than is left does not keep others from it
                break
    finally:
        context.peers.close()
        document = write_results(state, context, out)
    counts = ", ".join(f"{count} {status}" for status, count in document["counts"].items())
    waiting = [stage["name"] for stage in document["stages"] if not stage["complete"]]
    print(f"gpu-proof: {counts}; verdict so far: {document['verdict']}")
    print(f"gpu-proof: {'incomplete: ' + ', '.join(waiting) if waiting else 'every stage is complete'}")
    return 1 if document["verdict"] == "failed" else 0


def write_pages(options):
    out = pathlib.Path(options.out).resolve()
    if not (out / "state.json").exists():
        sys.exit(f"gpu-proof: error: {out}/state.json does not exist: `run` writes it")
    state = State(out, None)
    document = verdict.write(state.document, STAGES, out / "verdict.json")
    date = max((record["ended_at"][:10] for records in state.document["stages"].values() for record in records.values() if "ended_at" in record),
               default=datetime.date.today().isoformat())
    for path in pages.write(state.document, document, pathlib.Path(options.to).resolve() if options.to else out, date):
        print(f"gpu-proof: wrote {path}")
    return 0


def main():
    options = arguments()
    try:
        if options.verb == "pack":
            return pack(options)
        if options.verb == "list":
            for stage in STAGES:
                print(f"{stage.name:12} {stage.summary}")
            return 0
        return run(options) if options.verb == "run" else write_pages(options)
    except BadState as error:
        sys.exit(f"gpu-proof: error: {error}")


if __name__ == "__main__":
    sys.exit(main())
