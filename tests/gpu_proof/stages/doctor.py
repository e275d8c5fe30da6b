"""The machine and the program: version, doctor, the self-test of a GPU, and the Python in which the peers run."""

import json

from outcomes import check, passed, skipped
from runner import Check


def version(context):
    done = context.trainctl("version", "--json", timeout=60)
    if done.code != 0:
        return check(False, f"trainctl version ended with exit code {done.code}: {done.end}")
    build = done.json["build"]
    if context.device == "cuda":
        missing = [name for name in ("engine", "cuda", "kernels") if build[name] in (False, "", "OFF", None)]
        return check(not missing, f"this build has no {', '.join(missing)}", **done.json)
    return check(build["engine"], "this build has no engine", **done.json)


def doctor(context):
    done = context.trainctl("doctor", "--json", timeout=120)
    if done.code != 0:
        return check(False, f"trainctl doctor ended with exit code {done.code}: {done.end}")
    found = {one["name"]: f"{one['health']}: {one['found']}" for one in done.json["findings"]}
    broken = [name for name, text in found.items() if text.startswith("broken")]
    return check(not broken, f"broken: {', '.join(broken)}", **found)


def self_test(context):
    """`doctor --gpu` runs kernels, copies and collectives on every GPU for about 20 seconds."""
    if context.device != "cuda":
        return skipped("needs a GPU")
    if "--gpu" not in context.trainctl("doctor", "--help", timeout=60).out:
        return skipped("this build has no doctor --gpu")
    done = context.trainctl("doctor", "--gpu", "--json", timeout=150)
    return check(done.code == 0, f"doctor --gpu ended with exit code {done.code}: {done.end}", output=done.end)


def peers(context):
    """Which of the peers can run: each needs Python packages."""
    if context.python is None:
        return skipped("no Python here has torch: peers are left out")
    code = ("import importlib.util as u, json, torch; print(json.dumps({'torch': torch.__version__, 'cuda': torch.cuda.is_available(), "
            "'packages': [n for n in ('torchvision', 'triton', 'numpy') if u.find_spec(n)]}))")
    done = context.run([context.python, "-c", code], timeout=120)
    if done.code != 0:
        return check(False, f"{context.python} cannot import torch: {done.end}")
    found = json.loads(done.out.splitlines()[-1])
    if context.device == "cuda" and not found["cuda"]:
        return check(False, f"torch {found['torch']} of {context.python} sees no GPU", **found)
    return passed(python=context.python, **found)


def checks(_context):
    return [Check("version", version, 30), Check("doctor", doctor, 60), Check("GPU self-test", self_test, 150), Check("peers", peers, 60)]
