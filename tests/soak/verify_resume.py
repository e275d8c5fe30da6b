"""`trainctl verify-resume` on the tutorial's MNIST run: after each of ten kills, the result is identical. Needs TRAINCTL_DATA."""

import os
import pathlib
import subprocess

import proof
import support

SOURCE = pathlib.Path(__file__).resolve().parents[2]
KILLS = 10


class VerifyResume(support.RunProof):
    proof = "verify-resume"
    fast, long = 1, 1

    def test_ten_of_ten_are_identical(self):
        if not (pathlib.Path(os.environ.get("TRAINCTL_DATA", "")) / "mnist").is_dir():
            self.skip("set TRAINCTL_DATA to a folder with mnist/")
        if not proof.LONG:
            self.skip("TRAINCTL_LONG=1 is not set: it takes minutes")
        self.wanted = KILLS
        self.prove(self.one)

    def one(self, _, __, folder):
        ended = subprocess.run([support.BINARY, "verify-resume", str(SOURCE / "configs/mnist/ffn.yaml"), "--kills", str(KILLS),
                                "--seed", "1"], cwd=folder, capture_output=True, text=True, timeout=3600)
        self.assertEqual(ended.returncode, 0, ended.stdout[-800:] + ended.stderr[-800:])
        self.assertRegex(ended.stdout, rf"\b{KILLS} of {KILLS}\b")
        return KILLS


if __name__ == "__main__":
    proof.main()
