"""Losses and their gradients for given logits; mse takes class labels as one-hot rows.

Mixed rows are PyTorch's probability targets: lambda for the row's own class, the rest for its partner's.

Needs torch 2.11, torchvision 0.26, numpy and pillow."""
import torch
import torch.nn.functional as F
from golden import numbers, save
from torchvision.ops import sigmoid_focal_loss

CASES = [
    ("cross_entropy", {}),
    ("cross_entropy", {"label_smoothing": 0.1}),
    ("cross_entropy", {"label_smoothing": 1.0}),
    ("cross_entropy", {"weight": [1.0, 0.5, 2.0]}),
    ("cross_entropy", {"weight": [0.0, 0.5, 2.0], "label_smoothing": 0.2}),
    ("cross_entropy", {"ignore_index": 2}),
    ("cross_entropy", {"ignore_index": 0, "weight": [1.0, 0.5, 2.0], "label_smoothing": 0.1}),
    ("nll", {}),
    ("nll", {"weight": [1.0, 0.5, 2.0]}),
    ("nll", {"ignore_index": 2}),
    ("bce_with_logits", {}),
    ("bce_with_logits", {"pos_weight": [1.0, 3.0, 0.5]}),
    ("focal", {"gamma": 2.0}),
    ("focal", {"gamma": 0.0}),
    ("mse", {}),
    ("l1", {}),
    ("smooth_l1", {}),
    ("smooth_l1", {"beta": 0.3}),
    ("huber", {}),
    ("huber", {"delta": 2.5}),
]
OF_NUMBERS = [
    ("cross_entropy", {"soft_targets": True}),
    ("cross_entropy", {"soft_targets": True, "label_smoothing": 0.1, "weight": [1.0, 0.5, 2.0]}),
    ("bce_with_logits", {"pos_weight": [1.0, 3.0, 0.5]}),
    ("focal", {"gamma": 2.0, "alpha": 0.25}),
    ("focal", {"gamma": 1.5}),
    ("kl_div_with_logits", {}),
    ("mse", {}), ("l1", {}), ("smooth_l1", {"beta": 0.3}), ("huber", {"delta": 0.1}),
]
REGRESSION = {"mse": F.mse_loss, "l1": F.l1_loss, "smooth_l1": F.smooth_l1_loss, "huber": F.huber_loss,
              "bce_with_logits": F.binary_cross_entropy_with_logits}


def tensors(options):
    return {key: torch.tensor(value) if isinstance(value, list) else value for key, value in options.items()
            if key != "soft_targets"}


def focal_of_classes(logits, targets, gamma):
    """Implements Lin et al. 2017, equation 4, over the softmax."""
    p = logits.softmax(1).gather(1, targets[:, None]).squeeze(1)
    return ((1 - p) ** gamma * -p.log()).mean()


def loss_of(kind, options, logits, targets):
    options = tensors(options)
    if kind in REGRESSION:
        if targets.dtype == torch.long:
            targets = F.one_hot(targets, logits.shape[1]).float()
        return REGRESSION[kind](logits, targets, **options)
    if kind == "kl_div_with_logits":
        return F.kl_div(logits.log_softmax(1), targets, reduction="batchmean")
    if kind == "focal":
        if targets.dtype == torch.long:
            return focal_of_classes(logits, targets, options["gamma"])
        return sigmoid_focal_loss(logits, targets, options.get("alpha", -1), options["gamma"], reduction="mean")
    return {"cross_entropy": F.cross_entropy, "nll": F.nll_loss}[kind](logits, targets, **options)


def run(kind, options, logits, targets):
    logits = logits.clone().requires_grad_()
    loss = loss_of(kind, options, logits, targets)
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
shown = torch.randn(5, 3).softmax(1)
save("losses", {
    "logits": numbers(logits),
    "targets": targets.tolist(),
    "cases": [run(kind, options, logits, targets) for kind, options in CASES],
    "partners": partners.tolist(),
    "lambda": numbers(shares),
    "mixed": [run_mixed(options, logits, targets, partners, shares) for kind, options in CASES
              if kind == "cross_entropy" and "ignore_index" not in options],
    "numbers": numbers(shown),
    "of_numbers": [run(kind, options, logits, shown) for kind, options in OF_NUMBERS],
})
