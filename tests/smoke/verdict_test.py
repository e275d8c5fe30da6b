"""Runs with a planted fault, each far beyond everything else, and what the verdict makes of them. Needs TRAINCTL_BINARY and
TRAINCTL_SLOW_PLUGIN, a data set that sleeps."""

import hashlib
import json
import os
import pathlib
import unittest

from support import Smoke, main, run

# Saves that would be a part of the time of short epochs.
NO_SAVES = ["checkpoint.every_n_epochs=100", "checkpoint.save_top_k=0", "checkpoint.save_last=false"]
SLOW_TRANSFORMS = ("dataset.train.transforms=[{type: resize, size: 256}, {type: gaussian_blur, kernel_size: 31}, "
                   "{type: resize, size: 28}, {type: normalize, mean: [0.2], std: [0.3]}]")


class Verdicts(Smoke):
    def verdict(self, *words):
        found = self.train(*words)["bottleneck"]
        self.assertTrue(found["evidence"], found)
        for each in found["evidence"]:
            self.assertEqual(sorted(each), ["name", "text", "unit", "value"])
        self.assertIn("a perfect loader would give", found["perfect_loader"]["text"])
        self.assertIn(found["perfect_loader"]["text"], self.out)
        self.assertGreaterEqual(found["perfect_loader"]["speedup"], 1)
        return found

    def accepts(self, found):
        """The setting is one that the program takes with this experiment."""
        code, out, err = run(self.folder, "validate", "digits.yaml", found["setting"])
        self.assertEqual(code, 0, out + err)


class InputBound(Verdicts):
    def test_heavy_transforms_without_a_worker_ask_for_workers(self):
        found = self.verdict("loader.num_workers=0", "dataset.cache.mode=none", "dataset.train.samples=400", SLOW_TRANSFORMS,
                             "trainer.limit_val_batches=1", *NO_SAVES)
        self.assertEqual((found["verdict"], found["cause"]), ("input_bound", "no_workers"), found)
        self.assertTrue(found["setting"].startswith("loader.num_workers="), found)
        self.assertGreater(found["headroom"], 1.5)
        self.assertIn("try " + found["setting"], self.out)
        self.accepts(found)

    def test_the_replay_of_a_batch_leaves_the_same_run(self):
        words = ["loader.num_workers=1", "dataset.cache.mode=none", "dataset.train.samples=600", SLOW_TRANSFORMS,
                 "trainer.limit_val_batches=1"]
        result = self.train(*words)
        left = self.left()
        plain = self.train(*words, "trainer.detect_anomaly=true")  # of such a run nothing is replayed
        self.assertEqual(plain["bottleneck"]["perfect_loader"]["replayed_steps"], 0)
        self.assertEqual(self.left(), left)
        self.assertEqual(plain["data_digest"], result["data_digest"])
        if result["timing"]["wall_s"] > 4:  # seven steps of a small network are well below 1 % of that
            self.assertGreaterEqual(result["bottleneck"]["perfect_loader"]["replayed_steps"], 5)

    def left(self):
        """Losses, the names of the checkpoints, and the weights of the last as bytes."""
        out = self.run_dir / "weights.safetensors"
        code, said, err = run(self.folder, "checkpoint", "export", self.run_dir / "checkpoints" / "last", "--out", out)
        self.assertEqual(code, 0, said + err)
        files = sorted(str(path.relative_to(self.run_dir)) for path in (self.run_dir / "checkpoints").rglob("*"))
        weights = out.read_bytes()
        header = 8 + int.from_bytes(weights[:8], "little")  # it may name the run
        return self.losses(self.run_dir), files, hashlib.sha256(weights[header:]).hexdigest()


