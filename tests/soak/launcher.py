"""Whichever process is killed, nothing is left: no process, socket, shared memory or temporary file. The run reports the first
cause."""

import os
import pathlib
import signal
import time

import processes
import proof
import support

ABORTING = {signal.SIGKILL: 7, signal.SIGSEGV: 7, signal.SIGABRT: 7, signal.SIGSTOP: 8}


class LauncherKills(support.RunProof):
    """Kills and resumes the supervisor of one endless run, again and again."""

    proof = "launcher kills"
    fast, long = 5, 200

    def test_nothing_outlives_a_killed_supervisor(self):
        place = self.folder / "endless"
        place.mkdir()
        self.run_ = support.Run(place, *support.ENDLESS, "checkpoint.every_n_steps=20")
        self.addCleanup(self.run_.end)
        self.prove(self.one)

    def one(self, _, draw, __):
        run = self.run_
        shared = processes.shared_memory()
        run.start("--resume", "auto")
        began = run.began
        try:
            if draw.random() < 0.7:
                run.until_phase("train")
                self.assertEqual(run.stray_files(before=began), [], "temporary files from before this start")
            run.let_pass(draw.uniform(0, 1.5))
            run.kill("supervisor")
        except proof.Unmet:
            raise AssertionError(f"the run ended by itself: {run.said()[-800:]}") from None
        self.note("seconds till all was gone", run.gone())
        self.assertEqual(run.sockets(), [])
        self.assertEqual(sorted(self.orphaned(processes.shared_memory() - shared)), [])

    def after_try(self):
        super().after_try()
        self.run_.end()

    def orphaned(self, names):
        """Returns the names that no living process has open, except those of tests, which may run at the same time."""
        held = set()
        for link in pathlib.Path("/proc").glob("[0-9]*/fd/*"):
            try:
                held.add(os.readlink(link))
            except OSError:
                continue
        mine = [name for name in names if not name.startswith("trainctl-checkpoint-")]
        return [name for name in mine if f"/dev/shm/{name}" not in held and (pathlib.Path("/dev/shm") / name).exists()]


class MixedFaults(support.RunProof):
    """Kills, crashes or stops one of one or two workers, and checks the reported rank, signal and exit code. A stopped worker costs
    the limit of a hang, so only the long tier has one; `smoke ranks` stops a worker in each run of the tests."""

    proof = "mixed faults"
    fast, long = 2, 100

    def test_the_first_cause_is_named(self):
        self.prove(self.one)

    def one(self, case, draw, folder):
        sent = list(ABORTING)[case % 4] if proof.LONG else [signal.SIGSEGV, signal.SIGABRT][case % 2]
        world = draw.choice([1, 2])
        rank = draw.randrange(world)
        run = self.run_in(folder, *support.ENDLESS, f"trainer.devices={world}", "++trainer.hang_timeout=10s")
        run.start()
        run.until_step(draw.randrange(2, 120))
        victim = run.until("the worker", lambda: run.worker(rank), pause=0.01)
        processes.send(victim, sent)
        began = time.monotonic()
        code = run.wait()
        if sent != signal.SIGSTOP:
            self.note("seconds till all was gone", time.monotonic() - began + run.gone())
        else:
            run.gone()
        self.check_outcome(run, sent, code, (rank, victim))
        self.assertEqual((run.sockets(), run.stray_files(), (run.folder / ".lock").exists()), ([], [], False))

    def check_outcome(self, run, sent, code, victim):
        result = run.result()
        failure = result["first_failure"] or {}
        what = f"{sent.name} to rank {victim[0]}: exit code {code}: {failure}: {run.said()[-400:]}"
        self.assertEqual((code, result["exit_code"]), (ABORTING[sent],) * 2, what)
        self.assertEqual((failure.get("rank"), failure.get("pid")), victim, what)
        self.assertGreater(failure.get("step", -1), 0, what)
        if sent == signal.SIGSTOP:
            self.assertEqual(result["verdict"], "hang", what)
        else:
            self.assertEqual(failure.get("signal"), sent.name, what)


if __name__ == "__main__":
    proof.main()
