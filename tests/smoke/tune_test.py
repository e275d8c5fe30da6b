"""Runs whole searches of `trainctl tune` on experiments with one fault. Needs TRAINCTL_BINARY and TRAINCTL_SLOW_PLUGIN, a
plug-in. TRAINCTL_LONG=1 searches for all planted faults, which takes many minutes; otherwise one fault and a healthy control."""

import json
import os
import shlex
import signal
import sys
import unittest
from unittest import mock

from support import DIGITS, SOURCE, Smoke, main, measures_time, run, start

sys.path.insert(0, str(SOURCE / "tests/support"))
import planted_faults as planted  # noqa: E402

PLUGIN = os.environ.get("TRAINCTL_SLOW_PLUGIN", "")
LONG = unittest.skipUnless(os.environ.get("TRAINCTL_LONG") == "1", "TRAINCTL_LONG=1 is not set")


class Tuned(Smoke):
    def latest(self, name):
        """Returns the path of a file of the newest search."""
        return next((self.folder / "runs/tune").glob("*/latest")) / name

    def tune(self, make, *words, budget="100s", codes=(0,)):
        """Searches, and returns tune.json."""
        self.fault = make(self.folder, PLUGIN)
        if len(os.sched_getaffinity(0)) < self.fault.needs_cores:
            self.skipTest(f"needs {self.fault.needs_cores} cores")
        (self.folder / "fault.yaml").write_text(self.fault.config)
        with mock.patch.dict(os.environ, self.fault.environment):
            code, out, err = run(self.folder, "tune", "fault.yaml", "--budget", budget, "--repeats", "3", "--json", *words,
                                 timeout=580)
        self.said = out + err
        self.assertIn(code, codes, self.said)
        document = json.loads((self.folder / "tune.json" if "--patch" in words else self.latest("tune.json")).read_text())
        self.assertEqual(document, json.loads(out))
        self.assertEqual((document["schema"], document["exit_code"]), ("trainctl.tune/2", code))
        return document

    def finds(self, make, *words, **options):
        """Checks that the verdict is right, and that the patch has a proved gain and one of the keys that fix the fault."""
        document = self.tune(make, *words, codes=(0, 4), **options)
        if document["exit_code"] == 4:  # the machine is busy: tries again with a longer budget
            document = self.tune(make, *words, budget="6m")
        self.assertTrue(self.fault.verdict_fits(document["verdict"]), self.said)
        self.assertTrue(self.fault.keys & set(document["patch"]), self.said)
        self.assertGreater(document["gain"]["ci95"][0], 1, self.said)
        accepted = [one for one in document["tried"] if one["accepted"]]
        self.assertTrue(accepted)
        for one in accepted:
            self.assertGreater(one["ci95"][0], 1)
        return document

    def finds_nothing(self, make):
        document = self.tune(make, codes=(0, 4))  # 4: too noisy to prove that there is no gain
        self.assertEqual((document["patch"], document["gain"]), ({}, None), self.said)
        self.assertIn("{}", self.latest("tuned.patch.yaml").read_text())
        if document["exit_code"] == 0:
            self.assertTrue(self.fault.verdict_fits(document["verdict"]), self.said)
        return document


class TuneInput(Tuned):
    @LONG
    @measures_time
    def test_loading_in_the_training_thread_gets_workers(self):
        self.finds(planted.no_workers, budget="4m")

    @LONG
    @measures_time
    def test_pictures_that_are_decoded_again_get_a_cache_and_the_gain_comes_back(self):
        document = self.finds(planted.slow_decode)
        self.assertEqual([one["losses"] for one in document["tried"] if one["accepted"]],
                         ["same"] * sum(one["accepted"] for one in document["tried"]))
        # The patch works as a file in `extends`, and with the printed command.
        (self.folder / "mine.yaml").write_text(f"extends: [fault.yaml, {self.latest('tuned.patch.yaml')}]\n")
        code, out, err = run(self.folder, "show-config", "mine.yaml", "--minimal")
        self.assertEqual(code, 0, err)
        self.assertIn(document["patch"]["dataset.cache.mode"], out)
        code, out, err = run(self.folder, *shlex.split(document["check_command"])[1:], "--repeats", "3", "--json")
        self.assertEqual(code, 0, out + err)
        rows = json.loads(out)["rows"]
        (tuned,) = [row for row in rows if row["settings"] == document["patch"]]
        self.assertGreater(tuned["epoch_speedup"]["value"], 1.2)
        self.assertTrue(tuned["same_losses"])

    @measures_time
    def test_a_throttled_disk_gets_more_workers_than_there_are_cores_for(self):
        self.finds(planted.throttled_disk, budget="75s")


