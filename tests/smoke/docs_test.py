"""Runs the commands and checks the files in docs/. Each page runs from top to bottom in one empty folder, as a reader would.

```console             lines that start with "$ " are commands, with their continuation lines; the others show output.
                       A comment "# exit code 4" or "# exit code 0 or 4" names the expected exit codes
```yaml title="NAME"   is written to NAME, like any block with a title
```yaml                is part of an experiment file: every key in it exists

<!-- not run: REASON --> above a block skips the block. configs/ and data/ are those of the repository, except that fewer samples are
generated (SMALLER), data/mnist has fewer, and no experiment measures at its start. An epoch trains a few batches, and a bench or a search
makes fewer runs (MOST): the commands and experiments have to be valid and to work together, not to reach the figures of the pages. Keys in
sentences and tables, such as `trainer.devices`, must exist. Without the data sets of TRAINCTL_DATA, no command is run."""

import functools
import gzip
import os
import pathlib
import re
import shutil
import subprocess
import tempfile
import unittest
from unittest import mock

import yaml

import support

DOCS = support.SOURCE / "docs"
DATA = pathlib.Path(os.environ.get("TRAINCTL_DATA") or support.SOURCE / "data")
FOLDERS = {"get-started": "GetStarted", "tutorials": "Tutorials", "how-to": "HowTo", "coming-from": "ComingFrom",
           "explanation": "Explanation", "reference": "Reference", "troubleshooting.md": "Troubleshooting"}
BLOCK = re.compile(r'^(?P<note><!-- not run: [^\n]+ -->\n\s*)?(?P<indent>[ ]*)```(?P<language>\w+)(?P<options>[^\n]*)\n(?P<text>.*?)^(?P=indent)```$',
                   re.M | re.S)
TITLE = re.compile(r'title="([^"]+)"')
# Matches `optimizer.lr=0.1`, `trainer.devices: auto` or `loader.num_workers` in a sentence or a table.
INLINE = re.compile(r"`((?:%s)\.[a-z_0-9]+(?:\.[a-z_0-9]+)*)(?:`|=|: )" % "|".join(
    "dataset loader model weights loss optimizer scheduler early_stopping trainer distributed checkpoint profiler".split()))
# What is replaced in the most frequent configs, because their whole sets would take most of the time of this test.
SMALLER = {"quickstart.yaml": [("    split: train ", "    samples: 6000\n    split: train "), ("    split: test ", "    samples: 1000\n    split: test ")],
           "photographs.yaml": [("samples: 1000 ", "samples: 200 ")]}
MNIST = {"train": 1_280, "t10k": 500}  # samples; no command trains more batches
# What an experiment gets that does not set it: with `auto`, a run would measure longer than it trains.
ADDED = {"num_threads": "1", "channels_last": "false", "limit_train_batches": "25", "limit_val_batches": "5"}
LONG = "mnist/lenet.yaml"  # a page stops this experiment while it trains
# Numbers of commands and experiments that the tests lower to at most this value. A gate needs its repeats.
MOST = [(r"limit_train_batches(?:=|: )", 50), (r"limit_val_batches(?:=|: )", 5), (r"--repeats (?![\s\S]*--(?:save|fail-on))", 1),
        (r"--seconds ", 0.1), (r"trainctl tune [^\n]*--budget ", 5)]
JSON_KEYS = {"model.memory", "model.speed"}  # keys of documents that look like keys of an experiment
KNOWN = {"console", "yaml", "python", "text", "json", "diff", "toml", "csv", "cpp"}


def pages(name):
    path = DOCS / name
    return sorted(path.rglob("*.md")) if path.is_dir() else [path]


def blocks_of(page):
    """Yields (line number, language, title, text) of each block to run."""
    text = page.read_text()
    for match in BLOCK.finditer(text):
        if match["note"]:
            continue
        title = TITLE.search(match["options"])
        indent = len(match["indent"])
        body = "".join(line[indent:] if line.strip() else "\n" for line in match["text"].splitlines(keepends=True))
        yield text.count("\n", 0, match.start("language")) + 1, match["language"], title and title[1], body


def commands_of(block):
    """Returns the commands of a console block, with their continuation lines."""
    commands, continued = [], False
    for line in block.splitlines():
        if continued:
            commands[-1] += "\n" + line
        elif line.startswith("$ "):
            commands.append(line[2:])
        else:
            continue
        continued = line.endswith("\\")
    return commands


