"""Checks experiment files against configs/schema.json with a JSON Schema validator that is not ours (check-jsonschema), as an editor does.
Needs .release-venv (scripts/setup --checks)."""

import subprocess
import unittest

from support import SOURCE, Front, main

VALIDATOR = SOURCE / ".release-venv/bin/check-jsonschema"
SCHEMA = SOURCE / "configs/schema.json"
BROKEN = {
    "an unknown key": ("optimizer: { type: adam, learning_rate: 0.1 }", "learning_rate"),
    "a value of another type": ("trainer: { max_epochs: many }", "max_epochs"),
    "a missing stage": ("optimizer: { lr: 0.1 }", "optimizer"),
}


@unittest.skipUnless(VALIDATOR.exists(), "no .release-venv: scripts/setup --checks makes one")
class SchemaFile(Front):
    def validated(self, *files):
        return subprocess.run([VALIDATOR, "--schemafile", SCHEMA, *files], capture_output=True, text=True)

    def test_every_config_is_accepted(self):
        files = sorted((SOURCE / "configs").rglob("*.yaml"))
        self.assertGreater(len(files), 50)
        done = self.validated(*files)
        self.assertEqual(done.returncode, 0, done.stdout)

    def test_broken_configs_are_refused(self):
        right = "dataset: { train: synthetic_digits }\nmodel: mlp\noptimizer: adam\n"
        self.assertEqual(self.validated(self.write("right.yaml", right)).returncode, 0)
        for what, (line, key) in BROKEN.items():
            with self.subTest(what):
                kept = "".join(row for row in right.splitlines(keepends=True) if not row.startswith(line.partition(":")[0]))
                done = self.validated(self.write("broken.yaml", kept + line + "\n"))
                self.assertEqual(done.returncode, 1, done.stdout)
                self.assertIn(key, done.stdout)


if __name__ == "__main__":
    main()
