"""20 steps of each optimizer on given gradients; after step 10 the learning rate drops to a tenth."""
import unittest.mock

import torch
from golden import numbers, save

STEPS, DROP_AFTER, KEPT = 20, 10, (1, 2, 10, 20)
CASES = [
    ("sgd", {"lr": 0.1}),
    ("sgd", {"lr": 0.1, "weight_decay": 0.05}),
    ("sgd", {"lr": 0.1, "momentum": 0.9}),
    ("sgd", {"lr": 0.1, "momentum": 0.9, "dampening": 0.5}),
    ("sgd", {"lr": 0.1, "momentum": 0.9, "nesterov": True, "weight_decay": 0.01}),
    ("adam", {"lr": 0.001}),
    ("adam", {"lr": 0.01, "betas": [0.8, 0.95], "eps": 1e-6}),
    ("adam", {"lr": 0.01, "weight_decay": 0.1}),
    ("adam", {"lr": 0.01, "amsgrad": True}),
    ("adamw", {"lr": 0.01, "weight_decay": 0.01}),
    ("adamw", {"lr": 0.01, "weight_decay": 0.3, "amsgrad": True}),
    ("adagrad", {"lr": 0.1}),
    ("adagrad", {"lr": 0.1, "lr_decay": 0.05, "weight_decay": 0.1, "initial_accumulator_value": 0.2, "eps": 1e-6}),
    ("rmsprop", {"lr": 0.01}),
    ("rmsprop", {"lr": 0.01, "alpha": 0.9, "momentum": 0.8, "weight_decay": 0.1}),
    ("rmsprop", {"lr": 0.01, "centered": True, "eps": 1e-5}),
    ("rmsprop", {"lr": 0.01, "centered": True, "momentum": 0.5}),
    ("lion", {"lr": 0.01}),
    ("lion", {"lr": 0.01, "betas": [0.8, 0.95], "weight_decay": 0.3}),
    ("nadam", {"lr": 0.01}),
    ("nadam", {"lr": 0.01, "betas": [0.8, 0.95], "eps": 1e-6, "weight_decay": 0.1, "momentum_decay": 0.02}),
    ("nadam", {"lr": 0.01, "weight_decay": 0.1, "decoupled_weight_decay": True}),
    ("nadam", {"lr": 0.3, "betas": [0.9, 0.9999]}),  # 1 - 0.9999 in float32 is off by 2e-4
    ("radam", {"lr": 0.01}),  # its variance is rectified from step 6 on
    ("radam", {"lr": 0.01, "betas": [0.8, 0.95], "eps": 1e-6, "weight_decay": 0.1}),
    ("radam", {"lr": 0.01, "weight_decay": 0.1, "decoupled_weight_decay": True}),
    ("radam", {"lr": 0.1, "betas": [0.9, 0.5]}),  # never rectified
    ("muon", {"lr": 0.02, "ns_dtype": "float32"}),
    ("muon", {"lr": 0.01, "adjust_lr_fn": "match_rms_adamw", "momentum": 0.8, "nesterov": False, "weight_decay": 0.0,
              "ns_steps": 3, "ns_coefficients": [3.0, -3.2, 1.2], "adamw_lr": 0.001, "ns_dtype": "float32"}),
    ("lamb", {"lr": 0.01}),
    ("lamb", {"lr": 0.01, "betas": [0.8, 0.95], "eps": 1e-5, "weight_decay": 0.1}),
    ("lamb", {"lr": 0.1, "betas": [0.9, 0.9999], "weight_decay": 1.0}),
]

MUON = [  # for the matrices, in bfloat16
    {"lr": 0.02},
    {"lr": 0.02, "adjust_lr_fn": "match_rms_adamw", "nesterov": False, "weight_decay": 0.0, "momentum": 0.8},
]


class Lion(torch.optim.Optimizer):
    """Implements Chen et al. 2023, algorithm 2, which torch lacks."""

    def __init__(self, params, lr, betas=(0.9, 0.99), weight_decay=0.0, **_form):
        super().__init__(params, {"lr": lr, "betas": betas, "weight_decay": weight_decay})

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            for p in group["params"]:
                average = self.state[p].setdefault("average", torch.zeros_like(p))
                share, kept = group["betas"]
                p.mul_(1 - group["lr"] * group["weight_decay"])
                p.add_((average * share + p.grad * (1 - share)).sign(), alpha=-group["lr"])
                average.mul_(kept).add_(p.grad, alpha=1 - kept)


