"""Metrics of binary labels, one for each output, by scikit-learn.

Needs torch 2.11, scikit-learn and numpy."""
import torch
from golden import numbers, save
from sklearn.metrics import accuracy_score, f1_score, precision_score, recall_score, roc_auc_score

torch.manual_seed(11)
SCORES = {"precision": precision_score, "recall": recall_score, "f1": f1_score}
logits = torch.randn(40, 4) * 2
targets = (logits + torch.randn(40, 4) * 3 + torch.tensor([0.0, 1.0, -1.0, -2.5]) > 0).float()
# The last output is never positive in the targets or the predictions; the one before it is positive only in predictions.
rare_logits = torch.randn(9, 4) - torch.tensor([0.0, 0.0, 0.0, 9.0])
rare = torch.tensor([1.0, 1.0, 0.0, 0.0]) * torch.randint(0, 2, (9, 4))


def cases(logits, targets, thresholds):
    for threshold in thresholds:
        options = {} if threshold == 0.5 else {"threshold": threshold}
        called = (logits.double().sigmoid() > threshold).int()
        right = float(accuracy_score(targets.flatten(), called.flatten()))
        yield {"type": "accuracy", "options": options, "value": right}
        for kind, score in SCORES.items():
            for average in ("macro", "weighted", "micro"):
                value = float(score(targets.int(), called, average=average, zero_division=0))
                yield {"type": kind, "options": {"average": average, **options}, "value": value}


def areas(average):
    return {"type": "auroc", "options": {"average": average}, "value": float(roc_auc_score(targets, logits, average=average))}


save("answers", {
    "logits": numbers(logits),
    "targets": numbers(targets),
    "cases": [*cases(logits, targets, (0.5, 0.2, 0.8)), areas("macro"), areas("weighted")],
    "rare_logits": numbers(rare_logits),
    "rare_targets": numbers(rare),
    "rare_cases": list(cases(rare_logits, rare, (0.5,))),
})
