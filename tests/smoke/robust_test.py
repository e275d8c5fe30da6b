"""Tests runs that fail on purpose: values that are not finite, and losses that diverge. Needs TRAINCTL_BINARY."""

import fcntl
import hashlib
import json
import os
import re
import resource
import shutil
import subprocess
import termios
import threading
import unittest

from support import BINARY, SOURCE, Smoke, run, start

SHORT = ["trainer.max_epochs=1", "+trainer.limit_train_batches=10"]


class PlantedValues(Smoke):
    """The learning rate is so large that weights leave the range of float32 within a few steps."""

    HUGE = [*SHORT, "optimizer={type: sgd, lr: 1.0e38}"]

    def test_the_layer_is_named(self):
        models = [
            "{type: mlp, hidden: [32]}",
            "{type: sequential, layers: [flatten, {type: linear, out_features: 16}, relu, linear]}",
            "lenet",
        ]
        for model in models:
            with self.subTest(model=model):
                result = self.train(*self.HUGE, f"model={model}", "+trainer.detect_anomaly=true", code=6)
                self.assertEqual(result["verdict"], "diverged")
                self.assertRegex(result["message"], r"not finite at step \d+ of epoch 1; the first value that is not finite: ")
                self.assertRegex(result["message"], r"layer '[a-z0-9_.]+'|the loss")
                self.assertNotIn("detect_anomaly=true", result["message"])

    def test_without_detect_anomaly_a_hint_names_it(self):
        result = self.train(*self.HUGE, code=6)
        self.assertIn("find the layer with trainer.detect_anomaly=true", result["message"])

    def test_detect_anomaly_changes_no_result(self):
        self.train(*SHORT)
        plain = self.losses(self.run_dir)
        self.train(*SHORT, "+trainer.detect_anomaly=true")
        self.assertEqual(self.losses(self.run_dir), plain)


class RunsThatDiverge(Smoke):
    WILD = ["optimizer={type: sgd, lr: 1.0e38}", "trainer.max_epochs=2", "+trainer.limit_train_batches=10"]

    def test_the_next_attempt_succeeds(self):
        result = self.train(*self.WILD, "+trainer.on_divergence=[optimizer.lr=1.0e37, [optimizer.lr=0.05, trainer.gradient_clip_val=1.0]]")
        self.assertEqual((result["verdict"], result["exit_code"], result["epochs"]), ("ok", 0, 2))
        self.assertEqual([attempt["exit_code"] for attempt in result["attempts"]], [6, 6, 0])
        self.assertEqual(result["attempts"][2]["overrides"], ["optimizer.lr=0.05", "trainer.gradient_clip_val=1.0"])
        self.assertIn("attempt 3 of 3 starts from the beginning with optimizer.lr=0.05 trainer.gradient_clip_val=1.0",
                      self.out + self.err)
        self.assertTrue((self.run_dir / "checkpoints/last.safetensors").is_file())
        for attempt in ("attempt-1", "attempt-2"):
            before = json.loads((self.run_dir / attempt / "result.json").read_text())
            self.assertEqual(before["verdict"], "diverged")
        self.assertFalse((self.run_dir / ".lock").exists())
        healed = self.losses(self.run_dir)
        self.train(*self.WILD, "optimizer.lr=0.05", "+trainer.gradient_clip_val=1.0")
        self.assertEqual(self.losses(self.run_dir), healed, "an attempt is the run with its overrides")

    def test_where_all_attempts_diverge_the_run_has(self):
        result = self.train(*self.WILD, "+trainer.on_divergence=[optimizer.lr=1.0e37]", code=6)
        self.assertEqual((result["verdict"], len(result["attempts"])), ("diverged", 2))

    def test_a_loss_that_rises_ends_the_run_before_it_is_infinite(self):
        result = self.train("optimizer={type: sgd, lr: 1000}",
                            "+early_stopping={type: divergence, patience: 1, factor: 1.5}", "+trainer.log_every_n_steps=1", code=6)
        self.assertEqual(result["verdict"], "diverged")
        self.assertRegex(result["message"], r"train/loss is [0-9.e+]+, above the limit of [0-9.e+]+ \(best [0-9.e+]+ at step \d+\)")

    def test_a_map_of_the_file_s_own_form_heals_it_as_well(self):
        config = (self.folder / "digits.yaml").read_text()
        (self.folder / "maps.yaml").write_text(
            config.replace("trainer: {", "trainer:\n  {on_divergence: [{optimizer: {lr: 0.05}, trainer.gradient_clip_val: 1.0}], "))
        result = self.train(*self.WILD, config="maps.yaml")
        self.assertEqual([attempt["exit_code"] for attempt in result["attempts"]], [6, 0])
        self.assertEqual(result["attempts"][1]["overrides"], ["optimizer.lr=0.05", "trainer.gradient_clip_val=1.0"])

    def test_a_wrong_fallback_is_reported_before_anything_starts(self):
        code, out, err = run(self.folder, "validate", "digits.yaml", "+trainer.on_divergence=[optimizer.lr=0.01, optimizer.rate=0.1]")
        self.assertEqual(code, 2, out + err)
        self.assertIn("entry 2 of 'on_divergence'", out + err)


