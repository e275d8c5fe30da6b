"""Runs every file of configs/ through the real program on generated data: each config is valid and takes a step, and together
they use every stage that `trainctl list` names. Needs TRAINCTL_BINARY."""

import hashlib
import json
import os
import pathlib
import struct
import sys
import tempfile
import unittest
from unittest import mock

from convnets_test import cifar_records
from support import SOURCE, Smoke, run

CONFIGS = SOURCE / "configs"
sys.path.insert(0, str(CONFIGS))
import make_data

ALL = sorted(str(path.relative_to(CONFIGS)) for path in CONFIGS.rglob("*.yaml"))
SCRIPT = SOURCE / "tests/golden/torch/script.pt"
TABLE = SOURCE / "tests/golden/data/table.parquet"

# Stages that no config uses, each with the reason. A new stage comes with a config, not with a line here.
WITHOUT_A_CONFIG = {("logger", "mlflow"): "needs a server"}

# The kind of stage that a key holds: at the top level, in a split, or among the options of another stage.
KINDS = {"model": "model", "task": "task", "teacher": "model", "discriminator": "model", "loss": "loss", "optimizer": "optimizer", "scheduler": "scheduler", "early_stopping": "stopper",
         "metrics": "metric", "train": "dataset", "val": "dataset", "test": "dataset", "source": "dataset", "sources": "dataset", "sampler": "sampler",
         "transforms": "transform", "batch_transforms": "batch_transform", "layers": "layer", "shortcut": "layer",
         "schedulers": "scheduler", "loggers": "logger"}
LISTS = {"loggers", "metrics", "transforms", "batch_transforms", "layers", "shortcut", "schedulers"}  # options with these names need not be lists
WORDS = {("gan", "loss")}  # options of these stages that hold a word, but have the name of a kind


def stages_of(value, kind=None):
    """Returns {(kind, type)} for the stages of a resolved experiment, or of a value in it that holds stages of that kind."""
    if isinstance(value, list):
        return set().union(*(stages_of(item, kind) for item in value))
    if isinstance(value, str):
        return {(kind, value)} if kind else set()
    if not isinstance(value, dict):
        return set()
    found = {(kind, value["type"])} if kind and "type" in value else set()  # a part of dataset.train has no type
    for key, below in value.items():
        is_stage = (value.get("type"), key) not in WORDS and (key not in LISTS or isinstance(below, list))
        found |= stages_of(below, KINDS.get(key) if is_stage else None)
    return found


def missing(listed, used, excepted):
    """Returns the listed stages that are neither used nor excepted, and the exceptions that are not needed."""
    return sorted(listed - used - set(excepted)), sorted(set(excepted) & used | set(excepted) - listed)


def write_cifar(folder):
    """Writes CIFAR in its real size, since the reader checks the size; files of one size share their bytes."""
    ten, hundred = folder / "cifar10", folder / "cifar100"
    ten.mkdir(parents=True)
    hundred.mkdir()
    records = cifar_records(10_000)
    (ten / "test_batch.bin").write_bytes(records)
    for i in range(1, 6):
        os.link(ten / "test_batch.bin", ten / f"data_batch_{i}.bin")
    coarse = b"".join(records[at:at + 1] + records[at:at + 3073] for at in range(0, 3073 * 1000, 3073))
    (hundred / "test.bin").write_bytes(coarse * 10)
    (hundred / "train.bin").write_bytes(coarse * 50)


def write_photographs(folder):
    """Writes two classes of pictures that differ in color."""
    for name, color in (("animal", b"\xd0\x60\x20"), ("artifact", b"\x20\x60\xd0")):
        (folder / "imagenet-sample" / name).mkdir(parents=True)
        for i in range(100):
            pixels = b"".join(bytes((value + 7 * i + 3 * x) % 256 for value in color) for x in range(80))
            (folder / "imagenet-sample" / name / f"{i:03}.png").write_bytes(make_data.png(80, 72, pixels * 72))


