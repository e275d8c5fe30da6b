"""Drives runs with options of `trainer` that Lightning has under the same names. Needs TRAINCTL_BINARY."""

import csv
import json
import pathlib
import tempfile
import unittest

from support import run

CONFIG = """\
name: options
seed: 7
dataset:
  train: {type: csv, path: rows.csv, label: y, standardize: true}
  split: {val: 0.2, test: 0.1, seed: 1}
loader: {batch_size: 14, num_workers: 0}
model: {type: mlp, hidden: [8]}
optimizer: {type: adam, lr: 0.01}
metrics: [accuracy]
trainer: {max_epochs: 2, accelerator: cpu, num_threads: 1, devices: 1, log_every_n_steps: 2}
"""


class InAFolder(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory(prefix="trainctl-options-")
        self.addCleanup(scratch.cleanup)
        self.folder = pathlib.Path(scratch.name)
        lines = ["a,b,y"] + [f"{i % 7},{i * i % 11},{'well' if i % 7 > 3 else 'ill'}" for i in range(200)]
        (self.folder / "rows.csv").write_text("\n".join(lines))
        (self.folder / "options.yaml").write_text(CONFIG)

    def train(self, run_dir, *words, code=0):
        ended, out, err = run(self.folder, "run", "options.yaml", "--run-dir", run_dir, *words)
        self.assertEqual(ended, code, err)
        return out + err

    def rows(self, path):
        with open(self.folder / path, newline="") as lines:
            return list(csv.DictReader(lines))

    def lines(self, run_dir, kind):
        lines = [json.loads(line) for line in (self.folder / run_dir / "metrics.jsonl").read_text().splitlines()]
        return [line for line in lines if line["type"] == kind]

    def result(self, run_dir):
        return json.loads((self.folder / run_dir / "result.json").read_text())


class ValidatesAndTests(InAFolder):
    def test_validations_within_epochs_are_logged_and_survive_a_resume(self):
        printed = self.train("whole", "trainer.val_check_interval=0.3")  # ten steps per epoch
        self.assertEqual([(row["epoch"], row["step"]) for row in self.rows("whole/validations.csv")],
                         [("1", "3"), ("1", "6"), ("1", "9"), ("2", "13"), ("2", "16"), ("2", "19")])
        found = self.lines("whole", "validation")
        self.assertEqual([line["step"] for line in found], [3, 6, 9, 13, 16, 19])
        self.assertEqual({"type", "epoch", "step", "val/loss", "val/accuracy"}, set(found[0]))
        self.assertIn("epoch 1, step 3: val/loss ", printed)

        self.train("parts", "trainer.val_check_interval=0.3", "trainer.max_steps=14")
        self.train("parts", "--resume", "last", "trainer.val_check_interval=0.3")
        self.assertEqual(self.lines("parts", "validation"), found)
        self.assertEqual(self.result("parts")["val"], self.result("whole")["val"])

    def test_the_test_set_is_evaluated_with_the_best_weights_on_all_ranks(self):
        printed = self.train("one", "trainer.test=true")
        result = self.result("one")
        self.assertEqual(result["test_weights"], "best")
        self.assertIn("(best weights)", printed)
        self.assertEqual(self.lines("one", "test")[0]["test/loss"], result["test"]["loss"])
        self.assertEqual(float(self.rows("one/test.csv")[0]["test/accuracy"]), result["test"]["accuracy"])
        code, out, err = run(self.folder, "eval", "one", "--checkpoint", "best", "--split", "test", "--json")
        self.assertEqual(code, 0, err)
        self.assertAlmostEqual(json.loads(out)["metrics"]["loss"], result["test"]["loss"], places=6)

        self.train("two", "trainer.test=true", "trainer.devices=2", "loader.batch_size=7", "checkpoint.save_top_k=0")
        self.assertEqual(self.result("two")["test_weights"], "last")
        self.assertAlmostEqual(self.result("two")["test"]["loss"], result["test"]["loss"], places=1)

        self.train("part", "trainer.test=true", "--until-epoch", "1")
        self.assertEqual(self.result("part")["test"], {})
        printed = self.train("none", "trainer.test=true", "dataset.split={val: 0.2}", code=2)
        self.assertIn("'test: true' needs a test set", printed)


if __name__ == "__main__":
    unittest.main()
