"""A run that is killed and resumed repeatedly ends like an uninterrupted one: every weight, state, loss and row is equal."""

import proof
import support

VICTIMS = ["supervisor", "worker", "group"]


class Kills(support.RunProof):
    proof = "random kills"
    fast, long = 4, 50

    def test_a_killed_and_resumed_run_ends_as_one_that_nobody_touched(self):
        self.prove(self.a_chain)

    def a_chain(self, _, draw, folder):
        """Kills one run up to three times, and lets it finish."""
        world = draw.choice(support.WORLDS)
        self.reference = self.whole_of(world)
        run = self.run_in(folder, *support.ranks(world))
        killed = 0
        for _ in range(3 if proof.LONG else 2):
            run.start("--resume", "auto")
            if not self.struck(run, draw, draw.randrange(world)):
                break
            killed += 1
        else:
            run.start("--resume", "auto")
        code = run.wait()
        if code != 0:
            raise AssertionError(f"after {killed} kills the run ends with {code}: {run.said()[-800:]}")
        run.check_same(self.reference)
        if killed == 0:
            raise proof.Unmet("a run that ended before its kill")
        return killed

    def struck(self, run, draw, rank):
        """Kills the run at a random step or time. Returns whether the kill came before the end of the run."""
        victim, by_step = draw.choice(VICTIMS), draw.random() < 0.6
        step, wait = draw.randrange(1, support.EPOCHS * support.STEPS), draw.uniform(0.05, self.reference.seconds)
        try:
            if by_step:
                run.until_step(step)
            else:
                run.let_pass(wait)
            run.kill(victim, rank=rank)
        except proof.Unmet:
            return False
        code = run.wait()
        self.note("seconds till all was gone", run.gone())
        if code == 0 and run.rows() < support.EPOCHS:
            raise AssertionError(f"exit code 0 after SIGKILL of the {victim} and {run.rows()} epochs: {run.said()[-400:]}")
        return code != 0


if __name__ == "__main__":
    proof.main()
