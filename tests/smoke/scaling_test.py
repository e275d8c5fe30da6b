"""Tests several ranks as a user sees them: the table of a run, `bench --devices`, `doctor --link` and the predictions of `plan`.
Needs TRAINCTL_BINARY."""

import csv
import json
import os
import statistics

from support import Smoke, main, measures_time, run

BATCHES = ["trainer.limit_train_batches=10", "trainer.limit_val_batches=2"]
SHORT = ["trainer.max_epochs=3", *BATCHES]


class RanksOfARun(Smoke):
    def test_two_ranks_leave_a_table_a_file_and_a_result(self):
        result = self.train("trainer.devices=2", *SHORT)
        self.assertIn("exposed all-reduce", self.out)
        self.assertEqual([row["rank"] for row in result["ranks"]], [0, 1])
        for row in result["ranks"]:
            self.assertEqual(row["steps"], 20)
            self.assertGreater(row["work_s"], 0)
            self.assertGreater(row["wire_bytes"], 0)
            self.assertLessEqual(row["data_wait_s"] + row["work_s"] + row["allreduce_exposed_s"], 1.05 * row["step_s"])
            self.assertTrue(0 <= row["overlap"] <= 1)
        with open(self.run_dir / "ranks.csv", newline="") as rows:
            written = list(csv.DictReader(rows))
        self.assertEqual(sorted((row["epoch"], row["rank"]) for row in written),
                         [(epoch, rank) for epoch in "123" for rank in "01"])
        for row in written:
            buckets = [int(size) for size in row["bucket_bytes"].split()]
            self.assertEqual(sum(buckets) * int(row["steps"]), int(row["payload_bytes"]))

    def test_a_run_of_one_rank_has_neither(self):
        result = self.train(*SHORT)
        self.assertEqual((result["ranks"], result["straggler"]), ([], None))
        self.assertFalse((self.run_dir / "ranks.csv").exists())
        self.assertNotIn("exposed all-reduce", self.out)

    def test_a_resumed_run_continues_the_file(self):
        self.train("trainer.devices=2", *BATCHES, "trainer.max_epochs=1")
        code, out, err = run(self.folder, "run", "digits.yaml", "trainer.devices=2", *BATCHES, "trainer.max_epochs=2", "--run-dir",
                             self.run_dir, "--resume", "auto")
        self.assertEqual(code, 0, out + err)
        with open(self.run_dir / "ranks.csv", newline="") as rows:
            self.assertEqual(sorted(row["epoch"] for row in csv.DictReader(rows)), ["1", "1", "2", "2"])


class BenchOverDevices(Smoke):
    def bench(self, *words, code=0):
        returned, out, err = run(self.folder, "bench", "digits.yaml", *SHORT, *words, "--json")
        self.assertEqual(returned, code, out + err)
        return json.loads(out)

    def test_strong_scaling_trains_on_the_same_batches_to_the_same_losses(self):
        document = self.bench("--devices", "1,2", "--scaling", "strong", "--repeats", "3")
        scaling = document["scaling"]
        self.assertEqual(scaling["mode"], "strong")
        one, two = scaling["rows"]
        self.assertEqual((one["global_batch"], two["global_batch"]), (50, 50))
        self.assertEqual(document["rows"][1]["settings"], {"trainer.devices": "2", "loader.batch_size": "25"})
        self.assertTrue(two["same_batches"])
        self.assertLess(two["loss_gap"], 1e-4)
        self.assertEqual(one["efficiency"]["value"], 1.0)
        low, high = two["efficiency"]["ci95"]
        self.assertTrue(0 < low <= two["efficiency"]["value"] <= high)
        self.assertAlmostEqual(two["efficiency"]["value"], two["speedup"]["value"] / 2)
        self.assertGreaterEqual(two["exposed_s"], 0)
        self.assertIn(two["slowest_rank"]["rank"], (0, 1))
        self.assertIsNone(one["exposed_s"])

    def test_weak_scaling_keeps_the_batch_of_a_device(self):
        one, two = self.bench("--devices", "1,2", "--repeats", "1")["scaling"]["rows"]
        self.assertEqual((one["global_batch"], two["global_batch"]), (50, 100))
        self.assertFalse(two["same_batches"])

    def test_the_table_names_the_scaling(self):
        code, out, err = run(self.folder, "bench", "digits.yaml", *SHORT, "--devices", "1,2", "--scaling", "strong", "--repeats", "1")
        self.assertEqual(code, 0, err)
        self.assertIn("Strong scaling", out)
        self.assertIn("efficiency %", out)

    def test_samples_that_do_not_divide_are_refused_before_any_run(self):
        code, _, err = run(self.folder, "bench", "digits.yaml", "--devices", "1,4", "--scaling", "strong")
        self.assertEqual(code, 2)
        self.assertIn("do not divide evenly among 4 devices", err)
        code, _, err = run(self.folder, "bench", "digits.yaml", "--workers", "0,1", "--scaling", "strong")
        self.assertEqual(code, 2)
        self.assertIn("--devices 1,2", err)

    def test_a_bench_without_devices_has_no_scaling(self):
        self.assertIsNone(self.bench("--workers", "0,1", "--repeats", "1")["scaling"])


