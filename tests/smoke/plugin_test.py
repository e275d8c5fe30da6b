"""Builds the example plug-in against an installation, as a plug-in author does. Needs TRAINCTL_BINARY, TRAINCTL_BUILD,
TRAINCTL_CMAKE and TRAINCTL_GENERATOR."""

import json
import os
import pathlib
import shutil
import subprocess
import tempfile
import unittest
from unittest import mock

from support import SOURCE, Smoke, run

EXAMPLE = SOURCE / "examples/plugin"
BUILD = pathlib.Path(os.environ["TRAINCTL_BUILD"])
LIBRARIES = ["libspirals.so", "libspirals_engine.so"]
SHORT = ["trainer.max_epochs=2", "+trainer.num_threads=1", "+trainer.accelerator=cpu", "+trainer.devices=1"]


def built(words):
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True)
    if done.returncode != 0:
        raise AssertionError(f"{words}: {done.stdout}{done.stderr}")


def build_example(folder):
    """Installs into `folder`, builds the example there, and returns the folder of the libraries."""
    cmake = os.environ["TRAINCTL_CMAKE"]
    built([cmake, "--install", BUILD, "--prefix", folder / "installed", "--component", "plugin"])
    built([cmake, "-S", EXAMPLE, "-B", folder / "example", "-G", os.environ["TRAINCTL_GENERATOR"],
           f"-DCMAKE_PREFIX_PATH={folder / 'installed'}"])
    built([cmake, "--build", folder / "example"])
    return folder / "example"


