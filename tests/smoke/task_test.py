"""Trains each task to a stated figure, on data that trainctl or configs/make_data.py draws. Needs TRAINCTL_BINARY."""

import array
import json
import os
import pathlib
import random
import shutil
import struct
import sys
import unittest
from unittest import mock

from support import SOURCE, Smoke, main, run

CONFIGS = SOURCE / "configs"
sys.path.insert(0, str(CONFIGS))
import make_data

CPU = ["+trainer.accelerator=cpu", "+trainer.num_threads=1", "+loader.num_workers=0"]
# Digits that trainctl draws, instead of MNIST. Pixels are from 0 to 1.
DRAWN = ["dataset.train={type: synthetic_digits, samples: 2000, transforms: []}",
         "dataset.val={type: synthetic_digits, split: test, samples: 500, transforms: []}"]


class Tasks(Smoke):
    def ask(self, *words):
        return self.program(*words, "--json", code=0, timeout=480).json

    def assert_resumes(self, config, *words):
        """Kills a run of two epochs, resumes it, and compares every bit of its end."""
        self.assertEqual(self.ask("verify-resume", config, *words, "trainer.max_epochs=2", "--kills", "2")["identical"], 2)


class Reconstructs(Tasks):
    CONFIG = CONFIGS / "mnist/tasks/reconstruction.yaml"

    def test_an_autoencoder_reaches_its_error_and_writes_pixels(self):
        result = self.train(*DRAWN, *CPU, "trainer.max_epochs=10", "optimizer.lr=0.003", config=self.CONFIG)
        self.assertLess(result["val"]["loss"], 0.025)
        self.assertLess(result["val"]["mae"], 0.1)
        evaluated = self.ask("eval", self.run_dir, "--checkpoint", "last")
        self.assertAlmostEqual(evaluated["metrics"]["loss"], result["val"]["loss"], places=6)
        pixels = self.folder / "pixels.npy"
        document = self.ask("predict", self.run_dir, "--checkpoint", "last", "--out", pixels)
        self.assertEqual((document["rows"], document["labels"], document["outputs"]), (500, False, ["prediction"]))
        self.assertIn(b"(500, 784)", pixels.read_bytes()[:128])
        script = self.folder / "model.pt"
        self.program("checkpoint", "export", self.run_dir, "--out", script, code=0)
        self.assertTrue(script.is_file())

    def test_two_ranks_train_as_one_and_a_resumed_run_is_identical(self):
        def loss(*words):
            return self.train(*DRAWN, *CPU, "trainer.max_epochs=1", *words, config=self.CONFIG)["val"]["loss"]

        self.assertAlmostEqual(loss("+trainer.devices=2", "loader.batch_size=32"), loss(), places=4)
        self.assert_resumes(self.CONFIG, *DRAWN, *CPU)


    def test_a_convolutional_autoencoder_reaches_its_error(self):
        result = self.train(*DRAWN, *CPU, "trainer.max_epochs=5", config=CONFIGS / "mnist/tasks/autoencoder.yaml")
        self.assertLess(result["val"]["loss"], 0.03)
        self.assert_has(self.refused("validate", self.CONFIG, *DRAWN, "task=auto", "model=autoencoder"), "write 'task: reconstruction'")


