"""`trainctl run` learns digits, tables and arrays, from scratch and from given weights. Needs TRAINCTL_BINARY; real MNIST is
optional."""

import hashlib
import json
import os
import pathlib
import random
import struct
from unittest import mock

from support import SOURCE, Smoke, main, run, write_miniature_mnist


class Quickstart(Smoke):
    def test_the_quickstart_reaches_95_percent_in_two_epochs(self):
        result = self.train(config=SOURCE / "configs/quickstart.yaml")
        self.assertEqual(result["epochs"], 2)
        self.assertGreaterEqual(result["val"]["accuracy"], 0.95)

    def test_a_linear_model_does_not_reach_90_percent(self):
        result = self.train("model=linear", config=SOURCE / "configs/quickstart.yaml")
        self.assertLess(result["val"]["accuracy"], 0.90)


class RealMnist(Smoke):
    """Trains the classic tutorial network: 784-128-64-10, Adam 1e-3, batch 64, 5 epochs."""

    def setUp(self):
        super().setUp()
        if not (pathlib.Path(os.environ.get("TRAINCTL_DATA", "")) / "mnist").is_dir():
            self.skipTest("set TRAINCTL_DATA to a folder with mnist/")

    def test_the_tutorial_run_reaches_its_published_losses(self):
        result = self.train(config=SOURCE / "configs/mnist/ffn.yaml")
        losses = [float(train) for train, _ in self.losses(self.run_dir)]
        self.assertTrue(0.22 <= losses[0] <= 0.29, losses)
        self.assertLess(losses[4], 0.07)
        self.assertGreaterEqual(result["best"]["value"], 0.97, "best validation accuracy of the five epochs")

    def test_lenet_in_miniature(self):
        result = self.train("trainer.max_epochs=1", "++trainer.limit_train_batches=150", config=SOURCE / "configs/mnist/lenet.yaml")
        self.assertGreater(result["val"]["accuracy"], 0.85)


class MnistInMiniature(Smoke):
    """Runs the MNIST configs on generated digits."""

    def setUp(self):
        super().setUp()
        write_miniature_mnist(self.folder / "data")

    def miniature(self, config, *words):
        with mock.patch.dict(os.environ, TRAINCTL_DATA=str(self.folder / "data")):
            return self.train("trainer.max_epochs=3", "loader.batch_size=16", *words, config=SOURCE / "configs/mnist" / config)

    def test_ffn_learns_the_bands(self):
        self.assertGreater(self.miniature("ffn.yaml")["val"]["accuracy"], 0.9)

    def test_lenet_learns_the_bands(self):
        self.assertGreater(self.miniature("lenet.yaml")["val"]["accuracy"], 0.9)

    def test_mixed_bands_are_learned_the_same_whatever_the_workers(self):
        mixed = "+dataset.train.batch_transforms=[{type: mixup, alpha: 0.4}, cutmix]"
        for config in ("ffn.yaml", "lenet.yaml"):
            outcomes = []
            for workers in (0, 2):
                result = self.miniature(config, mixed, f"+loader.num_workers={workers}", "+trainer.num_threads=1",
                                        "+trainer.channels_last=false")
                self.assertGreater(result["val"]["accuracy"], 0.9)
                self.assertGreater(result["train"]["loss"], result["val"]["loss"], "only training is mixed")
                outcomes.append((result["data_digest"], self.losses(self.run_dir)))
            self.assertEqual(outcomes[0], outcomes[1])


