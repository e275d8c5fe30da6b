"""Tests trainer.allocator, `lr-find`, an automatic batch size and `--profile`. Needs TRAINCTL_BINARY."""

import collections
import csv
import ctypes
import json
import math
import os
import unittest
from unittest import mock

from support import Smoke, run

RECORDER = os.environ.get("TRAINCTL_NVTX_RECORDER", "")
LIBRARIES = {"jemalloc": ("libjemalloc.so.2", "libjemalloc2"), "mimalloc": ("libmimalloc.so.2", "libmimalloc2.0")}


def installed(name):
    """Loads the library in a child, because an allocator must not be loaded into a process that keeps running."""
    child = os.fork()
    if child == 0:
        try:
            ctypes.CDLL(LIBRARIES[name][0])
        except OSError as error:
            os._exit(1 if "cannot open" in str(error) else 0)  # the library is there, but too large for the space left for thread-local storage
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


class Allocators(Smoke):
    def setUp(self):
        super().setUp()
        patch = mock.patch.dict(os.environ)
        patch.start()
        self.addCleanup(patch.stop)
        os.environ.pop("LD_PRELOAD", None)

    def manifest(self):
        return json.loads((self.run_dir / "manifest.json").read_text())

    def test_the_workers_have_what_was_asked_for_and_train_the_same(self):
        self.train("trainer.max_epochs=1")
        self.assertEqual(self.manifest()["allocator"], "system")
        losses = self.losses(self.run_dir)
        for name, (_, package) in LIBRARIES.items():
            if installed(name):
                result = self.train("trainer.max_epochs=1", f"+trainer.allocator={name}")
                self.assertEqual((result["verdict"], self.manifest()["allocator"]), ("ok", name))
                self.assertEqual(self.losses(self.run_dir), losses)
            else:
                result = self.train(f"+trainer.allocator={name}", code=11)
                self.assertIn(package, result["message"])

    def test_a_library_that_cannot_be_preloaded_ends_the_run(self):
        (self.folder / "libjemalloc.so.2").write_text("no library")
        os.environ["LD_LIBRARY_PATH"] = str(self.folder)
        result = self.train("+trainer.allocator=jemalloc", code=11)
        self.assertIn("system is loaded", result["message"])

    def test_what_the_user_preloads_is_kept_and_reported(self):
        if not installed("jemalloc"):
            self.skipTest("libjemalloc2 is not installed")
        os.environ["LD_PRELOAD"] = "libjemalloc.so.2"
        self.train("trainer.max_epochs=1")
        self.assertEqual(self.manifest()["allocator"], "jemalloc")

    def test_an_unknown_one_is_a_config_error(self):
        code, out, err = run(self.folder, "run", "digits.yaml", "+trainer.allocator=jemaloc", "--run-dir", "never")
        self.assertEqual(code, 2, out)
        self.assertIn("jemalloc", err)
        self.assertFalse((self.folder / "never").exists())


class MissingGpus(Smoke):
    def refuse(self, accelerator, visible):
        """Returns the exit code of `run` and the messages of all commands that train on the device of a run. Their codes are equal."""
        ended = [run(self.folder, *words, "digits.yaml", f"trainer.accelerator={accelerator}",
                     env={**os.environ, "CUDA_VISIBLE_DEVICES": visible})
                 for words in (["run"], ["plan"], ["plan", "--no-model"], ["lr-find"])]
        self.assertEqual({done.code for done in ended}, {ended[0].code}, ended)
        return ended[0].code, [" ".join(done.err.split()) for done in ended]

    def test_a_gpu_that_is_asked_for_is_never_replaced_by_the_cpu(self):
        code, messages = self.refuse("gpu", "")
        self.assertIn(code, (2, 11))  # 11: the machine has GPUs, which CUDA_VISIBLE_DEVICES hides
        for message in messages:
            self.assertRegex(message, "needs an NVIDIA GPU|trainer.accelerator is gpu, but")

    def test_a_gpu_that_the_environment_names_is_never_replaced_by_the_cpu(self):
        code, messages = self.refuse("auto", "GPU-00000000-0000-0000-0000-000000000000")
        self.assertEqual(code, 11)
        for message in messages:
            self.assertIn("cannot use the GPU that CUDA_VISIBLE_DEVICES names", message)


