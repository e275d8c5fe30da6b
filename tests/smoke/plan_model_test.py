"""The memory that `trainctl plan` predicts matches the memory that `trainctl run` takes. Needs TRAINCTL_BINARY."""

import csv
import json
import os
import pathlib
import subprocess
import tempfile
import unittest
from unittest import mock

BINARY = os.environ["TRAINCTL_BINARY"]
MIB = 1 << 20
# malloc keeps a part of what is freed, by chance and CPU up to a fifth of the memory. With this threshold, the system gets every
# freed tensor back, and the memory is that of the tensors in use.
EXACT_HEAP = {"MALLOC_MMAP_THRESHOLD_": str(128 << 10)}
CONFIG = """\
seed: 3
dataset:
  train: {{type: synthetic_images, height: {size}, width: {size}, classes: 10, samples: {samples}}}
  cache: {{mode: none}}
loader: {{batch_size: {batch}, num_workers: 0}}
model: {model}
optimizer: {{type: adam, lr: 0.0001}}
trainer: {{accelerator: cpu, devices: 1, num_threads: 1, channels_last: false, max_epochs: 1}}
"""


class PlanAndRun(unittest.TestCase):
    HEAP = EXACT_HEAP

    def setUp(self):
        self.scratch = tempfile.TemporaryDirectory(prefix="trainctl-smoke-")
        self.addCleanup(self.scratch.cleanup)
        self.folder = pathlib.Path(self.scratch.name)

    def call(self, *words, code=0):
        done = subprocess.run([BINARY, *map(str, words)], cwd=self.folder, stdin=subprocess.DEVNULL, capture_output=True, text=True,
                              timeout=600, env={**os.environ, **self.HEAP})
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        return done

    def config(self, name="plan.yaml", model="resnet18", size=96, batch=64, samples=128):
        (self.folder / name).write_text(CONFIG.format(model=model, size=size, batch=batch, samples=samples))
        return name

    def plan(self, *words):
        return json.loads(self.call("plan", *words, "--json").stdout)

    def taken(self, *words):
        """Returns the peak resident memory of the worker in bytes."""
        run_dir = tempfile.mkdtemp(dir=self.folder, prefix="run-")
        self.call("run", *words, "--run-dir", run_dir, "--quiet")
        with open(pathlib.Path(run_dir) / "timing.csv", newline="") as rows:
            return max(float(row["rss_mb"]) for row in csv.DictReader(rows)) * MIB

    def predicted(self, *words):
        """Returns the predicted bytes, without the copies that exist only after the first epoch, when the activations are freed."""
        plan = self.plan(*words)
        later = ("best_weights", "saved_state")
        return plan["model"]["host_bytes"] - sum(plan["model"]["memory"][part] for part in later) + plan["rank_bytes"]

    def compare(self, config, few):
        """Checks that the prediction is within 15 % of the memory of a run, and the growth from a small batch to the config's
        within 25 %. Two steps suffice: in the second, the state of the optimizer exists next to all activations."""
        expected, actual = [], []
        for words in ([config, f"loader.batch_size={few}", f"dataset.train.samples={2 * few}"], [config]):
            expected.append(self.predicted(*words))
            actual.append(self.taken(*words))
        report = f"expected {expected}, actual {actual}"
        self.assertGreater(actual[1] - actual[0], 250 * MIB, report)
        self.assertLess(abs(expected[1] - actual[1]), 0.15 * actual[1], report)
        grown, predicted = actual[1] - actual[0], expected[1] - expected[0]
        self.assertLess(abs(predicted - grown), 0.25 * grown, report)


