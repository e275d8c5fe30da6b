"""Drives `trainctl sweep` as a user does: grids, failures, kills, signals, successive halving. Needs TRAINCTL_BINARY."""

import contextlib
import csv
import json
import os
import pathlib
import random
import re
import shutil
import signal
import sqlite3
import statistics
import subprocess
import tempfile
import time

from support import Smoke, main, run, start

TINY = """\
name: tiny
seed: 3
dataset:
  train: {type: synthetic_digits, split: train, samples: 300}
  val: {type: synthetic_digits, split: test, samples: 100}
  cache: {mode: none}
loader: {batch_size: 50, num_workers: 0}
model: {type: mlp, hidden: [8]}
optimizer: {type: sgd, lr: 0.1}
metrics: [accuracy]
trainer: {max_epochs: 2, accelerator: cpu, devices: 1, num_threads: 1}
checkpoint: {monitor: val/accuracy}
"""
# A run that is still training when the test interrupts it, however fast the machine is.
LONG = ["trainer.max_epochs=100000", "dataset.train.samples=2000"]
DEADLINE = 600


class Sweeping(Smoke):
    def setUp(self):
        super().setUp()
        (self.folder / "tiny.yaml").write_text(TINY)

    def sweep(self, *words, code=0, out="sweep"):
        """Returns the JSON document."""
        returned, self.out, self.err = run(self.folder, "sweep", "tiny.yaml", *words, "--out", out, "--json")
        self.assertEqual(returned, code, self.out + self.err)
        return json.loads(self.out)

    def rows(self, out="sweep"):
        with contextlib.closing(sqlite3.connect(self.folder / out / "sweep.sqlite")) as ledger:
            return ledger.execute("SELECT number, status, exit_code FROM runs ORDER BY number").fetchall()

    def results(self, document):
        """Returns the fields of each run that must not depend on how often it was stopped."""
        return {run["id"]: (run["overrides"], run["seed"], run["fold"], run["status"], run["metrics"], run["value"], run["epochs"])
                for run in document["runs"]}

    def histories(self, document):
        """Returns epochs.csv of each run without its time columns."""
        tables = {}
        for one in document["runs"]:
            with open(pathlib.Path(one["run_dir"]) / "epochs.csv", newline="") as lines:
                tables[one["id"]] = [{key: value for key, value in row.items()
                                      if not re.search("_s$|_per_s$|cpu_percent|_mb|gpu", key)} for row in csv.DictReader(lines)]
        return tables

    def until(self, condition, process):
        deadline = time.monotonic() + DEADLINE
        while not condition():
            if process.poll() is not None or time.monotonic() > deadline:
                process.kill()
                raise AssertionError("it did not come so far: " + "".join(process.communicate()))
            time.sleep(0.02)

    def begin(self, *words, out="sweep"):
        process = start(self.folder, "sweep", "tiny.yaml", *words, "--out", out)
        self.addCleanup(process.kill)
        return process


