"""Checks report.html of real runs with a strict parser and a real browser, and comparisons of runs. Needs TRAINCTL_BINARY."""

import html.parser
import json
import os
import pathlib
import re
import shutil
import subprocess
import tempfile
import unittest
import xml.etree.ElementTree

import support

VOID = {"meta", "br", "img", "hr"}
SHORT = ["trainer.max_epochs=2", "trainer.log_every_n_steps=2", "dataset.train.samples=400", "dataset.val.samples=100"]
METRICS = "metrics=[accuracy,confusion_matrix]"
NORMS = ["trainer.log_norms=true"]


class Trained:
    """Caches runs by their settings, so that tests that only read share a run."""

    folder = None
    runs = {}

    @classmethod
    def run(cls, *words):
        if cls.folder is None:
            cls.folder = tempfile.TemporaryDirectory(prefix="trainctl-report-")
            pathlib.Path(cls.folder.name, "digits.yaml").write_text(support.DIGITS)
        if words not in cls.runs:
            folder = pathlib.Path(cls.folder.name, f"run-{len(cls.runs)}")
            code, out, err = support.run(cls.folder.name, "run", "digits.yaml", *SHORT, *words, "--run-dir", folder)
            assert code == 0, out + err
            cls.runs[words] = folder
        return cls.runs[words]


class Page(html.parser.HTMLParser):
    """Checks that elements are closed in order, and collects links, ids and the text of the drawings."""

    def __init__(self, text):
        super().__init__(convert_charrefs=True)
        self.open, self.ids, self.links, self.untitled, self.headings, self.figures = [], [], [], 0, [], []
        self.text = ""
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attrs):
        given = dict(attrs)
        assert len(given) == len(attrs), f"an attribute twice: {tag} {attrs}"
        assert not any(name.startswith("on") or name == "style" for name in given), f"{tag} {attrs}"
        self.ids += [given["id"]] if "id" in given else []
        self.links += [given[name] for name in ("href", "src") if name in given]
        if self.open and self.open[-1] == "svg" and not self.is_titled:
            self.untitled += tag != "title"
            self.is_titled = True
        if tag == "svg":
            assert given.get("role") == "img" and given.get("aria-label"), given
            self.is_titled = False
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open and self.open[-1] == tag, f"</{tag}> closes {self.open[-3:]}"
        self.open.pop()

    def handle_data(self, data):
        if "style" in self.open or "script" in self.open:
            return
        if self.open and self.open[-1] in ("h1", "h2"):
            self.headings.append(data)
        if self.open and self.open[-1] == "h3":
            self.figures.append(data)
        self.text += data


class PageTest(support.Smoke):
    def copied(self, *words):
        """Returns a copy of a run in a separate folder, which the test may change."""
        folder = pathlib.Path(tempfile.mkdtemp(dir=self.folder, prefix="run-")) / "run"
        shutil.copytree(Trained.run(*words), folder)
        return folder

    def check(self, path):
        text = pathlib.Path(path).read_text(encoding="utf-8")
        page = Page(text)
        self.assertEqual(page.open, [])
        self.assertEqual(len(page.ids), len(set(page.ids)), "an id twice")
        self.assertEqual(page.untitled, 0, "a drawing without a title")
        for link in page.links:
            self.assertTrue(link[1:] in page.ids if link.startswith("#") else link.startswith("data:image/png;base64,"), link)
        self.assertEqual(set(re.findall(r"https?://[^\"' <]*", re.sub(r"<pre.*?</pre>|<t[dh].*?</t[dh]>", "", text, flags=re.S))),
                         {"http://www.w3.org/2000/svg"})
        return page

    def made(self, *words):
        code, out, err = support.run(self.folder, "report", *words)
        self.assertEqual(code, 0, out + err)
        return pathlib.Path(self.folder, out.strip())


