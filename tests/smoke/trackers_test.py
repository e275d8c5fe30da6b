"""Tests the logger mlflow with the server of MLflow and with servers that fail, and the example for Weights & Biases with the real
package in its offline mode. Needs TRAINCTL_BINARY, and .trackers-venv (scripts/setup --checks) or TRAINCTL_TRACKERS_PYTHON."""

import contextlib
import http.server
import json
import os
import pathlib
import socket
import subprocess
import tempfile
import threading
import unittest
import urllib.error
import urllib.request
from unittest import mock

from support import SOURCE, Smoke, main, run

PYTHON = pathlib.Path(os.environ.get("TRAINCTL_TRACKERS_PYTHON") or SOURCE / ".trackers-venv/bin/python")
NO_PACKAGES = "no .trackers-venv: scripts/setup --checks makes one, or set TRAINCTL_TRACKERS_PYTHON"
SHORT = ["dataset.train.samples=400", "dataset.val.samples=100", "trainer.log_every_n_steps=2"]
HISTORY = """
import json, struct, sys
from wandb.proto import wandb_internal_pb2 as messages
content = open(sys.argv[1], "rb").read()
# The file has a header of 7 bytes and then the records of LevelDB's log format, in blocks of 32 KiB.
at, record, found = 7, b"", {"history": []}
while len(content) - at >= 7:
    left = 32768 - at % 32768
    if left < 7:
        at += left
        continue
    size, kind = struct.unpack_from("<HB", content, at + 4)
    record += content[at + 7:at + 7 + size]
    at += 7 + size
    if kind in (1, 4):
        message = messages.Record.FromString(record)
        record = b""
        if message.HasField("run"):
            found["id"], found["project"] = message.run.run_id, message.run.project
            found["config"] = {item.key: json.loads(item.value_json) for item in message.run.config.update}
        if message.HasField("history"):
            found["history"].append({item.key or "/".join(item.nested_key): json.loads(item.value_json) for item in message.history.item})
        if message.HasField("exit"):
            found["exit_code"] = message.exit.exit_code
print(json.dumps(found))
"""


class Recorder(http.server.BaseHTTPRequestHandler):
    """Answers every request with the status of the server, and notes its headers."""

    def answer(self):
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.server.requests.append((self.path, self.headers.get("Authorization")))
        self.send_response(self.server.status)
        self.send_header("Content-Length", "0")
        self.end_headers()

    do_GET = do_POST = do_PUT = answer

    def log_message(self, *_):
        pass


@contextlib.contextmanager
def failing_server(status):
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Recorder) as server:
        server.status, server.requests = status, []
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield server, f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


def mlflow(uri, **options):
    return "loggers=[console, csv, jsonl, html, " + json.dumps({"type": "mlflow", "tracking_uri": uri, **options}) + "]"


