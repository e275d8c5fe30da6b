#!/usr/bin/env python3
"""Sends a run of trainctl to Weights & Biases. A resumed run continues the run there.

In the experiment file (for wandb in another Python, replace python3 by its path):

  loggers: [console, csv, {type: exec, command: [python3, examples/trackers/to_wandb.py]}]
"""

import json
import pathlib
import sys
import uuid

import wandb


def begin(event):
    run_dir = pathlib.Path(event["run_dir"])
    id_file = run_dir / "wandb_id"
    if not id_file.exists():
        id_file.write_text(uuid.uuid4().hex)
    return wandb.init(project=event["name"], name=run_dir.name, id=id_file.read_text(), resume="allow", dir=run_dir,
                      config=event["config"])


def main():
    run = None
    for line in sys.stdin:
        event = json.loads(line)
        kind = event.pop("type")
        if kind == "start":
            run = begin(event)
        elif kind in ("step", "epoch"):
            # Numbers that are not finite are text in JSON. Both kinds of lines have a train/loss, of a step and of an epoch.
            prefix = "step/" if kind == "step" else ""
            step = event.pop("step")
            run.log({prefix + name: float(value) for name, value in event.items()}, step=step)
        elif kind == "warning":
            run.alert(title="trainctl", text=event["message"], level=wandb.AlertLevel.WARN)
        else:
            result = event["result"]
            run.summary["verdict"] = result["verdict"]
            run.finish(exit_code=result["exit_code"] or 0)


if __name__ == "__main__":
    main()
