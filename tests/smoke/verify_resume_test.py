"""Drives `trainctl verify-resume`, and `eval` on checkpoints that runs leave. Needs TRAINCTL_BINARY."""

import json
import pathlib
import shutil
import unittest

from run_test import Smoke, run

TINY = ["dataset.train.samples=500", "dataset.val.samples=200", "model.hidden=[8]", "trainer.max_epochs=2"]


class CheckpointsOfRuns(Smoke):
    def evaluate(self, checkpoint, *words):
        code, out, err = run(self.folder, "eval", self.run_dir, "--checkpoint", checkpoint, "--json", *words)
        self.assertEqual(code, 0, out + err)
        return json.loads(out)

    def folders(self):
        return sorted(path for path in (self.run_dir / "checkpoints").iterdir() if path.is_dir() and not path.is_symlink())

    def test_a_folder_is_evaluated_as_its_export(self):
        for average in ([], ["+trainer.ema={decay: 0.9}"]):
            self.train(*TINY, *average)
            exported = self.evaluate("last")
            last = (self.run_dir / "checkpoints" / "last").resolve()
            self.assertIn(last, self.folders())
            self.assertEqual(self.evaluate(last)["metrics"], exported["metrics"])
            self.assertEqual(self.evaluate(self.run_dir)["metrics"], exported["metrics"])
            (self.run_dir / "checkpoints" / "last.safetensors").unlink()
            self.assertEqual(self.evaluate("last")["metrics"], exported["metrics"])

    def test_a_damaged_folder_is_refused(self):
        self.train(*TINY)
        last = (self.run_dir / "checkpoints" / "last").resolve()
        data = bytearray((last / "rank_0.part").read_bytes())
        data[-1] ^= 1
        (last / "rank_0.part").write_bytes(bytes(data))
        code, out, err = run(self.folder, "eval", self.run_dir, "--checkpoint", last)
        self.assertEqual(code, 10, out + err)
        self.assertIn("rank_0.part", err)

    def test_a_checkpoint_stores_each_tensor_once(self):
        # The learning rate rises a thousandfold, so the first epoch is the best and later checkpoints also hold its weights.
        worsens = ["trainer.max_epochs=4", "model.hidden=[256]", "+checkpoint.monitor=val/loss",
                   "+scheduler={type: multi_step_lr, milestones: [1], gamma: 1000}"]
        adam, sgd = ["optimizer={type: adam, lr: 0.001}"], ["optimizer={type: sgd, lr: 0.01, momentum: 0.9}"]
        every, ema = ["+checkpoint.save_top_k=-1"], ["+trainer.ema={decay: 0.9}"]
        for words in (adam, adam + every, sgd, sgd + every, adam + ema, sgd + every + ema):
            with self.subTest(" ".join(words)):
                self.train(*TINY, *worsens, *words)
                self.check_bytes(4 if "save_top_k" in " ".join(words) else 2)

    def check_bytes(self, count):
        """Checks that each folder adds at most 1.1 times the weights, their average and the optimizer state; files that an
        earlier folder shares count there."""
        links = [path.stat().st_nlink for path in (self.run_dir / "checkpoints").glob("*.safetensors")]
        self.assertEqual(set(links), {1}, "a file that people may write into is linked")
        self.assertEqual(len(self.folders()), count)
        counted = set()
        for folder in self.folders():
            code, out, err = run(self.folder, "checkpoint", "inspect", folder, "--json")
            self.assertEqual(code, 0, out + err)
            groups = json.loads(out)["groups"]
            self.assertEqual(groups["keeper"]["bytes"], groups["model"]["bytes"])
            files = [path.stat() for path in folder.iterdir()]
            added = sum(info.st_size for info in files if info.st_ino not in counted)
            counted.update(info.st_ino for info in files)
            state = sum(groups[name]["bytes"] for name in ("model", "averager", "optimizer") if name in groups)
            self.assertLess(added, 1.1 * state, folder.name)
        code, out, err = run(self.folder, "checkpoint", "verify", self.run_dir)
        self.assertEqual(code, 0, out + err)

    def test_the_verbs_read_what_a_run_has_saved(self):
        self.train(*TINY)
        code, out, err = run(self.folder, "checkpoint", "verify", self.run_dir)
        self.assertEqual(code, 0, out + err)
        code, out, _ = run(self.folder, "checkpoint", "inspect", self.run_dir, "--json")
        self.assertEqual(code, 0)
        document = json.loads(out)
        self.assertEqual(document["manifest"]["global_step"], 20)
        self.assertIn("model", document["groups"])
        self.assertIn("optimizer", document["groups"])


class RunsThatAreResumed(Smoke):
    def verify(self, *words, code=0):
        returned, out, err = run(self.folder, "verify-resume", "digits.yaml", *words)
        self.assertEqual(returned, code, out + err)
        return out, err

    def test_two_kills_are_identical_and_nothing_is_left(self):
        before = {path.name for path in self.folder.iterdir()}
        document = json.loads(self.verify("--kills", "2", "--seed", "3", "--json")[0])
        self.assertEqual((document["schema"], document["exit_code"]), ("trainctl.verify_resume/2", 0))
        self.assertEqual((document["kills"], document["identical"]), (2, 2))
        self.assertEqual(document["uninterrupted"]["steps"], 120)
        for row in document["rows"]:
            self.assertEqual([row[name]["verdict"] for name in ("weights", "optimizer", "losses")], ["identical"] * 3)
            self.assertGreaterEqual(row["died_at"], 1)
        self.assertTrue(any(row["resumed_from"] for row in document["rows"]))
        self.assertIsNone(document["folder"])
        self.assertEqual({path.name for path in self.folder.iterdir()}, before)

    def test_two_ranks(self):
        out, err = self.verify("trainer.devices=2", "--kills", "3", *TINY)
        self.assertTrue(out.endswith("3 of 3 resumed runs are identical to the uninterrupted run\n"), out + err)
        for killed in ("rank 0", "rank 1", "all ranks"):
            self.assertIn(killed, out)

    def test_a_run_that_fails_or_is_too_short_proves_nothing(self):
        self.verify("trainer.max_epochs=~", "+trainer.max_steps=3", "--kills", "9", code=2)
        _, err = self.verify("optimizer.lr=1e30", "--kills", "1", code=6)
        self.assertIn("the uninterrupted run failed", err)
        kept = pathlib.Path(err.rsplit("; see ", 1)[1].splitlines()[0])
        self.addCleanup(shutil.rmtree, kept)
        self.assertTrue((kept / "uninterrupted" / "result.json").is_file())


if __name__ == "__main__":
    unittest.main(verbosity=2)