class LostOutput(Smoke):
    """Training does not depend on a reader of its output."""

    def finish(self, process):
        self.assertEqual(process.wait(timeout=600), 0)
        run_dir = self.folder / "lost"
        result = json.loads((run_dir / "result.json").read_text())
        self.assertEqual((result["verdict"], result["exit_code"], result["epochs"], result["steps"]), ("ok", 0, 3, 120))
        self.assertEqual(len((run_dir / "epochs.csv").read_text().splitlines()), 4)
        return (run_dir / "logs/rank_0.log").read_text()

    def finish_with_notice(self, process, cause):
        self.assertEqual(self.finish(process).count(f"cannot write to {cause}"), 1)

    def launch(self, *words, **options):
        command = [BINARY, "run", "digits.yaml", "--run-dir", "lost", *words]
        return subprocess.Popen(command, cwd=self.folder, stdin=subprocess.DEVNULL, **options)

    def test_a_closed_stdout_is_reported(self):
        process = self.launch(stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        process.stdout.close()
        self.finish_with_notice(process, "stdout: Broken pipe")

    def test_a_slow_reader_of_a_nonblocking_pipe_gets_everything(self):
        """The reader may have set O_NONBLOCK on the shared pipe, as Node.js and some terminals do."""
        expected = subprocess.run([BINARY, "schema"], stdout=subprocess.PIPE, check=True).stdout
        reader, writer = os.pipe()
        fcntl.fcntl(writer, fcntl.F_SETPIPE_SZ, 4096)
        os.set_blocking(writer, False)
        process = subprocess.Popen([BINARY, "schema"], stdout=writer, stderr=subprocess.PIPE)
        os.close(writer)
        with open(reader, "rb") as pipe:
            received = pipe.read()
        self.assertEqual((process.wait(timeout=600), process.stderr.read()), (0, b""))
        process.stderr.close()
        self.assertGreater(len(expected), 65536)
        self.assertEqual(received, expected)

    def test_a_slow_reader_of_a_nonblocking_stderr_gets_the_log(self):
        reader, writer = os.pipe()
        fcntl.fcntl(writer, fcntl.F_SETPIPE_SZ, 4096)
        os.set_blocking(writer, False)
        with self.assertRaises(BlockingIOError):
            while True:
                os.write(writer, b"x" * 4096)
        command = [BINARY, "validate", "builtin:quickstart", "-v", "--color", "always"]
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=writer)
        os.close(writer)
        try:
            process.wait(timeout=2)  # a program that drops its log exits here; one that writes all of it waits for the reader
        except subprocess.TimeoutExpired:
            pass
        with open(reader, "rb") as pipe:
            received = pipe.read().lstrip(b"x").decode()
        self.assertEqual(process.wait(timeout=600), 0)
        self.assertRegex(received, r"\A\[\d\d:\d\d:\d\d\.\d{3}\] \x1b\[36mdebug\x1b\[m .*\n")

    def test_a_reader_of_stderr_that_leaves(self):
        process = self.launch("--progress=plain", "-v", stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        process.stderr.close()
        self.finish(process)

    def test_a_full_disk(self):
        with open("/dev/full", "w") as full:
            self.finish_with_notice(self.launch(stdout=full, stderr=full), "stdout: No space left on device")

    def test_closed_descriptors(self):
        process = self.launch(preexec_fn=lambda: [os.close(fd) for fd in (0, 1, 2)])
        self.finish_with_notice(process, "stdout: Bad file descriptor")

    def test_a_document_that_is_lost(self):
        with open("/dev/full", "w") as full:
            process = self.launch("--json", stdout=full, stderr=subprocess.PIPE, text=True)
            err = process.communicate(timeout=600)[1]
        self.assertEqual(process.returncode, 0)
        self.assertIn("cannot write to stdout: No space left on device", err)

    def test_a_terminal_that_is_gone(self):
        master, terminal = os.openpty()

        def take_terminal():
            os.setsid()
            fcntl.ioctl(terminal, termios.TIOCSCTTY, 0)

        process = subprocess.Popen([BINARY, "run", "digits.yaml", "--run-dir", "lost", "trainer.max_epochs=40"], cwd=self.folder,
                                   stdin=terminal, stdout=terminal, stderr=terminal, preexec_fn=take_terminal)
        os.close(terminal)
        reader = threading.Thread(target=self.read_until, args=(master, b"3/40"))
        reader.start()
        reader.join(timeout=600)
        os.close(master)
        self.assertEqual(process.wait(timeout=600), 0)
        result = json.loads((self.folder / "lost/result.json").read_text())
        self.assertEqual((result["verdict"], result["epochs"]), ("ok", 40))

    @staticmethod
    def read_until(master, text):
        seen = b""
        while text not in seen:
            seen += os.read(master, 4096)

    def test_a_sweep(self):
        process = subprocess.Popen([BINARY, "sweep", "digits.yaml", "--seeds", "1,2", "trainer.max_epochs=1", "--out", "swept"], cwd=self.folder,
                                   stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        process.stdout.close()
        self.assertEqual(process.wait(timeout=600), 0)


class FileSizeLimit(Smoke):
    def test_a_checkpoint_beyond_it_is_a_message(self):
        def limited():
            resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))

        process = start(self.folder, "run", "digits.yaml", "--run-dir", "limited", preexec_fn=limited)
        out, err = process.communicate(timeout=600)
        self.assertEqual(process.returncode, 11, out + err)
        result = json.loads((self.folder / "limited/result.json").read_text())
        self.assertIn("File too large", result["message"])
        self.assertIn("File too large", err)


