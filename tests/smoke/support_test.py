"""Tests the helpers of the smoke tests."""

import unittest
from unittest import mock

import support


class MeasuresTime(unittest.TestCase):
    def outcome_of(self, test, share):
        class Measured(unittest.TestCase):
            test_it = support.measures_time(test)

        result = unittest.TestResult()
        with mock.patch.object(support.Contention, "share", return_value=share):
            Measured("test_it").run(result)
        return len(result.failures), [reason for _, reason in result.skipped]

    def test_a_wrong_measurement_fails_on_a_quiet_machine_and_is_skipped_on_a_busy_one(self):
        def wrong(self):
            self.assertGreater(1, 2)

        self.assertEqual(self.outcome_of(wrong, 0.05), (1, []))
        self.assertEqual(self.outcome_of(wrong, 0.5), (0, ["other processes took 50% of the cores: 1 not greater than 2"]))

    def test_a_right_measurement_passes_on_a_busy_machine(self):
        self.assertEqual(self.outcome_of(lambda self: None, 0.9), (0, []))

    def test_own_processes_are_not_foreign(self):
        before, after = (100.0, 40.0, 200.0), (103.0, 42.0, 210.0)  # CPU seconds of all processes, of this test, and total seconds of the cores
        with mock.patch.object(support.Contention, "_times", side_effect=[before, after]):
            self.assertAlmostEqual(support.Contention().share(), 0.1)


class GoldenTexts(support.Front):
    def test_a_token_stands_for_any_number_or_path_and_for_nothing_else(self):
        self.assertTrue(support.fits("%float s in %path", "1,204.5 s in /tmp/x"))
        self.assertTrue(support.fits("a+b (c)", "a+b (c)"))
        for line in ("fast s in /tmp/x", "1 s in ", "1 s in /tmp/x y"):
            self.assertFalse(support.fits("%float s in %path", line), line)

    def test_other_texts_fail_and_are_written_where_they_are_approved(self):
        with mock.patch.object(support, "GOLDEN", self.folder), mock.patch.dict("os.environ"):
            support.os.environ.pop("TRAINCTL_APPROVE", None)
            self.write("a.txt", "took %float s\nold\n")
            self.check_golden("a.txt", "took 3 s\nold\n")
            for name, text in (("a.txt", "took 3 s\nnew\n"), ("a.txt", "took 3 s\n"), ("missing.txt", "x\n")):
                with self.assertRaises(AssertionError):
                    self.check_golden(name, text)
            support.os.environ["TRAINCTL_APPROVE"] = "1"
            self.check_golden("a.txt", "took 3 s\nnew\n")
            self.assertEqual((self.folder / "a.txt").read_text(), "took %float s\nnew\n")


if __name__ == "__main__":
    support.main()