class FindsPixels(Tasks):
    CONFIG = CONFIGS / "images/segmentation.yaml"

    def setUp(self):
        super().setUp()
        make_data.make(self.folder / "data", (make_data.scenes,))
        patch = mock.patch.dict(os.environ, TRAINCTL_DATA=str(self.folder / "data"))
        patch.start()
        self.addCleanup(patch.stop)

    def test_unet_finds_disks_and_squares(self):
        result = self.train(*CPU, config=self.CONFIG)
        self.assertGreater(result["val"]["mean_iou"], 0.7)
        self.assertGreater(result["val"]["dice"], result["val"]["mean_iou"])
        evaluated = self.ask("eval", self.run_dir, "--checkpoint", "last")
        self.assertAlmostEqual(evaluated["metrics"]["mean_iou"], result["val"]["mean_iou"], places=6)
        page = (self.run_dir / "report.html").read_text()
        self.assertRegex(page, r"</i>ground<.*</i>disk<.*</i>square<.*data:image/png;base64,")
        self.program("report", self.run_dir, code=0)
        self.assertEqual((self.run_dir / "report.html").read_text(), page)
        self.program("checkpoint", "export", self.run_dir, "--out", self.folder / "model.pt", code=0)
        self.predicts_masks(evaluated["metrics"])

    def predicts_masks(self, metrics):
        """Predicts the masks of the split, and evaluates the model with them as the actual masks."""
        words = ["predict", self.run_dir, "--checkpoint", "last"]
        document = self.ask(*words, "--out", self.folder / "masks/")
        self.assertEqual((document["rows"], document["format"], document["outputs"], document["labels"]), (24, "png", ["class"], False))
        self.assertEqual((document["classes"], document["metrics"]), (["ground", "disk", "square"], metrics))
        images = pathlib.Path(os.environ["TRAINCTL_DATA"]) / "scenes/val/images"
        masks = {path.name: path.read_bytes() for path in (self.folder / "masks").iterdir()}
        self.assertEqual(sorted(masks), sorted(path.name for path in images.iterdir()))
        agreement = self.ask("eval", self.run_dir, "--checkpoint", "last", f"dataset.val.masks={self.folder / 'masks'}")
        self.assertEqual(agreement["metrics"]["mean_iou"], 1)
        shutil.copytree(images, self.folder / "new/a")
        self.program(*words, "--input", self.folder / "new", "++trainer.devices=2", "--out", self.folder / "unlabeled", code=0, timeout=480)
        self.assertEqual({path.name: path.read_bytes() for path in (self.folder / "unlabeled/a").iterdir()}, masks)
        pairs = f"{{type: image_masks, images: {images}, masks: {self.folder / 'masks'}, classes: [a, b, c]}}"
        parts = f"{{type: concat, sources: [{pairs}, {{type: subset, source: {pairs}, range: [4, 6]}}]}}"
        document = self.ask(*words, "--out", self.folder / "parts", f"dataset.val={{type: subset, source: {parts}, range: [22, 26]}}")
        self.assertEqual(document["metrics"], {})  # the classes have other names
        written = sorted(str(path.relative_to(self.folder / "parts")) for path in (self.folder / "parts").rglob("*.png"))
        self.assertEqual(written, ["0/022.png", "0/023.png", "1/004.png", "1/005.png"])
        (self.folder / "new/a/000.jpg").write_bytes((images / "001.png").read_bytes())
        for words, part in ((["--out", "masks"], "already exists"), (["--out", "."], "already exists"), (["--out", "p.npy"], "must name a folder"),
                            (["--out", "p", "--format", "csv"], "got 'p' with --format csv"), (["--out", "p", "--outputs", "logits"], "must be class"),
                            (["--out", "no/p"], "the folder of no/p does not exist"),
                            (["--out", "p", "--input", "new"], "would have the same mask a/000.png")):
            self.assert_has(self.refused("predict", self.run_dir, "--checkpoint", "last", *words), part)
        self.assertFalse((self.folder / "p").exists())

    def test_workers_caches_and_ranks_give_the_same_pixels_and_a_resumed_run_is_identical(self):
        short = [*CPU, "trainer.max_epochs=1", "+trainer.limit_train_batches=4", "+trainer.limit_val_batches=1"]

        def digest(*words):
            return self.train(*short, *words, config=self.CONFIG)["data_digest"]

        alone = digest()
        self.assertEqual(digest("loader.num_workers=2"), alone)
        self.assertEqual(digest("+trainer.devices=2", "loader.batch_size=4"), alone)
        self.assertEqual(digest("+dataset.cache.mode=none"), alone)
        self.assert_resumes(self.CONFIG, *short)

    def test_what_does_not_fit_masks_is_an_error_before_the_run(self):
        for words, part in ((("task=auto",), "write 'task: segmentation'"), (("model=resnet18",), "choose model unet"),
                            (("loss=nll",), "ignore_index: 255"), (("loss=focal",), "ignore_index: 255"), (("metrics=[accuracy]",), "the metric 'accuracy' takes classes"),
                            (("dataset.train.transforms=[auto_augment]",), "cannot transform masks together"),
                            (("+trainer.test_time_augmentation={}",), "compares them with the image itself")):
            self.assert_has(self.refused("validate", self.CONFIG, *words), part)

    def test_images_are_shown_next_to_their_masks(self):
        sheet = self.folder / "samples.png"
        shown = self.ask("data", "show", self.CONFIG, "--samples", "4", "--out", sheet)
        self.assertEqual((shown["labels"], shown["image"]), ([None] * 4, [48, 48, 3]))
        # Two rows and columns of images of 48 pixels, twice as large, with masks of the same size, captions and gaps.
        self.assertEqual(struct.unpack(">II", sheet.read_bytes()[16:24]), (2 * (4 * 48 + 8) + 8, 2 * (2 * 48 + 14 + 8) + 8))

    def test_masks_of_0_and_255_are_a_warning(self):
        self.assertNotIn("255", self.program("validate", self.CONFIG, code=0).err)
        for mask in (self.folder / "data/scenes/train/masks").iterdir():
            mask.write_bytes(make_data.png(48, 48, bytes([0, 0, 0, 255, 255, 255] * 24 * 48)))
        for words in (("validate",), ("run", *CPU, "trainer.fast_dev_run=true")):
            err = self.program(words[0], self.CONFIG, *words[1:], code=0).err
            self.assert_has(err, "no pixel has a class above 0, but some have the value 255", "train/images/000.png", "convert it to the number")
            self.assertEqual(err.count("warning:"), 1)

    def test_names_that_differ_only_in_their_suffix_are_an_error(self):
        for kind in ("masks", "images"):
            folder = self.folder / "data/scenes/val" / kind
            (folder / "003.webp").write_bytes((folder / "003.png").read_bytes())
            self.assert_has(self.refused("validate", self.CONFIG), "003.png and ", "003.webp", "remove or rename one")
            (folder / "003.webp").unlink()


