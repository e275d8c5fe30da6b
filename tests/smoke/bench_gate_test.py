"""The gate of `bench` fails a planted slow-down, compares with baselines and respects a budget. Needs TRAINCTL_BINARY and
TRAINCTL_SLOW_PLUGIN, a data set that sleeps for each sample and sleeps longer by the percentage in TRAINCTL_TEST_SLOWER."""

import csv
import json
import os
import xml.etree.ElementTree
from unittest import mock

from support import Smoke, main, measures_time, run

SLEEPY = f"""\
name: sleepy
seed: 7
plugins: [{os.environ["TRAINCTL_SLOW_PLUGIN"]}]
dataset:
  train: {{type: slow_rows, samples: 100, microseconds: 2000}}
  cache: {{mode: none}}
loader: {{batch_size: 50, num_workers: 0}}
model: {{type: linear}}
loss: cross_entropy
optimizer: {{type: sgd, lr: 0.01}}
trainer: {{max_epochs: 3, accelerator: cpu, devices: 1, num_threads: 1}}
"""
GATE = "samples_per_s<-3%"
MOST_REPEATS = 20
# Exit codes of a control: other tests use the machine, so its interval may be too wide (4), but it never shows a slow-down (3).
NOT_SLOWER = (0, 4)


def slower(percent):
    return mock.patch.dict(os.environ, TRAINCTL_TEST_SLOWER=str(percent))


class Sleepy(Smoke):
    def setUp(self):
        super().setUp()
        (self.folder / "sleepy.yaml").write_text(SLEEPY)

    def bench(self, *words, codes=(0,), config="sleepy.yaml"):
        code, out, err = run(self.folder, "bench", config, *words, "--json")
        self.assertIn(code, codes, out + err)
        self.err = err
        return json.loads(out)


class GateOnRealRuns(Sleepy):
    def failing(self, *words):
        """Runs a bench that must exit with 3. If five repeats are too noisy, runs it again with the proposed number of repeats."""
        document = self.bench(*words, codes=(3, 4))
        if document["gate"]["exit_code"] == 4:
            proposed = document["gate"]["conditions"][0]["repeats_needed"] or MOST_REPEATS
            document = self.bench(*words, "--repeats", str(min(proposed, MOST_REPEATS)), codes=(3,))
        self.assertEqual(document["gate"]["exit_code"], 3)
        return document

    @measures_time
    def test_a_stage_that_sleeps_a_tenth_longer_fails_the_gate(self):
        document = self.failing("--grid", "dataset.train.microseconds=2000,2200", "--fail-on", GATE, "--junit", "out/junit.xml",
                                "--csv", "out/runs.csv")
        [finding] = document["gate"]["conditions"]
        self.assertEqual((finding["verdict"], finding["technique"]), ("fail", "microseconds=2200"))
        self.assertLess(finding["interval"][1], -3)
        suite = xml.etree.ElementTree.parse(self.folder / "out/junit.xml").getroot()[0]
        self.assertEqual((suite.get("tests"), suite.get("failures")), ("3", "1"))
        with open(self.folder / "out/runs.csv", newline="") as rows:
            written = list(csv.DictReader(rows))
        self.assertEqual([row["repeat"] for row in written], [str(i + 1) for i in range(document["repeats_requested"])] * 2)
        self.assertEqual({row["dataset.train.microseconds"] for row in written}, {"2000", "2200"})
        self.assertTrue(all(float(row["train/loss"]) > 0 and float(row["rss_mb"]) > 0 for row in written))

    @measures_time
    def test_an_unchanged_stage_passes_the_gate(self):
        document = self.bench("--grid", "trainer.log_every_n_steps=50,51", "--repeats", "3", "--fail-on", GATE, codes=NOT_SLOWER)
        self.assertNotEqual(document["gate"]["conditions"][0]["verdict"], "fail")

    @measures_time
    def test_a_saved_bench_is_a_baseline_for_the_same_file(self):
        saved = self.bench("--save", "base.json")
        self.assertEqual(len(saved["rows"][0]["trials"]), 5)
        self.assertRegex(saved["config_hash"], "^[0-9a-f]{16}$")
        self.assertRegex(saved["machine"]["hash"], "^[0-9a-f]{16}$")
        control = self.bench("--repeats", "3", "--baseline", "base.json", "--fail-on", GATE + ", train/loss>+1%", codes=NOT_SLOWER)
        loss = control["gate"]["conditions"][1]
        self.assertEqual((loss["verdict"], loss["change"], loss["interval"]), ("pass", 0, None))
        with slower(20):
            self.failing("--baseline", "base.json", "--fail-on", GATE)

    def test_rows_that_the_baseline_lacks_are_reported_as_not_compared(self):
        short = ["trainer.max_epochs=1", "dataset.train.samples=50", "--repeats", "1"]
        self.bench(*short, "--workers", "0", "--save", "base.json")
        gate = ["--baseline", "base.json", "--fail-on", "train/loss>+1%"]
        document = self.bench(*short, "--workers", "0,1", *gate, "--junit", "junit.xml")
        self.assertEqual(document["gate"]["not_compared"], ["num_workers=1"])
        self.assertEqual([one["technique"] for one in document["gate"]["conditions"]], ["num_workers=0"])
        suite = xml.etree.ElementTree.parse(self.folder / "junit.xml").getroot()[0]
        skipped = [case.get("name") for case in suite.iter("testcase") if case.find("skipped") is not None]
        self.assertEqual(skipped, ["num_workers=1"])
        code, out, err = run(self.folder, "bench", "sleepy.yaml", *short, "--workers", "0,1", *gate)
        self.assertEqual(code, 0, out + err)
        self.assertIn("Not compared: num_workers=1 (the baseline has no such setting).", out)

    @measures_time
    def test_a_run_folder_is_a_baseline_too(self):
        self.train(config="sleepy.yaml")
        with slower(50):  # one run against five makes Welch's interval wide
            document = self.failing("--baseline", self.run_dir, "--fail-on", GATE)
        self.assertEqual(document["gate"]["conditions"][0]["against"], f"'the run' of {self.run_dir}")


