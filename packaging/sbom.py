#!/usr/bin/env python3
"""Writes the SBOM (list of the contained software) of a package as SPDX 2.3 JSON: the libraries that the package carries, those that are
linked into the program, and the Python packages that it needs (PyTorch, and Arrow for Parquet files).

usage: sbom.py BUILD PACKAGE FILE"""

import email
import hashlib
import json
import os
import pathlib
import re
import subprocess
import sys
import tarfile
import time
import urllib.parse
import zipfile

import debian_packages as debian

ROOT = pathlib.Path(__file__).resolve().parents[1]
LIBRARY = re.compile(r"(?:.*/)?(lib[^/]+?)(?:-[0-9a-f]{8})?(\.so[.\d]*)")  # auditwheel inserts a part of the checksum
# Names in Debian's copyright files, and those of SPDX.
SPDX = {"Apache-2": "Apache-2.0", "Apache-2.0": "Apache-2.0", "BSD-2-Clause": "BSD-2-Clause", "BSD-3-Clause": "BSD-3-Clause",
        "BSD-3-clause": "BSD-3-Clause", "BSD-2-clause": "BSD-2-Clause", "Expat": "MIT", "MIT": "MIT", "Zlib": "Zlib", "zlib": "Zlib",
        "BSL-1.0": "BSL-1.0", "curl": "curl"}


def members(path):
    """Yields (name, bytes) of the regular files in a wheel, an archive or a Debian package."""
    if path.suffix == ".whl":
        with zipfile.ZipFile(path) as wheel:
            yield from ((name, wheel.read(name)) for name in wheel.namelist())
        return
    if path.suffix == ".deb":
        process = subprocess.Popen(["dpkg-deb", "--fsys-tarfile", path], stdout=subprocess.PIPE)
        stream = tarfile.open(fileobj=process.stdout, mode="r|")
    else:
        stream = tarfile.open(path, mode="r|*")
    with stream:
        for member in stream:
            if member.isfile():
                yield member.name, stream.extractfile(member).read()


def sha256(data):
    return hashlib.sha256(data).hexdigest()


def carried(path):
    """Yields (file name, path on this machine, SHA-256) of the libraries in a package that are not trainctl's."""
    for name, data in members(path):
        match = LIBRARY.fullmatch(name)
        if match and not match[1].startswith("libtrainctl_"):
            file = match[1] + match[2]
            known = debian.shared_libraries().values()
            there = next((path for path in known if file in (pathlib.Path(path).name, pathlib.Path(path).resolve().name)), None)
            if there is None:
                sys.exit(f"cannot describe {name}: this machine has no library {file}")
            yield file, there, sha256(data)


def license_of(package, document):
    """Returns the SPDX identifier of a package's license, or that of its full text, which is added to the document."""
    text = debian.copyright_of(package)
    main = re.search(r"^Files: \*\n(?:.+\n)*?License: *(.+)$", text, re.M)
    if main and main[1].strip() in SPDX:
        return SPDX[main[1].strip()]
    identifier = f"LicenseRef-{package}"
    if identifier not in [known["licenseId"] for known in document["hasExtractedLicensingInfos"]]:
        document["hasExtractedLicensingInfos"].append({"licenseId": identifier, "extractedText": text, "name": f"copyright file of {package}"})
    return identifier


def library(file, path, checksum, document):
    """Describes a library by the Debian package that it is from. The purl (package URL) is what vulnerability scanners read."""
    package = debian.package_of(path)
    details = debian.details_of(package)
    name, _, address = details["maintainer"].rstrip(">").partition(" <")
    version = urllib.parse.quote(details["version"], safe=".~-")
    purl = f"pkg:deb/{debian.distribution()}/{package}@{version}?arch={debian.architecture()}"
    return {"name": details["source"], "versionInfo": details["version"], "packageFileName": file,
            "supplier": f"Organization: {name} ({address})", "downloadLocation": "NOASSERTION",
            "homepage": details["homepage"] or "NOASSERTION", "licenseDeclared": license_of(package, document),
            "checksums": [{"algorithm": "SHA256", "checksumValue": checksum}],
            "externalRefs": [{"referenceCategory": "PACKAGE-MANAGER", "referenceType": "purl", "referenceLocator": purl}]}


def python_package(distribution):
    """Describes an installed Python package by the metadata that pip wrote."""
    data = email.message_from_string((distribution / "METADATA").read_text())
    return {"name": data["Name"], "versionInfo": data["Version"], "supplier": "NOASSERTION",
            "downloadLocation": f"https://pypi.org/project/{data['Name']}/{data['Version']}/",
            "licenseDeclared": SPDX.get(data["License-Expression"] or data["License"], "NOASSERTION")}


def project(path, checksum):
    version = re.search(r"project\(trainctl VERSION ([0-9.]+)", (ROOT / "CMakeLists.txt").read_text())[1]
    return {"name": "trainctl", "versionInfo": version, "packageFileName": path.name, "supplier": "Organization: the trainctl maintainers",
            "downloadLocation": "NOASSERTION", "checksums": [{"algorithm": "SHA256", "checksumValue": checksum}], "licenseDeclared": "Apache-2.0"}


def described(build, path):
    """Returns the SPDX document of a package."""
    checksum = sha256(path.read_bytes())
    created = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(int(os.environ.get("SOURCE_DATE_EPOCH", time.time()))))
    document = {"spdxVersion": "SPDX-2.3", "dataLicense": "CC0-1.0", "SPDXID": "SPDXRef-DOCUMENT", "name": path.name,
                "documentNamespace": f"https://spdx.org/spdxdocs/{path.name}-{checksum}",
                "creationInfo": {"created": created, "creators": ["Organization: the trainctl maintainers", "Tool: packaging/sbom.py"]},
                "packages": [], "relationships": [], "hasExtractedLicensingInfos": []}

    def add(package, kind, other="SPDXRef-trainctl"):
        file = package["name"] if kind in ("DESCRIBES", "DEPENDS_ON") else package["packageFileName"]
        identifier = "SPDXRef-" + re.sub(r"[^A-Za-z0-9.-]", "-", file)
        document["packages"].append({"SPDXID": identifier, "filesAnalyzed": False, "licenseConcluded": "NOASSERTION",
                                     "copyrightText": "NOASSERTION", **package})
        document["relationships"].append({"spdxElementId": other, "relationshipType": kind, "relatedSpdxElement": identifier})

    add(project(path, checksum), "DESCRIBES", "SPDXRef-DOCUMENT")
    for file, there, sum_of_file in sorted(carried(path)):
        add(library(file, there, sum_of_file, document), "CONTAINS")
    for file in debian.linked(build):
        add(library(pathlib.Path(file).name, file, sha256(pathlib.Path(file).read_bytes()), document), "STATIC_LINK")
    for distribution in sorted((*(ROOT / ".deps").glob("torch-*.dist-info"), *(ROOT / ".arrow").glob("pyarrow-*.dist-info"))):
        add(python_package(distribution), "DEPENDS_ON")
    if not document["hasExtractedLicensingInfos"]:
        del document["hasExtractedLicensingInfos"]
    return document


def main():
    if len(sys.argv) != 4:
        sys.exit(__doc__)
    build, package, out = map(pathlib.Path, sys.argv[1:])
    out.write_text(json.dumps(described(build, package), indent=2) + "\n")


if __name__ == "__main__":
    main()
