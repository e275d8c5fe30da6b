"""Plants a fault that is far larger than every other cost, and checks the verdict. Needs TRAINCTL_BINARY and
TRAINCTL_SLOW_PLUGIN, a data set that sleeps."""

import hashlib
import json
import os
import pathlib
import unittest

from support import Smoke, busy_cores, main, measures_time, run

# Saves would take a large part of a short epoch.
NO_SAVES = ["checkpoint.every_n_epochs=100", "checkpoint.save_top_k=0", "checkpoint.save_last=false"]
SLOW_TRANSFORMS = ("dataset.train.transforms=[{type: resize, size: 256}, {type: gaussian_blur, kernel_size: 31}, "
                   "{type: resize, size: 28}, {type: normalize, mean: [0.2], std: [0.3]}]")


class Verdicts(Smoke):
    def verdict(self, *words, quiet=True):
        """Trains and returns the verdict; `quiet` removes the part that other processes cause by taking the cores."""
        result = self.train(*words)
        self.first_rate = result["samples_per_s"]
        found = result["bottleneck"]
        if quiet and found["verdict"] == "machine_busy":
            found = found["otherwise"]
        self.assertTrue(found["evidence"], found)
        for each in found["evidence"]:
            self.assertEqual(sorted(each), ["name", "text", "unit", "value"])
        self.assertIn("if data loading took no time, the run would be", found["perfect_loader"]["text"])
        self.assertIn(found["perfect_loader"]["text"], self.out)
        self.assertGreaterEqual(found["perfect_loader"]["speedup"], 1)
        return found

    def accepts(self, found):
        """Checks that the program accepts the proposed setting in this experiment."""
        code, out, err = run(self.folder, "validate", "digits.yaml", found["setting"])
        self.assertEqual(code, 0, out + err)


class InputBound(Verdicts):
    @measures_time
    def test_heavy_transforms_without_a_worker_ask_for_workers(self):
        found = self.verdict("loader.num_workers=0", "dataset.cache.mode=none", "dataset.train.samples=400", SLOW_TRANSFORMS,
                             "trainer.limit_val_batches=1", *NO_SAVES)
        self.assertEqual((found["verdict"], found["cause"]), ("input_bound", "no_workers"), found)
        self.assertTrue(found["setting"].startswith("loader.num_workers="), found)
        if found["headroom"] is not None:
            self.assertGreater(found["headroom"], 1.5)
        self.assertIn("try " + found["setting"], self.out)
        self.accepts(found)

    def test_the_replay_of_a_batch_leaves_the_same_run(self):
        words = ["loader.num_workers=1", "dataset.cache.mode=none", "dataset.train.samples=600", SLOW_TRANSFORMS,
                 "trainer.limit_val_batches=1"]
        result = self.train(*words)
        left = self.left()
        plain = self.train(*words, "trainer.detect_anomaly=true")  # detect_anomaly disables the replay
        self.assertEqual(plain["bottleneck"]["perfect_loader"]["replayed_steps"], 0)
        self.assertEqual(self.left(), left)
        self.assertEqual(plain["data_digest"], result["data_digest"])
        if result["timing"]["wall_s"] > 4:  # seven steps of a small network are then well below 1 %
            self.assertGreaterEqual(result["bottleneck"]["perfect_loader"]["replayed_steps"], 5)

    def left(self):
        """Returns the losses, the names of the checkpoints, and a hash of the last weights."""
        out = self.run_dir / "weights.safetensors"
        code, said, err = run(self.folder, "checkpoint", "export", self.run_dir / "checkpoints" / "last", "--out", out)
        self.assertEqual(code, 0, said + err)
        files = sorted(str(path.relative_to(self.run_dir)) for path in (self.run_dir / "checkpoints").rglob("*"))
        weights = out.read_bytes()
        header = 8 + int.from_bytes(weights[:8], "little")  # the header may contain the name of the run
        return self.losses(self.run_dir), files, hashlib.sha256(weights[header:]).hexdigest()


