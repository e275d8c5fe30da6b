"""Drives `trainctl run` and `bench` as a user does: real processes, small data. Needs TRAINCTL_BINARY."""

import csv
import json
import os
import re
import signal
import time
import unittest

from support import ENDLESS, MOST_FOREIGN_SHARE, SOURCE, Contention, Smoke, busy_cores, main, marked, run, start, worker_of


class ARunLeavesItsFolder(Smoke):
    def test_a_quiet_run_prints_its_folder_and_v_names_the_processes(self):
        self.train("--quiet", "trainer.fast_dev_run=true")
        self.assertEqual((self.out, self.err), (f"{self.run_dir}\n", ""))
        self.train("-v", "trainer.fast_dev_run=true")
        self.assertIn("rank 0 is process", self.err)
        self.assertIn("the engine is loaded", (self.run_dir / "logs" / "rank_0.log").read_text())

    def test_fast_dev_run_takes_a_warm_up_of_many_steps(self):
        self.train("trainer.fast_dev_run=true", "scheduler={type: cosine_annealing_lr, interval: step, warmup: 20}")

    def test_every_documented_file_is_written(self):
        result = self.train()
        for name in ["config.yaml", "config.resolved.yaml", "manifest.json", "metrics.jsonl", "epochs.csv", "timing.csv",
                     "result.json", "checkpoints/best.safetensors", "logs/rank_0.log"]:
            self.assertTrue((self.run_dir / name).is_file(), name)
        self.assertEqual([p.name for p in self.run_dir.rglob(".*")], [], "a temporary file was left")
        self.assertEqual(result["schema"], "trainctl.result/2")
        self.assertEqual((result["verdict"], result["exit_code"], result["epochs"], result["steps"]), ("ok", 0, 3, 120))
        self.assertIsNone(result["first_failure"])
        self.assertLess(result["train"]["loss"], 1.5)
        self.assertGreater(result["val"]["accuracy"], 0.5)
        manifest = json.loads((self.run_dir / "manifest.json").read_text())
        self.assertTrue(manifest["libraries"]["torch"].startswith("2.11"))
        self.assertIn("train", manifest["data_fingerprints"])

    def test_timing_adds_up_to_the_wall_time(self):
        self.train()
        phases = (SOURCE / "lib/events/timing_fields.def").read_text()
        parts = re.findall(r"^TIMING_PHASE\(\w+, (\w+),", phases, re.M)
        self.assertGreater(len(parts), 1)
        with open(self.run_dir / "timing.csv", newline="") as rows:
            for row in csv.DictReader(rows):
                total = sum(float(row[part]) for part in parts)
                self.assertAlmostEqual(total / float(row["wall_s"]), 1.0, delta=0.02)

    def test_the_same_seed_gives_the_same_run(self):
        first = self.train("loader.num_workers=0")
        again = self.losses(self.run_dir)
        second = self.train("loader.num_workers=2", "loader.prefetch_factor=3")
        self.assertEqual(self.losses(self.run_dir), again)
        self.assertEqual(first["data_digest"], second["data_digest"])
        other = self.train("seed=8")
        self.assertNotEqual(other["data_digest"], first["data_digest"])

    def test_the_resolved_config_runs_to_the_same_losses(self):
        self.train()
        losses, resolved = self.losses(self.run_dir), self.run_dir / "config.resolved.yaml"
        self.train(config=resolved)
        self.assertEqual(self.losses(self.run_dir), losses)

    def test_json_is_one_document_on_stdout(self):
        run_dir = self.folder / "json"
        code, out, _ = run(self.folder, "run", "digits.yaml", "--json", "--run-dir", run_dir)
        self.assertEqual(code, 0)
        saved = json.loads((run_dir / "result.json").read_text())
        self.assertEqual(json.loads(out), {**saved, "run_dir": str(run_dir)})

    def test_the_table_has_a_row_an_epoch_and_names_the_run_folder(self):
        self.train()
        self.assertIn("val/accuracy", self.out)
        self.assertIn("samples/s", self.out)
        self.assertIn(str(self.run_dir), self.out)


