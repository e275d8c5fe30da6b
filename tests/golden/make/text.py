#!/usr/bin/env python3
"""Writes SentencePiece models and what Python's sentencepiece makes of some texts with them, to tests/golden/data/text.

Needs: sentencepiece 0.1.97
usage: text.py FOLDER"""

import io
import json
import pathlib
import random
import sys

import sentencepiece

WORDS = "the a cat dog bird saw heard ran walked home tree river quickly slowly yesterday and then after before its their".split()
TEXTS = ["", "the cat saw a bird", "then the dog ran home\n", "  two  blanks and a\ttab ", "naïve café, 漢字 and 🙂", "yesterdays",
         "The CAT", "\n", "a\nb\n"]
LOSSLESS = {"normalization_rule_name": "identity", "add_dummy_prefix": False, "remove_extra_whitespaces": False, "byte_fallback": True,
            "allow_whitespace_only_pieces": True, "pad_id": 0, "eos_id": 1, "unk_id": 2, "bos_id": -1}
MODELS = {"unigram": {"model_type": "unigram", "vocab_size": 320, **LOSSLESS},
          "bpe": {"model_type": "bpe", "vocab_size": 320, **LOSSLESS},
          "plain": {"model_type": "unigram", "vocab_size": 45, "normalization_rule_name": "identity"}}


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    folder = pathlib.Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    draw = random.Random(1)
    lines = [" ".join(draw.choice(WORDS) for _ in range(8)) for _ in range(500)]
    cases = {}
    for name, options in MODELS.items():
        model = io.BytesIO()
        sentencepiece.SentencePieceTrainer.train(sentence_iterator=iter(lines), model_writer=model, num_threads=4, minloglevel=2, **options)
        (folder / f"{name}.model").write_bytes(model.getvalue())
        encoder = sentencepiece.SentencePieceProcessor(model_proto=model.getvalue())
        cases[name] = {"vocab_size": encoder.get_piece_size(), "end_id": encoder.eos_id(), "padding_id": encoder.pad_id(),
                       "ids": [encoder.encode(text) for text in TEXTS]}
    (folder / "encodings.json").write_text(json.dumps({"texts": TEXTS, "models": cases}) + "\n")


if __name__ == "__main__":
    main()
