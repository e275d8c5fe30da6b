"""Tests loggers and `top` as a user sees them. TensorBoard itself reads the event files back, from the virtual environment of
scripts/setup --checks or from TRAINCTL_TENSORBOARD_PYTHON. Needs TRAINCTL_BINARY."""

import json
import math
import os
import pathlib
import signal
import struct
import subprocess
import time
import unittest

from support import ENDLESS, Smoke, main, run, start

SHORT = ["trainer.max_epochs=2", "dataset.train.samples=400", "dataset.val.samples=100"]
READER = """
import json, sys
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
events = EventAccumulator(sys.argv[1], size_guidance=dict(scalars=0, tensors=0, images=0, histograms=0))
events.Reload()
tags = events.Tags()
print(json.dumps({
    "scalars": {tag: [[event.step, event.value] for event in events.Scalars(tag)] for tag in tags["scalars"]},
    "images": {tag: [[image.width, image.height, image.encoded_image_string[:8].hex()] for image in events.Images(tag)]
               for tag in tags["images"]},
    "histograms": {tag: [[one.step, one.histogram_value.num] for one in events.Histograms(tag)] for tag in tags["histograms"]},
    "texts": {tag: events.Tensors(tag)[-1].tensor_proto.string_val[0].decode() for tag in tags["tensors"] if "text_summary" in tag},
    "tensors": tags["tensors"]}))
"""


def reader_python():
    """Returns the path of a Python that imports tensorboard, or None."""
    cache = os.environ.get("XDG_CACHE_HOME") or str(pathlib.Path.home() / ".cache")
    named = os.environ.get("TRAINCTL_TENSORBOARD_PYTHON")
    for python in [named] if named else [pathlib.Path(cache) / "trainctl/tensorboard-venv/bin/python", "python3"]:
        try:
            if subprocess.run([str(python), "-c", "import tensorboard"], capture_output=True, timeout=300).returncode == 0:
                return str(python)
        except OSError:
            pass
    return None


PYTHON = reader_python()


def wait_for_training(process, run_dir, timeout=300):
    """Waits until epochs.csv has the second epoch: by then every logger has written the first one."""
    deadline = time.monotonic() + timeout
    while time.monotonic() < deadline and process.poll() is None:
        try:
            if (run_dir / "epochs.csv").read_text().count("\n") >= 3:
                return
        except OSError:
            pass
        time.sleep(0.05)
    process.kill()
    raise AssertionError("the run did not start to train: " + "".join(process.communicate(timeout=300)))


def single(value):
    """Returns the number in single precision, as event files store it."""
    number = float(value)
    return struct.unpack("f", struct.pack("f", number))[0] if math.isfinite(number) else number


