"""Accuracies of given logits."""
import torch
from golden import numbers, save

torch.manual_seed(3)
logits = torch.randn(12, 6)
targets = torch.randint(0, 6, (12,))


def top(k):
    return (logits.topk(k, 1).indices == targets[:, None]).any(1).double().mean().item()


save("metrics", {
    "logits": numbers(logits),
    "targets": targets.tolist(),
    "cases": [{"type": "accuracy", "options": {}, "value": (logits.argmax(1) == targets).double().mean().item()}]
    + [{"type": "top_k_accuracy", "options": {"k": k}, "value": top(k)} for k in (1, 2, 3, 5, 6)],
})
