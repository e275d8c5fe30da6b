"""What torchvision's transforms.v2 makes of small uint8 pictures, with its random parameters given.

Needs torchvision 0.26 beside torch 2.11. Pixels are written as hex, rows of pixels of channels.
"""
import math

import torch
import torchvision
from golden import save
from torchvision.transforms import InterpolationMode
from torchvision.transforms.v2 import AutoAugment, AutoAugmentPolicy, RandAugment, TrivialAugmentWide
from torchvision.transforms.v2 import functional as F


def picture(channels, height, width, kind):
    """Waves, so that neighbours differ little; noise, so that everything occurs; or one colour."""
    random = torch.Generator().manual_seed(1000 * height + width)
    if kind == "noise":
        return torch.randint(0, 256, (channels, height, width), generator=random, dtype=torch.uint8)
    if kind == "flat":
        return torch.tensor([200, 31, 64][:channels], dtype=torch.uint8)[:, None, None].repeat(1, height, width)
    y = torch.arange(height)[:, None] / height
    x = torch.arange(width)[None, :] / width
    waves = [torch.sin(3.1 * (c + 1) * x + 2.3 * y) * torch.cos(4 * y - c * x) for c in range(channels)]
    noise = torch.randint(-8, 9, (channels, height, width), generator=random)
    return (torch.stack(waves) * 90 + 120 + noise).clamp(0, 255).to(torch.uint8)


PICTURES = {
    "waves": picture(3, 21, 34, "waves"),
    "noise": picture(3, 13, 17, "noise"),
    "grey": picture(1, 11, 8, "noise"),
    "square": picture(3, 12, 12, "waves"),
    "flat": picture(3, 3, 5, "flat"),
    "narrow": picture(3, 9, 2, "noise"),
}
INTERPOLATION = {"nearest": InterpolationMode.NEAREST, "bilinear": InterpolationMode.BILINEAR}


def pixels(image):
    return bytes(image.permute(1, 2, 0).flatten().tolist()).hex()


def shape(image):
    return [image.shape[1], image.shape[2], image.shape[0]]


def case(op, name, function, **parameters):
    output = function(PICTURES[name])
    return {"op": op, "picture": name, **parameters, "shape": shape(output), "pixels": pixels(output)}


def write(name, cases):
    used = {one["picture"]: PICTURES[one["picture"]] for one in cases if "picture" in one}
    save(f"transforms_{name}", {
        "torchvision": torchvision.__version__,
        "pictures": [{"name": key, "shape": shape(image), "pixels": pixels(image)} for key, image in used.items()],
        "cases": cases,
    })


def crops():
    for name in PICTURES:
        yield case("horizontal_flip", name, F.horizontal_flip)
        yield case("vertical_flip", name, F.vertical_flip)
    windows = [("noise", [2, 3, 4, 5], 1, 4, 15, 19), ("noise", [0, 1, 0, 0], 0, 0, 5, 17), ("grey", [3, 3, 3, 3], 2, 1, 7, 12)]
    for mode in ("constant", "edge", "reflect", "symmetric"):
        for name, padding, top, left, height, width in windows:
            def crop(image):
                padded = F.pad(image, padding, fill=77, padding_mode=mode)
                return F.crop(padded, top, left, height, width)
            yield case("crop_padded", name, crop, padding=padding, mode=mode, fill=[77], box=[top, left, height, width])
    yield case("crop_padded", "noise", lambda image: F.crop(F.pad(image, [4, 4], fill=[1, 20, 255]), 0, 2, 18, 21),
               padding=[4, 4, 4, 4], mode="constant", fill=[1, 20, 255], box=[0, 2, 18, 21])
    for name, box, value in (("noise", [2, 3, 5, 7], [9.0]), ("noise", [0, 0, 12, 16], [1.0, 2.0, 250.0]), ("grey", [10, 7, 1, 1], [0.0])):
        top, left, height, width = box
        yield case("erase", name, lambda image: F.erase(image, top, left, height, width, torch.tensor(value)[:, None, None]),
                   box=box, value=[int(v) for v in value])


write("crop", list(crops()))
