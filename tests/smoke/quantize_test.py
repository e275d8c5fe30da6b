"""Converts trained models to int8 as a user does: `eval --quantize int8` and `checkpoint export --quantize int8`. Needs
TRAINCTL_BINARY; one class also a Python with torch, see export_test.py."""

import json
import subprocess
import unittest

from support import MISSING_TORCH, Smoke, main, python_with_torch, run

PYTHON = python_with_torch()
NETWORK = """++model={type: sequential, layers: [{type: conv2d, out_channels: 8, kernel_size: 3, stride: 2}, batch_norm2d, relu,
  {type: conv2d, out_channels: 16, kernel_size: 3, stride: 2}, batch_norm2d, relu, flatten, linear]}"""
SCRIPT = """
import json, sys
import torch
float32, int8 = (torch.jit.load(path) for path in sys.argv[1:])
torch.manual_seed(1)
inputs = torch.rand(50, 1, 28, 28) * 3.3 - 0.66  # as normalized images
expected, found = float32(inputs), int8(inputs)
print(json.dumps({"shapes": [list(int8(inputs[:rows]).shape) for rows in (1, 7)], "training": int8.training, "code": int8.code,
                  "error": ((found - expected).norm() / expected.norm()).item()}))
"""


class Trained(Smoke):
    FEW = ["dataset.train.samples=1000"]

    def evaluated(self, *words):
        code, said, err = run(self.folder, "eval", self.run_dir, "--checkpoint", "last", "--json", *words)
        self.assertEqual(code, 0, said + err)
        return json.loads(said)

    def refused(self, message, *words, verb="eval"):
        words = ("--checkpoint", "last", *words) if verb == "eval" else words
        code, said, err = run(self.folder, *verb.split(), self.run_dir, *words)
        self.assertEqual(code, 2, said + err)
        self.assertIn(message, said + err)


class Int8(Trained):
    def test_a_convolutional_network_is_calibrated_and_compared(self):
        self.train(NETWORK, *self.FEW)
        plain = self.evaluated()
        self.assertIsNone(plain["quantized"])
        found = self.evaluated("--quantize", "int8", "--calibrate", "3")
        made = found["quantized"]
        self.assertEqual((made["layers"], made["calibration_batches"]), (3, 3))
        self.assertEqual(made["float32"]["metrics"], plain["metrics"])
        self.assertEqual(made["int8"]["metrics"], found["metrics"])
        self.assertAlmostEqual(found["metrics"]["accuracy"], plain["metrics"]["accuracy"], delta=0.02)
        self.assertNotEqual(found["metrics"]["loss"], plain["metrics"]["loss"])
        self.assertLess(made["int8"]["bytes"], made["float32"]["bytes"])
        for kind in ("float32", "int8"):
            self.assertGreater(made[kind]["samples_per_s"], 0)
        again = self.evaluated("--quantize", "int8", "--calibrate", "3")
        self.assertEqual(again["metrics"], found["metrics"])
        by_range = self.evaluated("--quantize", "int8", "--calibrate", "3", "--observer", "min_max")
        self.assertNotEqual(by_range["metrics"]["loss"], found["metrics"]["loss"])
        code, said, _ = run(self.folder, "eval", self.run_dir, "--checkpoint", "last", "--quantize", "int8")
        self.assertEqual(code, 0)
        for words in (("metric", "float32", "int8"), ("accuracy",), ("size",), ("samples/s",)):
            self.assertRegex(said, r"\b" + r"\s+".join(words))

    def test_linear_layers_need_no_calibration_and_other_settings_are_refused(self):
        self.train()
        found = self.evaluated("--quantize", "int8")
        self.assertEqual((found["quantized"]["layers"], found["quantized"]["calibration_batches"]), (2, 0))
        self.refused("--calibrate and --observer apply only to --quantize", "--calibrate", "3")
        self.refused("--quantize writes TorchScript", "--quantize", "int8", "--out", self.folder / "a.pth", verb="checkpoint export")


class Int8Training(Trained):
    TRAINED = NETWORK.replace("type: sequential", "type: sequential, quantize: int8")

    def test_training_finds_the_ranges(self):
        result = self.train(self.TRAINED, *self.FEW)
        found = self.evaluated("--quantize", "int8")
        made = found["quantized"]
        self.assertEqual((made["layers"], made["calibration_batches"]), (3, 0))
        self.assertEqual(made["float32"]["metrics"], result["val"])
        self.assertAlmostEqual(found["metrics"]["accuracy"], result["val"]["accuracy"], delta=0.01)
        self.assertAlmostEqual(found["metrics"]["loss"], result["val"]["loss"], delta=0.02)

    def test_a_killed_run_resumes_bit_for_bit(self):
        code, said, err = run(self.folder, "verify-resume", "digits.yaml", self.TRAINED, "--kills", "1", "--json", "trainer.max_epochs=1",
                              "dataset.train.samples=500", "dataset.val.samples=100")
        self.assertEqual(code, 0, said + err)
        self.assertTrue(json.loads(said)["identical"])


@unittest.skipUnless(PYTHON, MISSING_TORCH)
class Int8InPyTorch(Trained):
    def test_pytorch_runs_the_exported_program(self):
        self.train(NETWORK, *self.FEW)
        for name, words in (("float32.pt", ()), ("int8.pt", ("--quantize", "int8"))):
            code, said, err = run(self.folder, "checkpoint", "export", self.run_dir, "--out", self.folder / name, *words)
            self.assertEqual(code, 0, said + err)
        ended = subprocess.run([PYTHON, "-c", SCRIPT, self.folder / "float32.pt", self.folder / "int8.pt"], capture_output=True,
                               text=True, timeout=300)
        self.assertEqual(ended.returncode, 0, ended.stderr)
        found = json.loads(ended.stdout)
        self.assertEqual((found["shapes"], found["training"]), ([[1, 10], [7, 10]], False))
        self.assertEqual(found["code"].count("quantized.conv2d_relu("), 2)
        self.assertEqual(found["code"].count("quantized.linear_dynamic("), 1)
        self.assertNotIn("batch_norm", found["code"])
        self.assertLess(found["error"], 0.1)


if __name__ == "__main__":
    main()
