"""Drives `trainctl checkpoint` as a user does, on checkpoints without a real network. Needs TRAINCTL_BINARY and TRAINCTL_SAVER."""

import hashlib
import json
import os
import pathlib
import pickletools
import random
import shutil
import struct
import subprocess
import tempfile
import unittest
import zipfile

BINARY = os.environ["TRAINCTL_BINARY"]
SAVER = os.environ["TRAINCTL_SAVER"]
GOLDEN = pathlib.Path(__file__).resolve().parents[1] / "golden"


def crc32c(data):
    """Returns the CRC-32C of the data. It is slow, but the files here are small."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def container(entries, meta):
    """Returns the bytes of a checkpoint file and their checksum. Entries are (name, dtype, shape, bytes)."""
    listed, body = [], b""
    for name, dtype, shape, data in entries:
        body += bytes(-len(body) % 64)
        listed.append({"name": name, "dtype": dtype, "shape": shape, "offset": len(body), "length": len(data),
                       "crc32c": f"{crc32c(data):08x}"})
        body += data
    header = json.dumps({"meta": meta, "entries": listed}, separators=(",", ":")).encode()
    if entries:
        body = bytes(-(32 + len(header)) % 64) + body

    def prefix(checksum):
        return b"TCTLCKPT" + struct.pack("<IIQQ", 1, checksum, 32 + len(header) + len(body), len(header))

    checksum = crc32c(prefix(0) + header)
    return prefix(checksum) + header + body, checksum


def floats(*values):
    return struct.pack(f"<{len(values)}f", *values)


def write_checkpoint(folder, step=7, epoch=1, format=3):
    """Writes a checkpoint of one rank: a model of one layer, an optimizer, averaged weights and the best weights."""
    path = folder / f"epoch={epoch:04}-mid-step={step:06}"
    path.mkdir(parents=True)
    tensors = [("model/fc.weight", [2, 2], floats(1, 2, 3, 4)), ("model/fc.bias", [2], floats(5, 6)),
               ("optimizer/fc.weight.exp_avg", [2, 2], floats(0, 0, 0, 1)), ("averager/fc.weight", [2, 2], floats(7, 7, 7, 7)),
               ("averager/fc.bias", [2], floats(7, 7)), ("keeper/best.fc.weight", [2, 2], floats(9, 9, 9, 9))]
    part, checksum = container([(name, "F32", shape, data) for name, shape, data in tensors],
                               {"training": {"averager": {"updates": 3}}, "world_size": 1, "rank": 0})
    (path / "rank_0.part").write_bytes(part)
    manifest, _ = container([], {
        "format": format, "epoch": epoch, "next_epoch": epoch, "step_in_epoch": 2, "global_step": step, "world_size": 1, "reason": "every_n_steps",
        "value": 0.25, "monitor": "val/loss", "parts": [{"file": "rank_0.part", "bytes": len(part), "checksum": checksum}],
        "config_hash": "00ff", "written_at": "2026-11-21T05:01:48Z", "version": "1.2.3", "facts": {"torch": "2.11.0"}, "shared": []})
    (path / "manifest").write_bytes(manifest)
    return path


def read_safetensors(path):
    """Returns {name: (shape, bytes)} and the metadata."""
    data = path.read_bytes()
    length = struct.unpack("<Q", data[:8])[0]
    header = json.loads(data[8:8 + length])
    metadata = header.pop("__metadata__", {})
    body = data[8 + length:]
    return {name: (one["shape"], body[slice(*one["data_offsets"])]) for name, one in header.items()}, metadata


class Verbs(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory(prefix="trainctl-verbs-")
        self.addCleanup(scratch.cleanup)
        self.folder = pathlib.Path(scratch.name)
        self.run_dir = self.folder / "run"
        self.saved = self.run_dir / "checkpoints"

    def save(self, *steps):
        """Saves a checkpoint of two ranks for each step; the links point to the last one."""
        words = [f"save:{step}" for step in steps]
        ended = subprocess.run([SAVER, self.saved, *words], capture_output=True, text=True, timeout=300)
        self.assertEqual(ended.returncode, 0, ended.stderr)

    def checkpoint(self, *words, code=0):
        ended = subprocess.run([BINARY, "checkpoint", *map(str, words)], cwd=self.folder, capture_output=True, text=True,
                               timeout=300)
        self.assertEqual(ended.returncode, code, ended.stdout + ended.stderr)
        self.err = ended.stderr
        return ended.stdout

    def json(self, *words, code=0):
        return json.loads(self.checkpoint(*words, "--json", code=code))

    def flip(self, path, at=-1):
        data = bytearray(path.read_bytes())
        data[at] ^= 1
        path.write_bytes(bytes(data))


class Lists(Verbs):
    def test_the_table_has_a_row_a_checkpoint_newest_first(self):
        self.save(1, 12)
        out = self.checkpoint("ls", self.run_dir)
        lines = out.splitlines()
        self.assertRegex(lines[0], r"name +epoch +step +size +val/loss +state +links")
        self.assertRegex(lines[2], r"epoch=0002-mid-step=000012 +2 +12 +\S+ KiB +1\.2000 +committed +last, best")
        self.assertRegex(lines[3], r"epoch=0001-mid-step=000001 +1 +1 +\S+ KiB +0\.1000 +committed$")
        self.assertEqual(self.checkpoint("ls", self.saved), out)

    def test_unfinished_damaged_and_quarantined_checkpoints_are_listed(self):
        self.save(1, 2)
        shutil.copytree(self.saved / "epoch=0001-mid-step=000001", self.saved / "corrupt-epoch=0001-mid-step=000001")
        (self.saved / "epoch=0001-mid-step=000003").mkdir()
        self.flip(self.saved / "epoch=0001-mid-step=000002/rank_1.part")
        states = lambda *words: [(row["step"], row["state"]) for row in self.json("ls", self.run_dir, *words)["checkpoints"]]
        self.assertEqual(states(), [(3, "unfinished"), (2, "committed"), (1, "committed"), (1, "quarantined")])
        self.assertEqual(states("--verify"), [(3, "unfinished"), (2, "damaged"), (1, "whole"), (1, "quarantined")])
        self.assertRegex(self.checkpoint("ls", self.run_dir, "--verify"), r": rank_1\.part.*model/fc\.weight")

    def test_the_document(self):
        self.save(1, 2)
        document = self.json("ls", self.run_dir)
        self.assertEqual(document["schema"], "trainctl.checkpoint_ls/2")
        row = document["checkpoints"][0]
        self.assertEqual((row["name"], row["epoch"], row["step"], row["monitor"], row["value"], row["links"]),
                         ("epoch=0001-mid-step=000002", 1, 2, "val/loss", 0.2, ["last", "best"]))

    def test_another_format_is_unsupported_and_stays(self):
        self.save(1)
        old = write_checkpoint(self.saved, format=1)
        row = self.json("ls", self.run_dir, "--verify")["checkpoints"][0]
        self.assertEqual((row["name"], row["state"]), (old.name, "unsupported"))
        self.assertIn("cannot read checkpoints of format 1: this version of trainctl reads format 3", row["why"])
        self.assertRegex(self.checkpoint("ls", self.run_dir), r"(?m)^hint: finish the run with the version that wrote it")
        self.assertRegex(self.checkpoint("verify", self.run_dir, code=10), r"(?m)^unsupported +\S+000007: .*\nhint: .*\nok +\S+000001$")
        for verb in (["inspect", self.run_dir], ["export", self.run_dir, "--out", "weights.safetensors"]):
            self.checkpoint(*verb, code=10)
            self.assertRegex(self.err, r"cannot read checkpoints of format 1: .*; the checkpoint is not changed\nhint: ")
        self.assertTrue((old / "manifest").exists())

    def test_an_epoch_is_the_one_of_the_last_step(self):
        self.save(10, 15)
        rows = self.json("ls", self.run_dir)["checkpoints"]
        shown = [self.json("inspect", self.saved / row["name"])["manifest"] for row in rows]
        self.assertEqual([row["epoch"] for row in rows], [2, 1])
        self.assertEqual([(one["epoch"], one["next_epoch"]) for one in shown], [(2, 2), (1, 2)])
        self.assertIn("10 (at the end of epoch 1)", self.checkpoint("inspect", self.saved / "epoch=0001-step=000010"))

    def test_an_empty_and_a_missing_folder(self):
        self.saved.mkdir(parents=True)
        self.assertEqual(self.checkpoint("ls", self.run_dir), "")
        self.assertIn("there is no checkpoint", self.err)
        self.assertEqual(self.json("ls", self.run_dir)["checkpoints"], [])
        self.checkpoint("ls", self.folder / "nothing", code=10)
        self.assertIn("cannot find", self.err)
        self.checkpoint("ls", write_checkpoint(self.saved), code=10)
        self.assertIn("is a checkpoint, not a run", self.err)
        self.checkpoint("ls", code=2)


class Inspects(Verbs):
    def test_facts_groups_and_tensors(self):
        path = write_checkpoint(self.saved)
        out = self.checkpoint("inspect", path)
        self.assertRegex(out, r"step +7 \(after 2 steps of epoch 1\)")
        self.assertRegex(out, r"monitor +val/loss 0\.2500")
        self.assertRegex(out, r"torch +2\.11\.0")
        self.assertRegex(out, r"model +2 +24 B")
        self.assertRegex(out, r"optimizer +fc\.weight\.exp_avg +F32 +\[2, 2\] +16")

    def test_the_document_and_the_ways_to_name_it(self):
        path = write_checkpoint(self.saved)
        document = self.json("inspect", path)
        self.assertEqual(document["schema"], "trainctl.checkpoint_inspect/2")
        self.assertEqual((document["manifest"]["global_step"], document["manifest"]["config_hash"]), (7, "00ff"))
        self.assertEqual(document["groups"]["model"], {"tensors": 2, "bytes": 24})
        self.assertEqual(document["training"], {"averager": {"updates": 3}})
        self.assertEqual(document["tensors"][0], {"part": "rank_0.part", "group": "model", "name": "fc.weight", "dtype": "F32",
                                                  "shape": [2, 2], "bytes": 16})
        (self.saved / "last").symlink_to(path.name)
        for other in (self.run_dir, self.saved, self.saved / "last", str(path) + "/"):
            self.assertEqual(self.json("inspect", other), document)

    def test_the_size_counts_the_file_of_the_best_weights(self):
        path = write_checkpoint(self.saved)
        self.assertRegex(self.checkpoint("inspect", path), r"size +\S+ \S+ in 1 file \(one per rank\)\n")
        data = (path / "manifest").read_bytes()
        meta = json.loads(data[32:32 + struct.unpack("<Q", data[24:32])[0]])["meta"]
        meta["shared"] = [{"group": "keeper/best.", "file": "best.safetensors", "bytes": 5 << 20, "checksum": 0}]
        (self.folder / "manifest").write_bytes(container([], meta)[0])
        self.assertRegex(self.checkpoint("inspect", self.folder / "manifest"), r"size +5\.\d MiB in 1 file \(one per rank\) and best\.safetensors\n")

    def test_a_single_part_and_a_manifest_alone(self):
        path = write_checkpoint(self.saved)
        moved = self.folder / "some.part"
        shutil.copy(path / "rank_0.part", moved)
        out = self.checkpoint("inspect", moved)
        self.assertRegex(out, r"part +\S+some\.part\n +rank +0\n +world size +1\n")
        self.assertRegex(out, r"optimizer +fc\.weight\.exp_avg +F32 +\[2, 2\] +16")
        document = self.json("inspect", moved)
        self.assertEqual((document["manifest"], document["meta"]), (None, {"world_size": 1, "rank": 0}))
        whole = self.json("inspect", path)
        self.assertEqual((document["groups"], document["training"]), (whole["groups"], whole["training"]))
        out = self.checkpoint("inspect", path / "manifest")
        self.assertRegex(out, r"manifest +\S+manifest\n +step +7 \(after 2 steps of epoch 1\)")
        self.assertNotIn("tensor", out)
        self.assertEqual(self.json("inspect", path / "manifest")["manifest"], whole["manifest"])
        self.flip(moved)
        self.checkpoint("inspect", moved, code=10)
        self.assertIn("some.part", self.err)

    def test_both_ranks_of_two(self):
        self.save(1)
        out = self.checkpoint("inspect", self.run_dir)
        self.assertIn("rank_0.part", out)
        self.assertIn("rank_1.part", out)

    def test_what_is_not_valid(self):
        for path in (self.folder, self.folder / "nothing", self.folder / "file"):
            (self.folder / "file").write_text("text")
            self.checkpoint("inspect", path, code=10)
        path = write_checkpoint(self.saved)
        self.flip(path / "manifest")
        self.checkpoint("inspect", path, code=10)
        self.assertIn("manifest", self.err)


class Verifies(Verbs):
    def test_valid_checkpoints_are_ok(self):
        self.save(1, 2)
        out = self.checkpoint("verify", self.run_dir)
        self.assertRegex(out, r"^ok +\S+epoch=0001-mid-step=000002\nok +\S+epoch=0001-mid-step=000001\n$")
        document = self.json("verify", self.saved / "last", self.saved / "epoch=0001-mid-step=000001/rank_0.part")
        self.assertEqual([one["ok"] for one in document["checkpoints"]], [True, True])
        self.assertEqual(self.checkpoint("verify", self.run_dir, "--quiet"), "")
        self.checkpoint("verify", write_checkpoint(self.folder / "mine"))

    def test_the_damaged_one_is_named_with_its_tensor(self):
        self.save(1, 2)
        self.flip(self.saved / "epoch=0001-mid-step=000001/rank_0.part")
        out = self.checkpoint("verify", self.run_dir, code=10)
        self.assertRegex(out, r"ok +\S+000002\ndamaged +\S+000001: rank_0\.part.*model/fc\.weight")
        document = self.json("verify", self.run_dir, code=10)
        self.assertEqual((document["exit_code"], [one["ok"] for one in document["checkpoints"]]), (10, [True, False]))

    def test_every_kind_of_damage_is_found(self):
        whole = write_checkpoint(self.folder / "whole")
        draw = random.Random(4)

        def cut(path):
            path.write_bytes(path.read_bytes()[:draw.randrange(path.stat().st_size)])

        def longer(path):
            path.write_bytes(path.read_bytes() + b"\0")

        def flipped(path):
            self.flip(path, draw.randrange(path.stat().st_size))

        def other(path):
            path.write_text("this is no checkpoint")

        def gone(path):
            path.unlink()

        def folder(path):
            path.unlink()
            path.mkdir()

        def link(path):
            path.rename(path.with_suffix(".away"))
            path.symlink_to(path.with_suffix(".away"))

        for number, (name, damage) in enumerate((name, damage) for name in ("manifest", "rank_0.part") for damage in
                                                (cut, longer, flipped, flipped, other, gone, folder, link)):
            with self.subTest(name=name, damage=damage.__name__):
                copy = self.folder / str(number) / whole.name
                shutil.copytree(whole, copy)
                damage(copy / name)
                out = self.checkpoint("verify", copy, code=10)
                self.assertIn(name, out)

    def test_what_is_not_valid(self):
        (self.folder / "file").write_text("no checkpoint")
        self.run_dir.mkdir()
        for path in ("nothing", "file", self.run_dir):
            self.assertRegex(self.checkpoint("verify", path, code=10), r"^damaged ")
        self.checkpoint("verify", code=2)


class Exports(Verbs):
    def export(self, path, *words, code=0):
        return self.checkpoint("export", path, "--out", self.folder / "out.safetensors", *words, code=code)

    def test_weights_have_the_names_of_the_model(self):
        path = write_checkpoint(self.saved)
        expected = {"model": {"fc.weight": floats(1, 2, 3, 4), "fc.bias": floats(5, 6)},
                    "ema": {"fc.weight": floats(7, 7, 7, 7), "fc.bias": floats(7, 7)},
                    "best": {"fc.weight": floats(9, 9, 9, 9)}}
        for which, tensors in expected.items():
            out = self.export(path, "--weights", which, "--force")
            self.assertIn(f"the {which} weights {'up to' if which == 'best' else 'of'} {path.name} (safetensors, ", out)
            found, metadata = read_safetensors(self.folder / "out.safetensors")
            self.assertEqual({name: data for name, (_, data) in found.items()}, tensors)
            self.assertEqual((metadata["weights"], metadata["epoch"], metadata["global_step"]), (which, "1", "7"))
        self.assertIn("the ema weights", self.export(self.run_dir, "--force"), "what validation saw")

    def test_a_file_that_is_there_is_kept(self):
        path = write_checkpoint(self.saved)
        out = self.folder / "out.safetensors"
        out.write_text("mine")
        self.export(path, code=2)
        self.assertIn("--force", self.err)
        self.assertEqual(out.read_text(), "mine")
        self.export(path, "--force")
        self.assertNotEqual(out.read_bytes(), b"mine")

    def test_a_failed_export_leaves_no_file(self):
        self.save(1)
        self.export(self.run_dir, "--weights", "ema", code=10)
        self.assertIn("no average", self.err)
        self.export(self.run_dir, "--weights", "emma", code=2)
        self.flip(self.saved / "epoch=0001-mid-step=000001/rank_0.part")
        self.export(self.run_dir, code=10)
        self.export("nothing", code=10)
        self.checkpoint("export", self.run_dir, code=2)
        self.assertFalse((self.folder / "out.safetensors").exists())

    def test_a_name_without_a_known_extension_is_refused(self):
        path = write_checkpoint(self.saved)
        for name in ("out.onnx", "out.ckpt", "out", "out.safetensors.gz", "out.npz"):
            self.checkpoint("export", path, "--out", self.folder / name, code=2)
            self.assertIn("must end in .safetensors, .pth (state dict) or .pt (TorchScript)", self.err)
            self.assertFalse((self.folder / name).exists())
        self.checkpoint("export", path, "--out", "out.pth", "--format", "safetensors", code=2)
        self.assertIn("contradicts the extension of", self.err)
        self.checkpoint("export", path, "--out", "out.pth", "--format", "onnx", code=2)
        self.assertIn("--format must be one of safetensors, pth, torchscript, got 'onnx'", self.err)
        self.checkpoint("export", path, "--out", "out", "--format", "safetensors")
        self.assertIn("fc.weight", read_safetensors(self.folder / "out")[0])

    def test_a_state_dict_is_a_pickle_in_a_zip(self):
        path = write_checkpoint(self.saved)
        document = json.loads(self.checkpoint("export", path, "--out", "out.pth", "--weights", "model", "--json"))
        self.assertEqual((document["format"], document["tensors"]), ("pth", 2))
        with zipfile.ZipFile(self.folder / "out.pth") as archive:
            self.assertIsNone(archive.testzip())
            self.assertEqual(archive.read("weights/data/0"), floats(1, 2, 3, 4))
            names = {value for code, value, _ in pickletools.genops(archive.read("weights/data.pkl")) if code.name == "GLOBAL"}
        self.assertEqual(names, {"torch._utils _rebuild_tensor_v2", "torch FloatStorage", "collections OrderedDict"})
        self.checkpoint("import", "out.pth", "--out", "back.safetensors")
        self.assertEqual(read_safetensors(self.folder / "back.safetensors")[0]["fc.bias"], ([2], floats(5, 6)))

    def test_torchscript_needs_the_experiment_of_the_checkpoint(self):
        self.checkpoint("export", write_checkpoint(self.saved), "--out", "out.pt", code=10)
        self.assertIn("the checkpoint does not contain its experiment", self.err)
        self.assertEqual([path.name for path in self.folder.iterdir()], ["run"])

    def test_the_document(self):
        document = json.loads(self.export(write_checkpoint(self.saved), "--json"))
        self.assertEqual((document["schema"], document["weights"], document["tensors"], document["bytes"], document["step"]),
                         ("trainctl.checkpoint_export/2", "ema", 2, 24, 7))


class Imports(Verbs):
    def test_a_state_dict_becomes_safetensors(self):
        source, out = GOLDEN / "torch" / "mlp_7_classes.pth", self.folder / "out.safetensors"
        document = self.json("import", source, "--out", out)
        self.assertEqual(document["schema"], "trainctl.checkpoint_import/2")
        tensors, metadata = read_safetensors(out)
        self.assertEqual(document["tensors"], len(tensors))
        self.assertGreater(len(tensors), 0)
        self.assertEqual(metadata["source"], source.name)
        before = out.read_bytes()
        self.checkpoint("import", source, "--out", out, code=2)
        self.assertIn("--force", self.err)
        self.checkpoint("import", source, "--out", out, "--force")
        self.assertEqual(out.read_bytes(), before)

    def test_a_section_is_chosen_by_its_key(self):
        source, out = GOLDEN / "torch" / "timm.pth.tar", self.folder / "out.safetensors"
        files = [file for file in json.loads((GOLDEN / "torch" / "weights.json").read_text())["files"] if file["file"] == source.name]
        self.assertEqual([file.get("section") for file in files], [None, "state_dict_ema"])
        for file in files:
            words = ["--section", file["section"]] if "section" in file else []
            self.json("import", source, "--out", out, "--force", *words)
            digests = {name: hashlib.sha256(data).hexdigest() for name, (_, data) in read_safetensors(out)[0].items()}
            self.assertEqual(digests, {tensor["name"]: tensor["sha256"] for tensor in file["tensors"]})
        self.checkpoint("import", source, "--out", out, "--force", "--section", "ema", code=10)
        self.assertIn("it has no section 'ema' with tensors", self.err)

    def test_malicious_files_are_not_converted(self):
        source, out = GOLDEN / "torch" / "mlp_7_classes.pth", self.folder / "out.safetensors"
        bad = self.folder / "bad.pth"
        data = source.read_bytes()
        middle = bytearray(data)
        middle[len(data) // 2] ^= 1
        for content in (data[:-9], bytes(middle), b"PK\x03\x04", b"text"):
            bad.write_bytes(content)
            code = 2 if content == b"text" else 10
            self.checkpoint("import", bad, "--out", out, code=code)
        self.checkpoint("import", "nothing.pth", "--out", out, code=10)
        self.assertFalse(out.exists())


if __name__ == "__main__":
    unittest.main(verbosity=2)
