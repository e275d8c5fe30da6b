"""Two supervisors form one run, as on two machines: on loopback and in two network namespaces. Needs TRAINCTL_BINARY."""

import json
import os
import pathlib
import secrets
import shutil
import signal
import subprocess
import time

from support import BINARY, ENDLESS, Smoke, free_port, main, marked, measures_time, run, start, worker_of

BEAT_S = 5  # a node counts as lost after three missed heartbeats, and a busy machine delays them
GONE_S = 30  # 5 are enough on an idle machine, but other tests use this one
SAVES = ["++checkpoint.every_n_steps=20"]


class Nodes(Smoke):
    """`node(K)` starts supervisor K of two; node 0 writes into `self.run_dir`."""

    beat_s = BEAT_S

    def setUp(self):
        super().setUp()
        self.mark = f"{os.getpid()}-{secrets.token_hex(4)}"
        self.token, self.endpoint = secrets.token_hex(32), f"127.0.0.1:{free_port()}"
        self.run_dir = self.folder / "run"
        self.before = []  # a command prefix for each node
        self.addCleanup(self.end_all)

    def environment(self, **changes):
        return {**os.environ, "SMOKE_MARK": self.mark, "TRAINCTL_RDZV_TOKEN": self.token,
                "TRAINCTL_NODE_BEAT_S": str(self.beat_s), **changes}

    def node(self, number, *words, token=None):
        place = ["--nnodes", "2", "--node-rank", str(number), "--rdzv-endpoint", self.endpoint]
        if number == 0 and "--run-dir" not in words:
            place += ["--run-dir", self.run_dir]
        environment = self.environment(**({} if token is None else {"TRAINCTL_RDZV_TOKEN": token}))
        command = ["run", "digits.yaml", *words, *place]
        if not self.before:
            return start(self.folder, *command, env=environment)
        return subprocess.Popen([*self.before[number], BINARY, *map(str, command)], cwd=self.folder, stdin=subprocess.DEVNULL,
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment)

    def both(self, *words):
        return self.node(0, *words), self.node(1, *words)

    def end_all(self):
        for pid in marked(self.mark):
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass

    def codes(self, *processes, timeout=300):
        """Returns the exit codes, and keeps the output in self.said."""
        self.said = ""
        codes = []
        for process in processes:
            out, err = process.communicate(timeout=timeout)
            self.said += out + err
            codes.append(process.returncode)
        return codes

    def gone(self):
        end = time.monotonic() + GONE_S
        while marked(self.mark) and time.monotonic() < end:
            time.sleep(0.05)
        self.assertEqual(marked(self.mark), [], "processes were left: " + self.said)

    def result(self):
        return json.loads((self.run_dir / "result.json").read_text())

    def training(self, *words):
        """Returns both supervisors and the workers of ranks 0 and 1 once the run trains."""
        head, other = self.both(*ENDLESS, *words)
        workers = [worker_of(self.run_dir, self.mark, head, rank) for rank in (0, 1)]
        return head, other, workers