# Steps of two ranks that take long enough to be compared.
LONG_STEPS = ["model.hidden=[1024, 1024]", "loader.batch_size=256", "++loader.num_workers=0", "++dataset.train.samples=4096"]


class LinkAndForecast(Smoke):
    PLANS = []  # of two ranks with LONG_STEPS: a plan measures for some seconds, so that the tests share the first

    def plan_of_two_ranks(self, number):
        while len(self.PLANS) <= number:
            self.PLANS.append(self.plan(*LONG_STEPS, "--devices", "2")["scaling"])
        return self.PLANS[number]

    def link(self, *words):
        code, out, err = run(self.folder, "doctor", "--link", "--json", *words)
        self.assertIn(code, (0, 11), err)
        document = json.loads(out)
        self.assertEqual(document["schema"], "trainctl.doctor/2")
        return document

    def plan(self, *words, code=0):
        returned, out, err = run(self.folder, "plan", "digits.yaml", *words, "--json")
        self.assertEqual(returned, code, out + err)
        return json.loads(out)

    def test_a_link_is_measured_and_a_plan_reads_it(self):
        document = self.link("--devices", "2")
        link = document["link"]
        self.assertEqual((link["schema"], link["ranks"]), ("trainctl.link/2", 2))
        self.assertEqual([point["bytes"] for point in link["points"]], [1024 * 4 ** i for i in range(9)])
        self.assertGreater(link["bandwidth_bytes_per_s"], 1e6)
        self.assertGreaterEqual(link["latency_s"], 0)
        (self.folder / "link.json").write_text(json.dumps(document))
        scaling = self.plan("--devices", "4", "--link", "link.json")["scaling"]
        self.assertEqual(scaling["link"]["bandwidth_bytes_per_s"], link["bandwidth_bytes_per_s"])
        self.assertEqual([row["ranks"] for row in scaling["rows"]], [1, 4, 64, 1024])

    def test_a_link_that_cannot_be_measured_leaves_the_findings(self):
        code, out, err = run(self.folder, "doctor", "--json")
        sound = json.loads(out)["findings"]
        memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
        most = memory // (256 << 20)
        if most >= 1024:
            self.skipTest("more processes would fit than may be asked for")
        code, out, err = run(self.folder, "doctor", "--link", "--devices", str(most + 1), "--json")
        document = json.loads(out)
        self.assertEqual(code, 11, err)
        self.assertIsNone(document["link"])
        self.assertIn("do not fit", document["link_error"])
        self.assertEqual([one["name"] for one in document["findings"]], [one["name"] for one in sound])
        code, out, err = run(self.folder, "doctor", "--link", "--devices", str(most + 1))
        self.assertEqual(code, 11)
        self.assertIn("libtorch", out)
        self.assertIn("do not fit", err)

    def test_a_plan_computes_by_the_formula_that_it_shows(self):
        scaling = self.plan("--devices", "8", "--bandwidth", "1GB/s", "--latency", "10us")["scaling"]
        self.assertEqual(scaling["gradient_bytes"], 4 * (784 * 32 + 32 + 320 + 10))
        self.assertGreater(scaling["backward_s"], 0)
        for row in scaling["rows"]:
            n = row["ranks"]
            expected = 0 if n == 1 else sum(2 * (n - 1) / n * size / 1e9 + 2 * (n - 1) * 1e-5 for size in scaling["bucket_bytes"])
            self.assertAlmostEqual(row["exchange_s"], expected, places=9)
            self.assertLessEqual(row["exposed_s"], row["exchange_s"] + 1e-12)
            self.assertAlmostEqual(row["efficiency"], scaling["step_s"] / (scaling["step_s"] + row["exposed_s"]))
        code, out, err = run(self.folder, "plan", "digits.yaml", "--devices", "8", "--bandwidth", "1GB/s", "--latency", "10us")
        self.assertEqual(code, 0, err)
        self.assertIn("2 (N-1)/N x bytes / bandwidth + 2 (N-1) x latency", out)
        self.assertIn("1,024", out)
        self.assertIn("weak scaling: the batch size per rank is constant", out)

    def test_a_plan_measures_the_link_of_this_machine_itself(self):
        scaling = self.plan_of_two_ranks(0)
        self.assertIn("measured now", scaling["link"]["from"])
        self.assertIn("parallel processes", scaling["assumptions"][0])
        two = scaling["rows"][1]
        self.assertEqual((two["ranks"], two["measured"]), (2, True))
        self.assertTrue(two["step_low_s"] <= two["step_s"] <= two["step_high_s"])
        self.assertEqual([row["measured"] for row in scaling["rows"]], [False, True, False, False])

    @measures_time
    def test_the_step_of_two_ranks_on_these_cores_is_that_of_a_run(self):
        """Alternates plans and runs, and compares their medians. Where the same step varies by more than the tolerance, the
        machine is too unsteady for a comparison, and the test is skipped."""
        tolerance = 1.25
        planned, ran = [], []
        for number in range(2):
            row = self.plan_of_two_ranks(number)["rows"][1]
            planned.append((row["step_low_s"], row["step_s"], row["step_high_s"]))
            result = self.train(*LONG_STEPS, "trainer.devices=2", "trainer.max_epochs=3", "++dataset.cache.mode=decoded")
            ran.append(max(rank["work_s"] + rank["allreduce_exposed_s"] for rank in result["ranks"]))
        low, step, high = (statistics.median(column) for column in zip(*planned))
        figures = f"low, step and high of plans: {planned}; steps of runs: {ran}"
        for times in (ran, [row[1] for row in planned]):
            if max(times) > tolerance * min(times):
                self.skipTest(f"the machine is unsteady: {figures}")
        self.assertLessEqual(low, step, figures)
        self.assertLessEqual(step, high, figures)
        self.assertTrue(low / tolerance <= statistics.median(ran) <= tolerance * high, figures)

    def test_options_that_contradict_each_other_are_refused(self):
        for words, why in [(["--link", "x.json"], "--devices N"), (["--devices", "2", "--bandwidth", "1GB/s"], "must be given together"),
                           (["--devices", "2", "--no-model"], "--no-model"),
                           (["--devices", "2", "--bandwidth", "fast", "--latency", "1us"], "25GB/s"),
                           (["--devices", "2", "--link", "digits.yaml"], "not valid JSON")]:
            code, _, err = run(self.folder, "plan", "digits.yaml", *words)
            self.assertEqual(code, 2, err)
            self.assertIn(why, err)
        code, _, err = run(self.folder, "doctor", "--devices", "2")
        self.assertEqual(code, 2)
        self.assertIn("--link", err)

    def test_many_ranks_are_checked_without_their_devices(self):
        fake = self.plan("--fake-ranks", "16")["fake_ranks"]
        self.assertEqual((fake["ranks"], fake["global_batch"], fake["steps_per_epoch"]), (16, 800, 3))
        self.assertEqual(fake["splits"][0]["last_batch"], {"samples": 400, "min_per_rank": 25, "max_per_rank": 25,
                                                           "ranks_without": 0})
        self.assertEqual(sum(bucket["bytes"] for bucket in fake["buckets"]), 4 * (784 * 32 + 32 + 320 + 10))
        self.assertLess(fake["memory"]["step_bytes_zero1"], fake["memory"]["step_bytes"])
        self.assertEqual(fake["problems"], [])
        lost = self.plan("--fake-ranks", "64", "loader.drop_last=true", code=2)["fake_ranks"]
        self.assertIn("larger than the training data", lost["problems"][0])

    def test_problems_of_many_ranks_are_theirs_and_not_those_of_the_ranks_here(self):
        fake = self.plan("--fake-ranks", "8", "loader.batch_size=1500", "loader.drop_last=true", "--no-model", code=2)["fake_ranks"]
        self.assertIn("1,500 x 8 devices is larger than the training data", fake["problems"][0])

    def test_a_config_for_gpus_that_are_not_here_is_checked_all_the_same(self):
        fake = self.plan("trainer.accelerator=gpu", "trainer.devices=8", "distributed.backend=nccl", "--fake-ranks", "8",
                         "--no-model")["fake_ranks"]
        self.assertEqual((fake["ranks"], fake["buckets"]), (8, []))

    def test_recorded_steps_are_checked_as_on_gpus_wherever_the_check_runs(self):
        graphs = ["trainer.accelerator=gpu", "trainer.devices=8", "++trainer.cuda_graphs=true", "--fake-ranks", "8", "--no-model"]
        plan = self.plan(*graphs)
        self.assertEqual((plan["fake_ranks"]["problems"], plan["cuda_graphs"]), ([], {"captured": True, "obstacle": None}))
        off = self.plan(*graphs[:2], "++trainer.cuda_graphs=false", *graphs[3:])["cuda_graphs"]
        self.assertEqual(off, {"captured": False, "obstacle": "trainer.cuda_graphs is false"})
        zero1 = self.plan(*graphs[:2], "++distributed.type=zero1", *graphs[3:])["cuda_graphs"]
        self.assertEqual(zero1, {"captured": True, "obstacle": None})
        bf16 = self.plan(*graphs[:2], "++distributed.compression=bf16", *graphs[3:])["cuda_graphs"]
        self.assertIn("compresses gradients", bf16["obstacle"])
        (problem,) = self.plan(*graphs, "++distributed.compression=bf16", code=2)["fake_ranks"]["problems"]
        self.assertIn("distributed.compression compresses gradients", problem)
        (problem,) = self.plan(*graphs[:2], "++distributed.backend=gloo", *graphs[3:], code=2)["fake_ranks"]["problems"]
        self.assertIn("gloo works on CPUs only", problem)

    def test_fake_ranks_count_the_ranks_of_all_nodes(self):
        fake = self.plan("trainer.num_nodes=2", "--fake-ranks", "16", "--no-model")["fake_ranks"]
        self.assertEqual((fake["problems"], fake["steps_per_epoch"]), ([], 3))
        plan = self.plan("--fake-ranks", "16", "--no-model")
        self.assertLessEqual(plan["ranks_here"], 2)


if __name__ == "__main__":
    main()
