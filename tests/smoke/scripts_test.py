#!/usr/bin/env python3
"""Tests the scripts that a person runs, on a fake machine: a PATH with fake apt-get, sudo, dpkg-query, pip and curl."""

import gzip
import os
import shutil
import stat
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
REAL = ["bash", "sh", "env", "basename", "dirname", "readlink", "sha256sum", "md5sum", "cut", "df", "tail", "flock", "mkdir", "rm", "mv",
        "ln", "grep", "gzip", "cp", "cat", "id", "awk", "nproc", "sed", "head", "chmod", "mktemp"]


class Machine:
    """Holds a checkout's scripts, and a PATH with the named real programs and the fakes of the test."""

    def __init__(self):
        self.folder = Path(tempfile.mkdtemp(prefix="trainctl-scripts-"))
        self.bin = self.folder / "bin"
        self.checkout = self.folder / "checkout"
        self.bin.mkdir()
        for name in REAL:
            os.symlink(shutil.which(name), self.bin / name)
        shutil.copytree(ROOT / "scripts", self.checkout / "scripts")
        shutil.copytree(ROOT / "third_party", self.checkout / "third_party")
        (self.checkout / "tests").mkdir()
        shutil.copy(ROOT / "tests/torchrun-requirements.txt", self.checkout / "tests")
        self.log = self.folder / "log"
        self.log.write_text("")
        self.fake("dpkg-query", "echo installed")
        self.fake("python3", "exit 1")
        self.fake("id", "echo 0")

    def fake(self, name, body):
        path = self.bin / name
        path.unlink(missing_ok=True)
        path.write_text(f'#!/bin/sh\necho "{name} $*" >> {self.log}\n{body}\n')
        path.chmod(path.stat().st_mode | stat.S_IXUSR)

    def run(self, script, *arguments, **environment):
        variables = {"PATH": str(self.bin), "HOME": str(self.folder / "home"), **environment}
        variables = {name: value for name, value in variables.items() if value is not None}
        return subprocess.run([str(self.checkout / "scripts" / script), *arguments], env=variables, capture_output=True, text=True)

    def calls(self):
        return self.log.read_text()

    def torch_site(self, name, version="2.11.0"):
        site = self.folder / name
        (site / "torch/lib").mkdir(parents=True)
        (site / "torch/include/ATen/core").mkdir(parents=True)
        (site / "torch/version.py").write_text(f"__version__ = '{version}'\n")
        (site / "torch/lib/libtorch_cpu.so").write_text("")
        (site / "torch/include/ATen/core/Tensor.h").write_text("")
        return site


class ScriptCase(unittest.TestCase):
    def setUp(self):
        self.machine = Machine()
        self.addCleanup(shutil.rmtree, self.machine.folder)