class RowsOfNumbers(Smoke):
    """Trains on tables and arrays, for classification and regression."""

    TABLE = """\
name: rows
seed: 3
dataset:
  train: {type: csv, path: train.csv, label: kind, features: [area, age, district], categorical: [district],
          standardize: true, statistics_from: train.csv}
  val: {type: csv, path: val.csv, label: kind, features: [area, age, district], categorical: [district],
        standardize: true, statistics_from: train.csv}
loader: {batch_size: 20}
model: linear
optimizer: {type: adam, lr: 0.05}
metrics: [accuracy]
trainer: {max_epochs: 6, accelerator: cpu, devices: 1, num_threads: 1}
"""
    PRICE = ["dataset.train.label=price", "dataset.val.label=price", "+dataset.train.label_type=number",
             "+dataset.val.label_type=number", "+loss=mse", "~metrics"]

    def setUp(self):
        super().setUp()
        draw = random.Random(5)
        for name, count in (("train", 400), ("val", 100)):
            lines = ["area,age,district,kind,price"]
            for _ in range(count):
                area, age, north = draw.gauss(0, 1), draw.gauss(0, 1), draw.random() < 0.5
                price = 2 * area - age + (1 if north else -1)
                lines.append(f"{1e4 + 3e3 * area},{1e-3 * age},{'north' if north else 'south'},{'dear' if price > 0 else 'cheap'},{price}")
            (self.folder / f"{name}.csv").write_text("\n".join(lines) + "\n")
        (self.folder / "rows.yaml").write_text(self.TABLE)

    def test_a_table_of_classes_is_learned_with_the_training_tables_statistics(self):
        result = self.train(config="rows.yaml")
        self.assertGreater(result["val"]["accuracy"], 0.95)
        expected = self.losses(self.run_dir)
        self.train("+loader.num_workers=2", config="rows.yaml")
        self.assertEqual(self.losses(self.run_dir), expected)
        raw = self.train("dataset.train.standardize=false", "dataset.val.standardize=false", config="rows.yaml")
        self.assertLess(raw["val"]["accuracy"], 0.9, "areas of ten thousand drown the rest")
        self.train("dataset.val.statistics_from=val.csv", config="rows.yaml")
        self.assertIn("dataset.val standardizes its rows differently from dataset.train", self.err)
        self.assertNotEqual(self.losses(self.run_dir), expected)

    def test_an_mlp_learns_it_over_two_ranks_as_over_one(self):
        words = ["model={type: mlp, hidden: [16]}", "optimizer.lr=0.01"]
        alone = self.train("loader.batch_size=40", *words, config="rows.yaml")
        pair = self.train("trainer.devices=2", *words, config="rows.yaml")
        self.assertEqual(pair["data_digest"], alone["data_digest"])
        self.assertAlmostEqual(pair["val"]["loss"], alone["val"]["loss"], delta=1e-4)
        self.assertGreater(pair["val"]["accuracy"], 0.9)

    def test_a_price_is_learned_with_mse(self):
        result = self.train("trainer.max_epochs=20", *self.PRICE, config="rows.yaml")
        self.assertLess(result["val"]["loss"], 0.01)

    def test_arrays_of_any_shape_are_learned(self):
        draw = random.Random(6)
        rows = [[draw.gauss(0, 1) for _ in range(6)] for _ in range(300)]
        self.array("x.npy", "<f4", (300, 2, 3), struct.pack("<1800f", *sum(rows, [])))
        self.array("y.npy", "<i8", (300,), struct.pack("<300q", *(int(row[0] > row[5]) for row in rows)))
        self.array("z.npy", "<f4", (300, 2), struct.pack("<600f", *sum(([row[0], row[5]] for row in rows), [])))
        data = "dataset={train: {type: npy, features: x.npy, labels: %s}}"
        result = self.train(data % "y.npy", config="rows.yaml")
        self.assertGreater(result["train"]["accuracy"], 0.95)
        result = self.train(data % "z.npy", "+loss=mse", "~metrics", "trainer.max_epochs=20", config="rows.yaml")
        self.assertLess(result["train"]["loss"], 0.01)

    def array(self, name, descr, shape, data):
        head = repr({"descr": descr, "fortran_order": False, "shape": shape}).encode()
        (self.folder / name).write_bytes(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(head)) + head + data)

    def test_a_parquet_table_is_learned_where_this_build_reads_one(self):
        path = SOURCE / "tests/golden/data/table.parquet"
        data = (f"dataset={{train: {{type: parquet, path: {path}, label: y, features: [a, b, kind], categorical: [kind], "
                f"missing: drop, standardize: true, statistics_from: {path}}}}}")
        code, _, err = run(self.folder, "validate", "rows.yaml", data, "loader.batch_size=2")
        if "does not read Parquet" in err:
            self.skipTest("this build does not read Parquet")
        self.assertEqual(code, 0, err)
        self.assertEqual(self.train(data, "loader.batch_size=2", config="rows.yaml")["train"]["accuracy"], 1)


