"""Trains CIFAR-10 to 94 % with PyTorch. A re-implementation of the recipe that airbench publishes (Jordan 2024, arXiv:2404.00498, and
the table of its variant with Muon): whitening of 2x2 patches, filters that start as the identity, alternating flips, label
smoothing, Muon for filters and Nesterov SGD for the rest, and evaluation over flips and shifts.

usage: cifar_speed.py eager|compiled|cache|weights --device cuda|cpu --data FOLDER [--epochs N] [--samples N]

FOLDER contains the binary version of CIFAR-10. `cache` writes cifar10/train.pt and cifar10/test.pt to the current folder, which the
original script reads instead of a download. `weights` writes weights.pth, from which configs/speed/cifar10_airbench.yaml can start:
the whitening filters, filters that are the identity, and the output layer divided by 256. The protocol of the loops is that of
gpu_loops.py: each measurement is one training, from the data on the device to the last evaluation: {"seconds", "accuracy", "samples", "joules", "memory_mb"}. The time of compilation is not included."""

import argparse
import json
import pathlib
import sys
import time

import torch
import torch.nn.functional as F
from torch import nn

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "gpu_proof"))
from machine import energy_counter  # noqa: E402

BATCH, EPOCHS, WHITENING_EPOCHS, WHITENING_IMAGES = 2000, 8, 3, 5000
SMOOTHING, SHIFT, DECAY = 0.2, 2, 2e-6 * BATCH
SGD_RATE, HEAD_RATE, MUON_RATE = 0.053, 0.67, 0.24
MEAN, STD = (0.4914, 0.4822, 0.4465), (0.2470, 0.2435, 0.2616)


TRAIN, TEST = [f"data_batch_{i}.bin" for i in range(1, 6)], ["test_batch.bin"]


def rows_of(folder, names):
    """Returns the records of binary files as a matrix of bytes: the label, then 3 x 32 x 32 pixels."""
    data = b"".join(next(pathlib.Path(folder).rglob(name)).read_bytes() for name in names)
    return torch.frombuffer(bytearray(data), dtype=torch.uint8).view(-1, 3073)


def write_cache(folder):
    pathlib.Path("cifar10").mkdir(exist_ok=True)
    for name, files in (("train", TRAIN), ("test", TEST)):
        rows = rows_of(folder, files)
        images = rows[:, 1:].view(-1, 3, 32, 32).permute(0, 2, 3, 1).contiguous()
        torch.save({"images": images, "labels": rows[:, 0].long(), "classes": [str(i) for i in range(10)]}, f"cifar10/{name}.pt")


def write_weights(folder):
    """The names are those of the layers in configs/speed/cifar10_airbench.yaml."""
    filters = {2: (64, 24), 6: (64, 64), 9: (256, 64), 13: (256, 256), 16: (256, 256), 20: (256, 256)}
    weights = {"0.weight": whitening(records(folder, TRAIN[:1], "cpu", WHITENING_IMAGES)[0])}
    for index, (outputs, inputs) in filters.items():
        weights[f"{index}.weight"] = first_filters(nn.Conv2d(inputs, outputs, 3, bias=False))
    head = nn.Linear(256, 10, bias=False).weight.detach()
    weights["25.weight"] = head / head.std() / 256
    torch.save(weights, "weights.pth")


def first_filters(layer):
    """Returns the filters of a new layer, after making the first of them the identity."""
    with torch.no_grad():
        nn.init.dirac_(layer.weight[:layer.in_channels])
    return layer.weight.detach()


def records(folder, names, device, count=None):
    """Returns the first `count` images (all by default), normalized, in float16 (float32 on a CPU), and their labels."""
    rows = rows_of(folder, names)[:count].to(device)
    mean, std = (torch.tensor(values, device=device).view(1, 3, 1, 1) for values in (MEAN, STD))
    images = (rows[:, 1:].view(-1, 3, 32, 32).float() / 255 - mean) / std
    return images.to(half_of(device)).to(memory_format=torch.channels_last), rows[:, 0].long()