def keys_of(value, above=""):
    """Yields the dotted paths of all keys of nested maps. A stage ends the path, because its options have separate names."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield above + str(key)
            if not (isinstance(inner, dict) and "type" in inner):
                yield from keys_of(inner, f"{above}{key}.")


def smaller(text):
    """Returns a command or an experiment with numbers of at most MOST."""
    for name, most in MOST:
        text = re.sub(rf"({name})([0-9.]+)(?![0-9.])", lambda found: found[1] + (found[2] if float(found[2]) <= most else str(most)), text)
    return text.replace("--seeds 0,1,2", "--seeds 0,1")


def shorter(text, added=ADDED):
    """Returns an experiment that measures nothing at its start and trains a few batches."""
    for key, value in added.items():
        text = re.sub(r"^trainer: \{ ?(?!.*\b%s:)" % key, f"trainer: {{ {key}: {value}, ", text, flags=re.M)
    return smaller(text)


@functools.cache
def refusal_of(key):
    """Returns what `explain` says of a key that does not exist, or None."""
    done = support.run(DOCS, "explain", key)
    return done.err if done.code else None


class Pages(support.Front):
    @classmethod
    def setUpClass(cls):
        shared = tempfile.TemporaryDirectory(prefix="trainctl-docs-")
        cls.addClassCleanup(shared.cleanup)
        cls.shared = pathlib.Path(shared.name)
        shutil.copytree(support.SOURCE / "configs", cls.shared / "configs")
        for path in (cls.shared / "configs").rglob("*.yaml"):
            path.write_text(shorter(path.read_text(), {key: ADDED[key] for key in ADDED if not (path.match(LONG) and key.startswith("limit_"))}))
        for name, changes in SMALLER.items():
            path = cls.shared / "configs" / name
            for whole, smaller in changes:
                assert path.read_text().count(whole) == 1, f"{name} must contain '{whole}' once"
                path.write_text(path.read_text().replace(whole, smaller))
        cls.link_data(DATA, cls.shared / "data")
        patch = mock.patch.dict(os.environ, TRAINCTL_DATA=str(cls.shared / "data"))
        patch.start()
        cls.addClassCleanup(patch.stop)

    @staticmethod
    def link_data(source, place):
        """Links the data sets, but writes the first part of MNIST, uncompressed."""
        place.mkdir()
        for folder in source.glob("*"):
            if folder.name != "mnist":
                (place / folder.name).symlink_to(folder)
                continue
            (place / "mnist").mkdir()
            for file in folder.glob("*-ubyte*"):
                data = (gzip.open if file.suffix == ".gz" else open)(file, "rb").read()
                head, count = 4 + 4 * data[3], int.from_bytes(data[4:8], "big")
                kept = min(count, MNIST[file.name.split("-")[0]])
                (place / "mnist" / file.name.removesuffix(".gz")).write_bytes(
                    data[:4] + kept.to_bytes(4, "big") + data[8:head + (len(data) - head) // count * kept])

    def enter(self):
        for name in ("configs", "data"):
            (self.folder / name).symlink_to(self.shared / name)

    def run_page(self, page):
        self.enter()
        left_out = False
        for line, language, title, text in blocks_of(page):
            place = f"{page.relative_to(support.SOURCE)}:{line}"
            self.assertIn(language, KNOWN, place)
            if title:
                self.write(title, shorter(text) if language == "yaml" else text)
            elif language == "console" and not DATA.is_dir():
                left_out = True
            elif language == "console":
                for command in commands_of(text):
                    self.run_command(command, place)
            elif language == "yaml":
                self.check_fragment(text, place)
        for key in sorted(set(INLINE.findall(page.read_text())) - JSON_KEYS):
            self.check_key(key, page.relative_to(support.SOURCE))
        if left_out:
            self.skipTest("its commands need the data sets of TRAINCTL_DATA")

    def run_command(self, command, place):
        path = f"{pathlib.Path(support.BINARY).parent}:{os.environ['PATH']}"
        command = smaller(command)
        done = subprocess.run(["bash", "-c", command], cwd=self.folder, env={**os.environ, "PATH": path}, capture_output=True, text=True, timeout=600)
        expected = re.search(r"# exit code (\d+)(?: or (\d+))?", command)
        codes = [int(code) for code in expected.groups() if code] if expected else [0]
        self.assertIn(done.returncode, codes, f"{place}: $ {command}\n{done.stdout}{done.stderr}")

    def check_fragment(self, text, place):
        for document in yaml.safe_load_all(text):
            for key in keys_of(document):
                self.check_key(key, place)

    def check_key(self, key, place):
        why = refusal_of(key)
        self.assertIsNone(why, f"{place}: {key} is not a key of an experiment file: {why}")


def test_of(page):
    def test(self):
        self.run_page(page)
    return test


# A class for each folder, so that the folders run side by side.
for folder, name in FOLDERS.items():
    globals()[name] = type(name, (Pages,), {"test_" + re.sub(r"\W+", "_", page.stem): test_of(page) for page in pages(folder)})


class Site(unittest.TestCase):
    def test_it_builds_without_warnings_and_searches_without_a_network(self):
        mkdocs = support.SOURCE / ".docs-venv/bin/mkdocs"
        if not mkdocs.exists():
            self.skipTest("scripts/setup --docs has not installed mkdocs")
        with tempfile.TemporaryDirectory(prefix="trainctl-site-") as site:
            done = subprocess.run([mkdocs, "build", "--quiet", "--strict", "--site-dir", site], cwd=support.SOURCE, capture_output=True, text=True,
                                  env={**os.environ, "NO_MKDOCS_2_WARNING": "1"}, timeout=300)
            self.assertEqual((done.returncode, done.stdout + done.stderr), (0, ""))
            page = (pathlib.Path(site) / "index.html").read_text()
            self.assertIn('src="javascripts/iframe-worker.js"', page, "the search would need a server")
            self.assertNotRegex(page, r'(?:src|href)="https?://(?!squidfunk)', "the page loads something from the network")


class Harness(unittest.TestCase):
    def test_commands_have_their_continuation_lines(self):
        self.assertEqual(commands_of("$ a \\\n  b\nout\n$ c\n"), ["a \\\n  b", "c"])

    def test_every_folder_has_pages(self):
        for folder in FOLDERS:
            self.assertGreater(len(pages(folder)), 0, folder)


if __name__ == "__main__":
    support.main()
