"""Keeps rows that the same program measured before with the same settings, so that a page can be made in several sessions."""

import json
import os
import subprocess


def versions_of(program):
    return json.loads(subprocess.run([program, "version", "--json"], capture_output=True, text=True, check=True).stdout)


def settings(options):
    """Returns the settings that all rows of a page share."""
    return {"git": versions_of(options.trainctl)["git"], "cores": options.cores, "workers": options.workers,
            "rounds": options.rounds, "seconds": options.seconds}


class Rows:
    """Stores {row: {"results": {(loader, workers): [result of each round]}, "load": ..., "seconds": ...}} in a JSON file."""

    def __init__(self, path, options):
        self.path, self.settings, self.rows = path, settings(options), {}
        try:
            kept = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return
        if kept["settings"] == self.settings:
            self.rows = {row: {**found, "results": {tuple(key): rounds for key, rounds in found["results"]}}
                         for row, found in kept["rows"].items()}

    def put(self, row, results, load, seconds):
        self.rows[row] = {"results": results, "load": load, "seconds": seconds}
        rows = {name: {**found, "results": [[list(key), rounds] for key, rounds in found["results"].items()]}
                for name, found in self.rows.items()}
        partial = self.path.with_suffix(".partial")
        partial.write_text(json.dumps({"settings": self.settings, "rows": rows}), encoding="utf-8")
        os.replace(partial, self.path)

    def in_order(self, names):
        return {name: self.rows[name] for name in names if name in self.rows}
