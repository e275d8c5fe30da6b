"""Tests `data pack` and data sets that read packs."""

import shutil
import signal
import time

from support import SOURCE, Front, main, start

SKIP = "dataset.on_error=skip"


class Packs(Front):
    def config(self, name, split):
        return self.write(name, f"dataset: {{train: {split}}}\nmodel: {{type: mlp, hidden: [8]}}\noptimizer: {{type: adam}}\n"
                                "trainer: {max_epochs: 2}\n")

    def digest(self, config):
        return self.program("data", "hash", "--json", config, code=0).json["digest"]

    def copy_seeds(self, folder, *names):
        to = self.folder / folder
        to.mkdir(parents=True)
        for name in names:
            shutil.copy(SOURCE / "tests/fuzz/seeds/jpeg" / name, to / f"{name}.jpg")

    def damaged_folder(self, *first):
        self.copy_seeds("images/a", *first)
        self.copy_seeds("images/b", "444", "progressive")
        self.write("images/b/bad.jpg", "no JPEG")

    def test_images_of_different_sizes_are_packed_and_counted_but_make_no_batches(self):
        self.copy_seeds("images/a", "1x1", "420")
        self.copy_seeds("images/b", "444", "progressive")
        source = self.config("source.yaml", "{type: image_folder, root: images}")
        self.assert_has(self.refused("data", "hash", source), "the images differ in size")
        packed = self.program("data", "pack", source, "--out", self.folder / "images.pack", "--mode", "raw", code=0)
        self.assert_has(packed.out, "4 samples")
        self.program("data", "stats", source, code=0)

    def test_a_pack_gives_the_batches_of_its_source(self):
        source = self.config("source.yaml", "{type: synthetic_digits, samples: 300}")
        pack = self.folder / "digits.pack"
        document = self.program("data", "pack", source, "--out", pack, "--mode", "raw", "--json", code=0).json
        self.assertEqual(document["schema"], "trainctl.data_pack/2")
        self.assertEqual(document["samples"], 300)
        self.assertEqual(document["bytes"], pack.stat().st_size)
        packed = self.config("packed.yaml", "{type: pack, path: digits.pack}")
        self.assertEqual(self.digest(packed), self.digest(source))
        again = self.program("data", "pack", source, "--out", pack, "--mode", "raw", code=0)
        self.assert_has(again.out, "300 samples (raw), 300 of them already stored")
        self.refused("data", "pack", source, "--out", pack)

    def test_a_pack_of_several_sources_gives_their_batches_and_is_stale_when_one_changes(self):
        for folder in ("first", "second"):
            self.copy_seeds(f"{folder}/a", "420", "444")
            self.copy_seeds(f"{folder}/b", "progressive")
        parts = ("{type: subset, source: {type: image_folder, root: first}, range: [0, 2]}", "{type: image_folder, root: second}")
        resize = "transforms: [{type: resize, size: [8, 8]}]"
        source = self.config("source.yaml", f"{{type: concat, sources: [{', '.join(parts)}], {resize}}}")
        self.assert_has(self.program("data", "pack", source, "--out", self.folder / "both.pack", code=0).out, "5 samples")
        packed = self.config("packed.yaml", f"{{type: pack, path: both.pack, {resize}}}")
        self.assertEqual(self.digest(packed), self.digest(source))
        shutil.copy(self.folder / "second/a/444.jpg", self.folder / "second/b/progressive.jpg")
        self.assert_has(self.refused("data", "hash", packed, code=9), "both.pack is stale", "second/b")

    def test_options_without_effect_are_refused_and_a_cut_pack_is_a_data_error(self):
        source = self.config("source.yaml", "{type: synthetic_digits, samples: 100}")
        pack = self.folder / "digits.pack"
        self.assert_has(self.refused("data", "pack", source, "--out", pack, "--size", "8"), "requires --mode resize or raw")
        self.program("data", "pack", source, "--out", pack, code=0)
        pack.write_bytes(pack.read_bytes()[:-1])
        cut = self.config("cut.yaml", "{type: pack, path: digits.pack}")
        self.assert_has(self.refused("data", "hash", cut, code=9), "digits.pack ends at byte")

    def test_an_interrupted_pack_prints_how_to_resume_and_ends_with_130(self):
        source = self.config("source.yaml", "{type: synthetic_images, samples: 200000, height: 224, width: 224}")
        process = start(self.folder, "data", "pack", source, "--out", self.folder / "x.pack", "--mode", "resize")
        self.addCleanup(process.kill)
        journal = self.folder / "x.pack.journal"
        deadline = time.monotonic() + 60
        while not journal.exists() and time.monotonic() < deadline:
            time.sleep(0.01)
        time.sleep(0.3)  # Whenever the signal arrives, the samples that were packed before it are saved.
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=300)
        self.assertIn(process.returncode, (130, -signal.SIGINT))
        self.assert_has(err, "run the same command again to resume")
        self.assertGreater(journal.stat().st_size, 24)  # the journal is longer than its header

    def test_with_skip_damaged_samples_are_left_out(self):
        self.damaged_folder("1x1", "420")
        source = self.config("source.yaml", "{type: image_folder, root: images}")
        stopped = self.refused("data", "stats", source, code=9)
        self.assert_has(stopped, "b/bad.jpg: ")
        self.assertNotIn("batch", stopped)
        stats = self.program("data", "stats", source, SKIP, code=0)
        self.assert_starts(stats.out, "4 samples")
        self.assert_has(stats.out, " a ", " b ")
        self.assert_has(stats.err, "warning: 1 unreadable sample not counted:", "b/bad.jpg")
        packed = self.program("data", "pack", source, SKIP, "--out", self.folder / "images.pack", "--json").json
        self.assertEqual(packed["samples"], 4)
        self.assertEqual(packed["skipped"]["count"], 1)
        self.assertTrue(packed["skipped"]["first"][0]["name"].endswith("b/bad.jpg"))

    def test_replaced_samples_are_reported(self):
        self.damaged_folder("420")
        source = self.config("source.yaml", "{type: image_folder, root: images, transforms: [{type: resize, size: [16, 16]}]}")
        for verb, more in (("hash", []), ("bench", ["--repeats", "1", "--epochs", "1"]), ("show", ["--out", self.folder / "x.png"])):
            with self.subTest(verb):
                words = ["data", verb, source, SKIP, "loader.batch_size=2", *more]
                plain = self.program(*words, code=0)
                self.assert_has(plain.err, "warning: 1 unreadable sample replaced by other samples:", "b/bad.jpg: ")
                self.assertEqual(self.program(*words, "--json").json["skipped"]["count"], 1)

    def test_packs_with_other_classes_than_the_training_split_are_refused(self):
        for split, names in (("train", ("cat", "dog")), ("val", ("dog", "zebra"))):
            for name in names:
                self.copy_seeds(f"{split}/{name}", "444")
            source = self.config(f"{split}.yaml", f"{{type: image_folder, root: {split}}}")
            self.program("data", "pack", source, "--out", self.folder / f"{split}.pack", code=0)
        resized = "transforms: [{type: resize, size: [8, 8]}]}"
        both = self.config("both.yaml", f"{{type: pack, path: train.pack, {resized}, val: {{type: pack, path: val.pack, {resized}")
        self.assert_has(self.refused("validate", both), "class 0 is 'dog', but 'cat' in dataset.train")


if __name__ == "__main__":
    main()
