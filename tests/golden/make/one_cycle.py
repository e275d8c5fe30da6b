"""Learning rates and momenta of OneCycleLR with cycle_momentum, and the weights of optimizers that follow them for a cycle."""
import warnings

import torch
from golden import numbers, save
from torch.optim.lr_scheduler import OneCycleLR

warnings.filterwarnings("ignore")
STEPS, BASE = 30, 0.1
CYCLES = [
    {},
    {"base_momentum": 0.6, "max_momentum": 0.9},
    {"anneal_strategy": "linear", "pct_start": 0.2, "base_momentum": 0.0, "max_momentum": 0.99},
    {"three_phase": True, "pct_start": 0.4},
    {"three_phase": True, "pct_start": 0.3, "anneal_strategy": "linear", "base_momentum": 0.7},
]
FOLLOWERS = [
    ("sgd", torch.optim.SGD, {"lr": 0.1}),
    ("rmsprop", torch.optim.RMSprop, {"lr": 0.01}),
    ("sgd", torch.optim.SGD, {"lr": 0.1, "momentum": 0.9}),
    ("sgd", torch.optim.SGD, {"lr": 0.1, "momentum": 0.5, "nesterov": True, "weight_decay": 0.01}),
    ("sgd", torch.optim.SGD, {"lr": 0.1, "momentum": 0.9, "dampening": 0.3}),
    ("adam", torch.optim.Adam, {"lr": 0.01}),
    ("adamw", torch.optim.AdamW, {"lr": 0.01, "weight_decay": 0.1}),
    ("nadam", torch.optim.NAdam, {"lr": 0.01}),
    ("radam", torch.optim.RAdam, {"lr": 0.01}),
    ("rmsprop", torch.optim.RMSprop, {"lr": 0.01, "momentum": 0.9}),
]


def momentum_of(optimizer):
    group = optimizer.param_groups[0]
    return group["betas"][0] if "betas" in group else group["momentum"]


def curves(options):
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=BASE, momentum=0.9)
    scheduler = OneCycleLR(optimizer, BASE, total_steps=STEPS, **options)
    lr, momentum = [], []
    for step in range(STEPS):
        lr.append(optimizer.param_groups[0]["lr"])
        momentum.append(momentum_of(optimizer))
        optimizer.step()
        if step + 1 < STEPS:
            scheduler.step()
    return {"options": {**options, "total_steps": STEPS}, "lr": lr, "momentum": momentum}


def weights_after(kind, form, options):
    weight = torch.nn.Parameter(start.clone())
    optimizer = form([weight], **options)
    scheduler = OneCycleLR(optimizer, options["lr"], total_steps=STEPS)
    for step in range(STEPS):
        weight.grad = gradients[step].clone()
        optimizer.step()
        if step + 1 < STEPS:
            scheduler.step()
    return {"type": kind, "options": options, "weight": numbers(weight.detach())}


torch.manual_seed(1)
start = torch.randn(3, 2)
gradients = torch.randn(STEPS, 3, 2)
save("one_cycle", {
    "initial_lr": BASE,
    "steps": STEPS,
    "start": numbers(start),
    "gradients": numbers(gradients),
    "cases": [curves(options) for options in CYCLES],
    "followers": [weights_after(*row) for row in FOLLOWERS],
})
