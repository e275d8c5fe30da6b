"""NVIDIA DALI on the CPU: crop decode, antialiased bilinear resize, flip. Its shuffle is exact only if the whole set fits the
reader's buffer, so the buffer has the size of the set."""

import math

from nvidia.dali import fn, pipeline_def, types

import data_sets


@pipeline_def
def crops(files, labels):
    encoded, label = fn.readers.file(files=files, labels=labels, random_shuffle=True, initial_fill=len(files))
    images = fn.decoders.image_random_crop(encoded, device="cpu", random_area=[0.08, 1], random_aspect_ratio=[3 / 4, 4 / 3])
    images = fn.resize(images, size=(224, 224), interp_type=types.INTERP_LINEAR, antialias=True)
    return fn.flip(images, horizontal=fn.random.coin_flip()), label


def open_loader(_kind, workload, folder, workers):
    files, labels = zip(*data_sets.files(folder / workload.data))
    pipeline = crops(list(files), list(labels), batch_size=workload.batch, num_threads=max(1, workers), device_id=None, seed=1)
    pipeline.build()

    def epoch(_number):
        for _ in range(math.ceil(len(files) / workload.batch)):
            yield pipeline.run()[1].as_array().ravel()

    return epoch