class EndlessStart(Smoke):
    """The first forward pass of a scripted model never returns. Two runs and a plan wait for the limit at the same time, on one core,
    because they do nothing but compute."""

    SCRIPT = SOURCE / "tests/golden/torch/endless_script.pt"

    def test_runs_and_a_plan_end_as_hung(self):
        digest = hashlib.sha256(self.SCRIPT.read_bytes()).hexdigest()
        model = [f"model={{type: torchscript, path: {self.SCRIPT}, sha256: {digest}}}", "+trainer.hang_timeout=1s"]
        commands = {"one": ["run", "--run-dir", "one"], "two": ["run", "--run-dir", "two", "trainer.devices=2", "loader.batch_size=25"],
                    "plan": ["plan"]}
        one_core = {min(os.sched_getaffinity(0))}
        processes = {name: start(self.folder, words[0], "digits.yaml", *model, *words[1:], preexec_fn=lambda: os.sched_setaffinity(0, one_core))
                     for name, words in commands.items()}
        said = {name: process.communicate(timeout=480) for name, process in processes.items()}
        for name, process in processes.items():
            self.assertEqual(process.returncode, 8, (name, said[name]))
        one, two = (json.loads((self.folder / name / "result.json").read_text()) for name in ("one", "two"))
        self.assertEqual((one["verdict"], one["first_failure"]["phase"]), ("hang", "startup"))
        self.assertRegex(one["message"], r"no progress for .* during startup; the limit is 10.0 s .*hang_timeout")
        self.assertEqual((two["verdict"], two["world_size"]), ("hang", 2))
        self.assertRegex(said["two"][1], r"rank [01] of 2")
        self.assertIn("error: cannot measure the model: ", said["plan"][1])


