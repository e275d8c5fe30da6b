"""FLOPs of the forward pass, and of forward and backward, of torchvision's networks by torch.utils.flop_counter. The backward
pass is left out if PyTorch counts it differently from trainctl: PyTorch counts weight gradients of grouped convolutions for every
pair of channels, and attention without recomputing the scores.

Needs torch 2.11, torchvision 0.26, numpy and pillow."""
import torch
import torchvision
from golden import save
from torch import nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode


def mlp(shape, classes):
    return nn.Sequential(nn.Flatten(), nn.Linear(torch.Size(shape).numel(), 128), nn.ReLU(), nn.Linear(128, 64), nn.ReLU(),
                         nn.Linear(64, classes))


def vit_tiny(shape, classes):
    return torchvision.models.VisionTransformer(shape[1], 4, 12, 3, 192, 768, num_classes=classes)


def resnet18(shape, classes):
    return torchvision.models.resnet18(num_classes=classes)


def mobilenet_v2(shape, classes):
    return torchvision.models.mobilenet_v2(num_classes=classes)


CASES = [
    (mlp, "{hidden: [128, 64]}", [1, 28, 28], 10, True),
    (resnet18, "{}", [3, 64, 64], 1000, True),
    (mobilenet_v2, "{}", [3, 64, 64], 10, False),
    (vit_tiny, "{patch_size: 4}", [3, 32, 32], 10, False),
]


def case(make, options, shape, classes, counts_backward):
    model, inputs = make(shape, classes), torch.randn(2, *shape)
    with sdpa_kernel(SDPBackend.MATH):
        with FlopCounterMode(display=False) as forward:
            model(inputs)
        with FlopCounterMode(display=False) as step:
            model(inputs).sum().backward()
    return {"model": make.__name__, "options": options, "input_shape": shape, "classes": classes,
            "forward": forward.get_total_flops(), "step": step.get_total_flops() if counts_backward else None}


save("flops", {"rows": 2, "cases": [case(*one) for one in CASES]})