class ExamplePlugin(Smoke):
    @classmethod
    def setUpClass(cls):
        place = tempfile.TemporaryDirectory(prefix="trainctl-plugin-")
        cls.addClassCleanup(place.cleanup)
        cls.libraries = build_example(pathlib.Path(place.name))

    def setUp(self):
        super().setUp()
        (self.folder / "build").mkdir()
        for name in LIBRARIES:
            shutil.copy(self.libraries / name, self.folder / "build" / name)
        self.text = (EXAMPLE / "spirals.yaml").read_text()
        (self.folder / "spirals.yaml").write_text(self.text)

    def restamp(self, name):
        """Changes the header hash in the library, as if it had been built against other headers."""
        path = self.folder / "build" / name
        before, found, after = path.read_bytes().partition(b", headers ")
        self.assertTrue(found, "the stamp was not found")
        path.write_bytes(before + found + b"0" * 12 + after[12:])

    def refused(self, *words):
        code, out, err = run(self.folder, "validate", "spirals.yaml", *words)
        self.assertEqual(code, 2, out + err)
        return err

    def test_it_trains(self):
        result = self.train(*SHORT, config="spirals.yaml")
        self.assertEqual((result["verdict"], result["epochs"]), ("ok", 2))
        first, last = self.losses(self.run_dir)
        self.assertLess(float(last[0]), float(first[0]))
        [files] = json.loads((self.run_dir / "manifest.json").read_text())["plugins"]
        self.assertEqual(pathlib.Path(files["path"]).name, LIBRARIES[0])
        self.assertEqual(pathlib.Path(files["engine"]["path"]).name, LIBRARIES[1])
        self.assertRegex(files["digest"], "^[0-9a-f]{16}$")
        self.assertNotEqual(files["digest"], files["engine"]["digest"])
        resolved = (self.run_dir / "config.resolved.yaml").read_text()
        self.assertIn(str(self.folder.resolve() / "build/libspirals.so"), resolved)

    def test_the_number_of_workers_changes_no_byte(self):
        digests, losses = set(), set()
        for workers in (0, 2):
            digests.add(self.train(*SHORT, f"+loader.num_workers={workers}", config="spirals.yaml")["data_digest"])
            losses.add(str(self.losses(self.run_dir)))
        self.assertEqual((len(digests), len(losses)), (1, 1), (digests, losses))

    def test_its_task_replaces_the_step(self):
        def trained(*words):
            self.train(*SHORT, *words, config="spirals.yaml")
            return self.losses(self.run_dir)

        plain, silent = trained(), trained("+task={type: consistency, weight: 0}")
        noisy = trained("+task={type: consistency, weight: 1, noise: 0.5}")
        self.assertEqual(plain, silent)  # the second forward pass changes nothing
        self.assertGreater(float(noisy[0][0]), float(plain[0][0]))
        self.assertEqual(trained("+task={type: consistency, weight: 1, noise: 0.5}"), noisy)

    def test_the_data_verbs_know_its_data(self):
        digests = set()
        for workers in (0, 2):
            code, out, err = run(self.folder, "data", "hash", "spirals.yaml", "--json", f"+loader.num_workers={workers}")
            self.assertEqual(code, 0, out + err)
            digests.add(json.loads(out)["digest"])
        self.assertEqual(len(digests), 1)

    def test_list_explain_and_schema_show_its_stages(self):
        library = "build/libspirals.so"
        for kind, name in (("dataset", "spirals"), ("model", "gated_mlp"), ("loss", "poly1"), ("task", "consistency")):
            code, out, err = run(self.folder, "list", kind, "--plugin", library)
            self.assertEqual(code, 0, out + err)
            self.assertRegex(out, rf"(?m)^  {name} ")
            self.assertNotIn(f"  {name} ", run(self.folder, "list", kind)[1])
        code, out, err = run(self.folder, "explain", "model.gated_mlp.hidden", "--plugin", library)
        self.assertEqual(code, 0, out + err)
        self.assertIn("Outputs of a layer.", out)
        code, out, err = run(self.folder, "schema", "loss/poly1", "--plugin", library)
        self.assertEqual(code, 0, out + err)
        self.assertEqual(json.loads(out)["properties"]["epsilon"]["anyOf"][0]["minimum"], -1)

    def test_validate_finds_what_is_wrong_with_its_options(self):
        self.assertEqual(run(self.folder, "validate", "spirals.yaml")[0], 0)
        wrong = self.text.replace("hidden: 64", "hiden: 64").replace("epsilon: 1", "epsilon: -2")
        (self.folder / "spirals.yaml").write_text(wrong)
        line = wrong[:wrong.index("hiden")].count("\n") + 1
        err = self.refused()
        self.assertRegex(err, rf"spirals\.yaml:{line}:\d+: error: unknown key 'hiden' in model 'gated_mlp'")
        self.assertIn("did you mean 'hidden'?", err)
        self.assertIn("'epsilon' must be at least -1", err)

    def test_libraries_of_another_build_are_refused(self):
        self.restamp("libspirals.so")
        err = self.refused()
        self.assertIn("headers 000000000000", err)
        self.assertIn("rebuild the plug-in", err)
        shutil.copy(self.libraries / "libspirals.so", self.folder / "build")
        self.restamp("libspirals_engine.so")
        self.train(*SHORT, config="spirals.yaml", code=2)
        self.assertIn("headers 000000000000", self.err)

    def test_half_a_plug_in_is_refused(self):
        (self.folder / "build/libspirals_engine.so").unlink()
        self.assertIn("needs 'libspirals_engine.so' in the same folder", self.refused())

    def test_a_library_that_crashes_is_an_error_and_no_crash(self):
        err = self.refused(f"plugins=[{BUILD / 'lib/fake_plugins/libfake_crashes.so'}]")
        self.assertIn("signal 11", err)
        self.assertIn("remove it from 'plugins'", err)

    def test_it_is_found_by_its_path_variable(self):
        (self.folder / "spirals.yaml").write_text(self.text.replace("build/libspirals.so", "libspirals.so"))
        self.assertIn("does not exist, neither as a path", self.refused())
        with mock.patch.dict(os.environ, TRAINCTL_PLUGIN_PATH=str(self.folder / "build")):
            self.train(*SHORT, config="spirals.yaml")


if __name__ == "__main__":
    unittest.main(verbosity=2)
