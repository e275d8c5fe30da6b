"""Runs scripts/repeat-tests on a build folder of three tests: one passes, one is skipped, and one fails if TRAINCTL_TEST_SEED is
set, which is in every second run."""

import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

FOLDER = pathlib.Path(__file__).resolve().parent
TESTS = """\
add_test(passes sh -c "true")
add_test(skips sh -c "exit 4")
set_tests_properties(skips PROPERTIES SKIP_RETURN_CODE 4)
add_test(depends_on_the_seed sh -c "test -z \\"$TRAINCTL_TEST_SEED\\"")
"""


class Repeats(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory(prefix="trainctl-repeat-")
        self.addCleanup(scratch.cleanup)
        self.build = pathlib.Path(scratch.name)
        (self.build / "CTestTestfile.cmake").write_text(TESTS)

    def repeat(self, *words, code):
        environment = {name: value for name, value in os.environ.items() if name != "TRAINCTL_TEST_SEED"}
        run = subprocess.run([sys.executable, "-B", FOLDER / "repeat.py", "--build", self.build, "--load", "1", *words],
                             capture_output=True, text=True, timeout=300, env=environment)
        self.assertEqual(run.returncode, code, run.stdout + run.stderr)
        return run.stdout

    def test_the_table_names_the_runs_in_which_a_test_failed(self):
        table = self.repeat("4", code=1)
        self.assertIn("failed in 2 of 4 runs (2, 4): depends_on_the_seed", table)
        orders = [line.split()[1:3] for line in table.splitlines()[1:5]]
        self.assertEqual(orders, [["listed", "0"], ["random", "1"]] * 2)

    def test_a_suite_that_passes_ends_with_zero_and_counts_skipped_tests(self):
        document = json.loads(self.repeat("2", "--json", "--", "-E", "seed", code=0))
        self.assertEqual(document["schema"], "trainctl.repeat_tests/2")
        self.assertEqual([(run["tests"], run["skipped"], run["failed"]) for run in document["runs"]], [(2, 1, [])] * 2)

    def test_arguments_that_make_no_sense_end_with_two(self):
        self.repeat("0", code=2)


if __name__ == "__main__":
    unittest.main(verbosity=2)
