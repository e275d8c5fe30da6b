"""Tests `data tokenize`, and runs on texts. Needs TRAINCTL_BINARY."""

import array
import json
import os
import random
import sys
from unittest import mock

from support import SOURCE, Front, Smoke, main

sys.path.insert(0, str(SOURCE / "configs"))
import make_data

WORDS = "the cat dog bird saw heard a tree and then ran home".split()


def lines(count):
    draw = random.Random(7)
    return "".join(" ".join(draw.choice(WORDS) for _ in range(6)) + "\n" for _ in range(count))


def tokens_in(path):
    return array.array("H", path.read_bytes()).tolist()


class Tokenizes(Front):
    def test_bytes_are_written_with_their_record(self):
        text = self.write("a.txt", lines(50))
        out, val = self.folder / "train.bin", self.folder / "val.bin"
        document = self.program("data", "tokenize", text, "--out", out, "--val-out", val, "--val-fraction", "0.25", "--json", code=0).json
        self.assertEqual(document["schema"], "trainctl.data_tokenize/2")
        self.assertEqual(document["tokens"] + document["val_tokens"], document["bytes"])
        self.assertEqual(bytes(tokens_in(out) + tokens_in(val)), text.read_bytes())
        record = json.loads((self.folder / "train.bin.json").read_text())
        self.assertEqual({key: record[key] for key in ("schema", "tokenizer", "vocab_size", "dtype", "tokens")},
                         {"schema": "trainctl.tokens/2", "tokenizer": "bytes", "vocab_size": 256, "dtype": "uint16",
                          "tokens": document["tokens"]})
        self.assertEqual(sorted(path.name for path in self.folder.iterdir()),
                         ["a.txt", "train.bin", "train.bin.json", "val.bin", "val.bin.json"])

    def test_files_are_only_replaced_with_force(self):
        text = self.write("a.txt", "one")
        out = self.folder / "t.bin"
        said = self.program("data", "tokenize", text, "--out", out, code=0)
        self.assert_has(said.out, "t.bin: 3 tokens (uint16, vocabulary of 256)")
        self.write("a.txt", "three")
        self.assert_has(self.refused("data", "tokenize", text, "--out", out), "t.bin already exists", "--force")
        self.assertEqual(len(tokens_in(out)), 3)
        self.program("data", "tokenize", text, "--out", out, "--force", code=0)
        self.assertEqual(len(tokens_in(out)), 5)

    def test_options_without_effect_and_inputs_that_cannot_be_read_are_refused(self):
        text, out = self.write("a.txt", "one"), self.folder / "t.bin"

        def refused(*words, code=2):
            said = self.refused("data", "tokenize", *words, "--out", out, code=code)
            self.assertFalse(out.exists())
            return said

        self.assert_has(refused(text, "--vocab-size", "500"), "require --train")
        self.assert_has(refused(text, "--train"), "--train requires --model")
        self.assert_has(refused(text, "--train", "--model", "m"), "require --tokenizer sentencepiece")
        self.assert_has(refused(text, "--val-fraction", "0.5"), "--val-fraction requires --val-out")
        self.assert_has(refused(text, "--val-out", out), "--val-out must be another file")
        self.assert_has(refused(text, "--append-end"), "no piece that ends a text")
        self.assert_has(refused(text, "--tokenizer", "sentencepiece"), "needs a model")
        self.assert_has(refused(text, self.folder / "none.txt", code=9), "none.txt")
        self.assert_has(refused(self.write("empty.txt", ""), code=9), "empty.txt is empty")


class Trains(Front):
    """Trains tokenizers, which needs SentencePiece."""

    def setUp(self):
        super().setUp()
        if not self.program("doctor", "--json").json["libraries"]["sentencepiece"]:
            self.skipTest("this build has no SentencePiece")

    def tokenize(self, text, *words, **options):
        return self.program("data", "tokenize", text, "--tokenizer", "sentencepiece", *words, "--json", **options)

    def test_a_trained_model_is_the_same_again_and_its_tokens_are_those_of_a_given_model(self):
        text = self.write("a.txt", lines(500))
        for kind, pieces in (("unigram", 290), ("bpe", 310)):
            model, again = self.folder / f"{kind}.model", self.folder / f"{kind}_2.model"
            options = ("--train", "--vocab-size", str(pieces), "--model-type", kind)
            document = self.tokenize(text, *options, "--model", model, "--out", self.folder / f"{kind}.bin", code=0).json
            self.assertEqual(document["vocab_size"], pieces)
            self.assertLess(document["tokens"], document["bytes"] / 2)
            self.tokenize(text, *options, "--model", again, "--out", self.folder / f"{kind}_2.bin", code=0)
            self.assertEqual(model.read_bytes(), again.read_bytes())
            self.tokenize(text, "--model", model, "--out", self.folder / f"{kind}_3.bin", "--workers", "3", code=0)
            self.assertEqual(tokens_in(self.folder / f"{kind}.bin"), tokens_in(self.folder / f"{kind}_3.bin"))

    def test_a_vocabulary_that_is_too_large_and_text_that_is_not_utf8_are_refused(self):
        text = self.write("a.txt", lines(50))
        out = self.folder / "t.bin"
        words = ("data", "tokenize", text, "--tokenizer", "sentencepiece", "--model", self.folder / "m.model", "--out", out)
        self.assert_has(self.refused(*words, "--train"), "Vocabulary size too high")
        self.assertFalse((self.folder / "m.model").exists())
        text.write_bytes(b"caf\xe9\n")
        self.assert_has(self.refused(*words, "--train", "--vocab-size", "300", code=9), "a.txt: byte 3 is not valid UTF-8")