class Unreachable(Smoke):
    """The tests need no package."""

    def trains_anyway(self, uri, **options):
        result = self.train(mlflow(uri, **options), *SHORT, "trainer.max_epochs=2")
        self.assertEqual(result["verdict"], "ok")
        self.assertEqual((self.run_dir / "epochs.csv").read_text().count("\n"), 3)
        self.assertFalse((self.run_dir / "mlflow.json").exists())
        self.assertIn(f"values of metrics to {uri}", self.err)
        return self.err

    def test_no_server_costs_warnings(self):
        with socket.socket() as closed:
            closed.bind(("127.0.0.1", 0))  # a port that nobody listens on
            uri = f"http://127.0.0.1:{closed.getsockname()[1]}"
            self.assertEqual(self.trains_anyway(uri).count(f"the MLflow server {uri} does not accept data"), 1)

    def test_a_server_that_hangs_costs_warnings(self):
        with socket.socket() as silent:
            silent.bind(("127.0.0.1", 0))
            silent.listen(8)
            self.trains_anyway(f"http://127.0.0.1:{silent.getsockname()[1]}", stop_after_s=0)

    def test_a_server_that_fails_costs_warnings(self):
        with failing_server(500) as (_, uri):
            self.assertEqual(self.trains_anyway(uri).count("does not accept data (HTTP status 500"), 1)

    def test_credentials_are_sent_and_in_no_file(self):
        with failing_server(401) as (server, uri), mock.patch.dict(os.environ, MLFLOW_TRACKING_TOKEN="hunter2hunter2"):
            self.train(mlflow(uri), *SHORT, "trainer.max_epochs=1")
            self.assertEqual([sent for _, sent in server.requests], ["Bearer hunter2hunter2"])
        self.assertIn(f"the logger mlflow sends nothing more to {uri}", self.err)
        self.assertNotIn("hunter2", self.out + self.err)
        for file in self.run_dir.rglob("*"):
            if file.is_file():
                self.assertNotIn(b"hunter2", file.read_bytes(), file)
        with failing_server(401) as (server, uri), mock.patch.dict(os.environ, MLFLOW_TRACKING_USERNAME="ann", MLFLOW_TRACKING_PASSWORD="x"):
            self.train(mlflow(uri), *SHORT, "trainer.max_epochs=1")
            self.assertEqual(server.requests[0][1], "Basic YW5uOng=")

    def test_a_run_needs_the_url_of_a_server(self):
        with mock.patch.dict(os.environ):
            os.environ.pop("MLFLOW_TRACKING_URI", None)
            for options, problem in ("", "needs the URL of a tracking server"), (", tracking_uri: ./mlruns", "must start with http://"), (
                    ", tracking_uri: 'https://ann:x@host'", "must not contain a user or a password"):
                code, _, err = run(self.folder, "validate", "digits.yaml", f"loggers=[{{type: mlflow{options}}}]")
                self.assertEqual(code, 2)
                self.assertIn(problem, err)


