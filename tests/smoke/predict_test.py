"""Drives `trainctl predict` on unlabeled pictures and with weights of torchvision. Needs TRAINCTL_BINARY."""

import csv
import json
import os
import shutil
import struct
import unittest
import zlib

from support import SOURCE, Smoke, run

SIZE = 12
TRANSFORMS = "[{type: center_crop, size: 8}, {type: normalize, mean: [0.5, 0.5, 0.5], std: [0.3, 0.3, 0.3]}]"


def png(color, shift):
    """Returns a PNG file: a square of RGB pixels around the color."""
    def chunk(name, data):
        return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))

    row = b"\0" + b"".join(bytes((value + shift + 2 * x) % 256 for value in color) for x in range(SIZE))
    head = struct.pack(">IIBBBBB", SIZE, SIZE, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(row * SIZE)) + chunk(b"IEND", b"")


def plant(folder, count, classes=("cat", "dog")):
    for name in classes:
        (folder / name).mkdir(parents=True)
        for i in range(count):
            (folder / name / f"{i:02}.png").write_bytes(png((180, 60, 20) if name == "cat" else (20, 60, 180), i))


class PredictsPictures(Smoke):
    def setUp(self):
        super().setUp()
        for name, count in (("train", 20), ("val", 5)):
            plant(self.folder / name, count)
        (self.folder / "pictures.yaml").write_text(f"""\
dataset:
  train: {{type: image_folder, root: train, transforms: {TRANSFORMS}}}
  val: {{type: image_folder, root: val, transforms: {TRANSFORMS}}}
loader: {{batch_size: 4}}
model: {{type: linear}}
optimizer: {{type: adam, lr: 0.01}}
metrics: [accuracy]
trainer: {{max_epochs: 2, accelerator: cpu, devices: 1, num_threads: 1}}
""")
        self.train_once(config="pictures.yaml")
        self.trained = self.run_dir

    def predict(self, name, *words, code=0):
        returned, self.out, self.err = run(self.folder, "predict", self.trained, "--checkpoint", "last", "--out", name, *words)
        self.assertEqual(returned, code, self.out + self.err)
        return self.folder / name

    def rows(self, name, *words):
        with open(self.predict(name, *words), newline="") as file:
            return list(csv.DictReader(file))

    def refused(self, code, text, *words):
        before = {p.name for p in self.folder.iterdir()}
        self.predict("refused.csv", *words, code=code)
        self.assertRegex(self.err, text)
        self.assertFalse((self.folder / "refused.csv").exists())
        return before

    def only_cats(self):
        shutil.copytree(self.folder / "val/cat", self.folder / "cats/cat")
        return f"++dataset.test={{type: image_folder, root: cats, transforms: {TRANSFORMS}}}"

    def test_a_folder_is_predicted_as_the_labeled_split_is(self):
        labeled = self.rows("val.csv", "--outputs", "class,logits")
        plain = self.rows("plain.csv", "--outputs", "class,logits", "--input", "val")
        self.assertEqual(len(labeled), 10)
        self.assertEqual([row.pop("label") for row in labeled], ["cat"] * 5 + ["dog"] * 5)
        self.assertEqual(plain, labeled)
        self.assertEqual(plain[0]["name"], str(self.folder / "val/cat/00.png"))
        self.assertIn("10 rows with class, logits for val", self.out)

    def test_pictures_at_any_depth_have_the_order_of_their_names(self):
        new = self.folder / "new"
        (new / "b/deep").mkdir(parents=True)
        for name in ("z.png", "b/2.png", "b/deep/1.png", "a.PNG"):
            (new / name).write_bytes(png((180, 60, 20), 0))
        (new / "b/notes.txt").write_text("no picture")
        rows = self.rows("new.csv", "--input", "new")
        names = [row["name"].removeprefix(str(new) + "/") for row in rows]
        self.assertEqual(names, ["a.PNG", "z.png", "b/2.png", "b/deep/1.png"])
        self.assertEqual(list(rows[0]), ["index", "name", "class", "class_prob", "prob_cat", "prob_dog"])
        self.assertEqual(len({row["class"] for row in rows}), 1)

    def test_a_list_and_one_picture(self):
        whole = {row["name"]: row["logit_cat"] for row in self.rows("val.csv", "--outputs", "logits")}
        lines = ["val/dog/03.png", "val/cat/01.png"]
        (self.folder / "list.txt").write_text("".join(line + "\n" for line in lines))
        listed = self.rows("list.csv", "--outputs", "logits", "--input", "list.txt")
        names = [str(self.folder / line) for line in lines]
        self.assertEqual([row["name"] for row in listed], names)
        for name, row in zip(names, listed, strict=True):
            self.assertAlmostEqual(float(row["logit_cat"]), float(whole[name]), places=4)
        one = self.rows("one.csv", "--outputs", "logits", "--input", lines[1])
        self.assertEqual([row["name"] for row in one], [names[1]])
        self.assertAlmostEqual(float(one[0]["logit_cat"]), float(whole[names[1]]), places=4)

    def test_only_models_of_pixels_write_png_files(self):
        self.refused(2, "--format png is for models that predict the classes of pixels", "--format", "png")

    def test_two_processes_give_one_order(self):
        one = self.rows("one.csv", "--input", "val")
        two = self.rows("two.csv", "--input", "val", "++trainer.devices=2", "++loader.batch_size=3")
        same = ("index", "name", "class")
        self.assertEqual([[row[key] for key in same] for row in two], [[row[key] for key in same] for row in one])

    def test_no_format_has_labels(self):
        lines = [json.loads(line) for line in self.predict("out.jsonl", "--input", "val").read_text().splitlines()]
        self.assertEqual(list(lines[0]), ["index", "name", "class", "class_prob", "probabilities"])
        self.predict("out.npy", "--input", "val", "--outputs", "class", "--json")
        document = json.loads(self.out)
        self.assertEqual(document["classes"], ["cat", "dog"])
        self.assertEqual((document["rows"], document["input"], document["split"], document["labels"]), (10, "val", None, False))
        self.assertEqual(document["metrics"], {})

    def test_classes_and_labels_have_their_names(self):
        rows = self.rows("val.csv")
        self.assertEqual(list(rows[0]), ["index", "name", "label", "class", "class_prob", "prob_cat", "prob_dog"])
        for row in rows:
            self.assertEqual(row["class_prob"], row[f"prob_{row['class']}"])
            self.assertIn(f"/{row['label']}/", row["name"])
        line = json.loads(self.predict("val.jsonl").read_text().splitlines()[7])
        self.assertEqual((line["label"], line["class"]), ("dog", rows[7]["class"]))
        self.assertEqual(line["probabilities"], {name: float(rows[7][f"prob_{name}"]) for name in ("cat", "dog")})

    def test_a_split_of_one_class_has_the_outputs_of_training_and_no_labels(self):
        split = self.only_cats()
        rows = self.rows("cats.csv", split, "--split", "test")
        self.assertEqual(list(rows[0]), ["index", "name", "class", "class_prob", "prob_cat", "prob_dog"])
        self.assertIn("the labels of dataset.test do not match the classes of dataset.train", self.err)
        labeled = self.rows("val.csv")
        self.assertEqual([row["class"] for row in rows], [row["class"] for row in labeled[:5]])
        self.assertIn("label", labeled[0])

    def test_eval_and_run_need_the_classes_of_training(self):
        split = self.only_cats()
        code, out, err = run(self.folder, "eval", self.trained, "--checkpoint", "last", split, "--split", "test")
        self.assertEqual(code, 2, out + err)
        self.assertRegex(err, r"as in dataset\.train, got .* with 1 class")
        self.assertIn("use 'trainctl predict', which does not need the classes", err)
        code, out, err = run(self.folder, "validate", "pictures.yaml", "dataset.val.root=cats", split)
        self.assertEqual(code, 2, out + err)
        self.assertNotIn("predict", err)

    def test_what_holds_no_pictures_is_refused(self):
        (self.folder / "empty").mkdir()
        self.refused(9, r"--input '\S+/empty': no images found", "--input", "empty")
        self.refused(2, r"--input '\S+/nowhere': no such file or folder", "--input", "nowhere")
        os.mkfifo(self.folder / "pipe")
        self.refused(2, r"--input '\S+/pipe': the list must be a regular file", "--input", "pipe")
        self.refused(2, r"--split", "--input", "val", "--split", "val")
        self.refused(2, r"--input", "--input", "")
        self.refused(10, r"fc.weight has the shape 2x192 in the file", "--input", "val", "dataset.val.transforms=[]", "dataset.train.transforms=[]")
        self.refused(2, r"add dataset\.val", "--input", "val", "~dataset.val",
                     "dataset.train.transforms=[{type: center_crop, size: 8}, {type: random_rotation, degrees: 90}]")
        (self.folder / "list.txt").write_text("val/cat/00.png\nval/cat/none.png\n")
        self.refused(9, r"list\.txt:2: ", "--input", "list.txt")

    def test_a_file_that_is_no_picture_is_named(self):
        shutil.copytree(self.folder / "val", self.folder / "new")
        (self.folder / "new/dog/01.png").write_text("this is no picture")
        self.refused(9, r"new/dog/01\.png", "--input", "new")
        self.refused(9, r"new/dog/01\.png", "--input", "new", "++dataset.on_error=skip")

    def test_images_of_another_shape_than_those_of_training(self):
        self.train()
        crop = "[{type: center_crop, size: 28}]"
        code, out, err = run(self.folder, "predict", self.run_dir, "--checkpoint", "last", "--out", "x.csv", "--input", "val",
                             f"dataset.val.transforms={crop}", f"dataset.train.transforms={crop}")
        self.assertEqual(code, 2, out + err)
        self.assertIn("the images must be 28x28x1 after the transforms, as in dataset.train, got 28x28x3", err)