def write_pairs(folder):
    """Writes sequences of 32 bytes in which two letters alternate: a hidden one follows from its place and its neighbors."""
    draw = random.Random("pairs")
    for name, count in (("train", 1000), ("val", 125)):
        text = b"".join(bytes(draw.choices(b"abcdefghijklmnopqrstuvwxyz", k=2)) * 16 for _ in range(count))
        (folder / f"{name}.bin").write_bytes(array.array("H", list(text)).tobytes())


class PredictsHiddenTokens(Tasks):
    CONFIG = CONFIGS / "text/masked.yaml"
    SHORT = ["dataset.train.sequence_length=32", "++optimizer.lr=0.003", "++scheduler=constant"]

    def setUp(self):
        super().setUp()
        (self.folder / "data/text").mkdir(parents=True)
        write_pairs(self.folder / "data/text")
        patch = mock.patch.dict(os.environ, TRAINCTL_DATA=str(self.folder / "data"))
        patch.start()
        self.addCleanup(patch.stop)

    def test_it_learns_and_every_evaluation_hides_the_same_tokens(self):
        result = self.train(*self.SHORT, *CPU, "trainer.max_epochs=4", config=self.CONFIG)
        first, last = (float(self.losses(self.run_dir)[at][1]) for at in (0, -1))
        self.assertLess(last, 0.8 * first)
        self.assertLess(result["val"]["perplexity"], 2)  # 26 without the neighbors, and 2 without the place
        for _ in range(2):
            evaluated = self.ask("eval", self.run_dir, "--checkpoint", "last")
            self.assertAlmostEqual(evaluated["metrics"]["loss"], result["val"]["loss"], places=6)

    def test_bert_is_refused_as_a_language_model(self):
        self.assert_has(self.refused("validate", self.CONFIG, "task=auto"), "write 'task: masked_language_modeling'")

    def test_workers_and_ranks_hide_the_same_tokens_and_a_resumed_run_is_identical(self):
        def losses(*words):
            self.train(*self.SHORT, *CPU, "++trainer.max_epochs=1", "++trainer.limit_train_batches=10", *words, config=self.CONFIG)
            return self.losses(self.run_dir)

        alone = losses()
        self.assertEqual(losses("loader.num_workers=2"), alone)
        for one, two in zip(alone[0], losses("+trainer.devices=2", "loader.batch_size=16")[0]):
            self.assertAlmostEqual(float(one), float(two), places=3)
        self.assert_resumes(self.CONFIG, *self.SHORT, *CPU, "++trainer.limit_train_batches=10")