class LearningRates(Smoke):
    def find(self, *words, code=0):
        returned, out, err = run(self.folder, "lr-find", "digits.yaml", *words)
        self.assertEqual(returned, code, out + err)
        return out, err

    def test_the_rate_that_is_suggested_trains(self):
        out, _ = self.find("--json")
        found = json.loads(out)
        self.assertEqual((found["schema"], found["exit_code"]), ("trainctl.lr_find/2", 0))
        suggested = found["suggestion"]
        self.assertGreater(suggested["lr"], 1e-4)
        self.assertLess(suggested["lr"], 0.05)
        self.assertLessEqual(suggested["low"], suggested["lr"])
        self.assertLessEqual(suggested["lr"], suggested["high"])
        rates = [point["lr"] for point in found["points"]]
        self.assertAlmostEqual(rates[0], 1e-6, delta=1e-11)
        for before, after in zip(rates, rates[1:]):
            self.assertAlmostEqual(after / before, 10 ** (7 / 199), delta=1e-3)
        with open(found["csv"], newline="") as rows:
            self.assertEqual([float(row["lr"]) for row in csv.DictReader(rows)], rates)
        result = self.train(found["override"])
        self.assertLess(result["val"]["loss"], math.log(10) / 2, "the loss of chance is log(10)")
        self.assertGreater(result["val"]["accuracy"], 0.6, "the accuracy of chance is 0.1")

    def test_the_table_ends_with_the_command(self):
        out, err = self.find("--steps", "40", "model.hidden=[16]")
        self.assertIn("trying 40 learning rates", err)
        self.assertRegex(out, r"run digits.yaml .*optimizer\.lr=[0-9.e-]+\n")
        quiet, err = self.find("--steps", "40", "--quiet")
        self.assertRegex(quiet, r"^optimizer\.lr=[0-9.e-]+\n$")
        self.assertEqual(err, "")

    def test_the_experiment_is_swept_whatever_else_it_asks(self):
        out, _ = self.find("--steps", "30", "--json", "+trainer.ema={decay: 0.9}", "+trainer.max_time=1s",
                           "+early_stopping={type: patience, monitor: val/accuracy, mode: max}",
                           "+checkpoint={monitor: val/accuracy, mode: max}",
                           "+scheduler={type: step_lr, step_size: 1}", "--min", "1e-5", "--max", "0.01")
        found = json.loads(out)
        self.assertEqual(len(found["points"]), 30)
        checkpoints = os.path.join(found["run_dir"], "checkpoints")
        self.assertEqual(os.listdir(checkpoints), [])

    def test_a_diverging_loss_ends_the_sweep_with_a_suggestion(self):
        words = ["optimizer={type: sgd, lr: 0.1}", "--min", "1e-3", "--max", "1e12", "--steps", "300"]
        out, _ = self.find(*words, "--json")
        found = json.loads(out)
        self.assertTrue(found["stopped_early"])
        self.assertGreater(found["tried"], 20)
        self.assertLess(found["tried"], 280)
        self.assertLess(found["suggestion"]["high"], found["diverged_at"])
        self.assertLessEqual(found["tried"], len(found["points"]) + 1, "the first loss that is out of hand is the last")
        out, _ = self.find(*words)
        self.assertRegex(out, r"stopped +early, after \d+ of 300 rates")
        self.assertRegex(out, r"optimizer\.lr=[0-9.e-]+\n")

    def test_a_rate_of_0_is_swept_alone_and_a_mistake_is_reported_as_it_is(self):
        words = ["--steps", "100", "--min", "1e-5", "--max", "1"]
        found = json.loads(self.find("optimizer={type: muon, lr: 0, adamw_lr: 0.001}", *words, "--json")[0])
        self.assertEqual([word.split("=")[0] for word in found["overrides"]], ["optimizer.lr"])
        _, err = self.find("optimizer={type: muon, lr: 0.02, adamw_lr: -1}", *words, code=2)
        self.assertIn("adamw_lr", err)

    def test_a_second_rate_is_swept_and_suggested_with_the_first(self):
        words = ["optimizer={type: muon, lr: 0.02, adamw_lr: 0.001}", "--steps", "30", "--min", "1e-5"]
        found = json.loads(self.find(*words, "--json")[0])
        rates = [float(word.split("=")[1]) for word in found["overrides"]]
        self.assertEqual([word.split("=")[0] for word in found["overrides"]], ["optimizer.lr", "optimizer.adamw_lr"])
        self.assertAlmostEqual(rates[1] / rates[0], 0.05, delta=0.001)
        self.assertEqual(found["override"], found["overrides"][0])
        out, _ = self.find(*words)
        self.assertRegex(out, r"optimizer\.adamw_lr, always 0\.05 times optimizer\.lr\n")
        self.assertRegex(out, r"optimizer\.lr=[0-9.e-]+ optimizer\.adamw_lr=[0-9.e-]+\n")

    def test_a_complete_sweep_reports_no_early_end(self):
        found = json.loads(self.find("--steps", "30", "--min", "1e-5", "--max", "0.01", "--json")[0])
        self.assertEqual((found["stopped_early"], found["tried"]), (False, 30))

    def test_a_loss_that_diverges_at_the_start_is_exit_6(self):
        out, _ = self.find("optimizer={type: sgd, lr: 0.1}", "--min", "1e25", "--max", "1e30", "--json", code=6)
        found = json.loads(out)
        self.assertIsNone(found["suggestion"]["lr"])
        self.assertIsNone(found["override"])
        self.assertIn("lower --min", found["remark"])

    def test_invalid_ranges_are_refused(self):
        for words in (["--min", "10"], ["--min", "0"], ["--min", "-1"], ["--max", "nan"], ["--min", "x"], ["--steps", "5"]):
            returned, out, err = run(self.folder, "lr-find", "digits.yaml", *words)
            self.assertEqual(returned, 2, f"{words}: {out}{err}")
        self.assertFalse((self.folder / "runs").exists())


