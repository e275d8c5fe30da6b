"""Helpers of the tests of remote data. Needs TRAINCTL_BINARY."""

import os
import pathlib
import subprocess
import sys
import tempfile
import unittest
from unittest import mock

from support import BINARY, SOURCE

sys.path.insert(0, str(SOURCE / "tests/support"))
from every_source import write_everything  # noqa: E402, F401
from faulty_server import FaultyServer  # noqa: E402, F401
from outside_server import serve, wait_for  # noqa: E402, F401

SECRET = "TCTL_SECRET_7f3c9a"
BLOCK = 8 << 20
CONFIG = """\
name: remote
seed: 7
dataset:
  train: {train}
  cache: {cache}
  remote: {remote}
loader: {{batch_size: 10}}
model: linear
optimizer: {{type: sgd, lr: 0.1}}
trainer: {{max_epochs: 2, accelerator: cpu, devices: 1, num_threads: 1}}
"""


class Remote(unittest.TestCase):
    prefix = ()  # a command prefix for the program

    def setUp(self):
        scratch = tempfile.TemporaryDirectory(prefix="trainctl-remote-")
        self.addCleanup(scratch.cleanup)
        self.folder = pathlib.Path(scratch.name)
        self.data = self.folder / "data"
        self.data.mkdir()
        environment = {"XDG_CACHE_HOME": str(self.folder / "xdg"), "NO_PROXY": "*", "no_proxy": "*"}
        patch = mock.patch.dict(os.environ, environment)
        patch.start()
        self.addCleanup(patch.stop)

    def start(self, verb, stage, cache="{mode: none, local: tier}", remote="{}", *words):
        config = self.folder / f"{len(list(self.folder.glob('*.yaml')))}.yaml"
        config.write_text(CONFIG.format(train=stage, cache=cache, remote=remote))
        return subprocess.Popen([*self.prefix, BINARY, *verb.split(), config, *words], cwd=self.folder, stdin=subprocess.DEVNULL,
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def hash(self, stage, *more, code=0, epochs=2, **options):
        """Returns the digest of the epochs; with a nonzero `code`, returns the stderr instead."""
        process = self.start(f"data hash --epochs {epochs}", stage, *more, **options)
        out, err = process.communicate(timeout=120)
        self.assertEqual(process.returncode, code, err)
        return out if code == 0 else err
