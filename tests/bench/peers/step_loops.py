"""Runs one training loop of PyTorch, timed by epoch; steps.py starts it.

usage: step_loops.py MNIST_FOLDER LOOP THREADS EPOCHS     (MNIST: LOOP is dataloader:WORKERS, eager[:STEPS], compiled
                                                        or products)
       step_loops.py NETWORK eager|compiled THREADS STEPS (a network of torchvision on random pixels, or gpt2_small)

Prints {"epochs": [seconds, ...], "loss": the last training loss} as JSON. The work is that of configs/mnist/ffn.yaml: loss and
accuracy of training and validation in every epoch."""

import gzip
import json
import os
import pathlib
import sys
import time

import torch
import torch.nn.functional as F
from torch import nn

MEAN, STD, BATCH = 0.1307, 0.3081, 64


def idx(folder, name, header):
    path = folder / name
    data = path.read_bytes() if path.exists() else gzip.decompress((folder / f"{name}.gz").read_bytes())
    return torch.frombuffer(bytearray(data), dtype=torch.uint8)[header:]


def split(folder, prefix):
    images = idx(folder, f"{prefix}-images-idx3-ubyte", 16).view(-1, 1, 28, 28)
    return images, idx(folder, f"{prefix}-labels-idx1-ubyte", 8).long()


def mlp():
    return nn.Sequential(nn.Flatten(), nn.Linear(784, 128), nn.ReLU(), nn.Linear(128, 64), nn.ReLU(), nn.Linear(64, 10))


class Pictures(torch.utils.data.Dataset):
    """Behaves like torchvision.datasets.MNIST with ToTensor and Normalize: it makes a PIL image for each sample."""

    def __init__(self, images, labels):
        from torchvision import transforms
        self.images, self.labels = images, labels
        self.transform = transforms.Compose([transforms.ToTensor(), transforms.Normalize((MEAN,), (STD,))])

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, index):
        from PIL import Image
        return self.transform(Image.fromarray(self.images[index, 0].numpy(), mode="L")), int(self.labels[index])


def tutorial(folder, workers, epochs):
    """Runs the loop of PyTorch's tutorials without its output."""
    def loader(prefix, shuffle):
        return torch.utils.data.DataLoader(Pictures(*split(folder, prefix)), batch_size=BATCH, shuffle=shuffle,
                                           num_workers=workers, persistent_workers=workers > 0)
    train, test, model = loader("train", True), loader("t10k", False), mlp()
    optimizer, seconds, mean = torch.optim.Adam(model.parameters(), lr=1e-3), [], 0.0
    for _ in range(epochs):
        start, total, hits = time.perf_counter(), 0.0, 0
        model.train()
        for x, y in train:
            optimizer.zero_grad()
            logits = model(x)
            loss = F.cross_entropy(logits, y)
            loss.backward()
            optimizer.step()
            total += loss.item() * len(y)
            hits += (logits.argmax(1) == y).sum().item()
        model.eval()
        with torch.no_grad():
            for x, y in test:
                logits = model(x)
                F.cross_entropy(logits, y).item()
                hits += (logits.argmax(1) == y).sum().item()
        mean = total / len(train.dataset)
        seconds.append(time.perf_counter() - start)
    return seconds, mean


def products(steps=2000):
    """Runs only the matrix products of the MLP's step: forward, gradients of the weights and of the layers' inputs."""
    sizes = [(784, 128), (128, 64), (64, 10)]
    layers = [tuple(torch.randn(shape) for shape in ((BATCH, i), (BATCH, o), (o, i))) + tuple(
        torch.empty(shape) for shape in ((BATCH, o), (o, i), (BATCH, i))) for i, o in sizes]
    seconds = []
    for _ in range(steps):
        start = time.perf_counter()
        for index, (x, grad, weight, out, to_weight, to_x) in enumerate(layers):
            torch.mm(x, weight.t(), out=out)
            torch.mm(grad.t(), x, out=to_weight)
            if index > 0:
                torch.mm(grad, weight, out=to_x)
        seconds.append(time.perf_counter() - start)
    return seconds, 0.0


