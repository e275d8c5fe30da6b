"""Installs the wheel that the dry run of a release (release_test.py) has made into a new virtual environment with torch, and trains there,
from the command line and from Python. Needs TRAINCTL_BINARY, TRAINCTL_BUILD, .package-venv and a Python with torch (scripts/setup
--checks)."""

import json
import os
import pathlib
import re
import subprocess
import tempfile
import unittest

from package_test import made
from support import MISSING_TORCH, SOURCE, Front, main, python_with_torch

TOOLS = SOURCE / ".package-venv/bin"
PYTHON = python_with_torch()
PLACES = {"parquet": "pyarrow", "sentencepiece": "trainctl.libs"}  # what these libraries need is there, not in torch
FEW = ["dataset.train.samples=500", "dataset.val.samples=100", "trainer.max_epochs=1", "+trainer.accelerator=cpu"]
USE = """
import json, pathlib, pickle, sys
import trainctl

few = {"dataset.train.samples": 500, "dataset.val.samples": 100, "trainer.max_epochs": 2, "+trainer.accelerator": "cpu",
       "+trainer.log_every_n_steps": 2}
result = trainctl.run("builtin:quickstart", few, run_dir=pathlib.Path("run"))
assert trainctl.load_result("run") == trainctl.load_result("run/result.json")
loaded = trainctl.load_result("run")

def error_of(call, *arguments, **options):
    try:
        call(*arguments, **options)
    except Exception as error:
        return pickle.loads(pickle.dumps(error))

pathlib.Path("old.json").write_text('{"schema": "trainctl.result/1"}')
pathlib.Path("list.json").write_text("[]")
pathlib.Path("cut.json").write_text('{"schema": ')
refused = error_of(trainctl.run, "builtin:quickstart", ["optimizer.learning_rate=1"])
failed = error_of(trainctl.run, "builtin:quickstart", {**few, "optimizer.lr": 1e30}, run_dir="failed")
unchecked = trainctl.run("builtin:quickstart", {**few, "optimizer.lr": 1e30}, run_dir="unchecked", check=False)
print(json.dumps({
    "version": trainctl.__version__,
    "verdicts": [result.verdict, loaded.verdict, failed.result.verdict, unchecked.verdict],
    "ok": [result.ok, unchecked.ok],
    "epochs": [result.epochs, loaded.epochs],
    "accuracy": [result.val["accuracy"], loaded.val["accuracy"]],
    "checkpoint": loaded.best.checkpoint.is_file(),
    "rows": [len(trainctl.load_metrics("run")), len(trainctl.load_metrics("run", "timing"))],
    "steps": len(trainctl.load_metrics("run", "steps")) > 0,
    "refused": [type(refused).__name__, str(refused), refused.exit_code, refused.result],
    "failed": [failed.exit_code, unchecked.exit_code],
    "errors": [repr(error) for error in (
        error_of(trainctl.load_result, "old.json"), error_of(trainctl.load_result, "list.json"),
        error_of(trainctl.load_result, "cut.json"), error_of(trainctl.load_result, "missing"),
        error_of(trainctl.load_metrics, "run", "weights"), error_of(trainctl.run, None, "a=1"),
        error_of(trainctl.run, None, {"a": object()}))],
}))
"""
NETWORK = """
import torch

class Net(torch.nn.Sequential):
    def __init__(self, width=8):
        super().__init__(torch.nn.Flatten(), torch.nn.Linear(784, width), torch.nn.BatchNorm1d(width), torch.nn.ReLU(),
                         torch.nn.Linear(width, 10))

def number():
    return 1

def broken():
    raise ValueError("no such width")
"""


def done(*words, **options):
    """Returns the output of a command, which has to succeed."""
    ended = subprocess.run([str(word) for word in words], capture_output=True, text=True, **options)
    if ended.returncode != 0:
        raise AssertionError(f"{words}: {ended.stdout}{ended.stderr}")
    return ended.stdout


def site_packages(python):
    return done(python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))").strip()


def add_dependencies(site):
    """Adds torch and Arrow to a site-packages folder as pip lays them out, without copying their gigabytes."""
    there = (SOURCE / ".deps").resolve()
    arrow = (SOURCE / ".arrow/pyarrow").resolve()
    for path in [there / "torch", there / "nvidia", there / "torchgen", *there.glob("torch-*.dist-info"), arrow]:
        if path.exists():
            (site / path.name).symlink_to(path)
    (site / "typing_extensions.pth").write_text(site_packages(PYTHON) + "\n")  # torch imports it