class LearnsFromATeacher(Tasks):
    TEACHER = ["model={type: mlp, hidden: [64]}", "++trainer.max_epochs=6"]

    def write_student(self):
        self.train(*self.TEACHER)
        self.weights = self.run_dir / "checkpoints/last.safetensors"
        return self.write("student.yaml", f"""\
extends: digits.yaml
task: {{type: distillation, teacher: {{type: mlp, hidden: [64]}}, weights: {self.weights}, temperature: 4, alpha: 0.9}}
model: {{type: mlp, hidden: [16]}}
""")

    def test_a_student_reaches_its_accuracy_and_is_stored_without_its_teacher(self):
        student = self.write_student()
        taught = self.train("trainer.max_epochs=6", config=student)
        self.assertGreater(taught["val"]["accuracy"], 0.78)
        stored = self.ask("checkpoint", "inspect", self.run_dir)["groups"]["model"]["bytes"]
        manifest = json.loads((self.run_dir / "manifest.json").read_text())
        self.assertRegex(manifest["data_fingerprints"]["teacher"], "^[0-9a-f]{16}$")
        away = self.weights.rename(self.folder / "away")
        evaluated = self.ask("eval", self.run_dir, "--checkpoint", "last")  # without the teacher's file
        self.assertAlmostEqual(evaluated["metrics"]["accuracy"], taught["val"]["accuracy"], places=6)
        away.rename(self.weights)
        alone = self.train("trainer.max_epochs=6", "++task=auto", config=student)
        self.assertEqual(stored, self.ask("checkpoint", "inspect", self.run_dir)["groups"]["model"]["bytes"])  # without the teacher
        self.assertGreater(taught["val"]["accuracy"], alone["val"]["accuracy"] - 0.05)
        self.assertNotEqual(taught["train"]["loss"], alone["train"]["loss"])
        self.assert_resumes(student)

    def test_a_run_is_not_resumed_with_another_teacher(self):
        self.train("--until-epoch", "1", config=self.write_student())
        student = self.run_dir
        teacher = self.weights
        self.train(*self.TEACHER, "seed=8")
        teacher.write_bytes((self.run_dir / "checkpoints/last.safetensors").read_bytes())
        resumed = self.program("run", student, "--resume", "auto")
        self.assertNotEqual(resumed.code, 0)
        self.assert_has(resumed.err, "the data has changed", "task.weights: ")

    def test_a_missing_teacher_is_an_error_before_the_run(self):
        config = self.write("student.yaml", """\
extends: digits.yaml
task: {type: distillation, teacher: {type: mlp, hidden: [64]}, weights: none.safetensors}
""")
        self.assert_has(self.refused("validate", config), "none.safetensors does not exist", "train the teacher first")


def floats_of(npy):
    """Returns the rows of a float32 file of numpy."""
    data = pathlib.Path(npy).read_bytes()
    start = 10 + struct.unpack("<H", data[8:10])[0]
    rows, columns = eval(data[10:start].decode())["shape"]  # noqa: S307  (trainctl has written it)
    return [struct.unpack_from(f"<{columns}f", data, start + 4 * columns * row) for row in range(rows)]


