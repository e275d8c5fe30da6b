"""Drives `trainctl eval` and `trainctl predict` as a user does. Needs TRAINCTL_BINARY."""

import ast
import csv
import json
import math
import os
import pathlib
import random
import re
import shutil
import signal
import struct
import sys
import tempfile
import time
import unittest

from support import SOURCE, Smoke, run, start

sys.path.insert(0, str(SOURCE / "configs"))
import make_data

METRICS = "metrics=[accuracy, f1, confusion_matrix]"
TEST_SPLIT = "++dataset.test={type: synthetic_digits, split: test, samples: 77, transforms: [{type: normalize, mean: [0.2], std: [0.3]}]}"


def read_npy(path):
    """Returns (descr, shape, values) of a file in numpy's format 1.0."""
    data = pathlib.Path(path).read_bytes()
    assert data[:8] == b"\x93NUMPY\x01\x00", data[:8]
    length = struct.unpack("<H", data[8:10])[0]
    assert (10 + length) % 64 == 0
    head = ast.literal_eval(data[10:10 + length].decode("ascii"))
    assert head["fortran_order"] is False
    kind = {"<f4": "f", "<i8": "q"}[head["descr"]]
    count = math.prod(head["shape"])
    return head["descr"], head["shape"], struct.unpack(f"<{count}{kind}", data[10 + length:])


def as_float32(text):
    return struct.unpack("<f", struct.pack("<f", float(text)))[0]


class Trained(Smoke):
    """Every test reads the checkpoints of one short run."""

    def setUp(self):
        super().setUp()
        self.result = self.train_once(METRICS)
        self.trained = self.run_dir

    def eval(self, *words, code=0, config=None):
        returned, self.out, self.err = run(self.folder, "eval", config or self.trained, *words)
        self.assertEqual(returned, code, self.out + self.err)

    def evaluated(self, *words, config=None):
        self.eval(*words, "--json", config=config)
        document = json.loads(self.out)
        self.assertEqual((document["schema"], document["verdict"]), ("trainctl.evaluation/2", "ok"))
        return document

    def predict(self, name, *words, code=0, config=None):
        which = [] if "--checkpoint" in words else ["--checkpoint", "best"]
        returned, self.out, self.err = run(self.folder, "predict", config or self.trained, *which, "--out", self.folder / name, *words)
        self.assertEqual(returned, code, self.out + self.err)
        return self.folder / name

    def rows(self, name, *words, **options):
        with open(self.predict(name, *words, **options), newline="") as file:
            return list(csv.DictReader(file))

    def assert_nothing_is_left(self, before):
        self.assertEqual({p.name for p in self.folder.iterdir()}, before)


