"""Convolutional networks of torchvision 0.26 after torch.manual_seed: names, shapes and first values of each parameter, logits of
a given input in training and in evaluation, and the running statistics after the training step.

SE-ResNet-50 is torchvision's ResNet-50 with its SqueezeExcitation under timm's names; the CIFAR networks use torchvision's
BasicBlock.

Needs torch 2.11, torchvision 0.26, numpy and pillow."""
import torch
import torch.nn.functional as F
import torchvision
from golden import numbers, ramp, save
from torch import nn
from torchvision.models.resnet import BasicBlock, Bottleneck, ResNet

SEED = 42


class SeBottleneck(Bottleneck):
    """Creates the gate before the shortcut's convolution, as timm does, so that both draw their weights in the same order."""

    def __init__(self, inplanes, planes, stride=1, downsample=None, *rest, **named):
        super().__init__(inplanes, planes, stride, None, *rest, **named)
        self.se = torchvision.ops.SqueezeExcitation(planes * 4, planes * 4 // 16)
        del self.downsample
        self.downsample = downsample

    def forward(self, x):
        out = self.relu(self.bn1(self.conv1(x)))
        out = self.relu(self.bn2(self.conv2(out)))
        out = self.se(self.bn3(self.conv3(out)))
        return self.relu(out + (x if self.downsample is None else self.downsample(x)))


def se_resnet50(num_classes):
    model = ResNet(SeBottleneck, [3, 4, 6, 3], num_classes=num_classes)
    for module in model.modules():
        if isinstance(module, nn.Conv2d) and module.bias is not None:
            nn.init.zeros_(module.bias)
    return model


class Pad(nn.Module):
    def __init__(self, added):
        super().__init__()
        self.added = added

    def forward(self, x):
        return F.pad(x[:, :, ::2, ::2], (0, 0, 0, 0, self.added // 2, self.added // 2))


def shortcut_of(kind, width):
    if kind == "a":
        return Pad(width // 2)
    return nn.Sequential(nn.Conv2d(width // 2, width, 1, 2, bias=False), nn.BatchNorm2d(width))


class ResnetCifar(nn.Module):
    def __init__(self, num_classes, depth=20, shortcut="a"):
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(3, 16, 3, padding=1, bias=False), nn.BatchNorm2d(16)
        for i, width in enumerate([16, 32, 64]):
            blocks = []
            for j in range((depth - 2) // 6):
                first = i > 0 and j == 0
                around = shortcut_of(shortcut, width) if first else None
                blocks.append(BasicBlock(width // 2 if first else width, width, 2 if first else 1, around))
            setattr(self, f"layer{i + 1}", nn.Sequential(*blocks))
        self.fc = nn.Linear(64, num_classes)
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")

    def forward(self, x):
        x = F.relu(self.bn1(self.conv1(x)))
        return self.fc(self.layer3(self.layer2(self.layer1(x))).mean((2, 3)))


OWN = {"se_resnet50": se_resnet50, "resnet_cifar": ResnetCifar}
CASES = [
    # type, options, input shape, classes, whether a training step is recorded too
    ("resnet18", {}, [3, 64, 64], 5, True),
    ("resnet18", {"zero_init_residual": True}, [3, 33, 47], 3, True),
    ("resnet34", {}, [3, 64, 64], 5, True),
    ("resnet50", {}, [3, 64, 64], 5, True),
    ("resnet50", {"zero_init_residual": True}, [3, 64, 48], 3, True),
    ("resnet101", {}, [3, 64, 64], 5, False),
    ("resnet152", {}, [3, 64, 64], 5, False),
    ("se_resnet50", {}, [3, 64, 64], 5, True),
    ("resnet_cifar", {}, [3, 32, 32], 10, True),
    ("resnet_cifar", {"depth": 32, "shortcut": "b"}, [3, 32, 32], 10, True),
    ("resnet_cifar", {"depth": 110}, [3, 17, 31], 3, False),
    ("mobilenet_v2", {}, [3, 64, 64], 5, True),
    ("mobilenet_v2", {"width_mult": 0.35, "dropout": 0.5}, [3, 40, 64], 3, True),
    ("mobilenet_v2", {"width_mult": 1.4}, [3, 64, 64], 3, False),
    ("mobilenet_v3_small", {}, [3, 64, 64], 5, True),
    ("mobilenet_v3_small", {"width_mult": 0.75}, [3, 64, 64], 3, False),
    ("mobilenet_v3_large", {}, [3, 64, 64], 5, True),
    ("efficientnet_b0", {}, [3, 64, 64], 5, True),
    ("efficientnet_b0", {"stochastic_depth_prob": 0.8, "dropout": 0.5}, [3, 64, 64], 3, True),
    ("efficientnet_b1", {}, [3, 64, 64], 5, False),
    ("efficientnet_b2", {}, [3, 64, 64], 5, False),
    ("efficientnet_b3", {}, [3, 64, 64], 5, False),
    ("efficientnet_b4", {}, [3, 64, 64], 5, False),
]


def train(model, inputs):
    """Runs a forward pass in training; dropout and stochastic depth draw from a separate seed."""
    torch.manual_seed(SEED + 1)
    return {"train_logits": numbers(model.train()(inputs).detach()),
            "buffers": [[name, float(f"{b.double().mean():.6g}")] for name, b in model.named_buffers()]}


def describe(kind, options, shape, classes, trains):
    torch.manual_seed(SEED)
    model = OWN.get(kind, getattr(torchvision.models, kind, None))(num_classes=classes, **options)
    parameters = [[name, list(p.shape), numbers(p.detach().flatten()[:2])] for name, p in model.named_parameters()]
    trained = train(model, ramp(shape)) if trains else {"buffers": [[name] for name, _ in model.named_buffers()]}
    logits = model.eval()(ramp(shape)).detach()
    print(kind, options, "logits up to", float(logits.abs().max()))
    return {"type": kind, "options": options, "input_shape": shape, "classes": classes, "parameters": parameters, **trained,
            "logits": numbers(logits)}


save("convnets", {"torchvision": torchvision.__version__, "seed": SEED, "cases": [describe(*case) for case in CASES]})
