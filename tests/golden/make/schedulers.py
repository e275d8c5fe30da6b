"""Learning rates of 30 epochs. Warm-up is a SequentialLR of LinearLR and the scheduler; the plateau scheduler gets a given
series."""
import warnings

import torch
from golden import save
from torch.optim import lr_scheduler as lr

warnings.filterwarnings("ignore")
EPOCHS, BASE = 30, 0.1
CLASSES = {
    "constant": lambda optimizer: lr.LambdaLR(optimizer, lambda _: 1.0),
    "constant_lr": lr.ConstantLR,
    "step_lr": lr.StepLR,
    "multi_step_lr": lr.MultiStepLR,
    "exponential_lr": lr.ExponentialLR,
    "linear_lr": lr.LinearLR,
    "polynomial_lr": lr.PolynomialLR,
    "cosine_annealing_warm_restarts": lambda optimizer, t_0, t_mult=1, eta_min=0.0:
        lr.CosineAnnealingWarmRestarts(optimizer, t_0, t_mult, eta_min),
    "one_cycle_lr": lambda optimizer, interval, **options:
        lr.OneCycleLR(optimizer, BASE, cycle_momentum=False, **options),
    "cosine_annealing_lr": lambda optimizer, t_max, eta_min=0.0: lr.CosineAnnealingLR(optimizer, t_max, eta_min),
    "reduce_lr_on_plateau": lr.ReduceLROnPlateau,
}
CURVES = [
    ("constant", {}),
    ("constant_lr", {}),
    ("constant_lr", {"factor": 0.5, "total_iters": 8}),
    ("step_lr", {"step_size": 4}),
    ("step_lr", {"step_size": 4, "gamma": 0.5}),
    ("multi_step_lr", {"milestones": [6, 10, 20], "gamma": 0.1}),
    ("exponential_lr", {"gamma": 0.9}),
    ("cosine_annealing_lr", {"t_max": 25, "eta_min": 0.001}),
    ("cosine_annealing_lr", {"t_max": 10}),
    ("linear_lr", {}),
    ("linear_lr", {"start_factor": 0.25, "end_factor": 1.0, "total_iters": 8}),
    ("linear_lr", {"start_factor": 1.0, "end_factor": 0.0, "total_iters": 25}),
    ("polynomial_lr", {}),
    ("polynomial_lr", {"total_iters": 20, "power": 2.0}),
    ("polynomial_lr", {"total_iters": 25, "power": 0.9}),
    ("cosine_annealing_warm_restarts", {"t_0": 4, "t_mult": 2, "eta_min": 0.001}),
    ("cosine_annealing_warm_restarts", {"t_0": 7}),
]
CYCLES = [  # cycles of 30 intervals; OneCycleLR cannot be part of a SequentialLR
    {},
    {"anneal_strategy": "linear", "pct_start": 0.2, "div_factor": 10.0, "final_div_factor": 100.0},
    {"three_phase": True, "pct_start": 0.4},
    {"three_phase": True, "pct_start": 0.3, "anneal_strategy": "linear"},
]
PLATEAUS = [
    {},
    {"patience": 2},
    {"patience": 1, "factor": 0.5, "cooldown": 3, "threshold": 0.01, "threshold_mode": "rel"},
    {"patience": 0, "factor": 0.3, "threshold": 0.05, "threshold_mode": "abs", "min_lr": 0.002},
    {"patience": 1, "factor": 0.1, "min_lr": 0.0, "eps": 1e-4},
    {"mode": "max", "patience": 2, "factor": 0.5, "threshold": 0.02},
]
SEQUENCES = [
    ([("linear_lr", {"start_factor": 0.25, "end_factor": 1.0, "total_iters": 4}), ("exponential_lr", {"gamma": 0.9})], [5]),
    ([("constant_lr", {}), ("cosine_annealing_lr", {"t_max": 12})], [4]),
    ([("constant", {}), ("step_lr", {"step_size": 2, "gamma": 0.5}), ("cosine_annealing_lr", {"t_max": 12})], [3, 11]),
]
SERIES = [round(1.0 / (1 + 0.3 * e) + 0.05 * ((e * 7) % 5), 6) for e in range(EPOCHS)]


def optimizer():
    return torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=BASE)


def rates(opt, scheduler, observed=None):
    out = []
    for epoch in range(EPOCHS):
        out.append(opt.param_groups[0]["lr"])
        opt.step()
        scheduler.step(*([observed[epoch]] if observed else []))
    return out


def curve(kind, options, warmup):
    opt = optimizer()
    if not warmup:
        return rates(opt, CLASSES[kind](opt, **options))
    ramp = lr.LinearLR(opt, start_factor=warmup["warmup_start_factor"], total_iters=warmup["warmup"])
    return rates(opt, lr.SequentialLR(opt, [ramp, CLASSES[kind](opt, **options)], milestones=[warmup["warmup"]]))


def sequence(parts, milestones):
    opt = optimizer()
    return rates(opt, lr.SequentialLR(opt, [CLASSES[kind](opt, **options) for kind, options in parts], milestones))


def plateau(options):
    opt = optimizer()
    return rates(opt, lr.ReduceLROnPlateau(opt, **options), SERIES)


warmups = [{}, {"warmup": 5, "warmup_start_factor": 0.1}, {"warmup": 1, "warmup_start_factor": 0.25}]
save("schedulers", {
    "initial_lr": BASE,
    "observed": SERIES,
    "cases": [{"type": kind, "options": {**options, **warmup}, "lr": curve(kind, options, warmup)}
              for kind, options in CURVES for warmup in warmups]
    + [{"type": "one_cycle_lr", "options": {**options, "interval": "epoch", "total_steps": EPOCHS},
        "lr": curve("one_cycle_lr", {**options, "interval": "epoch", "total_steps": EPOCHS}, {})} for options in CYCLES]
    + [{"type": "sequential_lr",
        "options": {"schedulers": [{"type": kind, **options} for kind, options in parts], "milestones": milestones},
        "lr": sequence(parts, milestones)} for parts, milestones in SEQUENCES]
    + [{"type": "reduce_lr_on_plateau", "options": options, "lr": plateau(options)} for options in PLATEAUS],
})
