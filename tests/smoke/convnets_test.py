"""Runs the configs of convolutional networks for a few steps through the real program. Needs TRAINCTL_BINARY."""

import os
import pathlib
import unittest
from unittest import mock

from support import SOURCE, Smoke, run


def cifar_records(count):
    """Returns records of ten classes, each with its own color and bright row."""
    kinds = []
    for label in range(10):
        planes = b"".join(bytes(250 if i // 96 == label else (label * 25 * (plane + 1)) % 200 for i in range(1024))
                          for plane in range(3))
        kinds.append(bytes([label]) + planes)
    return b"".join(kinds) * (count // 10)


class CifarNetworks(Smoke):
    """CIFAR-10 in its real size, since the reader checks the size; one file of samples is used for all five."""

    CONFIG = SOURCE / "configs/cifar10/resnet_cifar.yaml"
    SHORT = ["trainer.max_epochs=3", "+trainer.num_threads=1", "++trainer.channels_last=false", "loader.batch_size=16",
             "scheduler=constant", "optimizer.lr=0.05", "+trainer.limit_train_batches=15", "+trainer.limit_val_batches=4"]

    SHALLOW = "model.depth=8"  # ResidualAndMobileNetworksLearn in configs_test.py trains the recipe's depth

    def setUp(self):
        super().setUp()
        folder = self.folder / "data/cifar10"
        folder.mkdir(parents=True)
        (folder / "test_batch.bin").write_bytes(cifar_records(10_000))
        for i in range(1, 6):
            os.link(folder / "test_batch.bin", folder / f"data_batch_{i}.bin")
        patch = mock.patch.dict(os.environ, TRAINCTL_DATA=str(self.folder / "data"))
        patch.start()
        self.addCleanup(patch.stop)

    def test_the_recipe_learns_the_colors(self):
        result = self.train(*self.SHORT, self.SHALLOW, config=self.CONFIG)
        self.assertGreater(result["val"]["accuracy"], 0.5)
        losses = self.losses(self.run_dir)
        self.train(*self.SHORT, self.SHALLOW, "trainer.max_epochs=2", "+loader.num_workers=2", config=self.CONFIG)
        self.assertEqual(self.losses(self.run_dir), losses[:2])

    def test_two_ranks_train_it_and_agree_on_the_statistics(self):
        result = self.train(*self.SHORT, self.SHALLOW, "+trainer.devices=2", "+trainer.accelerator=cpu", config=self.CONFIG)
        self.assertEqual(result["world_size"], 2)
        self.assertGreater(result["val"]["accuracy"], 0.5)

    def test_other_networks_take_its_images(self):
        words = [*self.SHORT, "trainer.max_epochs=1", "trainer.limit_train_batches=3"]
        for model in ("{type: resnet_cifar, depth: 8, shortcut: b}", "resnet18", "mobilenet_v3_small", "efficientnet_b0"):
            self.train(*words, f"model={model}", config=self.CONFIG)

    def test_what_does_not_fit_is_reported_before_anything_starts(self):
        code, out, err = run(self.folder, "run", self.CONFIG, "model.depth=21", "--run-dir", self.folder / "never")
        self.assertEqual(code, 2, out)
        self.assertIn("depth must be 6n + 2 for an integer n, got 21", err)
        code, out, err = run(self.folder, "run", self.CONFIG, "model=resnet18", "dataset.train.transforms.0.size=16",
                             "dataset.val.transforms=[{type: resize, size: 16}]", "--run-dir", self.folder / "never")
        self.assertEqual(code, 2, out)
        self.assertIn("the images are 16x16, but the model halves them 5 times and needs at least 17x17", err)
        self.assertFalse((self.folder / "never").exists())


class PhotographNetworks(Smoke):
    """Runs the configs for photographs on the pictures of imagenet-sample, with smaller crops."""

    def setUp(self):
        super().setUp()
        if not (pathlib.Path(os.environ.get("TRAINCTL_DATA", "")) / "imagenet-sample").is_dir():
            self.skipTest("set TRAINCTL_DATA to a folder with imagenet-sample/")

    def trained(self, config):
        result = self.train("trainer.max_epochs=1", "+trainer.limit_train_batches=4", "++loader.batch_size=8", "+trainer.num_threads=1",
                            "++trainer.channels_last=false", "dataset.train.transforms.0.size=96",
                            config=SOURCE / "configs/imagenet-sample" / config)
        self.assertEqual((result["verdict"], result["steps"]), ("ok", 4))
        self.assertLess(result["train"]["loss"], 5)
        weights = (self.run_dir / "checkpoints/best.safetensors").read_bytes()
        self.assertIn(b"num_batches_tracked", weights)

    def test_resnet18_trains(self):
        self.trained("resnet18.yaml")

    def test_mobilenet_v2_trains(self):
        self.trained("mobilenet_v2.yaml")


if __name__ == "__main__":
    program = unittest.main(verbosity=2, exit=False)
    failed = not program.result.wasSuccessful()
    all_skipped = len(program.result.skipped) == program.result.testsRun
    raise SystemExit(1 if failed else 4 if all_skipped else 0)  # CTest shows exit code 4 as skipped