@unittest.skipUnless(PYTHON.exists(), NO_PACKAGES)
class Mlflow(Smoke):
    @classmethod
    def setUpClass(cls):
        scratch = tempfile.TemporaryDirectory(prefix="trainctl-mlflow-")
        cls.addClassCleanup(scratch.cleanup)
        log = pathlib.Path(scratch.name, "log")
        with open(log, "w") as stderr:
            server = subprocess.Popen([PYTHON, SOURCE / "tests/smoke/support/mlflow_server.py", scratch.name], stdout=subprocess.PIPE,
                                      stderr=stderr, text=True)
        cls.addClassCleanup(server.communicate)
        cls.addClassCleanup(server.kill)
        port = server.stdout.readline().strip()
        if not port:
            raise AssertionError("the MLflow server did not start: " + log.read_text())
        cls.artifacts = pathlib.Path(scratch.name, "artifacts")
        cls.uri = f"http://127.0.0.1:{port}"

    def get(self, endpoint):
        with urllib.request.urlopen(f"{self.uri}/api/2.0/mlflow/{endpoint}", timeout=300) as reply:
            return json.load(reply)

    def mlflow(self, **options):
        return mlflow(self.uri, stop_after_s=300, **options)  # a busy machine may need longer than the default

    def run_on_server(self):
        """Returns the run of the newest run folder: its info, and its parameters and tags."""
        stored = json.loads((self.run_dir / "mlflow.json").read_text())
        found = self.get(f"runs/get?run_id={stored['run_id']}")["run"]
        pairs = {kind: {one["key"]: one["value"] for one in found["data"].get(kind, [])} for kind in ("params", "tags")}
        return found["info"], pairs["params"], pairs["tags"]

    def history(self, run_id, key):
        path = f"metrics/get-history?run_id={run_id}&metric_key={key}"
        return [(one["step"], float(one["value"])) for one in self.get(path)["metrics"]]

    def equals_the_history(self, run_id):
        lines = [json.loads(line) for line in (self.run_dir / "metrics.jsonl").read_text().splitlines()]
        for kind, key, tag in ("step", "train/loss", "step/train_loss"), ("epoch", "train/loss", "train/loss"), ("epoch", "val/accuracy", None):
            want = [(line["step"], float(line[key])) for line in lines if line["type"] == kind]
            self.assertEqual(self.history(run_id, tag or key), want, tag or key)

    def test_a_run_arrives_with_everything(self):
        self.train(self.mlflow(experiment_name="digits & more", tags={"team": "vision"}), *SHORT, "trainer.max_epochs=2")
        self.assertNotIn("MLflow", self.err)
        info, params, tags = self.run_on_server()
        self.assertEqual((info["status"], info["run_name"]), ("FINISHED", self.run_dir.name))
        self.assertGreater(info["end_time"], info["start_time"])
        experiment = self.get("experiments/get-by-name?experiment_name=digits%20%26%20more")["experiment"]
        self.assertEqual(info["experiment_id"], experiment["experiment_id"])
        self.assertEqual((params["optimizer.lr"], params["model.hidden"], params["seed"]), ("0.002", "[32]", "7"))
        self.assertEqual((tags["team"], tags["trainctl.verdict"]), ("vision", "ok"))
        self.assertTrue(tags["mlflow.source.name"].endswith("digits.yaml"))
        self.equals_the_history(info["run_id"])
        files = {file.name: file.read_text() for file in self.artifacts.rglob(info["run_id"] + "/artifacts/*")}
        self.assertEqual(set(files), {"config.resolved.yaml", "result.json", "report.html"})
        self.assertEqual(files["result.json"], (self.run_dir / "result.json").read_text())
        self.assertIn("</html>", files["report.html"])

    def test_a_resumed_run_continues(self):
        self.train(self.mlflow(), *SHORT, "trainer.max_epochs=1")
        first = self.run_on_server()[0]
        code, out, err = run(self.folder, "run", "digits.yaml", self.mlflow(), *SHORT, "--run-dir", self.run_dir, "--resume", "auto",
                             "trainer.max_epochs=2")
        self.assertEqual(code, 0, out + err)
        self.assertNotIn("MLflow", err)
        info, params, _ = self.run_on_server()
        self.assertEqual((info["run_id"], info["status"]), (first["run_id"], "FINISHED"))
        self.assertEqual(params["trainer.max_epochs"], "1")
        self.equals_the_history(info["run_id"])

    def test_a_run_that_diverges_has_failed(self):
        self.train(self.mlflow(), *SHORT, "optimizer={type: sgd, lr: 1e30}", "trainer.max_epochs=2", code=6)
        info, _, tags = self.run_on_server()
        self.assertEqual((info["status"], tags["trainctl.verdict"]), ("FAILED", "diverged"))


@unittest.skipUnless(PYTHON.exists(), NO_PACKAGES)
class WeightsAndBiases(Smoke):
    def test_a_run_arrives_offline(self):
        script = SOURCE / "examples/trackers/to_wandb.py"
        with mock.patch.dict(os.environ, WANDB_MODE="offline", WANDB_SILENT="true"):
            self.train(f"loggers=[csv, jsonl, {{type: exec, command: [{PYTHON}, {script}], stop_after_s: 300}}]", *SHORT, "trainer.max_epochs=2")
        log = (self.run_dir / "logs/exec_python.log").read_text()
        files = list(self.run_dir.glob("wandb/offline-run-*/run-*.wandb"))
        self.assertEqual(len(files), 1, log + self.err)
        read = subprocess.run([PYTHON, "-c", HISTORY, files[0]], capture_output=True, text=True, timeout=300)
        self.assertEqual(read.returncode, 0, read.stderr)
        found = json.loads(read.stdout)
        self.assertEqual((found["project"], found["id"], found["exit_code"]), ("smoke", (self.run_dir / "wandb_id").read_text(), 0))
        self.assertEqual(found["config"]["optimizer"]["lr"], 0.002)
        lines = [json.loads(line) for line in (self.run_dir / "metrics.jsonl").read_text().splitlines()]
        for kind, key, name in ("step", "train/loss", "step/train/loss"), ("epoch", "val/accuracy", "val/accuracy"):
            want = [(line["step"], float(line[key])) for line in lines if line["type"] == kind]
            self.assertEqual([(row["_step"], row[name]) for row in found["history"] if name in row], want, name)


if __name__ == "__main__":
    main()