class RefusedBaselines(Sleepy):
    SHORT = ["trainer.max_epochs=1", "dataset.train.samples=50", "--repeats", "1"]

    def setUp(self):
        super().setUp()
        self.saved = self.bench(*self.SHORT, "--save", "base.json")

    def refused(self, *words, config="sleepy.yaml"):
        code, out, err = run(self.folder, "bench", config, *self.SHORT, *words, "--baseline", "base.json", "--fail-on", GATE)
        self.assertEqual(code, 2, out + err)
        self.assertEqual(len(list((self.folder / "runs/bench/sleepy").glob("2*"))), 1, "a run was started")
        return err

    def write(self, document):
        (self.folder / "base.json").write_text(document if isinstance(document, str) else json.dumps(document))

    def test_invalid_baseline_files_are_refused(self):
        for text, why in [("", "not valid JSON"), (json.dumps(self.saved)[:700], "truncated"), ("[" * 200_000, "not valid JSON"),
                          ("{}", "no 'schema'"), ('{"schema": "trainctl.sweep/2"}', "trainctl.sweep/2"),
                          ('{"schema": "trainctl.bench/9"}', "with this version"),
                          ('{"schema": "trainctl.bench/2", "rows": [{}]}', "row 1 has no 'technique'")]:
            self.write(text)
            err = self.refused()
            self.assertIn(why, err)
            self.assertNotIn("bug in trainctl", err)
        (self.folder / "base.json").write_bytes(b"\xff\xfe\0\0")
        self.assertIn("not valid JSON", self.refused())
        (self.folder / "base.json").unlink()
        self.assertIn("base.json", self.refused())

    def test_another_machine_is_refused_by_name_unless_forced(self):
        self.saved["machine"]["cores"] += 6
        self.write(self.saved)
        here = self.saved["machine"]["cores"] - 6
        self.assertIn(f"cores: {here + 6} in the baseline, {here} in this bench", self.refused())
        self.saved["machine"] = None
        self.write(self.saved)
        self.assertIn("machine of the baseline is not recorded", self.refused())
        self.bench(*self.SHORT, "--baseline", "base.json", "--fail-on", GATE, "--force-baseline", codes=(4,))

    def test_another_config_is_refused_by_name(self):
        self.assertIn("optimizer.lr: 0.01 in the baseline, 0.02 in this bench", self.refused("optimizer.lr=0.02"))

    def test_mistakes_of_the_flags_are_reported_before_any_run(self):
        code, _, err = run(self.folder, "bench", "sleepy.yaml", *self.SHORT, "--baseline", "base.json")
        self.assertEqual(code, 2)
        self.assertIn("--fail-on", err)
        code, _, err = run(self.folder, "bench", "sleepy.yaml", *self.SHORT, "--fail-on", "sample_per_s<-5%, val/acc<-1pt")
        self.assertEqual(code, 2)
        self.assertIn("--fail-on needs a second setting or a baseline", err)