class Evaluates(Trained):
    def best_epoch(self):
        for line in (self.trained / "metrics.jsonl").read_text().splitlines():
            record = json.loads(line)
            if record["type"] == "epoch" and record["epoch"] == self.result["best"]["epoch"]:
                return {name.removeprefix("val/"): value for name, value in record.items() if name.startswith("val/")}
        self.fail("the best epoch is not in metrics.jsonl")

    def test_best_has_the_values_that_the_run_had(self):
        document = self.evaluated("--checkpoint", "best")
        self.assertEqual(document["metrics"], self.best_epoch())
        self.assertEqual((document["split"], document["samples"]), ("val", 500))
        self.assertTrue(document["checkpoint"].endswith("checkpoints/best.safetensors"))

    def test_limit_options_do_not_apply(self):
        document = self.evaluated("--checkpoint", "best", "++trainer.limit_val_batches=1", "++trainer.fast_dev_run=true")
        self.assertEqual(document["metrics"], self.best_epoch())

    def test_a_config_and_a_path_say_the_same_as_the_run_folder(self):
        expected = self.evaluated("--checkpoint", "last")["metrics"]
        self.assertEqual(expected, self.result["val"])
        plain = self.evaluated(METRICS, "--checkpoint", "last", "--run-dir", self.trained, config="digits.yaml")
        path = self.evaluated(METRICS, "--checkpoint", self.trained / "checkpoints/last.safetensors", config="digits.yaml")
        self.assertEqual((plain["metrics"], path["metrics"]), (expected, expected))

    def test_best_of_an_experiment_is_that_of_its_newest_run_that_has_one(self):
        runs = self.folder / "runs" / "smoke"
        for name in ("20260101-000000-aaaa", "20260102-000000-bbbb", "20260103-000000-cccc"):
            shutil.copytree(self.trained, runs / name, symlinks=True)
        shutil.rmtree(runs / "20260103-000000-cccc" / "checkpoints")
        document = self.evaluated(METRICS, "--checkpoint", "best", config="digits.yaml")
        self.assertEqual(document["metrics"], self.best_epoch())
        self.assertEqual(document["checkpoint"], str(runs / "20260102-000000-bbbb" / "checkpoints/best.safetensors"))
        returned, out, err = run(self.folder, "eval", "digits.yaml", METRICS, "--checkpoint", "last")
        self.assertEqual(returned, 0, out + err)
        self.assertIn("--checkpoint last: using the run " + str(runs / "20260102-000000-bbbb"), err)

    def test_best_is_that_of_an_older_run_if_the_newest_has_only_last(self):
        runs = self.folder / "runs" / "smoke"
        older, newer = runs / "20260101-000000-aaaa", runs / "20260102-000000-bbbb"
        for path in (older, newer):
            shutil.copytree(self.trained, path, symlinks=True)
        for name in ("best", "best.safetensors"):
            (newer / "checkpoints" / name).unlink()
        for config in ("smoke", "digits.yaml"):
            document = self.evaluated(METRICS, "--checkpoint", "best", config=config)
            self.assertEqual(document["checkpoint"], str(older / "checkpoints/best.safetensors"))
            self.assertIn(f"skipped 1 newer run without a checkpoint 'best': ", self.err)

    def test_names_of_other_programs_are_renamed(self):
        data = (self.trained / "checkpoints/best.safetensors").read_bytes()
        length = int.from_bytes(data[:8], "little")
        tensors = json.loads(data[8:8 + length])
        names = {"fc1.weight": "net.fc1.weight", "fc1.bias": "net.fc1.bias", "fc2.weight": "net.head.weight", "fc2.bias": "net.head.bias"}
        header = json.dumps({names.get(name, name): value for name, value in tensors.items()}).encode()
        header += b" " * (-len(header) % 8)
        (self.folder / "other.safetensors").write_bytes(len(header).to_bytes(8, "little") + header + data[8 + length:])
        words = [METRICS, "--checkpoint", "other.safetensors", "--prefix", "net."]
        document = self.evaluated(*words, "--key-map", "head.=fc2.", config="digits.yaml")
        self.assertEqual(document["metrics"], self.best_epoch())
        temporary = self.folder / "temporary"  # keeps a folder with logs only if a process failed
        temporary.mkdir()
        for more, code, text in (
                ([], 10, "the file lacks 2 tensors of the model"), (["--key-map", "tail.=fc2."], 2, "--key-map: the file has no tensor"),
                (["--key-map", "head"], 2, "--key-map must be FROM=TO"), (["--section", "ema"], 2, "has no sections")):
            self.assertIn(text, self.refused("eval", "digits.yaml", *words, *more, code=code, TMPDIR=str(temporary)))
        self.assertEqual(len(list(temporary.glob("trainctl-*"))), 1)

    def test_a_section_of_a_timm_checkpoint_is_evaluated_and_predicted(self):
        source = SOURCE / "tests/golden/torch/timm.pth.tar"
        (self.folder / "tiny.yaml").write_text("""\
dataset:
  train: {type: synthetic_images, height: 3, width: 3, channels: 1, classes: 2, samples: 40}
  val: {type: synthetic_images, height: 3, width: 3, channels: 1, classes: 2, samples: 40, split: test}
model: {type: sequential, layers: [{type: conv2d, out_channels: 2, kernel_size: 3}, batch_norm2d, flatten]}
optimizer: sgd
trainer: {max_epochs: 1, accelerator: cpu, devices: 1, num_threads: 1}
""")
        names = ["--key-map", "conv.=0.", "--key-map", "bn.=1."]
        losses = []
        for section in ([], ["--section", "state_dict_ema"]):
            words = ["--checkpoint", source, *section, *names]
            losses.append(self.evaluated(*words, config="tiny.yaml")["metrics"]["loss"])
            rows = self.rows("tiny.csv", *words, "--outputs", "logits", "--force", config="tiny.yaml")
            sums = [math.log(sum(math.exp(float(row[f"logit_{k}"])) for k in range(2))) - float(row[f"logit_{row['label']}"]) for row in rows]
            self.assertAlmostEqual(sum(sums) / 40, losses[-1], places=4)
        self.assertNotAlmostEqual(losses[0], losses[1], places=3)
        code, out, err = run(self.folder, "checkpoint", "import", source, "--section", "state_dict_ema", "--out", "ema.safetensors")
        self.assertEqual(code, 0, out + err)
        imported = self.evaluated("--checkpoint", "ema.safetensors", *names, config="tiny.yaml")
        self.assertEqual(imported["metrics"]["loss"], losses[1])

    def test_two_processes_count_each_sample_once(self):
        words = ["--checkpoint", "best", TEST_SPLIT, "--split", "test"]
        one = self.evaluated(*words)
        two = self.evaluated(*words, "++trainer.devices=2", "++loader.batch_size=7")
        self.assertEqual((one["samples"], two["samples"], two["world_size"]), (77, 77, 2))
        self.assertEqual(one["tables"], two["tables"])
        self.assertEqual(sum(map(sum, one["tables"]["confusion_matrix"])), 77)
        self.assertEqual(one["metrics"]["accuracy"], two["metrics"]["accuracy"])
        self.assertAlmostEqual(one["metrics"]["loss"], two["metrics"]["loss"], places=5)

    def test_the_training_split_is_seen_with_the_transforms_of_validation(self):
        plain = self.evaluated("--checkpoint", "best", "--split", "train")
        self.assertEqual(plain["samples"], 2000)
        turned = self.evaluated("--checkpoint", "best", "--split", "train",
                                "dataset.train.transforms=[{type: random_rotation, degrees: 90}]")
        self.assertEqual(turned["metrics"], plain["metrics"])
        self.eval("--checkpoint", "best", "--split", "train", "~dataset.val",
                  "dataset.train.transforms=[{type: random_rotation, degrees: 90}]", code=2)
        self.assertIn("add dataset.val", self.err)

    def test_the_table_names_split_checkpoint_and_metrics(self):
        before = {p.name for p in self.folder.iterdir()}
        self.eval("--checkpoint", "best")
        self.assertRegex(self.out, r"best\.safetensors on split val: 500 samples in ")
        self.assertRegex(self.out, r"(?m)^ accuracy +0\.\d{4}$")
        self.assertIn("confusion_matrix", self.out)
        self.assert_nothing_is_left(before)

    def test_out_keeps_result_tables_and_logs(self):
        out = self.folder / "kept"
        self.eval("--checkpoint", "best", "--out", out)
        document = json.loads((out / "result.json").read_text())
        self.assertEqual(document["schema"], "trainctl.evaluation/2")
        self.assertTrue((out / "logs/rank_0.log").is_file())
        self.assertFalse((out / "checkpoints").exists())
        with open(out / "confusion_matrix.csv", newline="") as rows:
            counts = [[int(row[str(i)]) for i in range(10)] for row in csv.DictReader(rows)]
        self.assertEqual(counts, document["tables"]["confusion_matrix"])
        self.eval("--checkpoint", "best", "--out", out, code=2)
        self.assertIn("is not empty", self.err)

    def test_a_signal_ends_it_with_its_code_and_leaves_nothing(self):
        before = {p.name for p in self.folder.iterdir()}
        scratch = self.folder / "scratch"
        scratch.mkdir()
        process = start(self.folder, "eval", self.trained, "--checkpoint", "best", env={**os.environ, "TMPDIR": str(scratch)})
        deadline = time.monotonic() + 120
        while not list(scratch.glob("*/logs/rank_0.log")) and process.poll() is None and time.monotonic() < deadline:
            time.sleep(0.01)
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=300)
        self.assertEqual(process.returncode, 130)
        self.assertEqual(list(scratch.iterdir()), [])
        scratch.rmdir()
        self.assert_nothing_is_left(before)


