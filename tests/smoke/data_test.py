"""Tests the verbs of `data` except `pack`."""

import re

from support import Front, main

SMALL = """
dataset:
  train:
    type: synthetic_digits
    samples: 1000
    transforms: [{type: random_crop, size: 28, padding: 2}, random_horizontal_flip]
loader: {batch_size: 48}
model: {type: mlp, hidden: [8]}
optimizer: {type: adam}
trainer: {max_epochs: 3}
"""
SPLIT = """
dataset:
  train: {type: synthetic_digits, samples: 500, transforms: [{type: random_crop, size: 28, padding: 2}]}
  val: {transforms: []}
  split: {val: 0.2, test: 0.1, stratify: true}
loader: {batch_size: 50}
model: {type: mlp, hidden: [8]}
optimizer: adam
trainer: {max_epochs: 1, accelerator: cpu}
"""


class DataVerbs(Front):
    def setUp(self):
        super().setUp()
        self.config = self.write("small.yaml", SMALL)

    def hash(self, *words):
        return self.program("data", "hash", "--json", *words, code=0).json


class Hashes(DataVerbs):
    def test_the_digest_is_the_same_for_any_workers_prefetch_factor_and_ranks(self):
        expected = self.hash(self.config)
        self.assertEqual(expected["schema"], "trainctl.data_hash/2")
        self.assertEqual(len(expected["epochs"]), 3)
        self.assertNotEqual(expected["epochs"][0], expected["epochs"][1])
        for workers in ("0", "1", "2", "8", "auto"):
            for prefetch in ("1", "3", "auto"):
                found = self.hash(self.config, "--workers", workers, "--prefetch-factor", prefetch)
                self.assertEqual((found["digest"], found["epochs"]), (expected["digest"], expected["epochs"]))
        self.assertEqual(self.hash(self.config, "--world-size", "3", "--workers", "2")["digest"], expected["digest"])
        self.assertNotEqual(self.hash(self.config, "seed=1")["digest"], expected["digest"])
        self.assertEqual(self.hash(self.config, "--epochs", "1")["epochs"][0], expected["epochs"][0])

    def test_the_digest_of_weighted_sources_is_the_same_for_any_workers_ranks_and_cache(self):
        stage = ("{type: concat, weights: [3, 1], sources: [{type: synthetic_digits, samples: 300}, {type: subset, classes: ['1', '7'], "
                 "source: {type: synthetic_digits, split: test, samples: 400}}, {type: synthetic_digits, seed: 5, samples: 90}], "
                 "transforms: [{type: random_crop, size: 28, padding: 2}]}")
        refused = self.refused("validate", self.config, f"dataset.train={stage}")
        self.assert_has(refused, "'weights' must have one weight per source, got 2 weights for 3 sources")
        stage = stage.replace("[3, 1]", "[3, 1, 2]")
        self.assert_has(self.refused("validate", self.config, f"dataset.train={stage}"), "has 10 classes, and sources.1 (subset) has 1, 7")
        stage = "dataset.train=" + stage.replace("classes: ['1', '7']", "fraction: 0.2, stratify: true")
        expected = self.hash(self.config, stage)
        self.assertNotEqual(expected["epochs"][0], expected["epochs"][1])
        for words in (["--workers", "0"], ["--workers", "3", "--prefetch-factor", "1"], ["--world-size", "3", "--workers", "2"],
                      ["dataset.cache.mode=none"], ["dataset.cache.mode=encoded"], ["dataset.cache.mode=decoded"]):
            self.assertEqual(self.hash(self.config, stage, *words)["digest"], expected["digest"], words)
        self.assertNotEqual(self.hash(self.config, stage.replace("[3, 1, 2]", "[3, 1, 1]"))["digest"], expected["digest"])
        for word in ("loader.sampler=class_balanced", "loader.shuffle=false"):
            self.assert_has(self.refused("validate", self.config, stage, word), "the 'weights' of dataset.train draw samples at random")

    def test_a_missing_verb_and_a_number_out_of_range_are_usage_errors(self):
        self.refused("data")
        self.assert_has(self.refused("data", "hash", self.config, "--workers", "300"), "'300' must be an integer from 0 to 256")
        for word in ("-1", "2.5", "Auto", "automatic", "", " 2"):
            self.refused("data", "hash", self.config, f"--prefetch-factor={word}")

    def test_missing_files_end_with_9_and_the_command_that_fetches_them(self):
        nowhere = f"dataset.train={{type: mnist, root: {self.folder / 'nowhere'}}}"
        self.assert_has(self.refused("data", "hash", self.config, nowhere, code=9), "scripts/fetch-data mnist")

    def test_an_unknown_verb_names_the_closest_one(self):
        self.assert_has(self.refused("data", "stat", "x.yaml"), "unknown command 'stat'; did you mean 'stats'?")
        self.assert_has(self.refused("data", "foo", code=None), "unknown command 'foo'")

    def test_the_parts_of_one_data_set_are_known(self):
        config = self.write("split.yaml", SPLIT)
        self.assert_has(self.program("validate", config, "-vv", code=0).err, "dataset.train: 350 samples",
                        "dataset.val: 100 samples", "dataset.test: 50 samples")
        digest = self.hash(config)["digest"]
        self.assertEqual(self.hash(config, "--workers", "2")["digest"], digest)
        self.assertNotEqual(self.hash(config, "dataset.split.seed=1")["digest"], digest)
        self.assertEqual(self.hash(config, "++dataset.val=~")["digest"], digest)
        self.assert_has(self.refused("validate", config, "dataset.val={type: synthetic_digits, split: test}"),
                        "dataset.val must not name a data set")
        random = self.refused("validate", config, "~dataset.val")
        self.assert_has(random, "dataset.val: without 'transforms', the transforms of dataset.train apply")
        self.assertNotIn("dataset.test: the transforms", random)


