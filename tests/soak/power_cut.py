"""Cuts the power while checkpoints are saved: every published checkpoint is intact. The test stops the writer, copies its
loop-mounted ext4 image and mounts the copy, so that everything the kernel had not written is lost. Needs root, loop devices
and TRAINCTL_SAVER."""

import contextlib
import json
import os
import pathlib
import shutil
import signal
import subprocess
import time

import processes
import proof

SAVER = os.environ.get("TRAINCTL_SAVER", "")
MEGABYTES = 24
SAVES = 30_000  # more than the test has time for


def command(*words):
    return subprocess.run([str(word) for word in words], capture_output=True, text=True, timeout=processes.DEADLINE)


@contextlib.contextmanager
def mounted(image, place):
    """Raises OSError if the image cannot be mounted."""
    place.mkdir(exist_ok=True)
    ended = command("mount", "-o", "loop", image, place)
    if ended.returncode:
        raise OSError(f"{image.name} cannot be mounted: {ended.stderr.strip()}")
    try:
        yield place
    finally:
        if command("umount", place).returncode:
            command("umount", "-l", place)


def make_image(path):
    """Returns why the file system cannot be made, or None."""
    with open(path, "wb") as file:
        file.truncate(MEGABYTES << 20)
    if not shutil.which("mkfs.ext4"):
        return "mkfs.ext4 is not installed"
    ended = command("mkfs.ext4", "-q", "-F", path)
    if ended.returncode:
        return ended.stderr.strip()
    try:
        with mounted(path, path.parent / "probe"):
            return None
    except OSError as error:
        return str(error)


class PowerCut(proof.Proof):
    proof = "power cut"
    fast, long = 2, 50

    def setUp(self):
        super().setUp()
        if not SAVER:
            self.skip("TRAINCTL_SAVER is not set")
        self.image = self.folder / "disk.img"
        why = make_image(self.image)
        if why:
            self.skip(f"no ext4 image can be mounted here: {why}")

    def test_a_published_checkpoint_survives(self):
        """One saver saves without end; each cut is a copy of the disk at a random moment."""
        with mounted(self.image, self.folder / "disk") as disk, open(self.folder / "said", "wb") as said:
            words = [f"save:{step}" for step in range(1, SAVES)]
            saver = subprocess.Popen([SAVER, str(disk / "checkpoints"), *words], stdout=said, stderr=subprocess.STDOUT)
            try:
                self.saver = saver
                processes.wait_for("a first checkpoint", self.committed)
                self.prove(self.cut)
            finally:
                saver.kill()
                saver.wait()

    def committed(self):
        """Returns the number of saves that were reported as committed: steps count from 1."""
        return (self.folder / "said").read_bytes().count(b"committed\n")

    def cut(self, _, draw, folder):
        self.assertIsNone(self.saver.poll(), (self.folder / "said").read_text()[-400:])
        seen, more = self.committed(), draw.randrange(1, 5)
        processes.wait_for("further saves", lambda: self.committed() >= seen + more or self.saver.poll() is not None)
        time.sleep(draw.uniform(0, 0.03))  # a random moment of the next save
        self.saver.send_signal(signal.SIGSTOP)
        try:
            processes.wait_for("the saver to stand still", self.stands_still)
            least = self.committed()
            copy = folder / "copy.img"
            shutil.copyfile(self.image, copy)
        finally:
            self.saver.send_signal(signal.SIGCONT)
        self.check_outcome(copy, folder, least)

    def stands_still(self):
        state = pathlib.Path(f"/proc/{self.saver.pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
        return state in "TZ"

    def check_outcome(self, copy, folder, least):
        with mounted(copy, folder / "after") as disk:
            ended = command(SAVER, disk / "checkpoints", "look")
        self.assertEqual(ended.returncode, 0, f"after {least} saves: {ended.stdout}{ended.stderr}")
        found = json.loads(ended.stdout)
        what = f"{least} saves were committed: {found}"
        self.assertIn(found["newest"], (least, least + 1), what)
        self.assertEqual((found["damaged"], found["reported"]), ([], []), what)
        self.assertIn(found["last"], found["whole"] if least > 1 else [*found["whole"], None], what)


if __name__ == "__main__":
    proof.main()