class EvaluatesAnswers(Trained):
    """Each row has several binary labels."""

    CONFIG = """\
seed: 3
dataset:
  train: {type: npy, features: features.npy, labels: labels.npy}
  val: {type: npy, features: val_features.npy, labels: val_labels.npy}
loader: {batch_size: 32}
model: {type: mlp, hidden: [32]}
loss: {type: bce_with_logits, pos_weight: [1, 1, 4]}
optimizer: {type: adam, lr: 0.01}
metrics: [accuracy, precision, {type: recall, threshold: 0.3}, f1, auroc, mae]
trainer: {max_epochs: 6, accelerator: cpu, devices: 1, num_threads: 1}
"""

    def setUp(self):
        Smoke.setUp(self)
        make_data.multi_label(self.folder, random.Random(8))
        (self.folder / "answers.yaml").write_text(self.CONFIG)
        self.result = self.train(config="answers.yaml")
        self.trained = self.run_dir

    def test_two_processes_count_what_one_counts(self):
        words = ["--checkpoint", "last"]
        one = self.evaluated(*words)
        two = self.evaluated(*words, "++trainer.devices=2", "++loader.batch_size=7")
        self.assertEqual((one["samples"], two["samples"], two["world_size"]), (200, 200, 2))
        for name in ("accuracy", "precision", "recall", "f1", "auroc"):
            self.assertEqual(one["metrics"][name], two["metrics"][name], name)
            self.assertGreater(one["metrics"][name], 0.5, name)
        for name in ("loss", "mae"):
            self.assertAlmostEqual(one["metrics"][name], two["metrics"][name], places=5)