class Settings(Verdicts):
    """Tests settings that slow forward and backward. The test follows the advice, and the gain lies within the claimed interval."""
    SLACK = 1.6  # other work on the machine may slow down either run by this factor
    CHECKED = ["loader.batch_size", "trainer.num_threads", "trainer.precision", "trainer.detect_anomaly"]

    def skip_if_busy(self, found):
        """Skips the test if the machine is busy; `found` is the verdict with quiet=False."""
        if found["verdict"] == "machine_busy":
            self.skipTest(f"other processes take {found['share']:.0%} of the cores")

    def rate(self, *words):
        return self.train(*words, *NO_SAVES)["samples_per_s"]

    def follow(self, found, *words, least=0.0):
        """Runs once with the setting, and checks that the gain is at least `least` and within the claim. If it is not, compares the better of
        two runs with the words, of which the verdict's is one, with the better of two with the setting."""
        key, value = found["setting"].split("=", 1)
        changed = [*(word for word in words if not word.startswith(key + "=")), f"++{key}={value}"]
        before, after, gain = self.first_rate, self.rate(*changed), found["gain"]
        low, high = max(least, gain["low"] / self.SLACK), (gain["high"] or float("inf")) * self.SLACK
        if not low < after / before < high:
            before, after = max(before, self.rate(*words)), max(after, self.rate(*changed))
        self.assertTrue(low < after / before < high, (found["setting"], before, after, gain))
        if gain["high"] is not None:
            self.assertEqual(found["headroom"], gain["high"])

    @measures_time
    def test_a_linear_model_with_batches_of_one_row_asks_for_larger_ones(self):
        words = ["model=linear", "loader.batch_size=1", "loader.num_workers=0", "dataset.train.samples=3000",
                 "optimizer={type: sgd, lr: 0.01}", "trainer.limit_val_batches=1", "trainer.num_threads=1", "trainer.max_epochs=3"]
        found = self.verdict(*words, *NO_SAVES)
        self.assertRegex(found["setting"] or "", "^loader.batch_size=[248]$", found)
        self.accepts(found)
        self.follow(found, *words, least=1.1)

    @measures_time
    def test_detect_anomaly_is_the_cause(self):
        words = ["model.hidden=[64, 64, 64, 64]", "loader.batch_size=16", "loader.num_workers=0", "dataset.train.samples=4000",
                 "trainer.limit_val_batches=1", "trainer.num_threads=1", "trainer.detect_anomaly=true", "trainer.max_epochs=3"]
        found = self.verdict(*words, *NO_SAVES)
        self.assertEqual((found["cause"], found["setting"]), ("anomaly_checks", "trainer.detect_anomaly=false"), found)
        self.follow(found, *words, least=1.1)

    @unittest.skipIf(len(os.sched_getaffinity(0)) < 2, "one thread takes the only core")
    @measures_time
    def test_one_thread_next_to_an_idle_core_asks_for_more(self):
        words = ["model.hidden=[1024, 1024]", "loader.batch_size=256", "loader.num_workers=0", "dataset.train.samples=10000",
                 "optimizer={type: sgd, lr: 0.01}", "trainer.limit_val_batches=1", "trainer.num_threads=1", "trainer.max_epochs=3"]
        found = self.verdict(*words, *NO_SAVES, quiet=False)
        self.skip_if_busy(found)
        (threads,) = [check for check in found["checks"] if check["key"] == "trainer.num_threads"]
        if threads["gain"] is not None and threads["gain"]["low"] < 1.15:
            self.skipTest(f"more threads hardly help on this machine: {threads['text']}")
        idle = [each["value"] for each in found["evidence"] if each["name"] == "idle_cores"]
        if threads["gain"] is None and idle and idle[0] * len(os.sched_getaffinity(0)) < 0.75:
            self.skipTest(f"no core is idle, but {idle[0]:.0%} of them all")
        self.assertEqual(found["cause"], "few_threads", found)
        self.assertRegex(found["setting"], "^trainer.num_threads=[1-9]")
        self.assertGreater(int(found["setting"].split("=")[1]), 1)
        self.accepts(found)
        self.follow(found, *words)

    @measures_time
    def test_a_loader_that_waits_for_its_source_asks_for_workers(self):
        # The loader sleeps and takes no core, so workers help even on a busy machine.
        plugin = os.environ["TRAINCTL_SLOW_PLUGIN"]
        words = [f"+plugins=[{plugin}]", "dataset.train={type: slow_rows, samples: 320, microseconds: 4000}", "~dataset.val",
                 "model=linear", "loader.batch_size=16", "loader.num_workers=0", "trainer.num_threads=1", "trainer.max_epochs=2",
                 "dataset.cache.mode=none"]
        found = self.verdict(*words, *NO_SAVES)
        self.assertEqual(found["verdict"], "input_bound", found)
        self.assertIn(found["cause"], ("slow_source", "no_workers"), found)
        self.assertRegex(found["setting"], "^loader.num_workers=[1-9]")
        code, out, err = run(self.folder, "validate", "digits.yaml", *words, "++" + found["setting"])
        self.assertEqual(code, 0, out + err)
        self.follow(found, *words, least=1.1)

    def claims(self, found):
        """Checks the claim of each setting, and returns the checks by key."""
        self.assertEqual([check["key"] for check in found["checks"]], self.CHECKED)
        for check in found["checks"]:
            gain = check["gain"]
            if not check["compared"]:
                self.assertEqual((gain, check["text"]), (None, "not tried"))
            elif gain is None:
                self.assertNotIn("x as fast", check["text"])  # a rule excludes the setting
            else:
                self.assertIn(gain["text"], check["text"])
                self.assertLessEqual(gain["low"], gain["high"] or float("inf"))
        self.assertEqual(found["headroom"], found["gain"]["high"])
        self.assertNotIn("hardly", found["advice"])
        return {check["key"]: check for check in found["checks"]}

    def test_no_verdict_claims_what_was_not_compared(self):
        found = self.verdict("model.hidden=[512, 512]", "loader.batch_size=100", "loader.num_workers=0", *NO_SAVES)
        checks = self.claims(found)
        self.assertTrue(checks["trainer.detect_anomaly"]["compared"])
        if found["setting"] is None:
            if found["cause"] in ("model_at_work", "nothing_to_fix"):
                for check in found["checks"]:
                    if not check["compared"]:
                        self.assertIn(check["key"], found["advice"])
            if "more devices" in found["advice"]:
                self.assertIsNone(found["headroom"])
                if "  otherwise " not in self.out:  # on a busy machine, the advice is to repeat the run
                    self.assertIn("--devices 1,2", self.out)
            return
        self.assertTrue(found["advice"].startswith(f"try {found['setting']}: "), found)
        self.assertIn("try " + found["setting"], self.out)
        self.accepts(found)
        check = checks.get(found["setting"].split("=")[0])
        if check and check["compared"]:
            self.assertTrue(found["gain"]["replayed"], found)
            self.assertGreaterEqual(found["gain"]["low"], 1.15, found)
        else:  # a rule proposed it, and only an upper bound is known
            self.assertFalse(found["gain"]["replayed"], found)
            self.assertEqual(found["gain"]["low"], 1, found)

    def test_a_run_of_which_nothing_is_replayed_claims_no_gain(self):
        found = self.verdict("model.hidden=[64]", "loader.batch_size=100", "loader.num_workers=0", "trainer.devices=2", *NO_SAVES)
        checks = self.claims(found)
        for key in ("loader.batch_size", "trainer.num_threads", "trainer.precision"):
            self.assertIsNone(checks[key]["gain"], found)
        self.assertFalse(checks["loader.batch_size"]["compared"], found)
        self.assertFalse(found["gain"]["replayed"], found)
        self.assertEqual(found["gain"]["low"], 1, found)