class Setup(ScriptCase):
    def test_a_complete_machine_installs_nothing_and_says_nothing(self):
        ended = self.machine.run("setup", "--no-torch")
        self.assertEqual((ended.returncode, ended.stderr), (0, ""))
        self.assertNotIn("apt-get", self.machine.calls())

    def test_missing_packages_are_named_and_installed_with_patience_for_apts_lock(self):
        self.machine.fake("dpkg-query", 'case "$*" in *yaml-cpp*) exit 1 ;; *) echo installed ;; esac')
        self.machine.fake("apt-get", "exit 0")
        ended = self.machine.run("setup", "--no-torch")
        self.assertEqual(ended.returncode, 0, ended.stderr)
        self.assertIn("installing with apt: libyaml-cpp-dev\n", ended.stderr)
        install = [line for line in self.machine.calls().splitlines() if " install " in line]
        self.assertEqual(len(install), 1)
        self.assertIn("DPkg::Lock::Timeout=600", install[0])

    def test_an_apt_that_fails_ends_with_one_sentence(self):
        self.machine.fake("dpkg-query", "exit 1")
        self.machine.fake("apt-get", "exit 100")
        ended = self.machine.run("setup", "--no-torch")
        self.assertEqual(ended.returncode, 1)
        self.assertIn("setup: error: apt could not install", ended.stderr)

    def test_without_root_and_sudo_the_command_to_run_is_printed(self):
        self.machine.fake("dpkg-query", "exit 1")
        self.machine.fake("id", "echo 1000")
        ended = self.machine.run("setup", "--no-torch")
        self.assertEqual(ended.returncode, 1)
        self.assertIn("run as root 'apt-get install ", ended.stderr)

    def test_with_sudo_apt_runs_through_it(self):
        self.machine.fake("dpkg-query", "exit 1")
        self.machine.fake("id", "echo 1000")
        self.machine.fake("sudo", '"$@"')
        self.machine.fake("apt-get", "exit 0")
        ended = self.machine.run("setup", "--no-torch")
        self.assertEqual(ended.returncode, 0, ended.stderr)
        self.assertIn("sudo env DEBIAN_FRONTEND=noninteractive apt-get", self.machine.calls())

    def test_torch_comes_from_the_environment_and_a_second_run_is_silent(self):
        site = self.machine.torch_site("site")
        for expected in (f"setup: libtorch 2.11: .deps -> {site}\n", ""):
            ended = self.machine.run("setup", TRAINCTL_TORCH_ROOT=str(site / "torch"))
            self.assertEqual((ended.returncode, ended.stderr), (0, expected))
        self.assertEqual(os.readlink(self.machine.checkout / ".deps"), str(site))

    def test_a_torch_of_another_version_is_refused(self):
        site = self.machine.torch_site("site", version="2.10.1")
        ended = self.machine.run("setup", TRAINCTL_TORCH_ROOT=str(site / "torch"))
        self.assertEqual(ended.returncode, 1)
        self.assertIn("not the 'torch' folder of a site-packages with torch 2.11", ended.stderr)

    def test_a_python_with_torch_is_used_before_anything_is_downloaded(self):
        site = self.machine.torch_site("python")
        self.machine.fake("python3", f"echo {site}")
        ended = self.machine.run("setup")
        self.assertEqual(ended.returncode, 0, ended.stderr)
        self.assertEqual(os.readlink(self.machine.checkout / ".deps"), str(site))

    def test_no_packages_means_no_apt_even_where_pip_is_missing(self):
        self.machine.fake("apt-get", "exit 0")
        if subprocess.run(["/usr/bin/python3", "-m", "pip", "--version"], capture_output=True).returncode == 0:
            self.skipTest("this machine's own python has pip, which setup would use")
        ended = self.machine.run("setup", "--no-packages")
        self.assertEqual(ended.returncode, 1)
        self.assertIn("python3 has no pip", ended.stderr)
        self.assertNotIn("apt-get", self.machine.calls())

    def test_arrow_comes_once_from_the_pinned_list(self):
        self.machine.fake("python3", 'case "$*" in *install*) while [ "$1" != --target ]; do shift; done; '
                          'mkdir -p "$2/pyarrow" ;; esac')
        for expected in ("Arrow: .arrow -> ", ""):
            ended = self.machine.run("setup", "--no-torch", "--arrow")
            self.assertEqual(ended.returncode, 0, ended.stderr)
            self.assertIn(expected, ended.stderr)
        self.assertEqual(ended.stderr, "")
        self.assertTrue((self.machine.checkout / ".arrow/pyarrow").is_dir())
        installs = [line for line in self.machine.calls().splitlines() if "pip install" in line]
        self.assertEqual(len(installs), 1)
        self.assertIn("-r third_party/arrow-requirements.txt", installs[0])

    def test_a_failed_arrow_download_ends_with_one_sentence_and_leaves_no_link(self):
        self.machine.fake("python3", 'case "$*" in *install*) exit 1 ;; esac')
        ended = self.machine.run("setup", "--no-torch", "--arrow")
        self.assertEqual(ended.returncode, 1)
        self.assertIn("setup: error: pip could not install third_party/arrow-requirements.txt", ended.stderr)
        self.assertFalse((self.machine.checkout / ".arrow").exists())

    # Makes a venv whose python accepts any command and whose pip installs every package except those in `lost`.
    PYTHON = """case "$*" in
      *"-m venv"*) for last; do :; done; mkdir -p "$last/bin"
        printf '#!/bin/sh\\ncase "$*" in *sysconfig*) echo "${0%%%%/bin/*}/site" ;; *--help*) exit %d ;; *) echo "$@" ;; esac\\n' > "$last/bin/python"
        chmod +x "$last/bin/python" ;;
      *install*) case "$*" in *%s*) exit 1 ;; esac; while [ "$1" != --target ]; do shift; done; mkdir -p "$2" ;;
    esac"""

    def checks(self, starts=0, lost="nothing"):
        site = self.machine.torch_site("site")
        (site / "torch/distributed").mkdir()
        (site / "torch/distributed/run.py").write_text("")
        self.machine.fake("python3", self.PYTHON % (starts, lost))
        return lambda: self.machine.run("setup", "--no-packages", "--checks", TRAINCTL_TORCH_ROOT=str(site / "torch"))

    def test_torchrun_is_made_once_of_the_torch_that_is_there(self):
        setup = self.checks()
        ended = setup()
        self.assertEqual(ended.returncode, 0, ended.stderr)
        self.assertIn("torchrun: .torchrun -> ", ended.stderr)
        made = self.machine.checkout / ".torchrun"
        self.assertEqual((made / "site/torch.pth").read_text(), f"{self.machine.folder}/site\n")
        started = subprocess.run([str(made / "bin/torchrun"), "--nnodes", "1"], capture_output=True, text=True)
        self.assertEqual(started.stdout, "-I -m torch.distributed.run --nnodes 1\n")
        self.machine.fake("python3", "exit 1")  # neither the network nor pip works
        ended = setup()
        self.assertEqual((ended.returncode, ended.stderr), (0, ""))

    def test_a_missing_or_broken_torchrun_is_reported_and_stops_nothing(self):
        setup = self.checks(lost="torchrun-requirements")
        ended = setup()
        self.assertEqual(ended.returncode, 0, ended.stderr)
        self.assertIn("its tests will be skipped", ended.stderr)
        self.machine.fake("python3", self.PYTHON % (1, "nothing"))
        self.assertIn("its tests will be skipped", setup().stderr)
        self.assertFalse((self.machine.checkout / ".torchrun").exists())
        self.assertEqual(list((self.machine.folder / "home/.cache/trainctl").glob("torchrun-*")), [])

    def test_a_download_unpacks_on_the_disk_that_was_measured_and_leaves_no_half_folder(self):
        self.machine.fake("python3", 'case "$*" in *--version*) exit 0 ;; *install*) echo "TMPDIR=$TMPDIR" >> '
                          + str(self.machine.log) + " ; exit 1 ;; *) exit 1 ;; esac")
        self.machine.fake("df", 'echo Avail; echo 100')
        ended = self.machine.run("setup", "--no-packages")
        self.assertEqual(ended.returncode, 1)
        self.assertIn("pip could not install", ended.stderr)
        cache = self.machine.folder / "home/.cache/trainctl"
        self.assertIn(f"TMPDIR={cache}/torch-", self.machine.calls())
        self.assertFalse((self.machine.checkout / ".deps").exists())

    def test_too_little_disk_space_is_reported_before_the_download(self):
        self.machine.fake("python3", 'case "$*" in *--version*) exit 0 ;; *) exit 1 ;; esac')
        self.machine.fake("df", 'echo Avail; echo 2')
        ended = self.machine.run("setup", "--no-packages")
        self.assertEqual(ended.returncode, 1)
        self.assertIn("libtorch needs 6 GB", ended.stderr)

    def test_a_missing_home_is_reported(self):
        ended = self.machine.run("setup", "--no-packages", HOME=None)
        self.assertEqual(ended.returncode, 1)
        self.assertIn("neither HOME nor XDG_CACHE_HOME is set", ended.stderr)

    def test_an_unknown_argument_prints_the_usage(self):
        ended = self.machine.run("setup", "--quick")
        self.assertEqual(ended.returncode, 1)
        self.assertIn("unknown argument '--quick'; usage: scripts/setup", ended.stderr)