class TwoNodesAreOne(Nodes):
    def test_two_nodes_of_one_device_give_the_bits_of_one_with_two(self):
        alone = self.train("trainer.devices=2", "++trainer.max_restarts=0")
        one, weights = self.losses(self.run_dir), self.weights()
        self.run_dir = self.folder / "pair"
        processes = self.node(0), self.node(1, "++distributed.interface=127.0.0.2")
        self.assertEqual(self.codes(*processes), [0, 0], self.said)
        pair = self.result()
        self.assertEqual(self.losses(self.run_dir), one)
        self.assertEqual((pair["world_size"], pair["data_digest"], pair["steps"]),
                         (2, alone["data_digest"], alone["steps"]))
        self.assertEqual(self.weights(), weights)
        self.assertTrue((self.run_dir / "logs/rank_1.log").is_file())
        self.assertFalse((self.run_dir / ".lock").exists())
        self.assertNotIn(self.token, self.said)
        self.gone()

    def test_nodes_without_a_token_meet_in_out_wherever_the_run_folder_lies(self):
        words = ["trainer.max_epochs=1", "++early_stopping=~", "--out", "shared"]
        self.run_dir = self.folder / "elsewhere" / "run"
        head, other = (self.node(number, *words, token="") for number in (0, 1))
        meeting = f".rendezvous-{self.endpoint.replace(':', '_')}-"
        deadline = time.monotonic() + 60
        seen = []
        while not seen and head.poll() is None and time.monotonic() < deadline:
            seen = [path for path in (self.folder / "shared").glob(".rendezvous-*") if ".tmp." not in path.name]
            time.sleep(0.005)
        self.assertEqual(self.codes(head, other), [0, 0], self.said)
        self.assertTrue(seen and seen[0].name.startswith(meeting), (seen, self.said))
        self.assertEqual(list(self.folder.rglob(".rendezvous-*")), [], "the file is removed at the end")
        self.gone()

    def weights(self):
        found = {path.name: path.read_bytes() for path in (self.run_dir / "checkpoints").glob("*.safetensors")}
        self.assertTrue(found)
        return found

    def test_nobody_listens_on_all_addresses(self):
        head, other, _ = self.training()
        listening = []
        for name in ("tcp", "tcp6"):
            for line in pathlib.Path(f"/proc/{head.pid}/net/{name}").read_text().splitlines()[1:]:
                words = line.split()
                if words[3] == "0A":
                    listening.append((words[1], int(words[9])))
        inodes = set()
        for pid in marked(self.mark):
            for link in pathlib.Path(f"/proc/{pid}/fd").iterdir():
                try:
                    target = os.readlink(link)
                except OSError:
                    continue
                if target.startswith("socket:["):
                    inodes.add(int(target[8:-1]))
        ours = [address for address, inode in listening if inode in inodes]
        self.assertTrue(ours)
        self.assertEqual([address for address in ours if set(address.split(":")[0]) == {"0"}], [])
        head.send_signal(signal.SIGTERM)
        self.codes(head, other)
        self.gone()


class NodesThatFail(Nodes):
    def test_a_killed_worker_of_either_node_ends_both(self):
        for rank in (0, 1):
            self.run_dir = self.folder / f"worker-{rank}"
            self.endpoint = f"127.0.0.1:{free_port()}"
            head, other, workers = self.training()
            os.kill(workers[rank], signal.SIGKILL)
            self.assertEqual(self.codes(head, other), [7, 7], self.said)
            self.gone()
            failure = self.result()["first_failure"]
            self.assertEqual((failure["rank"], failure["pid"], failure["signal"]), (rank, workers[rank], "SIGKILL"), self.said)

    def test_a_killed_supervisor_of_another_node_is_named(self):
        head, other, _ = self.training()
        other.kill()
        self.assertEqual(self.codes(head, other), [7, -9], self.said)
        self.gone()
        self.assertEqual(self.result()["first_failure"]["rank"], 1)
        self.assertIn("node 1", self.result()["message"])
        self.assertIn("is lost", self.result()["message"])

    def test_a_killed_head_ends_the_other_node(self):
        head, other, _ = self.training()
        head.kill()
        self.assertEqual(self.codes(head, other), [-9, 7], self.said)
        self.gone()
        self.assertIn("node 0", self.said)
        self.assertIn("is lost", self.said)

    def test_a_killed_worker_is_started_again_on_both_nodes(self):
        head, other, workers = self.training("++trainer.max_restarts=1", *SAVES)
        os.kill(workers[1], signal.SIGKILL)
        self.until(head, lambda: not set(workers) & set(marked(self.mark)))
        again = [worker_of(self.run_dir, self.mark, head, rank) for rank in (0, 1)]
        self.assertFalse(set(again) & set(workers))
        before = len(self.losses(self.run_dir))
        self.until(head, lambda: len(self.losses(self.run_dir)) > before + 1)
        other.send_signal(signal.SIGTERM)
        self.assertEqual(self.codes(head, other), [75, 75], self.said)
        self.assertEqual(self.result()["restarts"], 1)
        self.gone()

    def until(self, process, condition, timeout=120):
        end = time.monotonic() + timeout
        while not condition():
            if process.poll() is not None or time.monotonic() > end:
                self.codes(process)
                self.fail("the run did not start again: " + self.said)
            time.sleep(0.02)


