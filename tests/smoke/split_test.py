"""Drives runs on one data set that `dataset.split` divides into train, val and test. Needs TRAINCTL_BINARY."""

import csv
import io
import json
import os
import pathlib
import shutil
import struct
import tarfile
import tempfile
import unittest

from predict_test import png
from support import SOURCE, run

CONFIG = """\
name: split
seed: 7
dataset:
  train: {type: csv, path: rows.csv, label: y, standardize: true}
  split: {val: 0.2, test: 0.1, seed: 1, stratify: true, group_by: patient}
loader: {batch_size: 8}
model: {type: mlp, hidden: [8]}
optimizer: {type: adam, lr: 0.01}
metrics: [accuracy]
trainer: {max_epochs: 2, accelerator: cpu, num_threads: 1}
"""

IMAGES = """\
name: images
dataset:
  train: {type: image_folder, root: images, transforms: [{type: resize, size: 8}]}
  split: {val: 0.2, test: 0.2, seed: 1}
loader: {batch_size: 8}
model: {type: mlp, hidden: [8]}
optimizer: {type: adam, lr: 0.01}
trainer: {max_epochs: 2, accelerator: cpu, num_threads: 1, devices: 1}
"""

ANY = """\
name: any
dataset: {train: %s, split: {val: 0.2, test: 0.1, seed: 1}}
loader: {batch_size: 10}
model: {type: mlp, hidden: [4]}
optimizer: {type: sgd, lr: 0.001}
trainer: {max_epochs: 1, accelerator: cpu, num_threads: 1, devices: 1}
"""


