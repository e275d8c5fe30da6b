"""Runs language models, lists of layers, scripted modules and vision transformers for a few steps through the real program. Needs
TRAINCTL_BINARY."""

import array
import hashlib
import os
import random
import unittest
from unittest import mock

from support import SOURCE, Smoke, run, write_miniature_mnist

SCRIPT = SOURCE / "tests/golden/torch/script.pt"
SCRIPT_SHA256 = hashlib.sha256(SCRIPT.read_bytes()).hexdigest()


class FromFolder(Smoke):
    """Runs experiments on the data of the temporary folder."""

    def setUp(self):
        super().setUp()
        self.data = self.folder / "data"
        patch = mock.patch.dict(os.environ, TRAINCTL_DATA=str(self.data), TRAINCTL_SCRIPT=str(SCRIPT),
                                TRAINCTL_SCRIPT_SHA256=SCRIPT_SHA256)
        patch.start()
        self.addCleanup(patch.stop)

    def refused(self, config, *words):
        """Returns the stderr of a run that must be refused."""
        code, out, err = run(self.folder, "run", SOURCE / "configs" / config, *words, "--run-dir", self.folder / "never")
        self.assertEqual(code, 2, out + err)
        self.assertFalse((self.folder / "never").exists())
        return err


class LanguageModels(FromFolder):
    """Trains on a text in which each token, except every fifth, follows from the one before."""

    CONFIG = SOURCE / "configs/text/gpt_tiny.yaml"
    SHORT = ["dataset.train.sequence_length=32", "model.layers=2", "model.heads=2", "model.width=64", "trainer.max_epochs=4",
             "loader.batch_size=16", "optimizer.lr=0.003", "+trainer.num_threads=1"]

    def setUp(self):
        super().setUp()
        (self.data / "text").mkdir(parents=True)
        draw = random.Random(8)
        for name, count in (("train", 20_000), ("val", 3_000)):
            tokens = [1]
            for _ in range(count):
                tokens.append(draw.randrange(256) if draw.random() < 0.2 else (tokens[-1] * 5 + 3) % 256)
            (self.data / "text" / f"{name}.bin").write_bytes(array.array("H", tokens).tobytes())

    def test_gpt_learns_what_follows(self):
        result = self.train(*self.SHORT, config=self.CONFIG)
        losses = [float(train) for train, _ in self.losses(self.run_dir)]
        self.assertLess(losses[-1], losses[0] - 1)
        self.assertLess(result["val"]["perplexity"], 40, "256 tokens, each as likely")
        weights = (self.run_dir / "checkpoints/best.safetensors").read_bytes()
        for name in (b'"wte.weight"', b'"wpe.weight"', b'"h.1.attn.c_attn.weight"', b'"h.1.mlp.c_proj.bias"', b'"ln_f.bias"'):
            self.assertIn(name, weights)

    def test_an_lstm_learns_what_follows(self):
        result = self.train("dataset.train.sequence_length=32", "model.hidden_size=64", "trainer.max_epochs=6", "loader.batch_size=16",
                            "optimizer.lr=0.02", "+trainer.num_threads=1", config=SOURCE / "configs/text/lstm_lm.yaml")
        self.assertLess(result["val"]["perplexity"], 12, "256 tokens, each as likely without the one before")

    def test_a_sound_run_is_watched_without_a_word(self):
        self.train(*self.SHORT, "trainer.max_epochs=1", "+trainer.limit_train_batches=5", "+trainer.detect_anomaly=true",
                   "+trainer.accelerator=cpu", "scheduler=constant", config=self.CONFIG)
        self.assertNotIn("RecordFunction", (self.run_dir / "logs/rank_0.log").read_text())

    def test_two_ranks_learn_it_as_one_with_the_doubled_batch(self):
        words = [*self.SHORT, "model.dropout=0", "trainer.max_epochs=1", "+trainer.limit_train_batches=10",
                 "scheduler=constant"]
        alone = self.train(*words, "loader.batch_size=32", config=self.CONFIG)
        pair = self.train(*words, "+trainer.devices=2", "+trainer.accelerator=cpu", config=self.CONFIG)
        self.assertEqual(pair["data_digest"], alone["data_digest"])
        self.assertAlmostEqual(pair["val"]["loss"], alone["val"]["loss"], delta=1e-3)
        self.assertAlmostEqual(pair["val"]["perplexity"], alone["val"]["perplexity"], delta=0.5)

    def test_a_list_of_layers_learns_it_and_threads_are_chosen(self):
        result = self.train("model={type: sequential, layers: [{type: embedding, embedding_dim: 64}, linear]}",
                            "optimizer.lr=0.02", "loader.batch_size=4", "trainer.max_epochs=3", config=self.CONFIG)
        self.assertLess(result["val"]["perplexity"], 60)

    def test_what_does_not_fit_is_reported_before_anything_starts(self):
        said = self.refused("text/gpt_tiny.yaml", "~dataset.train.vocab_size", "dataset.val.vocab_size=~", "model.heads=3",
                            "dataset.train.sequence_length=200", "metrics=[accuracy]")
        for part in ("add 'vocab_size: 50257' to dataset.train", "width must be a multiple of heads (3), got 128",
                     "a sample has 200 tokens, but the model's longest sequence is 128",
                     "the metric 'accuracy' takes classes, but the labels of dataset.train are tokens"):
            self.assertIn(part, said)
        self.assertIn("the model 'mlp' takes images or rows of numbers",
                      self.refused("text/gpt_tiny.yaml", "model=mlp"))

    def test_a_token_beyond_the_vocabulary_ends_the_run_as_a_fault_of_the_data(self):
        code, out, err = run(self.folder, "run", self.CONFIG, *self.SHORT, "dataset.train.vocab_size=100", "--run-dir",
                             self.folder / "short")
        self.assertEqual(code, 9, out + err)
        self.assertIn("tokens must be less than 'vocab_size' (100)", err)