class PredictsAsTorchvision(Smoke):
    """torchvision made the .pth and the logits: see tests/golden/make/torchvision_pth.py."""

    TORCH = SOURCE / "tests" / "golden" / "torch"

    def setUp(self):
        super().setUp()
        self.golden, = json.loads((self.TORCH / "torchvision_pth.json").read_text())["cases"]
        n, c, h, w = self.golden["input_shape"]
        pixels = bytes((i * i // 97 + i * 5) % 256 * (1 + i // (c * h * w)) // n for i in range(n * c * h * w))
        self.array("x.npy", "|u1", (n, h, w, c), pixels)
        self.array("y.npy", "<i8", (n,), struct.pack(f"<{n}q", *range(n)))
        split = (f"{{type: npy, images: x.npy, labels: y.npy, classes: {self.golden['classes']}, transforms: "
                 f"[{{type: normalize, mean: {[self.golden['mean']] * c}, std: {[self.golden['std']] * c}}}]}}")
        options = "".join(f", {name}: {value}" for name, value in self.golden["options"].items())
        (self.folder / "vision.yaml").write_text(f"""\
dataset: {{train: {split}, val: {split}}}
loader: {{batch_size: 3}}
model: {{type: {self.golden['type']}{options}}}
optimizer: sgd
trainer: {{max_epochs: 1, accelerator: cpu, devices: 1, num_threads: 1}}
""")

    def array(self, name, descr, shape, data):
        head = repr({"descr": descr, "fortran_order": False, "shape": shape}).encode()
        (self.folder / name).write_bytes(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(head)) + head + data)

    def check_logits(self, checkpoint, name):
        code, out, err = run(self.folder, "predict", "vision.yaml", "--checkpoint", checkpoint, "--out", name, "--outputs", "logits")
        self.assertEqual(code, 0, out + err)
        with open(self.folder / name, newline="") as file:
            rows = list(csv.DictReader(file))
        self.assertEqual(len(rows), len(self.golden["logits"]))
        for row, expected in zip(rows, self.golden["logits"], strict=True):
            for k, logit in enumerate(expected):
                self.assertAlmostEqual(float(row[f"logit_{k}"]), logit, delta=1e-4)

    def test_a_pth_gives_the_logits_that_torchvision_has(self):
        self.check_logits(self.TORCH / self.golden["file"], "pth.csv")

    def test_the_imported_file_gives_them_too(self):
        code, out, err = run(self.folder, "checkpoint", "import", self.TORCH / self.golden["file"], "--out", "w.safetensors")
        self.assertEqual(code, 0, out + err)
        self.check_logits("w.safetensors", "imported.csv")

    def test_a_run_starts_from_every_tensor_of_it(self):
        self.train(f"+weights={self.TORCH / self.golden['file']}", config="vision.yaml")
        count = self.golden["tensors"]
        self.assertIn(f"weights: {count} of {count} tensors of the model come from ", self.err)


if __name__ == "__main__":
    program = unittest.main(verbosity=2, exit=False)
    failed = not program.result.wasSuccessful()
    all_skipped = len(program.result.skipped) == program.result.testsRun
    raise SystemExit(1 if failed else 4 if all_skipped else 0)  # CTest shows exit code 4 as skipped
