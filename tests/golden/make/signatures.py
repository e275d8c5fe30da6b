"""Options and defaults of the PyTorch and torchvision classes that our stages are named after, by inspect.signature.

For models, these are the arguments with which torchvision's builder calls the class, since functions such as resnet18() only have
**kwargs.

Needs torch 2.11, torchvision 0.26, numpy and pillow."""
import enum
import inspect
import typing
import unittest.mock

import torch
import torchvision
from golden import save
from torch import nn, optim
from torch.optim import lr_scheduler
from torchvision import models
from torchvision.transforms import v2

CLASSES = {
    "batch_transform/cutmix": v2.CutMix,
    "batch_transform/mixup": v2.MixUp,
    "layer/adaptive_avg_pool2d": nn.AdaptiveAvgPool2d,
    "layer/adaptive_max_pool2d": nn.AdaptiveMaxPool2d,
    "layer/avg_pool2d": nn.AvgPool2d,
    "layer/batch_norm2d": nn.BatchNorm2d,
    "layer/conv1d": nn.Conv1d,
    "layer/conv2d": nn.Conv2d,
    "layer/conv_transpose2d": nn.ConvTranspose2d,
    "layer/dropout": nn.Dropout,
    "layer/embedding": nn.Embedding,
    "layer/flatten": nn.Flatten,
    "layer/gelu": nn.GELU,
    "layer/group_norm": nn.GroupNorm,
    "layer/gru": nn.GRU,
    "layer/instance_norm2d": nn.InstanceNorm2d,
    "layer/layer_norm": nn.LayerNorm,
    "layer/leaky_relu": nn.LeakyReLU,
    "layer/linear": nn.Linear,
    "layer/log_softmax": nn.LogSoftmax,
    "layer/lstm": nn.LSTM,
    "layer/max_pool2d": nn.MaxPool2d,
    "layer/multihead_attention": nn.MultiheadAttention,
    "layer/permute": torchvision.ops.Permute,
    "layer/prelu": nn.PReLU,
    "layer/relu": nn.ReLU,
    "layer/rms_norm": nn.RMSNorm,
    "layer/rnn": nn.RNN,
    "layer/sigmoid": nn.Sigmoid,
    "layer/silu": nn.SiLU,
    "layer/tanh": nn.Tanh,
    "layer/transformer_encoder_layer": nn.TransformerEncoderLayer,
    "layer/upsample": nn.Upsample,
    "loss/bce_with_logits": nn.BCEWithLogitsLoss,
    "loss/cross_entropy": nn.CrossEntropyLoss,
    "loss/huber": nn.HuberLoss,
    "loss/l1": nn.L1Loss,
    "loss/mse": nn.MSELoss,
    "loss/nll": nn.NLLLoss,
    "loss/smooth_l1": nn.SmoothL1Loss,
    "optimizer/adagrad": optim.Adagrad,
    "optimizer/adam": optim.Adam,
    "optimizer/adamw": optim.AdamW,
    "optimizer/muon": optim.Muon,
    "optimizer/nadam": optim.NAdam,
    "optimizer/radam": optim.RAdam,
    "optimizer/rmsprop": optim.RMSprop,
    "optimizer/sgd": optim.SGD,
    "sampler/weighted_random": torch.utils.data.WeightedRandomSampler,
    "scheduler/constant_lr": lr_scheduler.ConstantLR,
    "scheduler/cosine_annealing_lr": lr_scheduler.CosineAnnealingLR,
    "scheduler/cosine_annealing_warm_restarts": lr_scheduler.CosineAnnealingWarmRestarts,
    "scheduler/exponential_lr": lr_scheduler.ExponentialLR,
    "scheduler/linear_lr": lr_scheduler.LinearLR,
    "scheduler/multi_step_lr": lr_scheduler.MultiStepLR,
    "scheduler/one_cycle_lr": lr_scheduler.OneCycleLR,
    "scheduler/polynomial_lr": lr_scheduler.PolynomialLR,
    "scheduler/reduce_lr_on_plateau": lr_scheduler.ReduceLROnPlateau,
    "scheduler/sequential_lr": lr_scheduler.SequentialLR,
    "scheduler/step_lr": lr_scheduler.StepLR,
    "transform/auto_augment": v2.AutoAugment,
    "transform/center_crop": v2.CenterCrop,
    "transform/color_jitter": v2.ColorJitter,
    "transform/gaussian_blur": v2.GaussianBlur,
    "transform/normalize": v2.Normalize,
    "transform/rand_augment": v2.RandAugment,
    "transform/random_affine": v2.RandomAffine,
    "transform/random_crop": v2.RandomCrop,
    "transform/random_erasing": v2.RandomErasing,
    "transform/random_grayscale": v2.RandomGrayscale,
    "transform/random_horizontal_flip": v2.RandomHorizontalFlip,
    "transform/random_invert": v2.RandomInvert,
    "transform/random_perspective": v2.RandomPerspective,
    "transform/random_resized_crop": v2.RandomResizedCrop,
    "transform/random_rotation": v2.RandomRotation,
    "transform/random_vertical_flip": v2.RandomVerticalFlip,
    "transform/resize": v2.Resize,
    "transform/trivial_augment_wide": v2.TrivialAugmentWide,
}
MODELS = {
    **{f"model/{name}": (name, models.ResNet) for name in ("resnet18", "resnet34", "resnet50", "resnet101", "resnet152")},
    "model/mobilenet_v2": ("mobilenet_v2", models.MobileNetV2),
    "model/mobilenet_v3_small": ("mobilenet_v3_small", models.MobileNetV3),
    "model/mobilenet_v3_large": ("mobilenet_v3_large", models.MobileNetV3),
    **{f"model/efficientnet_b{i}": (f"efficientnet_b{i}", models.EfficientNet) for i in range(5)},
    "model/vit_b_16": ("vit_b_16", models.VisionTransformer),
    "model/convnext_tiny": ("convnext_tiny", models.ConvNeXt),
}
REQUIRED = {"required": True}