class Lamb(torch.optim.Optimizer):
    """Implements You et al. 2019, algorithm 2, with the identity as phi, which torch lacks."""

    def __init__(self, params, lr, betas=(0.9, 0.999), eps=1e-6, weight_decay=0.0, **_form):
        super().__init__(params, {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay})

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            (first, second), lr = group["betas"], group["lr"]
            for p in group["params"]:
                state = self.state[p] or self.state[p].update(t=0, m=torch.zeros_like(p), v=torch.zeros_like(p)) or self.state[p]
                state["t"] += 1
                state["m"].mul_(first).add_(p.grad, alpha=1 - first)
                state["v"].mul_(second).addcmul_(p.grad, p.grad, value=1 - second)
                root = (state["v"] / (1 - second ** state["t"])).sqrt() + group["eps"]
                step = state["m"] / (1 - first ** state["t"]) / root + group["weight_decay"] * p
                p.sub_(step, alpha=(lr * p.norm() / step.norm()).item())


class Muon:
    """Uses torch.optim.Muon for matrices and AdamW for the other parameters."""

    def __init__(self, params, lr, weight_decay=0.1, adamw_lr=None, ns_dtype="bfloat16", **options):
        self.cast = torch.Tensor.bfloat16 if ns_dtype == "bfloat16" else torch.Tensor.clone  # a clone, because Muon divides the tensor in place
        form = {"fused": options.pop("fused", False), "foreach": options.pop("foreach", None)}
        matrices, rest = [p for p in params if p.dim() == 2], [p for p in params if p.dim() != 2]
        self.parts = [torch.optim.Muon(matrices, lr, weight_decay=weight_decay, **options)]
        if rest:
            self.parts.append(torch.optim.AdamW(rest, lr=adamw_lr or lr, weight_decay=weight_decay, **form))
        self.param_groups = [self]

    def step(self):
        with unittest.mock.patch.object(torch.Tensor, "bfloat16", self.cast):
            for part in self.parts:
                part.step()

    def __setitem__(self, key, lr):  # makes param_groups[0]["lr"] = lr work
        first = self.parts[0].param_groups[0]["lr"]
        for part in self.parts:
            part.param_groups[0]["lr"] *= lr / first


CLASSES = {"sgd": torch.optim.SGD, "adam": torch.optim.Adam, "adamw": torch.optim.AdamW,
           "adagrad": torch.optim.Adagrad, "rmsprop": torch.optim.RMSprop, "nadam": torch.optim.NAdam, "radam": torch.optim.RAdam,
           "lion": Lion, "lamb": Lamb, "muon": Muon}
NOT_FUSED = {"rmsprop", "nadam", "radam", "lion", "lamb"}


def run(kind, options, start, gradients, **form):
    if kind in NOT_FUSED:
        form = {"foreach": False} if kind in ("rmsprop", "nadam", "radam") else {}
    parameters = [torch.nn.Parameter(tensor.clone()) for tensor in start]
    optimizer = CLASSES[kind](parameters, **options, **form)
    kept = {}
    for step in range(1, STEPS + 1):
        for parameter, gradient in zip(parameters, gradients[step - 1]):
            parameter.grad = gradient.clone()
        optimizer.step()
        if step in KEPT:
            kept[step] = [numbers(parameter.detach()) for parameter in parameters]
        if step == DROP_AFTER:
            optimizer.param_groups[0]["lr"] = options["lr"] * 0.1
    return [kept[step] for step in KEPT]


torch.manual_seed(1)
start = [torch.randn(2, 3), torch.randn(3)]
gradients = [[torch.randn(2, 3), torch.randn(3)] for _ in range(STEPS)]
start.append(torch.randn(5, 2) + 4)  # keeps weights away from 0, where relative differences are large
for step in gradients:
    step.append(torch.randn(5, 2))
torch.manual_seed(2)
matrices = [torch.randn(8, 24), torch.randn(16, 6)]
matrix_gradients = [[torch.randn(8, 24), torch.randn(16, 6)] for _ in range(STEPS)]
save("optimizers", {
    "drop_after": DROP_AFTER,
    "kept_steps": KEPT,
    "start": [numbers(tensor) for tensor in start],
    "gradients": [[numbers(tensor) for tensor in step] for step in gradients],
    "cases": [{"type": kind, "options": options,
               "fused": run(kind, options, start, gradients, fused=True),
               "plain": run(kind, options, start, gradients, foreach=False, fused=False)} for kind, options in CASES],
    "matrices": [numbers(tensor) for tensor in matrices],
    "matrix_gradients": [[numbers(tensor) for tensor in step] for step in matrix_gradients],
    "muon": [{"options": options, "weights": run("muon", options, matrices, matrix_gradients)} for options in MUON],
})
