"""The helpers of the smoke tests themselves."""

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
        before, after = (100.0, 40.0, 200.0), (103.0, 42.0, 210.0)  # of all, of this test, of the cores
        with mock.patch.object(support.Contention, "_times", side_effect=[before, after]):
            self.assertAlmostEqual(support.Contention().share(), 0.1)


if __name__ == "__main__":
    support.main()
