"""Starts two runs together in one folder: one trains, the other exits with 11 and names the first, and their output does not mix.
"""

import json
import signal

import proof
import support
from processes import wait_for

SHORT = ["trainer.max_epochs=1"]


class Pairs(support.RunProof):
    proof = "two runs, one folder"
    fast, long = 3, 100

    def test_one_of_two_wins(self):
        self.reference = self.whole(*SHORT)
        self.prove(self.one)

    def one(self, case, draw, folder):
        """In every other pair, a killed run has left its lock."""
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
        winner = self.held(first, second)
        loser = second if winner is first else first
        loses = loser.wait()
        winner.process.send_signal(signal.SIGCONT)
        said = f"{first.said()[-300:]} / {second.said()[-300:]}"
        self.assertEqual((winner.wait(), loses), (0, 11), said)
        self.assertIn(str(winner.process.pid), loser.said(), "the loser does not name the holder")
        winner.check_same(self.reference)

    def held(self, *runs):
        """Returns the run that holds the lock, with its supervisor stopped, so that it cannot finish before the other one starts.
        """
        def holder():
            try:
                pid = json.loads((runs[0].folder / ".lock").read_text())["pid"]
            except (OSError, ValueError):
                return None
            return next((run for run in runs if run.process.pid == pid), None)
        winner = wait_for("a holder of the lock", holder, pause=0.0005)
        winner.process.send_signal(signal.SIGSTOP)
        return winner


if __name__ == "__main__":
    proof.main()
