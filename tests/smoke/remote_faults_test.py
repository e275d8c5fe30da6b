"""Reads data sets from http:// through the real program, against a server that fails."""

import os
import pathlib
import shutil
import socket
import subprocess
import tarfile
import time
import unittest
from unittest import mock

from support import main
from support.remote import BLOCK, SECRET, FaultyServer, Remote, write_everything


class FromAFailingServer(Remote):
    def setUp(self):
        super().setUp()
        self.server = FaultyServer(self.data)
        self.addCleanup(self.server.server_close)
        self.addCleanup(self.server.shutdown)
        self.stages = write_everything(self.data)

    def stage(self, name):
        return self.stages[name].replace("ROOT", self.server.url)

    def test_passing_faults_change_nothing(self):
        """Most of the time, the processes wait for their next try, so they run side by side."""
        started = []
        for name in ("npy", "image_list"):
            expected = self.hash(self.stages[name].replace("ROOT", str(self.data)))
            for fault in (500, 503, 429, "reset", "truncate", "short", "delay"):
                server = FaultyServer(self.data)
                self.addCleanup(server.server_close)
                self.addCleanup(server.shutdown)
                server.faults = [fault, fault, None]
                stage = self.stages[name].replace("ROOT", server.url)
                started.append((name, fault, expected, server, self.start("data hash", stage, "{mode: none, local: tier-%s-%s}" % (name, fault))))
        for name, fault, expected, server, process in started:
            out, err = process.communicate(timeout=120)
            self.assertEqual((process.returncode, out), (0, expected), f"{name}, {fault}: {err}")
            self.assertEqual(server.faults, [], "the faults were met")

    def test_a_list_of_this_machine_may_name_what_lies_on_a_server(self):
        stage = self.stages["image_list"].replace("ROOT", str(self.data))
        expected = self.hash(stage)
        lines = (self.data / "list.csv").read_text().splitlines()
        (self.folder / "urls.csv").write_text("".join(f"{self.server.url}/{line}\n" for line in lines))
        stage = stage.replace(f"{self.data}/list.csv", "urls.csv")
        self.assertEqual(self.hash(stage), expected)
        self.server.requests.clear()
        self.assertEqual(self.hash(stage), expected)
        self.assertEqual(self.server.requests, [])

    def test_some_shards_may_lie_on_a_server_and_others_here(self):
        shard, pad = self.data / "s-1.tar", self.folder / "pad.bin"
        pad.write_bytes(bytes(BLOCK + 1))
        with tarfile.open(shard) as tar:
            tar.extractall(self.folder / "members")
        with tarfile.open(shard, "w") as tar:  # moves the samples to the second block, which is not downloaded when the run starts
            tar.add(pad, "readme")
            for member in sorted((self.folder / "members").iterdir()):
                tar.add(member, member.name)
        stage = '{type: webdataset, shards: ["%s/s-0.tar", "%s/s-1.tar"], transforms: [{type: center_crop, size: 8}]}'
        expected = self.hash(stage % (self.data, self.data))
        for tier in ("tier", "another"):  # the second time, the index is cached, but no part of the shard is local
            self.assertEqual(self.hash(stage % (self.data, self.server.url), "{mode: none, local: %s}" % tier), expected)
        (self.data / "s-1.tar").write_bytes(b"")
        said = self.hash(stage % (self.data, self.server.url), "{mode: none, local: third}", code=9)
        self.assertIn(f"{self.server.url}/s-1.tar", said)

    def test_a_fault_that_stays_ends_with_exit_11_and_leaves_nothing_that_looks_whole(self):
        for fault, words in ((500, "HTTP 500"), ("truncate", ""), ("short", "expected"), ("reset", "")):
            self.server.always = fault
            said = self.hash(self.stage("npy"), "{mode: none, local: tier}", "{retries: 1}", code=11)
            self.assertIn(f"{self.server.url}/y.npy" if "y.npy" in said else f"{self.server.url}/x.npy", said)
            self.assertIn("(2 attempts)", said)
            self.assertIn(words, said)
        self.server.always = None
        self.assertEqual(self.hash(self.stage("npy")), self.hash(self.stages["npy"].replace("ROOT", str(self.data))))

    def test_a_server_that_does_not_answer_in_time_ends_with_exit_11(self):
        self.server.always, self.server.delay_s = "delay", 3
        said = self.hash(self.stage("npy"), "{local: tier}", "{retries: 0, timeout_s: 0.3}", code=11)
        self.assertIn("cannot read", said)
        with socket.socket() as deaf:  # the socket is bound but does not listen, so no other test can take the port
            deaf.bind(("127.0.0.1", 0))
            url = f"http://127.0.0.1:{deaf.getsockname()[1]}"
            said = self.hash(self.stages["npy"].replace("ROOT", url), "{local: tier}", "{retries: 1}", code=11)
        self.assertIn("(2 attempts)", said)

    def test_a_server_without_ranges_serves_small_files_and_says_so_of_large_ones(self):
        self.server.ignores_ranges = True
        self.assertEqual(self.hash(self.stage("mnist")), self.hash(self.stages["mnist"].replace("ROOT", str(self.data))))
        self.assertIn("does not support range requests", self.hash(self.stage("npy"), code=9))

    def test_an_error_is_reported_at_once_though_other_files_hang(self):
        self.server.always, self.server.delay_s = "delay", 120
        self.server.by_path = {"/list.csv": None, "/images/0/0%20.png": 404}
        started = time.monotonic()
        said = self.hash(self.stage("image_list"), "{mode: none, local: tier}", "{retries: 1, timeout_s: 90}",
                         "loader.shuffle=false", code=9)
        self.assertIn("/images/0/0 .png does not exist", said)
        self.assertLess(time.monotonic() - started, 60, "it waited for the others, whose time is 90 s")

    def test_an_answer_that_may_be_cut_off_is_asked_for_again(self):
        expected = self.hash(self.stages["image_list"].replace("ROOT", str(self.data)))
        self.server.faults = ["unmarked", "unmarked", None, "unmarked"]
        self.assertEqual(self.hash(self.stage("image_list")), expected)
        self.server.always = "unmarked"
        said = self.hash(self.stage("image_list"), "{local: other}", "{retries: 1}", code=11)
        self.assertIn("may be truncated", said)

    def test_a_refusal_is_reported_as_one_however_short_the_block(self):
        (self.data / "x.bin").write_bytes(bytes(BLOCK + 10))
        self.server.faults, self.server.always, self.server.words = [None], 403, b"words" * 56
        said = self.hash("{type: tokens, path: %s/x.bin, sequence_length: 4}" % self.server.url, code=9)
        self.assertIn("denied access", said)
        self.assertIn("(HTTP 403)", said)
        self.server.faults, self.server.words = [None], b"words" * 100_000
        said = self.hash("{type: tokens, path: %s/x.bin, sequence_length: 4}" % self.server.url, "{local: other}", code=9)
        self.assertIn("(HTTP 403)", said)

    def test_compressed_bytes_are_not_taken_for_the_file(self):
        self.server.by_path = {"/images/1/1%20.png": "gzip"}
        said = self.hash(self.stage("image_list"), code=9)
        self.assertIn("/images/1/1 .png compressed (gzip)", said)

    def test_a_log_in_page_in_place_of_an_image_names_its_local_copy(self):
        expected = self.hash(self.stages["image_list"].replace("ROOT", str(self.data)))
        self.server.by_path = {"/images/1/1%20.png": "login"}
        for mode in ("none", "encoded", "decoded"):
            said = self.hash(self.stage("image_list"), "{mode: %s, local: tier}" % mode, code=9)
            self.assertIn(f"the local copy of {self.server.url}/images/1/1 .png", said, mode)
        copy, = (file for file in (self.folder / "tier/objects").rglob("*.data") if b"log in" in file.read_bytes())
        self.assertIn(str(copy.name), said)
        copy.unlink()
        self.server.by_path = {}
        self.assertEqual(self.hash(self.stage("image_list")), expected)

    def test_a_remote_list_cannot_name_local_files(self):
        (self.data / "out.csv").write_text(f"file://{self.data}/images/0/0 .png,0\n" * 10)
        stage = self.stage("image_list").replace("list.csv", "out.csv")
        self.assertIn("must be on the same host as", self.hash(stage, code=9))
        self.hash(stage.replace("{type", "{follow_links: true, type", 1))

    def test_credentials_in_the_endpoint_are_neither_used_nor_shown(self):
        for endpoint in ("http://me:%s@%s" % (SECRET, self.server.url[7:]), "%s/?X-Amz-Signature=%s" % (self.server.url, SECRET)):
            remote = "{endpoint: '%s', retries: -1}" % endpoint
            said = self.hash(self.stages["image_list"].replace("ROOT", "s3://bucket"), "{local: tier}", remote, code=2)
            self.assertIn("an address must not contain a", said)
            self.assertNotIn(SECRET, said)
            process = self.start("data hash", self.stage("image_list"), "{local: tier}", "{}", "dataset.remote.endpoint=" + endpoint)
            out, err = process.communicate(timeout=300)
            self.assertEqual(process.returncode, 2, err)
            self.assertNotIn(SECRET, out + err)
        self.assertEqual(self.server.requests, [])

    def test_more_bytes_than_announced_are_not_taken(self):
        self.server.always = "more"
        self.assertEqual(self.hash(self.stage("npy")), self.hash(self.stages["npy"].replace("ROOT", str(self.data))))

    def test_an_etag_that_changes_between_requests_ends_with_exit_9(self):
        self.server.changes_etags = True
        said = self.hash(self.stage("npy"), "{local: tier}", "{retries: 1}", code=9)
        self.assertIn(f"{self.server.url}/x.npy has changed since its download started", said)

    def test_an_answer_that_trickles_ends_with_the_time_of_a_try(self):
        self.server.always, self.server.delay_s = "trickle", 0.05
        started = time.monotonic()
        said = self.hash(self.stage("npy"), "{local: tier}", "{retries: 1, timeout_s: 0.5}", code=11)
        self.assertIn("(2 attempts)", said)
        self.assertLess(time.monotonic() - started, 60, "all of it would take days")

    def test_a_name_that_nobody_knows_ends_with_exit_11(self):
        with mock.patch.dict(os.environ, RES_OPTIONS="timeout:1 attempts:1"):  # no name server answers
            said = self.hash("{type: tokens, path: 'http://no-such-host.invalid/a.bin', sequence_length: 4}", "{local: tier}",
                             "{retries: 1}", code=11)
        self.assertIn("cannot read http://no-such-host.invalid/a.bin: Could not resolve host", said)

    def test_redirections_are_followed_but_not_in_circles_and_not_to_files(self):
        front = FaultyServer(self.data)
        self.addCleanup(front.server_close)
        self.addCleanup(front.shutdown)
        front.redirects_to = self.server.url
        expected = self.hash(self.stages["npy"].replace("ROOT", str(self.data)))
        self.assertEqual(self.hash(self.stages["npy"].replace("ROOT", front.url)), expected)
        self.server.redirects_to = front.url
        for target, words in ((self.server.url, "redirects more than 5 times"), ("file://" + str(self.data), "forbidden protocol")):
            front.redirects_to = target
            front.requests.clear()
            said = self.hash(self.stages["npy"].replace("ROOT", front.url), "{local: other}", code=9)
            self.assertIn(words, said)
            self.assertIn(front.url, said)
            self.assertLessEqual(len(front.requests), 2 * 6, "one try for each of the two files")

    @unittest.skipUnless(shutil.which("openssl"), "openssl is not installed")
    def test_https_is_checked_and_never_left_for_http(self):
        pem = self.folder / "pem"
        subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", pem, "-out", self.folder / "crt",
                        "-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1"], check=True, capture_output=True)
        pem.write_text(pem.read_text() + (self.folder / "crt").read_text())
        secure = FaultyServer(self.data, pem)
        self.addCleanup(secure.server_close)
        self.addCleanup(secure.shutdown)
        stage = self.stages["mnist"].replace("ROOT", secure.url)
        self.assertIn("certificate", self.hash(stage, code=9))
        with mock.patch.dict(os.environ, SSL_CERT_FILE=str(self.folder / "crt")):
            self.assertEqual(self.hash(stage), self.hash(self.stages["mnist"].replace("ROOT", str(self.data))))
            secure.redirects_to = self.server.url
            self.assertIn("from https to http", self.hash(stage, "{local: other}", code=9))
        self.assertEqual(self.server.requests, [])

    def test_a_damaged_copy_is_fetched_again(self):
        expected = self.hash(self.stage("npy"))
        copy, = (self.folder / "tier/objects").rglob("*x.npy.data")
        content = bytearray(copy.read_bytes())
        content[BLOCK + 5] ^= 1
        copy.write_bytes(content)
        self.server.requests.clear()
        self.assertEqual(self.hash(self.stage("npy")), expected)
        self.assertEqual([asked.split("-")[0] for _, asked in self.server.requests], [f"bytes={BLOCK}"])

    def test_a_full_local_disk_ends_with_exit_11(self):
        (self.folder / "tier").mkdir()
        inside = ("unshare", "-rm", "sh", "-c", 'mount -t tmpfs -o size=1m none "$0" && exec "$@"', self.folder / "tier")
        if not shutil.which("unshare") or subprocess.run([*inside, "true"], capture_output=True).returncode != 0:
            self.skipTest("no file system of 1 MiB can be made here")
        self.prefix = inside
        said = self.hash(self.stage("npy"), "{mode: none, local: tier, budget: 1GB}", code=11)
        self.assertIn("No space left on device", said)
        self.assertIn("dataset.cache.local", said)

    def test_a_download_that_was_killed_continues_and_a_changed_file_starts_again(self):
        expected = self.hash(self.stages["npy"].replace("ROOT", str(self.data)))
        for change in (False, True):
            shutil.rmtree(self.folder / "tier", ignore_errors=True)
            self.server.requests.clear()
            self.server.faults, self.server.always, self.server.delay_s = [None], "slow", 0.1
            process = self.start("data hash", self.stage("npy"))
            while len(self.server.requests) < 2:  # the process has the first block and waits for the second
                self.assertIsNone(process.poll())
                time.sleep(0.01)
            time.sleep(0.2)
            process.kill()
            process.communicate()
            self.server.requests.clear()
            self.server.always = None
            if change:
                content = bytearray((self.data / "x.npy").read_bytes())
                content[-1] ^= 1
                (self.data / "x.npy").write_bytes(content)
            found = self.hash(self.stage("npy"))
            blocks = [asked for path, asked in self.server.requests if path == "/x.npy"]
            if change:
                self.assertNotEqual(found, expected)
                self.assertEqual(found, self.hash(self.stages["npy"].replace("ROOT", str(self.data))))
            else:
                self.assertEqual(found, expected)
                self.assertEqual(blocks, [f"bytes={BLOCK}-{2 * BLOCK - 1}"[:14] + blocks[0][14:]], "only the second block")

    def test_credentials_in_a_path_are_refused(self):
        for path in ("http://me:%s@127.0.0.1/x.bin" % SECRET, "http://127.0.0.1/x.bin?X-Amz-Signature=" + SECRET):
            said = self.hash("{type: tokens, path: '%s', sequence_length: 4}" % path, code=2)
            self.assertIn("${secret:NAME}", said)
            self.assertNotIn(SECRET, said)


