"""Pixels of torchvision 0.26: resize, center_crop and resized_crop on uint8 images that a formula makes."""
import torch
from golden import save
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


def picture(height, width, channels):
    index = torch.arange(height * width * channels, dtype=torch.int64)
    values = (((index + 1) * 2654435761) % 2**32) >> 24
    return values.to(torch.uint8).reshape(height, width, channels).permute(2, 0, 1).contiguous()


def pixels(image):
    return {"shape": list(image.permute(1, 2, 0).shape), "pixels": bytes(image.permute(1, 2, 0).flatten().tolist()).hex()}


def resized(height, width, channels, size, max_size):
    image = F.resize(picture(height, width, channels), size, max_size=max_size, antialias=True)
    return {"input": [height, width, channels], "size": size, "max_size": max_size, **pixels(image)}


def cropped(height, width, crop_height, crop_width):
    image = F.center_crop(picture(height, width, 3), [crop_height, crop_width])
    return {"input": [height, width, 3], "size": [crop_height, crop_width], **pixels(image)}


def resize_cropped(height, width, top, left, crop_height, crop_width, size):
    image = F.resized_crop(picture(height, width, 3), top, left, crop_height, crop_width, size, antialias=True)
    return {"input": [height, width, 3], "box": [top, left, crop_height, crop_width], "size": size, **pixels(image)}


save("images", {
    "resize": [resized(*case) for case in RESIZES],
    "center_crop": [cropped(*case) for case in CROPS],
    "resized_crop": [resize_cropped(*case) for case in RESIZED_CROPS],
})