class Package(ScriptCase):
    def test_invalid_arguments_print_the_usage(self):
        for arguments, cause in (([], "cannot build ''"), (["zip"], "cannot build 'zip'"), (["wheel", "--out"], "--out needs a value"),
                                 (["archive", "--fast", "yes"], "unknown argument '--fast'")):
            ended = self.machine.run("package", *arguments)
            self.assertEqual(ended.returncode, 1)
            self.assertIn(f"package: error: {cause}; usage: scripts/package wheel|archive", ended.stderr)

    def test_a_wheel_without_its_tools_says_how_to_install_them(self):
        ended = self.machine.run("package", "wheel", "--build", "build/ci")
        self.assertEqual(ended.returncode, 1)
        self.assertIn("there is no .package-venv: run scripts/setup --package", ended.stderr)


class Help(ScriptCase):
    def test_help_prints_the_comment_at_the_start_and_does_nothing(self):
        for script in sorted((ROOT / "scripts").iterdir()):
            if not script.is_file() or "common.sh" not in script.read_text() or script.name == "common.sh":
                continue
            ended = self.machine.run(script.name, "--help")
            self.assertEqual((ended.returncode, ended.stderr), (0, ""), script)
            self.assertIn(f"usage: scripts/{script.name}", ended.stdout)
        self.assertEqual(self.machine.calls(), "")