class NamedBaselines(Sleepy):
    SHORT = ["trainer.max_epochs=1", "dataset.train.samples=50"]

    def compare(self, baseline):
        return run(self.folder, "bench", "sleepy.yaml", *self.SHORT, "--repeats", "1", "--baseline", baseline, "--fail-on",
                   "train/loss>+1%", "--json")

    def test_a_name_and_a_path_are_the_same_run(self):
        code, out, err = run(self.folder, "run", "sleepy.yaml", *self.SHORT)
        self.assertEqual(code, 0, out + err)
        [folder] = (path for path in (self.folder / "runs/sleepy").iterdir() if not path.is_symlink())
        for baseline in ("sleepy", "runs/sleepy/latest", folder):
            code, out, err = self.compare(baseline)
            self.assertEqual(code, 0, out + err)
            [finding] = json.loads(out)["gate"]["conditions"]
            self.assertEqual((finding["verdict"], finding["change"]), ("pass", 0), baseline)
        for baseline, meant in (("slepy", "did you mean 'sleepy'?"), ("sleepy.yml", "did you mean 'sleepy"), ("zzz", "baseline 'zzz'")):
            code, out, err = self.compare(baseline)
            self.assertEqual(code, 2, out + err)
            self.assertIn(meant, out + err)


class Budget(Sleepy):
    @measures_time
    def test_rounds_stop_before_the_budget_is_over(self):
        # The runs sleep most of the time, so that few of them fit.
        sleepy = ["dataset.train.microseconds=8000", "dataset.train.samples=50", "trainer.max_epochs=1"]
        document = self.bench("--workers", "0,1", *sleepy, "--repeats", "200", "--budget", "8s")
        made = [len(row["trials"]) for row in document["rows"]]
        self.assertTrue(1 <= min(made) <= max(made) < 200)
        self.assertLessEqual(max(made) - min(made), 1)  # a run that the budget interrupts does not count
        self.assertEqual(document["repeats_requested"], 200)

    def test_a_budget_that_no_round_fits_into_is_inconclusive(self):
        code, out, err = run(self.folder, "bench", "sleepy.yaml", "--workers", "0,1", "--budget", "0.1s")
        self.assertEqual(code, 4, out + err)
        self.assertIn("ended before every setting had run once", err)
        self.assertIn("left time for 0 of 5 repeats", out)
        code, _, err = run(self.folder, "bench", "sleepy.yaml", "--budget", "soon")
        self.assertEqual(code, 2)
        self.assertIn("got 'soon'", err)

    def test_a_warm_up_ends_with_the_budget_and_no_run_follows_it(self):
        minutes = ["trainer.num_threads=auto", "dataset.train.microseconds=60000000"]  # microseconds per sample
        code, out, err = run(self.folder, "bench", "sleepy.yaml", *minutes, "--budget", "2s")
        self.assertEqual(code, 4, out + err)
        self.assertIn("warm-up  stopped: the budget is used up", err)
        self.assertIn("left time for 0 of 5 repeats", out)
        self.assertIn("ended before every setting had run once", err)
        self.assertEqual(len(list((self.folder / "runs/bench/sleepy").glob("2*"))), 1)


class TheClassicTable(Smoke):
    def test_technique_time_speed_up_and_the_loss_of_each_epoch(self):
        code, out, err = run(self.folder, "bench", "digits.yaml", "trainer.limit_train_batches=10", "trainer.limit_val_batches=2",
                             "--workers", "0,2", "--pin-memory", "false,true", "--repeats", "1")
        self.assertEqual(code, 0, err)
        first, second = out.split("\n\n")[:2]
        for title in ("settings", "total", "speed-up"):
            self.assertIn(title, first.splitlines()[0])
        for title in ("start-up", "first batch", "loss 1", "loss 2", "loss 3"):
            self.assertIn(title, second.splitlines()[0])
        for row in ("num_workers=0, pin_memory=false", "num_workers=2, pin_memory=true"):
            self.assertIn(row, first)
            self.assertIn(row, second)


if __name__ == "__main__":
    main()
