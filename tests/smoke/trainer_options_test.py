"""Drives runs with options of `trainer` that Lightning has under the same names. Needs TRAINCTL_BINARY."""

import csv
import functools
import http.server
import json
import os
import pathlib
import tempfile
import threading
import unittest

from support import run

CONFIG = """\
name: options
seed: 7
dataset:
  train: {type: csv, path: rows.csv, label: y, standardize: true}
  split: {val: 0.2, test: 0.1, seed: 1}
loader: {batch_size: 14, num_workers: 0}
model: {type: mlp, hidden: [8]}
optimizer: {type: adam, lr: 0.01}
metrics: [accuracy]
trainer: {max_epochs: 2, accelerator: cpu, num_threads: 1, devices: 1, log_every_n_steps: 2}
"""


class InAFolder(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory(prefix="trainctl-options-")
        self.addCleanup(scratch.cleanup)
        self.folder = pathlib.Path(scratch.name)
        lines = ["a,b,y"] + [f"{i % 7},{i * i % 11},{'well' if i % 7 > 3 else 'ill'}" for i in range(200)]
        (self.folder / "rows.csv").write_text("\n".join(lines))
        (self.folder / "options.yaml").write_text(CONFIG)

    def train(self, run_dir, *words, code=0):
        ended, out, err = run(self.folder, "run", "options.yaml", "--run-dir", run_dir, *words)
        self.assertEqual(ended, code, err)
        return out + err

    def rows(self, path):
        with open(self.folder / path, newline="") as lines:
            return list(csv.DictReader(lines))

    def lines(self, run_dir, kind):
        lines = [json.loads(line) for line in (self.folder / run_dir / "metrics.jsonl").read_text().splitlines()]
        return [line for line in lines if line["type"] == kind]

    def result(self, run_dir):
        return json.loads((self.folder / run_dir / "result.json").read_text())


class ValidatesAndTests(InAFolder):
    def test_validations_within_epochs_are_logged_and_survive_a_resume(self):
        printed = self.train("whole", "trainer.val_check_interval=0.3")  # ten steps per epoch
        self.assertEqual([(row["epoch"], row["step"]) for row in self.rows("whole/validations.csv")],
                         [("1", "3"), ("1", "6"), ("1", "9"), ("2", "13"), ("2", "16"), ("2", "19")])
        found = self.lines("whole", "validation")
        self.assertEqual([line["step"] for line in found], [3, 6, 9, 13, 16, 19])
        self.assertEqual({"type", "epoch", "step", "val/loss", "val/accuracy"}, set(found[0]))
        self.assertIn("epoch 1, step 3: val/loss ", printed)

        self.train("parts", "trainer.val_check_interval=0.3", "trainer.max_steps=14")
        self.train("parts", "--resume", "last", "trainer.val_check_interval=0.3")
        self.assertEqual(self.lines("parts", "validation"), found)
        self.assertEqual(self.result("parts")["val"], self.result("whole")["val"])

    def test_the_test_set_is_evaluated_with_the_best_weights_on_all_ranks(self):
        printed = self.train("one", "trainer.test=true")
        result = self.result("one")
        self.assertEqual(result["test_weights"], "best")
        self.assertIn("(best weights)", printed)
        self.assertEqual(self.lines("one", "test")[0]["test/loss"], result["test"]["loss"])
        self.assertEqual(float(self.rows("one/test.csv")[0]["test/accuracy"]), result["test"]["accuracy"])
        code, out, err = run(self.folder, "eval", "one", "--checkpoint", "best", "--split", "test", "--json")
        self.assertEqual(code, 0, err)
        self.assertAlmostEqual(json.loads(out)["metrics"]["loss"], result["test"]["loss"], places=6)

        self.train("two", "trainer.test=true", "trainer.devices=2", "loader.batch_size=7", "checkpoint.save_top_k=0")
        self.assertEqual(self.result("two")["test_weights"], "last")
        self.assertAlmostEqual(self.result("two")["test"]["loss"], result["test"]["loss"], places=1)

        self.train("part", "trainer.test=true", "--until-epoch", "1")
        self.assertEqual(self.result("part")["test"], {})
        printed = self.train("none", "trainer.test=true", "dataset.split.test=0", code=2)
        self.assertIn("'test: true' needs a test set", printed)


class Unfreezes(InAFolder):
    def test_layers_are_trained_later_on_one_rank_and_with_a_sharded_optimizer(self):
        words = ["freeze=[fc1]", "unfreeze_at=[{epoch: 1, match: [fc1]}]", "trainer.max_epochs=3"]
        self.assertIn("fc1 is trained after 1 epoch", self.train("one", *words))
        self.train("two", *words, "trainer.devices=2", "loader.batch_size=7", "distributed.type=zero1")
        one, two = self.rows("one/epochs.csv"), self.rows("two/epochs.csv")
        for first, second in zip(one, two, strict=True):
            self.assertAlmostEqual(float(first["train/loss"]), float(second["train/loss"]), places=4)
        self.train("frozen", "freeze=[fc1]", "trainer.max_epochs=3")
        frozen = self.rows("frozen/epochs.csv")
        self.assertEqual(frozen[0]["val/loss"], one[0]["val/loss"])
        self.assertNotEqual(frozen[1]["val/loss"], one[1]["val/loss"])
        printed = self.train("wrong", "freeze=[fc1]", "unfreeze_at=[{epoch: 1, match: [fc2]}]", code=2)
        self.assertIn("unfreeze_at: 'fc2.weight' is not frozen", printed)


class Devices(InAFolder):
    def test_all_devices_of_a_cpu_run_are_one_process_and_a_list_is_an_error(self):
        self.train("all", "trainer.devices=-1", "trainer.max_epochs=1")
        self.assertEqual(self.result("all")["world_size"], 1)
        printed = self.train("list", "trainer.devices=[0, 1]", code=2)
        self.assertIn("'devices' lists GPUs, but the run is on CPUs", printed)
        self.assertIn("write 'devices: 2' for as many processes", printed)
        self.assertIn("'devices' lists GPU 1 twice", self.train("twice", "trainer.devices=[1, 1]", code=2))


class NamedWeights(InAFolder):
    NAME = "weights=torchvision/resnet18.IMAGENET1K_V1"

    def environment(self, url):
        return dict(os.environ, TRAINCTL_WEIGHTS_URL=url, XDG_CACHE_HOME=str(self.folder / "cache"), no_proxy="*")

    def test_the_server_must_have_the_file_that_the_name_requires(self):
        (self.folder / "mirror").mkdir()
        (self.folder / "mirror/resnet18-f37072fd.pth").write_bytes(b"not a state dict")
        handler = functools.partial(http.server.SimpleHTTPRequestHandler, directory=self.folder / "mirror")
        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
        thread = threading.Thread(target=server.serve_forever, args=(0.02,))
        thread.start()
        self.addCleanup(thread.join)
        self.addCleanup(server.shutdown)
        url = f"http://127.0.0.1:{server.server_port}"
        code, _, err = run(self.folder, "run", "options.yaml", self.NAME, env=self.environment(url))
        self.assertEqual(code, 10, err)
        self.assertIn(f"{url}/resnet18-f37072fd.pth", err)
        self.assertIn("its name says that it begins with f37072fd", err)
        self.assertFalse((self.folder / "cache/trainctl/weights").exists())

    def test_without_a_network_the_message_says_where_to_put_the_file(self):
        code, _, err = run(self.folder, "run", "options.yaml", self.NAME, env=self.environment("http://127.0.0.1:1"))
        self.assertEqual(code, 11, err)
        self.assertIn(str(self.folder / "cache/trainctl/weights/resnet18-f37072fd.pth"), err)
        code, _, err = run(self.folder, "validate", "options.yaml", self.NAME, env=self.environment("http://127.0.0.1:1"))
        self.assertEqual(code, 0, err)  # the names of tensors are checked when the file is there
        code, _, err = run(self.folder, "validate", "options.yaml", "weights=torchvision/resnet18.IMAGENET1K_V2")
        self.assertEqual(code, 2, err)
        self.assertIn("use 'torchvision/resnet18.IMAGENET1K_V1'", err)


if __name__ == "__main__":
    unittest.main()
