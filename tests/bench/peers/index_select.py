"""What a careful user writes by hand for a set in memory: one permutation, one index_select a batch; augmentation of the
whole set at the start of an epoch, as airbench's CIFAR loader does. No workers: torch's own threads."""

import torch

import data_sets


def pad_crop_flip(images, labels):
    """Crops of 32 from the set padded by 4: all rows first, then all columns; then the flip."""
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
        return torch.where(flipped[:, None, None, None], images.flip(2), images)  # the width of NHWC
    return augment


def plain(images, _labels):
    return lambda: images


STEPS = {"pad_crop_flip": pad_crop_flip, "flip": flip}


def open_loader(_kind, workload, folder, _workers):
    images, labels = data_sets.tensors(workload, folder)
    augment = STEPS.get(workload.job, plain)(images.clone(), labels)

    def epoch(_number):
        augmented = augment()
        for index in torch.randperm(len(labels)).split(workload.batch):
            augmented.index_select(0, index)
            yield labels.index_select(0, index)

    return epoch
