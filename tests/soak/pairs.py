"""Two runs that are started together on one folder: one trains, the other ends with 11 and names it; nothing is mixed."""

import signal

import proof
import support

SHORT = ["trainer.max_epochs=1"]


class Pairs(support.RunProof):
    proof = "two runs, one folder"
    fast, long = 3, 100

    def test_one_of_two_wins(self):
        self.reference = self.whole(*SHORT)
        self.prove(self.one)

    def one(self, case, draw, folder):
        """Every other pair finds the lock of a run that was killed."""
        first = self.run_in(folder, *SHORT)
        words = []
        if case % 2:
            words = ["--resume", "auto"]
            first.start()
            first.until_step(draw.randrange(1, support.STEPS - 5))
            first.kill("group", signal.SIGKILL)
            first.wait()
            first.gone()
        second = self.run_in(folder, *SHORT, name="other", config=first.config)
        second.folder = first.folder
        for run in (first, second):
            run.start(*words)
        codes = [run.wait() for run in (first, second)]
        said = f"{codes}: {first.said()[-300:]} / {second.said()[-300:]}"
        self.assertEqual(sorted(codes), [0, 11], said)
        winner, loser = (first, second) if codes[0] == 0 else (second, first)
        self.assertIn(str(winner.process.pid), loser.said(), "the loser does not name the holder")
        winner.check_same(self.reference)


if __name__ == "__main__":
    proof.main()
