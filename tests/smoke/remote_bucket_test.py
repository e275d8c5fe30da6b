"""Reads data sets from s3:// through the real program, against moto's S3 server."""

import importlib.util
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest
from unittest import mock

from support import BINARY, main
from support.remote import SECRET, Remote, serve, write_everything


def moto_python():
    """Returns a python3 that has moto's server: this interpreter, or the one of scripts/setup --checks."""
    if importlib.util.find_spec("moto") and importlib.util.find_spec("flask"):
        return sys.executable
    cache = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache")
    made = cache / "trainctl/checks-venv/bin/python"
    return str(made) if made.exists() else None


PREPARE = """\
import json, os, pathlib, sys, boto3
url, data = sys.argv[1:3]
def client(name):
    return boto3.client(name, endpoint_url=url, region_name="us-east-1", aws_access_key_id="a", aws_secret_access_key="b")
# Two, since moto takes the signature of a list for wrong where its prefix holds a slash, even boto3's own.
for bucket, folder in (("bucket", pathlib.Path(data)), ("photos", pathlib.Path(data, "images"))):
    client("s3").create_bucket(Bucket=bucket)
    for file in sorted(folder.rglob("*")):
        if file.is_file():
            client("s3").upload_file(str(file), bucket, str(file.relative_to(folder)))
iam = client("iam")
iam.create_user(UserName="reader")
policy = {"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Action": "s3:*", "Resource": "*"}]}
iam.put_user_policy(UserName="reader", PolicyName="all", PolicyDocument=json.dumps(policy))
key = iam.create_access_key(UserName="reader")["AccessKey"]
import urllib.request
request = urllib.request.Request(url + "/moto-api/reset-auth", data=b"0", method="POST", headers={"Content-Type": "text/plain"})
urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request)
print(key["AccessKeyId"], key["SecretAccessKey"])
"""

def has_engine():
    return json.loads(subprocess.check_output([BINARY, "version", "--json"]))["build"]["engine"]


MOTO = moto_python()
KEYS = "access_key: '${secret:TEST_S3_KEY}', secret_key: '${secret:TEST_S3_SECRET}'"