def half_of(device):
    return torch.float16 if torch.device(device).type == "cuda" else torch.float32


def whitening(images, size=2, eps=5e-4):
    """Returns filters that decorrelate the patches of the images, and their negatives."""
    patches = F.unfold(images[:WHITENING_IMAGES].float(), size).transpose(1, 2).reshape(-1, 3 * size * size)
    values, vectors = torch.linalg.eigh(patches.T @ patches / len(patches))
    filters = (vectors / (values + eps).sqrt()).T.reshape(-1, 3, size, size).flip(0)
    return torch.cat([filters, -filters])


def norm(channels):
    layer = nn.BatchNorm2d(channels, eps=1e-12, momentum=0.4)
    layer.weight.requires_grad = False
    return layer


class Group(nn.Sequential):
    def __init__(self, inputs, outputs):
        first, second = (nn.Conv2d(n, outputs, 3, padding="same", bias=False) for n in (inputs, outputs))
        for layer in (first, second):
            first_filters(layer)
        super().__init__(first, nn.MaxPool2d(2), norm(outputs), nn.GELU(), second, norm(outputs), nn.GELU())


class Network(nn.Module):
    def __init__(self):
        super().__init__()
        self.whiten = nn.Conv2d(3, 24, 2)
        self.whiten.weight.requires_grad = False
        self.body = nn.Sequential(nn.GELU(), Group(24, 64), Group(64, 256), Group(256, 256), nn.MaxPool2d(3), nn.Flatten())
        self.head = nn.Linear(256, 10, bias=False)
        with torch.no_grad():
            self.head.weight.div_(self.head.weight.std())

    def forward(self, x):
        return self.head(self.body(self.whiten(x))) / 256


def orthogonal(gradient, steps=3):
    """Moves the singular values of a matrix toward 1 by a quintic iteration in bfloat16."""
    x = gradient.bfloat16()
    x = x / (x.norm() + 1e-7)
    tall = x.size(0) > x.size(1)
    x = x.T if tall else x
    for _ in range(steps):
        square = x @ x.T
        x = 3.4445 * x + (-4.775 * square + 2.0315 * square @ square) @ x
    return x.T if tall else x


class Muon:
    """Nesterov momentum of 0.6, orthogonalized; filters keep their norm."""

    def __init__(self, filters):
        self.filters, self.buffers = filters, [torch.zeros_like(one) for one in filters]

    @torch.no_grad()
    def step(self, rate):
        for weight, buffer in zip(self.filters, self.buffers):
            buffer.mul_(0.6).add_(weight.grad)
            update = weight.grad.add(buffer, alpha=0.6)
            weight.mul_(len(weight) ** 0.5 / weight.norm())
            weight.add_(orthogonal(update.flatten(1)).view_as(weight).to(weight.dtype), alpha=-rate)


def shifted(images):
    """Moves each image by up to two pixels in both directions; the border is reflected."""
    padded = F.pad(images, (SHIFT,) * 4, "reflect")
    moves = torch.randint(0, 2 * SHIFT + 1, (2, len(images)), device=images.device)
    rows = (moves[0].view(-1, 1) + torch.arange(32, device=images.device)).view(-1, 1, 32, 1)
    columns = (moves[1].view(-1, 1) + torch.arange(32, device=images.device)).view(-1, 1, 1, 32)
    batch = torch.arange(len(images), device=images.device).view(-1, 1, 1, 1)
    channels = torch.arange(3, device=images.device).view(1, 3, 1, 1)
    return padded[batch, channels, rows, columns].to(memory_format=torch.channels_last)


@torch.no_grad()
def accuracy(network, images, labels):
    """Averages the logits over flips and over shifts by one pixel."""
    network.eval()
    hits = 0
    for x, y in zip(images.split(BATCH), labels.split(BATCH)):
        padded = F.pad(x, (1,) * 4, "reflect")
        views = [(x, 0.5), (padded[:, :, 0:32, 0:32], 0.25), (padded[:, :, 2:34, 2:34], 0.25)]
        logits = sum(weight * (network(view) + network(view.flip(3))) for view, weight in views)
        hits += (logits.argmax(1) == y).sum()
    return hits.item() / len(labels)