class Benches(DataVerbs):
    def test_each_worker_count_has_a_process_and_is_compared_with_the_limit(self):
        words = ["data", "bench", self.config, "--workers", "0,2", "--repeats", "2", "--epochs", "2"]
        table = self.program(*words, code=0, LC_ALL="C")
        # The width of the columns depends on the numbers.
        self.check_golden("cli/data_bench.txt", re.sub("( +|-+)", lambda run: run[0][0], table.out))
        self.assert_has(table.err, "round 2 of 2  workers=2")
        document = self.program(*words, "--json").json
        self.assertEqual(document["schema"], "trainctl.data_bench/2")
        self.assertEqual(len(document["rows"]), 2)
        digest = self.hash(self.config, "--epochs", "1")["epochs"][0]
        for row in document["rows"]:
            self.assertEqual((row["digest"], row["identical"], row["limit"]["name"]), (digest, True, "gather"))
            self.assertLessEqual(row["samples_per_s"]["q1"], row["samples_per_s"]["median"])
            for key in ("cpu_s_per_1k", "p50_ms", "p99_ms", "rss_mb"):
                self.assertGreater(row[key], 0, key)

    def test_num_workers_counts_where_no_workers_are_given(self):
        done = self.program("data", "bench", self.config, "loader.num_workers=3", "--repeats", "1", "--epochs", "1", "--quiet", "--json")
        self.assertEqual(done.json["rows"][0]["workers"], 3)
        self.assertEqual(done.err, "")

    def test_auto_gives_its_choice_and_reason_and_reads_through_the_cache(self):
        words = ["data", "bench", self.config, "--workers", "auto,1", "--epochs", "1", "--repeats", "1"]
        self.assert_has(self.program(*words).out, "auto chose ", "probe: a batch takes ")
        rows = self.program(*words, "--json").json["rows"]
        self.assert_starts(rows[0]["auto"], "probe: ")
        self.assertIsNone(rows[1].get("auto"))
        self.assertEqual(rows[0]["digest"], rows[1]["digest"])
        self.program(*words, "--json", "dataset.train.transforms=[{type: resize, size: 64}]",
                     "dataset.cache={mode: decoded, budget: 1KiB}", code=11)

    def test_invalid_worker_counts_and_two_lengths_are_refused(self):
        def bench(*words):
            return self.refused("data", "bench", self.config, *words)
        self.assert_has(bench("--workers", "0,two"), "'two' must be auto or a number from 0 to 256")
        self.assert_has(bench("--workers", "257"), "'257' must be auto or a number")
        self.assert_has(bench("--workers", "2,2"), "given twice")
        bench("--epochs", "1", "--seconds", "1")
        bench("--seconds", "0")


