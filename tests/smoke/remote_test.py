"""Reads data sets from http:// through the real program, against nginx."""

import collections
import shutil
import subprocess
import time
import unittest

from support import main
from support.remote import Remote, serve, wait_for, write_everything


@unittest.skipUnless(shutil.which("nginx"), "nginx is not installed: scripts/setup --checks")
class ServedByNginx(Remote):
    def setUp(self):
        super().setUp()
        self.log = self.folder / "access.log"
        self.url, server = serve(self.launch, self.log)
        self.addCleanup(server.wait)
        self.addCleanup(server.terminate)
        self.markers = 0

    def launch(self, port):
        (self.folder / "nginx.conf").write_text(f"""
daemon off; master_process off; pid {self.folder}/pid; error_log {self.folder}/error.log;
events {{ }}
http {{
  access_log {self.log}; client_body_temp_path {self.folder}/t1; proxy_temp_path {self.folder}/t2;
  fastcgi_temp_path {self.folder}/t3; uwsgi_temp_path {self.folder}/t4; scgi_temp_path {self.folder}/t5;
  server {{ listen 127.0.0.1:{port}; root {self.data}; location /closed/ {{ return 403; }} }}
}}""")
        return subprocess.Popen(["nginx", "-p", self.folder, "-c", self.folder / "nginx.conf"], stderr=subprocess.DEVNULL)

    def logged(self):
        """Returns the requests so far. nginx logs a request after it has sent the answer, so this waits for a final marker
        request in the log."""
        self.markers += 1
        marker = f"/marker-{self.markers} "
        wait_for(self.url + marker.strip(), None)
        deadline = time.monotonic() + 30
        while marker not in self.log.read_text() and time.monotonic() < deadline:
            time.sleep(0.01)
        return [line for line in self.log.read_text().splitlines() if "/marker-" not in line and '"trainctl"' in line]

    def served(self):
        """Returns how often nginx sent each file, in whole or in part."""
        lines = self.logged()
        return collections.Counter(line.split('"')[1].split()[1] for line in lines if line.split('"')[2].split()[0] in ("200", "206"))

    def test_every_source_is_the_same_as_from_the_disk_and_the_second_run_asks_for_nothing(self):
        # A loader also reads some samples of the epoch after the last one, how many depends on the load. The concat draws each
        # image in three epochs, not in two. So the first run stores all that the second run can read.
        asked = 0
        for name, stage in write_everything(self.data).items():
            expected = self.hash(stage.replace("ROOT", str(self.data)), epochs=3)
            remote = stage.replace("ROOT", self.url)
            self.assertEqual(self.hash(remote, epochs=3), expected, name)
            first = self.logged()
            self.assertTrue(any(" 206 " in line or " 200 " in line for line in first[asked:]), name)
            self.assertEqual(self.hash(remote, epochs=3), expected, name)
            self.assertEqual(self.logged(), first, name)
            asked = len(first)
        drawn = [count for path, count in self.served().items() if path.startswith(("/some/", "/more/"))]
        self.assertEqual(drawn, [1] * 30, "each image of the concat was asked for once")

    def test_a_pack_is_read_in_ranges(self):
        stages = write_everything(self.data)
        process = self.start("data pack", stages["npy"].replace("ROOT", str(self.data)), "{}", "{}", "--out", self.data / "d.pack")
        self.assertEqual(process.communicate(timeout=300) and process.returncode, 0)
        stage = "{type: pack, path: ROOT/d.pack}"
        expected = self.hash(stage.replace("ROOT", str(self.data)))
        self.assertEqual(self.hash(stage.replace("ROOT", self.url), "{local: tier}"), expected)
        self.assertEqual(self.served(), {"/d.pack": 2})
        self.assertEqual(self.hash(stage.replace("ROOT", self.url), "{local: tier}"), expected)
        self.assertEqual(self.served(), {"/d.pack": 2})

    def test_processes_that_start_together_fetch_each_block_once(self):
        stage = write_everything(self.data)["npy"].replace("ROOT", self.url)
        processes = [self.start("data hash", stage) for _ in range(4)]
        ends = [process.communicate(timeout=300) + (process.returncode,) for process in processes]
        self.assertEqual([end[2] for end in ends], [0] * 4, ends)
        self.assertEqual(len({end[0] for end in ends}), 1)
        self.assertEqual(self.served(), {"/x.npy": 2, "/y.npy": 1})

    def test_absent_and_refused_files_fail_at_once_with_the_way_out(self):
        said = self.hash("{type: tokens, path: %s/none.bin, sequence_length: 4}" % self.url, code=9)
        self.assertIn(f"{self.url}/none.bin does not exist", said)
        said = self.hash("{type: tokens, path: %s/closed/a.bin, sequence_length: 4}" % self.url, code=9)
        self.assertIn("denied access", said)
        self.assertIn(f"{self.url}/closed/a.bin (HTTP 403)", said)
        self.assertIn("cannot list", self.hash("{type: image_folder, root: %s}" % self.url, code=2))
        asked = [line.split('"')[1].split()[1] for line in self.logged()]
        self.assertEqual(asked, ["/none.bin", "/closed/a.bin"], "each was tried once")

    def test_the_default_folder_is_the_users_cache(self):
        stage = write_everything(self.data)["mnist"].replace("ROOT", self.url)
        self.hash(stage, "{}")
        self.assertTrue((self.folder / "xdg/trainctl/remote/objects").is_dir())

    def test_a_small_budget_only_costs_further_reads(self):
        stage = write_everything(self.data)["image_list"]
        expected = self.hash(stage.replace("ROOT", str(self.data)))
        small = "{mode: none, local: tier, budget: 40KiB}"
        self.assertEqual(self.hash(stage.replace("ROOT", self.url), small), expected)
        held = sum(file.stat().st_blocks * 512 for file in (self.folder / "tier/objects").rglob("*") if file.is_file())
        self.assertLessEqual(held, 40 << 10)
        said = self.hash(stage.replace("ROOT", self.url), "{mode: none, local: other, budget: 100B}", code=11)
        self.assertIn("dataset.cache.budget", said)


if __name__ == "__main__":
    main()
