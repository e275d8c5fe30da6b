"""The rows of the speed table: an experiment of configs/speed, its peers and its bars."""

import typing

# Bars: the least speed of trainctl as a multiple of a peer's, in each case on the same GPU.
COMPILED_BAR = {"eager": 1.0, "compiled": 1.0, "graph": 1.0}
AIRBENCH_BAR, CIFAR_ACCURACY = 1.3, 0.94

# Operations of a training step for one sample, counted as the field does: a product and a sum are two, and the backward pass
# costs twice the forward pass. ResNet-50 at 224x224: 4.09e9 products. GPT-2, per token: 6 N + 12 L T W (Chowdhery et al. 2022,
# appendix B), with N = 123.65e6 parameters without positions, L = 12 layers, T = 1024 tokens, W = 768.
RESNET50_FLOPS = 3 * 2 * 4.09e9
GPT2_FLOPS = 6 * 123.65e6 + 12 * 12 * 1024 * 768

# Dense bfloat16 operations per second of the data sheets, by a part of the name of the GPU.
PEAKS = {"B200": 2.25e15, "GH200": 989e12, "H200": 989e12, "H100 PCIe": 756e12, "H100": 989e12, "A100": 312e12, "L40S": 362e12, "A10": 125e12,
         "RTX 4090": 165e12, "RTX 3090": 71e12}


class Row(typing.NamedTuple):
    """`words` are the overrides of a measurement, `small` those of a rehearsal on a CPU. `per_sample` is the number of units in a
    sample, such as the tokens of a sequence. The batch sizes are also those of the peers."""

    name: str
    title: str
    unit: str
    batch: int
    small_batch: int
    words: list
    small: list
    per_sample: int = 1
    small_per_sample: int = 1
    flops: float = 0
    peers: tuple = ("eager", "compiled", "graph")
    data: str = ""
    rehearsed: tuple = ("eager",)


SMALL_PICTURES = ["model={type: resnet_cifar, depth: 8}", "++trainer.precision=32-true", "++trainer.channels_last=false", "++loader.num_workers=0"]
SHORT = ["++trainer.max_epochs=2", "++trainer.limit_train_batches=4"]

ROWS = [
    Row("mnist_ffn", "MNIST, 784-128-64-10, batches of 64, float32", "samples/s", 64, 64, ["trainer.max_epochs=12", "metrics=[]"],
        [*SHORT, "metrics=[]"], data="mnist"),
    Row("resnet50_synthetic", "ResNet-50, random pixels, bfloat16", "images/s", 256, 4,
        ["++trainer.max_epochs=3", "++trainer.limit_train_batches=40"],
        [*SHORT, *SMALL_PICTURES, "dataset.train.height=64", "dataset.train.width=64"], flops=RESNET50_FLOPS, rehearsed=()),
    Row("resnet50_decoded", "ResNet-50, decoded cache, random crops, bfloat16", "images/s", 256, 4,
        ["++trainer.max_epochs=3", "++trainer.limit_train_batches=40"],
        [*SHORT, *SMALL_PICTURES, "dataset.train.samples=32", "dataset.train.transforms.0.size=64"], flops=RESNET50_FLOPS,
        peers=("eager", "compiled"), data="photographs", rehearsed=()),
    Row("resnet50_jpeg", "ResNet-50, JPEG files of 500x375, random crops, bfloat16", "images/s", 256, 4,
        ["++trainer.max_epochs=3", "++trainer.limit_train_batches=40"],
        [*SHORT, *SMALL_PICTURES, "dataset.train.samples=32", "dataset.train.transforms.0.size=64"], flops=RESNET50_FLOPS,
        peers=("eager", "compiled"), data="photographs", rehearsed=()),
    Row("gpt2_124m", "GPT-2 124M, sequences of 1,024 tokens, bfloat16", "tokens/s", 32, 2,
        ["++trainer.max_epochs=3", "++trainer.limit_train_batches=40"],
        [*SHORT, "++trainer.precision=32-true", "model={type: gpt, layers: 2, heads: 2, width: 32, context: 64, dropout: 0}",
         "dataset.train.sequence_length=64"], per_sample=1024, small_per_sample=64, flops=GPT2_FLOPS, data="tokens"),
]


def peak_of(gpu):
    """Returns the data sheet's operations per second of a GPU, or None."""
    return next((peak for part, peak in PEAKS.items() if part in gpu), None)
