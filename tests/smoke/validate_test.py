"""Tests `validate`, and the messages about missing keys and missing data."""

import os

from support import GOLDEN, SOURCE, Front, main

CONFIGS = SOURCE / "configs"
QUICKSTART = CONFIGS / "quickstart.yaml"


def both_splits(transforms):
    return [f"dataset.{split}.transforms={transforms}" for split in ("train", "val")]


class Validates(Front):
    def test_captured_steps_that_are_required_end_a_run_on_a_cpu_before_it_starts(self):
        for verb in ("validate", "run"):
            self.assert_has(self.refused(verb, QUICKSTART, "trainer.accelerator=cpu", "trainer.cuda_graphs=true"),
                            "'cuda_graphs' is true, but the run is on a CPU", "cuda_graphs: auto")

    def test_captured_steps_do_not_matter_where_nothing_trains(self):
        done = self.program("data", "stats", QUICKSTART, "trainer.accelerator=cpu", "trainer.cuda_graphs=true", code=0)
        self.assertNotIn("cuda_graphs", done.err)

    def test_twelve_planted_mistakes_are_found_in_one_pass_each_on_its_line(self):
        done = self.program("validate", "mistakes.yaml", code=2, folder=GOLDEN / "cli")
        self.assertEqual(done.out, "")
        self.check_golden("cli/mistakes.txt", done.err)
        document = self.program("validate", "mistakes.yaml", "--json", code=2, folder=GOLDEN / "cli").json
        self.assertEqual(document["schema"], "trainctl.validate/2")
        self.assertEqual([problem["line"] for problem in document["files"][0]["errors"]],
                         [2, 4, 7, 9, 10, 11, 14, 15, 16, 19, 22, 23])

    def test_the_config_that_comes_with_trainctl_is_valid(self):
        done = self.program("validate", QUICKSTART, code=0)
        self.assertTrue(done.out.endswith("quickstart.yaml: OK\n"), done.out)
        self.assertEqual(done.err, "")

    def test_the_mnist_configs_are_valid_where_the_data_is(self):
        if "TRAINCTL_DATA" not in os.environ:
            self.skipTest("TRAINCTL_DATA is not set")
        done = self.program("check", CONFIGS / "mnist/ffn.yaml", CONFIGS / "mnist/lenet.yaml", code=0)
        self.assertEqual(done.out.count("\n"), 2)

    def test_overrides_are_laid_over_each_of_several_files(self):
        broken = self.write("broken.yaml", "model: mlp\n")
        document = self.program("validate", QUICKSTART, broken, "optimizer=sgd", "--json", code=2).json
        self.assertEqual([document["ok"], *(file["ok"] for file in document["files"])], [False, True, False])
        # Only the data set is missing: the override adds the optimizer.
        self.assertEqual(len(document["files"][1]["errors"]), 1)

    def test_a_mistake_of_an_override_is_shown_there(self):
        self.assert_has(self.refused("validate", QUICKSTART, "trainer.max_epoch=3"), "trainer.max_epoch=3",
                        "did you mean 'max_epochs'?")

    def test_a_file_that_cannot_be_read_is_named(self):
        failure = self.refused("validate", "no-such.yaml")
        self.assert_starts(failure, "error: ")
        self.assert_has(failure, "no-such.yaml")

    def test_a_file_whose_path_holds_an_equals_sign_is_a_file(self):
        there = self.write("lr=1/a=b.yaml", "model: mlp\n")
        self.assert_has(self.refused("validate", there, code=None), "a=b.yaml:1:1: error: the experiment needs 'dataset'")
        self.write("c=d.yaml", "model: mlp\n")
        self.assert_has(self.refused("validate", "c=d.yaml", code=None), "c=d.yaml:1:1: error")
        self.assert_has(self.refused("validate", "no/lr=1.yaml", code=None), "cannot read no/lr=1.yaml")

    def test_verbose_names_the_files_and_the_data(self):
        self.assert_has(self.program("validate", QUICKSTART, "-v", code=0).err, "quickstart.yaml: ", " bytes",
                        "dataset.train: 60000 samples of 28x28x1, 10 classes")
        self.assertEqual(self.program("validate", QUICKSTART).err, "")
        self.assertEqual(self.program("validate", QUICKSTART, "-v", "--quiet").err, "")

    def test_the_weights_are_looked_for_and_read(self):
        def check(weights, code=None):
            return self.program("validate", QUICKSTART, f"weights={weights}", folder=GOLDEN / "torch", code=code).err
        check("module.pth", code=0)
        self.assert_has(check("modul.pth", code=2), "modul.pth does not exist", "did you mean 'module.pth'?")
        self.assert_has(check("whole_model.pth", code=10), "it uses torch.nn.modules.linear.Linear")
        check("weights.json", code=10)
        for refused in ("https://example.org/w.pth", ".", "{path: module.pth, sha256: abc}"):
            check(refused, code=2)


