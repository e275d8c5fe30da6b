"""Writes golden numbers of PyTorch 2.11 to tests/golden/torch. Run one script after the other, from any folder:

    python3 tests/golden/make/optimizers.py [--add]

Results differ in their last digits from one CPU to another. With --add, the script therefore writes only the cases that its JSON
file lacks; it still writes all other files, such as saved weights.

`python3` must find torch 2.11; the head of a script names the other packages that it needs. The tests read only the JSON files, so
running them does not need PyTorch's Python package."""
import json
import pathlib
import sys

import torch

if sys.argv[1:] not in ([], ["--add"]):
    sys.exit(f"usage: {sys.argv[0]} [--add]")
torch.set_num_threads(1)
RESULTS = ("shape", "pixels", "tensors")  # keys of cases that hold results; other results are the last keys of their case
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


def move(model):
    """Adds sin(i + j) / 20 to element i of parameter j, because weights of zero would hide the layers before them."""
    with torch.no_grad():
        for j, parameter in enumerate(model.parameters()):
            parameter += (torch.arange(parameter.numel()).double().add(j).sin() / 20).float().view_as(parameter)


def named(tensors, values=0):
    """Returns the names and shapes of named tensors, with the first values of each."""
    return [{"name": name, "shape": list(t.shape), **({"first": numbers(t.detach().flatten()[:values])} if values else {})}
            for name, t in tensors]


def is_cases(value):
    return isinstance(value, list) and bool(value) and isinstance(value[0], dict)


def with_kept(cases, kept):
    """Returns the cases in their order, but those that `kept` has too as they are there. A case begins with what identifies it: as
    many values as distinguish it from all others."""
    most = max(map(len, [*cases, *kept]))

    def start(case, length):
        return json.dumps([item for item in case.items() if length == most or item[0] not in RESULTS][:length])

    def distinguishes(length):
        return all(len({start(case, length) for case in some}) == len(some) for some in (cases, kept))

    length = next(filter(distinguishes, range(1, most)), most)
    rest = {start(case, length): case for case in kept}
    merged = [rest.pop(start(case, length), case) for case in cases]
    if rest:
        sys.exit(f"{sys.argv[0]} no longer writes these cases of the file, so --add cannot tell what to keep: {', '.join(rest)}")
    return merged


def add(content, kept):
    """Returns `kept`, the content of the file, with the cases and keys of `content` that it lacks."""
    for key, value in content.items():
        if key in kept and not is_cases(value) and kept[key] != json.loads(json.dumps(value)):
            print(f"{key} stays as it is in the file, although its value is different now", file=sys.stderr)
    return {key: with_kept(value, kept.get(key, [])) if is_cases(value) else kept.get(key, value) for key, value in content.items()}


def save(name, content):
    """Writes one case per line, so that a diff is easy to read."""
    path = FOLDER / f"{name}.json"
    head = {"torch": torch.__version__, "made_by": f"tests/golden/make/{pathlib.Path(sys.argv[0]).name}"}
    content = {**head, **content}
    if "--add" in sys.argv and path.exists():
        content = add(content, json.loads(path.read_text()))
    lines = []
    for key, value in content.items():
        if is_cases(value):
            rows = ",\n".join("    " + json.dumps(row) for row in value)
            lines.append(f"  {json.dumps(key)}: [\n{rows}\n  ]")
        else:
            lines.append(f"  {json.dumps(key)}: {json.dumps(value)}")
    FOLDER.mkdir(exist_ok=True)
    path.write_text("{\n" + ",\n".join(lines) + "\n}\n")
