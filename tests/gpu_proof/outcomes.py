"""Outcomes of checks, and the file that stores them between two calls."""

import datetime
import json
import os
import pathlib
import typing

SCHEMA = "trainctl.gpu_proof_state/1"
PASSED, FAILED, SKIPPED = "passed", "failed", "skipped"


class Outcome(typing.NamedTuple):
    """The result of one check: a status, the reason unless it passed, and the figures that it measured."""

    status: str
    reason: str = ""
    figures: dict = {}


class BadState(Exception):
    """The state belongs to another proof, or is damaged."""


def passed(**figures):
    return Outcome(PASSED, "", figures)


def failed(reason, **figures):
    return Outcome(FAILED, reason, figures)


def skipped(reason, **figures):
    return Outcome(SKIPPED, reason, figures)


def check(condition, reason, **figures):
    """Returns a passed outcome if the condition holds, else one that failed for that reason."""
    return passed(**figures) if condition else failed(reason, **figures)


def now():
    return datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")


class State:
    """The outcomes of a proof in FOLDER/state.json. The file is replaced after every check, so a call that is killed loses only the
    check that was running. Opening a state with other settings than it was started with is an error, because the outcomes could
    not be compared."""

    def __init__(self, folder, settings):
        self.path = pathlib.Path(folder) / "state.json"
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self.document = {"schema": SCHEMA, "settings": settings, "machine": {}, "stages": {}}
        if self.path.exists():
            self.document = self._read()
            if settings is not None and self.document["settings"] != settings:
                raise BadState(f"{self.path} was started with {self.document['settings']}, not with {settings}: choose another --out")

    def _read(self):
        try:
            document = json.loads(self.path.read_text())
            if document["schema"] != SCHEMA or not isinstance(document["stages"], dict):
                raise ValueError(f"the schema is {document['schema']}")
            return document
        except (ValueError, KeyError, TypeError) as error:
            raise BadState(f"cannot read {self.path}: {error}: remove it to start again") from error

    def save(self):
        part = self.path.with_suffix(".part")
        with open(part, "w") as file:
            json.dump(self.document, file, indent=1, sort_keys=True)
            file.flush()
            os.fsync(file.fileno())
        os.replace(part, self.path)

    def set_machine(self, machine):
        """Stores the description of the machine, or checks that it is the one on which the proof was started."""
        before = self.document["machine"]
        for key in ("gpu", "host_cpu"):
            if before and before.get(key) != machine.get(key):
                raise BadState(f"{self.path} was measured on {before.get(key)}, and this machine has {machine.get(key)}: choose another --out")
        self.document["machine"] = machine
        self.save()

    def records(self, stage):
        return self.document["stages"].setdefault(stage, {})

    def attempts(self, stage, name):
        return self.records(stage).get(name, {}).get("attempts", 0)

    def outcome(self, stage, name):
        """Returns the outcome of a check, or None if the check has not ended."""
        record = self.records(stage).get(name, {})
        if "status" not in record:
            return None
        return Outcome(record["status"], record["reason"], record["figures"])

    def begin(self, stage, name):
        """Counts an attempt before the check starts, so that a check that ends its call is not tried forever."""
        record = self.records(stage).setdefault(name, {})
        record["attempts"] = record.get("attempts", 0) + 1
        self.save()

    def end(self, stage, name, outcome, seconds):
        self.records(stage)[name].update(status=outcome.status, reason=outcome.reason, figures=outcome.figures, seconds=round(seconds, 3),
                                         ended_at=now())
        self.save()

    def forget_failed(self, stage):
        """Removes the failed checks of a stage, so that the next call runs them again."""
        stored = self.records(stage)
        for name in [name for name, record in stored.items() if record.get("status") == FAILED]:
            del stored[name]
        self.save()