@unittest.skipUnless(MOTO, "moto's S3 server is not installed: scripts/setup --checks")
class InABucket(Remote):
    """All tests read from one server, which takes seconds to start."""

    @classmethod
    def setUpClass(cls):
        scratch = tempfile.TemporaryDirectory(prefix="trainctl-bucket-")
        cls.addClassCleanup(scratch.cleanup)
        cls.served, cls.log = pathlib.Path(scratch.name) / "data", pathlib.Path(scratch.name) / "moto.log"
        cls.served.mkdir()
        cls.stages = write_everything(cls.served)
        crop = "transforms: [{type: center_crop, size: 8}]"
        cls.stages["image_folder"] = "{type: image_folder, root: ROOT/images, %s}" % crop
        cls.stages["webdataset"] = '{type: webdataset, shards: ["ROOT/s-*.tar"], %s}' % crop
        cls.url, server = serve(cls.launch, cls.log, "/moto-api/")
        cls.addClassCleanup(server.wait)
        cls.addClassCleanup(server.terminate)
        # moto requires signed requests from here on.
        made = subprocess.run([MOTO, "-c", PREPARE, cls.url, cls.served], stdout=subprocess.PIPE, text=True, check=True)
        cls.key, cls.secret = made.stdout.split()
        patch = mock.patch.dict(os.environ, TEST_S3_KEY=cls.key, TEST_S3_SECRET=cls.secret)
        patch.start()
        cls.addClassCleanup(patch.stop)

    @classmethod
    def launch(cls, port):
        with open(cls.log, "w", encoding="utf-8") as log:
            return subprocess.Popen([MOTO, "-m", "moto.server", "-p", str(port)], stdout=log, stderr=log)

    def remote(self, keys=KEYS):
        return "{endpoint: '%s', retries: 1, %s}" % (self.url, keys)

    def requests(self):
        return self.log.read_text().count('GET /')

    def test_every_source_is_the_same_as_from_the_disk_and_the_second_run_asks_for_nothing(self):
        # As with nginx, three epochs draw each image, so that what a loader reads beyond the last epoch is stored.
        for name, stage in self.stages.items():
            expected = self.hash(stage.replace("ROOT", str(self.served)), epochs=3)
            bucket = stage.replace("ROOT/images,", "s3://photos,").replace("ROOT", "s3://bucket")
            before = self.requests()
            self.assertEqual(self.hash(bucket, "{mode: none, local: tier}", self.remote(), epochs=3), expected, name)
            after = self.requests()
            self.assertGreater(after, before)
            self.assertEqual(self.hash(bucket, "{mode: none, local: tier}", self.remote(), epochs=3), expected, name)
            self.assertEqual(self.requests(), after, name)

    def test_wrong_or_missing_credentials_end_with_exit_9_and_are_not_shown(self):
        stage = "{type: tokens, path: 's3://bucket/x.npy', sequence_length: 4}"
        with mock.patch.dict(os.environ, TEST_S3_SECRET=SECRET):
            said = self.hash(stage, "{local: tier}", self.remote(), code=9)
        self.assertIn("(HTTP 403)", said)
        self.assertIn("also access_key, secret_key and region of dataset.remote", said)
        self.assertNotIn(SECRET, said)
        with mock.patch.dict(os.environ):
            del os.environ["TEST_S3_SECRET"]
            self.assertIn("'TEST_S3_SECRET'", self.hash(stage, "{local: tier}", self.remote(), code=2))

    def test_an_absent_object_or_bucket_ends_with_exit_9(self):
        said = self.hash("{type: tokens, path: 's3://bucket/none', sequence_length: 4}", "{local: tier}", self.remote(), code=9)
        self.assertIn("s3://bucket/none does not exist", said)
        said = self.hash("{type: image_folder, root: 's3://nobucket/x'}", "{local: tier}", self.remote(), code=9)
        self.assertIn("nobucket", said)

    def test_no_file_and_no_output_holds_the_secret(self):
        stage = self.stages["mnist"].replace("ROOT", "s3://bucket")
        said = ""
        for verb in ("data hash", "show-config", "show-config --full", "validate -v"):
            process = self.start(verb.split(" -")[0], stage, "{local: tier}", self.remote(),
                                 *(["-" + verb.split(" -")[1]] if " -" in verb else []))
            out, err = process.communicate(timeout=300)
            self.assertEqual(process.returncode, 0, err)
            said += out + err
        self.assertIn("${secret:TEST_S3_SECRET}", said)
        self.assertNotIn(self.secret, said)
        for file in self.folder.rglob("*"):
            if file.is_file():
                self.assertNotIn(self.secret.encode(), file.read_bytes(), file)

    def run_on(self, stage, name):
        cache = "{mode: none, local: tier, budget: 100MB}"
        process = self.start("run", stage, cache, self.remote(), "trainer.devices=2", "trainer.num_threads=1",
                             "trainer.max_epochs=2", "loader.batch_size=100", "--run-dir", self.folder / name)
        out, err = process.communicate(timeout=300)
        self.assertEqual(process.returncode, 0, err)
        return out + err

    @unittest.skipUnless(has_engine(), "this build has no engine")
    def test_two_ranks_share_the_copies_and_no_file_of_the_run_holds_the_secret(self):
        stage = self.stages["npy"].replace("ROOT", "s3://bucket")
        before = self.requests()
        said = self.run_on(stage, "first")
        self.assertEqual(self.requests() - before, 3, "two blocks and one, each once for supervisor, ranks and epochs")
        said += self.run_on(stage, "second")
        self.assertEqual(self.requests() - before, 3)
        self.assertNotIn(self.secret, said)
        files = [file for file in self.folder.rglob("*") if file.is_file()]
        self.assertTrue([file for file in files if "first" in str(file)])
        for file in files:
            self.assertNotIn(self.secret.encode(), file.read_bytes(), file)


if __name__ == "__main__":
    main()
