"""Checks the wheel, the archive and the Debian package that the dry run of a release (release_test.py) has made of this build: their
contents, the man pages, the licenses, the SBOMs, and that a second package of the build is identical. TRAINCTL_LONG=1 also installs the
Debian package into a new Debian 12, tries the archive on Ubuntu 24.04, and builds the container. Needs TRAINCTL_BINARY, TRAINCTL_BUILD,
.package-venv and .release-venv (scripts/setup --checks)."""

import gzip
import io
import json
import os
import pathlib
import re
import shutil
import subprocess
import tarfile
import tempfile
import time
import unittest
import urllib.request
import zipfile

from support import SOURCE, Front, main

BUILD = pathlib.Path(os.environ["TRAINCTL_BUILD"])
MADE = BUILD / "packages"  # `smoke release: DryRun` packs each kind once for all tests, because that takes most of their time
EPOCH = 1_700_000_000      # the time of the files in these packages
TORCH = SOURCE / ".deps"
KINDS = {"wheel": "*.whl", "archive": "*.tar.gz", "deb": "*.deb"}
TOOLS = SOURCE / ".release-venv/bin"
FEW = ["dataset.train.samples=500", "dataset.val.samples=100", "trainer.max_epochs=1", "+trainer.accelerator=cpu"]
COMPLETIONS = ("bash-completion/completions/trainctl", "fish/vendor_completions.d/trainctl.fish")
LONG = unittest.skipUnless(os.environ.get("TRAINCTL_LONG") == "1", "TRAINCTL_LONG=1 is not set")
PACKED = unittest.skipUnless((SOURCE / ".package-venv").exists() and shutil.which("git"), "no .package-venv (scripts/setup --checks), or no git")


def done(*words, **options):
    """Returns the output of a command, which has to succeed."""
    ended = subprocess.run([str(word) for word in words], stdin=subprocess.DEVNULL, capture_output=True, text=True, **options)
    if ended.returncode != 0:
        raise AssertionError(f"{words}: {ended.stdout}{ended.stderr}")
    return ended.stdout


def made(kind):
    """Returns the package of this kind, which the tests of packages share."""
    found = list(MADE.glob(KINDS[kind]))
    assert len(found) == 1, f"{MADE} must contain one {KINDS[kind]}, got {len(found)}: 'smoke release: DryRun' makes it"
    return found[0]


def scratch_of(test_class):
    place = tempfile.TemporaryDirectory(prefix="trainctl-package-")
    test_class.addClassCleanup(place.cleanup)
    return pathlib.Path(place.name)


class Packed(Front):
    """Unpacks one kind of package for all tests of the class."""

    KIND = ""

    @classmethod
    def setUpClass(cls):
        cls.package = made(cls.KIND)
        cls.root = scratch_of(cls) / "root"
        cls.root.mkdir()
        cls.unpack()

    def sbom(self):
        """Returns the SBOM of the package, after another program has validated it."""
        file = self.package.with_name(self.package.name + ".spdx.json")
        if (TOOLS / "pyspdxtools").exists():
            done(TOOLS / "pyspdxtools", "--infile", file)
        return json.loads(file.read_text())

    def check_sbom(self, carried, licenses):
        """Checks that the SBOM lists every carried library, and that the license of each library is in the package."""
        document = self.sbom()
        kinds = {one["relatedSpdxElement"]: one["relationshipType"] for one in document["relationships"]}
        by_kind = {}
        for package in document["packages"]:
            by_kind.setdefault(kinds[package["SPDXID"]], []).append(package)
        self.assertEqual(len(by_kind.get("CONTAINS", [])), len(carried))
        self.assertLessEqual({"openssl", "protobuf", "cli11", "nlohmann-json3"}, {one["name"] for one in by_kind["STATIC_LINK"]})
        self.assertIn("torch", [one["name"] for one in by_kind["DEPENDS_ON"]])
        texts = {path.stem for path in licenses.glob("*.txt")}
        for one in by_kind.get("CONTAINS", []) + by_kind["STATIC_LINK"]:
            self.assertTrue(one["versionInfo"] and one["supplier"] and one["checksums"] and one["licenseDeclared"], one)
            name = re.search(r"pkg:deb/\w+/([^@]+)@", one["externalRefs"][0]["referenceLocator"])[1]
            self.assertIn(name, texts)
        self.assertIn("Apache License", (licenses / "libssl-dev.txt").read_text())


