"""Writes golden numbers of PyTorch 2.11 to tests/golden/torch. Run one script after the other, from any folder:

    python3 tests/golden/make/optimizers.py

`python3` must find torch 2.11. The tests read only the JSON files, so running them does not need PyTorch's Python package."""
import json
import pathlib
import sys

import torch

torch.set_num_threads(1)
FOLDER = pathlib.Path(__file__).resolve().parent.parent / "torch"


def numbers(tensor):
    """Returns a float32 tensor as nested lists of the shortest decimals that read back to the same values."""
    if tensor.dim() > 1:
        return [numbers(row) for row in tensor]
    if tensor.dim() == 0:
        return shortest(tensor.item(), tensor.dtype)
    return [shortest(value, tensor.dtype) for value in tensor.tolist()]


def shortest(value, dtype):
    if dtype is not torch.float32:
        return value
    for digits in range(6, 10):
        text = f"{value:.{digits}g}"
        if torch.tensor(float(text), dtype=dtype).item() == value:
            return float(text)
    return value


def ramp(shape):
    """Returns the input that the tests build too: sin(0), sin(1), ... in two rows."""
    return torch.arange(2 * torch.Size(shape).numel()).double().sin().float().view(2, *shape)


def save(name, content):
    """Writes one case per line, so that a diff is easy to read."""
    head = {"torch": torch.__version__, "made_by": f"tests/golden/make/{pathlib.Path(sys.argv[0]).name}"}
    lines = []
    for key, value in {**head, **content}.items():
        if isinstance(value, list) and value and isinstance(value[0], dict):
            rows = ",\n".join("    " + json.dumps(row) for row in value)
            lines.append(f"  {json.dumps(key)}: [\n{rows}\n  ]")
        else:
            lines.append(f"  {json.dumps(key)}: {json.dumps(value)}")
    FOLDER.mkdir(exist_ok=True)
    (FOLDER / f"{name}.json").write_text("{\n" + ",\n".join(lines) + "\n}\n")