class ConfigsAndData(Front):
    def nowhere(self, more=""):
        return f"{{type: mnist, root: {self.folder / 'none'}{more}}}"

    def test_errors_of_the_data_come_with_all_others(self):
        self.assert_has(self.refused("validate", QUICKSTART, "optimizer.learning_rate=1", "loader.batch_size=100000",
                                     "loss={type: cross_entropy, weight: [1, 2]}", f"dataset.val={self.nowhere()}"),
                        "unknown key 'learning_rate'", "a batch of 100,000 is larger", "the loss needs 10 weights, one per class of the data, got 2", "does not exist",
                        "3 errors and 2 warnings in")

    def test_a_mistake_in_one_split_does_not_hide_those_of_the_other(self):
        val = self.nowhere(", transforms: [normal]")
        self.assert_has(self.refused("validate", QUICKSTART, "dataset.train.splt=train", f"dataset.val={val}"),
                        "unknown key 'splt'", "unknown transform 'normal'", "does not exist", "3 errors in")

    def test_transforms_that_do_not_fit_are_an_error_of_the_config(self):
        for transforms in ("[{type: normalize, mean: [0.1], std: [0.3]}, random_horizontal_flip]", "[{type: random_crop, size: 29}]",
                           "[{type: normalize, mean: [1, 1, 1], std: [1, 1, 1]}]"):
            self.refused("validate", QUICKSTART, *both_splits(transforms))
        self.assert_has(self.refused("validate", QUICKSTART, "model=lenet", *both_splits("[{type: random_crop, size: 8}]")),
                        "the images are 8x8, but lenet needs 28x28 or 32x32")

    def test_data_that_cannot_be_read_ends_with_9_and_a_config_that_does_not_fit_with_2(self):
        self.assert_has(self.refused("validate", QUICKSTART, f"dataset.train={self.nowhere()}", "~dataset.val", code=9),
                        "does not exist")
        self.assert_has(self.refused("validate", QUICKSTART, "loader.batch_size=100000", "loader.drop_last=true"),
                        "a batch of 100,000 is larger than the training data (60,000 samples)")

    def test_what_cannot_be_learned_from_a_table_is_named_with_its_place(self):
        self.write("train.csv", "a,b,kind,price\n1,2,x,0.5\n3,4,y,1.5\n5,6,x,2.5\n")
        val = self.write("val.csv", "b,a,kind,price\n2,1,x,0.5\n")
        config = self.write("table.yaml", "dataset:\n  train: {type: csv, path: train.csv, label: kind, features: [a, b]}\n"
                                          "loader: {batch_size: 2}\nmodel: mlp\noptimizer: adam\ntrainer: {accelerator: cpu}\n")

        def check(*words):
            done = self.program("validate", config, *words)
            self.assertEqual(done.code, 2 if done.err else 0, done.err)
            return done.err

        def with_val(features, classes):
            return check(f"+dataset.val={{type: csv, path: {val}, label: kind, features: {features}, classes: {classes}}}")

        self.assertEqual(check(), "")
        self.assert_has(check("model=lenet"), "model=lenet", "takes images, but")
        self.assert_has(check("dataset.train.label=price", "+dataset.train.label_type=number", "+metrics=[accuracy]"), "table.yaml:2:",
                        "the loss 'cross_entropy' takes classes", "the metric 'accuracy' takes classes")
        self.assert_has(check("+dataset.train.batch_transforms=[mixup]"), "batch_transforms mix images, but the data set has none")
        self.assert_has(check("+dataset.train.transforms=[random_horizontal_flip]"), "have no image")
        self.assert_has(with_val("[b, a]", "[x, y]"), "feature 0 is 'b', but 'a' in dataset.train")
        self.assertEqual(with_val("[a, b]", "[x, y]"), "")
        self.assert_has(with_val("[a, b]", "[x]"), "with 1 class", "as in dataset.train, got", "'statistics_from'")

    def test_a_model_of_images_or_rows_takes_no_tokens(self):
        self.write("tokens.bin", "a" * 400)
        config = self.write("tokens.yaml", "dataset:\n"
                                           "  train: {type: tokens, path: tokens.bin, sequence_length: 8, vocab_size: 30000}\n"
                                           "loader: {batch_size: 2}\nmodel: mlp\noptimizer: adam\n"
                                           "trainer: {accelerator: cpu, max_epochs: 1}\n")
        self.assert_has(self.refused("validate", config), "tokens.yaml:4:8: error: the model 'mlp' takes images or rows of numbers, "
                        "but the samples of dataset.train are tokens", "choose model gpt")
        self.program("data", "hash", config, code=0)