class BatchSizes(Smoke):
    def test_trials_find_a_number_that_the_run_takes(self):
        result = self.train("loader.batch_size=auto", "trainer.max_epochs=1")
        self.assertEqual(result["verdict"], "ok")
        found = json.loads((self.run_dir / "manifest.json").read_text())["batch_size"]
        self.assertIn(found["value"], [8, 16, 32, 64, 128, 256, 512])
        self.assertTrue(found["why"])
        resolved = (self.run_dir / "config.resolved.yaml").read_text()
        self.assertIn(f"batch_size: {found['value']} ", resolved)
        self.assertIn(f"# loader.batch_size: auto was resolved to {found['value']}: {found['why']}\n", resolved)
        self.assertIn("optimizer.lr was not adjusted", self.err)
        self.assertRegex(self.err, r"batch 8  [0-9,.]+ samples/s")

    def test_a_fixed_number_reports_no_choice(self):
        self.train("trainer.fast_dev_run=true")
        self.assertIsNone(json.loads((self.run_dir / "manifest.json").read_text())["batch_size"])

    def test_a_trial_that_fails_says_why_and_nothing_is_trained(self):
        code, out, err = run(self.folder, "run", "digits.yaml", "loader.batch_size=auto", "optimizer={type: sgd, lr: 1e30}",
                             "--run-dir", "never")
        self.assertEqual(code, 6, out + err)
        self.assertIn("cannot determine loader.batch_size", err)
        self.assertFalse((self.folder / "never").exists())

    def test_other_verbs_report_that_they_need_a_number(self):
        code, out, err = run(self.folder, "validate", "digits.yaml", "loader.batch_size=auto")
        self.assertEqual(code, 0, out + err)
        self.assertIn("'trainctl run' finds the batch size by trials", err + out)
        code, out, err = run(self.folder, "lr-find", "digits.yaml", "loader.batch_size=auto")
        self.assertEqual(code, 2, out + err)
        self.assertIn("loader.batch_size is auto", err)
        code, out, err = run(self.folder, "run", "digits.yaml", "loader.batch_size=automatic")
        self.assertEqual(code, 2, out)