class Stats(DataVerbs):
    def test_the_line_for_normalize_the_classes_and_the_sizes_are_printed(self):
        self.check_golden("cli/data_stats.txt", self.program("data", "stats", self.config, code=0, LC_ALL="C").out)
        document = self.program("data", "stats", self.config, "--json", "--workers", "2").json
        self.assertEqual(document["schema"], "trainctl.data_stats/2")
        self.assertEqual(document["samples"], 1000)
        self.assertEqual(len(document["mean"]), 1)
        self.assertEqual(len(document["classes"]), 10)
        self.assertEqual(document["sizes"][0]["samples"], 1000)

    def test_a_missing_split_is_named(self):
        self.assert_has(self.refused("data", "stats", self.config, "--split", "test"), "the experiment has no dataset.test")
        self.refused("data", "show", self.config, "--split", "tests", "--out", "x.png")

    def test_the_columns_of_a_table_are_those_of_the_file(self):
        self.write("t.csv", "rooms,area,kind,price\n1,10,a,100\n3,,b,300\n5,30,,200\n")
        config = self.write("t.yaml", "dataset: {train: {type: csv, path: t.csv, label: price, label_type: number, categorical: [kind], "
                                      "missing: constant, standardize: true, statistics_from: t.csv, missing_markers: ['']}}\n"
                                      "model: {type: mlp, hidden: [8]}\noptimizer: {type: adam}\n"
                                      "loss: {type: mse}\ntrainer: {max_epochs: 2}\n")
        self.assert_has(self.program("data", "stats", config, code=0).out, "area", "20", "target")
        found = self.program("data", "stats", config, "--json").json
        rooms, area, kind = found["features"]
        self.assertEqual(rooms["mean"], 3.0)
        self.assertEqual((area["missing"], area["mean"]), (1, 20.0))
        self.assertEqual(kind["missing"], 1)
        self.assertIsNone(kind.get("mean"))
        self.assertEqual((found["targets"][0]["min"], found["targets"][0]["max"]), (100.0, 300.0))

    def test_ten_classes_are_shown_and_the_others_counted(self):
        self.write("t.csv", "x,y\n" + "".join(f"1,{name}{name}\n" for name in "abcdefghijklmn"))
        config = self.write("t.yaml", "dataset: {train: {type: csv, path: t.csv, label: y}}\n"
                                      "model: {type: mlp, hidden: [8]}\noptimizer: {type: adam}\ntrainer: {max_epochs: 2}\n")
        text = self.program("data", "stats", config).out
        self.assert_has(text, " jj ", "and 4 more")
        self.assertNotIn(" kk ", text)
        self.assertEqual(self.program("data", "stats", config, "--json").json["class_names"][13], "nn")


class Shows(DataVerbs):
    def show(self, *words, out="sheet.png", **options):
        return self.program("data", "show", self.config, "--out", self.folder / out, *words, **options)

    def picture(self, *words):
        self.show("--samples", "5", *words)
        return (self.folder / "sheet.png").read_bytes()

    def test_the_first_samples_of_an_epoch_are_drawn(self):
        document = self.show("--samples", "5", "--json").json
        self.assertEqual(document["schema"], "trainctl.data_show/2")
        self.assertEqual(len(document["labels"]), 5)
        self.assertEqual(document["image"], [28, 28, 1])
        first = (self.folder / "sheet.png").read_bytes()
        self.assert_starts(first, b"\x89PNG")
        self.assertNotEqual(self.picture("--epoch", "2"), first)
        self.assertEqual(self.picture("loader.num_workers=3"), first)

    def test_a_missing_folder_ends_with_11_and_a_missing_file_with_2(self):
        failure = self.show(out="a/b.png", code=11).err
        self.assert_has(failure, " does not exist\nhint: create it")
        self.assertNotIn(".tmp.", failure)
        self.refused("data", "show", self.config)

    def test_a_picture_too_large_to_view_is_refused_and_one_sample_is_counted(self):
        self.assert_has(self.show("--samples", "1").out, "1 sample of epoch 1")
        large = self.show("--samples", "1000", "dataset.train.transforms=[{type: resize, size: [2000, 2000]}]", code=2)
        self.assert_has(large.err, "a picture of 1000 images of 2000x2000 would have")


if __name__ == "__main__":
    main()