class Folders(Sweeping):
    def test_each_sweep_has_its_folder_and_resume_takes_the_newest(self):
        words = ("sweep", "tiny.yaml", "optimizer.lr=0.1,0.01", "trainer.max_epochs=1")
        for _ in range(2):
            code, out, err = run(self.folder, *words)
            self.assertEqual(code, 0, out + err)
        root = self.folder / "runs/sweep/tiny"
        folders = sorted(path for path in root.iterdir() if not path.is_symlink())
        self.assertEqual(len(folders), 2)
        self.assertIn((root / "latest").resolve(), folders)
        older = next(path for path in folders if path != (root / "latest").resolve())
        before = {path: path.stat().st_mtime_ns for path in older.rglob("*")}
        more = ("sweep", "tiny.yaml", "optimizer.lr=0.1,0.01,0.001", "trainer.max_epochs=1")
        code, out, err = run(self.folder, *more, "--resume", "--json")
        self.assertEqual(code, 0, out + err)
        document = json.loads(out)
        self.assertEqual((len(document["runs"]), document["folder"]), (3, str((root / "latest").resolve())))
        self.assertEqual(before, {path: path.stat().st_mtime_ns for path in older.rglob("*")})
        for link in (root / "latest", f"{root}/latest/", f"{root}/other/../latest"):
            code, out, err = run(self.folder, *more, "--out", link, "--resume", "--json")
            self.assertEqual(code, 0, out + err)
            self.assertEqual(json.loads(out)["folder"], str((root / "latest").resolve()), "the folder, not the link")

    def test_the_command_that_resumes_names_the_folder_and_not_the_link(self):
        for name, words in (("one", ("--out", "link-one/")), ("two", ("--out=link-two/",))):
            (self.folder / name).mkdir()
            (self.folder / f"link-{name}").symlink_to(name)
            code, out, err = run(self.folder, "sweep", "tiny.yaml", "optimizer.lr=1e30,0.01", "trainer.max_epochs=1", "--fail-fast", *words)
            self.assertEqual(code, 5, out + err)
            self.assertRegex(err, rf"resume with: .*--out[ =]{(self.folder / name).resolve()}( |$)")

    def test_the_sweep_of_a_name_starts_without_one_to_resume(self):
        code, out, err = run(self.folder, "sweep", "tiny.yaml", "optimizer.lr=0.1,0.01", "trainer.max_epochs=1", "--resume")
        self.assertEqual(code, 0, out + err)
        self.assertTrue((self.folder / "runs/sweep/tiny/latest/sweep.json").is_file())


