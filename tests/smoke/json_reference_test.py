"""Compares the JSON documents of all commands with docs/reference: every key is documented, and every documented key exists.
Needs TRAINCTL_BINARY."""

import json
import re

from support import DIGITS, SOURCE, Smoke, main, run

# The keys of these objects are names of the user's data, metrics, settings or files, and no part of the format.
FREE = {"metrics", "settings", "config", "origins", "libraries", "environment", "links", "patch", "weights", "tables", "values", "json_schema",
        "overrides", "kinds", "groups", "data_fingerprints", "timing", "train", "val", "training", "hardware", "allocator", "split", "plugins",
        "manifest", "num_threads", "num_workers", "batch_size", "channels_last", "thread_waiting", "activation_checkpointing", "bottleneck", "config_resolved"}
# Keys that a document has only under conditions that this test does not create.
CONDITIONAL = {"attempts", "noise", "link", "link_error", "host_waits"}
SMALL = DIGITS.replace("samples: 2000", "samples: 400").replace("samples: 500", "samples: 100").replace("max_epochs: 3", "max_epochs: 2")
SECTION = re.compile(r"^## (?:.*\()?(trainctl\.[a-z_]+/\d+)\)?$(.*?)(?=^## |\Z)", re.M | re.S)
WORD = re.compile(r"[A-Za-z_][A-Za-z_0-9]*")


def listed_keys(text):
    """Returns the keys of a list such as "`a`, `b[] {c, d}` (why)", without those of nested objects."""
    flat = re.sub(r"\([^()]*\)", "", text)
    while "{" in flat:
        flat = re.sub(r"\{[^{}]*\}", "", flat)
    return {WORD.match(key)[0] for key in re.findall(r"`([^`]+)`", flat) if "." not in key}


def reference():
    """Returns {schema: text that documents it} and {schema: the document's own keys, as its tables and lists name them}."""
    texts, keys = {}, {}
    for page in sorted((SOURCE / "docs/reference").glob("*.md")):
        text = page.read_text()
        for schema, section in SECTION.findall(text):
            texts[schema] = texts.get(schema, "") + section
            table = re.search(r"^\| key \|.*?(?=^$|\Z)", section, re.M | re.S)
            for row in re.findall(r"^\| (`[^|]*) \|", table[0] if table else "", re.M):
                keys.setdefault(schema, set()).update(listed_keys(row))
            for sentence in re.findall(r"The document has the keys (.*?)(?:\.\s| and:)", section, re.S):
                keys.setdefault(schema, set()).update(listed_keys(sentence))
        for row in re.findall(r"^\| `trainctl\..*\|$", text, re.M):
            cells = row.split(" | ")
            named = re.findall(r"trainctl\.[a-z_]+/\d+", cells[0])
            for schema in named:
                texts[schema] = texts.get(schema, "") + row
            if len(named) == 1 and len(cells) > 2:
                # Explanations follow the list of keys.
                keys.setdefault(named[0], set()).update(listed_keys(cells[2].split(". ")[0]))
    return texts, keys


def nested_keys(value):
    """Yields the keys of a document, without those of objects whose keys are free."""
    if isinstance(value, list):
        for each in value:
            yield from nested_keys(each)
    elif isinstance(value, dict):
        for key, below in value.items():
            yield key
            if key not in FREE:
                yield from nested_keys(below)


