"""Overlap of predicted and actual masks: for each class, intersection over union and the Dice coefficient of all pixels that count,
then the mean over the classes that occur. The definition of torchmetrics' JaccardIndex and F1Score with average="macro" and ignore_index=255.

Needs torch 2.11."""
import torch
from golden import numbers, save

IGNORED = 255
torch.manual_seed(5)
logits = torch.randn(3, 5, 4, 6)
logits[:, 3] -= 100  # class 3 is never predicted
targets = torch.randint(0, 4, (3, 4, 6))
targets[targets == 2] = 0  # class 2 is only predicted, and class 4 neither
logits[:, 4] -= 100
targets[torch.rand(targets.shape) < 0.2] = IGNORED

counts = targets != IGNORED
called = logits.argmax(1)
overlaps = []
for number in range(logits.shape[1]):
    a, b = (called == number) & counts, (targets == number) & counts
    if (a | b).any():
        both = (a & b).sum().item()
        overlaps.append((both / (a | b).sum().item(), 2 * both / (a.sum() + b.sum()).item()))
save("masks", {
    "logits": numbers(logits),
    "targets": targets.tolist(),
    "mean_iou": sum(iou for iou, _ in overlaps) / len(overlaps),
    "dice": sum(dice for _, dice in overlaps) / len(overlaps),
})
