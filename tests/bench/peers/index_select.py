"""A careful manual loop for a set in memory: one permutation, one index_select per batch, and augmentation of the whole set at
the start of an epoch, as in airbench's CIFAR loader. It uses torch's threads instead of workers. index_select_1 uses one thread,
which is faster for small copies."""

import torch

import data_sets


def pad_crop_flip(images, labels):
    """Crops 32x32 from the set padded by 4, first all rows and then all columns, and flips."""
    padded = torch.nn.functional.pad(images, (4, 4, 4, 4))
    def augment():
        count = len(labels)
        top, left = torch.randint(0, 9, (2, count))
        rows = torch.empty(count, 3, 32, 40, dtype=torch.uint8)
        cropped = torch.empty(count, 3, 32, 32, dtype=torch.uint8)
        for shift in range(9):
            index = (top == shift).nonzero().squeeze(1)
            rows[index] = padded[index, :, shift:shift + 32]
        for shift in range(9):
            index = (left == shift).nonzero().squeeze(1)
            cropped[index] = rows[index, :, :, shift:shift + 32]
        flip = torch.rand(count) < 0.5
        return torch.where(flip[:, None, None, None], cropped.flip(3), cropped)
    return augment


def flip(images, labels):
    def augment():
        flipped = torch.rand(len(labels)) < 0.5
        return torch.where(flipped[:, None, None, None], images.flip(2), images)  # the width axis of NHWC
    return augment


def plain(images, _labels):
    return lambda: images


def in_floats(workload):
    """Multiplies and adds once per pixel, in place."""
    mean, std = (torch.tensor(values).view(-1, 1, 1) for values in workload.floats)
    scale, shift = 1 / (255 * std), -mean / std
    nhwc = workload.job == "flip"
    return lambda batch: (batch.permute(0, 3, 1, 2) if nhwc else batch).float().mul_(scale).add_(shift)


STEPS = {"pad_crop_flip": pad_crop_flip, "flip": flip}


def open_loader(kind, workload, folder, _workers):
    if kind == "index_select_1":
        torch.set_num_threads(1)
    images, labels = data_sets.tensors(workload, folder)
    augment = STEPS.get(workload.job, plain)(images.clone(), labels)
    finish = in_floats(workload) if workload.floats else lambda batch: batch

    def epoch(_number):
        augmented = augment()
        for index in torch.randperm(len(labels)).split(workload.batch):
            finish(augmented.index_select(0, index))
            yield labels.index_select(0, index)

    return epoch
