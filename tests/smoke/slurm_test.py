"""Runs tasks of a real Slurm that has one node on this machine (support/slurm_cluster.py). Needs TRAINCTL_BINARY, root and
slurm-wlm."""

import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

from support import BINARY, SOURCE, main, slurm_cluster
from support.launched import Launched

SCRIPT = SOURCE / "scripts/cluster/slurm.sbatch"


class UnderSlurm(Launched):
    LAUNCH = ["srun", "--ntasks", "2", "--kill-on-bad-exit=0"]

    @classmethod
    def setUpClass(cls):
        cls.cluster_folder = tempfile.TemporaryDirectory(prefix="trainctl-slurm-")
        cls.addClassCleanup(cls.cluster_folder.cleanup)
        cls.cluster = slurm_cluster.Cluster(pathlib.Path(cls.cluster_folder.name))
        cls.addClassCleanup(cls.cluster.stop)

    def test_two_tasks_are_the_ranks_of_one_run(self):
        self.equals_own_ranks()
        self.assertIn("rank 0 of 2 under Slurm", self.err)

    def test_a_killed_worker_ends_both_tasks_with_7(self):
        self.a_killed_rank_ends_all(worker=True)

    def test_a_single_task_starts_its_own_workers(self):
        one = ["srun", "--ntasks", "1", "--cpus-per-task", "2"]
        result = self.run_tasks("trainer.devices=2", "trainer.fast_dev_run=true", launch=one)
        self.assertEqual(result["world_size"], 2)
        self.assertIn("the single task of Slurm, because 'trainctl run' starts its own workers", self.err)

    def test_a_signalled_job_is_queued_again_once_and_resumes(self):
        out = self.folder / "runs"
        self.write_epochs(100_000)  # so many epochs that the first start cannot end before the signal
        job = self.submit("", out)
        run_dir = out / f"slurm-{job}"
        self.cluster.wait(lambda: self.epochs(run_dir) >= 2, "the job trains", 180)
        subprocess.run(["scancel", "--signal=USR1", job], check=True, timeout=300)  # sends the signal that --signal=USR1@120 would send
        self.cluster.wait(lambda: self.cluster.job(job).get("Restarts") == "1", "the job is queued again", 120)
        self.assertIn("stopped with a checkpoint (75)", self.output(job))
        result = json.loads((run_dir / "result.json").read_text())
        self.assertEqual((result["exit_code"], result["verdict"]), (75, "stopped"))
        self.assertGreater(result["checkpoint"]["step"], 0)
        before = self.epochs(run_dir)
        self.write_epochs(before + 20)
        # Slurm holds a requeued job for two minutes. This shortens the wait, but not to zero: in the second of the requeue the
        # node still rejects the job, because its credential was just revoked.
        subprocess.run(["scontrol", "update", f"JobId={job}", "StartTime=now+5"], check=False, timeout=300)
        self.cluster.wait(lambda: self.cluster.job(job).get("JobState") == "COMPLETED", "the job finishes", 300)
        result = json.loads((run_dir / "result.json").read_text())
        self.assertEqual((result["exit_code"], result["epochs"], result["world_size"]), (0, before + 20, 2), self.output(job))
        self.assertIsNotNone(result["resumed_from"])
        self.assertGreater(self.epochs(run_dir), before)
        self.assertEqual(self.cluster.job(job)["Restarts"], "1")

    def test_a_job_that_fails_is_not_queued_again(self):
        job = self.submit("optimizer.type=sgd ++optimizer.lr=1e30", self.folder / "runs")
        self.cluster.wait(lambda: self.cluster.job(job).get("JobState") == "FAILED", "the job fails", 180)
        self.assertEqual(self.cluster.job(job)["Restarts"], "0")
        self.assertIn("trainctl ended with 6", self.output(job))

    def test_no_progress_is_not_queued_again(self):
        # This program replaces a run that has restarted three times without a newer checkpoint.
        program = self.folder / "no_progress"
        program.write_text("#!/bin/sh\nexit 93\n")
        program.chmod(0o755)
        job = self.submit("", self.folder / "runs", program)
        self.cluster.wait(lambda: self.cluster.job(job).get("JobState") == "FAILED", "the job fails", 60)
        self.assertEqual((self.cluster.job(job)["Restarts"], self.cluster.job(job)["ExitCode"]), ("0", "93:0"))
        self.assertIn("not queued again", self.output(job))

    def submit(self, words, out, program=BINARY):
        environment = {**os.environ, "TRAINCTL": str(program), "TRAINCTL_OUT": str(out)}
        done = subprocess.run(["sbatch", "--parsable", SCRIPT, "digits.yaml", *words.split()], cwd=self.folder,
                              env=environment, capture_output=True, text=True, timeout=300)
        self.assertEqual(done.returncode, 0, done.stderr)
        job = re.match(r"\d+", done.stdout).group()
        self.addCleanup(subprocess.run, ["scancel", job], capture_output=True, timeout=300, check=False)
        return job

    def output(self, job):
        return (self.folder / f"slurm-{job}.out").read_text()

    @staticmethod
    def epochs(run_dir):
        try:
            return (run_dir / "epochs.csv").read_text().count("\n") - 1
        except OSError:
            return 0


if __name__ == "__main__":
    if not slurm_cluster.is_inside():
        reason = slurm_cluster.why_not()
        if reason:
            print(f"skipped: {reason}")
            sys.exit(4)
        slurm_cluster.enter()
    main()
