#!/usr/bin/env python3
"""Checks that the JSON Schema accepts what the program accepts: the configs of the repository and the output of show-config.

usage: json_schema.py TRAINCTL CONFIGS"""

import json
import re
import subprocess
import sys
from pathlib import Path

import tree

try:
    import jsonschema
    import yaml
except ImportError as missing:
    tree.skip(f"{missing}: scripts/setup installs python3-jsonschema and python3-yaml")

# These are not valid experiments: `extends` allows missing keys, but no unknown ones.
WRONG = [
    "model: mlp",
    "extends: base.yaml\nmodle: mlp",
    "extends: base.yaml\noptimizer: {lr: fast}",
    "extends: base.yaml\noptimizer: {learning_rate: 1}",
    "{dataset: {train: synthetic_digits}, model: mlp, optimizer: {lr: 0.5}}",
    "{dataset: {train: synthetic_digits}, model: mlp, optimizer: adam, trainer: {max_epochs: 0}}",
]
RIGHT = [
    "extends: base.yaml\noptimizer: {lr: 0.5}\nscheduler: ~",
    "extends: [a.yaml, b.yaml]\ndataset: {train: {samples: 100}}",
    "{dataset: {train: synthetic_digits}, model: mlp, optimizer: '${env:OPTIMIZER,adam}', early_stopping: ~}",
    "{dataset: {train: synthetic_digits}, model: mlp, optimizer: adam, trainer: {max_epochs: ~}, metrics: ['${a.b}']}",
]


class Yaml12(yaml.SafeLoader):
    """Reads 1e-3 as a number, as the program does."""


Yaml12.add_implicit_resolver(
    "tag:yaml.org,2002:float", re.compile(r"^[-+]?[0-9]+(\.[0-9]*)?[eE][-+]?[0-9]+$"), list("-+0123456789"))


def asked(*command):
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def check(program, configs):
    schema = json.loads(asked(program, "schema"))
    jsonschema.Draft202012Validator.check_schema(schema)
    validator = jsonschema.Draft202012Validator(schema)

    def faults(text):
        return [error.message for error in validator.iter_errors(yaml.load(text, Yaml12))]

    accepted = {str(path): path.read_text() for path in sorted(Path(configs).rglob("*.yaml"))}
    accepted["show-config --full"] = asked(program, "show-config", "--full", f"{configs}/quickstart.yaml")
    accepted.update((text, text) for text in RIGHT)
    violations = [f"the schema rejects {name}: {fault}" for name, text in accepted.items() for fault in faults(text)]
    return violations + [f"the schema accepts {text!r}" for text in WRONG if not faults(text)]


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    tree.finish("json_schema", check(sys.argv[1], sys.argv[2]))
