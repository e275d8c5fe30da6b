"""20 steps of each optimizer on given gradients; after step 10 the rate drops to a tenth."""
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
]
CLASSES = {"sgd": torch.optim.SGD, "adam": torch.optim.Adam, "adamw": torch.optim.AdamW}


def run(kind, options, start, gradients, **form):
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
save("optimizers", {
    "drop_after": DROP_AFTER,
    "kept_steps": KEPT,
    "start": [numbers(tensor) for tensor in start],
    "gradients": [[numbers(tensor) for tensor in step] for step in gradients],
    "cases": [{"type": kind, "options": options,
               "fused": run(kind, options, start, gradients, fused=True),
               "plain": run(kind, options, start, gradients, foreach=False, fused=False)} for kind, options in CASES],
})
