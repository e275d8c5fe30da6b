"""Helpers of the torchrun, srun and mpirun tests: whole runs by tasks of a launcher, compared with runs without one."""

import json
import os
import pathlib
import re
import signal
import subprocess
import tempfile
import time

from support import BINARY, ENDLESS, Smoke, marked

LAUNCHERS_OWN = ("SLURM", "OMPI_", "PMI", "PMIX", "TORCHELASTIC_", "PET_", "TRAINCTL_RDZV")


def clean_environment(**added):
    """Returns the environment without the variables of a launcher that may run these tests."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(LAUNCHERS_OWN) or name == "SLURM_CONF"}
    for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"):
        kept.pop(name, None)
    return {**kept, **added}


class Launched(Smoke):
    LAUNCH = []  # the launcher's command in front of the program

    def start_tasks(self, *words, launch=None, **environment):
        """Returns the launcher's process; the run folder is self.run_dir, and all its processes carry self.mark."""
        self.run_dir = pathlib.Path(tempfile.mkdtemp(dir=self.folder, prefix="run-"))
        self.mark = f"{os.getpid()}-{self.run_dir.name}"
        command = [*(launch or self.LAUNCH), BINARY, "run", "digits.yaml", *words, "--out", self.folder / "out",
                   "--run-dir", self.run_dir]
        process = subprocess.Popen([str(word) for word in command], cwd=self.folder, text=True, stdin=subprocess.DEVNULL,
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                   env=clean_environment(SMOKE_MARK=self.mark, **environment))
        self.addCleanup(self.end_all, process)
        return process

    def end_all(self, process):
        process.kill()
        for pid in marked(self.mark):
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        process.communicate()

    def run_tasks(self, *words, code=0, **options):
        process = self.start_tasks(*words, **options)
        self.out, self.err = process.communicate(timeout=300)
        self.assertEqual(process.returncode, code, self.out + self.err)
        self.assertEqual(marked(self.mark), [], "processes were left")
        return self.result()

    def result(self):
        return json.loads((self.run_dir / "result.json").read_text())

    def processes_of(self, rank, worker):
        """Returns the pids of a rank's worker, or of its supervisor, which has no event pipe."""
        found = []
        for pid in marked(self.mark):
            try:
                environment = pathlib.Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
                program = os.readlink(f"/proc/{pid}/exe")
            except OSError:
                continue
            is_worker = any(entry.startswith(b"TRAINCTL_EVENT_FD=") for entry in environment)
            ranks = (f"{name}={rank}".encode() for name in ("RANK", "SLURM_PROCID", "OMPI_COMM_WORLD_RANK"))
            is_rank = f"RANK={rank}".encode() in environment if worker else any(word in environment for word in ranks)
            if program == os.path.realpath(BINARY) and is_worker == worker and is_rank:
                found.append(pid)
        return found

    def await_training(self, process, timeout=180):
        """Waits until an epoch is complete and a checkpoint exists."""
        deadline = time.monotonic() + timeout
        table = self.run_dir / "epochs.csv"
        while not (table.exists() and table.read_text().count("\n") >= 2 and (self.run_dir / "checkpoints/last").exists()):
            if process.poll() is not None or time.monotonic() > deadline:
                process.kill()
                out, err = process.communicate()
                raise AssertionError("the run did not start to train: " + out + err)
            time.sleep(0.05)

    def write_epochs(self, number):
        """Sets the number of epochs in the config of the tasks, which a restarted task reads again."""
        config = self.folder / "digits.yaml"
        config.write_text(re.sub(r"max_epochs: \d+", f"max_epochs: {number}", config.read_text()))

    def equals_own_ranks(self, **options):
        """Checks that two tasks of a launcher and two workers that `run` starts itself have identical losses."""
        own = self.train("trainer.devices=2")
        tables = self.out.count("val/accuracy")
        losses = self.losses(self.run_dir)
        launched = self.run_tasks(**options)
        self.assertEqual(launched["world_size"], 2)
        self.assertEqual(launched["data_digest"], own["data_digest"])
        self.assertEqual(launched["steps"], own["steps"])
        self.assertEqual(self.losses(self.run_dir), losses)
        self.assertTrue((self.run_dir / "logs/rank_1.log").is_file())
        self.assertEqual(self.out.count("val/accuracy"), tables, "the table of one task, not of both")
        self.assertEqual(self.leftovers(), [])

    def leftovers(self):
        """Returns the files by which tasks find node 0; none may be left at the end."""
        return list(self.folder.rglob(".rendezvous-*"))

    def a_killed_rank_ends_all(self, worker):
        process = self.start_tasks(*ENDLESS)
        self.await_training(process)
        killed = self.processes_of(1, worker)
        self.assertEqual(len(killed), 1)
        os.kill(killed[0], signal.SIGKILL)
        out, err = process.communicate(timeout=90)
        self.assertNotEqual(process.returncode, 0, out + err)
        result = self.result()
        self.assertEqual((result["exit_code"], result["verdict"]), (7, "failed"), out + err)
        if worker:
            self.assertEqual(result["first_failure"]["rank"], 1)
        self.assertEqual(marked(self.mark), [], "processes were left")
        self.assertEqual(self.leftovers(), [])
        return out + err