@unittest.skipUnless(TOOLS.exists(), "no .package-venv: scripts/setup --checks makes one")
@unittest.skipUnless(PYTHON and (SOURCE / ".deps").exists(), MISSING_TORCH)
class InstalledWheel(Front):
    @classmethod
    def setUpClass(cls):
        place = tempfile.TemporaryDirectory(prefix="trainctl-wheel-")
        cls.addClassCleanup(place.cleanup)
        folder = pathlib.Path(place.name)
        cls.wheel = made("wheel")
        done(PYTHON, "-m", "venv", "--without-pip", folder / "venv")  # the pip of .package-venv installs into it
        cls.prefix = folder / "venv"
        cls.python = cls.prefix / "bin/python"
        cls.site = pathlib.Path(site_packages(cls.python))
        add_dependencies(cls.site)
        done(TOOLS / "python", "-m", "pip", "--python", cls.python, "install", "--quiet", "--no-deps", "--no-index", "--disable-pip-version-check", cls.wheel)
        cls.environment = {name: value for name, value in os.environ.items() if not name.startswith(("TRAINCTL_", "PYTHON"))}

    def command(self, *words, program=None, code=0, **variables):
        """Runs the installed command `trainctl`, or another program, and returns its output and messages."""
        ended = subprocess.run([str(word) for word in (program or self.prefix / "bin/trainctl", *words)], cwd=self.folder,
                               env={**self.environment, **variables}, stdin=subprocess.DEVNULL, capture_output=True, text=True,
                               timeout=300)
        self.assertEqual(ended.returncode, code, ended.stdout + ended.stderr)
        return ended.stdout, ended.stderr

    def test_the_metadata_is_that_of_the_project(self):
        self.assertRegex(self.wheel.name, r"^trainctl-[0-9.]+-py3-none-manylinux_2_[0-9]+_x86_64\.whl$")
        metadata = next(self.site.glob("trainctl-*.dist-info/METADATA")).read_text()
        version = re.search(r"project\(trainctl VERSION ([0-9.]+)", (SOURCE / "CMakeLists.txt").read_text())[1]
        self.assert_has(metadata, f"Version: {version}\n", "Requires-Dist: torch==2.11.*\n", "Requires-Python: >=3.10\n")
        self.assertTrue(self.command("version")[0].startswith(f"trainctl {version} "))

    def test_the_platform_in_the_name_is_true(self):
        claimed = int(re.search("manylinux_2_([0-9]+)", self.wheel.name)[1])
        shown = " ".join(done(TOOLS / "auditwheel", "show", self.wheel).split())
        needed = re.search('constrains the platform tag to "manylinux_2_([0-9]+)_', shown)
        self.assertLessEqual(int(needed[1]), claimed)

    def test_libraries_are_found_relative_to_the_wheel_alone(self):
        libraries = [self.site / "trainctl/bin/trainctl", *self.site.glob("trainctl/lib/*.so")]
        self.assertGreaterEqual(len(libraries), 2)
        for library in libraries:
            folders = re.search(r"R(?:UN)?PATH\).*\[(.*)\]", done("readelf", "-d", library))[1].split(":")
            self.assertIn("$ORIGIN/../../" + next((place for name, place in PLACES.items() if name in library.name), "torch/lib"), folders)
            self.assertEqual([folder for folder in folders if not folder.startswith("$ORIGIN")], [])

    def test_arrow_is_that_of_pyarrow(self):
        if not (self.site / "trainctl/lib/libtrainctl_parquet.so").exists():
            self.skipTest("this build has no Arrow: scripts/setup --arrow")
        self.assertRegex(self.command("doctor")[0], r"ok +arrow +26\.")

    def test_configs_and_completions_are_installed(self):
        config = self.site / "trainctl/share/trainctl/configs/quickstart.yaml"
        self.assertEqual(config.read_text(), (SOURCE / "configs/quickstart.yaml").read_text())
        for shell, file in (("bash", "bash-completion/completions/trainctl"), ("zsh", "zsh/site-functions/_trainctl"),
                            ("fish", "fish/vendor_completions.d/trainctl.fish")):
            self.assertEqual((self.prefix / "share" / file).read_text(), self.command("completion", shell)[0], shell)

    def test_the_quickstart_trains(self):
        out, err = self.command("run", *FEW, "--run-dir", "run", PATH=f"{self.prefix}/bin:{os.environ['PATH']}")
        self.assertEqual(json.loads((self.folder / "run/result.json").read_text())["verdict"], "ok")
        self.assertIn("  next        trainctl ", out + err)

    def test_the_program_alone_finds_the_torch_next_to_it(self):
        self.command("run", *FEW, "--run-dir", "run", program=self.site / "trainctl/bin/trainctl")
        manifest = json.loads((self.folder / "run/manifest.json").read_text())
        self.assertNotIn("TRAINCTL_TORCH_ROOT", manifest["environment"])

    def test_python_runs_experiments_and_reads_results(self):
        found = json.loads(self.command("-c", USE, program=self.python)[0])
        self.assertEqual(found["verdicts"], ["ok", "ok", "diverged", "diverged"])
        self.assertEqual((found["ok"], found["failed"]), ([True, False], [6, 6]))
        self.assertEqual((found["epochs"], found["rows"], found["checkpoint"]), ([2, 2], [2, 2], True))
        self.assertEqual(*found["accuracy"])
        self.assertTrue(found["steps"])
        self.assertTrue(self.command("version")[0].startswith(f"trainctl {found['version']} "))
        kind, message, code, result = found["refused"]
        self.assertEqual((kind, code, result), ("RunError", 2, None))
        self.assertIn("unknown key 'learning_rate' in optimizer 'adam'", message)
        for error, expected in zip(found["errors"], (
                "ValueError('the schema of old.json must be trainctl.result/2, got trainctl.result/1')",
                "ValueError('the schema of list.json must be trainctl.result/2, got None')", "ValueError('cannot read cut.json: it is not JSON: ",
                "FileNotFoundError(", "ValueError(\"table must be one of epochs, timing, steps, got 'weights'\")",
                "TypeError('overrides must be a mapping or a list of texts, got a single text')",
                "TypeError('an override must be a number, a text, a path, None, a list or a dict, got object')"), strict=True):
            self.assert_starts(error, expected)

    def test_without_the_program_the_message_says_what_to_set(self):
        _, err = self.command("-m", "trainctl", "version", program=self.python, code=11, PYTHONPATH=str(SOURCE / "python"), PATH="/nowhere")
        self.assertEqual(err, "error: cannot start trainctl: cannot find the program trainctl: add it to PATH, or set TRAINCTL_PROGRAM to its path\n")

    def test_an_exported_model_trains(self):
        (self.folder / "net.py").write_text(NETWORK)
        words = ["export-model", "net.py:Net", "--input", "1,28,28", "--arg", "width=16", "--out", "net.pt"]
        out, _ = self.command("-m", "trainctl", *words, program=self.python)
        self.assertRegex(out, r"^model: \{ type: torchscript, path: net\.pt, sha256: [0-9a-f]{64} \}\n$")
        self.command("run", *FEW, "++" + out.strip().replace("model: ", "model="), "--run-dir", "run")
        self.assert_starts(self.command("export-model", "net:Net", *words[2:])[0], "model: ")  # the current folder is searched

        # The check of the export runs a batch in training, which must not change the statistics of batch norm.
        state = self.command("-c", "import torch; print(torch.jit.load('net.pt').state_dict()['2.num_batches_tracked'].item())", program=self.python)
        self.assertEqual(state[0], "0\n")

    def test_models_that_cannot_be_exported_are_refused_in_one_message(self):
        (self.folder / "net.py").write_text(NETWORK)
        (self.folder / "bad.py").write_text("1 / 0\n")
        refused = {
            "Net": "MODEL must be timm:NAME, torchvision:NAME, PACKAGE.MODULE:NAME or FILE.py:NAME, got Net",
            "missing.py:Net": "cannot read missing.py: there is no such Python file",
            "net.py:Other": "net.py has no Other",
            "bad.py:Net": "cannot import bad.py: ZeroDivisionError: division by zero",
            "net.py:broken": "cannot make net.py:broken: ValueError: no such width",
            "net.py:number": "net.py:number must return a torch.nn.Module, got int",
            "net.py:Net": "the model does not accept an input of the shape [2, 3, 224, 224]: ",
            "timm:resnet18": "cannot import timm: ",
            "net.py:Net --input 1,28,28 --out missing/net.pt": "[Errno 2] No such file or directory: 'missing/net.pt.partial'"}
        code = ("import sys\nsys.modules['timm'] = None  # cannot be imported\nfrom trainctl.export import main\n"
                "for words in sys.argv[1:]:\n    assert main(words.split()) == 1\n    print('---', file=sys.stderr)")
        _, err = self.command("-c", code, *refused, program=self.python)
        for message, expected in zip(err.split("---\n"), refused.values()):
            self.assert_starts(message, "error: " + expected)
        self.assertEqual(list(self.folder.glob("*.pt*")), [])


if __name__ == "__main__":
    main()
