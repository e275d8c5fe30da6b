"""Results of torchvision's transforms.v2 on small uint8 pictures, with its random parameters given.

Pixels are written as hex, in rows of pixels of channels.

Needs torch 2.11, torchvision 0.26, numpy and pillow."""
import math

import torch
import torchvision
from golden import save
from torchvision.transforms import InterpolationMode
from torchvision.transforms.v2 import AutoAugment, AutoAugmentPolicy, CutMix, MixUp, RandAugment, TrivialAugmentWide
from torchvision.transforms.v2 import functional as F


def picture(channels, height, width, kind):
    """Returns waves, whose neighbors differ little; noise, which has every value; or one color."""
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
    "waves": picture(3, 15, 22, "waves"),
    "noise": picture(3, 13, 17, "noise"),
    "gray": picture(1, 11, 8, "noise"),
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


def write(name, cases, **more):
    used = {one["picture"]: PICTURES[one["picture"]] for one in cases if "picture" in one}
    save(f"transforms_{name}", {
        "torchvision": torchvision.__version__,
        "pictures": [{"name": key, "shape": shape(image), "pixels": pixels(image)} for key, image in used.items()],
        "cases": cases,
        **more,
    })


def crops():
    for name in PICTURES:
        yield case("horizontal_flip", name, F.horizontal_flip)
        yield case("vertical_flip", name, F.vertical_flip)
    windows = [("noise", [2, 3, 4, 5], 1, 4, 15, 19), ("noise", [0, 1, 0, 0], 0, 0, 5, 17), ("gray", [3, 3, 3, 3], 2, 1, 7, 12)]
    for mode in ("constant", "edge", "reflect", "symmetric"):
        for name, padding, top, left, height, width in windows:
            def crop(image):
                padded = F.pad(image, padding, fill=77, padding_mode=mode)
                return F.crop(padded, top, left, height, width)
            yield case("crop_padded", name, crop, padding=padding, mode=mode, fill=[77], box=[top, left, height, width])
    yield case("crop_padded", "noise", lambda image: F.crop(F.pad(image, [4, 4], fill=[1, 20, 255]), 0, 2, 18, 21),
               padding=[4, 4, 4, 4], mode="constant", fill=[1, 20, 255], box=[0, 2, 18, 21])
    for name, box, value in (("noise", [2, 3, 5, 7], [9.0]), ("noise", [0, 0, 12, 16], [1.0, 2.0, 250.0]), ("gray", [10, 7, 1, 1], [0.0])):
        top, left, height, width = box
        yield case("erase", name, lambda image: F.erase(image, top, left, height, width, torch.tensor(value)[:, None, None]),
                   box=box, value=[int(v) for v in value])


def colors():
    for name in PICTURES:
        for factor in (0.0, 0.3, 0.37, 1.0, 1.4, 1.6, 1.83, 2.5):
            for op in (F.adjust_brightness, F.adjust_contrast, F.adjust_saturation, F.adjust_sharpness):
                yield case(op.__name__, name, lambda image: op(image, factor), factor=factor)
        for shift in (-0.5, -0.13, 0.0, 0.004, 0.29, 0.5):
            yield case("adjust_hue", name, lambda image: F.adjust_hue(image, shift), factor=shift)
        yield case("to_grayscale", name, lambda image: F.rgb_to_grayscale(image, image.shape[0]))
        for bits in (0, 1, 4, 8):
            yield case("posterize", name, lambda image: F.posterize(image, bits), factor=bits)
        for threshold in (0.0, 100.5, 128.0, 255.0):
            yield case("solarize", name, lambda image: F.solarize(image, threshold), factor=threshold)
        for op in (F.autocontrast, F.equalize, F.invert):
            yield case(op.__name__, name, op)


def blurs():
    for name, size, sigma in (("waves", [23, 7], 1.7), ("waves", [5, 5], 0.1), ("noise", [3, 3], 2.0), ("noise", [9, 21], 0.7),
                              ("gray", [1, 9], 3.1), ("gray", [5, 3], 0.5), ("flat", [3, 3], 1.0)):
        yield case("gaussian_blur", name, lambda image: F.gaussian_blur(image, size, [sigma, sigma]), kernel_size=size, sigma=sigma)


FILLS = {"waves": [[12, 200, 99]], "noise": [[255]], "gray": [[0], [80]], "square": [[7]], "narrow": [[3]]}


def fills():
    for name, choices in FILLS.items():
        for fill in choices:
            for mode, interpolation in INTERPOLATION.items():
                yield name, fill, mode, {"interpolation": interpolation, "fill": [float(value) for value in fill]}


def rotations():
    for name, fill, mode, options in fills():
        for angle in (90.0, 180.0, 270.0, 31.7, -123.4):
            for expand in (False, True):
                yield case("rotate", name, lambda image: F.rotate(image, angle, expand=expand, **options),
                           angle=angle, expand=expand, fill=fill, mode=mode)
        yield case("rotate", name, lambda image: F.rotate(image, 77.0, center=[2.5, 4.0], **options),
                   angle=77.0, expand=False, center=[2.5, 4.0], fill=fill, mode=mode)