class JsonReference(Smoke):
    """Runs each command once and reads what it prints."""

    def setUp(self):
        super().setUp()
        (self.folder / "small.yaml").write_text(SMALL)
        self.texts, self.keys = reference()
        self.seen = {}

    def document(self, *words, codes=(0,)):
        with self.subTest(command=" ".join(map(str, words))):
            done = run(self.folder, *words, "--json")
            self.assertIn(done.code, codes, done.out + done.err)
            self.check(json.loads(done.out))

    def file(self, path):
        self.check(json.loads((self.folder / path).read_text()))

    def check(self, document):
        schema = document["schema"]
        self.assertIn(schema, self.texts, "docs/reference documents no such schema")
        unknown = {key for key in nested_keys(document) if key != "schema"} - set(WORD.findall(self.texts[schema]))
        self.assertEqual(unknown, set(), f"docs/reference does not describe these keys of {schema}")
        self.seen.setdefault(schema, set()).update(document)

    def test_every_key_is_documented_and_every_documented_key_exists(self):
        self.document("run", "small.yaml", "name=a", "--run-dir", "a")
        self.document("run", "small.yaml", "name=b", "--run-dir", "b", "seed=8")
        for name in ("result.json", "manifest.json"):
            self.file(f"a/{name}")
        self.document("run", "missing.yaml", codes=(2,))
        self.document("top", "a")
        self.document("report", "a")
        self.document("compare", "a", "b", "--assert-equal-loss", codes=(3,))
        self.document("eval", "a", "--checkpoint", "best")
        self.document("predict", "a", "--checkpoint", "best", "--out", "rows.csv")
        self.document("lr-find", "small.yaml", codes=(0, 4))
        self.document("verify-resume", "small.yaml", "--kills", 1)
        self.document("bench", "small.yaml", "--repeats", 1, "--workers", "0,1")
        self.document("sweep", "small.yaml", "optimizer.lr=0.001,0.002", "--out", "sweep")
        self.document("tune", "small.yaml", "--budget", "10s", codes=(0, 4))
        self.document("plan", "small.yaml", "--probe", "--devices", 2)
        self.document("plan", "small.yaml", "--fake-ranks", 2)
        self.document("doctor", "--gpu", codes=(0, 11))
        for verb in ("inspect", "verify"):
            self.document("checkpoint", verb, "a")
        self.document("checkpoint", "ls", "a")
        self.document("checkpoint", "export", "a", "--out", "w.safetensors")
        self.document("data", "bench", "small.yaml", "--workers", "0,1", "--repeats", 1)
        for verb in ("hash", "stats"):
            self.document("data", verb, "small.yaml")
        self.document("data", "show", "small.yaml", "--out", "show.png")
        self.document("data", "pack", "small.yaml", "--out", "train.pack")
        self.write("table.csv", "x,y\n" + "".join(f"{i * i % 7},{i % 2}\n" for i in range(20)))
        self.document("init", "tabular", "table.csv", "--out", "table.yaml")
        self.document("validate", "small.yaml")
        self.document("show-config", "small.yaml")
        for name in ("optimizer.adam.lr", "adam", "run"):
            self.document("explain", name)
        self.document("explain", "--bottlenecks")
        for verb in ("list", "schema", "version"):
            self.document(verb)
        self.document("completion", "bash")
        for schema, keys in self.seen.items():
            with self.subTest(schema=schema):
                gone = self.keys.get(schema, set()) - keys - CONDITIONAL - {"schema"}
                self.assertEqual(gone, set(), f"docs/reference describes keys that {schema} does not have")

    def test_every_file_of_a_run_and_every_column_is_documented(self):
        done = run(self.folder, "run", "small.yaml", "++trainer.log_norms=true", "trainer.devices=2", "--run-dir", "a")
        self.assertEqual(done.code, 0, done.err)
        page = (SOURCE / "docs/reference/run-folder.md").read_text() + (SOURCE / "docs/reference/checkpoints.md").read_text()
        words = set(re.findall(r"[A-Za-z_.0-9/]+", page))
        for path in sorted((self.folder / "a").rglob("*")):
            if path.is_file():
                name = re.sub(r"^rank_\d+", "rank_N", path.name)
                self.assertTrue({name, f"logs/{name}"} & words, f"{path} is in no page")
        for table in ("epochs.csv", "timing.csv", "ranks.csv"):
            for column in (self.folder / "a" / table).read_text().split("\n")[0].split(","):
                if "/" not in column:  # a metric has the name that the experiment gives it
                    self.assertIn(column, words, table)
        for line in (self.folder / "a/metrics.jsonl").read_text().splitlines():
            keys = {key for key in json.loads(line) if "/" not in key}
            self.assertEqual(keys - words, set())


if __name__ == "__main__":
    main()
