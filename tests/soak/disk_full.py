"""Fills the disk when checkpoints are due: the run continues with the older checkpoint, warns each time, and ends as if nothing
had happened once there is space again. If there is no space at the end, the run fails. Needs root, for a file system of a few MB.
"""

import os
import re
import subprocess

import compare
import processes
import proof
import support

MEGABYTES = 16
TROUBLE = re.compile(r"cannot save the checkpoint of step ([\d,]+)")


def mount(place):
    """Returns why nothing can be mounted there, or None."""
    ended = subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={MEGABYTES}m", "trainctl-soak", str(place)], capture_output=True,
                           text=True)
    return ended.stderr.strip() or "mount failed" if ended.returncode else None


class DiskFull(support.RunProof):
    proof = "disk full"
    fast, long = 2, 20
    # The disk has space for a few checkpoints of 1.5 MB, and the test has time to act between two of them.
    OPTIONS = ["model={type: mlp, hidden: [100, 100], dropout: 0.1}", "trainer.max_epochs=36", "++early_stopping=~",
               "checkpoint.every_n_steps=120", "++checkpoint.every_n_epochs=4"]

    def setUp(self):
        super().setUp()
        self.disk = self.folder / "disk"
        self.disk.mkdir()
        why = mount(self.disk)
        if why:
            self.skip(f"no file system can be mounted here: {why}")
        self.addCleanup(subprocess.run, ["umount", "-l", str(self.disk)], check=False)

    def test_a_full_disk_is_survived_and_reported(self):
        self.reference = self.whole(*self.OPTIONS)
        self.prove(self.one)

    def one(self, case, draw, folder):
        place = self.disk / str(case)
        place.mkdir()
        run = self.run_in(folder, *self.OPTIONS)
        run.folder = place / "run"
        try:
            self.fill_meanwhile(run, place / "filler", case, draw)
        finally:
            subprocess.run(["rm", "-rf", str(place)], check=False)

    def fill_meanwhile(self, run, filler, case, draw):
        run.start()
        run.until("a second checkpoint", lambda: len(compare.committed(run.folder)) >= 2)
        run.until_step(draw.randrange(150, 400))

        def warned_twice():
            self.fill(filler)
            return len(set(TROUBLE.findall(run.said()))) >= 2

        run.until("warnings of two steps", warned_twice, pause=0.005)
        if case % 2 == 0:
            filler.unlink()
            self.assertEqual(run.wait(), 0, run.said()[-800:])
            run.check_same(self.reference)
            return
        processes.wait_for("the end", lambda: self.fill(filler) or run.process.poll() is not None, pause=0.01)
        self.assertEqual(run.wait(), 11, f"the last checkpoint is missing: {run.said()[-800:]}")
        self.assertGreater(run.check_checkpoints(), 0, "no older checkpoint is left")

    def fill(self, path):
        """Takes all free space, so that not even a line of the history can be written."""
        disk = os.statvfs(path.parent)
        free = disk.f_bavail * disk.f_frsize
        if free > 0:
            try:
                with open(path, "ab", buffering=0) as file:
                    file.write(bytes(free))
            except OSError:
                pass  # the run took the space first


if __name__ == "__main__":
    proof.main()
