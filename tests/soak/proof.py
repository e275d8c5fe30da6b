"""The base of a proof: a claim that is tried many times with random faults, few times in scripts/test, often in scripts/soak.

TRAINCTL_LONG=1         use the number of tries of the long tier
TRAINCTL_SOAK_SEED      the random seed (0)
TRAINCTL_SOAK_MINUTES   start no new try after so many minutes
TRAINCTL_SOAK_TALLY     a file that gets one line of JSON per proof: proof, wanted, tried, failed, seconds, worst, skipped
TRAINCTL_SOAK_KEEP      a folder to copy failed tries to"""

import itertools
import json
import os
import pathlib
import random
import shutil
import tempfile
import time
import traceback
import unittest

LONG = os.environ.get("TRAINCTL_LONG") == "1"
SEED = os.environ.get("TRAINCTL_SOAK_SEED", "0")
MINUTES = float(os.environ.get("TRAINCTL_SOAK_MINUTES", "0")) or None
ENOUGH_FAILURES = 10
MOST_REPORTED_FAILURES = 3


class Unmet(Exception):
    """The moment for the fault did not come, so this does not count as a try."""


def print_json(line):
    """Writes one line of the tally."""
    path = os.environ.get("TRAINCTL_SOAK_TALLY")
    if path:
        with open(path, "a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")


class Proof(unittest.TestCase):
    """Tries a claim `fast` or `long` times, depending on the tier."""

    proof = ""
    fast = 1
    long = 1

    def setUp(self):
        self.wanted = self.long if LONG else self.fast
        self.worst, self.places = {}, itertools.count()
        scratch = tempfile.TemporaryDirectory(prefix="trainctl-soak-", ignore_cleanup_errors=True)
        self.addCleanup(scratch.cleanup)
        self.folder = pathlib.Path(scratch.name)

    def skip(self, why):
        print_json({"proof": self.proof, "wanted": self.wanted, "tried": 0, "failed": 0, "seconds": 0, "skipped": why})
        self.skipTest(why)

    def note(self, what, value):
        """Keeps the largest of some measured values for the summary."""
        self.worst[what] = max(value, self.worst.get(what, value))

    def prove(self, try_one, cases=None):
        """Calls try_one(case, draw, folder) until enough was tried. try_one returns the number of tries (None: one), raises
        AssertionError if the claim is wrong and Unmet if nothing was tried. Without `cases` they are 0, 1, 2 ..."""
        began, tried, failures = time.monotonic(), 0, []
        for case in itertools.count() if cases is None else cases:
            late = MINUTES is not None and time.monotonic() - began > 60 * MINUTES
            if tried >= self.wanted or late or len(failures) >= ENOUGH_FAILURES or case == 20 * self.wanted + 20:
                break
            count, failure = self.once(try_one, case)
            tried += count
            if failure:
                failures.append(f"{case}: {failure}")
        line = {"proof": self.proof, "wanted": self.wanted, "tried": tried, "failed": len(failures),
                "seconds": round(time.monotonic() - began, 1), "worst": {k: round(v, 3) for k, v in self.worst.items()}}
        print_json(line)
        print(json.dumps(line))
        self.assertEqual(failures[:MOST_REPORTED_FAILURES], [], f"{len(failures)} of {tried} failed (seed {SEED})")
        self.assertGreater(tried, 0, "no fault came at its moment")

    def once(self, try_one, case):
        """Returns (number of tries, reason of failure or None)."""
        folder = self.folder / f"try-{next(self.places)}"
        folder.mkdir()
        draw = random.Random(f"{self.proof}:{SEED}:{case}")
        try:
            return try_one(case, draw, folder) or 1, None
        except Unmet:
            return 0, None
        except Exception as error:  # counts every error of a try, and lets the next one start
            return 1, self.message_of(error, folder)
        finally:
            self.after_try()
            shutil.rmtree(folder, ignore_errors=True)

    def after_try(self):
        """Ends the processes that a try may have left."""

    def message_of(self, error, folder):
        keep = os.environ.get("TRAINCTL_SOAK_KEEP")
        kept = ""
        if keep and folder.exists():
            target = pathlib.Path(tempfile.mkdtemp(prefix=self.proof.replace(" ", "-") + "-", dir=keep))
            shutil.copytree(folder, target / folder.name, symlinks=True, ignore_dangling_symlinks=True)
            kept = f"; kept in {target}"
        if isinstance(error, AssertionError):
            return f"{error}{kept}"
        return "".join(traceback.format_exception(error)) + kept


def main():
    program = unittest.main(verbosity=2, exit=False)
    failed = not program.result.wasSuccessful()
    all_skipped = len(program.result.skipped) == program.result.testsRun
    raise SystemExit(1 if failed else 4 if all_skipped else 0)  # CTest shows exit code 4 as skipped
