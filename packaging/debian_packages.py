"""Finds the Debian packages of the libraries in a build, with their versions and licenses. Used by licenses.py and sbom.py."""

import functools
import pathlib
import re
import subprocess

# These libraries are headers alone, or headers with a shared library: parts of them are compiled into the program.
HEADERS = ("CLI/CLI.hpp", "nlohmann/json.hpp", "spdlog/spdlog.h", "fmt/core.h", "xxhash.h")
TARGETS = re.compile(r"^build (?:bin/trainctl|lib/libtrainctl_\w+\.so)(?: [^:]*)?:.*?(?=^\S|\Z)", re.M | re.S)
NATIVE = {"amd64": "x86-64", "arm64": "AArch64"}  # how ldconfig marks the libraries of an architecture
FROM_SYSTEM = {"libc6", "libgcc-s1", "libstdc++6"}  # every package expects these of the machine


def printed(*command):
    """Returns the output of a command, or "" if it fails."""
    return subprocess.run([str(word) for word in command], capture_output=True, text=True).stdout


def linked(build):
    """Returns the paths of the static libraries that are linked into the program or its engines, and of HEADERS."""
    text = (pathlib.Path(build) / "build.ninja").read_text()
    archives = {path for target in TARGETS.findall(text) for path in re.findall(r"\s(/\S+\.a)(?=\s)", target)}
    headers = (pathlib.Path("/usr/include") / name for name in HEADERS)
    return sorted(archives) + [str(path) for path in headers if path.exists()]


@functools.cache
def architecture():
    """Returns Debian's name of the architecture that packages are built for, such as amd64."""
    return printed("dpkg", "--print-architecture").strip()


@functools.cache
def shared_libraries():
    """Returns {soname: path} of the libraries that the dynamic linker of this machine finds."""
    mark = NATIVE[architecture()]
    lines = re.findall(rf"^\s+(\S+) \([^)]*{mark}[^)]*\) => (\S+)", printed("/sbin/ldconfig", "-p"), re.M)
    return dict(reversed(lines))


def needed(path):
    return re.findall(r"\(NEEDED\).*\[(.*)\]", printed("readelf", "-d", path))


def loaded(build):
    """Returns the paths of the shared libraries that the program and its engines load, and that Debian packages contain."""
    build = pathlib.Path(build)
    modules = [path for name in ("engine*", "parquet", "sentencepiece") for path in (build / "lib").glob(f"libtrainctl_{name}.so")]
    waiting = [build / "bin/trainctl", *modules]
    found = {}
    while waiting:
        for name in needed(waiting.pop()):
            path = shared_libraries().get(name)
            if name not in found and path and package_of(path) not in FROM_SYSTEM | {None}:
                found[name] = path
                waiting.append(path)
    return sorted(found.values())


@functools.cache
def packages_by_file():
    """Returns {path: package} of all files of the installed packages: `dpkg -S` reads these lists again for each file."""
    found = {}
    for files in pathlib.Path("/var/lib/dpkg/info").glob("*.list"):
        found.update(dict.fromkeys(files.read_text().splitlines(), files.stem.partition(":")[0]))
    return found


def package_of(path):
    """Returns the package that contains the file, or None."""
    real = pathlib.Path(path).resolve()
    names = (str(path), str(real), "/" + str(real).removeprefix("/usr/"))
    return next((packages_by_file()[name] for name in names if name in packages_by_file()), None)


@functools.cache
def details_of(package):
    """Returns the version, source package, home page and maintainer of an installed package."""
    fields = ("Version", "source:Package", "Homepage", "Maintainer")
    text = printed("dpkg-query", "-W", "-f", r"\n".join(f"${{{field}}}" for field in fields) + r"\n\0", package)
    return dict(zip(("version", "source", "homepage", "maintainer"), text.split("\0")[0].split("\n")))


def distribution():
    """Returns "debian" or "ubuntu"."""
    return re.search(r'^ID="?(\w+)', pathlib.Path("/etc/os-release").read_text(), re.M)[1]


def copyright_of(package):
    return pathlib.Path(f"/usr/share/doc/{package}/copyright").read_text(errors="replace")
