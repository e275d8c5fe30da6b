"""PyTorch reads the files of `trainctl checkpoint export`. Needs TRAINCTL_BINARY and a Python with torch: TRAINCTL_PYTHON_TORCH,
or the environment of scripts/setup --checks or of the peer benchmarks."""

import json
import subprocess
import unittest

from support import MISSING_TORCH, Smoke, main, python_with_torch, run

# Reads pairs of exports until its input ends: importing torch takes longer than a test.
SCRIPT = """
import json, sys
import torch
torch.set_num_threads(1)
for line in sys.stdin:
    dictionary, program, inputs = json.loads(line)
    state = torch.load(dictionary, weights_only=True)
    model = torch.jit.load(program)
    own = {**dict(model.named_parameters()), **dict(model.named_buffers())}
    print(json.dumps({
        "type": type(state).__name__,
        "shapes": {name: [str(value.dtype), list(value.shape)] for name, value in state.items()},
        "sums": {name: value.double().sum().item() for name, value in state.items()},
        "same": sorted(own) == sorted(state) and all(torch.equal(own[name], state[name]) for name in state),
        "training": model.training,
        "outputs": [list(model(eval(inputs, {"torch": torch, "rows": rows})).shape) for rows in (1, 2, 7)]}), flush=True)
"""


PYTHON = python_with_torch()
FEW = ["dataset.train.samples=200", "dataset.val.samples=100", "trainer.max_epochs=1", "loader.batch_size=20"]

@unittest.skipUnless(PYTHON, MISSING_TORCH)
class InPyTorch(Smoke):
    def export(self, name, *words):
        out = self.folder / name
        code, said, err = run(self.folder, "checkpoint", "export", self.run_dir, "--out", out, "--json", *words)
        self.assertEqual(code, 0, said + err)
        return json.loads(said)

    @classmethod
    def setUpClass(cls):
        cls.torch = subprocess.Popen([PYTHON, "-c", SCRIPT], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        cls.addClassCleanup(cls.torch.communicate)  # closes the pipes, so that it ends

    def in_torch(self, inputs):
        self.torch.stdin.write(json.dumps([str(self.folder / "w.pth"), str(self.folder / "m.pt"), inputs]) + "\n")
        self.torch.stdin.flush()
        return json.loads(self.torch.stdout.readline() or self.fail("PyTorch could not read the files"))

    def check(self, inputs, outputs):
        """Checks that both exports of the last run hold its weights and that the scripted module takes any batch size."""
        dictionary, script = self.export("w.pth"), self.export("m.pt")
        self.assertEqual((dictionary["format"], script["format"]), ("pth", "torchscript"))
        self.assertEqual(dictionary["tensors"], script["tensors"])
        found = self.in_torch(inputs)
        self.assertEqual((found["type"], found["same"], found["training"]), ("dict", True, False))
        self.assertEqual(len(found["shapes"]), dictionary["tensors"])
        self.assertEqual(found["outputs"], [[rows, *outputs] for rows in (1, 2, 7)])
        return found

    def test_a_state_dict_and_a_program_of_an_mlp(self):
        self.train(*FEW)
        found = self.check("torch.rand(rows, 1, 28, 28)", [10])
        self.assertIn(["torch.float32", [32, 784]], found["shapes"].values())
        self.assertEqual([path.name for path in self.folder.glob("*tmp*")], [])
        # The option --format decides for .pt and for unknown names.
        self.export("dict.pt", "--format", "pth")
        self.export("no_extension", "--format", "pth")
        self.assertEqual((self.folder / "dict.pt").read_bytes(), (self.folder / "no_extension").read_bytes())

    def test_networks_with_buffers_and_attention(self):
        for model in ("{type: resnet_cifar, depth: 8}", "{type: vit_tiny, patch_size: 7}"):
            with self.subTest(model):
                self.train(*FEW, f"++model={model}", "+trainer.limit_train_batches=2", "+trainer.limit_val_batches=1")
                self.check("torch.rand(rows, 1, 28, 28)", [10])
                for name in ("w.pth", "m.pt"):
                    (self.folder / name).unlink()

    def test_layers_of_sequences(self):
        rows = "{type: flatten, start_dim: 1, end_dim: 2}"
        encoder = "{type: transformer_encoder_layer, nhead: 4, dim_feedforward: 8}"
        recurrent = "{type: lstm, hidden_size: 4, num_layers: 2, bidirectional: true}, {type: gru, hidden_size: 3, output: last}"
        self.train(*FEW, f"++model={{type: sequential, layers: [{rows}, positional_embedding, {encoder}, {recurrent}, linear]}}",
                   "+trainer.limit_train_batches=2", "+trainer.limit_val_batches=1")
        found = self.check("torch.rand(rows, 1, 28, 28)", [10])
        self.assertIn(["torch.float32", [16, 28]], found["shapes"].values())

    def test_the_averaged_weights_of_validation_are_exported(self):
        self.train(*FEW, "+trainer.ema={decay: 0.9}")
        averaged = self.check("torch.rand(rows, 1, 28, 28)", [10])
        self.export("w.pth", "--weights", "model", "--force")
        self.export("m.pt", "--weights", "model", "--force")
        self.assertNotEqual(self.in_torch("torch.rand(rows, 1, 28, 28)")["sums"], averaged["sums"])


if __name__ == "__main__":
    main()