class OutOfMemory(Smoke):
    """One activation needs a hundred gigabytes, and the process may not map more than 64 GiB."""

    POOLED = "{type: sequential, layers: [{type: adaptive_avg_pool2d, output_size: 5000}, " \
             "{type: adaptive_avg_pool2d, output_size: 1}, flatten, linear]}"

    def test_the_report_says_where_and_what_to_change(self):
        def bounded():
            resource.setrlimit(resource.RLIMIT_AS, (64 << 30, 64 << 30))

        process = start(self.folder, "run", "digits.yaml", f"model={self.POOLED}", "loader.batch_size=1000", "+loader.num_workers=0",
                        "--run-dir", "bounded", preexec_fn=bounded)
        out, err = process.communicate(timeout=600)
        self.assertEqual(process.returncode, 11, out + err)
        message = json.loads((self.folder / "bounded/result.json").read_text())["message"]
        self.assertRegex(message, r"out of memory in phase train after step 0, with 1000 samples per batch: .*100000000000 bytes")
        self.assertIn("the largest activations: before the first layer (adaptive_avg_pool2d) with [1000, 1, 5000, 5000] "
                      "float32, 93.1 GiB; ", message)
        self.assertRegex(message, r"the process used \d+ MiB before the first step")
        self.assertIn("trainer.accumulate_grad_batches", message)
        self.assertIn("trainer.activation_checkpointing=blocks", message)


class Engines(Smoke):
    def test_a_run_on_a_cpu_loads_no_library_of_gpus(self):
        # The dynamic linker writes a file for each process. libtorch_cpu.so itself needs the small libcudart and libcupti.
        environment = {**os.environ, "LD_DEBUG": "files", "LD_DEBUG_OUTPUT": str(self.folder / "linked")}
        ended = subprocess.run([BINARY, "run", "digits.yaml", "--run-dir", "cpu", "trainer.accelerator=cpu"], cwd=self.folder, env=environment,
                               stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=600)
        self.assertEqual(ended.returncode, 0, ended.stderr)
        loaded = set()
        for path in self.folder.glob("linked.*"):
            loaded.update(re.findall(r"/([^/\s]+\.so[.\d]*)", path.read_text(errors="replace")))
        self.assertIn("libtorch_cpu.so", loaded)
        self.assertEqual(sorted(name for name in loaded if re.match(r"lib(torch_cuda|c10_cuda|cublas|cudnn|nccl)", name)), [])

    def test_a_file_that_is_not_a_library_is_named_with_the_remedy(self):
        program = self.folder / "program/bin/trainctl"
        library = self.folder / "program/lib/libtrainctl_engine.so"
        for path in (program, library):
            path.parent.mkdir(parents=True)
        shutil.copy(BINARY, program)
        library.write_text("This is not a shared library.\n" * 1000)
        ended = subprocess.run([program, "run", "digits.yaml", "--run-dir", "broken"], cwd=self.folder, stdin=subprocess.DEVNULL,
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=600)
        self.assertEqual(ended.returncode, 11, ended.stdout + ended.stderr)
        message = json.loads((self.folder / "broken/result.json").read_text())["message"]
        for text in (ended.stderr, message):
            self.assertIn(f"cannot load {library}: {library}: invalid ELF header", text)
            self.assertIn("hint: install libtorch with scripts/setup", text)
            self.assertNotIn("this is a bug", text)


if __name__ == "__main__":
    program = unittest.main(verbosity=2, exit=False)
    failed = not program.result.wasSuccessful()
    all_skipped = len(program.result.skipped) == program.result.testsRun
    raise SystemExit(1 if failed else 4 if all_skipped else 0)  # CTest shows exit code 4 as skipped
