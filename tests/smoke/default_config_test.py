"""Verbs also work without an experiment file. Needs TRAINCTL_BINARY."""

import json
import os
from unittest import mock

from support import SOURCE, Front, Smoke, main, run

OWN_CONFIG = """name: mine
dataset: {train: {type: synthetic_images, height: 8, width: 8, classes: 3, samples: 64}}
model: linear
optimizer: sgd
trainer: {max_epochs: 1}
"""
FRONT_VERBS = ["validate", "show-config", "plan --no-model", "data hash --epochs 1 --workers 0", "data bench --workers 0",
               "data show --out grid.png", "data stats", "data pack --out packed"]
# Each command exits before it trains. The error names something that only the experiment in use has.
ENGINE_VERBS = ["tune", "lr-find", "sweep --seeds 1,2", "verify-resume", "eval --checkpoint best", "predict --checkpoint best --out out.csv"]


class FrontVerbs(Front):
    """These verbs need neither the engine nor a run."""

    def run_here(self, *words, code=None):
        return self.program(*words, code=code, XDG_CACHE_HOME=str(self.folder / ".cache"))

    def test_the_config_of_the_folder_is_used_and_named(self):
        self.write("config.yaml", OWN_CONFIG)
        for verb in FRONT_VERBS:
            with self.subTest(verb):
                self.assert_starts(self.run_here(*verb.split(), code=0).err, "no CONFIG given: using ./config.yaml\n")

    def test_else_a_built_in_experiment_is_used_and_named(self):
        for verb in ("validate", "show-config", "plan --no-model", "validate optimizer.lr=0.01"):
            with self.subTest(verb):
                self.assert_starts(self.run_here(*verb.split(), code=0).err,
                                   "no CONFIG given: using the built-in experiment builtin:quickstart ")
        photographs = self.run_here("data", "hash", "--epochs", "1", "--workers", "2", "dataset.train.samples=8",
                                    "loader.batch_size=4", code=0)
        self.assert_has(photographs.err, "builtin:photographs")
        self.assertTrue((self.folder / ".cache/trainctl/photographs/v1-train-8").exists())
        for verb, text in (("data stats", "8 samples"), ("data pack --out packed", "packed: 8 samples")):
            done = self.run_here(*verb.split(), "dataset.train.samples=8", code=0)
            self.assert_starts(done.err, "no CONFIG given: using the built-in experiment builtin:photographs ")
            self.assert_has(done.out, text)

    def test_verbs_of_the_engine_use_the_config_of_the_folder(self):
        self.write("config.yaml", OWN_CONFIG + "loader: {batch_size: 0}\n")
        for verb in ENGINE_VERBS:
            with self.subTest(verb):
                self.assert_starts(self.run_here(*verb.split(), code=2).err, "no CONFIG given: using ./config.yaml\nconfig.yaml:6:22: error: ")

    def test_verbs_of_the_engine_use_a_built_in_experiment_otherwise(self):
        quickstart = ["+model.hidden=[8]"], "'model.hidden' already exists"
        expected = {"tune": ("photographs", ["+dataset.cache.mode=none"], "'dataset.cache.mode' already exists"),
                    "eval": ("quickstart", [], "no run of 'quickstart' in "), "predict": ("quickstart", [], "no run of 'quickstart' in ")}
        for verb in ENGINE_VERBS:
            name, words, text = expected.get(verb.split()[0], ("quickstart", *quickstart))
            with self.subTest(verb):
                err = self.run_here(*verb.split(), *words, code=2).err
                self.assert_starts(err, f"no CONFIG given: using the built-in experiment builtin:{name} (print it: trainctl show-config builtin:{name})\n")
                self.assertIn(text, err)

    def test_a_config_that_cannot_be_read_is_an_error(self):
        (self.folder / "config.yaml").symlink_to("nowhere.yaml")
        self.assert_has(self.run_here("validate", code=2).err, "cannot read config.yaml")

    def test_the_line_is_left_out_by_quiet_and_json(self):
        self.assertEqual(self.run_here("validate", "--quiet").err, "")
        document = self.run_here("show-config", "--json")
        self.assertEqual(document.err, "")
        self.assertEqual(document.json["files"], ["builtin:quickstart"])

    def test_a_built_in_experiment_is_the_file_in_configs(self):
        for name in ("quickstart", "photographs"):
            builtin = self.run_here("show-config", f"builtin:{name}", "--json").json
            file = self.run_here("show-config", SOURCE / f"configs/{name}.yaml", "--json").json
            self.assertEqual(builtin["config"], file["config"])
        self.assert_has(self.run_here("validate", "builtin:quickstar", code=2).err, "unknown built-in experiment 'quickstar'",
                        "did you mean 'quickstart'?")

    def test_an_experiment_of_the_docs_outside_of_a_checkout_says_where_it_is(self):
        self.assert_has(self.run_here("validate", "configs/quickstart.yaml", code=2).err, "hint: run this in a checkout of trainctl, or copy")

    def test_the_error_of_a_missing_config_names_the_closest_file(self):
        self.write("configs/mine.yaml", OWN_CONFIG)
        self.assertEqual(self.run_here("validate", "mine.yml", code=2).err,
                         "error: cannot read mine.yml: there is no such file\nhint: did you mean 'configs/mine.yaml'?\n")

    def test_the_readme_shows_the_two_commands_that_need_no_file(self):
        self.assert_has((SOURCE / "README.md").read_text(), "\ntrainctl run\n", "\ntrainctl bench --workers 0,4,8\n")


