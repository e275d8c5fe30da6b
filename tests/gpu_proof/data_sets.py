"""The data of the stages: real files where they exist, else generated ones of the same size and form."""

import array
import hashlib
import os
import pathlib
import random
import shutil
import struct
import sys
import tarfile

from machine import ROOT

VOCABULARY = 50257  # of GPT-2
MNIST_FILES = ("train-images-idx3-ubyte", "train-labels-idx1-ubyte", "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte")


def real(name):
    """Returns the folder NAME in $TRAINCTL_DATA, or in data/ of the archive or the source tree; None if neither exists."""
    for root in (os.environ.get("TRAINCTL_DATA"), ROOT / "data"):
        if root and any((pathlib.Path(root) / name).glob("*")):
            return (pathlib.Path(root) / name).resolve()
    return None


def folder(context):
    """Returns the folder that the program gets as TRAINCTL_DATA."""
    path = context.work / "data"
    path.mkdir(parents=True, exist_ok=True)
    return path


def link(context, name, generate):
    """Returns (folder, whether the data is real). The generator fills an empty folder once."""
    place = folder(context) / name
    found = real(name)
    if found:
        if place.exists() and not place.is_symlink():
            shutil.rmtree(place)  # generated before the real data was here
        if not place.exists():
            place.symlink_to(unpacked(context, found))
        return place, True
    if not place.exists():
        part = place.with_name(name + ".part")
        part.mkdir(exist_ok=True)
        generate(part)
        part.rename(place)
    return place, False


def unpacked(context, place):
    """Returns the folder itself, or a folder with the files of the .tar or .tar.gz in it."""
    archives = sorted(place.glob("*.tar*"))
    if not archives:
        return place
    target = folder(context) / f"{place.name}.unpacked"
    if not target.exists():
        part = target.with_name(target.name + ".part")
        with tarfile.open(archives[0]) as archive:
            archive.extractall(part)
        part.rename(target)
    return target


def mnist(context):
    """MNIST; without it, digits with a bright band for each class."""
    def generate(place):
        images = b"".join(bytes(200 if 2 * label <= i // 28 < 2 * label + 4 else (i * 7 + label) % 50 for i in range(784)) for label in range(10))
        for prefix, count in (("train", 60_000), ("t10k", 10_000)):
            (place / f"{prefix}-images-idx3-ubyte").write_bytes(struct.pack(">4I", 0x803, count, 28, 28) + images * (count // 10))
            (place / f"{prefix}-labels-idx1-ubyte").write_bytes(struct.pack(">2I", 0x801, count) + bytes(range(10)) * (count // 10))

    return link(context, "mnist", generate)


def cifar10(context):
    """CIFAR-10; without it, random pixels: speed can be measured, accuracy cannot."""
    def generate(place):
        draw = random.Random(1)
        pixels = [draw.randbytes(3072) for _ in range(100)]
        records = b"".join(bytes([i % 10]) + pixels[i % 100] for i in range(10_000))
        (place / "test_batch.bin").write_bytes(records)
        for i in range(1, 6):
            os.link(place / "test_batch.bin", place / f"data_batch_{i}.bin")

    return link(context, "cifar10", generate)


def tokens(context, count):
    """Returns a file of `count` random tokens of GPT-2's vocabulary: the speed of a step does not depend on them."""
    path = folder(context) / f"tokens/{count}.bin"
    if not path.exists():
        path.parent.mkdir(exist_ok=True)
        draw = random.Random(1)
        path.write_bytes(array.array("H", (draw.randrange(VOCABULARY) for _ in range(count))).tobytes())
    return path


def generated(context, *names):
    """Makes data sets of configs/make_data.py, such as `houses` and `text`; existing ones stay."""
    if str(ROOT / "configs") not in sys.path:
        sys.path.insert(0, str(ROOT / "configs"))
    import make_data
    make_data.make(folder(context), [getattr(make_data, name) for name in names])


def sha256(path):
    return hashlib.sha256(path.read_bytes()).hexdigest()
