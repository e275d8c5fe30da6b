"""Exponential averages of a weight by timm's ModelEmaV3 with decay warm-up.

Needs torch 2.11, timm, torchvision 0.26, numpy and pillow."""
import torch
from golden import numbers, save
from timm.utils import ModelEmaV3

UPDATES = 60
CASES = [
    {"decay": 0.9},
    {"decay": 0.9, "use_warmup": True},
    {"decay": 0.9999, "use_warmup": True},
    {"decay": 0.9999, "use_warmup": True, "warmup_gamma": 5.0, "warmup_power": 0.75},
    {"decay": 0.95, "use_warmup": True, "min_decay": 0.5},
]


def averages(options):
    model = torch.nn.Linear(1, 1, bias=False)
    average = ModelEmaV3(model, **options)
    found = []
    for step, weight in enumerate(weights, 1):
        with torch.no_grad():
            model.weight.fill_(weight)
        average.update(model, step=step)
        found.append(average.module.weight.item())
    return numbers(torch.tensor(found))


torch.manual_seed(3)
weights = numbers(torch.randn(UPDATES).cumsum(0))
save("averaging", {"weights": weights, "cases": [{"options": case, "averages": averages(case)} for case in CASES]})
