#!/usr/bin/env python3
"""Makes the data of the given rows; existing data stays unchanged.

usage: make_data.py FOLDER SOURCE [ROW ...]      SOURCE holds mnist/ and imagenet-sample/ (as $TRAINCTL_DATA does)"""

import os
import pathlib
import shutil
import sys

import numpy as np
from PIL import Image

COPIES = 10  # 10 copies of each of the 200 photographs: 2,000 files
SHORT_SIDE, QUALITY = 256, 90
COLD_BYTES = 1 << 30


def mnist(target, source):
    os.symlink(os.path.abspath(source / "mnist"), target)


def cifar10(target, _source):
    """Writes random pixels in CIFAR-10's binary format: we may not ship the real files, and no loader looks at pixels."""
    random = np.random.default_rng(0)
    folder = target / "cifar-10-batches-bin"
    folder.mkdir(parents=True)
    for name in [f"data_batch_{i}.bin" for i in range(1, 6)] + ["test_batch.bin"]:
        records = random.integers(0, 256, (10_000, 3073), dtype=np.uint8)
        records[:, 0] %= 10
        records.tofile(folder / name)
    (folder / "batches.meta.txt").write_text("".join(f"class{i}\n" for i in range(10)))


def photographs(target, source):
    for path in sorted((source / "imagenet-sample").glob("*/*")):
        for copy in range(COPIES):
            to = target / path.parent.name / f"{path.stem}_{copy}.jpeg"
            to.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, to)


def resized(path):
    image = Image.open(path).convert("RGB")
    scale = SHORT_SIDE / min(image.size)
    return image.resize([max(SHORT_SIDE, round(side * scale)) for side in image.size], Image.Resampling.BILINEAR)


def photographs_256(target, source):
    """Resizes the short side to 256 in proportion, with Pillow's antialiased bilinear filter, and writes JPEG q90, 4:2:0."""
    for path in sorted((source / "imagenet-sample").glob("*/*")):
        folder = target / path.parent.name
        folder.mkdir(parents=True, exist_ok=True)
        first = folder / f"{path.stem}_0.jpeg"
        resized(path).save(first, quality=QUALITY)
        for copy in range(1, COPIES):
            shutil.copyfile(first, folder / f"{path.stem}_{copy}.jpeg")


def photographs_224(target, source):
    paths = sorted((source / "imagenet-sample").glob("*/*"))
    images = np.lib.format.open_memmap(target, "w+", np.uint8, (len(paths) * COPIES, 224, 224, 3))
    for i, path in enumerate(paths):
        image = resized(path)
        left, top = ((side - 224) // 2 for side in image.size)
        images[i::len(paths)] = np.asarray(image.crop((left, top, left + 224, top + 224)))
    images.flush()
    np.save(target.parent / "photographs_224.labels.npy", np.arange(len(images)) % 10)


def cold(kib):
    def make_cold(target, _source):
        random = np.random.default_rng(0)
        samples = COLD_BYTES // (kib * 1024)
        rows = np.lib.format.open_memmap(target, "w+", np.uint8, (samples, kib, 1024, 1))
        for at in range(0, samples, 1024):
            rows[at:at + 1024] = random.integers(0, 256, rows[at:at + 1024].shape, dtype=np.uint8)
        rows.flush()
        np.save(target.parent / f"cold_{kib}k.labels.npy", np.arange(samples) % 10)

    return make_cold


def table(target, _source):
    import pyarrow
    import pyarrow.parquet

    random = np.random.default_rng(0)
    columns = {f"x{i}": random.standard_normal(400_000, dtype=np.float32) for i in range(100)}
    columns["label"] = random.integers(0, 10, 400_000)
    pyarrow.parquet.write_table(pyarrow.table(columns), target)


MAKERS = {"mnist": mnist, "cifar10": cifar10, "photographs": photographs, "photographs_256": photographs_256,
          "photographs_224.npy": photographs_224, "cold_4k.npy": cold(4), "cold_32k.npy": cold(32),
          "cold_128k.npy": cold(128), "table.parquet": table}


def make(folder, source, name):
    """Writes under a temporary name first, so that the final name always holds complete data."""
    target = folder / name
    if target.exists():
        return
    partial = folder / f"partial_{name}"
    if partial.is_dir() and not partial.is_symlink():
        shutil.rmtree(partial)
    elif partial.exists() or partial.is_symlink():
        partial.unlink()
    print(f"making {target}", file=sys.stderr)
    MAKERS[name](partial, source)
    partial.rename(target)


if __name__ == "__main__":
    from workloads import WORKLOADS

    folder, source = (pathlib.Path(word) for word in sys.argv[1:3])
    folder.mkdir(parents=True, exist_ok=True)
    for row in sys.argv[3:] or WORKLOADS:
        make(folder, source, WORKLOADS[row].data)