class PlansTakeTheMemoryOfRuns(PlanAndRun):
    def test_a_convolutional_network(self):
        self.compare(self.config(model="mobilenet_v2", size=64), few=2)

    def test_a_network_for_photographs(self):
        # With two epochs of one step, the copies for checkpoints exist at the same time as the activations of the second step.
        for size, batch in ((160, 4), (128, 16)):
            words = (self.config(size=size, batch=batch, samples=batch), "trainer.max_epochs=2")
            plan = self.plan(*words)
            expected, actual = plan["model"]["host_bytes"] + plan["rank_bytes"], self.taken(*words)
            bound = 0.3 if plan["model"]["extrapolated"] else 0.15  # the plan extrapolates when a step takes more than ten seconds
            self.assertLess(abs(expected - actual), bound * actual, f"batch {batch}: expected {expected}, actual {actual}")

    def test_a_network_whose_activations_dominate(self):
        self.compare(self.config(model="{type: mlp, hidden: [32, 32, 32, 32, 32, 32, 32, 32]}", size=8, batch=1 << 17, samples=1 << 18), few=64)

    def test_the_copies_that_checkpoints_are_made_of(self):
        # With many tensors, the memory that malloc keeps from freed gradients is small: it is about one tensor.
        hidden = ", ".join(["1200"] * 10)
        config = self.config(model=f"{{type: mlp, hidden: [{hidden}]}}", size=8, batch=32, samples=64)
        words = (config, "trainer.max_epochs=2")
        none = (*words, "+checkpoint={save_top_k: 0, save_last: false}")
        predicted = [self.plan(*each)["model"]["host_bytes"] for each in (none, words)]
        taken = [self.taken(*each) for each in (none, words)]
        report = f"predicted {predicted}, taken {taken}"
        more, actual = predicted[1] - predicted[0], taken[1] - taken[0]
        self.assertGreater(more, 200 * MIB, report)
        self.assertLess(abs(more - actual), 0.25 * more, report)


class PlansOfModels(PlanAndRun):
    HEAP = {}  # nothing is compared with a run

    def test_parameters_operations_and_parts(self):
        model = self.plan(self.config(size=32, batch=4, samples=8))["model"]
        self.assertEqual(model["parameters"], 11181642)
        self.assertEqual(model["memory"]["gradients"], 4 * 11181642)
        self.assertGreaterEqual(model["memory"]["optimizer"], 8 * 11181642)
        self.assertGreater(model["flops"]["step"], 2.5 * model["flops"]["forward"])
        self.assertIn(8, model["fits_gpus_gb"])
        self.assertIsNone(model["speed"])
        frozen = self.plan("plan.yaml", "freeze=[layer*, conv1.*, bn1.*]")["model"]
        self.assertEqual(frozen["trainable_parameters"], 5130)

    def test_a_probe_times_steps(self):
        config = self.config(model="{type: mlp, hidden: [64]}", size=8, batch=32, samples=320)
        plan = self.plan(config, "--probe")
        speed = plan["model"]["speed"]
        self.assertGreater(speed["samples_per_s"], 0)
        self.assertTrue(0 < speed["step_low_s"] <= speed["step_s"] <= speed["step_high_s"])
        self.assertGreaterEqual(speed["rounds"], 3)
        self.assertAlmostEqual(speed["epoch_s"], 10 * speed["step_s"], places=6)
        self.assertIsNone(speed["mfu"])
        self.assertIn("per epoch", self.call("plan", config, "--probe").stdout)

    def test_a_batch_that_no_machine_holds_is_extrapolated(self):
        # The steps that are measured have many bytes and few operations.
        rows, wide, layers = 1_000_000, 4096, 30
        model = f"{{type: sequential, layers: [flatten, {{type: linear, out_features: {wide}}}, {', '.join(['relu'] * layers)}, linear]}}"
        model = self.plan(self.config(model=model, size=8, batch=rows, samples=rows))["model"]
        self.assertTrue(model["extrapolated"])
        less, more = model["measured_batches"]
        self.assertEqual(more, 2 * less)
        self.assertLess(more, rows)
        self.assertGreater(model["memory"]["activations"], rows * wide * 4 * layers)

    def test_a_model_that_cannot_be_measured_leaves_the_rest_of_the_plan(self):
        config = self.config(size=32, batch=4, samples=8)
        with mock.patch.dict(os.environ, TMPDIR=str(self.folder / "nowhere")):
            plan = json.loads(self.call("plan", config, "--json", code=11).stdout)
        self.assertIsNone(plan["model"])
        self.assertIn("TMPDIR", plan["no_model"])
        self.assertEqual(plan["splits"][0]["samples"], 8)

    def test_what_a_run_would_refuse_the_plan_refuses(self):
        config = self.config(size=32, batch=4, samples=8)
        done = self.call("plan", config, "freeze=[nothing.*]", code=2)
        self.assertIn("nothing.*", done.stderr)
        self.assertIn("--no-model", self.call("plan", config, "freeze=[nothing.*]", "--no-model").stdout)


if __name__ == "__main__":
    unittest.main(verbosity=2)