class ListsOfLayers(FromFolder):
    def setUp(self):
        super().setUp()
        write_miniature_mnist(self.data)

    def test_the_list_learns_the_bands(self):
        result = self.train("trainer.max_epochs=3", "loader.batch_size=16", "+trainer.num_threads=1",
                            config=SOURCE / "configs/mnist/sequential.yaml")
        self.assertGreater(result["val"]["accuracy"], 0.9)
        weights = (self.run_dir / "checkpoints/best.safetensors").read_bytes()
        for name in (b'"0.weight"', b'"1.running_mean"', b'"3.layers.0.weight"', b'"9.bias"'):
            self.assertIn(name, weights)
        resolved = self.run_dir / "config.resolved.yaml"
        expected = self.losses(self.run_dir)
        self.train(config=resolved)
        self.assertEqual(self.losses(self.run_dir), expected)

    def test_every_layer_that_does_not_fit_is_reported_before_anything_starts(self):
        said = self.refused("mnist/sequential.yaml", "++model.layers.0.groups=2", "model.layers.4.kernel_size=99",
                            "++model.layers.3.layers.0.stride=2")
        self.assertIn("layer 0 (conv2d) cannot take an input of shape 1x28x28: 2 groups must divide the 1 input channels and the 16 output channels", said)
        self.assertIn("layer 3 (residual) cannot take an input of shape 16x14x14: its layers output 16x7x7, but its shortcut outputs 16x14x14", said)
        self.assertIn("layer 4 (max_pool2d) cannot take an input of shape 16x7x7: a window of 99x99 is larger than its input", said)
        self.assertIn("sequential.yaml", said)


class ScriptedModules(FromFolder):
    def setUp(self):
        super().setUp()
        write_miniature_mnist(self.data)

    def test_a_script_learns_the_bands(self):
        result = self.train("trainer.max_epochs=6", "loader.batch_size=16", "optimizer.lr=0.05",
                            config=SOURCE / "configs/mnist/torchscript.yaml")
        losses = [float(train) for train, _ in self.losses(self.run_dir)]
        self.assertLess(losses[-1], losses[0] - 0.1)
        self.assertEqual(result["verdict"], "ok")
        weights = (self.run_dir / "checkpoints/best.safetensors").read_bytes()
        self.assertIn(b'"norm.running_mean"', weights)

    def test_a_script_that_is_not_the_pinned_one_does_not_run(self):
        said = self.refused("mnist/torchscript.yaml", f"model.sha256={'0' * 64}")
        self.assertIn(f"has the SHA-256 {SCRIPT_SHA256}, but 'sha256' is 0000", said)
        self.assertIn(f"add 'sha256: {SCRIPT_SHA256}'", self.refused("mnist/torchscript.yaml", "~model.sha256"))

    def test_a_script_for_other_data_says_what_it_does_not_take(self):
        code, out, err = run(self.folder, "run", SOURCE / "configs/mnist/torchscript.yaml", "--run-dir", self.folder / "wrong",
                             "dataset.train={type: synthetic_images, height: 28, width: 28, classes: 10, samples: 64}",
                             "~dataset.val", "~checkpoint")
        self.assertEqual(code, 2, out + err)
        self.assertIn("does not take inputs of the shape 64x3x28x28", err)


class ImageTransformers(FromFolder):
    MADE_UP = ["dataset.train={type: synthetic_images, height: 32, width: 32, classes: 4, samples: 16}", "loader.batch_size=8",
               "trainer.max_epochs=1"]

    def test_vit_tiny_trains(self):
        """The other transformers take their steps in configs_test.py."""
        result = self.train(*self.MADE_UP, "++trainer.num_threads=1", "++trainer.channels_last=false", "~dataset.val", "~checkpoint",
                            "scheduler.warmup=0", "+dataset.train.batch_transforms=[cutmix]", config=SOURCE / "configs/cifar10/vit_tiny.yaml")
        self.assertEqual((result["verdict"], result["steps"]), ("ok", 2))

    def test_images_that_patches_do_not_cover_are_refused(self):
        said = self.refused("imagenet-sample/vit_b_16.yaml", "dataset.train={type: synthetic_images, height: 30, width: 32}")
        self.assertIn("the images are 30x32, which patches of 16x16 do not cover exactly", said)


if __name__ == "__main__":
    program = unittest.main(verbosity=2, exit=False)
    raise SystemExit(0 if program.result.wasSuccessful() else 1)
