"""`explain` finds names, and a wrong command line is answered with the commands that would work."""

from support import GOLDEN, SOURCE, Front, main

QUICKSTART = SOURCE / "configs/quickstart.yaml"


class Explains(Front):
    def explained(self, *names):
        return self.program("explain", *names, code=0).out

    def meant(self, name):
        return self.refused("explain", name)

    def test_a_stage_is_found_by_its_name_alone(self):
        mixup = self.explained("mixup")
        self.assert_starts(mixup, "batch_transform.mixup: ")
        self.assert_has(mixup, "dataset: {train: {batch_transforms: [{type: mixup")
        self.assert_starts(self.explained("mixup.alpha"), "batch_transform.mixup.alpha: ")
        self.assert_starts(self.explained("cosine"), "scheduler.cosine_annealing_lr: ")
        self.assert_starts(self.explained("AdamW"), "optimizer.adamw: ")
        self.assert_has(self.explained("linear"), "layer.linear: ", "model.linear: ")

    def test_a_key_is_found_by_its_last_part_or_the_word_of_another_program(self):
        self.assert_starts(self.explained("max_epochs"), "trainer.max_epochs: ")
        self.assert_starts(self.explained("epochs"), "trainer.max_epochs: ")
        self.assert_has(self.explained("num_classes"), "the number of classes comes from the data")
        self.assert_has(self.explained("patience"), "stopper.patience: ", "scheduler.patience: ")

    def test_every_default_is_listed_where_stages_differ(self):
        self.assert_has(self.explained("optimizer.lr"), " in ", "adam", "sgd")
        document = self.program("explain", "optimizer.lr", "--json").json
        self.assertEqual(len(document["defaults"]), len(document["of"]))
        self.assertEqual(document["defaults"]["adam"], "0.001")
        self.assertFalse(self.program("explain", "optimizer.adam.lr", "--json").json.get("defaults"))

    def test_every_verb_is_found(self):
        for verb in ("run", "bench", "lr-find", "doctor", "check", "data"):
            self.assert_has(self.explained(verb), "  type     command\n", "usage    trainctl ")
        hash_text = self.explained("data", "hash")
        self.assert_starts(hash_text, "hash: ")
        self.assert_has(hash_text, "--world-size")
        self.assert_has(self.explained("checkpoint"), "type     section", "type     command")
        also = self.program("explain", "checkpoint", "--json").json["also"]
        self.assertEqual(len(also), 1)
        self.assertEqual(also[0]["type"], "command")

    def test_every_exit_code_is_found(self):
        for code in (*range(12), 75, 93, 130, 143):
            self.assert_has(self.explained(str(code)), "type     exit code")
        self.assert_starts(self.explained("exit", "code", "6"), "6: diverged")
        self.assert_starts(self.explained("exit code 6"), "6: diverged")

    def test_every_metric_and_column_of_timing_csv_is_found(self):
        self.assert_starts(self.explained("accuracy"), "metric.accuracy: ")
        value = self.explained("val/accuracy")
        self.assert_starts(value, "metric.accuracy: ")
        self.assert_has(value, "type     value")
        columns = (GOLDEN / "report/timing.csv").read_text().splitlines()[0].split(",")
        self.assertGreater(len(columns), 1)
        for column in columns:
            self.explained(column)

    def test_an_unknown_name_gets_the_closest_one(self):
        self.assert_has(self.meant("trainer.max_epoch"), "trainer.max_epochs")
        for name, closest in (("samples_per_sec", "samples_per_s"), ("cosne_annealing_lr", "cosine_annealing_lr"),
                              ("acuracy", "accuracy"), ("label_smothing", "label_smoothing"), ("resnet19", "resnet18"),
                              ("max_epoch", "max_epochs"), ("validat", "validate"), ("data hsh", "data hash"),
                              ("lern_rate", "learn_rate"), ("cosne", "cosine"), ("learning_rte", "learning_rate")):
            self.assert_has(self.meant(name), f"did you mean '{closest}'?")

    def test_a_suggested_name_is_explained(self):
        for name in ("data hash", "learn_rate", "cosine", "learning_rate", "check"):
            self.explained(name)
        for name in ("worke", "worker"):
            self.assertNotIn("'worker'?", self.meant(name))


class WrongCommands(Front):
    def test_a_verb_of_another_program_gets_ours(self):
        self.assert_has(self.refused("train"), "unknown command 'train'; did you mean 'run'?")
        self.assert_has(self.refused("fit", "x.yaml"), "did you mean 'run'?")
        for verb, ours in (("trian", "run"), ("test", "eval --split test"), ("evaluate", "eval"), ("benchmark", "bench")):
            self.assert_has(self.refused(verb), f"did you mean '{ours}'?")
        self.assert_has(self.refused("data", "sho"), "did you mean 'show'?")

    def test_a_file_or_an_override_without_a_verb_gets_the_verb(self):
        self.assert_has(self.refused("mnist.yaml"), "did you mean 'trainctl run mnist.yaml'?")
        self.assert_has(self.refused("optimizer.lr=0.1"), "'trainctl run optimizer.lr=0.1'")
        self.assert_has(self.refused("builtin:photographs"), "'trainctl run builtin:photographs'")

    def test_a_flag_that_is_a_key_gets_the_override(self):
        for words, written in (
                (["--lr", "0.1"], "write 'trainctl run optimizer.lr=0.1'"),
                (["--max-epochs=3"], "write 'trainctl run trainer.max_epochs=3'"),
                (["run", QUICKSTART, "--lr", "0.1"], "unknown flag '--lr'"),
                (["run", QUICKSTART, "--lr", "0.1"], "write 'optimizer.lr=0.1'"),
                (["run", "--lr", "0.1"], "write 'optimizer.lr=0.1'"),
                (["run", QUICKSTART, "--lr=0.1"], "write 'optimizer.lr=0.1'"),
                (["run", QUICKSTART, "--max-epochs", "3"], "write 'trainer.max_epochs=3'"),
                (["plan", QUICKSTART, "--trainer.max_epochs", "3"], "write 'trainer.max_epochs=3'"),
                (["run", QUICKSTART, "--batch-size", "8"], "'loader.batch_size=8'"),
                (["run", QUICKSTART, "--amp"], "write 'trainer.precision=16-mixed'"),
                (["--fp16"], "write 'trainctl run trainer.precision=16-mixed'"),
                (["run", QUICKSTART, "--patience", "3"], "write 'early_stopping={type: patience, patience: 3}'"),
                (["run", QUICKSTART, "--persistent-workers"], "remove the flag"),
                (["run", QUICKSTART, "--name", "foo"], "write 'name=foo'"),
                (["--name", "foo"], "write 'trainctl run name=foo'")):
            self.assert_has(self.refused(*words), written)
        self.assertNotIn("optimizer.lr", self.refused("version", "--lr", "0.1"))


if __name__ == "__main__":
    main()
