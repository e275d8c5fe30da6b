"""SPDL: threads decode with FFmpeg, whose filters crop, resize and flip. Batches arrive in completion order, so they are not
exact. The code follows SPDL's documentation: demux, decode with a filter, convert a whole batch into one buffer."""

import math
import random

import spdl.io
from spdl.pipeline import PipelineBuilder

import data_sets


def crop(width, height):
    """Follows torchvision's RandomResizedCrop.get_params."""
    for _ in range(10):
        area = width * height * random.uniform(0.08, 1)
        ratio = math.exp(random.uniform(math.log(3 / 4), math.log(4 / 3)))
        w, h = round(math.sqrt(area * ratio)), round(math.sqrt(area / ratio))
        if 0 < w <= width and 0 < h <= height:
            return w, h, random.randint(0, width - w), random.randint(0, height - h)
    side = min(width, height)
    return side, side, (width - side) // 2, (height - side) // 2


def decode(item):
    path, label = item
    packets = spdl.io.demux_image(path)
    box = ":".join(map(str, crop(packets.width, packets.height)))
    flip = "hflip," if random.random() < 0.5 else ""
    # Without exact=1 the box moves to even pixels where color is subsampled.
    steps = f"crop={box}:exact=1,scale=224:224:flags=bilinear,{flip}format=pix_fmts=rgb24"
    return spdl.io.decode_packets(packets, filter_desc=steps), label


def convert(items):
    frames, labels = zip(*items)
    return spdl.io.to_torch(spdl.io.convert_frames(list(frames))), labels


def open_loader(_kind, workload, folder, workers):
    files = data_sets.files(folder / workload.data)
    threads = max(1, workers)

    def endless():
        while True:
            random.shuffle(files)
            yield from files

    builder = PipelineBuilder().add_source(endless()).pipe(decode, concurrency=threads).aggregate(workload.batch)
    pipeline = builder.pipe(convert).add_sink(2).build(num_threads=threads)
    pipeline.start()
    batches = pipeline.get_iterator()

    def epoch(_number):
        for _ in range(math.ceil(len(files) / workload.batch)):
            yield next(batches)[1]

    return epoch
