"""Losses and their gradients for given logits; mse takes class labels as one-hot rows.

Mixed rows are PyTorch's probability targets: lambda of the row's own class, the rest of its partner's.
"""
import torch
import torch.nn.functional as F
from golden import numbers, save

CASES = [
    ("cross_entropy", {}),
    ("cross_entropy", {"label_smoothing": 0.1}),
    ("cross_entropy", {"label_smoothing": 1.0}),
    ("cross_entropy", {"weight": [1.0, 0.5, 2.0]}),
    ("cross_entropy", {"weight": [0.0, 0.5, 2.0], "label_smoothing": 0.2}),
    ("mse", {}),
]


def run(kind, options, logits, targets):
    logits = logits.clone().requires_grad_()
    if kind == "mse":
        loss = F.mse_loss(logits, F.one_hot(targets, logits.shape[1]).float())
    else:
        weight = torch.tensor(options["weight"]) if "weight" in options else None
        loss = F.cross_entropy(logits, targets, weight, label_smoothing=options.get("label_smoothing", 0.0))
    loss.backward()
    return {"type": kind, "options": options, "loss": numbers(loss.detach()), "gradient": numbers(logits.grad)}


def run_mixed(options, logits, targets, partners, shares):
    logits = logits.clone().requires_grad_()
    own, partner = (F.one_hot(labels, logits.shape[1]).float() for labels in (targets, partners))
    probabilities = shares[:, None] * own + (1 - shares[:, None]) * partner
    weight = torch.tensor(options["weight"]) if "weight" in options else None
    loss = F.cross_entropy(logits, probabilities, weight, label_smoothing=options.get("label_smoothing", 0.0))
    loss.backward()
    return {"options": options, "loss": numbers(loss.detach()), "gradient": numbers(logits.grad)}


torch.manual_seed(2)
logits = torch.randn(5, 3) * 3
targets = torch.tensor([0, 2, 1, 2, 0])
partners = torch.tensor([1, 2, 0, 1, 0])
shares = torch.tensor([0.25, 0.5, 1.0, 0.0, 0.8125])
save("losses", {
    "logits": numbers(logits),
    "targets": targets.tolist(),
    "cases": [run(kind, options, logits, targets) for kind, options in CASES],
    "partners": partners.tolist(),
    "lambda": numbers(shares),
    "mixed": [run_mixed(options, logits, targets, partners, shares) for kind, options in CASES if kind == "cross_entropy"],
})
