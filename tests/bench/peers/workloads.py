"""The rows of the loader benchmark: the work of every peer, and the experiment file with the same work for trainctl."""

import dataclasses
import json


@dataclasses.dataclass(frozen=True)
class Workload:
    """One row. `data` is a path below the data folder; `shape` is one sample as height, width, channels."""

    name: str
    title: str
    data: str
    batch: int
    shape: tuple
    job: str  # the work per sample: copy, pad_crop_flip, rrc_flip, flip, read, rows
    peers: tuple
    dataset: dict  # trainctl's dataset.train
    limit: str
    packed_from: dict = dataclasses.field(default_factory=dict)  # the input of an initial `trainctl data pack --mode raw`
    cold: bool = False  # each epoch starts without the data in the page cache
    floats: tuple = ()  # (mean, std) of each channel for batches as float32, NCHW, normalized; empty for u8

    @property
    def pack(self):
        return f"{self.name.lower()}.pack"

    def experiment(self, folder):
        return self.file_of(self.dataset, folder)

    def pack_source(self, folder):
        return self.file_of(self.packed_from, folder)

    def file_of(self, dataset, folder):
        """Returns an experiment file, as JSON, which is YAML. The format requires the model and the optimizer, which are not
        used."""
        dataset = json.loads(json.dumps(dataset).replace("DATA", str(folder)))
        if self.floats:
            mean, std = map(list, self.floats)
            dataset["transforms"] = dataset.get("transforms", []) + [{"type": "normalize", "mean": mean, "std": std}]
        return json.dumps({"name": self.name.lower(), "dataset": {"train": dataset}, "loader": {"batch_size": self.batch},
                           "model": {"type": "mlp", "hidden": [8]}, "optimizer": {"type": "sgd", "lr": 0.1}}, indent=1) + "\n"


RRC = [{"type": "random_resized_crop", "size": 224}, "random_horizontal_flip"]
MNIST = ((0.1307,), (0.3081,))
CIFAR = ((0.4914, 0.4822, 0.4465), (0.2470, 0.2435, 0.2616))
IMAGENET = ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))
FOLDER_PEERS = ("dataloader_pillow", "dataloader_tensor", "spdl", "ffcv", "dali")


def cold(kib):
    return Workload(f"W7-{kib}", f"cold file of {kib} KiB samples, exact shuffle", f"cold_{kib}k.npy", 256, (kib, 1024, 1),
                    "read", ("dataloader",), {"type": "pack", "path": f"DATA/w7-{kib}.pack"}, "fio at depth 32",
                    {"type": "npy", "images": f"DATA/cold_{kib}k.npy", "labels": f"DATA/cold_{kib}k.labels.npy"}, cold=True)


def in_floats(workload, name, title, floats):
    return dataclasses.replace(workload, name=name, title=title, floats=floats, limit="gather + convert, one thread")


ROWS = (
    Workload("W1", "MNIST in memory, u8", "mnist", 256, (28, 28, 1), "copy", ("dataloader", "index_select", "index_select_1"),
             {"type": "mnist", "root": "DATA/mnist", "split": "train"}, "gather"),
    Workload("W2", "CIFAR in memory, pad 4, crop 32, flip, u8", "cifar10", 256, (32, 32, 3), "pad_crop_flip",
             ("dataloader", "index_select", "index_select_1", "ffcv"),
             {"type": "cifar10", "root": "DATA/cifar10", "split": "train",
              "transforms": [{"type": "random_crop", "size": 32, "padding": 4}, "random_horizontal_flip"]}, "gather"),
    Workload("W3", "2,000 photographs (JPEG), RandomResizedCrop 224, flip, u8", "photographs", 128, (224, 224, 3),
             "rrc_flip", FOLDER_PEERS, {"type": "image_folder", "root": "DATA/photographs", "transforms": RRC},
             "crop decode x threads"),
    Workload("W4", "the same at 256 px of the short side, JPEG q90", "photographs_256", 128, (224, 224, 3), "rrc_flip",
             FOLDER_PEERS, {"type": "image_folder", "root": "DATA/photographs_256", "transforms": RRC},
             "crop decode x threads"),
    Workload("W5", "the same at 256 px, raw pixels", "photographs_256", 128, (224, 224, 3), "rrc_flip",
             ("dataloader_raw", "ffcv_raw"), {"type": "pack", "path": "DATA/w5.pack", "transforms": RRC},
             "transforms x threads", {"type": "image_folder", "root": "DATA/photographs_256"}),
    Workload("W6", "decoded set of 224 x 224, flip, u8", "photographs_224.npy", 128, (224, 224, 3), "flip",
             ("dataloader", "index_select", "index_select_1", "ffcv_raw"),
             {"type": "npy", "images": "DATA/photographs_224.npy", "labels": "DATA/photographs_224.labels.npy",
              "transforms": ["random_horizontal_flip"]}, "gather"),
    cold(4), cold(32), cold(128),
    Workload("W8", "Parquet, 100 float columns", "table.parquet", 8192, (100,), "rows",
             ("dataloader", "index_select", "index_select_1"),
             {"type": "parquet", "path": "DATA/table.parquet", "label": "label"}, "gather"),
)
WORKLOADS = {w.name: w for w in (
    *ROWS,
    in_floats(ROWS[0], "W1-f32", "MNIST in memory, f32 normalized", MNIST),
    in_floats(ROWS[1], "W2-f32", "CIFAR in memory, pad 4, crop 32, flip, f32 normalized", CIFAR),
    in_floats(ROWS[5], "W6-f32", "decoded set of 224 x 224, flip, f32 normalized", IMAGENET),
)}
