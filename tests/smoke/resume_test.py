"""Drives `trainctl run --resume` as a user does: runs are stopped, killed, damaged and changed. Needs TRAINCTL_BINARY."""

import csv
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import tempfile
import time
import unittest

BINARY = os.environ["TRAINCTL_BINARY"]
DIGITS = """\
name: smoke
seed: 7
dataset:
  train: {type: synthetic_digits, split: train, samples: 2000}
  val: {type: synthetic_digits, split: test, samples: 500}
loader: {batch_size: 50}
model: {type: mlp, hidden: [32]}
optimizer: {type: adam, lr: 0.002}
metrics: [accuracy]
trainer: {max_epochs: 3, accelerator: cpu, devices: 1, num_threads: 1, log_every_n_steps: 10}
checkpoint: {every_n_steps: 15}
"""
TABLE = """\
name: table
seed: 7
dataset:
  train: {type: csv, path: rows.csv, label: price, label_type: number, standardize: true, statistics_from: rows.csv}
loader: {batch_size: 8}
model: linear
loss: mse
optimizer: {type: sgd, lr: 0.0001}
trainer: {accelerator: cpu, devices: 1, num_threads: 1}
"""
STEPS = 40  # steps per epoch
DEADLINE = 600


def start(folder, *words):
    return subprocess.Popen([BINARY, *map(str, words)], cwd=folder, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                            stderr=subprocess.PIPE, text=True)


def run(folder, *words):
    process = start(folder, *words)
    out, err = process.communicate(timeout=DEADLINE)
    return process.returncode, out, err


def rows(path):
    with open(path, newline="") as lines:
        return list(csv.DictReader(lines))


def worker_of(process):
    """Returns the pid of the only worker of a run."""
    path = pathlib.Path(f"/proc/{process.pid}/task/{process.pid}/children")
    children = [int(pid) for entry in path.parent.parent.glob("*/children") for pid in entry.read_text().split()]
    return children[0] if children else None


class Resumes(unittest.TestCase):
    kept = {}  # copies of what once() has made for the tests of a class

    def setUp(self):
        scratch = tempfile.TemporaryDirectory(prefix="trainctl-resume-")
        self.addCleanup(scratch.cleanup)
        self.folder = pathlib.Path(scratch.name)
        (self.folder / "digits.yaml").write_text(DIGITS)
        self.run_dir = self.folder / "run"

    def call(self, *words, code=0):
        returned, self.out, self.err = run(self.folder, *words)
        self.assertEqual(returned, code, self.out + self.err)

    def go(self, *words, run_dir=None, code=0):
        run_dir = run_dir or self.run_dir
        self.call("run", "digits.yaml", *words, "--run-dir", run_dir, code=code)
        return self.result(run_dir) if (run_dir / "result.json").exists() else None

    def once(self, folder, train):
        """Makes a folder by training once for all tests of the class: later tests copy it."""
        key = type(self), folder.name
        if key in Resumes.kept:
            shutil.copytree(Resumes.kept[key], folder, symlinks=True)
            return
        train()
        scratch = tempfile.TemporaryDirectory(prefix="trainctl-resume-")
        self.addClassCleanup(scratch.cleanup)
        Resumes.kept[key] = shutil.copytree(folder, pathlib.Path(scratch.name, "kept"), symlinks=True)

    def go_one_epoch(self):
        self.once(self.run_dir, lambda: self.go("trainer.max_epochs=1"))

    def finished(self):
        """Returns the folder of a run of one epoch, which has its place below runs/."""
        self.once(self.folder / "runs", lambda: self.call("run", "digits.yaml", "trainer.max_epochs=1"))
        return next(path for path in (self.folder / "runs" / "smoke").iterdir() if not path.is_symlink())

    def result(self, run_dir=None):
        return json.loads(((run_dir or self.run_dir) / "result.json").read_text())

    def kill(self, *words, wanted=1, victim="worker"):
        """Starts a run and sends SIGKILL once it has `wanted` checkpoints."""
        process = start(self.folder, "run", "digits.yaml", *words, "--run-dir", self.run_dir)
        self.addCleanup(process.kill)
        deadline = time.monotonic() + DEADLINE
        while len(self.checkpoints()) < wanted or not worker_of(process):
            if process.poll() is not None or time.monotonic() > deadline:
                process.kill()
                raise AssertionError("no checkpoint came: " + "".join(process.communicate()))
            time.sleep(0.005)
        os.kill(process.pid if victim == "supervisor" else worker_of(process), signal.SIGKILL)
        _, err = process.communicate(timeout=DEADLINE)
        return process.returncode, err

    def checkpoints(self, prefix="epoch="):
        found = self.run_dir.glob(f"checkpoints/{prefix}*/manifest")
        return sorted(path.parent.name for path in found)

    def whole(self):
        """Trains the same run without a stop."""
        other = self.folder / "whole"
        self.go(run_dir=other)
        return other

    def assert_same_history(self, other):
        for name, drop in (("epochs.csv", "_s$|_per_s$|cpu_percent|_mb|gpu"), ("metrics.jsonl", "elapsed_s")):
            mine, theirs = ([{key: value for key, value in row.items() if not re.search(drop, key)} for row in self.read(d / name)]
                            for d in (self.run_dir, other))
            self.assertEqual(mine, theirs, name)

    @staticmethod
    def read(path):
        if path.suffix == ".csv":
            return rows(path)
        return [json.loads(line) for line in path.read_text().splitlines()]


