"""A run that diverges dumps the step, and `trainctl run --replay-step` repeats it. Needs TRAINCTL_BINARY."""

import json
import unittest

from run_test import Smoke, run

HUGE = ["trainer.max_epochs=1", "+trainer.limit_train_batches=10", "optimizer={type: sgd, lr: 1.0e38}"]


class Replays(Smoke):
    def setUp(self):
        super().setUp()
        self.result = self.train(*HUGE, code=6)
        dumps = sorted((self.run_dir / "diverged").iterdir())
        self.assertEqual(len(dumps), 1, dumps)
        self.dump = dumps[0]

    def replay(self, *words, path=None, code=0):
        returned, self.out, self.err = run(self.folder, "run", "digits.yaml", *words, "--replay-step", path or self.dump)
        self.assertEqual(returned, code, self.out + self.err)

    def replayed(self, *words, path=None):
        self.replay(*words, "--json", path=path)
        document = json.loads(self.out)
        self.assertEqual(document["schema"], "trainctl.replay/2")
        return document

    def test_the_message_names_the_folder_and_the_report_the_layer(self):
        self.assertIn(str(self.dump), self.result["message"])
        self.assertEqual(sorted(path.name for path in self.dump.iterdir()), ["rank_0.part", "report.json", "report.txt"])
        report = (self.dump / "report.txt").read_text()
        self.assertRegex(report, r"The first value that is not finite: .*(layer '[a-z0-9_.]+'|the loss)")
        self.assertIn("Samples: ", report)
        self.assertIn("--replay-step ", report)

    def test_the_step_is_repeated_bit_by_bit(self):
        before = {path.name for path in self.folder.iterdir()}
        document = self.replayed(*HUGE)
        self.assertTrue(document["identical"], document)
        self.assertEqual(document["changed"], [])
        self.assertEqual(document["rows"], 50)
        self.assertRegex(document["first"], r"layer '[a-z0-9_.]+'|the loss")
        self.assertEqual(document["first"], document["recorded_first"])
        self.assertTrue(document["layers"])
        self.assertTrue(any(tensor["nan_count"] + tensor["inf_count"] for tensor in document["tensors"]))
        self.assertEqual({path.name for path in self.folder.iterdir()}, before, "a replay leaves nothing")

    def test_the_table_reports_the_identical_step(self):
        self.replay(*HUGE, path=self.run_dir)  # a run folder selects its newest dump
        self.assertIn("bitwise equal to the recording", self.out)
        self.assertRegex(self.out, r"(?m)^ output of +shape +NaN +Inf +min +max +mean$")

    def test_a_name_selects_the_newest_run(self):
        (self.folder / "runs/smoke").mkdir(parents=True)
        self.run_dir.rename(self.folder / "runs/smoke/20260101-000000")
        for name in ("smoke", "latest"):
            self.replay(*HUGE, path=name)
            self.assertIn("bitwise equal to the recording", self.out)

    def test_a_change_is_named_and_tried(self):
        document = self.replayed(*HUGE, "model={type: mlp, hidden: [16]}")
        self.assertFalse(document["identical"])
        self.assertTrue(any(line.startswith("model.hidden: [16], was [32]") for line in document["changed"]), document["changed"])
        self.assertTrue(document["initialized"])

    def test_a_damaged_dump_is_refused(self):
        part = self.dump / "rank_0.part"
        data = bytearray(part.read_bytes())
        data[len(data) // 2] ^= 4
        part.write_bytes(data)
        self.replay(*HUGE, code=10)
        self.assertIn("rank_0.part", self.out + self.err)

    def test_a_missing_dump_is_a_usage_error(self):
        self.replay(*HUGE, path=self.folder / "nowhere", code=2)
        (self.folder / "empty").mkdir()
        self.replay(*HUGE, path=self.folder / "empty", code=2)
        self.assertIn("must contain a file such as rank_0.part", self.out + self.err)

    def test_a_run_folder_selects_the_dump_of_its_newest_attempt(self):
        run = self.folder / "several"
        for attempt in ("attempt-2", "attempt-10"):
            (run / attempt / "diverged/step=000001").mkdir(parents=True)
            (run / attempt / "diverged/step=000001/rank_0.part").write_text(attempt)
        self.replay(*HUGE, path=run, code=10)      # the file exists, but is damaged
        self.assertIn("attempt-10/diverged/step=000001/rank_0.part", self.out + self.err)


if __name__ == "__main__":
    unittest.main()
