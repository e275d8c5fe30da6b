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

    def test_a_config_of_each_folder_is_accepted(self):
        """tree.json_schema checks all of them, with another reader of YAML, in a fraction of the time."""
        files = list({path.parent: path for path in sorted((SOURCE / "configs").rglob("*.yaml"))}.values())
        self.assertGreater(len(files), 10)
        done = self.validated(*files)
        self.assertEqual(done.returncode, 0, done.stdout)

    def test_broken_configs_are_refused(self):
        right = "dataset: { train: synthetic_digits }\nmodel: mlp\noptimizer: adam\n"
        files = [self.write("right.yaml", right)]
        for number, (line, _) in enumerate(BROKEN.values()):
            kept = "".join(row for row in right.splitlines(keepends=True) if not row.startswith(line.partition(":")[0]))
            files.append(self.write(f"broken{number}.yaml", kept + line + "\n"))
        done = self.validated(*files)
        self.assertEqual(done.returncode, 1, done.stdout)
        self.assertNotIn("right.yaml", done.stdout)
        for number, (what, (_, key)) in enumerate(BROKEN.items()):
            with self.subTest(what):
                said = done.stdout.partition(f"broken{number}.yaml::")[2].partition(".yaml::")[0]
                self.assertIn(key, said, done.stdout)


if __name__ == "__main__":
    main()