class Profiles(Smoke):
    def test_the_flag_records_a_profile_and_the_summary_names_its_folder(self):
        self.train("--profile=3,1,2", "trainer.max_epochs=1")
        self.assertRegex(self.out, r"profile +profile/trace.json, operators.txt and layers.txt; .+ takes \d+ % of the time of all operators")
        self.assertTrue((self.run_dir / "profile/trace.json").is_file())
        resolved = (self.run_dir / "config.resolved.yaml").read_text()
        for line in ("wait: 3 ", "warmup: 1 ", "active: 2 "):
            self.assertIn(line, resolved)

    def test_the_flag_alone_takes_the_defaults_or_the_file(self):
        self.train("--profile", "trainer.max_epochs=1")
        self.assertIn("profile/trace.json", self.out)
        self.train("--profile", "trainer.max_epochs=1", "+profiler={wait: 2, active: 1}")
        self.assertIn("wait: 2 ", (self.run_dir / "config.resolved.yaml").read_text())

    def layers(self):
        with open(self.run_dir / "profile/layers.csv", newline="") as rows:
            return {row["layer"]: row for row in csv.DictReader(rows)}

    def test_every_layer_has_a_row(self):
        convnet = "{type: sequential, layers: [{type: conv2d, out_channels: 8, kernel_size: 3}, relu, {type: conv2d, out_channels: 4, " \
                  "kernel_size: 3, stride: 2}, {type: batch_norm2d}, relu, flatten, {type: linear, out_features: 16}, linear]}"
        self.train("--profile=2,1,4", "trainer.max_epochs=1", f"model={convnet}")
        layers = self.layers()
        self.assertEqual([name for name in layers if not name.startswith("(")], ["0", "2", "3", "6", "7"])
        self.assertEqual([layers[name]["kind"] for name in "0267"], ["conv2d", "conv2d", "linear", "linear"])
        self.assertEqual(layers["2"]["output"], "[50, 4, 12, 12]")
        for name, row in layers.items():
            self.assertGreaterEqual(float(row["share"]), 0, name)
            self.assertLess(float(row["share"]), 1, name)
        for name in "0267":
            self.assertGreater(float(layers[name]["forward_ms"]), 0, name)
            self.assertGreater(float(layers[name]["backward_ms"]), 0, name)
            self.assertEqual(float(layers[name]["calls"]), 1, name)
        self.assertLess(sum(float(row["share"]) for row in layers.values()), 1)
        n, k, c, r, s, p, q = 50, 4, 8, 3, 3, 12, 12
        forward = 2 * n * k * c * r * s * p * q
        self.assertAlmostEqual(float(layers["2"]["gflop"]) * 1e9, 3 * forward, delta=1)  # the backward pass adds two products of the same size
        self.assertAlmostEqual(float(layers["0"]["gflop"]) * 1e9, 2 * 2 * 50 * 8 * 1 * 3 * 3 * 26 * 26, delta=1)
        self.assertIn("Mean times of 4 steps", (self.run_dir / "profile/layers.txt").read_text())

    def test_checkpointed_layers_are_computed_twice(self):
        words = ["--profile=1,0,2", "trainer.max_epochs=1", "+trainer.limit_train_batches=4", "model={type: resnet_cifar, depth: 8}",
                 "loader.batch_size=4"]
        self.train(*words)
        once = self.layers()["layer1.0.conv1"]
        self.train(*words, "+trainer.activation_checkpointing=blocks")
        twice = self.layers()["layer1.0.conv1"]
        self.assertAlmostEqual(float(twice["gflop"]), float(once["gflop"]) * 4 / 3, places=6)
        self.assertEqual(twice["calls"], once["calls"])

    @unittest.skipUnless(RECORDER, "TRAINCTL_NVTX_RECORDER names no library")
    def test_ranges_of_nvtx_nest_and_have_the_names_of_the_parts(self):
        marks = self.folder / "marks"
        with mock.patch.dict(os.environ, NVTX_INJECTION64_PATH=RECORDER, NVTX_RECORD=str(marks)):
            self.train("trainer.max_epochs=2", "+trainer.limit_train_batches=5", "+profiler={wait: 1000, nvtx: true}")
            if "no NVTX ranges" in self.out + self.err:
                self.skipTest("this libtorch has no CUDA support")
            recorded = marks.read_text().splitlines()
            marks.unlink()
            self.train("trainer.max_epochs=1", "+trainer.limit_train_batches=5", "+profiler={wait: 1000}")
            self.assertFalse(marks.exists())
        self.assertEqual(len({line.split()[0] for line in recorded}), 1)
        counts, enclosing, open_ranges = collections.Counter(), {}, []
        for line in recorded:
            words = line.split()[1:]
            if words[0] == "pop":
                open_ranges.pop()
                continue
            counts[words[1]] += 1
            enclosing.setdefault(words[1], set()).add(tuple(open_ranges))
            open_ranges.append(words[1])
        self.assertEqual(open_ranges, [])
        for part in ("step", "data_wait", "h2d", "forward", "backward"):
            self.assertEqual(counts[part], 10, part)
        self.assertGreaterEqual(counts["optimizer"], 10)
        self.assertEqual(counts["evaluation"], 2)
        for part in ("data_wait", "h2d", "forward", "backward", "optimizer"):
            self.assertEqual(enclosing[part], {("step",)}, part)
        for part in ("step", "evaluation", "checkpoint"):
            self.assertEqual(enclosing[part], {()}, part)

    def test_invalid_numbers_are_config_errors(self):
        for value in ("3", "1,2", "1,2,3,4", "a,b,c", "1,2,0", "-1,2,3", "1,,3"):
            code, out, err = run(self.folder, "run", "digits.yaml", f"--profile={value}", "--run-dir", "never")
            self.assertEqual(code, 2, f"{value}: {out}{err}")
        self.assertFalse((self.folder / "never").exists())

    def test_without_the_flag_there_is_no_line(self):
        self.train("trainer.max_epochs=1")
        self.assertNotIn("profile", self.out)


if __name__ == "__main__":
    program = unittest.main(verbosity=2, exit=False)
    failed = not program.result.wasSuccessful()
    all_skipped = len(program.result.skipped) == program.result.testsRun
    raise SystemExit(1 if failed else 4 if all_skipped else 0)  # CTest shows exit code 4 as skipped
