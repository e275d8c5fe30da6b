"""Returns the data of the rows as tensors and files, for the peers."""

import gzip
import pathlib

import numpy as np
import torch


def mnist(folder):
    def idx(name, offset):
        path = folder / name
        data = gzip.decompress(path.with_name(name + ".gz").read_bytes()) if not path.exists() else path.read_bytes()
        return torch.from_numpy(np.frombuffer(data, np.uint8, offset=offset).copy())

    images = idx("train-images-idx3-ubyte", 16).reshape(-1, 1, 28, 28)
    return images, idx("train-labels-idx1-ubyte", 8).long()


def cifar10(folder):
    parts = [np.fromfile(path, np.uint8) for path in sorted(folder.glob("cifar-10-batches-bin/data_batch_*.bin"))]
    records = torch.from_numpy(np.concatenate(parts).reshape(-1, 3073))
    return records[:, 1:].reshape(-1, 3, 32, 32).contiguous(), records[:, 0].long()


def array(path):
    """Returns memory-mapped images and their labels, the sample's number mod 10."""
    images = torch.from_numpy(np.load(path, mmap_mode="c"))
    return images, torch.arange(len(images)) % 10


def table(path):
    import pyarrow.parquet

    columns = pyarrow.parquet.read_table(path)
    names = [name for name in columns.column_names if name != "label"]
    rows = np.stack([columns[name].to_numpy() for name in names], axis=1)
    return torch.from_numpy(np.ascontiguousarray(rows)), torch.from_numpy(columns["label"].to_numpy().copy())


def files(folder):
    """Returns [(path, class)] in the order of torchvision's ImageFolder."""
    classes = sorted(path for path in pathlib.Path(folder).iterdir() if path.is_dir())
    return [(str(path), label) for label, one in enumerate(classes) for path in sorted(one.iterdir())]


def tensors(workload, folder):
    path = folder / workload.data
    if workload.name.startswith("W1"):
        return mnist(path)
    if workload.name.startswith("W2"):
        return cifar10(path)
    return table(path) if workload.job == "rows" else array(path)
