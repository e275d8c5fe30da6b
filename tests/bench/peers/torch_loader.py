"""torch's DataLoader with torchvision's transforms, as in its documentation: exact shuffle, one sample per call."""

import gc
import mmap
import os
import subprocess

import numpy as np
import torch
from PIL import Image
from torch.utils.data import DataLoader, Dataset
from torchvision.io import ImageReadMode, decode_jpeg, read_file
from torchvision.transforms import v2

import data_sets

CROP = [v2.RandomResizedCrop(224, antialias=True), v2.RandomHorizontalFlip()]
STEPS = {"copy": [], "read": [], "rows": [], "flip": [v2.RandomHorizontalFlip()], "rrc_flip": CROP,
         "pad_crop_flip": [v2.RandomCrop(32, padding=4), v2.RandomHorizontalFlip()]}


def steps_of(workload):
    last = [v2.ToDtype(torch.float32, scale=True), v2.Normalize(*workload.floats)] if workload.floats else []
    return STEPS[workload.job] + last


class Tensors(Dataset):
    def __init__(self, workload, folder):
        self.images, self.labels = data_sets.tensors(workload, folder)
        self.channels_last = workload.job == "flip"
        steps = steps_of(workload)
        self.transform = v2.Compose(steps) if steps else torch.nn.Identity()

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, i):
        image = self.images[i].permute(2, 0, 1) if self.channels_last else self.images[i]
        return self.transform(image), self.labels[i]


class Files(Dataset):
    """Reads files; `decode` returns the input of the transforms."""

    def __init__(self, workload, folder, decode, last):
        self.files = data_sets.files(folder / workload.data)
        self.decode, self.transform = decode, v2.Compose(CROP + last)

    def __len__(self):
        return len(self.files)

    def __getitem__(self, i):
        path, label = self.files[i]
        return self.transform(self.decode(path)), label


def pillow(path):
    with Image.open(path) as image:
        return image.convert("RGB")


def tensor(path):
    return decode_jpeg(read_file(path), mode=ImageReadMode.RGB)


class RawFiles(Dataset):
    """Reads decoded pixels, stored one image after another in a memory-mapped file."""

    def __init__(self, workload, folder):
        self.files = data_sets.files(folder / workload.data)
        self.sizes, raw = [], folder / "photographs_256.raw"
        for path, _ in self.files:
            with Image.open(path) as image:
                self.sizes.append((image.height, image.width, 3))
        if not raw.exists():
            with open(raw.with_suffix(".partial"), "wb") as out:
                for path, _ in self.files:
                    out.write(pillow(path).tobytes())
            raw.with_suffix(".partial").rename(raw)
        with open(raw, "rb") as file:
            self.pixels = np.frombuffer(mmap.mmap(file.fileno(), 0, mmap.MAP_PRIVATE), np.uint8)
        self.offsets = np.concatenate([[0], np.cumsum([np.prod(size) for size in self.sizes])])
        self.transform = v2.Compose(CROP)

    def __len__(self):
        return len(self.files)

    def __getitem__(self, i):
        pixels = self.pixels[self.offsets[i]:self.offsets[i + 1]].reshape(self.sizes[i])
        return self.transform(torch.from_numpy(pixels).permute(2, 0, 1)), self.files[i][1]


def dataset(kind, workload, folder):
    if kind == "dataloader_pillow":
        return Files(workload, folder, pillow, [v2.PILToTensor()])
    if kind == "dataloader_tensor":
        return Files(workload, folder, tensor, [])
    return RawFiles(workload, folder) if kind == "dataloader_raw" else Tensors(workload, folder)


def forget(path):
    """Drops the file from the page cache. Pages that a process has mapped would stay, so this returns how many did."""
    with open(path, "rb") as file:
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    kept = int(subprocess.run(["fincore", "--bytes", "--noheadings", "--output", "RES", path], check=True, capture_output=True,
                              text=True).stdout)
    if kept > path.stat().st_size // 100:
        raise RuntimeError(f"{kept} bytes of {path.name} are still in the page cache")


def open_loader(kind, workload, folder, workers):
    torch.set_num_threads(1 if workers else len(os.sched_getaffinity(0)))

    def loader():
        return DataLoader(dataset(kind, workload, folder), batch_size=workload.batch, shuffle=True, num_workers=workers,
                          persistent_workers=workers > 0)

    def cold_epoch(_number):  # maps the file again, also in new workers
        gc.collect()
        forget(folder / workload.data)
        for _images, labels in loader():
            yield labels

    if workload.job == "read":
        return cold_epoch
    warm = loader()

    def epoch(_number):
        for _images, labels in warm:
            yield labels

    return epoch