class Grids(Sweeping):
    def test_a_grid_is_made_ranked_and_not_made_again(self):
        document = self.sweep("optimizer.lr=0.1,0.01", "model.hidden=[8],[4]", "--csv", "lines.csv")
        self.assertEqual((document["schema"], document["kind"], document["exit_code"]), ("trainctl.sweep/2", "grid", 0))
        self.assertEqual([run["overrides"] for run in document["runs"]],
                         [{"optimizer.lr": rate, "model.hidden": hidden} for rate in (0.1, 0.01) for hidden in ([8], [4])])
        self.assertEqual([run["status"] for run in document["runs"]], ["ok"] * 4)
        for one in document["runs"]:
            self.assertEqual(one["epochs"], 2)
            self.assertIn("val/accuracy", one["metrics"])
            self.assertTrue((pathlib.Path(one["run_dir"]) / "metrics.jsonl").is_file())
            self.assertTrue((pathlib.Path(one["run_dir"]) / "checkpoints").is_dir())
        page = (self.folder / "sweep/report.html").read_text()
        for part in ("best val/accuracy", "Settings and val/accuracy", "run 0001", "optimizer.lr=0.1"):
            self.assertIn(part, page)
        ranked = [row["value"]["mean"] for row in document["summary"]]
        self.assertEqual(ranked, sorted(ranked, reverse=True))
        self.assertTrue(document["summary"][0]["reference"])
        self.assertEqual(json.loads((self.folder / "sweep/sweep.json").read_text()), document)
        lines = (self.folder / "lines.csv").read_text()
        self.assertEqual(lines.count("\n"), 5)
        self.assertEqual((self.folder / "sweep/results.csv").read_text(), lines)
        before = {path: path.stat().st_mtime_ns for path in (self.folder / "sweep/runs").rglob("*")}
        again = self.sweep("optimizer.lr=0.1,0.01", "model.hidden=[8],[4]")
        self.assertEqual(again, document)
        for words, mode, best in (([], "min", min), (["--mode", "max"], "max", max)):  # another monitor ranks the same runs by its own values
            other = self.sweep("optimizer.lr=0.1,0.01", "model.hidden=[8],[4]", "--monitor", "train/loss", *words)
            self.assertEqual((other["monitor"], other["mode"]), ("train/loss", mode))
            for one in other["runs"]:
                losses = [float(row["train/loss"]) for row in self.histories(other)[one["id"]]]
                self.assertAlmostEqual(one["value"], best(losses), places=12)
        self.assertEqual(before, {path: path.stat().st_mtime_ns for path in (self.folder / "sweep/runs").rglob("*")})

    def test_another_definition_is_refused_by_what_differs_and_added_by_resume(self):
        words = ["trainer.max_epochs=1", "--progress", "plain"]
        self.sweep("optimizer.lr=0.1,0.01", *words)
        for position, number in enumerate(("0001", "0002"), 1):
            self.assertIn(f"run {number} ({position} of 2)", self.err)
        code, _, err = run(self.folder, "sweep", "tiny.yaml", "optimizer.lr=0.1,0.01,0.001", *words, "--out", "sweep")
        self.assertEqual(code, 2, err)
        self.assertIn("keys.optimizer.lr: 0.1,0.01 -> 0.1,0.01,0.001", err)
        self.assertIn("--resume", err)
        document = self.sweep("optimizer.lr=0.1,0.01,0.001", *words, "--resume")
        self.assertEqual([run["id"] for run in document["runs"]], ["0001", "0002", "0003"])
        self.assertEqual(self.err.count(" of 3)"), 1, self.err)
        self.sweep("optimizer.lr=0.2,0.3", *words, "--resume")
        self.assertIn("run 0005 (2 of 2)", self.err)

    def test_seeds_are_paired(self):
        document = self.sweep("optimizer.lr=0.1,0.0001", "--seeds", "0,1", "trainer.max_epochs=1")
        self.assertEqual(len(document["runs"]), 4)
        best, other = document["summary"]
        self.assertEqual((best["value"]["count"], other["difference"]["count"]), (2, 2))
        values = {(run["group"], run["seed"]): run["value"] for run in document["runs"]}
        differences = [values[other["group"], seed] - values[best["group"], seed] for seed in range(2)]
        self.assertAlmostEqual(other["difference"]["mean"], sum(differences) / 2, places=9)
        code, out, err = run(self.folder, "compare", "sweep", "--group", "--json")  # the folder stands for its runs
        self.assertEqual(code, 0, out + err)
        compared = json.loads(out)
        self.assertEqual([group["members"] for group in compared["groups"]], [2, 2])
        self.assertEqual([one["key"] for one in compared["config"]], ["optimizer.lr"])
        self.assertEqual(compared["warnings"], [])

    def test_each_setting_runs_once_for_each_fold_and_is_ranked_by_their_mean(self):
        words = ["~dataset.val", "--folds", "2", "trainer.max_epochs=1"]
        document = self.sweep(*words, "optimizer.lr=0.1,0.0001", "--csv", "lines.csv")
        self.assertEqual([run["fold"] for run in document["runs"]], [0, 1, 0, 1])
        seen = []
        for one in document["runs"][:2]:
            split = json.loads((pathlib.Path(one["run_dir"]) / "split.json").read_text())
            self.assertEqual((split["folds"], split["fold"], split["samples"]),
                             (2, one["fold"], {"train": 150, "val": 150, "test": 0}))
            seen += split["val"]
        self.assertEqual(sorted(seen), list(range(300)))
        best, other = document["summary"]
        values = [run["value"] for run in document["runs"] if run["group"] == best["group"]]
        self.assertEqual(best["folds"], values)
        self.assertAlmostEqual(best["value"]["mean"], statistics.mean(values), places=9)
        self.assertAlmostEqual(best["value"]["deviation"], statistics.stdev(values), places=9)
        half = 12.706204736432095 * statistics.stdev(values) / 2 ** 0.5  # t.ppf(0.975, 1)
        for end, sign in zip(best["value"]["ci95"], (-1, 1)):
            self.assertAlmostEqual(end, best["value"]["mean"] + sign * half, places=7)
        self.assertEqual(other["difference"]["count"], 2)
        with open(self.folder / "lines.csv", newline="") as lines:
            self.assertEqual([row["fold"] for row in csv.DictReader(lines)], ["0", "1"] * 2)
        page = (self.folder / "sweep/report.html").read_text()
        self.assertIn("deviation", page)
        # A new setting is added to the sweep, and other folds are other runs.
        more = self.sweep(*words, "optimizer.lr=0.1,0.0001,0.01", "--resume")
        self.assertEqual([run["id"] for run in more["runs"]], [f"{i:04}" for i in range(1, 7)])
        self.assertEqual(more["runs"][:4], document["runs"])

    def test_folds_replace_val_of_the_split_and_nothing_else(self):
        document = self.sweep("~dataset.val", "++dataset.split={val: 0.3, test: 0.1, seed: 2, stratify: true}", "--folds", "2",
                              "trainer.max_epochs=1")
        sizes = [json.loads((pathlib.Path(one["run_dir"]) / "split.json").read_text())["samples"] for one in document["runs"]]
        self.assertEqual(sizes, [{"train": 135, "val": 135, "test": 30}] * 2)
        code, _, err = run(self.folder, "sweep", "tiny.yaml", "--folds", "2", "--out", "fixed")
        self.assertEqual(code, 2, err)
        self.assertIn("dataset.val must not name a data set: dataset.split.folds takes its samples", err)
        for words, what in ((["--folds", "1"], "must be an integer from 2 to 1000"),
                            (["--folds", "301"], "at most as many folds as samples, got 301 folds and 300 samples"),
                            (["++dataset.split.fold=0,1"], "must be varied with --folds")):
            code, _, err = run(self.folder, "sweep", "tiny.yaml", "~dataset.val", *words, "--out", "other")
            self.assertEqual(code, 2, err)
            self.assertIn(what, err)

    def test_a_list_may_vary_the_seed_but_not_together_with_seeds(self):
        (self.folder / "runs.yaml").write_text("- {seed: 1}\n- {seed: 2}\n- {seed: 1}\n")
        document = self.sweep("--list", "runs.yaml", "trainer.max_epochs=1")
        self.assertEqual([(run["seed"], run["overrides"], run["group"]) for run in document["runs"]], [(1, {}, 0), (2, {}, 0)])
        self.assertEqual(document["summary"][0]["value"]["count"], 2)
        code, _, err = run(self.folder, "sweep", "tiny.yaml", "--list", "runs.yaml", "--seeds", "0,1", "--out", "other")
        self.assertEqual(code, 2, err)
        self.assertIn("--seeds", err)

    def test_a_file_that_is_edited_meanwhile_changes_no_run(self):
        process = self.begin("optimizer.lr=0.1,0.01")
        self.until(lambda: (self.folder / "sweep/runs/0001").exists(), process)
        (self.folder / "tiny.yaml").write_text(TINY.replace("[8]", "[4]"))
        _, err = process.communicate(timeout=DEADLINE)
        self.assertEqual(process.returncode, 0, err)
        for number in ("0001", "0002"):
            resolved = (self.folder / "sweep/runs" / number / "config.resolved.yaml").read_text()
            self.assertRegex(resolved, r"hidden: *(\[8\]|\n *- 8\b)")

    def test_runs_of_a_list_and_runs_that_are_drawn(self):
        (self.folder / "runs.yaml").write_text("- {optimizer.lr: 0.1}\n- {optimizer.lr: 0.01, model.hidden: [4]}\n- {optimizer.lr: 0.1}\n")
        document = self.sweep("--list", "runs.yaml", "trainer.max_epochs=1")
        self.assertEqual([run["overrides"] for run in document["runs"]],
                         [{"optimizer.lr": 0.1}, {"optimizer.lr": 0.01, "model.hidden": [4]}])
        self.assertIn("1 of the settings are duplicates", self.err)
        words = ["optimizer.lr=log(1e-3,1)", "trainer.max_epochs=1"]
        few = self.sweep(*words, "--samples", "2", out="few")
        more = self.sweep(*words, "--samples", "3", "--resume", out="few")
        self.assertEqual([run["overrides"] for run in few["runs"]], [run["overrides"] for run in more["runs"]][:2])
        self.assertEqual(self.rows("few"), [(number, "ok", 0) for number in (1, 2, 3)])

    def test_runs_that_lie_elsewhere_know_the_commit_of_their_experiment(self):
        git = ["git", "-C", self.folder, "-c", "user.name=a", "-c", "user.email=a@b.c"]
        for words in (["init", "-q"], ["add", "tiny.yaml"], ["commit", "-qm", "one"]):
            subprocess.run([*git, *words], check=True)
        commit = subprocess.run([*git, "rev-parse", "HEAD"], check=True, capture_output=True, text=True).stdout.strip()
        with tempfile.TemporaryDirectory(prefix="trainctl-elsewhere-") as elsewhere:
            document = self.sweep("--seeds", "3", "trainer.max_epochs=1", out=elsewhere + "/sweep")
            manifest = pathlib.Path(document["runs"][0]["run_dir"]) / "manifest.json"
            self.assertEqual(json.loads(manifest.read_text())["git"]["commit"], commit)


