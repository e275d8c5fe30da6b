"""FFCV: its own file format, compiled stages, RandomResizedCrop with OpenCV's INTER_AREA (its closest match to antialiasing)."""

import numpy as np
import torch
from ffcv.fields import IntField, RGBImageField
from ffcv.fields.basics import IntDecoder
from ffcv.fields.rgb_image import RandomResizedCropRGBImageDecoder, SimpleRGBImageDecoder
from ffcv.loader import Loader, OrderOption
from ffcv.transforms import NormalizeImage, RandomHorizontalFlip, RandomTranslate, Squeeze, ToTensor, ToTorchImage
from ffcv.writer import DatasetWriter
from PIL import Image

import data_sets


class Samples:
    """Returns (HWC array, class) for the writer."""

    def __init__(self, workload, folder):
        self.files = data_sets.files(folder / workload.data) if workload.job == "rrc_flip" else None
        if not self.files:
            images, labels = data_sets.tensors(workload, folder)
            self.images = images if images.shape[-1] == 3 else images.permute(0, 2, 3, 1).contiguous()
            self.labels = labels

    def __len__(self):
        return len(self.files or self.labels)

    def __getitem__(self, i):
        if not self.files:
            return self.images[i].numpy(), int(self.labels[i])
        path, label = self.files[i]
        return np.asarray(Image.open(path).convert("RGB")), label


def keep_file(destination, path, malloc):
    """Replaces RGBImageField.encode and stores a JPEG file's own bytes, so that the peer decodes the same data as the others."""
    with Image.open(path) as image:
        destination["width"], destination["height"] = image.size
    destination["mode"] = 0  # JPEG
    data = np.fromfile(path, np.uint8)
    destination["data_ptr"], storage = malloc(data.nbytes)
    storage[:] = data


class Paths(Samples):
    def __getitem__(self, i):
        return self.files[i]


def write(workload, folder, raw):
    path = folder / f"{workload.name.split('-')[0]}_{'raw' if raw else 'jpeg'}.beton"
    if not path.exists():
        keep = workload.job == "rrc_flip" and not raw
        image = RGBImageField(write_mode="jpg" if keep else "raw")
        if keep:
            image.encode = keep_file  # a subclass would be a custom field, which the reader refuses
        partial = path.with_suffix(".partial")
        samples = (Paths if keep else Samples)(workload, folder)
        DatasetWriter(str(partial), {"image": image, "label": IntField()}, num_workers=1).from_indexed_dataset(samples)
        partial.rename(path)
    return path


def open_loader(kind, workload, folder, workers):
    path = write(workload, folder, kind == "ffcv_raw" or workload.job == "pad_crop_flip")
    decoder = (RandomResizedCropRGBImageDecoder((224, 224)) if workload.job == "rrc_flip" else SimpleRGBImageDecoder())
    steps = {"rrc_flip": [RandomHorizontalFlip()], "flip": [RandomHorizontalFlip()],
             "pad_crop_flip": [RandomTranslate(padding=4), RandomHorizontalFlip()]}[workload.job]
    if workload.floats:
        mean, std = (255 * np.array(values) for values in workload.floats)
        last = [NormalizeImage(mean, std, np.float32), ToTensor(), ToTorchImage(channels_last=False)]
    else:
        last = [ToTensor()]
    pipelines = {"image": [decoder, *steps, *last], "label": [IntDecoder(), ToTensor(), Squeeze()]}
    loader = Loader(str(path), batch_size=workload.batch, num_workers=max(1, workers), order=OrderOption.RANDOM,
                    os_cache=True, drop_last=False, pipelines=pipelines)

    def epoch(_number):
        for images, labels in loader:
            assert images.dtype == (torch.float32 if workload.floats else torch.uint8)
            yield labels

    return epoch