class Pages(PageTest):
    def test_a_run_leaves_its_page(self):
        page = self.check(Trained.run(METRICS, *NORMS) / "report.html")
        self.assertEqual(page.headings[0], "smoke")
        for title in ("loss", "accuracy", "Time of each epoch", "Throughput", "Learning rate", "Norm of the gradients", "CPU",
                      "Memory", "train, epoch 2", "val, epoch 2"):
            self.assertIn(title, page.figures)
        self.assertIn("ok", page.text)
        self.assertNotIn("is missing", page.text)

    def test_the_page_needs_no_other_logger_and_none_is_written_without_its_own(self):
        self.train(*SHORT, "loggers=[html]", METRICS)
        page = self.check(self.run_dir / "report.html")
        self.assertIn("accuracy", page.figures)
        self.assertIn("val, epoch 2", page.figures)
        self.train(*SHORT, "loggers=[csv]")
        self.assertFalse((self.run_dir / "report.html").exists())

    def test_the_page_that_is_made_again_is_the_same(self):
        run = Trained.run(METRICS, *NORMS)  # a copy does not work here: the page names the folder of its run
        before = (run / "report.html").read_text()
        os.remove(run / "report.html")
        self.assertEqual(self.made(run).name, "report.html")
        self.assertEqual((run / "report.html").read_text(), before)
        other = self.made(run, "--out", "other.html")
        self.assertEqual(other.read_text(), before)

    def test_a_run_and_report_call_classes_by_their_names(self):
        rows = "".join(f"{number % 7},{number % 5},{'owl' if number % 2 else 'crow'}\n" for number in range(60))
        (self.folder / "rows.csv").write_text("wing,beak,bird\n" + rows)
        split = "{type: csv, path: rows.csv, label: bird, features: [wing, beak]}"
        (self.folder / "rows.yaml").write_text(f"""\
name: birds
dataset: {{train: {split}, val: {split}}}
loader: {{batch_size: 20}}
model: linear
optimizer: {{type: sgd, lr: 0.001}}
metrics: [accuracy, confusion_matrix]
trainer: {{max_epochs: 1, accelerator: cpu, devices: 1, num_threads: 1}}
""")
        self.train(config="rows.yaml")
        page = self.run_dir / "report.html"
        self.assertRegex(page.read_text(), "class (owl|crow), predicted (owl|crow): ")
        before = page.read_text()
        self.assertEqual(self.made(self.run_dir).read_text(), before)

    def test_html_in_a_name_is_escaped(self):
        name = "</script><svg onload=alert(1)>"
        self.train(*SHORT, f"name='{name}'")
        page = self.check(self.run_dir / "report.html")
        self.assertEqual(page.headings[0], name)

    def test_a_run_that_diverges_has_a_page_that_says_so(self):
        self.train(*SHORT, "optimizer={type: sgd, lr: 1.0e38}", code=6)
        page = self.check(self.run_dir / "report.html")
        self.assertIn("diverged (exit 6)", page.text)

    def test_damaged_files_are_named_on_the_page(self):
        run = self.copied()
        with open(run / "epochs.csv", "a") as file:
            file.write("3,1\n")
        (run / "result.json").write_text("{")
        page = self.check(self.made(run))
        self.assertIn("epochs.csv: line 4 has 2 cells", page.text)
        self.assertIn("result.json is damaged", page.text)
        self.assertIn("running, or killed", page.text)

    def test_the_worst_predictions_are_shown_with_their_pictures(self):
        run = self.copied()
        code, out, err = support.run(self.folder, "report", run, "--worst", 3)
        self.assertEqual(code, 2, out + err)
        self.assertIn("trainctl predict", err)
        code, out, err = support.run(self.folder, "predict", run, "--checkpoint", "best", "--out",
                                     run / "predictions.csv")
        self.assertEqual(code, 0, out + err)
        code, out, err = support.run(self.folder, "report", run, "--worst", 3, "--split", "train")
        self.assertEqual(code, 2, out + err)
        self.assertIn("set --split to the split that 'trainctl predict' used", err)
        page = self.check(self.made(run, "--worst", 6))
        self.assertIn("Worst predictions", page.headings)
        self.assertEqual(sum(link.startswith("data:") for link in page.links), 6)

    def test_a_bench_has_a_page(self):
        code, out, err = support.run(self.folder, "bench", "digits.yaml", "--workers", "0,1", "--repeats", 3, "--save", "b.json",
                                     *SHORT, "--html", "pages/bench.html")
        self.assertEqual(code, 0, out + err)
        self.assertIn("Speed-up of the total time, 95 % interval", self.check(self.folder / "pages/bench.html").figures)
        path = self.made("b.json")
        self.assertEqual(path.name, "b.html")
        page = self.check(path)
        self.assertIn("Speed-up of the total time, 95 % interval", page.figures)

    def test_a_sweep_has_a_page(self):
        runs = []
        for number, (rate, words) in enumerate(((0.001, []), (0.01, [METRICS, *NORMS]))):
            run = Trained.run(*words)
            result = json.loads((run / "result.json").read_text())
            runs.append({"id": number, "overrides": {"optimizer.lr": rate}, "status": "ok", "exit_code": 0,
                         "metrics": {"val/loss": result["val"]["loss"]}, "run_dir": str(run), "seed": 7, "epochs": 2,
                         "wall_s": 1.5, "pruned_at": None})
        folder = self.folder / "swept"
        folder.mkdir()
        (folder / "sweep.json").write_text(json.dumps({"schema": "trainctl.sweep/2", "runs": runs, "summary": []}))
        page = self.check(self.made("swept"))
        self.assertIn("Settings and val/loss", page.figures)
        self.assertIn("val/loss", page.figures)

    def test_a_path_without_a_run_is_a_usage_error(self):
        for words, said in ((["digits.yaml"], "trainctl JSON document"), (["nowhere"], "nowhere"), ([self.folder], "run folder")):
            code, out, err = support.run(self.folder, "report", *words)
            self.assertEqual(code, 2, out + err)
            self.assertIn(said, err)