class Failures(Sweeping):
    def test_every_mistake_is_reported_once_before_anything_starts(self):
        code, out, err = run(self.folder, "sweep", "tiny.yaml", "optimizer.lr=0.1,-1", "model.hidden=[8],[4]",
                             "loader.batch_sise=1", "--out", "sweep")
        self.assertEqual(code, 2, out + err)
        self.assertEqual(len(re.findall(r"error: .*batch_sise", err)), 1, err)
        self.assertEqual(len(re.findall(r"error: .*lr", err)), 1, err)
        self.assertFalse((self.folder / "sweep").exists())
        for words, what in ((["optimizer.lr=0.1"], "no key is varied"), (["optimizer.lr=log(1,2)"], "--samples"),
                            (["optimizer.lr=1,2", "--asha", "trainer.max_epochs=1"], "--min-epochs"),
                            (["optimizer.lr=1,2", "--monitor", "val/f1"], "'val/f1' (--monitor) is not a metric"),
                            (["seed=1,2"], "--seeds"), (["optimizer.lr=1,2", "--samples", "2", "--lhs", "2"], "exclude each other")):
            code, out, err = run(self.folder, "sweep", "tiny.yaml", *words, "--out", "sweep")
            self.assertEqual(code, 2, f"{words}: {out}{err}")
            self.assertIn(what, err)
        self.assertFalse((self.folder / "sweep").exists())

    def test_a_run_that_fails_is_reported_and_the_others_are_done(self):
        words = ["optimizer.lr=0.1,1e30,0.01", "trainer.max_epochs=1"]
        document = self.sweep(*words, code=5)
        self.assertEqual([(run["status"], run["exit_code"]) for run in document["runs"]],
                         [("ok", 0), ("failed", 6), ("ok", 0)])
        self.assertIn("not finite", document["runs"][1]["message"])
        self.assertEqual(self.sweep(*words, code=5), document)
        code, out, err = run(self.folder, "sweep", "tiny.yaml", *words, "--out", "fast", "--fail-fast")
        self.assertEqual(code, 5, out + err)
        self.assertEqual([row[1] for row in self.rows("fast")], ["ok", "failed", "pending"])
        self.assertIn("--resume", err)
        self.sweep(*words, "--resume", code=5, out="fast")
        self.assertEqual([row[1] for row in self.rows("fast")], ["ok", "failed", "ok"])

    def test_a_second_sweep_on_the_folder_is_refused(self):
        process = self.begin("optimizer.lr=0.1,0.01", *LONG)
        self.until(lambda: (self.folder / "sweep/runs/0001/epochs.csv").exists(), process)
        code, out, err = run(self.folder, "sweep", "tiny.yaml", "optimizer.lr=0.1,0.01", *LONG, "--out", "sweep", "--resume")
        self.assertEqual(code, 11, out + err)
        self.assertIn(f"pid {process.pid}", err)
        process.send_signal(signal.SIGINT)
        self.assertEqual(process.wait(timeout=DEADLINE), 130)