class NodesThatStop(Nodes):
    def test_a_signal_to_either_supervisor_saves_and_the_run_can_be_resumed(self):
        for number in (0, 1):
            self.run_dir = self.folder / f"stopped-{number}"
            self.endpoint = f"127.0.0.1:{free_port()}"
            processes = self.training()[:2]
            processes[number].send_signal(signal.SIGTERM)
            self.assertEqual(self.codes(*processes), [75, 75], self.said)
            self.gone()
            saved = self.result()["checkpoint"]
            self.assertTrue(saved["verified"])
            code, out, err = run(self.folder, "checkpoint", "verify", self.run_dir / saved["path"])
            self.assertEqual(code, 0, out + err)
            epochs = len(self.losses(self.run_dir)) + 2
            words = [f"trainer.max_epochs={epochs}", "++early_stopping=~"]
            again = self.node(0, *words, "--resume", "auto"), self.node(1, *words)
            self.assertEqual(self.codes(*again), [0, 0], self.said)
            self.assertEqual(self.result()["resumed_from"]["step"], saved["step"])


class NodesThatDoNotFit(Nodes):
    def refused(self, *words, code=2, **options):
        head = self.node(0, *ENDLESS)
        other = self.node(1, *ENDLESS, *words, **options)
        self.assertEqual(self.codes(other), [code], self.said)
        said = self.said
        self.assertIsNone(head.poll(), "the master keeps waiting for the right one")
        head.send_signal(signal.SIGTERM)
        self.codes(head)
        self.gone()
        return said

    def test_another_config_is_refused_naming_the_first_value_that_differs(self):
        said = self.refused("optimizer.lr=0.003")
        self.assertIn("a different config", said)
        self.assertIn("optimizer.lr is 0.002 on node 0 and 0.003 on this node", said)

    def test_another_number_of_devices_is_refused(self):
        self.assertIn("trainer.devices", self.refused("trainer.devices=2"))

    def test_another_token_is_refused_and_no_token_is_shown(self):
        token = secrets.token_hex(32)
        said = self.refused(token=token)
        self.assertIn("token", said)
        self.assertNotIn(token, said)
        self.assertNotIn(self.token, said)

    def test_several_nodes_have_to_know_where_they_meet(self):
        code, out, err = run(self.folder, "bench", "digits.yaml", "trainer.num_nodes=2", "--repeats", "1")
        self.assertNotEqual(code, 0, out + err)
        self.assertIn("trainer.num_nodes", out + err)


class Partition(Nodes):
    """The link between two network namespaces goes down."""

    beat_s = 0.5  # the test waits for the heartbeat to time out

    def setUp(self):
        if os.geteuid() != 0 or not shutil.which("ip"):
            self.skipTest("needs root and ip")
        super().setUp()
        tag = f"{os.getpid() % 100000}"
        self.spaces = [f"tctl{tag}a", f"tctl{tag}b"]
        self.links = [f"tc{tag}a", f"tc{tag}b"]
        self.addCleanup(self.remove)
        try:
            for space in self.spaces:
                self.ip("netns", "add", space)
                self.ip("-n", space, "link", "set", "lo", "up")
            self.ip("link", "add", self.links[0], "type", "veth", "peer", "name", self.links[1])
            for number, (space, link) in enumerate(zip(self.spaces, self.links)):
                self.ip("link", "set", link, "netns", space)
                self.ip("-n", space, "addr", "add", f"10.99.77.{number + 1}/24", "dev", link)
                self.ip("-n", space, "link", "set", link, "up")
        except subprocess.CalledProcessError as error:
            self.skipTest(f"no network namespaces here: {error.stderr.strip()}")
        self.before = [["ip", "netns", "exec", space] for space in self.spaces]
        self.endpoint = "10.99.77.1:29400"

    def ip(self, *words):
        subprocess.run(["ip", *words], check=True, capture_output=True, text=True)

    def remove(self):
        self.end_all()
        for space in self.spaces:
            subprocess.run(["ip", "netns", "del", space], capture_output=True)

    @measures_time
    def test_both_sides_see_it_and_end(self):
        head, other, _ = self.training(*SAVES)
        self.ip("-n", self.spaces[0], "link", "set", self.links[0], "down")
        began = time.monotonic()
        self.assertEqual(self.codes(head, other, timeout=300), [7, 7], self.said)
        self.assertLess(time.monotonic() - began, 3 * self.beat_s + GONE_S)
        self.gone()
        self.assertIn("sent nothing", self.result()["message"])
        self.assertEqual(self.result()["first_failure"]["rank"], 1)
        self.assertIn("node 0", self.said)


if __name__ == "__main__":
    main()
