"""Exports a module of Python as the TorchScript file that `model: torchscript` trains."""

import argparse
import ast
import hashlib
import importlib
import importlib.util
import io
import os
import pathlib
import sys
import warnings
from collections.abc import Sequence
from typing import Any

DESCRIPTION = """\
Export a PyTorch module as a TorchScript file for `model: torchscript`. MODEL is one of
  timm:NAME               a model of timm.create_model, such as timm:resnet18
  torchvision:NAME        a model of torchvision.models.get_model, such as torchvision:resnet18
  PACKAGE.MODULE:NAME     a class or function that returns a torch.nn.Module
  FILE.py:NAME            the same from a file"""


def main(words: Sequence[str] | None = None) -> int:
    """Exports a model as the command line says, and returns the exit code."""
    options = _arguments(words)
    if "" not in sys.path and os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())  # as `python -m` does, for PACKAGE.MODULE:NAME
    warnings.filterwarnings("ignore", message="Failed to initialize NumPy")  # torch works without it
    try:
        import torch

        module = load_model(options.model, dict(options.arg))
        scripted = script(module)
        check(module, scripted, _example(torch, options))
        digest = _save(torch, scripted, pathlib.Path(options.out))
    except ImportError as error:
        return _fail(f"cannot import {error.name}: {error}\nhint: install it with pip")
    except (ExportError, OSError) as error:
        return _fail(str(error))
    print(f"model: {{ type: torchscript, path: {options.out}, sha256: {digest} }}")
    return 0


class ExportError(RuntimeError):
    """The model cannot be exported; the message says why."""


def load_model(name: str, arguments: dict[str, Any]) -> Any:
    """Returns the module that MODEL names, in training mode. Raises ExportError or ImportError."""
    import torch

    place, colon, attribute = name.rpartition(":")
    if not colon or not place or not attribute:
        raise ExportError(f"MODEL must be timm:NAME, torchvision:NAME, PACKAGE.MODULE:NAME or FILE.py:NAME, got {name}")
    if place == "timm":
        make = importlib.import_module("timm").create_model
        values: tuple[Any, ...] = (attribute,)
    elif place == "torchvision":
        make = importlib.import_module("torchvision.models").get_model
        values = (attribute,)
    else:
        source = _import(place)
        if not hasattr(source, attribute):
            raise ExportError(f"{place} has no {attribute}")
        make = getattr(source, attribute)
        values = ()
    try:
        module = make(*values, **arguments)
    except Exception as error:
        raise ExportError(f"cannot make {name}: {type(error).__name__}: {error}") from error
    if not isinstance(module, torch.nn.Module):
        raise ExportError(f"{name} must return a torch.nn.Module, got {type(module).__name__}")
    return module.train()


def script(module: Any) -> Any:
    """Returns the scripted module. A module that torch.jit.script does not accept is rewritten by torch.fx first, which keeps dropout and
    batch norm switchable between training and evaluation; a trace would not. Raises ExportError."""
    import torch

    try:
        return torch.jit.script(module)
    except Exception as error:
        first = error
    try:
        return torch.jit.script(torch.fx.symbolic_trace(module))
    except Exception as error:
        raise ExportError(f"torch.jit.script does not accept the module: {_first_line(first)}\n"
                          f"nor does it accept it after torch.fx.symbolic_trace: {_first_line(error)}") from error


def check(module: Any, scripted: Any, example: Any) -> None:
    """Checks that both modules return the same logits in evaluation, and that the scripted one computes gradients in training. Raises
    ExportError."""
    import torch

    try:
        with torch.no_grad():
            expected, found = module.eval()(example), scripted.eval()(example)
    except Exception as error:
        raise ExportError(f"the model does not accept an input of the shape {list(example.shape)}: {_first_line(error)}\n"
                          "hint: set --input to the shape of a sample, such as 3,224,224") from error
    if not isinstance(found, torch.Tensor):
        raise ExportError(f"the model must return one tensor of logits, got {type(found).__name__}")
    if not torch.allclose(expected, found, rtol=1e-4, atol=1e-5):
        raise ExportError("the scripted model returns other logits than the module")
    state = {name: value.clone() for name, value in scripted.state_dict().items()}
    scripted.train()(example).float().sum().backward()
    if not any(parameter.grad is not None for parameter in scripted.parameters()):
        raise ExportError("no parameter of the scripted model gets a gradient")
    scripted.zero_grad()
    scripted.load_state_dict(state)  # a forward pass in training changes the statistics of batch norm
    module.train()


def _example(torch: Any, options: argparse.Namespace) -> Any:
    generator = torch.Generator().manual_seed(0)
    shape = (2, *options.input)
    if options.tokens:
        return torch.randint(options.tokens, shape, generator=generator)
    return torch.rand(shape, generator=generator)


def _save(torch: Any, scripted: Any, out: pathlib.Path) -> str:
    """Writes the file under a temporary name first, and returns its SHA-256."""
    content = io.BytesIO()
    torch.jit.save(scripted, content)
    partial = out.with_name(out.name + ".partial")
    partial.write_bytes(content.getbuffer())
    partial.replace(out)
    return hashlib.sha256(content.getbuffer()).hexdigest()


def _import(place: str) -> Any:
    try:
        return _module_of_file(pathlib.Path(place)) if place.endswith(".py") else importlib.import_module(place)
    except (ImportError, ExportError):
        raise
    except Exception as error:
        raise ExportError(f"cannot import {place}: {type(error).__name__}: {error}") from error


def _module_of_file(path: pathlib.Path) -> Any:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None or not path.exists():
        raise ExportError(f"cannot read {path}: there is no such Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    return module


def _first_line(error: BaseException) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0] if lines else type(error).__name__


def _shape(text: str) -> tuple[int, ...]:
    try:
        shape = tuple(int(word) for word in text.split(","))
    except ValueError:
        shape = ()
    if not shape or min(shape) < 1:
        raise argparse.ArgumentTypeError(f"must be sizes such as 3,224,224, got {text}")
    return shape


def _argument(text: str) -> tuple[str, Any]:
    key, equals, value = text.partition("=")
    if not equals or not key.isidentifier():
        raise argparse.ArgumentTypeError(f"must be NAME=VALUE, got {text}")
    try:
        return key, ast.literal_eval(value)
    except (ValueError, SyntaxError):
        return key, value


def _arguments(words: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m trainctl export-model", description=DESCRIPTION,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", metavar="MODEL")
    parser.add_argument("--out", default="model.pt", metavar="FILE", help="file to write (default: model.pt)")
    parser.add_argument("--arg", action="append", default=[], type=_argument, metavar="NAME=VALUE", help="argument of the model, such as num_classes=10; can be repeated")
    parser.add_argument("--input", default=(3, 224, 224), type=_shape, metavar="SHAPE", help="shape of a sample (default: 3,224,224)")
    parser.add_argument("--tokens", type=int, default=0, metavar="N", help="the input is token numbers below N")
    return parser.parse_args(words)


def _fail(message: str) -> int:
    print(f"error: {message}", file=sys.stderr)
    return 1