class TuneWork(Tuned):
    @LONG
    @measures_time
    def test_threads_beyond_the_cores_go(self):
        document = self.finds(planted.threads)
        self.assertLessEqual(int(document["patch"]["trainer.num_threads"]), len(os.sched_getaffinity(0)))

    @LONG
    @measures_time
    def test_operations_that_are_looked_at_one_by_one_are_let_go(self):
        self.finds(planted.forced_sync)

    @LONG
    @measures_time
    def test_a_rank_that_waits_for_its_batches_gets_workers(self):
        self.finds(planted.slow_rank)

    @measures_time
    def test_a_healthy_run_has_nothing_to_fix(self):
        document = self.finds_nothing(planted.control)
        if document["exit_code"] == 0:  # nothing_left: advice remains that tune may not try, such as a larger batch
            self.assertIn(document["ended"], ("nothing_to_fix", "nothing_left"), self.said)

    @LONG
    @measures_time
    def test_spinning_threads_are_reported_and_replaced(self):
        document = self.finds(planted.spinning_threads)
        self.assertIn("OMP_WAIT_POLICY=active", " ".join(document["advice"]))


class TuneEnds(Tuned):
    @staticmethod
    def quick(folder, plugin):
        return planted.Fault("none", DIGITS, set())

    def test_ctrl_c_leaves_what_is_known(self):
        fault = planted.throttled_disk(self.folder, PLUGIN).config
        (self.folder / "fault.yaml").write_text(fault.replace("samples: 4000", "samples: 400"))
        process = start(self.folder, "tune", "fault.yaml", "--budget", "10m")
        for line in process.stderr:
            if line.startswith("trying"):
                break
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=300)
        self.assertEqual(process.returncode, 130, out + err)
        document = json.loads(self.latest("tune.json").read_text())
        self.assertEqual((document["ended"], document["exit_code"]), ("stopped", 130))
        self.assertEqual(document["gain"], None)

    def test_an_older_patch_outlives_a_search_that_decides_nothing(self):
        (self.folder / "tuned.patch.yaml").write_text("loader:\n  num_workers: 2\n")
        document = self.tune(self.quick, "--patch", "tuned.patch.yaml", budget="0.1s", codes=(4,))
        self.assertEqual(document["patch"], {})
        self.assertIn("num_workers: 2", (self.folder / "tuned.patch.yaml").read_text())

    def test_a_budget_that_does_not_do_for_one_comparison_is_inconclusive(self):
        self.tune(self.quick, budget="0.1s", codes=(4,))
        document = self.tune(self.quick, budget="0.1s", codes=(4,))
        searches = [path for path in self.latest("").parent.iterdir() if not path.is_symlink()]
        self.assertEqual(len(searches), 2)
        for search in searches:
            self.assertTrue((search / "tune.json").is_file() and (search / "tuned.patch.yaml").is_file())
        self.assertEqual((document["ended"], document["tried"], document["patch"]), ("budget", [], {}))

    def test_what_cannot_be_asked_for_is_refused_before_any_run(self):
        for words, why in [(["--budget", "soon"], "must be a time such as"), (["--allow", "lr"], "--allow must be one of"),
                           (["--tolerance", "2"], "--tolerance must be"), (["loader.batch_size=auto"], "loader.batch_size is auto"),
                           (["optimizer.lrr=1"], "unknown key 'lrr'"), (["--repeats", "2"], "--repeats")]:
            code, out, err = run(self.folder, "tune", "digits.yaml", *words)
            self.assertEqual(code, 2, out + err)
            self.assertIn(why, err)
        self.assertFalse((self.folder / "runs").exists())

    def test_an_experiment_that_does_not_run_is_an_error(self):
        code, out, err = run(self.folder, "tune", "digits.yaml", "optimizer={type: sgd, lr: 1e30}", "--budget", "60s")
        self.assertEqual(code, 6, out + err)
        self.assertIn("cannot run the unchanged experiment", err)


if __name__ == "__main__":
    main()
