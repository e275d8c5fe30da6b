"""Runs `trainctl init` on each kind of data, and then the commands that it prints: pack, validate, run. Needs TRAINCTL_BINARY;
photographs are optional."""

import os
import pathlib
import random
import subprocess
import sys

from support import BINARY, SOURCE, Front, main, write_miniature_mnist

sys.path.insert(0, str(SOURCE / "configs"))
import make_data

TABLE = "id,age,plan,fee,churned\n" + "".join(
    f"{i},{'' if i % 9 == 0 else i * i % 83},{('basic', 'family')[i % 2]},{i % 50 / 2},{('no', 'no', 'yes')[i % 3]}\n" for i in range(300))


class InitCommands(Front):
    """Runs `init` and the commands that it prints."""

    def write_images(self, name, count, width=40, height=32):
        draw = random.Random(name)
        for i in range(count):
            path = self.folder / name / f"{i}.png"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(make_data.png(width, height, draw.randbytes(3 * width * height)))

    def init(self, *words):
        """Returns the document of a successful `init`."""
        return self.program("init", *words, "--json", code=0).json

    def follow(self, *words):
        """Runs `init` and the commands that it prints, and returns its findings."""
        document = self.init(*words)
        path = f"{pathlib.Path(BINARY).parent}:{os.environ['PATH']}"
        for command in document["next"]:
            command += " trainer.max_epochs=1 ++trainer.accelerator=cpu ++trainer.num_threads=1 ++trainer.channels_last=false" if command.startswith("trainctl run") else ""
            done = subprocess.run(["bash", "-o", "pipefail", "-c", command], cwd=self.folder, env={**os.environ, "PATH": path},
                                  capture_output=True, text=True, timeout=480)
            self.assertEqual(done.returncode, 0, command + "\n" + done.stdout + done.stderr)
        self.assertTrue(list(self.folder.glob("runs/*/latest/result.json")))
        return dict(document["found"])


class Inits(InitCommands):
    """The files that it writes, without the engine."""

    def test_the_commands_after_init_find_its_file(self):
        self.write("churn.csv", TABLE)
        done = self.program("init", "tabular", "churn.csv", code=0)
        self.assertEqual(done.out, "  rows        300\n"
                         "  target      churned: the last column; 2 classes of 100 to 200 rows\n"
                         "  features    2 numeric, 1 categorical\n"
                         "  missing     34 values\n"
                         "  not used    id (counts the rows)\n"
                         "wrote config.yaml\nnext: trainctl validate\nnext: trainctl run\n")
        self.assert_has(self.program("validate", code=0).err, "using ./config.yaml")

    def test_another_file_is_named_in_the_next_commands_and_has_relative_paths(self):
        self.write("data/churn.csv", TABLE)
        (self.folder / "my configs").mkdir()
        document = self.init("tabular", "data/churn.csv", "--out", "my configs/churn.yaml", "--target", "plan")
        self.assertEqual((document["schema"], document["file"]), ("trainctl.init/2", "my configs/churn.yaml"))
        self.assertEqual(document["next"], [f"trainctl {verb} 'my configs/churn.yaml'" for verb in ("validate", "run")])
        self.assert_has(dict(document["found"])["target"], "plan: chosen by --target")
        self.assert_has((self.folder / "my configs/churn.yaml").read_text(), "path: ../data/churn.csv")
        self.program("validate", "my configs/churn.yaml", code=0)

    def test_an_existing_file_is_replaced_only_with_force(self):
        self.write("churn.csv", TABLE)
        self.write("config.yaml", "mine")
        self.assert_has(self.refused("init", "tabular", "churn.csv"), "config.yaml already exists", "--force")
        self.assertEqual((self.folder / "config.yaml").read_text(), "mine")
        self.program("init", "tabular", "churn.csv", "--force", code=0)
        table = (self.folder / "churn.csv").read_text()
        self.assert_has(self.refused("init", "tabular", "churn.csv", "--out", "churn.csv", "--force"), "replaces only .yaml and .yml files")
        self.assertEqual(table, (self.folder / "churn.csv").read_text())
        self.program("validate", code=0)

    def test_wrong_words_and_missing_data_name_what_is_expected(self):
        for words, code, message in ((("init",), 2, "kind"), (("init", "tabulars"), 2, "did you mean 'tabular'?"),
                                     (("init", "text"), 2, "text needs DATA: a text file"),
                                     (("init", "mnist"), 9, "scripts/fetch-data mnist"),
                                     (("init", "image-folder", "absent"), 9, "absent does not exist or is not a folder")):
            with self.subTest(words):
                self.assert_has(self.refused(*words, code=code), message)
        self.assertEqual(list(self.folder.iterdir()), [])

    def test_a_file_that_cannot_be_written_is_an_error(self):
        self.write("churn.csv", TABLE)
        self.assert_has(self.refused("init", "tabular", "churn.csv", "--out", "absent/x.yaml", code=11), "absent")

    def test_completion_knows_the_kinds(self):
        self.assert_has(self.program("completion", "fish").out, "'__fish_seen_subcommand_from init' -a 'mnist image-folder tabular text'")


class InitThenRun(InitCommands):
    """Whole runs of one epoch."""

    def test_class_folders(self):
        for name, count in (("cat", 20), ("dog", 8)):
            self.write_images(f"pictures/{name}", count)
        self.write("pictures/dog/broken.jpg", "no image")
        found = self.follow("image-folder", "pictures")
        self.assertEqual(found["images"], "29, 9 to 20 per class")
        self.assert_has(found["broken"], "1 of 29 headers: pictures/dog/broken.jpg")

    def test_class_folders_in_train_and_val(self):
        for split, count in (("train", 12), ("val", 5)):
            for name in ("a", "b"):
                self.write_images(f"set/{split}/{name}", count, width=70, height=64)
        self.assertEqual(self.follow("image-folder", "set")["validation"], "set/val")

    def test_a_table_of_classes(self):
        self.write("churn.csv", TABLE)
        self.follow("tabular", "churn.csv")

    def test_a_table_of_numbers(self):
        self.write("houses.tsv", "area\tyears\tprice\n" + "".join(f"{i * 7 % 41}\t{i * i % 29}\t{i * 2.5}\n" for i in range(200)))
        self.assert_has(self.follow("tabular", "houses.tsv")["target"], "regression (the numbers are not classes)")

    def test_a_text(self):
        self.write("my book.txt", "the cat saw a bird and the dog ran home\n" * 200)
        self.assertEqual(self.follow("text", "my book.txt")["training"], "7,200 tokens")

    def test_mnist(self):
        write_miniature_mnist(self.folder / "data")
        self.assertEqual(self.follow("mnist")["validation"], "100 images")


class InitPhotographs(InitCommands):
    """Real JPEG files, which are optional."""

    def test_photographs(self):
        pictures = pathlib.Path(os.environ.get("TRAINCTL_DATA", "")) / "imagenet-sample"
        if not pictures.is_dir():
            self.skipTest("set TRAINCTL_DATA to a folder with imagenet-sample/")
        for name in ("animal", "artifact"):
            (self.folder / "photos" / name).mkdir(parents=True)
            for picture in sorted((pictures / name).iterdir())[:5]:
                (self.folder / "photos" / name / picture.name).symlink_to(picture.resolve())
        found = self.follow("image-folder", "photos")
        self.assertEqual((found["classes"], found["images"]), ("2: animal, artifact", "10, 5 to 5 per class"))


if __name__ == "__main__":
    main()