class Stops(Sweeping):
    def test_a_stop_signal_saves_the_runs_and_resume_continues(self):
        process = self.begin("optimizer.lr=0.1,0.01", "--jobs", "2", *LONG)
        for number in ("0001", "0002"):
            self.until(lambda: (self.folder / "sweep/runs" / number / "epochs.csv").exists(), process)
        process.send_signal(signal.SIGTERM)
        _, err = process.communicate(timeout=DEADLINE)
        self.assertEqual(process.returncode, 75, err)
        self.assertRegex(err, r"stopped: 2 of 2 runs are left; resume with: .*--resume")
        self.assertEqual([row[1] for row in self.rows()], ["pending", "pending"])
        for number in ("0001", "0002"):
            result = json.loads((self.folder / "sweep/runs" / number / "result.json").read_text())
            self.assertEqual((result["exit_code"], result["checkpoint"]["verified"]), (75, True))
        process = self.begin("optimizer.lr=0.1,0.01", *LONG, "--resume")
        resumed_result = lambda: json.loads((self.folder / "sweep/runs/0001/result.json").read_text())
        self.until(lambda: resumed_result()["exit_code"] is None and resumed_result()["resumed_from"] is not None, process)
        process.send_signal(signal.SIGINT)
        self.assertEqual(process.wait(timeout=DEADLINE), 130)

    def test_no_process_outlives_a_sweep_that_is_killed(self):
        process = start(self.folder, "sweep", "tiny.yaml", "optimizer.lr=0.1,0.01", "--jobs", "2", *LONG, "--out", "sweep",
                        env={**os.environ, "SMOKE_MARK": str(self.folder)})
        self.until(lambda: (self.folder / "sweep/runs/0002/epochs.csv").exists(), process)
        process.kill()
        process.communicate(timeout=DEADLINE)
        deadline = time.monotonic() + 30
        while self.left() and time.monotonic() < deadline:
            time.sleep(0.05)
        self.assertEqual(self.left(), [])

    def left(self):
        found = []
        for entry in pathlib.Path("/proc").iterdir():
            try:
                if entry.name.isdigit() and f"SMOKE_MARK={self.folder}".encode() in (entry / "environ").read_bytes():
                    found.append(int(entry.name))
            except OSError:
                pass
        return found


