"""Tests ranks that Open MPI's mpirun starts, and a rank that is bound to separate cores. Needs TRAINCTL_BINARY."""

import os
import shutil
import unittest

from support import main
from support.launched import Launched

MPIRUN = shutil.which("mpirun.openmpi") or shutil.which("mpirun")
TWO_TASKS = [MPIRUN, "--oversubscribe", "-n", "2", "-x", "SMOKE_MARK"]
AS_ROOT = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"} if os.geteuid() == 0 else {}


@unittest.skipUnless(MPIRUN, "no mpirun: scripts/setup --checks installs openmpi-bin")
class UnderMpi(Launched):
    LAUNCH = TWO_TASKS

    def start_tasks(self, *words, **options):
        return super().start_tasks(*words, **AS_ROOT, **options)

    def test_two_tasks_are_the_ranks_of_a_run_of_our_own(self):
        self.equals_own_ranks()
        self.assertIn("rank 0 of 2 under MPI", self.err)

    def test_a_killed_worker_ends_both_ranks_with_7(self):
        self.a_killed_rank_ends_all(worker=True)

    @unittest.skipUnless(len(os.sched_getaffinity(0)) >= 2, "one core: nothing to bind to")
    def test_a_bound_task_keeps_its_cores(self):
        bound = [MPIRUN, "--bind-to", "core", "-n", "2", "-x", "SMOKE_MARK"]
        process = self.start_tasks("trainer.max_epochs=100000", "++early_stopping=~", launch=bound)
        self.await_training(process)
        cores = [os.sched_getaffinity(pid) for rank in (0, 1) for pid in self.processes_of(rank, worker=True)]
        self.assertEqual(len(cores), 2)
        self.assertEqual(cores[0] & cores[1], set())
        for own in cores:
            self.assertTrue(own and own < os.sched_getaffinity(0), cores)


if __name__ == "__main__":
    main()
