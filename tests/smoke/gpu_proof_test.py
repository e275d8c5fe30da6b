"""Tests `scripts/gpu-proof`: what a second call resumes, the verdict and its pages, the archive, and a rehearsal of every stage on the
CPU. Needs TRAINCTL_BINARY; the archive and the rehearsal need TRAINCTL_BUILD."""

import json
import os
import pathlib
import re
import subprocess
import sys
import tarfile
import tempfile
import unittest
from unittest import mock

from support import SOURCE, main

sys.path.insert(0, str(SOURCE / "tests/gpu_proof"))
import pack  # noqa: E402
import pages  # noqa: E402
import runner  # noqa: E402
import speed_rows  # noqa: E402
import verdict  # noqa: E402
from machine import Context  # noqa: E402
from outcomes import BadState, State, failed, passed, skipped  # noqa: E402
from stages import first_runs, parity, profile, speed  # noqa: E402
from table import STAGES  # noqa: E402

SETTINGS = {"device": "cuda", "quick": False}


class FakeContext:
    deadline, stage, check, has_run = 0, "", "", False

    def log(self, text):
        self.logged = text


class Folder(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory(prefix="trainctl-gpu-proof-")
        self.addCleanup(scratch.cleanup)
        self.folder = pathlib.Path(scratch.name)
        self.state = State(self.folder, SETTINGS)


class Resumes(Folder):
    """Runs stages of fake checks; the clock is a number that the checks increase."""

    def setUp(self):
        super().setUp()
        self.time, self.ran, self.lines = 0, [], []

    def check(self, name, outcome=None, takes=10, seconds=10):
        def run(_):
            self.ran.append(name)
            self.time += takes
            if isinstance(outcome, BaseException):
                raise outcome
            return outcome or passed(value=1)

        return runner.Check(name, run, seconds)

    def run_stage(self, *checks, budget=100, state=None):
        stage = runner.Stage("fake", "", lambda _: checks, 100)
        return runner.run_stage(stage, FakeContext(), state or self.state, budget, self.lines.append, lambda: self.time)

    def test_a_second_call_runs_what_is_left(self):
        checks = [self.check(str(i)) for i in range(5)]
        self.assertEqual(self.run_stage(*checks, budget=25), 3)
        self.assertEqual(self.ran, ["0", "1"])
        self.assertEqual(self.run_stage(*checks, budget=25, state=State(self.folder, SETTINGS)), 1)
        self.assertEqual(self.run_stage(*checks, budget=25, state=State(self.folder, SETTINGS)), 0)
        self.assertEqual(self.ran, ["0", "1", "2", "3", "4"])
        self.assertEqual(self.run_stage(*checks, state=State(self.folder, SETTINGS)), 0)
        self.assertEqual(len(self.ran), 5, "a complete stage runs nothing")

    def test_the_first_check_starts_even_if_it_may_exceed_the_time(self):
        self.assertEqual(self.run_stage(self.check("long", seconds=90), self.check("next"), budget=5), 1)
        self.assertEqual(self.ran, ["long"])

    def test_a_later_stage_of_a_call_starts_only_what_fits(self):
        stage = runner.Stage("fake", "", lambda _: [self.check("long", seconds=90)], 100)
        context = FakeContext()
        context.has_run = True
        self.assertEqual(runner.run_stage(stage, context, self.state, 50, self.lines.append, lambda: self.time), 1)
        self.assertEqual(self.ran, [])

    def test_a_check_without_time_is_tried_again_and_fails_after_two_calls(self):
        checks = [self.check("slow", runner.OutOfTime()), self.check("next")]
        self.assertEqual(self.run_stage(*checks), 2)
        self.assertIsNone(self.state.outcome("fake", "slow"))
        self.assertEqual(self.run_stage(*checks), 2)
        self.assertEqual(self.run_stage(*checks), 0)
        self.assertEqual(self.ran, ["slow", "slow", "next"])
        self.assertEqual(self.state.outcome("fake", "slow").status, "failed")
        self.assertIn("2 calls", self.state.outcome("fake", "slow").reason)

    def test_a_killed_call_counts_as_an_attempt(self):
        with self.assertRaises(KeyboardInterrupt):
            self.run_stage(self.check("killed", KeyboardInterrupt()))
        self.assertEqual(State(self.folder, SETTINGS).attempts("fake", "killed"), 1)

    def test_an_exception_is_a_failure_with_its_text(self):
        self.assertEqual(self.run_stage(self.check("error", ValueError("no such file")), self.check("assert", AssertionError("two is three"))), 0)
        self.assertEqual(self.state.outcome("fake", "error").reason, "ValueError: no such file")
        self.assertEqual(self.state.outcome("fake", "assert").reason, "two is three")

    def test_failed_checks_run_again_on_request(self):
        checks = [self.check("bad", failed("why")), self.check("good"), self.check("out", skipped("no tool"))]
        self.run_stage(*checks)
        self.state.forget_failed("fake")
        self.run_stage(*checks)
        self.assertEqual(self.ran, ["bad", "good", "out", "bad"])

    def test_another_device_or_machine_and_a_damaged_state_are_refused(self):
        self.state.set_machine({"gpu": "H200", "host_cpu": "x"})
        with self.assertRaisesRegex(BadState, "was measured on H200, and this machine has A100"):
            State(self.folder, SETTINGS).set_machine({"gpu": "A100", "host_cpu": "x"})
        with self.assertRaisesRegex(BadState, "was started with"):
            State(self.folder, {"device": "cpu", "quick": True})
        (self.folder / "state.json").write_text("{")
        with self.assertRaisesRegex(BadState, "cannot read"):
            State(self.folder, SETTINGS)

    def test_no_check_needs_more_time_than_a_call_has(self):
        self.assertEqual(len({stage.name for stage in STAGES}), len(STAGES))
        context = mock.Mock(device="cuda", quick=False, build=self.folder, rounds=5)
        for stage in STAGES:
            self.assertLess(stage.seconds, 540)
            names = [check.name for check in stage.checks(context)]
            self.assertEqual(len(set(names)), len(names), stage.name)
            self.assertLess(max(check.seconds for check in stage.checks(context)), stage.seconds)


class Verdicts(Folder):
    def store(self, stage, name, outcome):
        self.state.begin(stage, name)
        self.state.end(stage, name, outcome, 1)

    def measured(self, row, program, rates, **more):
        for number, rate in enumerate(rates, 1):
            self.store("speed" if number == 1 else "rounds", f"{row} round {number}: {program}", passed(rate=rate, seconds=1, memory_mb=100, joules_per_unit=0.5, **more))

    def make(self):
        self.state.set_machine({"gpu": "NVIDIA H200", "driver": "580", "host_cpu": "x", "cores": 16, "torch": "2.11.0", "python": "3.12", "trainctl": {}})
        return verdict.make(self.state.document, STAGES)

    def bars(self):
        return {one["name"]: one for one in self.make()["bars"]}

    def test_a_bar_compares_medians_of_ratios_within_rounds(self):
        self.measured("gpt2_124m", "trainctl", [100, 300, 110])
        self.measured("gpt2_124m", "compiled", [100, 100, 100])
        self.measured("gpt2_124m", "eager", [200, 200, 200])
        bars = self.bars()
        self.assertEqual((bars["gpt2_124m: speed of compiled"]["measured"], bars["gpt2_124m: speed of compiled"]["verdict"]), (1.1, "met"))
        self.assertEqual((bars["gpt2_124m: speed of eager"]["measured"], bars["gpt2_124m: speed of eager"]["verdict"]), (0.55, "missed"))
        self.assertEqual(self.make()["verdict"], "failed", "a missed bar")

    def test_utilization_is_a_share_of_the_data_sheet(self):
        self.measured("gpt2_124m", "trainctl", [400_000])
        [entry] = verdict.speed_table(self.make() and self.state.document)
        self.assertAlmostEqual(entry["mfu"], 400_000 * speed_rows.GPT2_FLOPS / 989e12)
        self.assertIsNone(speed_rows.peak_of("an unknown GPU"))

    def test_a_peer_that_cannot_run_leaves_its_bar_undecided(self):
        self.measured("resnet50_jpeg", "trainctl", [1000])
        self.store("speed", "resnet50_jpeg round 1: eager", skipped("the peer cannot run: no torchvision"))
        one = self.bars()["resnet50_jpeg: speed of eager"]
        self.assertEqual((one["verdict"], one["reason"]), ("undecided", "the peer cannot run: no torchvision"))

    def cifar(self, program, seconds, accuracy=0.9405, real_data=True):
        self.store("speed", f"cifar10 round 1: {program}", passed(seconds=seconds, accuracy=accuracy, real_data=real_data, memory_mb=1))

    def test_the_original_script_replaces_the_peer(self):
        self.cifar("trainctl", 2.0)
        self.cifar("compiled", 2.7)
        self.assertEqual(self.bars()["cifar10: speed of compiled"]["verdict"], "met")
        self.cifar("airbench94_muon.py", 2.5)
        self.assertEqual(self.bars()["cifar10: speed of airbench94_muon.py"]["verdict"], "missed")
        self.assertEqual(self.bars()["cifar10: accuracy"]["verdict"], "met")

    def test_random_pixels_decide_nothing(self):
        self.cifar("trainctl", 2.0, real_data=False)
        self.cifar("compiled", 4.0, real_data=False)
        for name in ("cifar10: accuracy", "cifar10: speed of compiled"):
            self.assertEqual((self.bars()[name]["verdict"], self.bars()[name]["reason"]), ("undecided", "data/cifar10 is not here"))

    def test_the_word_for_all(self):
        self.assertEqual(self.make()["verdict"], "incomplete")
        self.store("doctor", "version", passed())
        self.store("sanitizer", "compute-sanitizer", skipped("it is not installed"))
        self.state.document["complete"] = {stage.name: True for stage in STAGES}
        document = self.make()
        self.assertEqual(document["verdict"], "incomplete", "undecided bars, and a stage that was skipped")
        self.assertIn("sanitizer: every check was skipped", document["open"])
        self.assertIn("cifar10: accuracy: not measured yet", document["open"])
        for row in speed_rows.ROWS:
            for program in ("trainctl", *row.peers):
                self.measured(row.name, program, [100, 100, 100])
        self.cifar("trainctl", 2.0)
        self.cifar("compiled", 4.0)
        self.store("sanitizer", "memcheck: entropy", passed())
        self.assertEqual((self.make()["verdict"], self.make()["open"]), ("passed", []))
        for stage in self.state.document["stages"].values():
            stage.clear()
        self.store("doctor", "version", passed())
        self.store("doctor", "doctor", failed("it is broken"))
        document = self.make()
        self.assertEqual((document["verdict"], document["counts"]), ("failed", {"passed": 1, "failed": 1, "skipped": 0, "pending": 0}))

    def test_the_page_contains_every_table(self):
        self.measured("mnist_ffn", "trainctl", [1e6, 1.1e6, 0.9e6])
        self.measured("mnist_ffn", "graph", [5e5, 5e5, 5e5])
        self.store("speed", "mnist_ffn round 1: compiled", skipped("no compiler | here"))
        self.cifar("trainctl", 2.0)
        self.store("parity", "mlp", passed(difference=1e-5, tolerance=1e-3, steps=20))
        self.store("robustness", "killed worker", failed("exit code 1"))
        page, table = pages.write(self.state.document, self.make(), self.folder / "pages", "2026-11-29")
        text = page.read_text()
        self.assertEqual(page.name, "gpu_proof_nvidia_h200_2026-11-29.md")
        for part in ("| trainctl | 1,000,000 [950,000, 1,050,000] |  | 100 | 500 |  | 3 |", "| graph | 500,000", "| 2 [1.9, 2.1]x |", "no compiler \\| here",
                     "| trainctl | 2 [2, 2] | 94.05 % | CIFAR-10 | 1 |", "| mlp | 20 | 1e-05 | 0.001 | passed |", "| robustness | killed worker | exit code 1 |",
                     "mnist_ffn: speed of graph | 2 | 1 | met |"):
            self.assertIn(part, text)
        self.assertIn("parity,mlp,passed,1.0,difference,1e-05", table.read_text().replace(",1,", ",1.0,"))


class Evaluates(unittest.TestCase):
    """The functions with which checks read the output of runs."""

    def test_waits_count_only_between_kernel_launches(self):
        def event(name, ts, cat="cuda_runtime"):
            return {"name": name, "ts": ts, "cat": cat}

        events = [event("cudaStreamSynchronize", 1), event("cudaLaunchKernel", 2), event("cudaDeviceSynchronize", 3), event("cudaEventSynchronize", 4),
                  event("cudaGraphLaunch", 5), event("cudaStreamSynchronize", 6), event("sgemm_tf32", 3, "kernel")]
        self.assertEqual(profile.waits_between_launches(events), {"cudaDeviceSynchronize": 1})
        self.assertEqual(profile.waits_between_launches(events, profile.EVENT_WAITS), {"cudaEventSynchronize": 1})
        self.assertEqual(profile.kernels(events), ["sgemm_tf32"])

    def test_a_wait_that_leaves_the_device_idle_is_found(self):
        def launch(number, ts, begins, lasts):
            return [{"name": "cudaLaunchKernel", "ts": ts, "args": {"correlation": number}},
                    {"name": "k", "cat": "kernel", "ts": begins, "dur": lasts, "args": {"correlation": number}}]

        def wait(ts, lasts):
            return {"name": "cudaEventSynchronize", "ts": ts, "dur": lasts}

        ahead = [*launch(1, 0, 1, 10), *launch(2, 1, 11, 10), wait(2, 9), *launch(3, 12, 21, 10)]
        self.assertEqual(profile.draining_waits(ahead), 0)
        drained = [*launch(1, 0, 1, 10), *launch(2, 1, 11, 10), wait(2, 20), *launch(3, 23, 24, 10)]
        self.assertEqual(profile.draining_waits(drained), 1)

    def test_the_first_round_of_all_rows_comes_first_and_compiles_nothing(self):
        rounds = speed.rounds_of(["trainctl", "eager", "compiled"], 2)
        self.assertEqual(rounds, [(1, ["trainctl", "eager"]), (2, ["compiled", "eager", "trainctl"]), (3, ["trainctl", "compiled"])])
        context = mock.Mock(device="cuda", quick=False, rounds=5)
        first, later = ([check.name for check in checks(context)] for checks in (speed.checks, speed.other_rounds))
        self.assertTrue(first[1].startswith("cifar10 round 1: "))
        self.assertFalse(any("compiled" in name or " round 2: " in name for name in first))
        self.assertEqual(sum("gpt2_124m" in name and "compiled" in name for name in later), 5)

    def test_the_step_time_in_the_reason_for_a_number_of_workers(self):
        self.assertEqual(first_runs.seconds_of_step("probe: a batch takes 3.1 ms to load, a step 12 ms; 1 worker keeps up"), 0.012)
        self.assertIsNone(first_runs.seconds_of_step("loader.num_workers is set"))

    def test_losses_that_are_not_finite_never_agree(self):
        self.assertAlmostEqual(parity.difference([1.0, 2.0], [1.0, 1.9]), 0.05)
        self.assertEqual(parity.difference([1.0], ["nan"]), float("inf"))
        self.assertEqual(parity.difference([1.0], [1.0, 2.0]), float("inf"))

    def test_an_archive_that_is_too_large_is_removed(self):
        with tempfile.NamedTemporaryFile(delete=False) as file:
            file.write(bytes(1000))
        path = pathlib.Path(file.name)
        self.assertEqual(pack.check_size(path, 1000), 1000)
        with self.assertRaisesRegex(SystemExit, "the limit is"):
            pack.check_size(path, 999)
        self.assertFalse(path.exists())

    def test_every_case_that_needs_a_gpu_has_the_tag(self):
        """The stage `cases` runs the cases with the tag [gpu], and the sanitizer those that also have [kernels]."""
        for path in (SOURCE / "tests").rglob("*_test.cpp"):
            for case in re.split(r"(?m)^(?=TEST_CASE\()", path.read_text())[1:]:
                head = case[:case.index("{")]
                if 'skip("no GPU' in case:
                    self.assertIn("[gpu]", head, f"{path}: {head}")
                if 'skip("no GPU, or no kernels")' in case:
                    self.assertIn("[kernels]", head, f"{path}: {head}")


def gpu_proof(script, *words, **options):
    return subprocess.run([str(script), *map(str, words)], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=900, **options)


class Archive(Folder):
    """Packs the build under test: the preset `proof` differs from it only in the compiler's flags."""

    def test_the_archive_fits_and_runs_where_it_is_unpacked(self):
        packed = gpu_proof(SOURCE / "scripts/gpu-proof", "pack", "--build", os.environ["TRAINCTL_BUILD"], "--out", self.folder)
        self.assertEqual(packed.returncode, 0, packed.stdout + packed.stderr)
        archive = self.folder / "gpu-proof.tar.gz"
        self.assertLess(archive.stat().st_size, pack.LIMIT_BYTES)
        with tarfile.open(archive) as file:
            file.extractall(self.folder, filter="fully_trusted") if hasattr(tarfile, "fully_trusted_filter") else file.extractall(self.folder)
        top = self.folder / "gpu-proof"
        for name in ("build/bin/trainctl", "build/bin/unit_torch", "build/lib/libtrainctl_engine.so", "configs/speed/gpt2_124m.yaml",
                     "tests/bench/peers/gpu_loops.py", "tests/golden/torch/script.pt"):
            self.assertTrue((top / name).is_file(), name)
        self.assertNotIn(b".debug_info", (top / "build/bin/unit_torch").read_bytes())
        environment = {**os.environ, "TRAINCTL_TORCH_ROOT": str((SOURCE / ".deps/torch").resolve())}
        for stage in ("doctor", "cases"):
            done = gpu_proof(top / "scripts/gpu-proof", "run", stage, "--device", "cpu", "--quick", "--out", self.folder / "out", env=environment)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        document = json.loads((self.folder / "out/verdict.json").read_text())
        [cases] = [stage for stage in document["stages"] if stage["name"] == "cases"]
        self.assertTrue(cases["checks"])
        for one in cases["checks"]:
            self.assertEqual(one["status"], "skipped", one)
            self.assertRegex(one["reason"], r"^no GPU\b")


class Rehearsal(Folder):
    """Runs every stage on the CPU in its smallest form."""

    def test_every_stage_runs_and_the_results_are_written(self):
        out = self.folder / "out"
        words = ["run", "all", "--device", "cpu", "--quick", "--out", out, "--build", os.environ["TRAINCTL_BUILD"]]
        for _ in range(4):  # one call suffices unless other processes take the cores
            done = gpu_proof(SOURCE / "scripts/gpu-proof", *words)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            if "every stage is complete" in done.stdout:
                break
        document = json.loads((out / "verdict.json").read_text())
        self.assertEqual((document["schema"], document["verdict"], document["device"]), ("trainctl.gpu_proof/1", "passed", "cpu"), done.stdout)
        self.assertEqual([stage["name"] for stage in document["stages"]], [stage.name for stage in STAGES])
        for stage in document["stages"]:
            self.assertTrue(stage["complete"] and stage["checks"], stage["name"])
        self.assertEqual({one["verdict"] for one in document["bars"]}, {"undecided"})
        self.assertEqual(document["counts"]["failed"], 0, done.stdout)
        [page] = out.glob("gpu_proof_rehearsal_*.md")
        self.assertIn("A rehearsal without a GPU.", page.read_text())
        self.assertTrue((out / "logs.tar.gz").is_file())
        again = gpu_proof(SOURCE / "scripts/gpu-proof", "pages", "--out", out, "--to", self.folder / "pages")
        self.assertEqual(again.returncode, 0, again.stderr)
        self.assertEqual(len(list((self.folder / "pages").iterdir())), 2)
        self.check_energy_meter()

    def check_energy_meter(self):
        """Without a GPU there is no energy counter, and nothing depends on it."""
        options = mock.Mock(device="cpu", quick=True, out=str(self.folder / "other"), work=None, build=os.environ["TRAINCTL_BUILD"], airbench=None)
        self.assertIsNone(Context(options).nvml)


if __name__ == "__main__":
    main()