def write_mnists(folder, share=1):
    """Writes MNIST and Fashion-MNIST in their real size or a share of it, because warm-up steps are checked against the run's length.
    Each class has a bright band."""
    images = b"".join(bytes(200 if 2 * label <= i // 28 < 2 * label + 4 else (i * 7 + label) % 50 for i in range(784))
                      for label in range(10))
    mnist, fashion = folder / "mnist", folder / "fashion_mnist"
    mnist.mkdir(parents=True)
    fashion.mkdir()
    for prefix, count in (("train", 60_000 // share // 10 * 10), ("t10k", 10_000 // share // 10 * 10)):
        (mnist / f"{prefix}-images-idx3-ubyte").write_bytes(struct.pack(">4I", 0x803, count, 28, 28) + images * (count // 10))
        (mnist / f"{prefix}-labels-idx1-ubyte").write_bytes(struct.pack(">2I", 0x801, count) + bytes(range(10)) * (count // 10))
        for file in mnist.glob(f"{prefix}-*"):
            os.link(file, fashion / file.name)


def smaller_pictures(value, path=""):
    """Returns the overrides that set each size of pictures of more than 64 pixels in an experiment, or in a value in it, to 64."""
    items = enumerate(value) if isinstance(value, list) else value.items() if isinstance(value, dict) else ()
    words = []
    for key, below in items:
        if key in {"size", "height", "width"} and isinstance(below, int) and below > 64:
            words.append(f"++{path}{key}=64")
        words += smaller_pictures(below, f"{path}{key}.")
    return words


class Drawn(unittest.TestCase):
    """Writes the data for the configs of some folders, once for all tests of a class."""

    WRITERS = ()
    SETS = ()

    @classmethod
    def setUpClass(cls):
        scratch = tempfile.TemporaryDirectory(prefix="trainctl-configs-")
        cls.addClassCleanup(scratch.cleanup)
        cls.folder = pathlib.Path(scratch.name)
        cls.data = cls.folder / "data"
        teacher = cls.folder / "teacher/checkpoints/last.safetensors"
        patch = mock.patch.dict(os.environ, TRAINCTL_DATA=str(cls.data), TRAINCTL_SCRIPT=str(SCRIPT), TRAINCTL_TEACHER=str(teacher),
                                TRAINCTL_SCRIPT_SHA256=hashlib.sha256(SCRIPT.read_bytes()).hexdigest())
        patch.start()
        cls.addClassCleanup(patch.stop)
        for write in cls.WRITERS:
            write(cls.data)
        make_data.make(cls.data, cls.SETS)

    def ask(self, *words):
        """Returns the JSON document of a verb, which must succeed."""
        code, out, err = run(self.folder, *words, "--json")
        self.assertEqual(code, 0, f"{words}: {err}")
        return json.loads(out)


class Vocabulary(Drawn):
    """`list`, `explain` and configs/ name the same stages."""

    def setUp(self):
        kinds = self.ask("list")["kinds"]
        self.listed = {(kind, stage["name"]) for kind, stages in kinds.items() for stage in stages}
        self.assertGreater(len(self.listed), 100)

    def test_every_stage_has_a_config(self):
        used = set()
        for config in ALL:
            used |= stages_of(self.ask("show-config", CONFIGS / config)["config"])
        self.assertEqual(missing(self.listed, used, WITHOUT_A_CONFIG), ([], []), "stages without a config, and exceptions without need")
        self.assertEqual(used - self.listed, set(), "a key holds another kind than KINDS says")

    def test_a_stage_without_a_config_and_an_idle_exception_are_found(self):
        used = stages_of({"model": {"type": "sequential", "layers": ["relu", {"type": "residual", "layers": [{"type": "tanh"}]}]},
                          "metrics": [], "loader": {"sampler": None}, "name": "lenet", "gpt": {"layers": 4, "shortcut": "b"}})
        self.assertEqual(used, {("model", "sequential"), ("layer", "relu"), ("layer", "residual"), ("layer", "tanh")})
        self.assertEqual(missing(used | {("loss", "new")}, used, {("layer", "tanh"): "why"}), ([("loss", "new")], [("layer", "tanh")]))

    def test_every_stage_and_option_is_explained(self):
        for kind, name in sorted(self.listed):
            with self.subTest(f"{kind}.{name}"):
                found = self.ask("explain", f"{kind}.{name}")
                self.assertEqual(found["type"], kind)
                self.assertGreater(len(found["help"].split()), 3, found)
                self.assertIn(name, found["example"])
                for option in found["below"]:
                    below = self.ask("explain", f"{kind}.{name}.{option}")
                    self.assertTrue(below["help"] and below["type"], below)

    def test_every_config_says_what_it_shows_and_how_it_is_run(self):
        page = (CONFIGS / "README.md").read_text()
        for config in ALL:
            lines = (CONFIGS / config).read_text().splitlines()
            self.assertRegex(lines[1], "^# [A-Z0-9].*", config)  # after the line for editors, which tree.schema_file checks
            commands = [line for line in lines if line.startswith("#   ")]
            self.assertTrue(any(f"trainctl run configs/{config}" in line for line in commands), config)
            self.assertIn(f"]({config})", page, f"{config} is not on the page configs/README.md")


class Sound(Drawn):
    """Runs `trainctl validate` on every config, with data."""

    WRITERS = (write_mnists, write_cifar, write_photographs)
    SETS = make_data.SETS
    # The tests do not write these files.
    UNREAD = {"imagenet-sample/pack.yaml", "mnist/tasks/distillation.yaml", "tabular/parquet.yaml"}

    def test_every_config_is_valid(self):
        for config in set(ALL) - self.UNREAD:
            with self.subTest(config):
                code, out, err = run(self.folder, "validate", CONFIGS / config)
                self.assertEqual(code, 0, err)

    def test_a_mistake_in_a_config_is_found(self):
        code, _, err = run(self.folder, "validate", CONFIGS / "mnist/schedulers/wsd.yaml", "scheduler.decay=none")
        self.assertEqual(code, 2, err)


def write_short_mnists(folder):
    """Writes as many samples as give the usual number of steps per epoch with the batches of 8 of these tests."""
    write_mnists(folder, 8)


class Stepping(Drawn):
    """Runs one batch of training and one of validation for every config of some folders."""

    FOLDERS = ()
    BATCH = 8
    WORDS = {}
    MEASURED = "cifar10/resnet18.yaml"  # only this config measures which memory format is faster, because that takes many steps

    def test_every_config_takes_a_step(self):
        configs = [config for config in ALL if str(pathlib.Path(config).parent) in self.FOLDERS]
        self.assertTrue(configs)
        for config in configs:
            with self.subTest(config):
                self.step(config, *self.WORDS.get(config, ()))

    def step(self, config, *words):
        run_dir = pathlib.Path(tempfile.mkdtemp(dir=self.folder, prefix="run-"))
        if config != self.MEASURED and "channels_last:" not in (CONFIGS / config).read_text():
            words = ("++trainer.channels_last=false", *words)
        code, out, err = run(
            self.folder, "run", CONFIGS / config, "++trainer.fast_dev_run=true", "++trainer.num_threads=1", "++loader.num_workers=0",
            f"++loader.batch_size={self.BATCH}", "++checkpoint.save_top_k=0", "++checkpoint.save_last=false", *words, "--run-dir", run_dir)
        self.assertEqual(code, 0, out + err)
        result = json.loads((run_dir / "result.json").read_text())
        self.assertEqual((result["verdict"], result["steps"]), ("ok", 1))
        self.assertGreaterEqual(result["train"]["loss"], 0)


class DigitConfigs(Stepping):
    FOLDERS = (".", "mnist", "mnist/layers", "mnist/losses", "mnist/samplers", "fashion_mnist")
    WRITERS = (write_short_mnists,)
    WORDS = {"photographs.yaml": ("dataset.train.samples=32", "dataset.train.folder=photographs")}


class TaskConfigs(Stepping):
    FOLDERS = ("mnist/tasks",)
    WRITERS = (write_mnists,)

    def test_every_config_takes_a_step(self):
        code, out, err = run(self.folder, "run", CONFIGS / "mnist/lenet.yaml", "trainer.max_epochs=1", "++trainer.limit_train_batches=1",
                             "++trainer.limit_val_batches=1", "++trainer.num_threads=1", "++loader.num_workers=0", "--run-dir", self.folder / "teacher")
        self.assertEqual(code, 0, out + err)
        super().test_every_config_takes_a_step()


class OptimizerConfigs(Stepping):
    FOLDERS = ("mnist/optimizers", "mnist/schedulers")
    WRITERS = (write_short_mnists,)


class DistributedConfigs(Stepping):
    """Runs the configs with two processes each."""

    FOLDERS = ("mnist/distributed",)
    WRITERS = (write_short_mnists,)


class SmallImageConfigs(Stepping):
    FOLDERS = ("cifar10", "cifar10/layers", "cifar100", "images")
    WRITERS = (write_cifar,)
    SETS = (make_data.shapes, make_data.scenes, make_data.distillation)


class Photographs:
    """Trains on two pictures per step. Only one network gets pictures in the size of its recipe, since the others take minutes."""

    BATCH = 2
    WRITERS = (write_photographs,)
    WHOLE = "imagenet-sample/resnet18.yaml"

    def setUp(self):
        code, _, err = run(self.folder, "data", "pack", CONFIGS / "imagenet-sample/lenet.yaml", "--out", self.data / "imagenet-sample.pack")
        self.assertEqual(code, 0, err)

    def step(self, config, *words):
        if config != self.WHOLE:
            words = (*smaller_pictures(self.ask("show-config", CONFIGS / config)["config"]), *words)
        super().step(config, *words)


class PhotographConfigs(Photographs, Stepping):
    FOLDERS = ("imagenet-sample",)


class AugmentationConfigs(Photographs, Stepping):
    FOLDERS = ("imagenet-sample/augmentation",)


class SpeedConfigs(Stepping):
    """Trains the rows of the speed table in float32, because not every CPU has 16-bit instructions."""

    FOLDERS = ("speed",)
    BATCH = 2
    WRITERS = (write_short_mnists, write_cifar)
    SETS = (make_data.text,)
    WORDS = {"speed/gpt2_124m.yaml": ("model.layers=1", "model.heads=2", "model.width=64", "dataset.train.sequence_length=64"),
             **{f"speed/resnet50_{kind}.yaml": ("dataset.train.samples=32", "dataset.train.folder=photographs") for kind in ("decoded", "jpeg")}}

    def step(self, config, *words):
        size = smaller_pictures(self.ask("show-config", CONFIGS / config)["config"])
        super().step(config, "++trainer.precision=32-true", *size, *words)


class TableAndTextConfigs(Stepping):
    FOLDERS = ("tabular", "text")
    SETS = (make_data.houses, make_data.multi_label, make_data.text, make_data.sentences)
    WORDS = {"text/gpt2_small.yaml": ("model.layers=1", "model.heads=2", "model.width=64", "dataset.train.sequence_length=64")}

    def step(self, config, *words):
        """Nothing here writes Parquet, and not every build reads it, so a table of the tests with one class replaces the houses."""
        if config == "tabular/parquet.yaml":
            table = (f"{{type: parquet, path: {TABLE}, label: y, features: [a, b, kind], categorical: [kind], missing: drop, "
                     f"standardize: true, statistics_from: {TABLE}}}")
            words = (f"dataset.train={table}", f"dataset.val={table}", "loader.batch_size=2", "metrics=[accuracy]",
                     "checkpoint.monitor=val/accuracy")
            code, _, err = run(self.folder, "validate", CONFIGS / config, *words)
            if "does not read Parquet" in err:
                self.skipTest("this build does not read Parquet")
            self.assertEqual(code, 0, err)
        super().step(config, *words)


class EveryFolder(unittest.TestCase):
    def test_some_class_steps_through_each_folder_of_configs(self):
        stepped = [folder for kind in Stepping.__subclasses__() for folder in kind.FOLDERS]
        self.assertEqual(sorted(stepped), sorted({str(pathlib.Path(config).parent) for config in ALL}))


class ResidualAndMobileNetworksLearn(Drawn):
    """The loss falls well below its first value on images of CIFAR-10's shape and on folders of images."""

    WRITERS = (write_cifar, write_photographs)

    def learns(self, config, *words):
        run_dir = pathlib.Path(tempfile.mkdtemp(dir=self.folder, prefix="run-"))
        code, out, err = run(
            self.folder, "run", CONFIGS / config, "++loader.batch_size=8", "++loader.num_workers=0", "++trainer.num_threads=1",
            "++trainer.channels_last=false", "++trainer.max_epochs=5", "++trainer.limit_train_batches=8", "++trainer.limit_val_batches=0", "scheduler=constant",
            "~optimizer.weight_decay", "++checkpoint={save_top_k: 0, save_last: false}", *words, "--run-dir", run_dir)
        self.assertEqual(code, 0, out + err)
        losses = [float(train) for train, _ in Smoke.losses(self, run_dir)]
        self.assertEqual(len(losses), 5)
        self.assertLess(losses[-1], 0.7 * losses[0], losses)

    def test_resnets_learn_cifar10(self):
        self.learns("cifar10/resnet_cifar.yaml", "optimizer.lr=0.05")
        self.learns("cifar10/resnet18.yaml", "optimizer.lr=0.005")

    def test_mobilenet_v2_learns_cifar10(self):
        self.learns("cifar10/mobilenet_v2.yaml", "optimizer.lr=0.01")

    def test_resnet18_learns_a_folder_of_images(self):
        self.learns("imagenet-sample/resnet18.yaml", "optimizer.lr=0.003", "dataset.train.transforms.0.size=64")

    def test_mobilenet_v2_learns_a_folder_of_images(self):
        self.learns("imagenet-sample/mobilenet_v2.yaml", "optimizer.lr=0.02", "dataset.train.transforms.0.size=64")


if __name__ == "__main__":
    program = unittest.main(verbosity=2, exit=False)
    failed = not program.result.wasSuccessful()
    all_skipped = len(program.result.skipped) == program.result.testsRun
    raise SystemExit(1 if failed else 4 if all_skipped else 0)  # CTest shows exit code 4 as skipped