class Called(Exception):
    """Interrupts a model's builder when it calls the class of the model."""


def plain(value):
    if value is inspect.Parameter.empty:
        return REQUIRED
    if isinstance(value, enum.Enum):
        return value.value
    if isinstance(value, (list, tuple)):
        rows = [plain(item) for item in value]
        return {"other": type(value).__name__} if any(isinstance(row, dict) for row in rows) else rows
    return value if value is None or isinstance(value, (bool, int, float, str)) else {"other": type(value).__name__}


def named(signature):
    kinds = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    return [p for p in signature.parameters.values() if p.kind not in kinds and p.name != "self"]


def of_class(cls):
    """Returns the options of the constructor, or of its first overload, which recurrent networks have."""
    overloads = typing.get_overloads(cls.__init__)
    return {p.name: plain(p.default) for p in named(inspect.signature(overloads[0] if overloads else cls))}


def of_model(builder, cls):
    signature = inspect.signature(cls.__init__)
    found = {}

    def record(*args, **kwargs):
        bound = signature.bind(*args, **kwargs)
        bound.apply_defaults()
        found.update({p.name: plain(bound.arguments[p.name]) for p in named(signature)})
        raise Called

    with unittest.mock.patch.object(cls, "__init__", record):
        try:
            getattr(models, builder)()
        except Called:
            return found
    raise RuntimeError(f"{builder} does not call {cls}")


if __name__ == "__main__":
    rows = [{"stage": stage, "class": f"{cls.__module__}.{cls.__name__}", "parameters": of_class(cls)}
            for stage, cls in CLASSES.items()]
    rows += [{"stage": stage, "class": f"torchvision.models.{builder}", "parameters": of_model(builder, cls)}
             for stage, (builder, cls) in MODELS.items()]
    save("signatures", {"torchvision": torchvision.__version__, "stages": sorted(rows, key=lambda row: row["stage"])})