@PACKED
class DebianPackage(Packed):
    KIND = "deb"

    @classmethod
    def unpack(cls):
        done("dpkg-deb", "-x", cls.package, cls.root)

    def test_the_control_fields(self):
        text = done("dpkg-deb", "-f", self.package)
        version = re.search(r"project\(trainctl VERSION ([0-9.]+)", (SOURCE / "CMakeLists.txt").read_text())[1]
        self.assert_has(text, "Package: trainctl\n", f"Version: {version}-1\n", "Architecture: amd64\n", "Section: science\n",
                        "pip install --target /opt/trainctl torch==2.11.*", "TRAINCTL_TORCH_ROOT")
        depends = re.search("^Depends: (.*)$", text, re.M)[1]
        self.assert_has(depends, "libc6 (>= ", "libstdc++6 (>= ", "libyaml-cpp", "libjpeg", "libsqlite3-0")
        self.assertNotRegex(depends, "torch|nvidia|opencv|arrow")
        self.assertRegex(text, "Recommends: .*libcurl4")

    def test_the_files(self):
        files = {str(path.relative_to(self.root)) for path in self.root.rglob("*") if not path.is_dir()}
        share = "usr/share/"
        self.assertLessEqual({"usr/bin/trainctl", "usr/lib/trainctl/bin/trainctl", "usr/lib/trainctl/lib/libtrainctl_engine.so",
                              share + "trainctl/schema.json", share + "trainctl/configs/quickstart.yaml",
                              share + "zsh/vendor-completions/_trainctl", *(share + name for name in COMPLETIONS),
                              *(share + f"doc/trainctl/{name}" for name in ("README.Debian", "copyright", "changelog.gz"))}, files)
        self.assertEqual([name for name in files if not name.startswith(("usr/bin/", "usr/lib/trainctl/", share))], [])
        self.assertEqual(json.loads((self.root / share / "trainctl/schema.json").read_text()),
                         json.loads((SOURCE / "configs/schema.json").read_text()))

    def test_no_folder_of_this_machine_is_in_a_run_path(self):
        for library in (self.root / "usr/lib/trainctl").rglob("*trainctl*"):
            if library.is_file():
                paths = re.findall(r"R(?:UN)?PATH\).*\[(.*)\]", done("readelf", "-d", library))
                folders = ":".join(paths).split(":") if paths else []
                self.assertEqual([one for one in folders if not one.startswith(("$ORIGIN", "/opt/trainctl/"))], [], library)

    def test_every_command_has_a_man_page(self):
        pages = sorted((self.root / "usr/share/man/man1").glob("*.1.gz"))
        names = {page.name.removesuffix(".1.gz") for page in pages}
        verbs = re.findall(r"^  ([a-z][a-z-]*)  +\S", self.program("--help", code=0).out.partition("Global options")[0], re.M)
        self.assertGreater(len(verbs), 15)
        self.assertEqual({"trainctl", *(f"trainctl-{verb}" for verb in verbs)} - names, set())
        self.assertIn("trainctl-checkpoint-export", names)
        if not shutil.which("mandoc"):
            self.skipTest("mandoc is not installed: scripts/setup --checks")
        for page in pages:
            (self.folder / page.stem).write_bytes(gzip.decompress(page.read_bytes()))
        self.assertEqual(done("mandoc", "-Tlint", "-W", "warning", *self.folder.glob("*.1")), "")
        text = re.sub(r".\x08", "", done("mandoc", "-Tascii", "-O", "width=200", self.folder / "trainctl-run.1"))
        self.assert_has(text, "trainctl-run - train a model and write a run folder", "--max-restarts N", "trainctl(1)")

    def test_owners_times_and_order_of_the_files_do_not_depend_on_the_machine(self):
        tar = subprocess.run(["dpkg-deb", "--fsys-tarfile", self.package], capture_output=True, check=True).stdout
        with tarfile.open(fileobj=io.BytesIO(tar)) as files:
            members = files.getmembers()
        self.assertEqual({(one.uid, one.gid, one.mtime) for one in members}, {(0, 0, EPOCH)})
        self.assertEqual([one.name for one in members], sorted(one.name for one in members))

    def test_the_program_starts(self):
        self.assertRegex(done(self.root / "usr/lib/trainctl/bin/trainctl", "version"), r"^trainctl [0-9.]+ ")

    def test_licenses_and_sbom(self):
        self.check_sbom([], self.root / "usr/share/doc/trainctl/licenses")