class Comparisons(PageTest):
    def compare(self, *words, code=0):
        returned, out, err = support.run(self.folder, "compare", *words)
        self.assertEqual(returned, code, out + err)
        return out, err

    def runs(self, *settings):
        return [Trained.run(*words) for words in settings]

    def test_two_runs_side_by_side(self):
        a, b = self.runs([], ["optimizer.lr=0.01"])
        out, _ = self.compare(a, b, "--html", "both.html")
        for part in ("optimizer.lr", "val/accuracy", "samples_per_s", "forward", "->"):
            self.assertIn(part, out)
        page = self.check(self.folder / "both.html")
        self.assertIn("val/loss", page.figures)
        document = json.loads(self.compare(a, b, "--json")[0])
        self.assertEqual(document["schema"], "trainctl.compare/2")
        self.assertEqual([one["key"] for one in document["config"]], ["optimizer.lr"])

    def test_a_run_can_be_named_by_its_experiment_or_latest(self):
        folders = [self.folder / "runs" / name for name in ("smoke/20260101-000000-aaaa", "smoke/20260102-000000-bbbb", "other/20260103-000000-cccc")]
        for run, folder in zip(self.runs([], [], ["optimizer.lr=0.01"]), folders):
            shutil.copytree(run, folder)
            (folder / "report.html").unlink()
        document = json.loads(self.compare("smoke", "latest", "--json")[0])
        compared = [self.folder / run["folder"] for group in document["groups"] for run in group["runs"]]
        self.assertEqual(compared, folders[1:])
        self.assertEqual([one["key"] for one in document["config"]], ["optimizer.lr"])
        for word, folder in (("smoke", folders[1]), ("latest", folders[2])):
            self.assertEqual(self.made(word), folder / "report.html")
            self.check(folder / "report.html")
        self.assertFalse((folders[0] / "report.html").exists())

    def test_equal_losses_are_proved_and_a_single_bit_is_found(self):
        a, c = self.runs([], ["seed=8"])
        self.train(*SHORT)
        b = self.run_dir
        out, _ = self.compare(a, b, "--assert-equal-loss")
        self.assertIn("equal, bit by bit", out)
        _, err = self.compare(a, b, c, "--assert-equal-loss", code=3)
        self.assertRegex(err, r"the losses differ at .*step \d+: train/loss is 0x1\.[0-9a-f]+p")
        document = json.loads(self.compare(a, c, "--assert-equal-loss", "--json", code=3)[0])
        self.assertFalse(document["equal_losses"]["equal"])
        lines = (b / "metrics.jsonl").read_text().splitlines(keepends=True)
        loss = re.search(r'"train/loss":([0-9.]+)', lines[1])
        lines[1] = lines[1].replace(loss[1], repr(float(loss[1]) * (1 + 2**-52)))
        (b / "metrics.jsonl").write_text("".join(lines))
        self.compare(a, b, "--assert-equal-loss", code=3)

    def test_seeds_are_grouped(self):
        folders = self.runs(*([f"seed={seed}", f"optimizer.lr={lr}"] for lr in (0.01, 1e-9) for seed in (1, 2)))
        document = json.loads(self.compare(*folders, "--group", "--json")[0])
        self.assertEqual([group["members"] for group in document["groups"]], [2, 2])
        lists = [",".join(map(str, part)) for part in (folders[:2], folders[2:])]
        document = json.loads(self.compare(*lists, "--json")[0])
        loss = next(one for one in document["metrics"] if one["name"] == "val/loss")
        self.assertTrue(loss["differences"][0]["paired"])
        self.assertEqual(len(loss["differences"][0]["ci95"]), 2)

    def test_a_gate_checks_runs_over_their_seeds(self):
        folders = self.runs(*([f"seed={seed}", f"optimizer.lr={lr}"] for lr in (0.01, 1e-9) for seed in (1, 2, 3)))
        trained, idle = (",".join(map(str, part)) for part in (folders[:3], folders[3:]))
        document = json.loads(self.compare(trained, idle, "--fail-on", "train/loss>+1%", "--junit", "gate.xml", "--json", code=3)[0])
        (finding,) = document["gate"]["conditions"]
        self.assertEqual((document["gate"]["exit_code"], finding["verdict"]), (3, "fail"))
        self.assertGreater(finding["interval"][0], 1)
        suite = xml.etree.ElementTree.parse(self.folder / "gate.xml").getroot()[0]
        self.assertEqual((suite.get("tests"), suite.get("failures")), ("1", "1"))
        out, _ = self.compare(idle, trained, "--fail-on", "train/loss>+1%")
        self.assertIn("Compared with", out)
        out, _ = self.compare(folders[0], folders[3], "--fail-on", "train/loss>+1%", code=4)
        self.assertIn("needs at least 3 runs of each side", out)
        self.compare(folders[0], folders[3], "--fail-on", "train/los>+1%", code=2)

    def test_a_gate_checks_saved_benches(self):
        for name in ("a.json", "b.json"):
            code, out, err = support.run(self.folder, "bench", "digits.yaml", "--repeats", 3, "--save", name, "trainer.max_epochs=1")
            self.assertEqual(code, 0, out + err)
        document = json.loads(self.compare("a.json", "b.json", "--fail-on", "train/loss>+1%", "--json")[0])
        self.assertEqual([one["verdict"] for one in document["gate"]["conditions"]], ["pass"])
        self.assertEqual(document["gate"]["warnings"], [])
        self.compare("a.json", "b.json", "--fail-on", "samples_per_s<-99.9%")

    def test_runs_of_other_hardware_are_named_and_their_speeds_are_compared_only_by_force(self):
        (a,) = self.runs([])
        b = self.copied()
        out, err = self.compare(a, b)
        self.assertNotIn("are not comparable", out + err)
        manifest = json.loads((b / "manifest.json").read_text())
        here = manifest["hardware"]["cores"]
        manifest["hardware"]["cores"] = here + 6
        (b / "manifest.json").write_text(json.dumps(manifest))
        difference = rf"cores: {here} in '.+', {here + 6} in '.+'"
        _, err = self.compare(a, b, "--html", "both.html")
        self.assertRegex(err, difference)
        self.assertRegex(self.check(self.folder / "both.html").text, difference)
        document = json.loads(self.compare(a, b, "--json")[0])
        self.assertEqual(len(document["warnings"]), 1)
        self.assertRegex(document["warnings"][0], difference)
        for condition in ("samples_per_s<-99%", "train/loss>1%, rss_mb>99%"):
            _, err = self.compare(a, b, "--fail-on", condition, code=2)
            self.assertRegex(err, difference)
            self.assertIn("--force", err)
        self.compare(a, b, "--fail-on", "train/loss>1%")
        self.compare(a, b, "--fail-on", "samples_per_s<-99%", "--force", code=4)  # two single runs give no interval, so the condition is undecided
        self.compare(a, b, "--force", code=2)

    def test_mistakes_end_with_2(self):
        (a,) = self.runs([])
        for words in ([a], [a, "nowhere"], [a, "digits.yaml"], [a, a, "--junit", "x.xml"]):
            self.compare(*words, code=2)