class MakesImages(Tasks):
    CONFIG = CONFIGS / "mnist/tasks/gan.yaml"
    SCALE = "transforms: [{type: normalize, mean: [0.5], std: [0.5]}]"
    SHORT = [f"dataset.train={{type: synthetic_digits, samples: 256, {SCALE}}}",
             f"dataset.val={{type: synthetic_digits, split: test, samples: 100, {SCALE}}}",
             "model.channels=4", "task.discriminator={type: dcgan_discriminator, channels: 4}", "task.r1_weight=1", "trainer.max_epochs=2"]

    def test_a_short_run_writes_samples_that_predict_and_export_repeat(self):
        result = self.train(*self.SHORT, *CPU, "loggers=[csv, html, tensorboard]", config=self.CONFIG)
        grids = sorted(path.name for path in (self.run_dir / "samples").iterdir())
        self.assertEqual(grids, ["epoch-0001.png", "epoch-0002.png"])
        size = struct.unpack(">2I", (self.run_dir / "samples" / grids[1]).read_bytes()[16:24])
        self.assertEqual(size, (8 * 28, 8 * 28))
        self.assertIn("What the model has made after the last epoch", (self.run_dir / "report.html").read_text())
        events = b"".join(path.read_bytes() for path in (self.run_dir / "tensorboard").iterdir())
        self.assertEqual(events.count((self.run_dir / "samples" / grids[1]).read_bytes()), 1)
        groups = self.ask("checkpoint", "inspect", self.run_dir)["groups"]
        self.assertIn("task", groups)
        self.assertGreater(result["val"]["loss"], 0)
        pixels = self.folder / "images.npy"
        self.ask("predict", self.run_dir, "--checkpoint", "last", "--out", pixels)
        rows = floats_of(pixels)
        self.assertEqual((len(rows), len(rows[0])), (100, 784))
        self.assertTrue(-1 <= min(rows[0]) < 0 < max(rows[0]) <= 1, "images have values from -1 to 1")
        self.assert_has(self.refused("eval", self.run_dir, "--checkpoint", "last"), "needs its discriminator")
        script = self.folder / "generator.pt"
        self.program("checkpoint", "export", self.run_dir, "--out", script, code=0)
        self.assertTrue(script.is_file())

    def test_two_ranks_train_about_as_one_and_a_resumed_run_is_identical(self):
        norms = ["++task.discriminator.batch_norm=false", "trainer.max_epochs=1"]  # each rank has its own statistics

        def losses(*words):
            self.train(*self.SHORT, *CPU, *norms, *words, "+trainer.sync_batchnorm=true", config=self.CONFIG)
            return self.losses(self.run_dir)[0]

        for one, two in zip(losses(), losses("+trainer.devices=2", "loader.batch_size=16")):
            self.assertAlmostEqual(float(one), float(two), places=3)
        for loss in ("non_saturating", "hinge"):
            self.assert_resumes(self.CONFIG, *self.SHORT, *CPU, f"++task.loss={loss}")

    def test_what_does_not_fit_is_refused_all_at_once(self):
        words = ("++loss=mse", "++metrics=[mae]", "++trainer.accumulate_grad_batches=2", "++trainer.test_time_augmentation={horizontal_flip: true}")
        self.assert_has(self.refused("validate", self.CONFIG, *self.SHORT[:2], *words), "has its own loss", "has no targets", "cannot be accumulated",
                        "cannot be augmented")
        self.assert_has(self.refused("validate", self.CONFIG, *self.SHORT[:2], "++task=auto"), "takes rows of numbers, but the samples")
        larger = [f"dataset.{split}.transforms=[{{type: resize, size: 48}}]" for split in ("train", "val")]
        self.assert_has(self.refused("validate", self.CONFIG, *self.SHORT[:2], *larger), "dcgan_generator needs 28x28", "dcgan_discriminator needs 28x28")
        self.assert_has(self.refused("lr-find", self.CONFIG, *self.SHORT, *CPU), "depends on its discriminator")

    @unittest.skipUnless(os.environ.get("TRAINCTL_LONG") == "1", "TRAINCTL_LONG=1 is not set")
    @unittest.skipUnless((pathlib.Path(os.environ.get("TRAINCTL_DATA", "")) / "mnist").is_dir(), "TRAINCTL_DATA has no mnist/")
    def test_a_classifier_recognizes_what_it_draws(self):
        self.train(config=self.CONFIG, timeout=3000)
        images = self.folder / "images.npy"
        self.ask("predict", self.run_dir, "--checkpoint", "last", "--out", images)
        drawn = self.folder / "drawn"
        drawn.mkdir()
        pixels = bytes(round(127.5 * (value + 1)) for row in floats_of(images)[:1000] for value in row)
        (drawn / "t10k-images-idx3-ubyte").write_bytes(struct.pack(">4I", 0x803, 1000, 28, 28) + pixels)
        (drawn / "t10k-labels-idx1-ubyte").write_bytes(struct.pack(">2I", 0x801, 1000) + bytes(1000))
        self.train(config=CONFIGS / "mnist/lenet.yaml", timeout=3000)
        classes = self.folder / "classes.npy"
        self.ask("predict", self.run_dir, f"dataset.val.root={drawn}", "--checkpoint", "best", "--out", classes)
        rows = floats_of(classes)
        sure = [row.index(max(row)) for row in rows if max(row) > 0.9]
        print(f"{len(sure)} of 1000 images are recognized with a probability above 0.9; digits: {[sure.count(i) for i in range(10)]}")
        self.assertGreaterEqual(len(sure), 800)
        self.assertEqual(set(sure), set(range(10)))


class Checks(Tasks):
    def test_a_task_that_does_not_fit_is_refused(self):
        self.assert_has(self.refused("validate", "digits.yaml", "+task=regression"), "the task 'regression' takes numbers")
        said = self.refused("validate", "digits.yaml", "+task=reconstruction")
        self.assert_has(said, "the targets of the task 'reconstruction' are numbers", "such as mse", "the metric 'accuracy'")

    def test_the_task_is_shown_and_measured(self):
        self.assertEqual(self.ask("show-config", "digits.yaml")["config"]["task"], {"type": "auto"})
        words = (*DRAWN, *CPU)
        planned = self.ask("plan", CONFIGS / "mnist/tasks/reconstruction.yaml", *words)
        self.assertGreater(json.dumps(planned).count("parameters"), 0)
        code, out, err = run(self.folder, "run", "digits.yaml", "+task=classification", "trainer.fast_dev_run=true")
        self.assertEqual(code, 0, out + err)


if __name__ == "__main__":
    main()
