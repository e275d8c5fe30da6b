"""Runs experiments, and reads the files of run folders."""

import csv
import dataclasses
import json
import os
import pathlib
import subprocess
from collections.abc import Iterable, Mapping
from typing import Any, Literal

from trainctl import program

Path = str | os.PathLike[str]
SCHEMA = "trainctl.result/2"
TABLES = {"epochs": "epochs.csv", "timing": "timing.csv", "steps": "metrics.jsonl"}


@dataclasses.dataclass(frozen=True)
class Best:
    """The best value of the monitored metric."""

    metric: str
    """Name with its split, such as "val/loss"."""
    value: float
    epoch: int
    """Counted from 1."""
    checkpoint: pathlib.Path | None
    """Safetensors file of the weights of this epoch; None if it was not saved."""


@dataclasses.dataclass(frozen=True)
class Result:
    """The result of a run, from its result.json."""

    run_dir: pathlib.Path | None
    """None if the run ended before it had a folder."""
    verdict: str
    """"ok", "diverged", "hang", "stopped", "interrupted", "terminated", "failed", or "unfinished" while the run trains."""
    exit_code: int | None
    """Exit code of the program; None while the run trains."""
    message: str
    """The error message; empty if there was no error."""
    epochs: int
    """Number of complete epochs."""
    steps: int
    wall_s: float
    samples_per_s: float | None
    """Training samples per second in the epochs after the first."""
    train: Mapping[str, float]
    """Metrics of the last epoch by name, without the prefix of the split."""
    val: Mapping[str, float]
    best: Best | None
    document: Mapping[str, Any] = dataclasses.field(repr=False)
    """The whole document: docs/reference/json.md lists its keys."""

    @property
    def ok(self) -> bool:
        return self.exit_code == 0


class RunError(RuntimeError):
    """A run ended with an exit code other than 0."""

    def __init__(self, message: str, exit_code: int, result: Result | None) -> None:
        super().__init__(message, exit_code, result)  # all arguments, so that the error can be pickled
        self.exit_code = exit_code
        self.result = result
        """None if the experiment was not valid, so that no run was started."""

    def __str__(self) -> str:
        return str(self.args[0])


def run(config: Path | None = None, overrides: Mapping[str, Any] | Iterable[str] = (), *, run_dir: Path | None = None, resume: Path | None = None,
        check: bool = True) -> Result:
    """Trains an experiment with `trainctl run` and waits for its end. Progress is printed to stderr.

    Args:
        config: experiment file. None: ./config.yaml, else an experiment that is part of the program.
        overrides: values by key, such as {"optimizer.lr": 0.01}, or texts such as "optimizer.lr=0.01", "+key=value" and "~key".
            Values are numbers, texts, paths, None, and lists and dicts of these.
        run_dir: folder of the run. None: runs/NAME/TIME.
        resume: checkpoint to resume from: "auto", "last", "best" or a path.
        check: whether to raise an error if the run fails.

    Raises:
        RunError: the experiment is not valid, or `check` is true and the run failed.
        FileNotFoundError: the program was not found.
        TypeError: an override has a type that YAML does not have.
    """
    command = [program.find_program(), "run", *([os.fspath(config)] if config is not None else []), *_texts(overrides), "--json"]
    for option, value in (("--run-dir", run_dir), ("--resume", resume)):
        if value is not None:
            command += [option, os.fspath(value)]
    with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True, env=program.environment()) as process:
        output = _output_of(process)
    document = json.loads(output) if output else {}
    if document.get("schema") != SCHEMA:
        message = document.get("message") or f"trainctl ended with exit code {process.returncode}; its messages are on stderr"
        hint = document.get("hint")
        raise RunError(f"{message}\nhint: {hint}" if hint else message, process.returncode, None)
    result = _result(document, document.get("run_dir", run_dir))
    if check and process.returncode != 0:
        raise RunError(result.message or f"the run ended with exit code {process.returncode}", process.returncode, result)
    return result


def load_result(path: Path) -> Result:
    """Returns the result of a run, from its folder or its result.json. Raises FileNotFoundError, or ValueError if the file is not a
    result of this version."""
    file = pathlib.Path(path)
    if file.is_dir():
        file /= "result.json"
    try:
        document = json.loads(file.read_text())
    except ValueError as error:
        raise ValueError(f"cannot read {file}: it is not JSON: {error}") from error
    schema = document.get("schema") if isinstance(document, dict) else None
    if schema != SCHEMA:
        raise ValueError(f"the schema of {file} must be {SCHEMA}, got {schema}")
    return _result(document, file.parent)


def load_metrics(run_dir: Path, table: Literal["epochs", "timing", "steps"] = "epochs") -> Any:
    """Returns the metrics of a run: of its epochs, the times of its epochs, or the values logged during training.

    Returns:
        pandas.DataFrame if pandas is installed, else pyarrow.Table if pyarrow is installed, else a list with a dict for each row.

    Raises:
        FileNotFoundError: the run did not write the table; "steps" needs the logger jsonl.
        ValueError: there is no such table.
    """
    if table not in TABLES:
        raise ValueError(f"table must be one of {', '.join(TABLES)}, got {table!r}")
    with open(pathlib.Path(run_dir) / TABLES[table], newline="") as file:
        if table == "steps":
            rows = [row for row in map(json.loads, file) if row.pop("type") == "step"]
        else:
            rows = [{name: _number(text) for name, text in row.items()} for row in csv.DictReader(file)]
    try:
        import pandas
    except ImportError:
        pass
    else:
        return pandas.DataFrame(rows)
    try:
        import pyarrow
    except ImportError:
        return rows
    return pyarrow.Table.from_pylist(rows)


def _texts(overrides: Mapping[str, Any] | Iterable[str]) -> list[str]:
    if isinstance(overrides, str):
        raise TypeError("overrides must be a mapping or a list of texts, got a single text")
    if isinstance(overrides, Mapping):
        # JSON is YAML; a text stays as it is, so that "0.01" and 0.01 mean the same as on the command line.
        return [f"{key}={value if isinstance(value, str) else json.dumps(value, default=_plain)}" for key, value in overrides.items()]
    return list(overrides)


def _plain(value: Any) -> Any:
    """Converts a path, or a scalar of NumPy or PyTorch, into a value that JSON has."""
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    if hasattr(value, "item"):
        return value.item()
    raise TypeError(f"an override must be a number, a text, a path, None, a list or a dict, got {type(value).__name__}")


def _output_of(process: subprocess.Popen[str]) -> str:
    while True:
        try:
            return process.communicate()[0]
        except KeyboardInterrupt:
            # The terminal sends Ctrl-C to the program, too: it saves a checkpoint and ends by itself.
            continue


def _number(text: str) -> float | int | str | None:
    if text == "":
        return None
    for convert in (int, float):
        try:
            return convert(text)
        except ValueError:
            pass
    return text


def _metrics(values: Mapping[str, Any] | None) -> dict[str, float]:
    return {name: float(value) for name, value in (values or {}).items() if value is not None}


def _result(document: Mapping[str, Any], folder: Path | None) -> Result:
    run_dir = None if folder is None else pathlib.Path(folder)
    best = document.get("best")
    if best is not None:
        saved = best.get("checkpoint")
        best = Best(best["metric"], float(best["value"]), best["epoch"], None if saved is None or run_dir is None else run_dir / saved)
    rate = document.get("samples_per_s")
    return Result(run_dir, document["verdict"], document["exit_code"], document["message"], document["epochs"], document["steps"],
                  float(document["wall_s"]), None if rate is None else float(rate), _metrics(document.get("train")), _metrics(document.get("val")), best,
                  document)
