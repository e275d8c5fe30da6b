"""A rank that is killed in any phase ends the others, is reported as the first cause, and leaves nothing."""

import itertools
import random
import signal
import time

import proof
import support

PHASES = ["startup", "first batch", "step", "validation", "save"]
WORLDS = [2, 3, 4]


def cases():
    """Returns every combination, in random order; the first five have every phase once."""
    draw = random.Random(f"lost ranks:{proof.SEED}")
    first = [(phase, draw.choice(WORLDS)) for phase in PHASES]
    rest = list(itertools.product(PHASES, WORLDS))
    draw.shuffle(rest)
    return enumerate(itertools.chain(first, itertools.cycle(rest)))


class LostRanks(support.RunProof):
    proof = "lost ranks"
    fast, long = 5, 60

    def test_a_lost_rank_ends_the_run_and_is_named(self):
        self.prove(self.one, cases())

    def one(self, case, draw, folder):
        number, (phase, world) = case
        rank = draw.randrange(world)
        run = self.run_in(folder, *support.ranks(world)).start()
        self.until_in(phase, run, draw)
        victim = run.until("the worker", lambda: run.worker(rank), pause=0.01)
        run.kill("worker", signal.SIGKILL, rank)
        began = time.monotonic()
        code = run.wait()
        self.note("seconds till all was gone", time.monotonic() - began + run.gone())
        if code == 0 and run.rows() == support.EPOCHS:
            raise proof.Unmet("the run had ended before the kill")
        self.check_outcome(run, code, (rank, victim), f"SIGKILL to rank {rank} of {world} in {phase}")
        if number % 5 == 4:
            run.finish("--resume", "auto").check_same(self.whole_of(world))

    def check_outcome(self, run, code, victim, what):
        result = run.result()
        failure = result["first_failure"] or {}
        what += f": exit code {code}: {failure}: {run.said()[-400:]}"
        self.assertEqual((code, result["exit_code"], result["verdict"]), (7, 7, "failed"), what)
        self.assertEqual((failure.get("rank"), failure.get("pid"), failure.get("signal")), (*victim, "SIGKILL"), what)
        self.assertIn("collective", failure, what)
        self.assertEqual((run.sockets(), (run.folder / ".lock").exists()), ([], False), what)
        run.check_checkpoints()


if __name__ == "__main__":
    proof.main()