class Refuses(Trained):
    def refused(self, code, text, verb, *words):
        before = {p.name for p in self.folder.iterdir()}
        returned, out, err = run(self.folder, verb, *words)
        self.assertEqual(returned, code, out + err)
        self.assertRegex(err, text)
        return before

    def test_a_missing_checkpoint_is_an_error(self):
        self.refused(2, r"--checkpoint is required: best, last", "eval", self.trained)
        self.refused(2, r"no run of 'smoke' in .* has a checkpoint 'best'", "eval", "digits.yaml", "--checkpoint", "best")
        self.refused(2, r"nothing\.pth does not exist", "eval", "digits.yaml", "--checkpoint", "nothing.pth")
        self.refused(2, r"it is not a run folder", "eval", self.trained / "logs", "--checkpoint", "best")
        self.refused(2, r"both .* and --run-dir .* name a run folder", "eval", self.trained, "--run-dir", self.trained, "--checkpoint", "best")
        (self.trained / "checkpoints/best.safetensors").unlink()
        (self.trained / "checkpoints/best").unlink(missing_ok=True)
        self.refused(2, r"best\.safetensors does not exist; the run's checkpoints: .*last", "eval", self.trained,
                     "--checkpoint", "best")

    def test_weights_of_another_model_are_listed_and_the_folder_is_kept(self):
        scratch = pathlib.Path(tempfile.mkdtemp(dir=self.folder))
        returned, out, err = run(scratch, "predict", self.trained, "--checkpoint", "best", "model.hidden=[33]", "--out",
                                 scratch / "out.csv")
        self.assertEqual(returned, 10, out + err)
        self.assertIn("fc1.weight has the shape 32x784 in the file and 33x784 in the model", err)
        kept = pathlib.Path(re.search(r"folder +(\S+)", err).group(1))
        self.assertTrue((kept / "logs/rank_0.log").is_file())
        self.assertFalse((scratch / "out.csv").exists())

    def test_a_damaged_checkpoint(self):
        broken = self.folder / "broken.safetensors"
        broken.write_bytes((self.trained / "checkpoints/best.safetensors").read_bytes()[:-9])
        self.refused(10, r"broken\.safetensors", "eval", "digits.yaml", "--checkpoint", broken)

    def test_a_missing_split_is_an_error(self):
        self.refused(2, r"has no dataset\.test", "eval", self.trained, "--checkpoint", "best", "--split", "test")
        self.refused(2, r"--split", "eval", self.trained, "--checkpoint", "best", "--split", "dev")

    def test_invalid_options_of_predict_are_refused(self):
        words = [self.trained, "--checkpoint", "best"]
        self.refused(2, r"--out is required", "predict", *words)
        self.refused(2, r"\.csv, \.npy or \.jsonl", "predict", *words, "--out", "out.txt")
        self.refused(2, r"the folder of nowhere/out\.csv does not exist", "predict", *words, "--out", "nowhere/out.csv")
        self.refused(2, r"--outputs must be one of .*, got 'prob'", "predict", *words, "--out", "out.csv", "--outputs", "prob")
        self.refused(2, r"holds one array", "predict", *words, "--out", "out.npy", "--outputs", "class,logits")
        self.refused(2, r"use class", "predict", *words, "--out", "out.csv", "--outputs", "prediction")
        (self.folder / "out.csv").write_text("mine")
        before = self.refused(2, r"out\.csv already exists\s+hint: .* --force", "predict", *words, "--out", "out.csv")
        self.assertEqual((self.folder / "out.csv").read_text(), "mine")
        self.assert_nothing_is_left(before)


