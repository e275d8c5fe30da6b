"""`validate --model` finds weights, freeze and parameter patterns that do not fit the model. Needs TRAINCTL_BINARY."""

import gzip
import json

from support import Smoke, main, run, write_miniature_mnist

FEW = ["dataset.train.samples=200", "dataset.val.samples=100", "trainer.max_epochs=1", "loader.batch_size=20"]


class ModelChecks(Smoke):
    def setUp(self):
        super().setUp()
        self.train(*FEW)
        code, out, err = run(self.folder, "checkpoint", "export", self.run_dir, "--out", self.folder / "w.pth")
        self.assertEqual(code, 0, out + err)

    def validate(self, *words, code=0):
        returned, out, err = run(self.folder, "validate", "digits.yaml", *FEW, *words, "--json")
        self.assertEqual(returned, code, out + err)
        return [(problem["line"], problem["message"]) for problem in json.loads(out)["files"][0]["errors"]]

    def test_an_experiment_that_fits_passes(self):
        self.assertEqual(self.validate("--model", "+weights=w.pth", "+freeze=[fc1]", "+optimizer.no_weight_decay_on=[bias]"), [])

    def test_names_in_the_file_are_checked_from_its_header(self):
        for words, text in ((["+weights.prefix=model."], "weights.prefix is 'model.', but no name in the file starts with it"),
                            (["+weights.key_map={fc9.weight: fc1.weight}"], "the file has no tensor 'fc9.weight'")):
            problems = self.validate("+weights.path=w.pth", *words, code=2)
            self.assertEqual(len(problems), 1, problems)
            self.assertIn(text, problems[0][1])

    def test_each_mistake_is_one_error(self):
        problems = self.validate("--model", "model.hidden=[16]", "+weights=w.pth", "+freeze=[conv1]",
                                 "+optimizer.no_weight_decay_on=[nothing]", code=2)
        self.assertEqual(len(problems), 3, problems)
        texts = " | ".join(message for _, message in problems)
        for text in ("weights: the weights do not fit the model: fc1.weight has the shape 32x784 in the file and 16x784 in the model",
                     "conv1", "no_weight_decay_on: 'nothing' matches no trained parameter"):
            self.assertIn(text, texts)
        for _, message in problems:
            self.assertNotRegex(message, r"^(\w+): \1\b")  # no doubled prefix, as in "freeze: freeze: ..."
        self.assertEqual(len(self.validate("--model", "model.hidden=[16]", "+weights=w.pth", code=10)), 1)

    def test_a_run_makes_no_folder_where_they_do_not_fit(self):
        groups = "+optimizer.groups=[{match: ['fc1.*'], lr_scale: 0.1}, {match: [nothing], lr_scale: 0.5}]"
        muon = "optimizer={type: muon, lr: 0.02, adamw_lr: 0.001, adamw_on: ['fc2.*', nothing]}"
        for words, code, text in (
                (["model.hidden=[16]", "+weights=w.pth"], 10, "fc1.weight has the shape 32x784 in the file and 16x784 in the model"),
                (["+freeze=[conv1]"], 2, "conv1"),
                (["+unfreeze_at=[{epoch: 1, match: [fc1]}]"], 2, "unfreeze_at: 'fc1.weight' is not frozen"),
                ([groups], 2, "'nothing' matches no trained parameter"),
                ([muon], 2, "adamw_on: 'nothing' matches no trained parameter")):
            returned, out, err = run(self.folder, "run", "digits.yaml", *FEW, *words, "--out", self.folder / "new")
            self.assertEqual(returned, code, out + err)
            self.assertEqual(err.count("error:"), 1, err)
            self.assertIn(text, err)
            self.assertFalse((self.folder / "new").exists())

    def test_resume_auto_without_a_checkpoint_makes_no_folder_either(self):
        for words in ([], ["--run-dir", self.folder / "new/a"]):
            returned, out, err = run(self.folder, "run", "digits.yaml", *FEW, "name=other", "+freeze=[conv1]", "--out", self.folder / "new",
                                     "--resume", "auto", *words)
            self.assertEqual(returned, 2, out + err)
            self.assertEqual(err.count("error:"), 1, err)
            self.assertFalse((self.folder / "new").exists())
        returned, out, err = run(self.folder, "run", "digits.yaml", *FEW, "trainer.max_epochs=2", "--resume", "auto")
        self.assertEqual(returned, 0, out + err)

    def test_the_check_and_the_export_of_a_program_read_headers_only(self):
        write_miniature_mnist(self.folder)
        (self.folder / "mnist.yaml").write_text("""\
name: mnist
dataset:
  train: {type: mnist, root: mnist, split: train}
model: {type: mlp, hidden: [8]}
optimizer: {type: adam, lr: 0.002}
freeze: [fc1]
trainer: {max_epochs: 1, accelerator: cpu, devices: 1, num_threads: 1}
""")
        self.train(config="mnist.yaml")
        labels = self.folder / "mnist/train-labels-idx1-ubyte.gz"
        labels.write_bytes(gzip.compress(gzip.decompress(labels.read_bytes())[:-1] + bytes([200])))
        code, out, err = run(self.folder, "run", "mnist.yaml")
        self.assertEqual(code, 9, out + err)  # a command that opens the data finds the wrong label
        code, out, err = run(self.folder, "validate", "mnist.yaml", "--model")
        self.assertEqual(code, 0, out + err)
        code, out, err = run(self.folder, "checkpoint", "export", self.run_dir, "--out", self.folder / "model.pt")
        self.assertEqual(code, 0, out + err)


if __name__ == "__main__":
    main()