class ResumesRuns(Resumes):
    def test_a_killed_run_names_the_command_that_resumes_it_and_ends_as_an_unbroken_one(self):
        code, err = self.kill("trainer.max_epochs=1000", wanted=3)
        self.assertEqual(code, 7, err)
        failed = self.result()
        self.assertTrue(failed["checkpoint"]["verified"])
        self.assertRegex(failed["checkpoint"]["path"], r"^checkpoints/epoch=\d{4}(-mid)?-step=\d{6}$")
        self.assertIn("--resume auto", failed["resume_command"])
        self.assertIn(failed["resume_command"], err)
        self.assertRegex(err, r"saved +checkpoints/epoch=\S+ \(step [\d,]+\), verified")
        step = failed["checkpoint"]["step"]

        result = self.go("--resume", "auto", "trainer.max_epochs=1000", f"trainer.max_steps={step + 2 * STEPS}")
        self.assertEqual((result["verdict"], result["resumed_from"]["step"], result["restarts"]), ("ok", step, 0))
        self.assertEqual(result["steps"], step + 2 * STEPS)
        numbers = [int(row["epoch"]) for row in rows(self.run_dir / "epochs.csv")]
        self.assertEqual(numbers, list(range(1, len(numbers) + 1)))
        self.assertEqual(result["epochs"], len(numbers))
        self.assertTrue((self.run_dir / "superseded" / "1" / "result.json").is_file())

    def test_files_and_result_are_those_of_a_run_that_was_never_stopped(self):
        code, _ = self.kill(wanted=2)
        if code == 0:
            self.skipTest("the run was faster than the kill")
        result = self.go("--resume", "auto")
        whole = self.whole()
        self.assert_same_history(whole)
        expected = self.result(whole)
        for key in ("epochs", "steps", "train", "val", "data_digest"):
            self.assertEqual(result[key], expected[key], key)
        self.assertEqual((result["best"]["epoch"], result["best"]["value"]), (expected["best"]["epoch"], expected["best"]["value"]))
        for name in ("best.safetensors", "last.safetensors"):
            mine, theirs = ((d / "checkpoints" / name).read_bytes() for d in (self.run_dir, whole))
            self.assertEqual(mine, theirs, name)

    def test_a_killed_supervisor_leaves_a_folder_that_can_be_resumed(self):
        self.kill("trainer.max_epochs=1000", wanted=2, victim="supervisor")
        left = self.result()
        self.assertEqual((left["verdict"], left["exit_code"]), ("unfinished", None))
        self.assertIn("--resume", left["message"])
        epoch = int(re.search(r"epoch=(\d+)", self.checkpoints()[-1])[1])
        result = self.go("--resume", "last", f"trainer.max_epochs={epoch + 1}")
        self.assertEqual((result["verdict"], result["epochs"]), ("ok", epoch + 1))

    def test_sigterm_asks_for_a_requeue_and_the_same_command_resumes(self):
        process = start(self.folder, "run", "digits.yaml", "trainer.max_epochs=1000", "--run-dir", self.run_dir, "--resume", "auto")
        self.addCleanup(process.kill)
        deadline = time.monotonic() + DEADLINE
        while not self.checkpoints() and time.monotonic() < deadline:
            time.sleep(0.01)
        process.send_signal(signal.SIGTERM)
        out, err = process.communicate(timeout=DEADLINE)
        self.assertEqual(process.returncode, 75, out + err)
        self.assertIn("stopped:", err)
        stopped = self.result()["checkpoint"]
        self.assertTrue(stopped["verified"])
        result = self.go("--resume", "auto", f"trainer.max_steps={stopped['step'] + 5}", "trainer.max_epochs=1000")
        self.assertEqual((result["resumed_from"]["step"], result["steps"]), (stopped["step"], stopped["step"] + 5))

    def test_a_finished_run_is_extended_by_its_folder_alone(self):
        self.go_one_epoch()
        result = self.go("--resume", "auto", "trainer.max_epochs=2")
        self.assertEqual((result["epochs"], result["steps"]), (2, 2 * STEPS))
        self.assertIn("trainer.max_epochs: 1 -> 2", self.err)
        self.call("run", "--resume", self.run_dir, "trainer.max_epochs=3")
        self.assertEqual(self.result()["epochs"], 3)
        self.assertEqual([row["epoch"] for row in rows(self.run_dir / "epochs.csv")], ["1", "2", "3"])

    def test_times_of_a_resumed_run_cover_all_starts(self):
        self.go_one_epoch()
        result = self.result()
        result["wall_s"] = 7200.0  # far above any time that the second start takes
        (self.run_dir / "result.json").write_text(json.dumps(result))
        self.go("--resume", "auto", "trainer.max_epochs=2")
        epochs = [float(row["wall_s"]) for row in rows(self.run_dir / "epochs.csv")]
        self.call("compare", self.run_dir, self.run_dir, "--json")
        values = {metric["name"]: metric["values"][0][0] for metric in json.loads(self.out)["metrics"]}
        self.assertEqual((values["wall_s"], values["epochs"]), (self.result()["wall_s"], 2))
        self.assertGreaterEqual(values["wall_s"], 7200 + epochs[1])
        self.assertAlmostEqual(values["epoch_s"], epochs[1], places=9)
        self.call("compare", self.run_dir, self.run_dir)
        self.assertRegex(self.out, rf"whole epoch +{epochs[1]:.3f} s")
        self.call("report", self.run_dir, "--out", "page.html")
        page = (self.folder / "page.html").read_text()
        self.assertRegex(page, r"wall time</dt><dd>2 h")
        self.assertRegex(page, rf"all epochs(<[^>]*>)+{sum(epochs):.2f}<")

    def test_a_finished_run_is_not_trained_again(self):
        self.go_one_epoch()
        before = {path: path.read_bytes() for path in self.run_dir.iterdir() if path.is_file()}
        self.call("run", "digits.yaml", "trainer.max_epochs=1", "--run-dir", self.run_dir, "--resume", "auto")
        self.assertEqual(self.out, "already complete: raise trainer.max_epochs (1 of 1 epochs are done)\n")
        self.assertEqual({path: path.read_bytes() for path in self.run_dir.iterdir() if path.is_file()}, before)
        self.call("run", "digits.yaml", "trainer.max_epochs=1", "--run-dir", self.run_dir, "--resume", "auto", "--json")
        self.assertEqual(json.loads(self.out), {**self.result(), "run_dir": str(self.run_dir)})

    def test_a_finished_run_is_not_complete_with_other_settings(self):
        self.go_one_epoch()
        before = {path: path.read_bytes() for path in self.run_dir.iterdir() if path.is_file()}
        self.call("run", "digits.yaml", "trainer.max_epochs=1", "optimizer.lr=0.5", "--run-dir", self.run_dir, "--resume", "auto", code=2)
        self.assertIn("optimizer.lr: 0.002 -> 0.5", self.err)
        self.assertEqual({path: path.read_bytes() for path in self.run_dir.iterdir() if path.is_file()}, before)

    def test_a_name_means_the_newest_run_that_has_a_checkpoint(self):
        folder = self.finished()
        self.call("run", "digits.yaml", "optimizer.type=sgd", "++optimizer.lr=1e30", "checkpoint.every_n_steps=~", code=6)
        skipped = rf"is the run runs/smoke/{folder.name}; skipped 1 newer run without a checkpoint[ a-z']*: runs/smoke/"
        for words in (("checkpoint", "inspect", "smoke"), ("checkpoint", "verify", "latest"),
                      ("checkpoint", "export", "smoke", "--out", "out.safetensors"), ("eval", "smoke", "--checkpoint", "last"),
                      ("run", "--resume", "smoke", "trainer.max_epochs=2"), ("run", "smoke", "--resume", "auto", "trainer.max_epochs=3")):
            self.call(*words)
            self.assertRegex(self.err, skipped, words)
        self.assertEqual(self.result(folder)["epochs"], 3)

    def test_a_failed_run_without_a_checkpoint_does_not_hide_the_one_before(self):
        folder = self.finished()
        self.call("run", "digits.yaml", "optimizer.type=sgd", "++optimizer.lr=1e30", "checkpoint.every_n_steps=~", code=6)
        self.call("run", "digits.yaml", "--resume", "auto", "trainer.max_epochs=2")
        self.assertRegex(self.err, rf"resuming {folder} from checkpoint epoch=\S+; skipped 1 newer run without a checkpoint to resume from: ")
        self.assertEqual(self.result(folder)["epochs"], 2)

    def test_auto_says_that_training_starts_from_scratch(self):
        self.call("run", "digits.yaml", "--resume", "auto", "trainer.max_epochs=1")
        self.assertRegex(self.err, r"no run of 'smoke' in runs has a checkpoint to resume from: training starts from scratch in ")

    def test_without_a_folder_the_newest_run_of_that_name_is_resumed(self):
        self.call("run", "digits.yaml", "--resume", "auto", "trainer.max_epochs=1")
        self.call("run", "digits.yaml", "--resume", "auto", "trainer.max_epochs=2")
        folders = [path for path in (self.folder / "runs" / "smoke").iterdir() if not path.is_symlink()]
        self.assertEqual(len(folders), 1)
        self.assertEqual(self.result(folders[0])["epochs"], 2)