class SlowRank(Verdicts):
    def test_a_rank_that_waits_for_its_loader_asks_for_workers(self):
        plugin = os.environ["TRAINCTL_SLOW_PLUGIN"]
        found = self.verdict(f"+plugins=[{plugin}]", "dataset.train={type: slow_rows, samples: 640, microseconds: 2000, rank: 1}",
                             "~dataset.val", "model=linear", "loader.batch_size=16", "loader.num_workers=0", "trainer.devices=2",
                             "trainer.max_epochs=2", *NO_SAVES)
        self.assertEqual((found["verdict"], found["cause"]), ("communication_bound", "slow_loading_rank"), found)
        self.assertRegex(found["setting"], "^loader.num_workers=[1-9]")
        self.assertGreater(found["perfect_loader"]["speedup"], 3, found)
        self.assertIn("straggler_data_wait", [each["name"] for each in found["evidence"]])


class SavesAndValidates(Verdicts):
    def test_a_checkpoint_at_each_step_asks_for_fewer(self):
        found = self.verdict("checkpoint.every_n_steps=1", "trainer.limit_val_batches=1", "loader.num_workers=0")
        self.assertEqual((found["verdict"], found["cause"]), ("checkpoint_bound", "saved_too_often"), found)
        self.assertTrue(found["setting"].startswith("checkpoint.every_n_steps="), found)
        self.accepts(found)

    def test_a_validation_far_larger_than_the_training_asks_for_fewer(self):
        found = self.verdict("dataset.train.samples=100", "dataset.val.samples=15000", "trainer.max_epochs=4",
                             "loader.num_workers=0", *NO_SAVES)
        self.assertEqual((found["verdict"], found["cause"]), ("evaluation_bound", "validated_too_often"), found)
        self.assertEqual(found["setting"], "trainer.check_val_every_n_epoch=2")
        self.accepts(found)


class ThreadsAndHealth(Verdicts):
    WORK = ["optimizer={type: sgd, lr: 0.01}", "loader.num_workers=0", "trainer.limit_val_batches=1", *NO_SAVES]

    @unittest.skipIf(len(os.sched_getaffinity(0)) >= 8, "too many cores for 16 threads to stand in each other's way")
    @unittest.skipUnless(pathlib.Path("/proc/pressure/cpu").is_file(), "this kernel does not tell pressure")
    def test_many_more_threads_than_cores_are_told_from_work(self):
        found = self.verdict("trainer.num_threads=16", "model.hidden=[2048, 2048]", "loader.batch_size=256", *self.WORK)
        self.assertEqual((found["verdict"], found["cause"]), ("host_bound", "threads_oversubscribed"), found)
        self.assertTrue(found["setting"].startswith("trainer.num_threads="), found)
        self.assertLess(int(found["setting"].split("=")[1]), 16)
        self.accepts(found)

    def test_a_healthy_run_has_nothing_to_fix(self):
        found = self.verdict("model.hidden=[512, 512]", "loader.batch_size=100", *self.WORK)
        stalled = max((each["value"] for each in found["evidence"] if each["name"] in ("cpu_stalled", "throttled")), default=0)
        if stalled > 0.05:
            self.skipTest("other processes take the cores")  # then that is what the verdict tells
        self.assertIn(found["verdict"], ("compute_bound", "balanced"), found)
        self.assertIsNone(found["setting"], found)
        self.assertLess(found["perfect_loader"]["speedup"], 1.3)

    def test_the_rules_are_printed(self):
        code, page, err = run(self.folder, "explain", "--bottlenecks")
        self.assertEqual(code, 0, err)
        code, out, err = run(self.folder, "explain", "--bottlenecks", "--json")
        document = json.loads(out)
        self.assertEqual((code, document["schema"]), (0, "trainctl.bottlenecks/1"), err)
        for rule in document["rules"]:
            self.assertIn(f"`{rule['cause']}`", page)
        for words in (["explain"], ["explain", "seed", "--bottlenecks"]):
            code, _, err = run(self.folder, *words)
            self.assertEqual(code, 2)
            self.assertIn("--bottlenecks", err)


if __name__ == "__main__":
    main()
