"""Tests several ranks on one machine: their sockets, concurrent runs, and which rank an error names. Needs TRAINCTL_BINARY."""

import json
import os
import pathlib
import signal

from support import ENDLESS, Smoke, main, marked, start, worker_of

LISTENING = "0A"
LOOPBACK = {"0100007F", "00000000000000000000000001000000", "0000000000000000FFFF00000100007F"}


def sockets_of(pids):
    """Returns the inodes of the sockets that these processes have open."""
    found = set()
    for pid in pids:
        try:
            links = [os.readlink(link) for link in pathlib.Path(f"/proc/{pid}/fd").iterdir()]
        except OSError:
            continue
        found |= {link[len("socket:["):-1] for link in links if link.startswith("socket:[")}
    return found


def listeners(pids):
    """Returns the addresses on which these processes listen, in the notation of /proc."""
    inodes = sockets_of(pids)
    found = []
    for table in ("tcp", "tcp6"):
        path = pathlib.Path(f"/proc/net/{table}")
        for line in path.read_text().splitlines()[1:] if path.exists() else []:
            fields = line.split()
            if fields[3] == LISTENING and fields[9] in inodes:
                found.append(fields[1].split(":")[0])
    return found


class Ranks(Smoke):
    def endless(self, name, *words):
        self.mark = f"{os.getpid()}-{name}"
        self.run_dir = self.folder / name
        process = start(self.folder, "run", "digits.yaml", *ENDLESS, *words, "--run-dir", self.run_dir,
                        env={**os.environ, "SMOKE_MARK": self.mark})
        self.addCleanup(process.kill)
        return process


class RanksOfOneMachine(Ranks):
    def test_nobody_listens_but_on_the_loopback_address(self):
        process = self.endless("listeners", "trainer.devices=2")
        worker_of(self.run_dir, self.mark, process, rank=1)
        found = listeners(marked(self.mark))
        self.assertTrue(found, "Gloo's own sockets were not found: this test sees nothing")
        self.assertEqual([address for address in found if address not in LOOPBACK], [])
        process.send_signal(signal.SIGTERM)
        out, err = process.communicate(timeout=300)
        self.assertEqual(process.returncode, 75, out + err)

    def test_two_runs_at_once_are_as_if_alone(self):
        self.train("trainer.devices=2")
        alone = self.losses(self.run_dir)
        pair = [start(self.folder, "run", "digits.yaml", "trainer.devices=2", "--run-dir", self.folder / f"parallel-{i}") for i in range(2)]
        for number, process in enumerate(pair):
            out, err = process.communicate(timeout=480)
            self.assertEqual(process.returncode, 0, out + err)
            self.assertEqual(self.losses(self.folder / f"parallel-{number}"), alone)

    def test_four_ranks_follow_one_with_the_fourfold_batch(self):
        one = self.train("loader.batch_size=100")
        losses = self.losses(self.run_dir)
        four = self.train("loader.batch_size=25", "trainer.devices=4")
        self.assertEqual((four["world_size"], four["data_digest"], four["steps"]), (4, one["data_digest"], one["steps"]))
        for left, right in zip(losses, self.losses(self.run_dir)):
            for a, b in zip(left, right):
                self.assertAlmostEqual(float(a), float(b), delta=2e-4 * max(1.0, abs(float(a))))


class RanksThatAreLost(Ranks):
    def end(self, process, code):
        out, err = process.communicate(timeout=300)
        self.assertEqual(process.returncode, code, out + err)
        self.assertEqual(marked(self.mark), [], "processes were left")
        return json.loads((self.run_dir / "result.json").read_text())

    def test_the_result_names_the_last_collective_of_a_killed_rank(self):
        process = self.endless("killed", "trainer.devices=3", "loader.batch_size=20")
        worker = worker_of(self.run_dir, self.mark, process, rank=2)
        os.kill(worker, signal.SIGKILL)
        failure = self.end(process, 7)["first_failure"]
        self.assertEqual((failure["rank"], failure["pid"], failure["signal"]), (2, worker, "SIGKILL"))
        self.assertRegex(failure["collective"], r"^(all-reduce|sum|broadcast|consensus|descriptions|comparison)")

    def test_a_rank_that_stands_still_is_named_with_phase_and_collective(self):
        process = self.endless("stopped", "trainer.devices=2", "++trainer.hang_timeout=10s")
        worker = worker_of(self.run_dir, self.mark, process, rank=1)
        os.kill(worker, signal.SIGSTOP)
        result = self.end(process, 8)
        failure = result["first_failure"]
        self.assertEqual((result["verdict"], failure["rank"], failure["pid"]), ("hang", 1, worker))
        self.assertRegex(failure["message"], r"; (it waits for other ranks in the collective|its last collective was) '.+'")
        self.assertGreater(failure["step"], 0)
        self.assertEqual([path.name for path in self.run_dir.rglob(".*")], [])

    def test_a_lone_rank_has_no_collective(self):
        process = self.endless("alone")
        os.kill(worker_of(self.run_dir, self.mark, process), signal.SIGKILL)
        self.assertIsNone(self.end(process, 7)["first_failure"]["collective"])


if __name__ == "__main__":
    main()