class Kills(Sweeping):
    WORDS = ["~dataset.val", "--folds", "2", "--seeds", "3,4", "trainer.max_epochs=2"]

    def test_killed_at_any_moment_no_run_is_lost_or_made_twice(self):
        began = time.monotonic()
        undisturbed = self.sweep(*self.WORDS, out="whole")
        took = time.monotonic() - began
        draw = random.Random(8)
        kills = 0
        for _ in range(20):
            words = [*self.WORDS, *(["--resume"] if (self.folder / "sweep").exists() else [])]
            process = self.begin(*words)
            try:
                process.communicate(timeout=draw.uniform(0.02, 0.7) * took)
            except subprocess.TimeoutExpired:
                process.kill()
                process.communicate(timeout=DEADLINE)
                kills += 1
                if kills == 4:
                    break
            else:
                if kills > 0:
                    break
                # The machine was busier during the measurement.
                shutil.rmtree(self.folder / "sweep")
                took /= 2
        document = self.sweep(*self.WORDS, "--resume")
        self.assertGreater(kills, 0)
        self.assertEqual(self.rows(), [(number, "ok", 0) for number in (1, 2, 3, 4)])
        self.assertEqual(sorted(path.name for path in (self.folder / "sweep/runs").iterdir()), ["0001", "0002", "0003", "0004"])
        self.assertEqual(self.results(document), self.results(undisturbed))
        self.assertEqual(self.histories(document), self.histories(undisturbed))
        hidden = [path for path in (self.folder / "sweep").rglob(".*") if ".tmp." in path.name or ".reserved." in path.name]
        self.assertEqual(hidden, [])