def lean(folder, epochs, compiled, steps=None):
    """Keeps tensors in memory, with fused Adam and sums as tensors; `compiled` compiles the whole step, `steps` limits their
    number."""
    (x, y), (vx, vy) = split(folder, "train"), split(folder, "t10k")
    x, vx = (x.float() / 255 - MEAN) / STD, (vx.float() / 255 - MEAN) / STD
    model = mlp()
    optimizer = torch.optim.Adam(model.parameters(), lr=torch.tensor(1e-3) if compiled else 1e-3, fused=True)

    def step(xb, yb):
        logits = model(xb)
        loss = F.cross_entropy(logits, yb)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        return loss.detach(), (logits.argmax(1) == yb).sum()

    def look(xb, yb):
        logits = model(xb)
        return F.cross_entropy(logits, yb), (logits.argmax(1) == yb).sum()

    if compiled:
        step, look = torch.compile(step), torch.compile(look)
        for size in (BATCH, len(y) % BATCH or BATCH):
            step(x[:size], y[:size])
        with torch.inference_mode():
            for size in (BATCH, len(vy) % BATCH or BATCH):
                look(vx[:size], vy[:size])
    seconds, trained, mean = [], [], 0.0
    for _ in range(epochs):
        start, total, hits = time.perf_counter(), torch.zeros(()), torch.zeros((), dtype=torch.long)
        for rows in torch.randperm(len(y)).split(BATCH)[:steps]:
            loss, right = step(x.index_select(0, rows), y.index_select(0, rows))
            total += loss * len(rows)
            hits += right
        trained.append(time.perf_counter() - start)
        with torch.inference_mode():
            for i in range(0, 0 if steps else len(vy), BATCH):
                _, right = look(vx[i:i + BATCH], vy[i:i + BATCH])
                hits += right
        mean = total.item() / len(y)
        seconds.append(time.perf_counter() - start)
    return seconds, mean, trained


def pictures(name):
    """Returns a network, its optimizer, and one random batch."""
    import torchvision
    side, batch, classes = {"resnet18_cifar": (32, 64, 10), "resnet50": (224, 8, 1000), "mobilenet_v2": (224, 8, 1000)}[name]
    model = getattr(torchvision.models, name.split("_cifar")[0])(num_classes=classes)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, fused=True)
    return model, optimizer, torch.randn(batch, 3, side, side), torch.randint(0, classes, (batch,))


def gpt2_small():
    import transformers
    config = transformers.GPT2Config(resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0, use_cache=False, attn_implementation="sdpa")
    network = transformers.GPT2LMHeadModel(config)
    optimizer = torch.optim.AdamW(network.parameters(), lr=3e-4, weight_decay=0.1, fused=True)
    tokens = torch.randint(0, config.vocab_size, (2, 65))
    return lambda x: network(x).logits.flatten(0, 1), optimizer, tokens[:, :-1], tokens[:, 1:].flatten()


def network(name, steps, compiled):
    """Runs steps on one random batch, without a loader."""
    model, optimizer, x, y = gpt2_small() if name == "gpt2_small" else pictures(name)

    def step():
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        return loss.detach()

    if compiled:
        step = torch.compile(step)
    for _ in range(3):
        step()
    seconds, loss = [], None
    for _ in range(steps):
        start = time.perf_counter()
        loss = step().item()
        seconds.append(time.perf_counter() - start)
    return seconds, loss


def main():
    what, loop, threads, count = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
    torch.set_num_threads(threads)
    torch.manual_seed(42)
    trained = []
    if os.sep in what:
        folder = pathlib.Path(what)
        if loop.startswith("dataloader"):
            seconds, loss = tutorial(folder, int(loop.split(":")[1]), count)
        elif loop == "products":
            seconds, loss = products()
        else:
            name, _, steps = loop.partition(":")
            seconds, loss, trained = lean(folder, count, name == "compiled", int(steps) if steps else None)
    else:
        seconds, loss = network(what, count, loop == "compiled")
    print(json.dumps({"epochs": seconds, "loss": loss, "trained": trained}))


if __name__ == "__main__":
    main()
