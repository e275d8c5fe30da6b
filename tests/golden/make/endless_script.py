"""Writes endless_script.pt: a scripted module whose forward pass never returns."""
import torch
from golden import FOLDER
from torch import nn


class Endless(nn.Module):
    def __init__(self):
        super().__init__()
        self.head = nn.Linear(784, 10)

    def forward(self, x):
        count = 0
        while count >= 0:
            count = (count + 1) % 1000
        return self.head(x.flatten(1))


torch.manual_seed(0)
module = torch.jit.script(Endless())
module.head.weight.data.zero_()
torch.jit.save(module, str(FOLDER / "endless_script.pt"))