class HostileInput(Front):
    def test_every_message_is_bounded(self):
        value = "v" * 100_000
        config = self.write("long.yaml", f"model: {value}\n{value}: 1\noptimizer: {{type: adam, lr: {value}}}\nseed: '{value}'\n")
        for words in (["validate", config], ["validate", config, "--json"], ["run", config], ["show-config", config],
                      ["validate", QUICKSTART, f"model.hidden={value}"], ["validate", QUICKSTART, f"model.{value}=1"],
                      ["validate", QUICKSTART, value, "--json"], ["validate", value], ["explain", value], ["schema", value, "--json"],
                      ["list", value], [value], ["version", f"--{value}"], ["run", QUICKSTART, "--max-restarts", value],
                      ["checkpoint", "inspect", value], ["compare", value, value]):
            with self.subTest([str(word)[:50] for word in words]):
                done = self.program(*words)
                text = done.out + done.err
                self.assertEqual(done.code, 10 if words[0] == "checkpoint" else 2)
                self.assertLess(len(text), 20_000)
                self.assertFalse(value[:3000] in text)
                self.assertTrue("characters)" in text or value[:1500] not in text)

    def test_a_secret_and_a_password_in_a_url_are_covered_wherever_they_are_quoted(self):
        config = self.write("secret.yaml", 'dataset:\n  train: {type: image_folder, root: "s3://user:hunter2@bucket/x"}\n'
                                           "  remote:\n    access_key: hunter2\n    secret_key: >\n      hunter2\n"
                                           "model: mlp\noptimizer: sgd\n")
        for verb in ("validate", "show-config", "run", "plan"):
            for more in ([], ["--json"], ["+dataset.remote.session_token=hunter2"]):
                done = self.program(verb, config, *more, code=2)
                self.assertNotIn("hunter2", done.out + done.err)
        shown = self.program("show-config", QUICKSTART, "dataset.train.root=https://me:hunter2@host/x")
        self.assertNotIn("hunter2", shown.out + shown.err)

    def test_a_literal_secret_is_never_quoted_however_it_is_written(self):
        begin = "model: mlp\noptimizer: sgd\ndataset:\n  train: {type: image_folder, root: s3://b/x}\n"
        for remote in ('  remote: {access_key: "${secret:A}hunter2", secret_key: "${secret:B}"}\n',
                       '  remote: {endpoint: "http://h", access_key:\n   hunter2, nonsense: 1}\n',
                       "  remote:\n    ? access_key\n    : hunter2\n    ? nonsense\n    : 1\n",
                       "  remote:\n    access_key:\n    - hunter2\n    - hunter2\n",
                       '  remote: {"access\\u005fkey": hunter2, nonsense: 1}\n', "  remote:\n    access_key: hun${hunter2\n"):
            with self.subTest(remote):
                failure = self.refused("validate", self.write("a.yaml", begin + remote))
                self.assertIn("error: ", failure)
                self.assertNotIn("hunter2", failure)

    def test_an_input_that_is_no_regular_file_is_refused_at_once(self):
        pipe = self.folder / "pipe"
        os.mkfifo(pipe)
        for path in ("/dev/zero", "/proc/kmsg", "/dev/tty", pipe):
            config = self.write("a.yaml", f"extends: {path}\nmodel: mlp\n")
            for words in (["validate", config], ["validate", path],
                          ["validate", QUICKSTART, f"dataset.train={{type: csv, path: {path}, label: y}}"],
                          ["validate", QUICKSTART, f"dataset.train={{type: image_list, path: {path}}}"],
                          ["validate", QUICKSTART, f"dataset.train={{type: npy, path: {path}}}"],
                          ["checkpoint", "inspect", path], ["report", path]):
                self.assertNotEqual(self.program(*words, timeout=300).code, 0, words)


if __name__ == "__main__":
    main()