def motions():
    for name, fill, mode, options in fills():
        for angle, translate, scale, shear, center in (
            (0.0, [3, -2], 1.0, [0.0, 0.0], None),
            (20.0, [0, 0], 1.3, [0.0, 0.0], None),
            (-35.5, [1, 2], 0.71, [12.0, -7.5], None),
            (10.0, [0, -3], 1.0, [0.0, 30.0], [0.0, 0.0]),
        ):
            yield case("affine", name, lambda image: F.affine(image, angle, translate, scale, shear, center=center, **options),
                       angle=angle, translate=translate, scale=scale, shear=shear, center=center, fill=fill, mode=mode)


def tilts():
    for name, corners in (("waves", [[3, 4], [20, 2], [17, 13], [5, 11]]), ("noise", [[0, 0], [16, 0], [16, 12], [0, 12]]),
                          ("noise", [[4, 3], [12, 1], [13, 9], [2, 11]]), ("gray", [[1, 2], [6, 0], [7, 10], [0, 7]])):
        image = PICTURES[name]
        right, bottom = image.shape[2] - 1, image.shape[1] - 1
        start = [[0, 0], [right, 0], [right, bottom], [0, bottom]]
        for fill in FILLS[name]:
            for mode, interpolation in INTERPOLATION.items():
                yield case("perspective", name, lambda image: F.perspective(image, start, corners, interpolation, [float(v) for v in fill]),
                           corners=corners, fill=fill, mode=mode)


def snake(name):
    return "".join("_" + letter.lower() if letter.isupper() else letter for letter in name)[1:]


def spaces():
    """Yields every magnitude of every operation, for one size of image."""
    for kind, space, bins in ((TrivialAugmentWide, "wide", 31), (TrivialAugmentWide, "wide", 6), (RandAugment, "standard", 31),
                              (AutoAugment, "standard", 10)):
        for op, (magnitudes, signed) in kind._AUGMENTATION_SPACE.items():
            values = magnitudes(bins, 33, 47)
            yield {"space": space, "bins": bins, "op": snake(op), "signed": signed,
                   "values": None if values is None else [float(value) for value in values]}


def policies():
    for policy in AutoAugmentPolicy:
        for pair in AutoAugment._get_policies(None, policy):
            yield {"policy": policy.value, "pair": [[snake(op), p, bin] for op, p, bin in pair]}


def augmentations():
    transform = TrivialAugmentWide()
    for name in ("waves", "gray"):
        for mode in INTERPOLATION:
            for fill in (None, [90.0]):
                for op, (magnitudes, signed) in AutoAugment._AUGMENTATION_SPACE.items():
                    table = magnitudes(10, *PICTURES[name].shape[1:])
                    magnitude = 0.0 if table is None else float(table[7]) * (-1 if signed else 1)
                    yield case("augment", name, lambda image: transform._apply_image_or_video_transform(
                        image, op, magnitude, INTERPOLATION[mode], {torch.Tensor: fill}), kind=snake(op), magnitude=magnitude,
                        fill=None if fill is None else [90], mode=mode)


def mixed(transform, **parameters):
    """Returns a batch of two, mixed as floats because torchvision does not mix bytes. Halves round up."""
    batch = torch.stack([PICTURES["square"], PICTURES["square"].flip(2)]).float()
    output = (transform.transform(batch, {"labels": None, "batch_size": 2, **parameters}) + 0.5).floor().to(torch.uint8)
    return {"pixels": pixels(output[0]), "other": pixels(output[1])}


class Fixed:
    """Replaces a distribution, or randint, and returns these values."""

    def __init__(self, *values):
        self.values = list(values)

    def __call__(self, *arguments, size):
        return torch.tensor([self.values.pop(0)])

    def sample(self, shape):
        return self.values[0]


def mixes():
    for own in (0, 1, 77, 128, 200, 255, 256):
        yield {"kind": "mixup", "own": own, **mixed(MixUp(num_classes=2), lam=own / 256)}
    for lam, x, y in ((0.0, 5, 5), (0.31, 0, 11), (0.75, 6, 3), (1.0, 4, 4), (0.97, 11, 0)):
        cutmix = CutMix(num_classes=2)
        cutmix._dist = Fixed(lam)
        randint, torch.randint = torch.randint, Fixed(x, y)
        parameters = cutmix.make_params([PICTURES["square"]])
        torch.randint = randint
        left, top, right, bottom = parameters["box"]
        yield {"kind": "cutmix", "drawn": [lam, x, y], "box": [top, left, bottom - top, right - left],
               "lambda": parameters["lam_adjusted"], **mixed(cutmix, **parameters)}


write("crop", list(crops()))
write("color", list(colors()))
write("blur", list(blurs()))
write("warp", [*rotations(), *motions(), *tilts()])
write("augment", list(augmentations()), spaces=list(spaces()), policies=list(policies()))
save("transforms_mix", {
    "torchvision": torchvision.__version__,
    "pictures": [{"shape": shape(image), "pixels": pixels(image)} for image in (PICTURES["square"], PICTURES["square"].flip(2))],
    "cases": list(mixes()),
})