@PACKED
class Archive(Packed):
    KIND = "archive"

    @classmethod
    def unpack(cls):
        with tarfile.open(cls.package) as archive:
            cls.members = archive.getmembers()
        done("tar", "-C", cls.root, "-xzf", cls.package)
        [cls.top] = cls.root.iterdir()

    def test_the_libraries_are_carried_except_those_of_the_system_and_torch(self):
        names = {path.name for path in (self.top / "lib").glob("*.so*")}
        self.assertTrue(any(name.startswith("libyaml-cpp.so") for name in names), names)
        self.assertEqual([name for name in names if re.match(r"lib(c|m|stdc\+\+|torch|c10|cud)\w*\.so", name)], [])
        self.assertEqual([one.name for one in self.members], sorted(one.name for one in self.members))
        self.assertEqual({(one.uid, one.gid, one.mtime) for one in self.members}, {(0, 0, self.members[0].mtime)})

    def test_schema_completions_and_man_pages(self):
        for name in ("trainctl/schema.json", "trainctl/configs/schema.json", "man/man1/trainctl-run.1", *COMPLETIONS):
            self.assertTrue((self.top / "share" / name).is_file(), name)

    @unittest.skipUnless(TORCH.exists(), "no .deps: scripts/setup makes it")
    def test_it_trains(self):
        environment = {"PATH": os.environ["PATH"], "HOME": str(self.folder), "TRAINCTL_TORCH_ROOT": str((TORCH / "torch").resolve())}
        done(self.top / "bin/trainctl", "run", *FEW, "--run-dir", "run", cwd=self.folder, env=environment, timeout=300)
        self.assertEqual(json.loads((self.folder / "run/result.json").read_text())["verdict"], "ok")

    def test_licenses_and_sbom(self):
        carried = [one for one in (self.top / "lib").glob("*.so*") if not one.is_symlink() and not one.name.startswith("libtrainctl_")]
        self.check_sbom(carried, self.top / "share/doc/trainctl/licenses")


@PACKED
class Wheel(Packed):
    KIND = "wheel"

    @classmethod
    def unpack(cls):
        with zipfile.ZipFile(cls.package) as wheel:
            cls.times = {one.date_time for one in wheel.infolist()}
            wheel.extractall(cls.root)

    def test_the_files_have_the_time_of_the_commit(self):
        self.assertEqual(self.times, {time.gmtime(EPOCH)[:6]})

    def test_schema_licenses_and_sbom(self):
        self.assertTrue((self.root / "trainctl/share/trainctl/schema.json").is_file())
        self.check_sbom(list((self.root / "trainctl.libs").glob("*.so*")), self.root / "trainctl/share/doc/trainctl/licenses")


@PACKED
class SecondPackage(Front):
    """Packs the build again: all kinds with TRAINCTL_LONG=1, else one, because each takes up to half a minute."""

    def test_it_has_the_bytes_of_the_first(self):
        for kind in KINDS if os.environ.get("TRAINCTL_LONG") == "1" else ("archive",):
            done(SOURCE / "scripts/package", kind, "--build", BUILD, "--out", self.folder, env={**os.environ, "SOURCE_DATE_EPOCH": str(EPOCH)})
            first = made(kind)
            self.assertTrue((self.folder / first.name).read_bytes() == first.read_bytes(), f"two packages of one build differ: {first.name}")