class SideBySide(Sweeping):
    def test_runs_side_by_side_are_those_that_run_alone(self):
        words = ["optimizer.lr=0.1,0.01", "trainer.max_epochs=1"]
        alone = self.sweep(*words, out="alone")
        together = self.sweep(*words, "--jobs", "2", out="together")
        self.assertEqual(self.results(together), self.results(alone))
        self.assertEqual(self.histories(together), self.histories(alone))


class Halving(Sweeping):
    def test_the_worse_runs_are_stopped_and_not_continued(self):
        words = ["optimizer.lr=0.1,0.05,0.0001,0.00001", "--asha", "--eta", "2", "--min-epochs", "1", "trainer.max_epochs=4",
                 "++scheduler={type: cosine_annealing_lr}"]
        document = self.sweep(*words)
        self.assertTrue(document["asha"])
        runs = document["runs"]
        self.assertEqual({run["status"] for run in runs}, {"ok", "pruned"})
        for one in runs:
            self.assertEqual(one["pruned_at"], one["epochs"] if one["status"] == "pruned" else None)
            self.assertIn(one["epochs"], (1, 2) if one["status"] == "pruned" else (4,))
        self.assertEqual(document["summary"][0]["status"], "ok")
        # The run that was paused and resumed had the learning rates of an uninterrupted run.
        complete = next(run for run in runs if run["status"] == "ok")
        whole = self.sweep(f"optimizer.lr={complete['overrides']['optimizer.lr']}", "--seeds", "3", *words[7:], "trainer.max_epochs=4",
                           out="whole")
        self.assertEqual(self.histories(whole)["0001"], self.histories(document)[complete["id"]])
        self.assertEqual(self.sweep(*words), document)
        for others in ([*words[:1], "trainer.max_epochs=4", words[-1]], ["3" if word == "2" else word for word in words]):
            code, _, err = run(self.folder, "sweep", "tiny.yaml", *others, "--out", "sweep", "--resume")
            self.assertEqual(code, 2, err)
            self.assertIn("choose another --out", err)
        code, _, err = run(self.folder, "sweep", "tiny.yaml", *words, "trainer.check_val_every_n_epoch=2", "--out", "seldom")
        self.assertEqual(code, 2, err)
        self.assertIn("trainer.check_val_every_n_epoch=2 ", err)


class Parts(Sweeping):
    def test_a_run_until_an_epoch_is_the_beginning_of_the_whole_one(self):
        (self.folder / "digits.yaml").write_text(TINY)
        words = ["trainer.max_epochs=4", "++scheduler={type: cosine_annealing_lr}"]
        self.train(*words)
        whole = self.losses(self.run_dir)
        folder = self.folder / "part"
        (folder / "logs").mkdir(parents=True)  # a kill in the first milliseconds leaves this
        (folder / "result.json").write_text('{"verdict": "unfinished", "exit_code": null}')
        for until, words_of_part in ((1, ["--until-epoch", 1]), (3, ["--until-epoch", 3]), (4, [])):
            code, out, err = run(self.folder, "run", "digits.yaml", *words, "--run-dir", folder, "--resume", "auto", *words_of_part)
            self.assertEqual(code, 0, out + err)
            result = json.loads((folder / "result.json").read_text())
            self.assertEqual((result["verdict"], result["epochs"]), ("ok", until))
            self.assertEqual(self.losses(folder), whole[:until])


if __name__ == "__main__":
    main()
