#!/usr/bin/env python3
"""Writes the license of each library that is linked into the program or that a package of the program may carry, as PACKAGE.txt.
The texts are those of the Debian packages on this machine.

usage: licenses.py BUILD FOLDER"""

import pathlib
import re
import sys

import debian_packages as debian

COMMON = pathlib.Path("/usr/share/common-licenses")


def text_of(package):
    """Returns the license of a package, followed by the common licenses that it refers to instead of repeating them."""
    text = debian.copyright_of(package)
    names = sorted(set(re.findall(rf"{COMMON}/([\w.-]*\w)", text)))
    return text + "".join(f"\n{'-' * 80}\n{name}\n\n{(COMMON / name).read_text()}" for name in names if (COMMON / name).exists())


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    build, folder = sys.argv[1:]
    packages = {debian.package_of(path): path for path in debian.linked(build) + debian.loaded(build)}
    if None in packages:
        sys.exit(f"cannot find the license of {packages[None]}: no Debian package contains it")
    pathlib.Path(folder).mkdir(parents=True, exist_ok=True)
    for package in packages:
        (pathlib.Path(folder) / f"{package}.txt").write_text(text_of(package))


if __name__ == "__main__":
    main()
