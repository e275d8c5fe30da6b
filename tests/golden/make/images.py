"""Pixels of torchvision 0.26: resize, center_crop and resized_crop on uint8 images from a formula.

Also the boxes of its RandomResizedCrop, with random numbers from our counters instead of torch's generator.

Needs torch 2.11, torchvision 0.26, numpy and pillow."""
import types

import torch
from golden import save
from torchvision.transforms.v2 import RandomResizedCrop, _geometry
from torchvision.transforms import InterpolationMode
from torchvision.transforms.v2 import functional as F

RESIZES = [
    # height, width, channels, size, max_size
    (61, 47, 3, 20, None),
    (47, 61, 3, 30, None),
    (61, 47, 3, 20, 23),
    (33, 90, 3, [12, 31], None),
    (9, 7, 3, [25, 33], None),
    (90, 90, 1, [17, 90], None),
    (200, 3, 3, [5, 3], None),
    (1, 1, 3, [4, 5], None),
    (300, 411, 3, [7, 9], None),
    (40, 50, 3, [40, 25], None),
    (64, 64, 1, 32, None),
]
CROPS = [(20, 30, 12, 16), (21, 30, 12, 15), (23, 31, 12, 12), (8, 30, 12, 20), (9, 9, 14, 12), (5, 7, 5, 7)]
RESIZED_CROPS = [
    # height, width, top, left, crop height, crop width, size
    (60, 80, 5, 7, 40, 33, [24, 24]),
    (60, 80, 0, 0, 60, 80, [16, 20]),
    (60, 80, 20, 30, 9, 11, [22, 26]),
    (60, 80, 59, 79, 1, 1, [3, 3]),
]
BOXES = [
    # height, width, scale, ratio, number of positions
    (375, 500, (0.08, 1.0), (3 / 4, 4 / 3), 60),
    (500, 334, (0.08, 1.0), (3 / 4, 4 / 3), 40),
    (32, 32, (0.5, 0.9), (1.0, 1.0), 30),
    (20, 400, (0.8, 1.0), (3 / 4, 4 / 3), 10),
    (400, 20, (0.8, 1.0), (3 / 4, 4 / 3), 10),
    (3, 2, (0.01, 1.0), (0.1, 10.0), 40),
]


class Draws:
    """Replaces torch's generator with lib/base/random.cpp: the random numbers of seed 3, epoch 1, one position and operation 0."""

    def __init__(self, position):
        self.counter, self.words = [0, 1, position, 0], []

    def word(self):
        if not self.words:
            key, block = [3, 0], list(self.counter)
            for _ in range(10):
                a, b = 0xD2511F53 * block[0], 0xCD9E8D57 * block[2]
                block = [(b >> 32) ^ block[1] ^ key[0], b & 0xFFFFFFFF, (a >> 32) ^ block[3] ^ key[1], a & 0xFFFFFFFF]
                key = [(key[0] + 0x9E3779B9) & 0xFFFFFFFF, (key[1] + 0xBB67AE85) & 0xFFFFFFFF]
            self.counter[0] += 1
            self.words = block
        return self.words.pop(0)

    def uniform_(self, low, high):
        return torch.tensor([low + (self.word() >> 8) / 2**24 * (high - low)], dtype=torch.float64)

    def randint(self, low, high, size):
        while True:
            product = (self.word() << 32 | self.word()) * high
            if product % 2**64 >= 2**64 % high:
                return torch.tensor([product >> 64])


def drawn(height, width, scale, ratio, positions):
    boxes = []
    for position in range(positions):
        draws = Draws(position)
        _geometry.torch = types.SimpleNamespace(**{**vars(torch), "empty": lambda _: draws, "randint": draws.randint})
        crop = RandomResizedCrop(10, scale, ratio)
        crop._log_ratio = torch.tensor(ratio, dtype=torch.float64).log()  # torchvision's tensor is float32
        box = crop.make_params([torch.empty(3, height, width)])
        boxes.append([box["top"], box["left"], box["height"], box["width"]])
        _geometry.torch = torch
    return {"input": [height, width, 3], "scale": scale, "ratio": ratio, "boxes": boxes}


def picture(height, width, channels):
    index = torch.arange(height * width * channels, dtype=torch.int64)
    values = (((index + 1) * 2654435761) % 2**32) >> 24
    return values.to(torch.uint8).reshape(height, width, channels).permute(2, 0, 1).contiguous()


def pixels(image):
    return {"shape": list(image.permute(1, 2, 0).shape), "pixels": bytes(image.permute(1, 2, 0).flatten().tolist()).hex()}


def resized(height, width, channels, size, max_size, interpolation=InterpolationMode.BILINEAR):
    image = F.resize(picture(height, width, channels), size, interpolation, max_size=max_size, antialias=True)
    return {"input": [height, width, channels], "size": size, "max_size": max_size, **pixels(image)}


def cropped(height, width, crop_height, crop_width):
    image = F.center_crop(picture(height, width, 3), [crop_height, crop_width])
    return {"input": [height, width, 3], "size": [crop_height, crop_width], **pixels(image)}


def resize_cropped(height, width, top, left, crop_height, crop_width, size):
    image = F.resized_crop(picture(height, width, 3), top, left, crop_height, crop_width, size, antialias=True)
    return {"input": [height, width, 3], "box": [top, left, crop_height, crop_width], "size": size, **pixels(image)}


save("images", {
    "resize": [resized(*case) for case in RESIZES],
    "resize_nearest": [resized(*case, InterpolationMode.NEAREST) for case in RESIZES],
    "center_crop": [cropped(*case) for case in CROPS],
    "resized_crop": [resize_cropped(*case) for case in RESIZED_CROPS],
    "random_resized_crop": [drawn(*case) for case in BOXES],
})