class SplitsFromOneSet(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory(prefix="trainctl-split-")
        self.addCleanup(scratch.cleanup)
        self.folder = pathlib.Path(scratch.name)
        lines = ["a,b,y,patient"]
        lines += [f"{i % 7},{i * i % 11},{'well' if i % 7 > 3 else 'ill'},p{i // 5}" for i in range(200)]
        (self.folder / "rows.csv").write_text("\n".join(lines))  # the last line has no line break
        (self.folder / "split.yaml").write_text(CONFIG)

    def train(self, *words):
        code, _, err = run(self.folder, "run", *words)
        self.assertEqual(code, 0, err)

    def document(self, run_dir, name="split.json"):
        return json.loads((self.folder / run_dir / name).read_text())

    def test_the_parts_are_in_the_run_folder_and_the_same_on_all_ranks_and_after_a_resume(self):
        self.train("split.yaml", "--run-dir", "one", "trainer.devices=1")
        split = self.document("one")
        self.assertEqual(split["schema"], "trainctl.split/2")
        self.assertEqual(split["samples"], {"train": 140, "val": 40, "test": 20})
        self.assertEqual((len(split["val"]), len(split["test"])), (40, 20))
        patients = [{i // 5 for i in split[part]} for part in ("val", "test")]
        self.assertEqual([len(some) for some in patients], [8, 4])
        self.assertFalse(patients[0] & patients[1])
        manifest = self.document("one", "manifest.json")
        self.assertEqual(manifest["split"]["file"], "split.json")
        self.assertEqual(manifest["split"]["val"], 0.2)
        self.assertEqual(manifest["split"]["group_by"], "patient")
        self.assertEqual(manifest["course"]["train_samples"], 140)

        self.train("split.yaml", "--run-dir", "two", "trainer.devices=2", "loader.batch_size=4")
        self.assertEqual(self.document("two"), split)

        self.train("split.yaml", "--run-dir", "one", "--resume", "last", "trainer.devices=1", "trainer.max_epochs=3")
        self.assertEqual(self.document("one"), split)
        code, _, err = run(self.folder, "run", "split.yaml", "--run-dir", "one", "--resume", "last", "trainer.devices=1",
                           "trainer.max_epochs=4", "dataset.split.seed=2")
        self.assertEqual(code, 2)
        self.assertIn("dataset.split.seed: 1 -> 2", err)

        code, out, err = run(self.folder, "eval", "one/config.resolved.yaml", "--checkpoint", "one/checkpoints/last", "--split",
                             "test", "--json")
        self.assertEqual(code, 0, err)
        self.assertIn("20", out)

    def test_evaluation_refuses_a_division_of_other_data_than_the_run_was_trained_on(self):
        self.train("split.yaml", "--run-dir", "one", "trainer.devices=1", "trainer.max_epochs=1")
        with open(self.folder / "rows.csv", "a") as rows:
            rows.writelines(f"\n{i % 7},{i % 11},ill,q{i}" for i in range(20))
        for checkpoint in ("best", "last", "one/checkpoints/best.safetensors"):
            verb = ("eval", "one", "--checkpoint", checkpoint) if "/" not in checkpoint else (
                "eval", "split.yaml", "--checkpoint", checkpoint)
            code, out, err = run(self.folder, *verb, "--split", "test")
            self.assertEqual((code, out), (10, ""), err)
            self.assertIn("dataset.split divides other data than in training", err)
            self.assertIn("--accept-data-change", err)
        code, _, err = run(self.folder, "predict", "one", "--checkpoint", "last", "--out", "rows_out.csv")
        self.assertEqual(code, 10, err)
        self.assertFalse((self.folder / "rows_out.csv").exists())
        code, out, err = run(self.folder, "eval", "one", "--checkpoint", "last", "--accept-data-change")
        self.assertEqual(code, 0, err)

    def test_a_checkpoint_that_was_copied_elsewhere_knows_its_division(self):
        self.train("split.yaml", "--run-dir", "one", "trainer.devices=1", "trainer.max_epochs=1")
        last = (self.folder / "one/checkpoints/last").resolve()
        shutil.copytree(last, self.folder / "copy" / last.name)
        words = ("eval", "split.yaml", "--checkpoint", f"copy/{last.name}", "--split", "test")
        code, _, err = run(self.folder, *words)
        self.assertEqual(code, 0, err)
        with open(self.folder / "rows.csv", "a") as rows:
            rows.write("\n1,2,ill,q1")
        code, _, err = run(self.folder, *words)
        self.assertEqual(code, 10, err)

    def test_touching_image_files_changes_no_division(self):
        for i in range(40):
            path = self.folder / "images" / ("cat" if i % 2 else "dog") / f"{i}.png"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(png((180, 60, 20) if i % 2 else (20, 60, 180), i))
        (self.folder / "images.yaml").write_text(IMAGES)
        self.train("images.yaml", "--run-dir", "one")
        for path in self.folder.glob("images/*/*.png"):
            os.utime(path, (1_000_000_000, 1_000_000_000))
        for verb in (("eval", "one"), ("predict", "one", "--out", "rows_out.csv")):
            code, _, err = run(self.folder, *verb, "--checkpoint", "last", "--split", "test")
            self.assertEqual(code, 0, err)
        (self.folder / "images/cat/new.png").write_bytes(png((180, 60, 20), 7))
        code, _, err = run(self.folder, "eval", "one", "--checkpoint", "last")
        self.assertEqual(code, 10, err)
        code, _, err = run(self.folder, "run", "images.yaml", "--run-dir", "one", "--resume", "last", "trainer.max_epochs=3")
        self.assertEqual(code, 10, err)  # a resumed run needs the same bytes

    def check_parts(self, stage, column, values, *words):
        """Checks that the parts are disjoint and complete, and the same on two ranks. `values` has the entry of each sample in the
        column of the predictions."""
        (self.folder / "any.yaml").write_text(ANY % stage)
        self.train("any.yaml", *words, "--run-dir", "one")
        split, result = self.document("one"), self.document("one", "result.json")
        parts = {part: split[part] for part in ("val", "test")}
        parts["train"] = sorted(set(range(len(values))) - set(parts["val"]) - set(parts["test"]))
        sizes = {"train": len(values) * 7 // 10, "val": len(values) // 5, "test": len(values) // 10}
        self.assertEqual({part: len(indices) for part, indices in parts.items()}, sizes)
        self.assertEqual(split["samples"], sizes)
        for part, indices in parts.items():
            code, _, err = run(self.folder, "predict", "one", "--checkpoint", "last", "--split", part, "--out", f"{part}.csv")
            self.assertEqual(code, 0, err)
            with open(self.folder / f"{part}.csv", newline="") as file:
                self.assertEqual([row[column] for row in csv.DictReader(file)], [values[i] for i in indices], part)
        self.train("any.yaml", *words, "--run-dir", "two", "trainer.devices=2", "loader.batch_size=5")
        self.assertEqual(self.document("two"), split)
        other = self.document("two", "result.json")
        self.assertEqual((other["world_size"], other["data_digest"]), (2, result["data_digest"]))

    def write_array(self, name, kind, values):
        head = repr({"descr": f"<{kind}4", "fortran_order": False, "shape": (len(values),)}).encode()
        data = struct.pack(f"<{len(values)}{kind}", *values)
        (self.folder / name).write_bytes(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(head)) + head + data)

    def test_arrays_of_numpy_are_divided(self):
        self.write_array("x.npy", "f", [i / 100 for i in range(100)])
        self.write_array("y.npy", "f", range(100))
        self.check_parts("{type: npy, features: x.npy, labels: y.npy}", "target", [str(i) for i in range(100)], "+loss=mse")

    def test_shards_of_webdataset_are_divided(self):
        for shard in range(2):
            with tarfile.open(self.folder / f"{shard}.tar", "w") as tar:
                for i in range(20 * shard, 20 * shard + 20):
                    for suffix, data in (("png", png((20, 60, 180), i)), ("cls", b"cat" if i % 3 else b"dog")):
                        member = tarfile.TarInfo(f"{i:02}.{suffix}")
                        member.size = len(data)
                        tar.addfile(member, io.BytesIO(data))
        names = [f"{self.folder}/{i // 20}.tar:{i:02}.png" for i in range(40)]
        self.check_parts('{type: webdataset, shards: ["?.tar"], transforms: [{type: resize, size: 8}]}', "name", names)

    def test_rows_of_parquet_are_divided(self):
        path = SOURCE / "tests/golden/data/growth_small.parquet"
        stage = f"{{type: parquet, path: {path}, label: y, categorical: [kind]}}"
        (self.folder / "any.yaml").write_text(ANY % stage)
        _, _, err = run(self.folder, "validate", "any.yaml")
        if "does not read Parquet" in err:
            self.skipTest("this build does not read Parquet")
        self.check_parts(stage, "label", [str(i % 4) for i in range(1000)])

    def test_statistics_of_other_training_data_are_a_warning(self):
        lines = (self.folder / "rows.csv").read_text().splitlines()
        (self.folder / "train.csv").write_text("\n".join(lines[:150]) + "\n")
        (self.folder / "val.csv").write_text("\n".join(lines[:1] + lines[150:]) + "\n")
        for name, words in (("learned", ", standardize: true, statistics_from: train.csv"), ("plain", "")):
            table = "{type: csv, path: %s.csv, label: y, features: [a, b]" + words + "}"
            (self.folder / f"{name}.yaml").write_text(
                f"name: {name}\ndataset:\n  train: {table % 'train'}\n  val: {table % 'val'}\n" + CONFIG[CONFIG.index("loader:"):])
            self.train(f"{name}.yaml", "--run-dir", name)
            code, _, err = run(self.folder, "eval", name, "--checkpoint", "last")
            self.assertEqual((code, "warning" in err), (0, False), err)
        with open(self.folder / "train.csv", "a") as rows:
            rows.write("90,2,ill,q1\n")
        for name, expected in (("learned", 1), ("plain", 0)):
            for verb in (("eval", name), ("predict", name, "--out", f"{name}_rows.csv")):
                code, _, err = run(self.folder, *verb, "--checkpoint", "last")
                self.assertEqual(code, 0, err)
                self.assertEqual(err.count("dataset.train has changed since training"), expected, err)


if __name__ == "__main__":
    unittest.main()
