"""Training loops of PyTorch for the rows of the GPU proof. Each process serves one row and one kind of loop: it prints a line of JSON
when it is ready, measures once for each line that it reads, and prints a line of JSON with the measurement.

usage: gpu_loops.py ROW eager|compiled|graph --device cuda|cpu --batch N [--seconds S] [--data FOLDER]

ROW is mnist_ffn, resnet50_synthetic, resnet50_decoded, resnet50_jpeg or gpt2_124m. `compiled` is torch.compile with max-autotune,
`graph` records a step as a CUDA graph by hand. All loops use fused optimizers; the loops without a loader use tensors on the
device. A measurement is {"samples", "seconds", "joules", "memory_mb", "loss"}."""

import argparse
import json
import os
import pathlib
import sys
import time

import torch
import torch.nn.functional as F
from torch import nn

from step_loops import split

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "gpu_proof"))
from machine import energy_counter  # noqa: E402

WARM_UP = 5
MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
GPT = {"layers": 12, "heads": 12, "width": 768, "context": 1024, "vocabulary": 50257}
SMALL_GPT = {"layers": 2, "heads": 2, "width": 32, "context": 64, "vocabulary": 512}


class Block(nn.Module):
    """A block of GPT-2: attention and MLP with residual connections, normalized before each."""

    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.norm_1, self.norm_2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        batch, length, width = x.shape
        q, k, v = (part.view(batch, length, self.heads, -1).transpose(1, 2) for part in self.qkv(self.norm_1(x)).split(width, 2))
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(mixed.transpose(1, 2).reshape(batch, length, width))
        return x + self.down(F.gelu(self.up(self.norm_2(x)), approximate="tanh"))


class Gpt(nn.Module):
    """GPT-2 with the output layer tied to the embedding."""

    def __init__(self, layers, heads, width, context, vocabulary):
        super().__init__()
        self.tokens, self.positions = nn.Embedding(vocabulary, width), nn.Embedding(context, width)
        self.blocks, self.norm = nn.ModuleList(Block(width, heads) for _ in range(layers)), nn.LayerNorm(width)
        nn.init.normal_(self.tokens.weight, std=0.02)

    def forward(self, x):
        hidden = self.tokens(x) + self.positions.weight[:x.shape[1]]
        for block in self.blocks:
            hidden = block(hidden)
        return F.linear(self.norm(hidden), self.tokens.weight).flatten(0, 1)


class Work:
    """The model, the optimizer and the batches of a row."""

    def __init__(self, row, options):
        self.device, self.batch = torch.device(options.device), options.batch
        self.precision = torch.bfloat16 if row != "mnist_ffn" and options.device == "cuda" else None
        self.samples, self.fixed = options.batch, None
        self.mean, self.std = (torch.tensor(values, device=self.device).view(1, 3, 1, 1) for values in (MEAN, STD))
        small = options.device == "cpu"
        if row == "mnist_ffn":
            self._mnist(options)
        elif row == "gpt2_124m":
            shape = SMALL_GPT if small else GPT
            self.model = Gpt(**shape).to(self.device)
            self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=3e-4, weight_decay=0.1, betas=(0.9, 0.95), fused=True,
                                               capturable=not small)
            drawn = torch.randint(0, shape["vocabulary"], (self.batch, shape["context"] + 1), device=self.device)
            self.fixed = drawn[:, :-1].contiguous(), drawn[:, 1:].flatten()
        else:
            import torchvision
            self.model = torchvision.models.resnet50().to(self.device, memory_format=torch.channels_last)
            self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1, momentum=0.9, weight_decay=1e-4, fused=True)
            side = 64 if small else 224
            self.fixed = (torch.randn(self.batch, 3, side, side, device=self.device).to(memory_format=torch.channels_last),
                          torch.randint(0, 1000, (self.batch,), device=self.device))
            if row != "resnet50_synthetic":
                self.loader = photographs(options, decoded=row == "resnet50_decoded", side=side)
                self.epoch = iter(())

    def _mnist(self, options):
        images, labels = (tensor.to(self.device) for tensor in split(pathlib.Path(options.data) / "mnist", "train"))
        self.x, self.y = ((images.float() / 255 - 0.1307) / 0.3081).flatten(1), labels
        self.model = nn.Sequential(nn.Linear(784, 128), nn.ReLU(), nn.Linear(128, 64), nn.ReLU(), nn.Linear(64, 10)).to(self.device)
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=1e-3, fused=True, capturable=options.device == "cuda")
        self.order = iter(())

    def next(self):
        """Returns the next batch on the device."""
        if hasattr(self, "loader"):
            x, y = self._next_of_loader()
            return x.to(self.device, non_blocking=True), y.to(self.device, non_blocking=True)
        if self.fixed is not None:
            return self.fixed
        rows = next(self.order, None)
        if rows is None:
            whole = len(self.y) // self.batch * self.batch
            self.order = iter(torch.randperm(len(self.y), device=self.device)[:whole].split(self.batch))
            rows = next(self.order)
        return self.x.index_select(0, rows), self.y.index_select(0, rows)

    def _next_of_loader(self):
        batch = next(self.epoch, None)
        if batch is None:
            self.epoch = iter(self.loader)
            batch = next(self.epoch)
        return batch

    def loss(self, x, y):
        if x.dtype == torch.uint8:
            x = ((x.to(memory_format=torch.channels_last).float() / 255 - self.mean) / self.std)
        with torch.autocast(self.device.type, self.precision, enabled=self.precision is not None, cache_enabled=False):
            return F.cross_entropy(self.model(x), y)


