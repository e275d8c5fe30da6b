"""Areas under the ROC curve by scikit-learn: ties, scores far from 0, missing classes.

Needs torch 2.11, scikit-learn and numpy."""
import torch
from golden import numbers, save
from sklearn.metrics import roc_auc_score

torch.manual_seed(11)


def log_odds(logits):
    """Returns the log odds of each class against the others, in float64 and without a probability that rounds to 1."""
    columns = []
    for c in range(logits.shape[1]):
        others = torch.cat([logits[:, :c], logits[:, c + 1:]], 1)
        columns.append(logits[:, c] - others.logsumexp(1))
    return torch.stack(columns, 1)


def area(scores, positives, average):
    """Returns the mean of scikit-learn's areas over the columns that have both kinds of rows."""
    kept = [c for c in range(scores.shape[1]) if 0 < positives[:, c].sum() < len(positives)]
    areas = [roc_auc_score(positives[:, c], scores[:, c]) for c in kept]
    weights = [float(positives[:, c].sum()) if average == "weighted" else 1.0 for c in kept]
    return float(sum(a * w for a, w in zip(areas, weights)) / sum(weights))


def of_classes(name, logits, targets):
    scores, positives = log_odds(logits.double()), torch.nn.functional.one_hot(targets, logits.shape[1])
    return [{"name": f"{name}, {average}", "average": average, "logits": numbers(logits), "targets": targets.tolist(),
             "value": area(scores, positives, average)} for average in ("macro", "weighted")]


def of_answers(name, logits, answers):
    return [{"name": f"{name}, {average}", "average": average, "answers": True, "logits": numbers(logits),
             "targets": numbers(answers), "value": area(logits.double(), answers, average)} for average in ("macro", "weighted")]


def classes(count, rows):
    return torch.randint(0, count, (rows,))


def toward(targets, count, spread, gain):
    """Returns random logits with `gain` added at the class of each row."""
    return torch.randn(len(targets), count) * spread + gain * torch.nn.functional.one_hot(targets, count)


two, five = classes(2, 40), classes(5, 60)
save("auroc", {
    "cases": of_classes("two classes", toward(two, 2, 1, 1), two)
    + of_classes("log-odds beyond 16", toward(two, 2, 40, 40), two)
    + of_classes("log-odds of thousands", toward(two, 2, 3000, 3000), two)
    + of_classes("log-odds next to 0", toward(two, 2, 1e-6, 1e-6), two)
    + of_classes("five classes", toward(five, 5, 1, 1), five)
    + of_classes("five classes, log-odds beyond 16", toward(five, 5, 50, 30), five)
    + of_classes("ties", toward(two, 2, 1, 1).round(), two)
    + of_classes("one score", torch.zeros(40, 2), two)
    + of_classes("a class without rows", toward(five, 7, 1, 1), five)
    + of_answers("answers", toward(five, 5, 1, 1), torch.randint(0, 2, (60, 5)).float())
    + of_answers("answers beyond 16", torch.randn(60, 3) * 100, torch.randint(0, 2, (60, 3)).float())
    + of_answers("answers with ties and a column that is all no", torch.randn(30, 3).round(),
                 torch.cat([torch.randint(0, 2, (30, 2)), torch.zeros(30, 1, dtype=torch.int64)], 1).float()),
})
