"""Metrics of given logits, by scikit-learn where it has them.

Needs torch 2.11, scikit-learn and numpy."""
import torch
import torch.nn.functional as F
from golden import numbers, save
from sklearn.metrics import f1_score, precision_score, r2_score, recall_score, roc_auc_score

torch.manual_seed(3)
logits = torch.randn(12, 6)
targets = torch.randint(0, 6, (12,))


def top(k):
    return (logits.topk(k, 1).indices == targets[:, None]).any(1).double().mean().item()


called = logits.argmax(1)
SCORES = {"precision": precision_score, "recall": recall_score, "f1": f1_score}


def score(kind, average, targets, called):
    return float(SCORES[kind](targets, called, average=average, zero_division=0))


two = torch.randn(15, 2)
of_two = torch.randint(0, 2, (15,))
learnt = torch.randn(9, 2) + torch.tensor([1000.0, -3.0])
guessed = learnt + torch.randn(9, 2) * 0.3
error = guessed.double() - learnt.double()
save("metrics", {
    "logits": numbers(logits),
    "targets": targets.tolist(),
    "cases": [{"type": "accuracy", "options": {}, "value": (logits.argmax(1) == targets).double().mean().item()}]
    + [{"type": "top_k_accuracy", "options": {"k": k}, "value": top(k)} for k in (1, 2, 3, 5, 6)]
    + [{"type": kind, "options": {"average": average}, "value": score(kind, average, targets, called)}
       for kind in SCORES for average in ("macro", "weighted", "micro")]
    + [{"type": "auroc", "options": {"average": average}, "value": float(roc_auc_score(
        targets, logits.double().softmax(1), multi_class="ovr", average=average))} for average in ("macro", "weighted")]
    + [{"type": "perplexity", "options": {}, "value": F.cross_entropy(logits.double(), targets).exp().item()}],
    "of_two": {"logits": numbers(two), "targets": of_two.tolist(),
               "cases": [{"type": kind, "options": {"average": "binary"},
                          "value": score(kind, "binary", of_two, two.argmax(1))} for kind in SCORES]
               + [{"type": "auroc", "options": {}, "value": float(roc_auc_score(of_two, two[:, 1] - two[:, 0]))}]},
    "of_numbers": {"logits": numbers(guessed), "targets": numbers(learnt), "cases": [
        {"type": "mae", "options": {}, "value": error.abs().mean().item()},
        {"type": "rmse", "options": {}, "value": error.square().mean().sqrt().item()},
        {"type": "r2", "options": {}, "value": float(r2_score(learnt.double(), guessed.double()))}]},
})