class Photographs(torch.utils.data.Dataset):
    """JPEG files in one folder per class, cropped and flipped at random as in torchvision's recipes. `decoded` decodes each file once."""

    def __init__(self, root, decoded, side):
        from torchvision.io import ImageReadMode, decode_jpeg, read_file
        from torchvision.transforms import v2
        folders = sorted(path for path in pathlib.Path(root).iterdir() if path.is_dir())
        self.files = [(path, label) for label, folder in enumerate(folders) for path in sorted(folder.glob("*.jpg"))]
        self.read = lambda path: decode_jpeg(read_file(str(path)), ImageReadMode.RGB)
        self.images = [self.read(path) for path, _ in self.files] if decoded else None
        self.transform = v2.Compose([v2.RandomResizedCrop(side, antialias=True), v2.RandomHorizontalFlip()])

    def __len__(self):
        return len(self.files)

    def __getitem__(self, i):
        path, label = self.files[i]
        return self.transform(self.images[i] if self.images else self.read(path)), label


def photographs(options, decoded, side):
    workers = len(os.sched_getaffinity(0)) if options.device == "cuda" else 0
    return torch.utils.data.DataLoader(Photographs(options.data, decoded, side), batch_size=options.batch, shuffle=True, drop_last=True,
                                       num_workers=workers, pin_memory=options.device == "cuda", persistent_workers=workers > 0,
                                       prefetch_factor=4 if workers else None)


def eager_step(work, compiled, device):
    """Returns a function that takes a step and returns its loss. On a CPU, which only rehearses, the compiler's backend is `eager`."""
    loss_of = work.loss
    if compiled:
        loss_of = torch.compile(loss_of, mode="max-autotune") if device == "cuda" else torch.compile(loss_of, backend="eager")

    def step():
        if compiled and device == "cuda":
            torch.compiler.cudagraph_mark_step_begin()
        loss = loss_of(*work.next())
        loss.backward()
        work.optimizer.step()
        work.optimizer.zero_grad(set_to_none=True)
        return loss.detach()

    return step


def graph_step(work):
    """Returns a function that copies a batch into the inputs of a recorded step and replays the step."""
    x, y = (tensor.clone() for tensor in work.next())

    def whole():
        loss = work.loss(x, y)
        loss.backward()
        work.optimizer.step()
        return loss.detach()

    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            work.optimizer.zero_grad(set_to_none=True)
            whole()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    work.optimizer.zero_grad(set_to_none=True)
    with torch.cuda.graph(graph):
        loss = whole()

    def step():
        following = work.next()
        if following is not work.fixed:
            x.copy_(following[0], non_blocking=True)
            y.copy_(following[1], non_blocking=True)
        graph.replay()
        return loss

    return step


def wait(device):
    if device == "cuda":
        torch.cuda.synchronize()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("row")
    parser.add_argument("loop", choices=("eager", "compiled", "graph"))
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--batch", type=int, required=True)
    parser.add_argument("--seconds", type=float, default=3)
    parser.add_argument("--data", default=".")
    options = parser.parse_args()
    torch.manual_seed(42)
    torch.backends.cudnn.benchmark = True
    work = Work(options.row, options)
    step = graph_step(work) if options.loop == "graph" else eager_step(work, options.loop == "compiled", options.device)
    counter = energy_counter(options.device)
    for _ in range(WARM_UP):
        step()
    wait(options.device)
    begun = time.perf_counter()
    for _ in range(WARM_UP):
        step()
    wait(options.device)
    count = max(1, int(options.seconds * WARM_UP / (time.perf_counter() - begun)))
    print(json.dumps({"ready": True, "steps": count, "torch": torch.__version__}), flush=True)
    for _ in sys.stdin:
        joules, begun = counter.joules() if counter else None, time.perf_counter()
        for _ in range(count):
            loss = step()
        wait(options.device)
        seconds = time.perf_counter() - begun
        print(json.dumps({"samples": count * work.samples, "seconds": seconds, "loss": loss.item(),
                          "joules": counter.joules() - joules if counter else None,
                          "memory_mb": torch.cuda.max_memory_allocated() / 1e6 if options.device == "cuda" else None}), flush=True)


if __name__ == "__main__":
    main()
