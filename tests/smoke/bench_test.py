"""`bench` refuses wrong input before it starts a run; run_test.py has whole benches."""

from support import SOURCE, Front, main

FLAGS = ["--workers 0", "--devices 1", "--batch-size 64", "--strategy ddp", "--precision 32-true", "--pin-memory true", "--grid seed=1,2",
         "--repeats 1", "--out elsewhere", "--save saved.json", "--markdown", "--cache none", "--budget 1m", "--csv runs.csv",
         "--junit junit.xml", "--fail-on total_s>1%", "--baseline base.json", "--force-baseline"]


class RefusedBenches(Front):
    def bench(self, *words, code=2):
        return self.refused("bench", SOURCE / "configs/quickstart.yaml", *words, code=code)

    def assert_empty(self):
        self.assertEqual(list(self.folder.iterdir()), [])

    def test_every_setting_is_checked_before_a_process_starts(self):
        self.assert_has(self.bench("--workers", "0,-2"), "'loader.num_workers=-2'", "at least 0")
        self.assert_has(self.bench("--grid", "optimizer.lrr=1,2"), "unknown key 'lrr'", "did you mean 'lr'?")
        self.assert_empty()

    def test_a_wrong_list_of_values_is_named(self):
        self.assert_has(self.bench("--workers", "0,,4", code=None), "'0,,4' has an empty value")
        self.assert_has(self.bench("--workers", "4,4", code=None), "the value 4 is given twice")
        self.assert_has(self.bench("--grid", "lr", code=None), "'lr' must have the form key=a,b")
        self.assert_has(self.bench("--workers", "0", "--grid", "loader.num_workers=1", code=None), "is given twice")
        self.bench("--repeats", "0")

    def test_data_parallel_is_refused_on_cpus(self):
        self.assert_has(self.bench("--strategy", "ddp,data_parallel", "trainer.accelerator=cpu"), "'data_parallel' needs GPUs",
                        "slower than ddp by design", "write 'type: ddp'")
        self.assert_empty()

    def test_an_override_after_any_flag_is_an_override(self):
        for flag in FLAGS:
            with self.subTest(flag):
                self.assert_has(self.bench(*flag.split(), "~metrics", "optimizer.lrr=3"), "unknown key 'lrr'")

    def test_all_mistakes_of_a_gate_are_named_before_a_run(self):
        self.assert_has(self.bench("--workers", "0,2", "--fail-on", "sample_per_s<-5%, val/acuracy<-1"), "has 3 mistakes",
                        "did you mean 'samples_per_s'?", "did you mean 'val/accuracy'?", "the number must end")
        self.assert_has(self.bench("--fail-on", "total_s>5%"), "--fail-on needs a second setting or a baseline", "--baseline FILE")
        self.assert_has(self.bench("--baseline", "base.json"), "for example, add --fail-on")
        self.assert_has(self.bench("--force-baseline", code=None), "needs --baseline")
        self.assert_has(self.bench("--budget", "soon", code=None), "must be a time such as 90s, 10m or 1h30m, got 'soon'")
        self.assert_has(self.bench("--fail-on", "total_s>5%", "--baseline", "base.json", code=None), "base.json")
        self.assert_empty()


if __name__ == "__main__":
    main()
