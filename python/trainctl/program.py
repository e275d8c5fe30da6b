"""Finds the program and the libtorch that it loads."""

import importlib.util
import os
import sys


def find_program() -> str:
    """Returns the path of the program: $TRAINCTL_PROGRAM, else the one in this package, else `trainctl` on PATH. Raises
    FileNotFoundError if no program is found."""
    named = os.environ.get("TRAINCTL_PROGRAM")
    if named:
        return named
    bundled = os.path.join(os.path.dirname(os.path.abspath(__file__)), "bin", "trainctl")
    if os.path.exists(bundled):
        return bundled
    import shutil

    found = shutil.which("trainctl")
    if found is None or os.path.realpath(found) == os.path.realpath(sys.argv[0]):  # a script that starts this module
        raise FileNotFoundError("cannot find the program trainctl: add it to PATH, or set TRAINCTL_PROGRAM to its path")
    return found


def environment() -> dict[str, str]:
    """Returns the environment of the program. Unless TRAINCTL_TORCH_ROOT is set, the program gets the torch package of this Python,
    which is found without importing it."""
    variables = dict(os.environ)
    if "TRAINCTL_TORCH_ROOT" not in variables:
        torch = importlib.util.find_spec("torch")
        if torch is not None and torch.origin is not None:
            variables["TRAINCTL_TORCH_ROOT"] = os.path.dirname(torch.origin)
    return variables