class TrainedFromAFailingServer(Remote):
    def setUp(self):
        super().setUp()
        self.server = FaultyServer(self.data)
        self.addCleanup(self.server.server_close)
        self.addCleanup(self.server.shutdown)
        self.stage = write_everything(self.data)["image_list"].replace("ROOT", self.server.url)

    def test_a_run_whose_server_hangs_is_stopped_by_a_signal_and_leaves_its_checkpoint(self):
        self.server.by_path = {"/list.csv": None, **{f"/images/{i % 2}/{i}%20.png": None for i in range(20)}}
        self.server.always, self.server.delay_s = "delay", 120
        for workers in (0, 2):
            run = self.folder / f"run{workers}"
            words = ("loader.shuffle=false", f"loader.num_workers={workers}", "trainer.max_epochs=3",
                     "+trainer.log_every_n_steps=1", "--run-dir", run)
            process = self.start("run", self.stage, "{mode: none, local: tier%d}" % workers, "{timeout_s: 60}", *words)
            deadline, asleep = time.monotonic() + 120, 0
            while asleep < 3 and process.poll() is None and time.monotonic() < deadline:
                asleep = asleep + 1 if self.hangs(run) and self.sleeps(process) else 0
                time.sleep(0.1)
            process.terminate()
            out, err = process.communicate(timeout=300)
            self.assertEqual(process.returncode, 143, out + err)
            self.assertIn("checkpoints/last.safetensors (step 2)", err, "it was killed after the grace, or never got to wait")
            self.assertTrue((run / "checkpoints/last.safetensors").is_file(), out + err)
            self.server.requests.clear()

    def hangs(self, run):
        """Returns whether the steps with complete images are done and the images of the next step were requested."""
        steps = run / "metrics.jsonl"
        return len(self.server.requests) >= 25 and steps.exists() and '"step":2,' in steps.read_text()

    @staticmethod
    def sleeps(process):
        """Returns whether all threads of the worker wait. A thread that has work is runnable, however long it waits for a core."""
        workers = pathlib.Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
        if len(workers) != 1:
            return False
        [worker] = workers
        states = [path.read_text().rsplit(")", 1)[1].split()[0] for path in pathlib.Path(f"/proc/{worker}/task").glob("*/stat")]
        return set(states) == {"S"}


if __name__ == "__main__":
    main()
