"""A stop signal, in any phase and to any process, ends the run with a verified checkpoint and the documented exit code."""

import itertools
import random
import signal
import time

import compare
import proof
import support

PHASES = ["startup", "first batch", "step", "validation", "save", "shutdown"]
TARGETS = ["supervisor", "worker", "group"]
SIGNALS = [signal.SIGTERM, signal.SIGUSR1, signal.SIGINT]


def cases():
    """Returns every combination, in random order; the first six have every phase once and alternate targets and signals."""
    draw = random.Random(f"signals:{proof.SEED}")
    first = list(zip(PHASES, draw.sample(TARGETS * 2, 6), draw.sample(SIGNALS * 2, 6)))
    rest = list(itertools.product(PHASES, TARGETS, SIGNALS))
    draw.shuffle(rest)
    return enumerate(itertools.chain(first, itertools.islice(itertools.cycle(rest), 2 * len(rest))))


class Signals(support.RunProof):
    proof = "signals"
    fast, long = 6, 100

    def test_a_signal_leaves_a_verified_checkpoint_and_the_documented_code(self):
        self.prove(self.one, cases())

    def one(self, case, draw, folder):
        number, (phase, target, sent) = case
        world = draw.choice(support.WORLDS)
        run = self.run_in(folder, *support.ranks(world)).start()
        self.until_in(phase, run, draw)
        run.kill(target, sent, draw.randrange(world))
        began = time.monotonic()
        code = run.wait()
        self.note("seconds from signal to end", time.monotonic() - began)
        run.gone()
        what = f"{sent.name} to the {target} of {world} in {phase}: exit code {code}"
        self.check_outcome(run, sent, code, what)
        if code != 0 and number % 6 == 2:  # one of six, because a resume takes as long as the run
            run.finish("--resume", "auto").check_same(self.whole_of(world))

    def check_outcome(self, run, sent, code, what):
        result = run.result()
        what += f": {run.said()[-400:]}"
        self.assertEqual(result["exit_code"], code, what)
        if code == 0:
            finished = (result["verdict"], run.rows()) == ("ok", support.EPOCHS)
            self.assertTrue(finished, f"{what}: 0 without having finished")
            return
        self.assertIn(code, [130] if sent == signal.SIGINT else [75, 143], what)
        steps = run.logged_step()
        saved = run.check_checkpoints()
        if code == 75:
            self.assertGreater(saved, 0, what)
        if code == 143:
            whole = run.rows() == support.EPOCHS and saved > 0
            self.assertTrue(steps == 0 or whole, f"{what}: steps were made, and nothing was saved")
        if saved and code in (75, 130):
            last = compare.step_of(compare.last_of(run.folder))
            self.assertGreaterEqual(last, steps, f"{what}: the checkpoint is older than the last step")


if __name__ == "__main__":
    proof.main()