@unittest.skipUnless(PYTHON, "no TensorBoard: scripts/setup --checks, or set TRAINCTL_TENSORBOARD_PYTHON")
class EventFiles(Smoke):
    LOGGERS = ["loggers=[console, csv, jsonl, tensorboard]", "trainer.log_every_n_steps=2", *SHORT[1:], "metrics=[accuracy, confusion_matrix]"]

    def read_back(self, folder):
        found = subprocess.run([PYTHON, "-c", READER, str(folder)], capture_output=True, text=True, timeout=300)
        self.assertEqual(found.returncode, 0, found.stderr)
        return json.loads(found.stdout)

    def lines(self):
        """Returns the last line of metrics.jsonl for each type and step."""
        lines = [json.loads(line) for line in (self.run_dir / "metrics.jsonl").read_text().splitlines()]
        return list({(line["type"], line["step"]): line for line in lines}.values())

    def equals_the_history(self, events):
        steps = [line for line in self.lines() if line["type"] == "step"]
        epochs = [line for line in self.lines() if line["type"] == "epoch"]
        scalars = events["scalars"]
        self.assertEqual(scalars["step/train_loss"], [[line["step"], single(line["train/loss"])] for line in steps])
        self.assertEqual(scalars["step/lr"], [[line["step"], single(line["lr"])] for line in steps])
        for name in ("train/loss", "val/loss", "train/accuracy", "val/accuracy", "lr"):
            self.assertEqual(scalars[name], [[line["step"], single(line[name])] for line in epochs if name in line], name)
        shares = sum(values[-1][1] for tag, values in scalars.items() if tag.startswith("time_share/"))
        self.assertAlmostEqual(shares, 1, delta=0.05)

    def test_tensorboard_reads_what_metrics_jsonl_has(self):
        self.train(*self.LOGGERS, "trainer.max_epochs=2")
        events = self.read_back(self.run_dir / "tensorboard")
        self.equals_the_history(events)
        self.assertIn("seed: 7", events["texts"]["config/text_summary"])
        self.assertIn("**ok**", events["texts"]["result/text_summary"])
        for tag in ("experiment", "session_start_info", "session_end_info"):
            self.assertIn(f"_hparams_/{tag}", events["tensors"])
        width, height, magic = events["images"]["val/confusion_matrix"][-1]
        self.assertEqual((width, height, magic), (160, 160, b"\x89PNG\r\n\x1a\n".hex()))
        self.assertEqual(len(events["histograms"]["step_seconds"]), 2)

    def test_tensorboard_reads_histograms_of_weights_and_norms_of_layers(self):
        self.train("loggers=[jsonl, {type: tensorboard, weights_every_n_steps: 3}]", "trainer.log_every_n_steps=2", *SHORT[1:],
                   "trainer.max_epochs=1", "trainer.log_layer_norms=true")
        events = self.read_back(self.run_dir / "tensorboard")
        steps = self.lines()[-1]["step"]
        weights = {tag: values for tag, values in events["histograms"].items() if tag.startswith("weights/")}
        self.assertTrue(weights)
        for tag, values in weights.items():
            self.assertEqual([step for step, _ in values], list(range(3, steps + 1, 3)), tag)
            self.assertEqual(events["histograms"][tag.replace("weights/", "gradients/")], values)  # the same steps and counts
        norms = [line for line in self.lines() if line["type"] == "norms"]
        layers = {name for name in norms[0] if name.startswith("grad_norm/")}
        self.assertEqual(layers, {"grad_norm/" + tag.split("/")[1].rsplit(".", 1)[0] for tag in weights})
        for name in layers:
            self.assertEqual(events["scalars"][name], [[line["step"], single(line[name])] for line in norms])

    def test_tensorboard_shows_the_worst_predictions(self):
        self.train("loggers=[csv]", *SHORT, "trainer.max_epochs=1")
        predictions = self.run_dir / "predictions.csv"
        code, out, err = run(self.folder, "predict", self.run_dir, "--checkpoint", "best", "--out", predictions)
        self.assertEqual(code, 0, out + err)
        code, out, err = run(self.folder, "report", self.run_dir, "--worst", 3, "--tensorboard")
        self.assertEqual(code, 0, out + err)
        page, events = out.split()
        self.assertEqual((page, pathlib.Path(events).parent), (str(self.run_dir / "report.html"), self.run_dir / "tensorboard"))
        images = self.read_back(self.run_dir / "tensorboard")["images"]
        self.assertEqual([tag.split()[:2] for tag in sorted(images)], [[f"worst_predictions/0{i}", "label"] for i in (1, 2, 3)])
        for (width, height, magic), in images.values():
            self.assertEqual((width, height, magic), (28, 28, b"\x89PNG\r\n\x1a\n".hex()))
        code, _, err = run(self.folder, "report", self.run_dir, "--tensorboard")
        self.assertEqual(code, 2)
        self.assertIn("--tensorboard requires --worst", err)

    def test_a_resumed_run_has_one_history(self):
        self.train(*self.LOGGERS, "trainer.max_epochs=1")
        code, out, err = run(self.folder, "run", "digits.yaml", *self.LOGGERS, "--run-dir", self.run_dir, "--resume", "auto",
                             "trainer.max_epochs=2")
        self.assertEqual(code, 0, out + err)
        self.assertEqual(len(list((self.run_dir / "tensorboard").iterdir())), 2)
        self.equals_the_history(self.read_back(self.run_dir / "tensorboard"))

    def test_a_killed_run_leaves_a_readable_file(self):
        run_dir = self.folder / "killed"
        process = start(self.folder, "run", "digits.yaml", *self.LOGGERS, *ENDLESS, "--run-dir", run_dir)
        wait_for_training(process, run_dir)
        process.send_signal(signal.SIGKILL)
        process.communicate(timeout=300)
        self.assertGreaterEqual(len(self.read_back(run_dir / "tensorboard")["scalars"]["train/loss"]), 1)