class BusyMachine(Verdicts):
    @unittest.skipUnless(pathlib.Path("/proc/stat").is_file(), "this kernel does not report the use of cores")
    def test_processes_that_take_all_cores_are_named_first(self):
        with busy_cores():
            found = self.verdict("model.hidden=[512, 512]", "loader.batch_size=100", "loader.num_workers=0",
                                 "dataset.train.samples=8000", "trainer.max_epochs=2", "trainer.limit_val_batches=1", *NO_SAVES, quiet=False)
        shares = {each["name"]: each["value"] for each in found["evidence"]}
        if "outside_cores" not in shares:
            self.skipTest("the kernel does not report the use of these cores")
        self.assertEqual((found["verdict"], found["cause"]), ("machine_busy", "cores_taken"), found)
        self.assertGreater(shares["outside_cores"], 0.2)
        self.assertIn("% of the CPU time", found["advice"])
        self.assertIsNone(found["headroom"])
        self.assertIn("trainctl run", self.out.split("next")[-1].replace(os.environ["TRAINCTL_BINARY"], "trainctl"))


class SlowRank(Verdicts):
    @measures_time
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
    @measures_time
    def test_a_checkpoint_at_each_step_asks_for_fewer(self):
        found = self.verdict("checkpoint.every_n_steps=1", "trainer.limit_val_batches=1", "loader.num_workers=0")
        self.assertEqual((found["verdict"], found["cause"]), ("checkpoint_bound", "saved_too_often"), found)
        self.assertTrue(found["setting"].startswith("checkpoint.every_n_steps="), found)
        self.accepts(found)

    @measures_time
    def test_a_validation_far_larger_than_the_training_asks_for_fewer(self):
        found = self.verdict("dataset.train.samples=100", "dataset.val.samples=15000", "trainer.max_epochs=4",
                             "loader.num_workers=0", *NO_SAVES)
        self.assertEqual((found["verdict"], found["cause"]), ("evaluation_bound", "validated_too_often"), found)
        self.assertEqual(found["setting"], "trainer.check_val_every_n_epoch=2")
        self.accepts(found)


