"""Tests the tools of the proofs: they find a difference, require that a repeated step agrees, and count tries correctly."""

import itertools
import json
import pathlib
import shutil
import struct
import tempfile
import unittest

import compare
import proof

RESULT = {"verdict": "ok", "exit_code": 0, "steps": 4, "train": {}, "val": {}, "data_digest": "ab", "world_size": 1, "wall_s": 1}


def container(entries, meta):
    """Returns a file as lib/checkpoint/container.hpp describes it, but without checksums, which only the program checks."""
    listed, data = [], b""
    for name, content in entries.items():
        data += bytes(-len(data) % 64)
        listed.append({"name": name, "dtype": "U8", "shape": [len(content)], "offset": len(data), "length": len(content)})
        data += content
    header = json.dumps({"entries": listed, "meta": meta}).encode()
    padding = bytes(-(32 + len(header)) % 64)
    length = 32 + len(header) + len(padding) + len(data)
    return struct.pack("<8sIIQQ", b"TCTLCKPT", 1, 0, length, len(header)) + header + padding + data


def write_run(folder, weights=b"weights", seconds=1.0):
    checkpoint = folder / "checkpoints/epoch=0002-step=000004"
    checkpoint.mkdir(parents=True)
    entries = {"model/w": weights, "optimizer/m": b"momentum"}
    (checkpoint / "rank_0.part").write_bytes(container(entries, {"training": {"elapsed_s": seconds}}))
    (checkpoint / "manifest").write_bytes(container({}, {}))
    (folder / "checkpoints/last").symlink_to(checkpoint.name)
    (folder / "checkpoints/best.safetensors").write_bytes(weights)
    lines = [{"type": "step", "epoch": 1, "step": step, "elapsed_s": seconds * step, "train/loss": 1 / step}
             for step in (1, 2, 3, 4)]
    (folder / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    (folder / "epochs.csv").write_text(f"epoch,step,lr,train/loss,wall_s\n1,2,0.1,0.5,{seconds}\n2,4,0.1,0.25,{seconds}\n")
    (folder / "result.json").write_text(json.dumps({**RESULT, "wall_s": seconds}))


class Compares(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory(prefix="trainctl-soak-")
        self.addCleanup(scratch.cleanup)
        self.one, self.other = (pathlib.Path(scratch.name) / name for name in ("one", "other"))
        write_run(self.one)

    def found(self):
        return compare.differences(self.other, self.one)

    def copied(self):
        shutil.copytree(self.one, self.other, symlinks=True)

    def append(self, name, text):
        with open(self.other / name, "a") as file:
            file.write(text)

    def test_runs_that_took_another_time_are_the_same(self):
        write_run(self.other, seconds=2.5)
        self.assertEqual(self.found(), [])

    def test_one_byte_of_the_weights_is_seen_in_part_and_export(self):
        write_run(self.other, weights=b"weighty")
        self.assertEqual(self.found(), ["rank_0.part: model/w differs", "best.safetensors differs or is not there"])

    def test_another_number_of_the_history_is_seen(self):
        self.copied()
        for name in ("metrics.jsonl", "epochs.csv"):
            path = self.other / name
            path.write_text(path.read_text().replace("0.25", "0.26"))
        self.assertEqual([line.split(" differ")[0] for line in self.found()], ["lines of metrics.jsonl", "rows of epochs.csv"])

    def test_a_history_that_lacks_its_end_is_seen(self):
        self.copied()
        path = self.other / "metrics.jsonl"
        path.write_text("".join(path.read_text().splitlines(keepends=True)[:3]))
        self.assertEqual(len(self.found()), 1)

    def test_other_batches_and_another_last_step_are_seen(self):
        self.copied()
        (self.other / "result.json").write_text(json.dumps({**RESULT, "data_digest": "cd"}))
        self.assertEqual(self.found(), ["result.json says of data_digest: cd and ab"])
        place = self.other / "checkpoints"
        (place / "epoch=0002-step=000004").rename(place / "epoch=0001-step=000003")
        (place / "last").unlink()
        (place / "last").symlink_to("epoch=0001-step=000003")
        self.assertIn("checkpoints/last is epoch=0001-step=000003 and epoch=0002-step=000004", self.found())

    def test_steps_that_come_again_have_to_say_the_same(self):
        self.copied()
        lines = (self.other / "metrics.jsonl").read_text().splitlines(keepends=True)
        (self.other / "metrics.jsonl").write_text("".join([*lines[:3], '{"type": "st\n', *lines[1:]]))
        self.assertEqual(self.found(), [], "a resumed run repeats what came after its checkpoint")
        self.append("metrics.jsonl", lines[3].replace("0.25", "0.26"))
        with self.assertRaisesRegex(AssertionError, "what was repeated differs"):
            self.found()

    def test_steps_that_were_superseded_must_be_the_same(self):
        self.copied()
        superseded = self.other / "superseded/1"
        superseded.mkdir(parents=True)
        last = (self.other / "metrics.jsonl").read_text().splitlines(keepends=True)[3]
        (superseded / "metrics.jsonl").write_text(last)
        self.assertEqual(self.found(), [])
        (superseded / "metrics.jsonl").write_text(last.replace("0.25", "0.26"))
        with self.assertRaisesRegex(AssertionError, "the superseded lines differ"):
            self.found()

    def test_epochs_that_come_again_have_to_say_the_same(self):
        self.copied()
        self.append("epochs.csv", "2,4,0.1,0.25,9.5\n")
        self.assertEqual(self.found(), [])
        self.append("epochs.csv", "2,4,0.1,0.24,1.0\n")
        with self.assertRaisesRegex(AssertionError, "what was repeated differs"):
            self.found()


class Counted(proof.Proof):
    """The tests below run this class; it is not a test by itself."""

    proof = "counted"
    fast = long = 6

    def runTest(self):
        pass


class Counts(unittest.TestCase):
    def counted(self, try_one, cases=None):
        inner = Counted()
        inner.setUp()
        self.addCleanup(inner.doCleanups)
        inner.prove(try_one, cases)

    def test_tries_are_made_till_there_are_enough(self):
        made = []

        def two_each(case, draw, folder):
            made.append((case, draw.random(), folder.is_dir()))
            return 2

        self.counted(two_each)
        self.assertEqual([(case, there) for case, _, there in made], [(0, True), (1, True), (2, True)])
        self.assertEqual(len({number for _, number, _ in made}), 3)

    def test_a_fault_that_missed_its_moment_is_no_try(self):
        made = []

        def every_other(case, _, __):
            if case % 2:
                raise proof.Unmet("a moment")
            made.append(case)

        self.counted(every_other)
        self.assertEqual(made, [0, 2, 4, 6, 8, 10])

    def test_where_nothing_could_be_tried_the_proof_fails(self):
        def never(_, __, ___):
            raise proof.Unmet("a moment")

        with self.assertRaisesRegex(AssertionError, "no fault came at its moment"):
            self.counted(never)

    def test_one_wrong_try_fails_the_proof_and_is_reported(self):
        def third_is_wrong(case, _, __):
            if case == 2:
                raise AssertionError("a weight differs")

        with self.assertRaisesRegex(AssertionError, r"2: a weight differs[\s\S]*1 of 6 failed"):
            self.counted(third_is_wrong)

    def test_cases_that_run_out_end_it(self):
        made = []
        self.counted(lambda case, _, __: made.append(case), itertools.islice(itertools.count(), 2))
        self.assertEqual(made, [0, 1])


if __name__ == "__main__":
    proof.main()