class System(Front):
    """Makes the root folder of another system with debootstrap. Debian has no keys of Ubuntu, so debootstrap does not check those packages'
    signatures."""

    SUITE, MIRROR, SCRIPT = "", "", ""

    @classmethod
    def setUpClass(cls):
        if os.geteuid() != 0 or not shutil.which("debootstrap"):
            raise unittest.SkipTest("needs root and debootstrap (scripts/setup --checks)")
        try:
            urllib.request.urlopen(f"{cls.MIRROR}/dists/{cls.SUITE}/Release", timeout=20).close()
        except OSError as error:
            raise unittest.SkipTest(f"cannot reach {cls.MIRROR}: {error}")
        cls.place = scratch_of(cls)
        cls.root = cls.place / "root"
        done("debootstrap", "--variant=minbase", cls.SUITE, cls.root, cls.MIRROR, *([cls.SCRIPT] if cls.SCRIPT else []))

    def inside(self, *words, **variables):
        """Runs a command in the system, with torch at /opt/trainctl. The mounts end with the command."""
        mounts = 'mount --bind /proc "$0/proc"; mount --bind /dev "$0/dev"; mkdir -p "$0/opt/trainctl"; mount --bind "$1" "$0/opt/trainctl"; '
        environment = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/tmp", "LC_ALL": "C.UTF-8", **variables}
        return done("unshare", "--mount", "sh", "-ec", mounts + 'root=$0; shift; exec chroot "$root" "$@"', self.root, TORCH.resolve(),
                    *words, env={**os.environ, **environment}, timeout=900)


@LONG
@PACKED
class OnDebian(System):
    SUITE, MIRROR = "bookworm", "http://deb.debian.org/debian"

    def test_the_package_is_installed_trains_and_is_removed(self):
        package = shutil.copy(made("deb"), self.root / "tmp")
        apt = {"DEBIAN_FRONTEND": "noninteractive"}
        self.inside("apt-get", "install", "-qy", "--no-install-recommends", f"/tmp/{package.name}", **apt)
        package.unlink()
        self.assertRegex(self.inside("trainctl", "doctor"), r"ok +libtorch +2\.11\.\S+ in /opt/trainctl/torch")
        out = self.inside("trainctl", "run", *FEW, "--run-dir", "/tmp/run")
        self.assertEqual(json.loads((self.root / "tmp/run/result.json").read_text())["verdict"], "ok", out)
        self.inside("apt-get", "purge", "-qy", "trainctl", **apt)
        left = [path for path in self.root.rglob("*trainctl*") if not path.is_relative_to(self.root / "tmp")]
        self.assertEqual([str(path) for path in left if path != self.root / "opt/trainctl"], [])


@LONG
@PACKED
class OnUbuntu(System):
    SUITE, MIRROR, SCRIPT = "noble", "http://archive.ubuntu.com/ubuntu", "/usr/share/debootstrap/scripts/jammy"

    def test_the_archive_trains(self):
        done("tar", "-C", self.root / "opt", "-xzf", made("archive"))
        [top] = (self.root / "opt").glob("trainctl-*")
        self.inside(f"/opt/{top.name}/bin/trainctl", "run", *FEW, "--run-dir", "/tmp/run", TRAINCTL_TORCH_ROOT="/opt/trainctl/torch")
        self.assertEqual(json.loads((self.root / "tmp/run/result.json").read_text())["verdict"], "ok")


class Containers(unittest.TestCase):
    @unittest.skipUnless((TOOLS / "hadolint").exists(), "no .release-venv: scripts/setup --checks makes one")
    def test_the_container_file_passes_hadolint(self):
        self.assertEqual(done(TOOLS / "hadolint", "--no-color", SOURCE / "Containerfile"), "")


@LONG
class BuiltContainer(unittest.TestCase):
    def test_the_container_is_built_and_trains(self):
        engine = next((name for name in ("podman", "docker") if shutil.which(name)
                       and subprocess.run([name, "info"], capture_output=True).returncode == 0), None)
        if engine is None:
            self.skipTest("neither podman nor docker works on this machine")
        done(engine, "build", "--file", SOURCE / "Containerfile", "--tag", "trainctl-test", SOURCE)
        self.addCleanup(subprocess.run, [engine, "rmi", "trainctl-test"], capture_output=True)
        done(engine, "run", "--rm", "trainctl-test", "run", *FEW, "--run-dir", "/tmp/run")


if __name__ == "__main__":
    main()
