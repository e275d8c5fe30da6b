"""Models after torch.manual_seed: names, shapes and first values of each parameter, logits of a given input, and the losses of 10
training steps of a tiny MLP."""
import torch
import torch.nn.functional as F
from golden import numbers, ramp, save
from torch import nn

SEED = 42


class Mlp(nn.Module):
    def __init__(self, shape, classes, hidden, activation="relu"):
        super().__init__()
        widths = [torch.Size(shape).numel(), *hidden, classes]
        self.count, self.activation = len(hidden) + 1, activation
        for i in range(self.count):
            setattr(self, f"fc{i + 1}", nn.Linear(widths[i], widths[i + 1]))

    def forward(self, x):
        x = x.flatten(1)
        for i in range(1, self.count):
            x = getattr(torch if self.activation != "gelu" else F, self.activation)(getattr(self, f"fc{i}")(x))
        return getattr(self, f"fc{self.count}")(x)


class Linear(nn.Module):
    def __init__(self, shape, classes, bias=True):
        super().__init__()
        self.fc = nn.Linear(torch.Size(shape).numel(), classes, bias=bias)

    def forward(self, x):
        return self.fc(x.flatten(1))


class Lenet(nn.Module):
    def __init__(self, shape, classes, activation="relu"):
        super().__init__()
        self.activation = getattr(torch, activation)
        self.conv1 = nn.Conv2d(shape[0], 6, 5, padding=(32 - shape[1]) // 2)
        self.conv2 = nn.Conv2d(6, 16, 5)
        self.fc1, self.fc2, self.fc3 = nn.Linear(400, 120), nn.Linear(120, 84), nn.Linear(84, classes)

    def forward(self, x):
        x = F.max_pool2d(self.activation(self.conv1(x)), 2)
        x = F.max_pool2d(self.activation(self.conv2(x)), 2).flatten(1)
        return self.fc3(self.activation(self.fc2(self.activation(self.fc1(x)))))


CLASSES = {"mlp": Mlp, "linear": Linear, "lenet": Lenet}
CASES = [
    ("linear", {}, [1, 4, 4], 3),
    ("linear", {"bias": False}, [2, 3, 1], 4),
    ("mlp", {"hidden": [7, 5]}, [1, 4, 4], 3),
    ("mlp", {"hidden": [], "activation": "tanh"}, [1, 4, 4], 3),
    ("mlp", {"hidden": [6], "activation": "gelu"}, [3, 2, 2], 2),
    ("mlp", {"hidden": [6], "activation": "sigmoid"}, [3, 2, 2], 2),
    ("lenet", {}, [1, 28, 28], 10),
    ("lenet", {"activation": "tanh"}, [3, 32, 32], 5),
]


def describe(kind, options, shape, classes):
    torch.manual_seed(SEED)
    model = CLASSES[kind](shape, classes, **options)
    parameters = [{"name": name, "shape": list(p.shape), "first": numbers(p.detach().flatten()[:4])}
                  for name, p in model.named_parameters()]
    return {"type": kind, "options": options, "input_shape": shape, "classes": classes, "parameters": parameters,
            "logits": numbers(model(ramp(shape)).detach())}


def train():
    torch.manual_seed(7)
    model = Mlp([1, 2, 3], 3, [5])
    inputs, targets = torch.randn(8, 1, 2, 3), torch.randint(0, 3, (8,))
    weights = [{"name": name, "values": numbers(p.detach())} for name, p in model.named_parameters()]
    optimizer, losses = torch.optim.Adam(model.parameters(), lr=0.05, fused=True), []
    for _ in range(10):
        loss = F.cross_entropy(model(inputs), targets)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(numbers(loss.detach()))
    return {"hidden": [5], "input_shape": [1, 2, 3], "classes": 3, "lr": 0.05, "weights": weights,
            "inputs": numbers(inputs), "targets": targets.tolist(), "losses": losses}


save("models", {"seed": SEED, "cases": [describe(*case) for case in CASES], "training": train()})
