"""Runs steps of PyTorch's DistributedDataParallel over Gloo, one process per rank; ddp.py starts it.

usage: ddp_loops.py MNIST_FOLDER ROW RANKS THREADS STEPS

Prints JSON with the seconds of rank 0: {"step_s": a step, "exposed_s": the part from the launch of the last bucket to the end of
the backward pass}. A second measurement gives exposed_s, with a hook that records the time of each bucket."""

import json
import os
import pathlib
import sys
import tempfile
import time

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import allreduce_hook

from step_loops import MEAN, STD, mlp, split

WARM_UP = 5
WIDE = (2048, 4096, 3584)  # 24.7 million parameters, so the exchange takes longer than the other work


def wide_mlp():
    sizes = [784, *WIDE]
    layers = [layer for i, o in zip(sizes, sizes[1:]) for layer in (nn.Linear(i, o), nn.ReLU())]
    return nn.Sequential(nn.Flatten(), *layers, nn.Linear(WIDE[-1], 10))


def digits(folder, rank, ranks):
    """Returns this rank's part of MNIST, in memory."""
    images, labels = split(folder, "train")
    images, labels = images[rank::ranks], labels[rank::ranks]
    return (images.float() / 255 - MEAN) / STD, labels


def work(row, folder, rank, ranks):
    """Returns (model, optimizer, samples, labels, batch size)."""
    if row == "ffn":
        model, batch = mlp(), 64
        return model, torch.optim.Adam(model.parameters(), lr=1e-3, fused=True), *digits(folder, rank, ranks), batch
    if row == "mlp25m":
        model, batch = wide_mlp(), 64
        return model, torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9, fused=True), *digits(folder, rank, ranks), batch
    import torchvision
    model, batch = torchvision.models.resnet18(num_classes=10), 64
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, fused=True)
    return model, optimizer, torch.randn(8 * batch, 3, 32, 32), torch.randint(0, 10, (8 * batch,)), batch


def stamped(stamps, bucket):
    stamps["last"] = time.perf_counter()
    return allreduce_hook(None, bucket)


def steps(setup, count, stamps=None):
    """Returns the mean seconds of a step, and of the exchange after the launch of the last bucket."""
    model, optimizer, x, y, batch = setup
    model = nn.parallel.DistributedDataParallel(model, gradient_as_bucket_view=True)
    if stamps is not None:
        model.register_comm_hook(stamps, stamped)
    total, hits, seconds, exposed = torch.zeros(()), torch.zeros((), dtype=torch.long), [], []
    order = torch.randperm(len(y))
    whole = [rows for rows in order.split(batch) if len(rows) == batch]
    for number in range(WARM_UP + count):
        rows = whole[number % len(whole)]
        start = time.perf_counter()
        xb, yb = x.index_select(0, rows), y.index_select(0, rows)
        logits = model(xb)
        loss = F.cross_entropy(logits, yb)
        loss.backward()
        computed = time.perf_counter()
        optimizer.step()
        optimizer.zero_grad(set_to_none=False)  # the gradients are views into the buckets
        total += loss.detach() * len(yb)
        hits += (logits.argmax(1) == yb).sum()
        if number >= WARM_UP:
            seconds.append(time.perf_counter() - start)
            exposed.append(computed - stamps["last"] if stamps is not None else 0.0)
    return sum(seconds) / len(seconds), sum(exposed) / len(exposed)


def rank_of(rank, words, store):
    folder, row, ranks, threads, count = pathlib.Path(words[0]), words[1], *map(int, words[2:])
    torch.set_num_threads(threads)
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=ranks)
    torch.manual_seed(42 + rank)
    step_s, _ = steps(work(row, folder, rank, ranks), count)
    dist.barrier()
    _, exposed_s = steps(work(row, folder, rank, ranks), count, {})
    if rank == 0:
        print(json.dumps({"step_s": step_s, "exposed_s": exposed_s}), flush=True)
    dist.barrier()
    dist.destroy_process_group()


def main():
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    with tempfile.TemporaryDirectory() as folder:
        torch.multiprocessing.spawn(rank_of, args=(sys.argv[1:], f"{folder}/store"), nprocs=int(sys.argv[3]))


if __name__ == "__main__":
    main()