class WithoutAConfig(Smoke):
    """`run` and `bench` use the built-in experiments in an empty folder."""

    def setUp(self):
        super().setUp()
        self.empty = self.folder / "empty"
        self.empty.mkdir()
        patch = mock.patch.dict(os.environ, XDG_CACHE_HOME=str(self.folder / "cache"))
        patch.start()
        self.addCleanup(patch.stop)

    def test_run_trains_the_quickstart(self):
        code, out, err = run(self.empty, "run", "trainer.limit_train_batches=20", "trainer.limit_val_batches=5")
        self.assertEqual(code, 0, err)
        self.assertTrue(err.startswith("no CONFIG given: using the built-in experiment builtin:quickstart"), err)
        self.assertIn("Finished 2 epochs, 40 steps", out)
        self.assertRegex(out, r"next +\S*trainctl (bench|run) builtin:quickstart")
        (run_dir,) = [path for path in (self.empty / "runs/quickstart").iterdir() if not path.is_symlink()]
        self.assertIn("name: quickstart", (run_dir / "config.yaml").read_text())
        code, out, err = run(self.empty, "eval", "--run-dir", run_dir, "--checkpoint", "best", "trainer.limit_val_batches=1.0")
        self.assertEqual(code, 0, err)
        code, out, err = run(self.empty, "run", "--resume", "auto", "trainer.limit_train_batches=20", "trainer.limit_val_batches=5",
                             "trainer.max_epochs=3")
        self.assertEqual(code, 0, err)
        self.assertEqual(json.loads((run_dir / "result.json").read_text())["epochs"], 3)

    def test_bench_compares_loader_threads_on_photographs(self):
        code, out, err = run(self.empty, "bench", "--workers", "0,4,8", "--repeats", "1", "dataset.train.samples=40",
                             "loader.batch_size=10", "trainer.max_epochs=1", "++trainer.channels_last=false", "--save", "bench.json")
        self.assertEqual(code, 0, err)
        self.assertIn("using the built-in experiment builtin:photographs", err)
        document = json.loads((self.empty / "bench.json").read_text())
        self.assertEqual(document["budget_s"], 150, "README promises a table within three minutes")
        rows = document["rows"]
        self.assertEqual([row["settings"]["loader.num_workers"] for row in rows], ["0", "4", "8"])
        self.assertEqual(len({row["data_digest"] for row in rows}), 1, "the batches are the same for any number of threads")
        drawn = list((self.folder / "cache/trainctl/photographs").rglob("*.jpg"))
        self.assertEqual(len(drawn), 40, "drawn once")

    def test_a_config_of_the_folder_comes_first(self):
        (self.empty / "config.yaml").write_text((self.folder / "digits.yaml").read_text())
        code, _, err = run(self.empty, "run", "trainer.fast_dev_run=true")
        self.assertEqual(code, 0, err)
        self.assertTrue(err.startswith("no CONFIG given: using ./config.yaml\n"), err)
        self.assertTrue((self.empty / "runs/smoke").is_dir())


if __name__ == "__main__":
    main()
