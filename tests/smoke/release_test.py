"""Checks what a release consists of: one version, `scripts/release --dry-run`, the workflows and templates of GitHub, and CITATION.cff.
Needs TRAINCTL_BINARY, TRAINCTL_BUILD, .package-venv and .release-venv (scripts/setup --checks)."""

import hashlib
import os
import re
import shutil
import subprocess
import unittest

from package_test import BUILD, EPOCH, KINDS, MADE, PACKED, made
from support import SOURCE, Front, main

TOOLS = SOURCE / ".release-venv/bin"
FILES = ("CHANGELOG.md", "CITATION.cff", "CMakeLists.txt", "LICENSE", "README.md", "pyproject.toml", "packaging", "python", "scripts",
         "third_party")
LINKS = (".package-venv", ".deps", ".arrow")


def version():
    return re.search(r"project\(trainctl VERSION ([0-9.]+)", (SOURCE / "CMakeLists.txt").read_text())[1]


class Version(Front):
    def test_every_file_takes_the_version_of_cmakelists(self):
        self.assertRegex(self.program("version", code=0).out, rf"^trainctl {re.escape(version())} ")
        self.assertIn(f"\nversion: {version()}\n", (SOURCE / "CITATION.cff").read_text())
        project = (SOURCE / "pyproject.toml").read_text()
        self.assertIn('dynamic = ["version"]', project)
        self.assertIn('input = "CMakeLists.txt"', project)
        python = "".join(path.read_text() for path in (SOURCE / "python").rglob("*.py"))
        self.assertNotRegex(project + python, r'(?m)^(__version__|version) *= *"')


class ReleaseTree(Front):
    """Runs scripts/release in a repository with the files of a release."""

    def setUp(self):
        super().setUp()
        if not shutil.which("git"):
            self.skipTest("git is not installed")
        self.tree = self.folder / "tree"
        self.tree.mkdir()
        for name in FILES:
            source = SOURCE / name
            (shutil.copytree if source.is_dir() else shutil.copy)(source, self.tree / name)
        log = self.tree / "CHANGELOG.md"
        log.write_text(log.read_text().replace("## Unreleased", f"## Unreleased\n\n## {version()} (2030-01-31)"))
        (self.tree / ".gitignore").write_text("".join(f"/{name}\n" for name in LINKS) + "/made\n__pycache__\n")
        for name in LINKS:
            if (SOURCE / name).exists():
                (self.tree / name).symlink_to((SOURCE / name).resolve())
        self.git("init", "-q")
        self.commit()

    def git(self, *words):
        identity = ["-c", "user.name=a", "-c", "user.email=a@localhost", "-c", "commit.gpgsign=false"]
        return subprocess.run(["git", *identity, *words], cwd=self.tree, check=True, capture_output=True, text=True,
                              env={**os.environ, "GIT_COMMITTER_DATE": f"{EPOCH} +0000"}).stdout

    def commit(self):
        self.git("add", "-A")
        self.git("commit", "-q", "-m", "Release")

    def release(self, *words, code=0):
        done = subprocess.run(["scripts/release", *words], cwd=self.tree, capture_output=True, text=True)
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        return done.stdout + done.stderr


class Release(ReleaseTree):
    def test_without_dry_run_it_names_the_manual_steps(self):
        self.assert_has(self.release(code=1), "only --dry-run is automatic", f"git tag --sign v{version()}", "twine upload")
        self.assert_has(self.release("--now", code=1), "unknown argument '--now'; usage: scripts/release --dry-run")

    def test_a_tree_that_is_not_ready_is_refused_with_all_reasons(self):
        (self.tree / "CHANGELOG.md").write_text("# Changelog\n\n## Unreleased\n")
        citation = self.tree / "CITATION.cff"
        citation.write_text(citation.read_text().replace(f"version: {version()}", "version: 0.0.1"))
        self.git("tag", f"v{version()}")
        self.git("commit", "-q", "--allow-empty", "-m", "Another")
        self.assert_has(self.release("--dry-run", code=1), "the tree has changes that are not committed",
                        f"CHANGELOG.md must have the heading '## {version()} (YYYY-MM-DD)'",
                        f"the version in CITATION.cff must be {version()}", f"the tag v{version()} already exists")


@PACKED
class DryRun(ReleaseTree):
    """CTest runs this before the tests that need a package."""

    def test_a_dry_run_builds_packages_sboms_and_checksums(self):
        shutil.rmtree(MADE, ignore_errors=True)
        self.git("tag", f"v{version()}")  # as in the workflow that a tag starts
        out = self.release("--dry-run", "--build", BUILD, "--out", MADE)
        self.assert_has(out, "nothing was tagged or uploaded", f"would tag     v{version()} at {self.git('rev-parse', 'HEAD').strip()}\n")
        found = {path.name: path for path in MADE.iterdir()}
        packages = [made(kind).name for kind in KINDS]
        self.assertEqual(set(found), {*packages, *(f"{name}.spdx.json" for name in packages), "SHA256SUMS"})
        for line in found["SHA256SUMS"].read_text().splitlines():
            checksum, name = line.split("  ")
            self.assertEqual(checksum, hashlib.sha256(found.pop(name).read_bytes()).hexdigest())
            self.assertIn(f"would upload  {MADE}/{name}\n", out)
        self.assertEqual(list(found), ["SHA256SUMS"])
        self.assertEqual(self.git("tag"), f"v{version()}\n")
        self.assert_has(self.release("--dry-run", "--out", MADE, code=1), f"the folder {MADE} must be empty")


@unittest.skipUnless((TOOLS / "check-jsonschema").exists(), "no .release-venv: scripts/setup --checks makes one")
class GitHubFiles(Front):
    def check(self, schema, *files):
        self.assertTrue(files)
        done = subprocess.run([TOOLS / "check-jsonschema", "--builtin-schema", f"vendor.{schema}", *files], capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stdout)

    def test_workflows(self):
        workflows = sorted((SOURCE / ".github/workflows").glob("*.yml"))
        self.check("github-workflows", *workflows)
        for path in workflows:
            for script in re.findall(r"(?:scripts|\.ci)/[\w-]+", path.read_text()):
                self.assertTrue(os.access(SOURCE / script, os.X_OK), f"{path}: {script}")

    @unittest.skipUnless(shutil.which("actionlint"), "actionlint is not installed: only the schema of the workflows is checked")
    def test_workflows_pass_actionlint(self):
        workflows = sorted((SOURCE / ".github/workflows").glob("*.yml"))
        done = subprocess.run(["actionlint", *workflows], capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stdout)

    def test_workflows_pass_zizmor(self):
        done = subprocess.run([TOOLS / "zizmor", "--offline", SOURCE / ".github/workflows"], capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_templates(self):
        folder = SOURCE / ".github/ISSUE_TEMPLATE"
        self.check("github-issue-config", folder / "config.yml")
        self.check("github-issue-forms", *(path for path in sorted(folder.glob("*.yml")) if path.name != "config.yml"))

    def test_citation(self):
        self.check("citation-file-format", SOURCE / "CITATION.cff")


if __name__ == "__main__":
    main()