class OtherWays(Resumes):
    def test_the_best_is_resumed_and_later_checkpoints_are_superseded(self):
        self.go("checkpoint.save_top_k=-1")
        best = os.readlink(self.run_dir / "checkpoints" / "best")
        result = self.go("--resume", "best", "trainer.max_epochs=4", "checkpoint.save_top_k=-1")
        self.assertEqual(result["resumed_from"]["path"], f"checkpoints/{best}")
        self.assertEqual(result["epochs"], 4)

    def test_a_checkpoint_can_start_another_run(self):
        self.go_one_epoch()
        last = self.run_dir / "checkpoints" / os.readlink(self.run_dir / "checkpoints" / "last")
        before = sorted(path.name for path in self.run_dir.rglob("*"))
        result = self.go("--resume", last, "trainer.max_epochs=2", run_dir=self.folder / "fork")
        self.assertEqual((result["steps"], result["resumed_from"]["step"]), (2 * STEPS, STEPS))
        self.assertEqual(sorted(path.name for path in self.run_dir.rglob("*")), before)

    def test_a_flipped_bit_is_detected_and_the_previous_checkpoint_is_used(self):
        self.go_one_epoch()
        names = self.checkpoints()
        self.assertGreaterEqual(len(names), 2)
        part = self.run_dir / "checkpoints" / names[-1] / "rank_0.part"
        data = bytearray(part.read_bytes())
        data[len(data) // 2] ^= 1
        part.write_bytes(data)
        result = self.go("--resume", "auto", "trainer.max_epochs=2")
        self.assertEqual(result["resumed_from"]["path"], f"checkpoints/{names[-2]}")
        self.assertRegex(self.err, rf"warning: a checkpoint is damaged: .*{names[-1]}")
        self.assertIn("damaged", (self.run_dir / "logs" / "rank_0.log").read_text())
        self.assertTrue((self.run_dir / "checkpoints" / f"corrupt-{names[-1]}").is_dir())
        self.assertEqual(result["steps"], 2 * STEPS)

    def test_another_world_size_may_keep_the_global_batch(self):
        self.go_one_epoch()
        self.go("--resume", "auto", "trainer.devices=2", "loader.batch_size=30", "trainer.max_epochs=2", code=2)
        self.assertIn("loader.batch_size: 50 -> 30; loader.batch_size=25 keeps the global batch of 50", self.err)
        result = self.go("--resume", "auto", "trainer.devices=2", "loader.batch_size=25", "trainer.max_epochs=2")
        self.assertEqual((result["world_size"], result["steps"]), (2, 2 * STEPS))
        self.assertIn("loader.batch_size: 50 -> 25 (results not bit-identical: the global batch stays 50)", self.err)
        result = self.go("--resume", "auto", "trainer.devices=1", "loader.batch_size=25", "trainer.max_epochs=3")
        self.assertIn("the global batch is now 25 instead of 50", self.err)
        self.assertIn("loader.batch_size=50 keeps the global batch of 50", self.err)

    def test_another_config_is_refused_with_every_field(self):
        self.go_one_epoch()
        before = (self.run_dir / "result.json").read_bytes()
        self.go("--resume", "auto", "seed=8", "optimizer.lr=0.1", "trainer.max_epochs=2", code=2)
        self.assertIn("seed: 7 -> 8", self.err)
        self.assertIn("optimizer.lr: 0.002 -> 0.1", self.err)
        self.assertNotIn("max_epochs", self.err)
        self.assertEqual((self.run_dir / "result.json").read_bytes(), before)

    def test_a_checkpoint_that_cannot_be_resumed_has_an_exit_code(self):
        self.go("--resume", "last", code=10)
        self.call("run", "digits.yaml", "--resume", self.folder / "nowhere", code=10)
        (self.folder / "mine").mkdir()
        (self.folder / "mine" / "thesis.tex").write_text("x")
        self.go("--resume", "auto", run_dir=self.folder / "mine", code=2)
        self.assertIn("not a run folder", self.err)

    def test_changed_data_is_exit_10(self):
        (self.folder / "table.yaml").write_text(TABLE)
        table = self.folder / "rows.csv"

        def fill(last):
            lines = [f"{i},{2 * i}" for i in range(63)] + [f"63,{last}"]
            table.write_text("\n".join(["area,price", *lines]) + "\n")

        words = ("run", "table.yaml", "--run-dir", self.run_dir, "--resume", "auto")
        fill(126)
        self.call(*words, "trainer.max_epochs=1")
        manifest = self.run_dir / "manifest.json"
        document = json.loads(manifest.read_text())
        document["data_fingerprints"]["train"] = "0" * 16
        manifest.write_text(json.dumps(document))
        self.call(*words, "trainer.max_epochs=2")
        fill(7)
        for _ in range(2):
            self.call(*words, "trainer.max_epochs=3", code=10)
            self.assertRegex(self.err, r"dataset\.train: [0-9a-f]+ -> ")
        self.assertIn("--accept-data-change", self.err)
        self.assertEqual([row["epoch"] for row in rows(self.run_dir / "epochs.csv")], ["1", "2"])
        fill(126)
        self.call(*words, "trainer.max_epochs=3")
        fill(7)
        self.call(*words, "trainer.max_epochs=4", "--accept-data-change")
        self.assertRegex(self.err, r"warning: .*dataset\.train: [0-9a-f]+ -> [0-9a-f]+\); epoch 4 starts with the new data")
        resumed = self.result()["resumed_from"]
        self.assertIs(resumed["bitwise"], False)
        self.assertIn("dataset.train", resumed["why_not"])
        self.call(*words, "trainer.max_epochs=5")  # this checkpoint was written with the new data
        self.assertIs(self.result()["resumed_from"]["bitwise"], True)

    def test_accepted_data_restarts_the_interrupted_epoch(self):
        (self.folder / "table.yaml").write_text(TABLE)

        def fill(last):
            lines = [f"{i},{2 * i}" for i in range(63)] + [f"63,{last}"]
            (self.folder / "rows.csv").write_text("\n".join(["area,price", *lines]) + "\n")

        words = ("run", "table.yaml", "--run-dir", self.run_dir, "trainer.max_epochs=2")
        fill(126)
        self.call(*words, "trainer.max_steps=12")  # an epoch has 8 steps
        fill(7)
        self.call(*words, "--accept-data-change", code=2)
        self.assertIn("requires --resume", self.err)
        self.call(*words, "--resume", "auto", "--accept-data-change")
        self.assertIn("epoch 2 starts again from its first batch with the new data", self.err)
        self.assertEqual((self.result()["resumed_from"]["step"], self.result()["steps"]), (12, 20))
        self.assertEqual([row["epoch"] for row in rows(self.run_dir / "epochs.csv")], ["1", "2"])


class Damaged(Resumes):
    def test_files_that_can_be_rebuilt_do_not_stop_a_resumed_run(self):
        self.go("trainer.max_epochs=1", "--until-epoch", 1)
        names = ("task.json", "result.json", "manifest.json", "config.resolved.yaml")
        for name in names:
            (self.run_dir / name).write_text('{"cut')
        lines = (self.run_dir / "metrics.jsonl").read_text().splitlines()
        (self.run_dir / "metrics.jsonl").write_text("\n".join([lines[0], "rubbish", *lines[1:]]) + "\n")
        result = self.go("--resume", "auto", "trainer.max_epochs=2")
        self.assertEqual((result["verdict"], result["epochs"]), ("ok", 2))
        for name in names:
            self.assertIn(f"{name} is damaged", self.err)
            self.assertEqual((self.run_dir / f"corrupt-{name}").read_text(), '{"cut')
        self.assertIn("metrics.jsonl: line 2 is not a metrics line", self.err)
        self.assertNotIn("rubbish", (self.run_dir / "metrics.jsonl").read_text())

    def test_a_run_is_resumed_by_its_folder_without_its_config(self):
        self.go_one_epoch()
        (self.run_dir / "config.resolved.yaml").write_text("name: [")
        self.call("run", "--resume", self.run_dir, "trainer.max_epochs=2")
        self.assertIn("written again from the newest checkpoint", self.err)
        self.assertEqual(self.result()["epochs"], 2)

    def test_a_finished_run_stays_complete_whatever_is_damaged(self):
        folder = self.finished()
        config = folder / "config.resolved.yaml"
        sound = config.read_text()
        config.write_text("name: [")
        (folder / "manifest.json").write_text('{"cut')
        words = ("run", "digits.yaml", "trainer.max_epochs=1", "--resume", "auto")
        for _ in range(2):
            self.call(*words)
            self.assertIn("already complete", self.out)
            self.assertIn("manifest.json is damaged", self.err)
            self.assertNotRegex(self.err, r"manifest\.json.*written again")
        self.assertEqual(config.read_text(), sound)
        self.assertEqual((folder / "manifest.json").read_text(), '{"cut')
        config.unlink()
        self.call(*words)
        self.assertIn("already complete", self.out)
        self.assertEqual(config.read_text(), sound)
        self.assertEqual(len(list(folder.parent.iterdir())), 2)

    def test_a_refused_setting_does_not_lose_a_run_with_a_damaged_config(self):
        folder = self.finished()
        for _ in range(2):
            (folder / "config.resolved.yaml").write_text("name: [")
            self.call("run", "digits.yaml", "trainer.max_epochs=2", "optimizer.lr=0.5", "--resume", "auto", code=2)
        (folder / "config.resolved.yaml").unlink()
        self.call("run", "digits.yaml", "trainer.max_epochs=2", "--resume", "auto")
        self.assertEqual((self.result(folder)["epochs"], self.result(folder)["resumed_from"]["step"]), (2, STEPS))

    def test_an_evaluation_restores_a_damaged_config_and_reports_a_damaged_task(self):
        folder = self.finished()
        (folder / "config.resolved.yaml").write_text("name: [")
        self.call("eval", folder, "--checkpoint", "last")
        self.assertIn("written again from the newest checkpoint", self.err)
        (folder / "task.json").write_text('{"cut')
        for words in (("digits.yaml",), ("smoke",), (folder,)):
            self.call("eval", *words, "--checkpoint", "last")
            self.assertIn("task.json is damaged (the content must be", self.err, words)

    def test_an_evaluation_of_a_run_in_use_whose_config_is_damaged_says_what_to_do(self):
        folder = self.finished()
        process = start(self.folder, "run", "digits.yaml", "trainer.max_epochs=100000", "--run-dir", folder, "--resume", "auto")
        self.addCleanup(process.communicate)
        self.addCleanup(process.kill)
        deadline = time.monotonic() + DEADLINE
        while not list((folder / "checkpoints").glob("epoch=0003*")) and process.poll() is None and time.monotonic() < deadline:
            time.sleep(0.01)
        (folder / "config.resolved.yaml").write_text("name: [")
        self.call("eval", folder, "--checkpoint", "last", code=2)
        for part in (str(folder), "config.resolved.yaml is damaged", "another process uses the folder", "hint: wait until"):
            self.assertIn(part, self.err)

    def test_a_link_that_moves_does_not_move_the_run(self):
        folder = self.finished()
        other = folder.parent / "other"
        other.mkdir()
        process = start(self.folder, "run", "digits.yaml", "trainer.max_epochs=1000", "--run-dir", folder.parent / "latest", "--resume", "auto")
        self.addCleanup(process.kill)
        deadline = time.monotonic() + DEADLINE
        while not (folder / ".lock").exists() and process.poll() is None and time.monotonic() < deadline:
            time.sleep(0.002)
        (folder.parent / "new").symlink_to("other")
        (folder.parent / "new").rename(folder.parent / "latest")
        saved = folder / "checkpoints"
        while (len(list(saved.glob("epoch=0003*"))) == 0 and not (other / "checkpoints").exists()
               and process.poll() is None and time.monotonic() < deadline):
            time.sleep(0.01)
        process.send_signal(signal.SIGTERM)
        out, err = process.communicate(timeout=DEADLINE)
        self.assertEqual(process.returncode, 75, out + err)
        self.assertEqual(list(other.iterdir()), [])
        self.assertGreater(self.result(folder)["epochs"], 1)
        self.assertIn(f"--run-dir {folder} --resume auto", self.result(folder)["resume_command"])


class Restarts(Resumes):
    def test_a_killed_worker_is_replaced_and_the_run_ends_well(self):
        process = start(self.folder, "run", "digits.yaml", "--max-restarts", 2, "trainer.max_epochs=20", "--run-dir", self.run_dir)
        self.addCleanup(process.kill)
        deadline = time.monotonic() + DEADLINE
        while not self.checkpoints() and process.poll() is None and time.monotonic() < deadline:
            time.sleep(0.005)
        os.kill(worker_of(process), signal.SIGKILL)
        _, err = process.communicate(timeout=DEADLINE)
        self.assertEqual(process.returncode, 0, err)
        result = self.result()
        self.assertEqual((result["restarts"], result["verdict"], result["epochs"]), (1, "ok", 20))
        self.assertIn("restart 1 of 2 resumes from", err)
        self.assertEqual([int(row["epoch"]) for row in rows(self.run_dir / "epochs.csv")], list(range(1, 21)))

    def test_a_config_that_diverges_is_not_started_again(self):
        result = self.go("--max-restarts", 3, "optimizer.type=sgd", "++optimizer.lr=1e30", code=6)
        self.assertEqual((result["restarts"], result["resume_command"]), (0, None))


class CheckpointsOfEarlierBuilds(unittest.TestCase):
    """Resumes the checkpoint in tests/golden/checkpoints: the middle of an epoch, two ranks, an exponential average, early
    stopping, shuffled. `trainctl run mid_epoch.yaml` wrote it in the build before TrainLoop (commit 683df9f); that run ended with
    these figures."""

    GOLDEN = pathlib.Path(__file__).parent.parent / "golden/checkpoints"
    VAL_LOSS = [2.150513, 2.089768]  # epochs 2 and 3
    DATA_DIGEST = "83b23d7235ea98fb"

    def test_the_run_continues_to_the_figures_of_the_whole_run(self):
        with tempfile.TemporaryDirectory(prefix="trainctl-resume-") as folder:
            code, _, err = run(folder, "run", self.GOLDEN / "mid_epoch.yaml", "--resume", self.GOLDEN / "epoch=0002-mid-step=000014",
                               "--run-dir", "again")
            self.assertEqual(code, 0, err)
            epochs = rows(pathlib.Path(folder, "again/epochs.csv"))
            self.assertEqual([int(row["epoch"]) for row in epochs], [2, 3])
            self.assertEqual([int(row["step"]) for row in epochs], [20, 30])
            for row, loss in zip(epochs, self.VAL_LOSS):
                self.assertAlmostEqual(float(row["val/loss"]), loss, delta=1e-4)  # other CPUs round differently
            result = json.loads(pathlib.Path(folder, "again/result.json").read_text())
            self.assertEqual(result["data_digest"], self.DATA_DIGEST)


if __name__ == "__main__":
    unittest.main(verbosity=2)