class TwoRanksAreOne(Smoke):
    def test_two_processes_follow_one_with_the_doubled_batch(self):
        self.follow()

    def test_two_processes_follow_one_with_mixed_batches(self):
        self.follow("+dataset.train.batch_transforms=[{type: mixup, alpha: 0.4}]", "++loss.label_smoothing=0.1")

    def follow(self, *words):
        alone = self.train("loader.batch_size=100", *words)
        one = self.losses(self.run_dir)
        pair = self.train("trainer.devices=2", *words)
        two = self.losses(self.run_dir)
        self.assertEqual(pair["world_size"], 2)
        self.assertEqual(pair["data_digest"], alone["data_digest"])
        self.assertEqual(pair["steps"], alone["steps"])
        for left, right in zip(one, two):
            for a, b in zip(left, right):
                self.assertAlmostEqual(float(a), float(b), delta=2e-4 * max(1.0, abs(float(a))))
        self.assertTrue((self.run_dir / "logs/rank_1.log").is_file())

    def test_one_dead_rank_ends_the_other(self):
        mark = f"{os.getpid()}-pair"
        run_dir = self.folder / "pair"
        process = start(self.folder, "run", "digits.yaml", "trainer.devices=2", *ENDLESS, "--run-dir", run_dir,
                        env={**os.environ, "SMOKE_MARK": mark})
        worker = worker_of(run_dir, mark, process, rank=1)
        os.kill(worker, signal.SIGKILL)
        process.communicate(timeout=300)
        result = json.loads((run_dir / "result.json").read_text())
        self.assertEqual((process.returncode, result["first_failure"]["rank"]), (7, 1))
        self.assertEqual(marked(mark), [])


class ARunThatEndsBadly(Smoke):
    def endless(self, name, *words):
        self.mark = f"{os.getpid()}-{name}"
        self.run_dir = self.folder / name
        process = start(self.folder, "run", "digits.yaml", *ENDLESS, *words, "--run-dir", self.run_dir,
                        env={**os.environ, "SMOKE_MARK": self.mark})
        self.addCleanup(process.kill)
        return process, worker_of(self.run_dir, self.mark, process)

    def end(self, process, code):
        out, err = process.communicate(timeout=300)
        self.assertEqual(process.returncode, code, out + err)
        self.assertEqual(marked(self.mark), [], "processes were left")
        return json.loads((self.run_dir / "result.json").read_text()), err

    def test_a_killed_worker_is_named_with_rank_signal_and_step(self):
        process, worker = self.endless("killed")
        os.kill(worker, signal.SIGKILL)
        result, err = self.end(process, 7)
        failure = result["first_failure"]
        self.assertEqual((failure["rank"], failure["signal"], failure["pid"]), (0, "SIGKILL", worker))
        self.assertGreaterEqual(failure["step"], 40)
        self.assertEqual(result["exit_code"], 7)
        self.assertIn("SIGKILL", err)
        self.assertIn("rank 0", err)

    def test_ctrl_c_ends_with_130_and_a_result(self):
        process, _ = self.endless("interrupted")
        process.send_signal(signal.SIGINT)
        result, _ = self.end(process, 130)
        self.assertEqual(result["exit_code"], 130)

    def test_sigterm_ends_with_75_a_checkpoint_and_a_result(self):
        process, _ = self.endless("terminated")
        process.send_signal(signal.SIGTERM)
        result, err = self.end(process, 75)
        self.assertEqual((result["exit_code"], result["verdict"]), (75, "stopped"))
        self.assertEqual(result["checkpoint"]["step"], result["steps"])
        self.assertIn("--resume auto", err)

    def test_a_killed_supervisor_leaves_no_worker(self):
        process, _ = self.endless("orphan")
        process.kill()
        process.communicate(timeout=300)
        deadline = time.monotonic() + 60
        while marked(self.mark) and time.monotonic() < deadline:
            time.sleep(0.02)
        self.assertEqual(marked(self.mark), [])

    def test_a_diverging_run_is_exit_6(self):
        result = self.train("optimizer.type=sgd", "++optimizer.lr=1e30", code=6)
        self.assertEqual(result["verdict"], "diverged")

    def test_a_batch_larger_than_the_data_is_one_short_batch(self):
        result = self.train("loader.batch_size=5000", "trainer.max_epochs=2")
        self.assertEqual((result["steps"], result["epochs"]), (2, 2))
        self.assertIn("warning: a batch of 5,000 is larger than the training data (2,000 samples), so each epoch is one incomplete batch", self.err)
        two = self.train("loader.batch_size=5000", "trainer.max_epochs=2", "trainer.devices=2")
        self.assertEqual(two["data_digest"], result["data_digest"])

    def test_a_batch_larger_than_the_data_is_an_error_with_drop_last(self):
        code, _, err = run(self.folder, "run", "digits.yaml", "loader.batch_size=5000", "loader.drop_last=true")
        self.assertEqual(code, 2, err)
        self.assertIn("drop_last drops every batch", err)

    def test_an_occupied_run_folder_is_refused(self):
        (self.folder / "busy").mkdir()
        (self.folder / "busy/file").write_text("mine")
        code, _, err = run(self.folder, "run", "digits.yaml", "--run-dir", self.folder / "busy")
        self.assertEqual(code, 2)
        self.assertIn("not empty", err)

    def test_a_root_that_cannot_be_written_is_exit_11(self):
        (self.folder / "file").write_text("")
        code, _, err = run(self.folder, "run", "digits.yaml", "--out", self.folder / "file")
        self.assertEqual(code, 11)
        self.assertIn("--out", err)


