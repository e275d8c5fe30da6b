"""A run measures to choose some settings; `bench` and `tune` pin the choices so that all their runs agree. Needs TRAINCTL_BINARY.
"""

import json
import re
import signal
import time

from support import DIGITS, Smoke, main, run, start

CONVOLUTIONS = DIGITS.replace("name: smoke", "name: convolutions").replace("model: {type: mlp, hidden: [32]}", "model: lenet")
SHORT = ["trainer.max_epochs=1", "trainer.limit_train_batches=4", "trainer.limit_val_batches=2"]


class MemoryFormatOfImages(Smoke):
    def setUp(self):
        super().setUp()
        (self.folder / "convolutions.yaml").write_text(CONVOLUTIONS)

    def bench(self, *words):
        """Returns the document, and the choices of the runs that belong to the bench."""
        before = set(self.folders())
        code, out, err = run(self.folder, "bench", "convolutions.yaml", *SHORT, "--repeats", "1", "--json", *words)
        self.assertIn(code, (0, 4), out + err)  # 4: one repeat gives no interval
        self.err = err
        new = [folder for folder in self.folders() if folder not in before]
        self.warm_ups = [folder for folder in new if self.is_warm_up(folder)]
        return json.loads(out), [self.choice(folder) for folder in new if folder not in self.warm_ups]

    def folders(self):
        return sorted((self.folder / "runs/bench/convolutions").glob("2*"))

    def config(self, folder):
        return (folder / "config.resolved.yaml").read_text()

    def is_warm_up(self, folder):
        return "fast_dev_run: true" in self.config(folder)

    def choice(self, folder):
        """Returns whether a run used the channels-last format, and why."""
        chosen = json.loads((folder / "manifest.json").read_text())["channels_last"]
        return chosen["value"], chosen["why"]

    def test_all_runs_of_a_bench_have_the_format_of_its_warm_up(self):
        document, choices = self.bench("--workers", "0,1")
        (value,) = document["channels_last"].values()
        self.assertEqual(choices, [(value, "configured")] * 2)
        self.assertEqual(self.choice(self.warm_ups[-1])[0], value)
        self.assertNotEqual(self.choice(self.warm_ups[-1])[1], "configured")

    def test_a_format_that_a_row_sets_is_no_choice_for_the_others(self):
        document, choices = self.bench("trainer.num_threads=auto", "--grid", "trainer.channels_last=true,auto")
        (value,) = document["channels_last"].values()
        self.assertEqual(choices, [(True, "configured"), (value, "configured")])
        self.assertTrue(any("channels_last: auto" in self.config(folder) for folder in self.warm_ups), self.err)

    def test_a_baseline_pins_the_format_of_its_runs(self):
        document, _ = self.bench("--save", "base.json")
        against = ["--baseline", "base.json", "--fail-on", "train/loss>+1000%"]
        ((inputs, _),) = document["channels_last"].items()
        for value in (True, False):  # one of these is not the choice of this machine
            document["channels_last"] = {inputs: value}
            (self.folder / "base.json").write_text(json.dumps(document))
            again, choices = self.bench(*against)
            self.assertEqual(choices, [(value, "configured")])
            self.assertEqual((again["channels_last"], self.warm_ups), ({inputs: value}, []))
            self.assertIn(f"memory format {'channels_last' if value else 'contiguous'}", self.err)

    def test_a_run_folder_as_baseline_pins_its_format(self):
        self.train(*SHORT, config="convolutions.yaml")
        file = self.run_dir / "manifest.json"
        manifest = json.loads(file.read_text())
        for value in (True, False):
            manifest["channels_last"]["value"] = value
            file.write_text(json.dumps(manifest))
            _, choices = self.bench("--baseline", self.run_dir, "--fail-on", "train/loss>+1000%")
            self.assertEqual(choices, [(value, "configured")])

    def test_all_runs_of_tune_have_the_format_of_the_first(self):
        process = start(self.folder, "tune", "convolutions.yaml", *SHORT, "--budget", "5m", "--repeats", "3", "--json")
        self.addCleanup(process.kill)
        choices = []
        while process.poll() is None and len(choices) < 4:  # tune may end after two runs
            runs = sorted((self.folder / "runs/tune/convolutions").glob("2*/runs/2*/manifest.json"))
            choices = [self.choice(file.parent) for file in runs if json.loads(file.read_text())["channels_last"]]
            time.sleep(0.02)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=120)
        self.assertIn(process.returncode, (0, 4, 130), out + err)
        self.assertGreaterEqual(len(choices), 2, out + err)
        first, *others = choices
        self.assertNotEqual(first[1], "configured")
        self.assertIn((first[0], "configured"), others)
        if not re.search(r"trainer\.(precision|channels_last)", err):  # a run that sets one of these keys has its own format
            self.assertEqual(set(others), {(first[0], "configured")})


if __name__ == "__main__":
    main()
