"""Makes the archive for a GPU machine: the stripped programs with the small libraries, the test program of the engine, the stages,
the peers, experiments, golden values and data samples."""

import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile

from machine import ROOT

LIMIT_BYTES = 60 << 20
# Libraries that the machine itself has: those of the system, and those of PyTorch and the packages that it depends on.
EXPECTED = re.compile(r"(libc|libm|libdl|librt|libpthread|libgcc_s|libstdc\+\+|ld-linux.*|libtorch.*|libc10.*|libcud.*|libnccl.*)\.so")
TREES = ("configs", "tests/gpu_proof", "tests/bench/peers", "tests/golden")
MNIST = ("train-images-idx3-ubyte.gz", "train-labels-idx1-ubyte.gz", "t10k-images-idx3-ubyte.gz", "t10k-labels-idx1-ubyte.gz")


def command(*words):
    """Runs a command, which has to succeed, and returns its output."""
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True, cwd=ROOT)
    if done.returncode != 0:
        sys.exit(f"gpu-proof: error: {' '.join(map(str, words))} failed:\n{done.stdout}{done.stderr}")
    return done.stdout


def build_programs():
    """Builds the preset `proof`: that of the packages, with the test programs."""
    script = "set -euo pipefail; . scripts/common.sh; configure_and_build proof program unit_gpu"
    if subprocess.run(["bash", "-c", script], cwd=ROOT).returncode != 0:
        sys.exit("gpu-proof: error: the programs could not be built")
    return ROOT / "build/proof"


def needed(path):
    return re.findall(r"\(NEEDED\).*\[(.*)\]", command("readelf", "-d", path))


def install(build, folder):
    """Installs the program, its engines and the small libraries as the packages do, and adds the test program."""
    for component in ("program", "libraries"):
        command("cmake", "--install", build, "--component", component, "--prefix", folder, "--strip")
    if (folder / "share").exists():
        shutil.rmtree(folder / "share")
    # unit_gpu has the cases of unit_torch, and can use a GPU. A build without it can only be rehearsed on a CPU.
    tests = build / "bin/unit_gpu"
    command("strip", "-o", folder / "bin/unit_torch", tests if tests.exists() else build / "bin/unit_torch")
    parquet = folder / "lib/libtrainctl_parquet.so"
    if parquet.exists():
        parquet.unlink()  # it needs Arrow
    check_libraries(folder)


def check_libraries(folder):
    """Checks that each library that a program needs is in the archive, or is one that the machine has."""
    carried = {path.name for path in (folder / "lib").iterdir()}
    for path in [folder / "bin/trainctl", folder / "bin/unit_torch", *(folder / "lib").glob("*.so*")]:
        missing = [name for name in needed(path) if name not in carried and not EXPECTED.match(name)]
        if missing:
            sys.exit(f"gpu-proof: error: {path.name} needs {', '.join(missing)}, which neither the archive nor the machine has")


def copy_sources(folder):
    (folder / "scripts").mkdir()
    shutil.copy2(ROOT / "scripts/gpu-proof", folder / "scripts")
    for tree in TREES:
        shutil.copytree(ROOT / tree, folder / tree, ignore=shutil.ignore_patterns("__pycache__", "make", "cli", "report"))


def copy_data(folder):
    """Copies MNIST if it is here. The other data sets are generated, or do not fit."""
    for root in filter(None, (os.environ.get("TRAINCTL_DATA"), ROOT / "data", ROOT.parent / "shared/data")):
        place = pathlib.Path(root) / "mnist"
        if all((place / name).exists() for name in MNIST):
            (folder / "data/mnist").mkdir(parents=True)
            for name in MNIST:
                shutil.copyfile(place / name, folder / "data/mnist" / name)
            return True
    return False


def check_size(path, limit=LIMIT_BYTES):
    """Returns the size of the archive, and removes an archive that is too large."""
    size = path.stat().st_size
    if size > limit:
        path.unlink()
        sys.exit(f"gpu-proof: error: the archive has {size / 2**20:.1f} MiB; the limit is {limit / 2**20:.0f} MiB")
    return size


def pack(options):
    build = pathlib.Path(options.build).resolve() if options.build else build_programs()
    out = pathlib.Path(options.out).resolve()
    out.mkdir(parents=True, exist_ok=True)
    archive = out / "gpu-proof.tar.gz"
    with tempfile.TemporaryDirectory(prefix="trainctl-gpu-proof-") as scratch:
        top = pathlib.Path(scratch) / "gpu-proof"
        top.mkdir()
        install(build, top / "build")
        copy_sources(top)
        has_mnist = copy_data(top)
        version = json.loads(command(build / "bin/trainctl", "version", "--json"))
        (top / "proof.json").write_text(json.dumps({"version": version["version"], "git": version["git"], "mnist": has_mnist}) + "\n")
        with tarfile.open(archive, "w:gz", compresslevel=9) as file:
            file.add(top, "gpu-proof", filter=without_owner)
    print(f"gpu-proof: wrote {archive} ({check_size(archive) / 2**20:.1f} MiB of at most {LIMIT_BYTES >> 20})")
    if not has_mnist:
        print("gpu-proof: MNIST is not in the archive: scripts/fetch-data mnist")
    return 0


def without_owner(member):
    member.uid = member.gid = 0
    member.uname = member.gname = "root"
    return member