class BenchComparesSettings(Smoke):
    SHORT = ["trainer.max_epochs=2", "trainer.limit_train_batches=10", "trainer.limit_val_batches=2"]

    def test_workers_change_neither_batches_nor_losses(self):
        code, out, err = run(self.folder, "bench", "digits.yaml", *self.SHORT, "--workers", "0,2", "--repeats", "3",
                             "--json", "--save", "saved/bench.json")
        self.assertEqual(code, 0, err)
        document = json.loads(out)
        self.assertEqual(document, json.loads((self.folder / "saved/bench.json").read_text()))
        self.assertEqual((document["schema"], document["baseline"]), ("trainctl.bench/2", "num_workers=0"))
        base, other = document["rows"]
        self.assertEqual(other["settings"], {"loader.num_workers": "2"})
        self.assertEqual((len(other["epoch_s"]), len(other["loss"]), len(other["repeats_s"])), (2, 2, 3))
        self.assertTrue(other["identical"])
        self.assertEqual(other["loss"], base["loss"])
        low, high = other["speedup"]["ci95"]
        self.assertTrue(low <= other["speedup"]["value"] <= high)
        self.assertEqual(len(list((self.folder / "runs/bench/smoke").glob("2*"))), 6)

    def test_another_batch_size_is_reported(self):
        code, out, err = run(self.folder, "bench", "digits.yaml", *self.SHORT, "--batch-size", "50,100", "--repeats", "1")
        self.assertEqual(code, 0, err)
        rows = [line.split() for line in out.splitlines() if line.startswith(" batch_size=")][:2]  # a second table follows
        self.assertEqual([row[-2:] for row in rows], [["same", "same"], ["differ", "differ"]])

    def test_a_failing_row_does_not_cost_the_others(self):
        code, out, err = run(self.folder, "bench", "digits.yaml", *self.SHORT, "--grid", "optimizer.lr=0.001,1e30",
                             "--repeats", "2", "--json", "--save", "bench.json")
        self.assertEqual(code, 6, err)
        self.assertIn("lr=1e30 (run 1 of 2)", err)
        good, bad = json.loads(out)["rows"]
        self.assertEqual((len(good["repeats_s"]), good["failure"]), (2, None))
        self.assertEqual(bad["failure"]["exit_code"], 6)
        self.assertEqual(json.loads((self.folder / "bench.json").read_text()), json.loads(out))

    def test_rows_compare_under_one_number_of_threads(self):
        code, out, err = run(self.folder, "bench", "digits.yaml", *self.SHORT, "trainer.num_threads=auto", "--workers",
                             "0,1", "--repeats", "2", "--json")
        self.assertEqual(code, 0, err)
        number = json.loads(out)["num_threads"]
        self.assertGreaterEqual(number, 1)
        self.assertIn(f"warm-up  chose {number} CPU thread", err)
        manifests = [json.loads(file.read_text()) for file in (self.folder / "runs/bench/smoke").glob("2*/manifest.json")]
        asked = [one["num_threads"]["value"] for one in manifests if one["num_threads"]["why"] == "configured"]
        self.assertEqual(asked, 4 * [number])  # the two runs of each row share one measured value
        self.assertIn(len(manifests) - len(asked), (1, 2, 3))  # the warm-up runs again if other processes took the cores

    @unittest.skipUnless(len(os.sched_getaffinity(0)) > 1, "with one core there is no choice of threads")
    def test_a_choice_of_threads_on_a_busy_machine_is_marked(self):
        with busy_cores():
            contention = Contention()
            bench = run(self.folder, "bench", "digits.yaml", *self.SHORT, "trainer.max_epochs=1", "trainer.num_threads=auto", "--repeats", "1",
                        "--json")
            share = contention.share()
            short = run(self.folder, "run", "digits.yaml", "trainer.num_threads=auto", "trainer.fast_dev_run=true")
        out, err = bench.out, bench.err
        self.assertEqual((bench.code, short.code), (0, 0), err + short.err)
        if share < 3 * MOST_FOREIGN_SHARE:
            self.skipTest("the kernel does not report the use of these cores")
        self.assertEqual(err.count("% of the cores, so the warm-up is repeated"), 2, err)
        self.assertIn("warning: the number of CPU threads was chosen while other processes used", err)
        self.assertIn("hint: set trainer.num_threads, or run bench again", err)
        self.assertIs(json.loads(out)["num_threads_contended"], True)
        runs = [manifest.parent for manifest in (self.folder / "runs/bench/smoke").glob("2*/manifest.json")]
        warm_ups = [one for one in runs if json.loads((one / "manifest.json").read_text())["num_threads"]["contended"]]
        self.assertEqual((len(runs), len(warm_ups)), (4, 3))
        self.assertIn("trainer.num_threads: auto chose", short.err)

    def test_a_patch_is_compared_as_a_whole_and_a_failing_bench_keeps_the_saved_file(self):
        (self.folder / "fast.patch.yaml").write_text("loader: {batch_size: 100}\noptimizer: {lr: 0.004}\n")
        words = ["bench", "digits.yaml", *self.SHORT, "--repeats", "1", "--json", "--save", "saved.json"]
        code, out, err = run(self.folder, *words, "--against", "fast.patch.yaml")
        self.assertEqual(code, 0, err)
        before, after = json.loads(out)["rows"]
        self.assertEqual((before["technique"], after["technique"]), ("as configured", "fast.patch.yaml"))
        self.assertEqual(before["settings"], {"loader.batch_size": "50", "optimizer.lr": "0.002"})
        self.assertEqual(after["settings"], {"loader.batch_size": "100", "optimizer.lr": "0.004"})
        self.assertFalse(after["identical"])
        saved = (self.folder / "saved.json").read_text()
        code, out, err = run(self.folder, *words, "--grid", "optimizer.lr=0.001,1e30")
        self.assertEqual(code, 6, err)
        self.assertIn("saved.json was not replaced", err)
        self.assertEqual((self.folder / "saved.json").read_text(), saved)
        (self.folder / "fast.patch.yaml").write_text("loader: {no_such_key: 1}\n")
        code, out, err = run(self.folder, *words, "--against", "fast.patch.yaml")
        self.assertEqual(code, 2, err)
        self.assertIn("no_such_key", json.loads(out)["message"])
        (self.folder / "list.yaml").write_text("loader: [\n")
        for file, message in (("list.yaml", "--against: list.yaml must be a YAML file of keys and values"), ("none.yaml", "cannot read none.yaml: No such file or directory")):
            code, out, err = run(self.folder, *words, "--against", file)
            self.assertEqual(code, 2, err)
            self.assertIn(message, json.loads(out)["message"])


if __name__ == "__main__":
    main()