class FineTuning(Smoke):
    """Fine-tunes a .pth with 7 classes on 10 digits."""

    GOLDEN = SOURCE / "tests" / "golden" / "torch"
    WORDS = ["model={type: mlp, hidden: [8]}", f"+weights={GOLDEN / 'mlp_7_classes.pth'}"]

    def tensors(self, name="last"):
        """Returns {name: SHA-256 of the bytes} for a safetensors file of the run."""
        raw = (self.run_dir / "checkpoints" / f"{name}.safetensors").read_bytes()
        start = 8 + struct.unpack("<Q", raw[:8])[0]
        header = json.loads(raw[8:start])
        header.pop("__metadata__", None)
        return {key: hashlib.sha256(raw[start + entry["data_offsets"][0]:start + entry["data_offsets"][1]]).hexdigest()
                for key, entry in header.items()}

    def golden(self):
        files = json.loads((self.GOLDEN / "weights.json").read_text())["files"]
        return {tensor["name"]: tensor["sha256"] for file in files if file["file"] == "mlp_7_classes.pth" for tensor in file["tensors"]}

    def test_a_new_head_learns_on_frozen_layers(self):
        result = self.train(*self.WORDS, "+freeze=[fc1]", "optimizer.lr=0.02")
        self.assertIn("weights: 2 of 4 tensors of the model come from ", self.err)
        self.assertIn("initialized again, because the number of outputs differs: fc2.weight, fc2.bias", self.err)
        self.assertIn("2 parameters frozen: fc1.weight, fc1.bias", self.err)
        kept, given = self.tensors(), self.golden()
        for name in ("fc1.weight", "fc1.bias"):
            self.assertEqual(kept[name], given[name], name)
        self.assertGreater(result["val"]["accuracy"], 0.2, "ten classes by chance: 0.1")
        weights = json.loads((self.run_dir / "manifest.json").read_text())["weights"]
        self.assertEqual((weights["format"], weights["loaded"], weights["reinitialized"], weights["frozen"]),
                         ("torch", ["fc1.weight", "fc1.bias"], ["fc2.weight", "fc2.bias"], ["fc1.weight", "fc1.bias"]))
        self.assertFalse((self.run_dir / "weights.safetensors").exists())

    def test_without_frozen_layers_all_are_trained(self):
        self.train(*self.WORDS, "trainer.max_epochs=1")
        self.assertNotEqual(self.tensors()["fc1.weight"], self.golden()["fc1.weight"])

    def test_every_rank_starts_from_the_file(self):
        self.train(*self.WORDS, "+freeze=[fc1]", "trainer.devices=2", "trainer.max_epochs=1")
        self.assertEqual(self.tensors()["fc1.weight"], self.golden()["fc1.weight"])

    def test_what_a_run_has_kept_another_starts_from(self):
        first = self.train()
        best = self.run_dir / "checkpoints" / "best.safetensors"
        again = self.train(f"+weights={best}", "trainer.max_epochs=1")
        self.assertLess(again["train"]["loss"], first["train"]["loss"])

    def test_a_section_chooses_the_averaged_weights_of_a_timm_checkpoint(self):
        files = json.loads((self.GOLDEN / "weights.json").read_text())["files"]
        digests = {file.get("section"): tensor["sha256"] for file in files if file["file"] == "timm.pth.tar"
                   for tensor in file["tensors"] if tensor["name"] == "conv.bias"}
        weights = f"path: {self.GOLDEN / 'timm.pth.tar'}, strict: false, key_map: {{conv.bias: fc1.bias}}"
        words = ["model={type: mlp, hidden: [2]}", "+freeze=[fc1.bias]", "trainer.max_epochs=1"]
        for section, words_of_section in ((None, ""), ("state_dict_ema", ", section: state_dict_ema")):
            self.train(*words, f"+weights={{{weights}{words_of_section}}}")
            self.assertEqual(self.tensors()["fc1.bias"], digests[section], section)
        code, out, err = run(self.folder, "validate", "digits.yaml", *words[:2], f"+weights={{{weights}, section: ema}}")
        self.assertEqual(code, 10, out + err)
        self.assertIn("it has no section 'ema' with tensors; sections with tensors: state_dict", out + err)

    def test_what_does_not_fit_ends_with_its_exit_code(self):
        self.train(*self.WORDS, "model.hidden=[9]", code=10)
        self.assertIn("fc1.weight has the shape 8x784 in the file and 9x784 in the model", self.err)
        self.train(*self.WORDS, "+freeze=[fc9]", code=2)
        self.assertIn("freeze: the model has no parameter 'fc9'", self.err)
        self.train("model={type: mlp, hidden: [8]}",
                   f"+weights={{path: {self.GOLDEN / 'mlp_7_classes.pth'}, sha256: {'0' * 64}}}", code=10)
        self.assertIn("its SHA-256 is", self.err)
        self.train("+freeze=['*']", code=2)
        self.assertIn("every parameter is frozen", self.err)


if __name__ == "__main__":
    main()