class Predicts(Trained):
    def test_the_classes_have_the_accuracy_of_the_evaluation(self):
        rows = self.rows("out.csv")
        self.assertEqual([int(row["index"]) for row in rows], list(range(500)))
        hits = sum(row["label"] == row["class"] for row in rows)
        self.assertEqual(hits / 500, self.evaluated("--checkpoint", "best")["metrics"]["accuracy"])
        for row in rows:
            shares = [float(row[f"prob_{i}"]) for i in range(10)]
            self.assertAlmostEqual(sum(shares), 1, places=5)
            self.assertEqual(row["class_prob"], row[f"prob_{row['class']}"])
            self.assertEqual(max(shares), float(row["class_prob"]))

    def test_the_three_formats_agree(self):
        rows = self.rows("out.csv", "--outputs", "logits,class")
        descr, shape, logits = read_npy(self.predict("out.npy", "--outputs", "logits"))
        self.assertEqual((descr, shape), ("<f4", (500, 10)))
        descr, shape, classes = read_npy(self.predict("class.npy", "--outputs", "class"))
        self.assertEqual((descr, shape), ("<i8", (500,)))
        lines = [json.loads(line) for line in self.predict("out.jsonl", "--outputs", "class,logits").read_text().splitlines()]
        self.assertEqual(len(lines), 500)
        for i, (row, line) in enumerate(zip(rows, lines)):
            values = list(logits[i * 10:i * 10 + 10])
            self.assertEqual([as_float32(row[f"logit_{k}"]) for k in range(10)], values)
            self.assertEqual([as_float32(value) for value in line["logits"]], values)
            self.assertEqual((line["index"], line["label"], line["class"]), (i, int(row["label"]), int(row["class"])))
            self.assertEqual(int(row["class"]), classes[i])

    def test_order_is_that_of_the_split_for_any_processes_and_workers(self):
        words = [TEST_SPLIT, "--split", "test", "--outputs", "logits,class"]
        one = self.rows("one.csv", *words)
        self.assertEqual(len(one), 77)
        again = self.predict("again.csv", *words, "++loader.num_workers=2").read_bytes()
        self.assertEqual(again, (self.folder / "one.csv").read_bytes())
        two = self.rows("two.csv", *words, "++trainer.devices=2", "++loader.batch_size=13")
        for a, b in zip(one, two, strict=True):
            self.assertEqual([a[k] for k in ("index", "label", "class")], [b[k] for k in ("index", "label", "class")])
            for k in range(10):
                self.assertAlmostEqual(float(a[f"logit_{k}"]), float(b[f"logit_{k}"]), places=4)

    def test_only_the_file_is_left_and_force_replaces_it(self):
        before = {p.name for p in self.folder.iterdir()}
        out = self.predict("out.csv")
        first = out.read_bytes()
        self.assert_nothing_is_left(before | {"out.csv"})
        self.assertIn("500 rows with class, probabilities for split val", self.out)
        self.predict("out.csv", "--force", "--outputs", "class")
        self.assertNotEqual(out.read_bytes(), first)
        self.predict("out.csv", "--json", "--force")
        document = json.loads(self.out)
        self.assertEqual((document["rows"], document["format"], document["outputs"]), (500, "csv", ["class", "probabilities"]))
        self.assertEqual(out.read_bytes(), first)

    def test_a_run_can_be_named_by_its_experiment_its_config_or_latest(self):
        runs = self.folder / "runs"
        newest, other = runs / "smoke/20260102-000000-bbbb", runs / "other/20260103-000000-cccc"
        for folder in (runs / "smoke/20260101-000000-aaaa", newest, other):
            shutil.copytree(self.trained, folder, symlinks=True)
        expected = self.predict("run.csv").read_bytes()
        for word, folder in (("smoke", newest), ("digits.yaml", newest), ("latest", other)):
            with self.subTest(word):
                self.assertEqual(self.predict("out.csv", "--force", "--json", config=word).read_bytes(), expected)
                self.assertEqual(json.loads(self.out)["checkpoint"], str(folder / "checkpoints/best.safetensors"))

    def test_bce_makes_sigmoids_of_one_hot_classes(self):
        rows = self.rows("out.csv", "loss=bce_with_logits", "--outputs", "probabilities,logits")
        for row in rows[:20]:
            logit = float(row["logit_3"])
            self.assertAlmostEqual(float(row["prob_3"]), 1 / (1 + math.exp(-logit)), places=5)