@unittest.skipIf(shutil.which("chromium") is None, "chromium is missing: scripts/setup --checks installs it")
class InABrowser(PageTest):
    # Shows the page in a frame of a given width; the title of the outer page reports the measurements. A browser window has a
    # minimum width, but a frame takes any width.
    FRAME = """<!doctype html><meta charset="utf-8"><title>waits</title><style>body{margin:0}iframe{border:0;width:%dpx;height:2400px}</style>
<iframe id="f" src="%s"></iframe><script>
window.addEventListener("load", function () {
  var d = f.contentDocument, r = d.documentElement, texts = [];
  d.querySelectorAll("svg .label text").forEach(function (t) { texts.push(t.textContent); });
  var line = d.querySelector("svg.lines"), box = line.getBoundingClientRect();
  line.dispatchEvent(new f.contentWindow.PointerEvent("pointermove", {clientX: box.left + box.width / 2, clientY: box.top + 20}));
  document.title = JSON.stringify({scroll: r.scrollWidth, width: r.clientWidth, labels: texts,
    readout: d.querySelector(".readout").textContent, button: d.getElementById("theme").hidden,
    back: f.contentWindow.getComputedStyle(d.body).backgroundColor, h1: d.querySelector("h1").textContent,
    wide: Array.from(d.querySelectorAll("svg")).filter(function (s) { return !s.getBoundingClientRect().width; }).length});
});</script>"""

    def browse(self, path, *flags):
        command = ["chromium", "--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--no-first-run",
                   "--allow-file-access-from-files", "--enable-logging=stderr", "--virtual-time-budget=4000",
                   f"--user-data-dir={self.folder / 'profile'}", *flags, path.as_uri()]
        done = subprocess.run(command, capture_output=True, text=True, timeout=300)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertNotRegex(done.stderr, r"CONSOLE", "an error of the page")
        return done.stdout

    def seen(self, page, width, scheme):
        frame = self.folder / "frame.html"
        frame.write_text(self.FRAME % (width, page.as_uri()))
        dom = self.browse(frame, "--dump-dom", f"--blink-settings=preferredColorScheme={scheme}", "--window-size=1400,2400")
        title = re.search(r"<title>(.*?)</title>", dom, re.S)[1]
        return json.loads(title.replace("&quot;", '"').replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&"))

    def test_the_page_fits_any_width_light_and_dark(self):
        page = Trained.run(METRICS, *NORMS) / "report.html"
        backs = set()
        for scheme in (1, 0):  # light and dark
            for width in (1280, 390):
                seen = self.seen(page, width, scheme)
                self.assertEqual(seen["h1"], "smoke")
                self.assertLessEqual(seen["scroll"], width, "the page scrolls sideways")
                self.assertEqual(seen["wide"], 0, "a drawing without a width")
                for label in ("epoch", "loss", "samples/s", "step"):
                    self.assertTrue(any(text.startswith(label) for text in seen["labels"]), (label, seen["labels"]))
                self.assertRegex(seen["readout"], r"epoch \d")
                self.assertFalse(seen["button"], "the script did not run: its hash is wrong")
                backs.add(seen["back"])
        self.assertEqual(len(backs), 2, backs)

    def test_a_screenshot_is_not_an_empty_page(self):
        page = Trained.run(METRICS, *NORMS) / "report.html"
        shot = self.folder / "shot.png"
        self.browse(page, f"--screenshot={shot}", "--window-size=1280,2000")
        self.assertGreater(shot.stat().st_size, 50_000)


if __name__ == "__main__":
    support.main()