class Classifies(Smoke):
    def setUp(self):
        super().setUp()
        make_data.make(self.folder / "data", (make_data.sentences,))
        patch = mock.patch.dict(os.environ, TRAINCTL_DATA=str(self.folder / "data"))
        patch.start()
        self.addCleanup(patch.stop)

    def test_the_config_recognizes_languages_with_any_workers_and_ranks(self):
        config = SOURCE / "configs/text/classification.yaml"
        alone = self.train("++trainer.num_threads=1", "+loader.num_workers=0", config=config)
        self.assertGreater(alone["val"]["accuracy"], 0.95)
        pair = self.train("++trainer.num_threads=1", "+loader.num_workers=2", "+trainer.devices=2", "loader.batch_size=16",
                          "+trainer.accelerator=cpu", "trainer.max_epochs=1", config=config)
        once = self.train("++trainer.num_threads=1", "+loader.num_workers=0", "trainer.max_epochs=1", config=config)
        self.assertEqual(pair["data_digest"], once["data_digest"])

    def test_models_of_texts_recognize_languages_and_are_exported_for_any_batch_size(self):
        for name, least in (("lstm_classifier", 0.95), ("packed", 0.95), ("bert", 0.9)):
            with self.subTest(name):
                found = self.train("++trainer.num_threads=1", "+loader.num_workers=0", config=SOURCE / f"configs/text/{name}.yaml")
                self.assertGreater(found["val"]["accuracy"], least)
                self.program("checkpoint", "export", self.run_dir, "--out", self.folder / f"{name}.pt", code=0)

    def test_folders_are_classes_and_can_be_divided(self):
        for split in ("train", "val"):
            rows = (self.folder / f"data/sentences/{split}.csv").read_text().splitlines()[1:]
            for number, row in enumerate(rows):
                text, name = row.rsplit(",", 1)
                self.write(f"texts/{name}/{split}{number:04}.txt", text)
        config = self.write("folders.yaml", """\
dataset:
  train: {type: text, path: texts, max_length: 32}
  split: {val: 0.2}
loader: {batch_size: 32}
model:
  type: sequential
  layers: [{type: embedding, embedding_dim: 16}, {type: gru, hidden_size: 32, bidirectional: true, output: last}, linear]
optimizer: {type: adamw, lr: 0.01}
metrics: [accuracy]
trainer: {max_epochs: 3, accelerator: cpu, devices: 1, num_threads: 1}
""")
        self.assertGreater(self.train(config=config)["val"]["accuracy"], 0.9)

    def test_a_language_model_is_no_classifier(self):
        said = self.refused("validate", SOURCE / "configs/text/classification.yaml", "model={type: gpt, layers: 1, heads: 1, width: 8, context: 48}")
        self.assert_has(said, "gpt predicts the next token at each position, but the targets are classes")


class ModelsLanguage(Smoke):
    def test_the_record_gives_the_vocabulary_of_a_language_model(self):
        text = self.write("a.txt", lines(400))
        self.program("data", "tokenize", text, "--out", self.folder / "train.bin", code=0)
        config = self.write("gpt.yaml", """\
dataset: {train: {type: tokens, path: train.bin, sequence_length: 16}}
loader: {batch_size: 16}
model: {type: gpt, layers: 1, heads: 2, width: 16, context: 16}
optimizer: {type: adamw, lr: 0.01}
trainer: {max_epochs: 2, accelerator: cpu, devices: 1, num_threads: 1}
""")
        first, last = (float(train) for train, _ in self.losses(self.train_dir(config)))
        self.assertLess(last, first)
        self.assert_has(self.refused("validate", config, "+dataset.train.vocab_size=100"), "remove 'vocab_size'")
        with (self.folder / "train.bin").open("ab") as file:
            file.write(b"\1\0")
        self.assert_has(self.refused("validate", config, code=9), "its record says")

    def train_dir(self, config):
        self.train(config=config)
        return self.run_dir


if __name__ == "__main__":
    main()