class ThreadsAndHealth(Verdicts):
    WORK = ["optimizer={type: sgd, lr: 0.01}", "loader.num_workers=0", "trainer.limit_val_batches=1", *NO_SAVES]

    @unittest.skipIf(len(os.sched_getaffinity(0)) >= 8, "too many cores for 16 threads to slow each other down")
    @unittest.skipUnless(pathlib.Path("/proc/pressure/cpu").is_file(), "this kernel does not report pressure")
    @measures_time
    def test_many_more_threads_than_cores_are_distinguished_from_work(self):
        found = self.verdict("trainer.num_threads=16", "model.hidden=[2048, 2048]", "loader.batch_size=256", *self.WORK)
        self.assertEqual((found["verdict"], found["cause"]), ("host_bound", "threads_oversubscribed"), found)
        self.assertTrue(found["setting"].startswith("trainer.num_threads="), found)
        self.assertLess(int(found["setting"].split("=")[1]), 16)
        self.accepts(found)

    @measures_time
    def test_a_healthy_run_has_nothing_to_fix(self):
        found = self.verdict("model.hidden=[512, 512]", "loader.batch_size=100", *self.WORK)
        stalled = max((each["value"] for each in found["evidence"] if each["name"] in ("cpu_stalled", "throttled")), default=0)
        if stalled > 0.05:
            self.skipTest("other processes take the cores")  # the verdict reports the other processes
        self.assertIn(found["verdict"], ("compute_bound", "balanced"), found)
        if found["setting"] is not None:  # a replay found a gain on this machine, or there was no time for one
            self.assertTrue(found["gain"]["replayed"] or found["gain"]["text"].startswith("at most "), found)
            self.accepts(found)
        self.assertLess(found["perfect_loader"]["speedup"], 1.3)

    def test_the_rules_are_printed(self):
        code, page, err = run(self.folder, "explain", "--bottlenecks")
        self.assertEqual(code, 0, err)
        code, out, err = run(self.folder, "explain", "--bottlenecks", "--json")
        document = json.loads(out)
        self.assertEqual((code, document["schema"]), (0, "trainctl.bottlenecks/2"), err)
        for rule in document["rules"]:
            self.assertIn(f"`{rule['cause']}`", page)
        for words in (["explain"], ["explain", "seed", "--bottlenecks"]):
            code, _, err = run(self.folder, *words)
            self.assertEqual(code, 2)
            self.assertIn("--bottlenecks", err)


if __name__ == "__main__":
    main()
