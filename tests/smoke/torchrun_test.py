"""Tests ranks that torchrun starts. Needs TRAINCTL_BINARY, and torchrun: TRAINCTL_TORCHRUN, or the environment of scripts/setup
--checks or of the peer benchmarks."""

import json
import os
import pathlib
import signal
import subprocess
import unittest

from support import BINARY, SOURCE, free_port, main
from support.launched import Launched, clean_environment


def torchrun():
    """Returns the path of torchrun, or None."""
    named = os.environ.get("TRAINCTL_TORCHRUN")
    places = [pathlib.Path(named)] if named else [SOURCE / ".torchrun/bin/torchrun", SOURCE / "build/peers-venv/bin/torchrun"]
    return next((str(place) for place in places if place.is_file()), None)


TORCHRUN = torchrun()
MISSING = "no torchrun: scripts/setup --checks makes one, or set TRAINCTL_TORCHRUN"


@unittest.skipUnless(TORCHRUN, MISSING)
class UnderTorchrun(Launched):
    LAUNCH = [TORCHRUN, "--standalone", "--nproc-per-node", "2", "--no-python"]

    def test_two_ranks_of_a_static_rendezvous_are_those_of_a_run_of_our_own(self):
        static = [TORCHRUN, "--nproc-per-node", "2", "--master-addr", "127.0.0.1", "--master-port", str(free_port()), "--no-python"]
        self.equals_own_ranks(launch=static)
        self.assertIn("rank 0 of 2 under torchrun", self.err)

    def test_a_killed_worker_ends_both_ranks_with_7(self):
        text = self.a_killed_rank_ends_all(worker=True)
        self.assertEqual(self.result()["first_failure"]["signal"], "SIGKILL")
        self.assertIn("exitcode  : 7", text)  # torchrun prints a task's exit code so

    def test_a_killed_supervisor_ends_both_ranks_with_7(self):
        self.a_killed_rank_ends_all(worker=False)

    def test_a_restart_of_torchrun_continues_the_run(self):
        again = [*self.LAUNCH[:-1], "--max-restarts", "1", self.LAUNCH[-1]]
        self.write_epochs(100_000)  # so many epochs that the first start cannot end before the kill
        process = self.start_tasks("--resume", "auto", launch=again)
        self.await_training(process)
        victim = self.processes_of(1, worker=True)[0]
        os.kill(victim, signal.SIGSTOP)  # the other rank waits for it before the end of the next epoch
        epochs = len(self.losses(self.run_dir)) + 10
        self.write_epochs(epochs)
        os.kill(victim, signal.SIGKILL)
        out, err = process.communicate(timeout=300)
        self.assertEqual(process.returncode, 0, out + err)
        result = self.result()
        self.assertEqual((result["exit_code"], result["epochs"]), (0, epochs))
        self.assertEqual(result["world_size"], 2)
        self.assertEqual(self.leftovers(), [])
        self.assertIsNotNone(result["resumed_from"])

    def test_more_devices_than_tasks_are_refused_by_every_task(self):
        process = self.start_tasks("trainer.devices=4")
        out, err = process.communicate(timeout=300)
        self.assertNotEqual(process.returncode, 0)
        self.assertIn("trainer.devices is 4, but this host has 2 tasks under torchrun", out + err)


@unittest.skipUnless(TORCHRUN, MISSING)
class TorchrunScript(Launched):
    LAUNCH = [SOURCE / "scripts/cluster/torchrun.sh"]

    def test_the_script_trains_with_two_ranks(self):
        environment = clean_environment(TRAINCTL=BINARY, TORCHRUN=TORCHRUN, TRAINCTL_OUT=str(self.folder / "out"),
                                        TRAINCTL_RUN_DIR=str(self.folder / "fixed"))
        done = subprocess.run([str(self.LAUNCH[0]), "digits.yaml", "trainer.fast_dev_run=true"], cwd=self.folder,
                              env=environment, capture_output=True, text=True, timeout=300)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertEqual(json.loads((self.folder / "fixed/result.json").read_text())["world_size"], 2)

    def test_it_says_how_it_is_used(self):
        done = subprocess.run([str(self.LAUNCH[0])], capture_output=True, text=True, timeout=300)
        self.assertEqual(done.returncode, 2)
        self.assertIn("CONFIG", done.stderr)


if __name__ == "__main__":
    main()