class OtherLoggers(Smoke):
    def test_prometheus_and_a_command_hear_of_the_run_and_its_end(self):
        got, prom = self.folder / "got.jsonl", self.folder / "digits.prom"
        loggers = f'loggers=[csv, {{type: prometheus, file: "{prom}"}}, {{type: exec, command: [sh, -c, "cat > {got}"]}}]'
        result = self.train(loggers, *SHORT)
        lines = [json.loads(line) for line in got.read_text().splitlines()]
        self.assertEqual([lines[0]["type"], lines[-1]["type"]], ["start", "end"])
        self.assertEqual(sum(line["type"] == "epoch" for line in lines), 2)
        self.assertEqual(lines[0]["config"]["optimizer"]["lr"], 0.002)
        self.assertEqual(lines[-1]["result"], result)
        text = prom.read_text()
        self.assertRegex(text, r'(?m)^trainctl_up\{run="smoke",host="[^"]+"\} 0$')
        self.assertRegex(text, rf'(?m)^trainctl_step_total\{{run="smoke",host="[^"]+"\}} {result["steps"]}$')

    def test_a_command_that_dies_costs_a_warning(self):
        self.train('loggers=[console, {type: exec, command: [sh, -c, "echo no such project >&2; exit 3"]}]', *SHORT)
        self.assertIn("exit code 3", self.err)
        self.assertIn("no such project", self.err)

    def test_a_command_that_is_not_there_is_reported_by_validate(self):
        code, _, err = run(self.folder, "validate", "digits.yaml", "loggers=[{type: exec, command: [no-such-command-7]}]")
        self.assertEqual(code, 2)
        self.assertIn("'no-such-command-7' is not an executable file", err)

    def test_secrets_are_in_no_line(self):
        got = self.folder / "got.jsonl"
        os.environ["SMOKE_KEY"] = "hunter2hunter2"
        self.addCleanup(os.environ.pop, "SMOKE_KEY")
        self.train(f'loggers=[tensorboard, prometheus, {{type: exec, command: [sh, -c, "cat > {got}"]}}]',
                   "++dataset.remote.access_key=${secret:SMOKE_KEY}", "++dataset.remote.secret_key=${secret:SMOKE_KEY}", *SHORT)
        for file in [got, *self.run_dir.rglob("*")]:
            if file.is_file():
                self.assertNotIn(b"hunter2", file.read_bytes(), file)


class LiveView(Smoke):
    def test_a_run_is_seen_from_outside_and_then_its_end(self):
        run_dir = self.folder / "runs" / "smoke" / "20260101-000000-aaaa"
        run_dir.parent.mkdir(parents=True)
        process = start(self.folder, "run", "digits.yaml", *ENDLESS, "--run-dir", run_dir)
        wait_for_training(process, run_dir)
        code, out, err = run(self.folder, "top", "latest", "--json")
        self.assertEqual(code, 0, err)
        view = json.loads(out)
        self.assertEqual((view["schema"], view["state"], view["pid"]), ("trainctl.top/2", "running", process.pid))
        self.assertEqual(len(view["ranks"]), 1)
        self.assertGreater(view["ranks"][0]["step"], 0)
        self.assertIn(view["ranks"][0]["phase"], ("train", "validate", "checkpoint", "load"))
        self.assertGreater(view["ranks"][0]["rss_bytes"], 1 << 20)
        self.assertEqual(view["max_epochs"], 100000)
        code, out, _ = run(self.folder, "top", run_dir, "--once")
        self.assertEqual(code, 0)
        self.assertIn(f"running, pid {process.pid}", out)
        process.send_signal(signal.SIGKILL)
        process.communicate(timeout=300)
        self.assertEqual(json.loads(run(self.folder, "top", run_dir, "--json")[1])["state"], "gone")

    def test_of_a_run_that_has_ended_it_shows_the_result(self):
        self.train(*SHORT)
        code, out, err = run(self.folder, "top", self.run_dir)
        self.assertEqual(code, 0, err)
        self.assertIn("ok, exit code 0", out)

    def test_damaged_lines_of_the_metrics_are_a_warning(self):
        self.train(*SHORT, "trainer.log_every_n_steps=2")
        view = run(self.folder, "top", self.run_dir, "--json").json
        (self.run_dir / "logs/rank_0.log").write_text("warning\n" * 20)  # `top` shows five of them
        metrics = self.run_dir / "metrics.jsonl"
        lines = metrics.read_text().splitlines(keepends=True)
        lines[1] = '{"type":"step","epo\n'
        lines.insert(3, "\0\0\0\0\n")
        metrics.write_text("".join(lines) + '{"type":"st')  # the last line may be incomplete while a run writes it
        code, out, err = run(self.folder, "top", self.run_dir, "--json")
        self.assertEqual(code, 0, err)
        damaged = json.loads(out)
        self.assertEqual(damaged["warnings"], ["rank_0: warning"] * 5 + ["metrics.jsonl has 2 damaged lines"])
        self.assertEqual((damaged["step"], damaged["epoch"], damaged["metrics"]), (view["step"], view["epoch"], view["metrics"]))
        code, out, err = run(self.folder, "top", self.run_dir)
        self.assertEqual(code, 0, err)
        self.assertIn("metrics.jsonl has 2 damaged lines", out)

    def test_no_run_is_an_error_that_says_what_was_looked_for(self):
        code, _, err = run(self.folder, "top")
        self.assertEqual(code, 2)
        self.assertIn("cannot find the run 'latest'", err)


if __name__ == "__main__":
    main()