class FetchData(ScriptCase):
    NAMES = ["train-images-idx3-ubyte.gz", "train-labels-idx1-ubyte.gz", "t10k-images-idx3-ubyte.gz", "t10k-labels-idx1-ubyte.gz"]

    def test_a_damaged_copy_is_refused_and_nothing_lies_under_the_final_name(self):
        source = self.machine.folder / "copies"
        source.mkdir()
        for name in self.NAMES:
            (source / name).write_bytes(gzip.compress(b"no digits"))
        target = self.machine.folder / "mnist"
        ended = self.machine.run("fetch-data", "mnist", "--from", str(source), "--to", str(target))
        self.assertEqual(ended.returncode, 1)
        self.assertIn("is missing or damaged: its checksum is not that of the original", ended.stderr)
        self.assertEqual([path.name for path in target.iterdir() if not path.name.startswith(".")], [])

    def test_a_damaged_mirror_is_left_for_the_next_and_the_end_says_what_to_do(self):
        self.machine.fake("curl", 'while [ "$1" != --output ]; do shift; done; echo broken > "$2"')
        ended = self.machine.run("fetch-data", "mnist", "--to", str(self.machine.folder / "mnist"))
        self.assertEqual(ended.returncode, 1)
        self.assertEqual(ended.stderr.count("is damaged (wrong checksum)"), 2)
        self.assertIn("run this with --from FOLDER", ended.stderr)

    def test_a_full_disk_is_not_called_a_network_fault(self):
        self.machine.fake("curl", "exit 23")
        ended = self.machine.run("fetch-data", "mnist", "--to", str(self.machine.folder / "mnist"))
        self.assertEqual(ended.returncode, 1)
        self.assertIn("check the folder's rights and the free space", ended.stderr)

    def test_real_mnist_is_taken_from_a_folder_and_left_alone_the_second_time(self):
        data = os.environ.get("TRAINCTL_DATA")
        if not data or not (Path(data) / "mnist" / self.NAMES[0]).exists():
            self.skipTest("TRAINCTL_DATA is not set: real MNIST is not here")
        target = self.machine.folder / "mnist"
        arguments = ("mnist", "--from", str(Path(data) / "mnist"), "--to", str(target))
        self.assertEqual(self.machine.run("fetch-data", *arguments).returncode, 0)
        before = {path: path.stat().st_mtime_ns for path in target.glob("*.gz")}
        self.assertEqual(len(before), 4)
        self.assertEqual(self.machine.run("fetch-data", *arguments).returncode, 0)
        self.assertEqual(before, {path: path.stat().st_mtime_ns for path in target.glob("*.gz")})


class Fuzz(unittest.TestCase):
    def fuzz(self, *arguments):
        return subprocess.run([str(ROOT / "scripts/fuzz"), *arguments], capture_output=True, text=True)

    def test_every_target_is_listed_with_what_it_does_and_has_seeds(self):
        listed = dict(line.split(maxsplit=1) for line in self.fuzz("--list").stdout.splitlines())
        targets = {path.name.removesuffix("_fuzz.cpp") for path in (ROOT / "tests/fuzz").glob("*_fuzz.cpp")}
        self.assertTrue(targets)
        self.assertEqual(set(listed), targets)
        for target in targets:
            self.assertTrue(list((ROOT / "tests/fuzz/seeds" / target).iterdir()), target)

    def test_invalid_targets_and_times_are_refused_before_the_build(self):
        for arguments, words in ((["nothing"], "no target 'nothing'"), (["--seconds", "x"], "--seconds is 'x'")):
            done = self.fuzz(*arguments)
            self.assertNotEqual(done.returncode, 0)
            self.assertIn(words, done.stderr)


@unittest.skipUnless(shutil.which("ccache") and shutil.which("g++"), "no ccache or no g++ here")
class CompilerCache(unittest.TestCase):
    """cmake/ccache.sh, with which CMake starts the compiler."""

    def test_a_precompiled_header_is_made_of_the_headers_of_today(self):
        with tempfile.TemporaryDirectory(prefix="trainctl-ccache-") as name:
            folder = Path(name)
            (folder / "pch.hxx").write_text('#include "value.hpp"\n')
            (folder / "pch.hxx.cxx").write_text("")
            output = folder / "pch.hxx.gch"
            command = [ROOT / "cmake/ccache.sh", folder, shutil.which("ccache"), "g++", "-x", "c++-header", "-include", folder / "pch.hxx",
                       "-o", output, "-c", folder / "pch.hxx.cxx"]

            def compiled(member):
                (folder / "value.hpp").write_text(f"struct Value {{ int {member}; }};\n")
                subprocess.run(command, check=True, env={**os.environ, "CCACHE_DIR": str(folder / "cache")})
                return output.read_bytes()

            first = compiled("old_member")
            compiled("old_member")
            output.write_bytes(first)  # as after a change of branch and back
            self.assertIn(b"new_member", compiled("new_member"))


if __name__ == "__main__":
    sys.exit(0 if unittest.main(exit=False).result.wasSuccessful() else 1)
