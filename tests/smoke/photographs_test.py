"""Trains on real photographs from every data set format. Needs TRAINCTL_BINARY and the pictures."""

import json
import os
import pathlib
import shutil
from unittest import mock

from support import SOURCE, Smoke, main, measures_time, run


class RealPhotographs(Smoke):
    """One experiment on real JPEGs has the same batches and losses in every data set format."""

    CONFIG = SOURCE / "configs/imagenet-sample/lenet.yaml"

    def setUp(self):
        super().setUp()
        if not (pathlib.Path(os.environ.get("TRAINCTL_DATA", "")) / "imagenet-sample").is_dir():
            self.skipTest("set TRAINCTL_DATA to a folder with imagenet-sample/")

    def use_few(self):
        """Reads a copy of twenty pictures of each class from here on, and returns the folder of the classes."""
        data = self.folder / "data"
        for name in ("animal", "artifact"):
            (data / "imagenet-sample" / name).mkdir(parents=True)
            for picture in sorted((pathlib.Path(os.environ["TRAINCTL_DATA"]) / "imagenet-sample" / name).iterdir())[:20]:
                shutil.copyfile(picture, data / "imagenet-sample" / name / picture.name)
        patch = mock.patch.dict(os.environ, TRAINCTL_DATA=str(data))
        patch.start()
        self.addCleanup(patch.stop)
        return data / "imagenet-sample"

    def outcome(self, name, *words):
        run_dir = self.folder / name
        code, out, err = run(self.folder, "run", self.CONFIG, "trainer.max_epochs=2", "trainer.num_threads=1",
                             "++trainer.channels_last=false", *words, "--run-dir", run_dir)
        self.assertEqual(code, 0, err + out)
        result = json.loads((run_dir / "result.json").read_text())
        return result["data_digest"], self.losses(run_dir)

    def packed(self, mode):
        file = self.folder / f"{mode}.pack"
        code, out, err = run(self.folder, "data", "pack", self.CONFIG, "--out", file, "--mode", mode, "--workers", "2")
        self.assertEqual(code, 0, err + out)
        transforms = "[{type: random_resized_crop, size: 32}, random_horizontal_flip, {type: normalize, mean: %s, std: %s}]" % (
            "[0.485, 0.456, 0.406]", "[0.229, 0.224, 0.225]")
        return (f"dataset.train={{type: pack, path: {file}, transforms: {transforms}}}",)

    def test_every_tier_and_worker_count_gives_the_same_run(self):
        self.use_few()
        expected = self.outcome("none", "dataset.cache.mode=none", "loader.num_workers=0", "loader.batch_size=8")
        for tier, workers in (("encoded", 2), ("decoded", 0), ("decoded", 2), ("auto", 1)):
            found = self.outcome(f"{tier}{workers}", f"dataset.cache.mode={tier}", f"loader.num_workers={workers}", "loader.batch_size=8")
            self.assertEqual(found, expected, f"{tier}, {workers} workers")
        for mode in ("keep", "raw"):
            self.assertEqual(self.outcome(mode, *self.packed(mode), "loader.batch_size=8"), expected, f"a pack of mode {mode}")

    @measures_time
    def test_auto_gives_photographs_threads_and_digits_none(self):
        expected = self.outcome("none", "dataset.cache.mode=none", "loader.num_workers=0")
        self.assertEqual(self.outcome("auto", "dataset.cache.mode=none"), expected)
        chosen = json.loads((self.folder / "auto" / "manifest.json").read_text())["num_workers"]
        self.assertGreaterEqual(chosen["value"], 1, chosen)
        self.assertRegex(chosen["why"], r"^probe: a batch takes .* to load, a step ")
        self.train()
        chosen = json.loads((self.run_dir / "manifest.json").read_text())["num_workers"]
        self.assertEqual(chosen["value"], 0, chosen)

    def test_a_damaged_picture_ends_the_run_or_is_replaced(self):
        victim = sorted((self.use_few() / "animal").iterdir())[7]
        victim.write_bytes(victim.read_bytes()[:5000])
        words = ["trainer.max_epochs=1", "++trainer.num_threads=1", "++trainer.channels_last=false"]
        code, _, err = run(self.folder, "run", self.CONFIG, *words, "--run-dir", self.folder / "fail")
        self.assertEqual(code, 9, err)
        self.assertIn(victim.name, err)
        results = []
        for workers in (0, 2):
            run_dir = self.folder / f"skip{workers}"
            code, out, err = run(self.folder, "run", self.CONFIG, *words, "dataset.on_error=skip", f"loader.num_workers={workers}",
                                 "--run-dir", run_dir)
            self.assertEqual(code, 0, err)
            self.assertEqual(err.count(victim.name), 1, "named once")
            result = json.loads((run_dir / "result.json").read_text())
            self.assertEqual(result["skipped_samples"], 1)
            self.assertIn("1 damaged sample, listed in logs/rank_0.log", out)
            self.assertIn(victim.name, (run_dir / "logs/rank_0.log").read_text())
            results.append(result["data_digest"])
        self.assertEqual(results[0], results[1])


if __name__ == "__main__":
    main()
