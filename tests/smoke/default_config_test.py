"""`trainctl run` and `trainctl bench --workers ...` without an experiment file. Needs TRAINCTL_BINARY."""

import json
import os
from unittest import mock

from support import Smoke, main, run


class WithoutAConfig(Smoke):
    """Both run in an empty folder, on experiments that are built into the program."""

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
        code, out, err = run(self.empty, "bench", "--workers", "0,4,8", "--repeats", "1", "dataset.train.samples=100",
                             "trainer.max_epochs=1", "--save", "bench.json")
        self.assertEqual(code, 0, err)
        self.assertIn("using the built-in experiment builtin:photographs", err)
        document = json.loads((self.empty / "bench.json").read_text())
        self.assertEqual(document["budget_s"], 150, "README promises a table within three minutes")
        rows = document["rows"]
        self.assertEqual([row["settings"]["loader.num_workers"] for row in rows], ["0", "4", "8"])
        self.assertEqual(len({row["data_digest"] for row in rows}), 1, "the batches are the same for any number of threads")
        drawn = list((self.folder / "cache/trainctl/photographs").rglob("*.jpg"))
        self.assertEqual(len(drawn), 100, "drawn once")

    def test_a_config_of_the_folder_comes_first(self):
        (self.empty / "config.yaml").write_text((self.folder / "digits.yaml").read_text())
        code, _, err = run(self.empty, "run", "trainer.fast_dev_run=true")
        self.assertEqual(code, 0, err)
        self.assertTrue(err.startswith("no CONFIG given: using ./config.yaml\n"), err)
        self.assertTrue((self.empty / "runs/smoke").is_dir())


if __name__ == "__main__":
    main()