class Trainer:
    def __init__(self, options):
        self.options, self.device = options, torch.device(options.device)
        self.train, self.test = (records(options.data, names, options.device, options.samples) for names in (TRAIN, TEST))
        self.batch = min(BATCH, len(self.train[1]) // 2)
        self.network = Network().to(self.device, half_of(self.device), memory_format=torch.channels_last)
        for layer in self.network.modules():
            if isinstance(layer, nn.BatchNorm2d):
                layer.float()
        self.first = {name: tensor.clone() for name, tensor in self.network.state_dict().items()}
        self.forward = self.network
        if options.loop == "compiled":
            self.forward = torch.compile(self.network, mode="max-autotune" if options.device == "cuda" else None,
                                         **({} if options.device == "cuda" else {"backend": "eager"}))

    def run(self, epochs):
        """Trains once and returns the accuracy."""
        network, (images, labels) = self.network, self.train
        network.load_state_dict(self.first)
        with torch.no_grad():
            network.whiten.weight.copy_(whitening(images))
        filters = [one for one in network.body.parameters() if one.ndim == 4]
        biases = [one for name, one in network.named_parameters() if one.requires_grad and one.ndim == 1 and "whiten" not in name]
        groups = [([network.whiten.bias], SGD_RATE), (biases, SGD_RATE), ([network.head.weight], HEAD_RATE)]
        sgd = torch.optim.SGD([{"params": tensors, "lr": rate, "weight_decay": DECAY / rate} for tensors, rate in groups], momentum=0.85,
                              nesterov=True, fused=self.device.type == "cuda")
        muon, rates = Muon(filters), [group["lr"] for group in sgd.param_groups]
        per_epoch = len(labels) // self.batch
        total, step = epochs * per_epoch, 0
        flips = torch.rand(len(labels), device=self.device) < 0.5
        for epoch in range(epochs):
            network.train()
            order = torch.randperm(len(labels), device=self.device)
            for rows in order[:per_epoch * self.batch].split(self.batch):
                x = shifted(images[rows])
                x = torch.where((flips[rows] ^ bool(epoch % 2)).view(-1, 1, 1, 1), x.flip(3), x)
                loss = F.cross_entropy(self.forward(x), labels[rows], label_smoothing=SMOOTHING, reduction="sum")
                loss.backward()
                for i, group in enumerate(sgd.param_groups):
                    length = WHITENING_EPOCHS * per_epoch if i == 0 else total
                    group["lr"] = rates[i] * max(0.0, 1 - step / length)
                sgd.step()
                muon.step(MUON_RATE * (1 - step / total))
                network.zero_grad(set_to_none=True)
                step += 1
        return accuracy(network, *self.test)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("loop", choices=("eager", "compiled", "cache", "weights"))
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--data", required=True)
    parser.add_argument("--epochs", type=int, default=EPOCHS)
    parser.add_argument("--samples", type=int, default=None, help="use the first samples only, to rehearse")
    options = parser.parse_args()
    if options.loop == "cache":
        return write_cache(options.data)
    if options.loop == "weights":
        return write_weights(options.data)
    torch.backends.cudnn.benchmark = True
    torch.manual_seed(42)
    trainer, counter = Trainer(options), energy_counter(options.device)
    trainer.run(1)
    print(json.dumps({"ready": True, "torch": torch.__version__}), flush=True)
    for _ in sys.stdin:
        joules, begun = counter.joules() if counter else None, time.perf_counter()
        reached = trainer.run(options.epochs)
        seconds = time.perf_counter() - begun
        print(json.dumps({"seconds": seconds, "accuracy": reached, "samples": options.epochs * len(trainer.train[1]),
                          "joules": counter.joules() - joules if counter else None,
                          "memory_mb": torch.cuda.max_memory_allocated() / 1e6 if options.device == "cuda" else None}), flush=True)


if __name__ == "__main__":
    main()
