"""Flips a bit of the newest checkpoint: the run reports it, resumes from the previous checkpoint, and ends as if nothing had
happened."""

import compare
import proof
import support


class Corrupt(support.RunProof):
    proof = "corrupt checkpoint"
    fast, long = 2, 20

    def test_a_flipped_bit_is_reported_and_the_checkpoint_before_it_is_used(self):
        self.reference = self.whole()
        self.prove(self.one)

    def one(self, _, draw, folder):
        run = self.run_in(folder).start()
        run.until_step(draw.randrange(20, support.EPOCHS * support.STEPS - 5))
        run.until("a second checkpoint", lambda: len(compare.committed(run.folder)) >= 2)
        run.kill("group")
        run.wait()
        run.gone()
        damaged = compare.committed(run.folder)[-1]  # after a kill between save and link, `last` may still point to the previous one
        self.flip(draw.choice([damaged / "rank_0.part", damaged / "rank_0.part", damaged / "manifest"]), draw)
        run.finish("--resume", "last")
        self.assertIn(damaged.name, run.said(), "the damaged checkpoint is not named")
        self.assertTrue(list((run.folder / "checkpoints").glob(f"corrupt-{damaged.name}*")), "it was not renamed")
        run.check_same(self.reference)

    def flip(self, path, draw):
        data = bytearray(path.read_bytes())
        data[draw.randrange(len(data))] ^= 1 << draw.randrange(8)
        path.write_bytes(data)


if __name__ == "__main__":
    proof.main()