class PredictsNumbers(Smoke):
    CONFIG = """\
dataset:
  train: {type: csv, path: rows.csv, label: price, label_type: number}
  val: {type: csv, path: rows.csv, label: price, label_type: number}
loader: {batch_size: 7}
model: {type: linear}
loss: mse
optimizer: {type: sgd, lr: 0.01}
trainer: {max_epochs: 1, accelerator: cpu, devices: 1, num_threads: 1}
"""

    def test_a_regression_has_target_and_prediction(self):
        lines = ["size,rooms,price", *(f"{i / 10},{i % 3},{i * 0.5}" for i in range(30))]
        (self.folder / "rows.csv").write_text("\n".join(lines) + "\n")
        (self.folder / "rows.yaml").write_text(self.CONFIG)
        self.train(config="rows.yaml")
        out = self.folder / "out.csv"
        code, text, err = run(self.folder, "predict", self.run_dir, "--checkpoint", "last", "--out", out)
        self.assertEqual(code, 0, text + err)
        with open(out, newline="") as file:
            rows = list(csv.DictReader(file))
        self.assertEqual(list(rows[0]), ["index", "target", "prediction"])
        self.assertEqual([float(row["target"]) for row in rows], [i * 0.5 for i in range(30)])
        code, text, err = run(self.folder, "predict", self.run_dir, "--checkpoint", "last", "--out", out, "--force",
                              "--outputs", "class")
        self.assertEqual(code, 2, text + err)
        self.assertIn("use prediction", err)


if __name__ == "__main__":
    program = unittest.main(verbosity=2, exit=False)
    failed = not program.result.wasSuccessful()
    all_skipped = len(program.result.skipped) == program.result.testsRun
    raise SystemExit(1 if failed else 4 if all_skipped else 0)  # CTest shows exit code 4 as skipped
