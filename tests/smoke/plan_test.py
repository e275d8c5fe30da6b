"""Tests `plan` without its measurement of the model, which plan_model_test.py covers."""

from support import Front, main

SMALL = """
dataset:
  train:
    type: synthetic_digits
    samples: 1000
    transforms: [{type: random_crop, size: 28, padding: 2}]
  val: {type: synthetic_digits, split: test, samples: 200}
loader: {batch_size: 50}
model: {type: mlp, hidden: [8]}
optimizer: {type: adam}
trainer: {max_epochs: 3, accelerator: cpu}
"""
RESIZED = [f"dataset.{split}.transforms=[{{type: resize, size: 64}}]" for split in ("train", "val")]


class PlansOfFiles(Front):
    def setUp(self):
        super().setUp()
        self.config = self.write("small.yaml", SMALL)

    def plan(self, *words, code=None):
        return self.program("plan", self.config, "--no-model", *words, code=code, LC_ALL="C")

    def document(self, *words):
        return self.plan(*words, "--json").json

    def test_the_memory_of_a_run_is_printed_and_fits(self):
        words = ["loader.num_workers=2", "loader.prefetch_factor=3"]
        self.assert_has(self.plan(*words, code=0).out, "50 samples per step, 20 steps per epoch, 3 epochs", "6 x ",
                        "2 threads; prefetch factor 3", "fits: ", "not measured: --no-model")
        document = self.document(*words)
        self.assertEqual((document["schema"], document["verdict"]), ("trainctl.plan/2", "fits"))
        self.assertIsNone(document["model"])
        self.assertEqual(document["no_model"], "--no-model")
        self.assertIs(document["num_workers"]["auto"], False)
        train = document["splits"][0]
        self.assertEqual((train["samples"], train["dataset_bytes"]), (1000, 1000 * 28 * 28 + 1000))
        self.assertEqual((train["slots"]["number"], train["slots"]["bytes_each"]), (6, 50 * 784 + 32 + 50 * 8 + 48))
        self.assertEqual(document["node_bytes"], document["rank_bytes"])

    def test_every_rank_is_counted_and_the_most_that_auto_may_take(self):
        one = self.document("loader.num_workers=1")
        three = self.document("loader.num_workers=1", "trainer.devices=3")
        self.assertEqual((three["ranks"], three["global_batch"]), (3, 150))
        self.assertEqual(three["node_bytes"], 3 * one["rank_bytes"])
        automatic = self.document()
        self.assertIs(automatic["num_workers"]["auto"], True)
        self.assertGreaterEqual(automatic["num_workers"]["most"], 1)
        self.assertIs(automatic["prefetch_factor"]["auto"], True)

    def test_of_two_nodes_the_memory_and_cores_of_this_one_are_counted(self):
        two = self.document("trainer.num_nodes=2")
        self.assertEqual((two["ranks"], two["ranks_here"], two["global_batch"], two["steps_per_epoch"]), (2, 1, 100, 10))
        self.assertEqual(two["node_bytes"], two["rank_bytes"])
        self.assertEqual(two["num_workers"]["most"], self.document()["num_workers"]["most"])

    def test_a_probe_gives_what_auto_would_take(self):
        self.assertIsNone(self.document()["probe"])
        probe = self.document("--probe")["probe"]
        self.assertGreater(probe["batch_s"], 0)
        self.assertGreaterEqual(probe["prefetch_factor"], 2)
        self.assertEqual(probe["auto_workers"][0]["workers"], 0)
        self.assertEqual(probe["auto_workers"][-1]["least_step_s"], 0)
        asked = self.document("--probe", "loader={num_workers: 2, prefetch_factor: 5}")["probe"]
        self.assertIsNone(asked.get("auto_workers"))
        self.assertEqual(asked["prefetch_factor"], 5)
        self.assert_has(self.plan("--probe").out, " auto uses no workers")

    def test_what_a_run_would_refuse_is_shown_and_refused(self):
        decoded = "dataset.cache={mode: decoded, budget: 1KiB}"
        refused = self.plan(decoded, *RESIZED, code=11)
        self.assert_has(refused.out, "refused", "dataset.cache.budget")
        self.assert_has(refused.err, "error: a run would not start: ", "dataset.cache.budget")
        as_json = self.plan(decoded, "--json", *RESIZED, code=11)
        self.assertEqual(as_json.json["verdict"], "refused")
        self.assert_has(as_json.err, "error: a run would not start: ")
        small = self.document("dataset.cache={mode: auto, budget: 1KiB}", *RESIZED)
        self.assertEqual(small["verdict"], "shrinks")
        self.assert_has(small["shrunk"][0], "no images are cached")

    def test_mistakes_of_a_file_and_its_data_are_those_of_validate(self):
        self.assert_has(self.plan("loader.batch_sizes=3", code=2).err, "did you mean 'batch_size'?")
        self.plan(f"dataset.train={{type: mnist, root: {self.folder / 'nowhere'}}}", code=9)
        self.refused("plan", "nowhere.yaml")

    def test_a_cache_on_a_gpu_is_refused_where_the_run_has_no_gpu(self):
        for verb in ("validate", "plan"):
            with self.subTest(verb):
                # The empty list hides the GPUs of the machine.
                done = self.program(verb, self.config, "dataset.cache.mode=device", "trainer.accelerator=auto", code=2,
                                    CUDA_VISIBLE_DEVICES="")
                self.assert_has(done.err + done.out, "'device' caches images in GPU memory", "write 'mode: decoded'")


if __name__ == "__main__":
    main()
