"""Models of texts after torch.manual_seed: names, shapes and first values of each parameter; the outputs for padded or whole rows of
tokens, and the gradient of each parameter (its first values and its norm), after every parameter was shifted a little. The loss is the
sum of the outputs times sin(0), sin(1), ...

Compares with the BERT of Hugging Face's transformers if it is installed. Needs torch 2.11."""
import math

import torch
import torch.nn.functional as F
from golden import move, named, numbers, save
from torch import nn
from torch.nn.utils import rnn

SEED = 42
LENGTHS = [7, 4, 1]
VOCABULARY, CLASSES = 13, 3


class Table(nn.Module):
    def __init__(self, rows, width, draw):
        super().__init__()
        self.weight = nn.Parameter(draw(torch.empty(rows, width)))


class LstmClassifier(nn.Module):
    def __init__(self, embedding_dim=128, hidden_size=128, num_layers=1, bidirectional=True, pooling="last", dropout=0.5):
        super().__init__()
        self.pooling = pooling
        self.embedding = nn.Embedding(VOCABULARY, embedding_dim)
        self.lstm = nn.LSTM(embedding_dim, hidden_size, num_layers, batch_first=True, bidirectional=bidirectional)
        self.linear = nn.Linear(hidden_size * (2 if bidirectional else 1), CLASSES)

    def forward(self, tokens):
        lengths = torch.tensor(LENGTHS)
        packed = rnn.pack_padded_sequence(self.embedding(tokens), lengths, batch_first=True, enforce_sorted=False)
        sequence, (state, _) = self.lstm(packed)
        if self.pooling == "mean":
            return self.linear(rnn.pad_packed_sequence(sequence, batch_first=True)[0].sum(1) / lengths[:, None])
        return self.linear(torch.cat(list(state[-2 if self.lstm.bidirectional else -1:]), dim=1))


class LstmLm(nn.Module):
    """The model of PyTorch's example word_language_model, initialized in the order of the names."""

    def __init__(self, embedding_dim=None, hidden_size=200, num_layers=2, dropout=0.2, tie_weights=True):
        super().__init__()
        width = embedding_dim or hidden_size
        self.encoder = Table(VOCABULARY, width, lambda x: x.uniform_(-0.1, 0.1))
        self.rnn = nn.LSTM(width, hidden_size, num_layers, batch_first=True)
        self.decoder = nn.Module()
        self.decoder.weight = self.encoder.weight if tie_weights else nn.Parameter(torch.empty(VOCABULARY, hidden_size).uniform_(-0.1, 0.1))
        self.decoder.bias = nn.Parameter(torch.zeros(VOCABULARY))

    def forward(self, tokens):
        return F.linear(self.rnn(self.encoder.weight[tokens])[0], self.decoder.weight, self.decoder.bias)


def normal(tensor):
    return tensor.normal_(0, 0.02)


class Linear(nn.Module):
    def __init__(self, inputs, outputs):
        super().__init__()
        self.weight, self.bias = nn.Parameter(normal(torch.empty(outputs, inputs))), nn.Parameter(torch.zeros(outputs))

    def forward(self, x):
        return F.linear(x, self.weight, self.bias)


def tree(**children):
    return nn.ModuleDict(children)


class BertBlock(nn.Module):
    def __init__(self, width, heads, norm_first):
        super().__init__()
        self.heads, self.norm_first = heads, norm_first
        self.attention = tree(self=tree(query=Linear(width, width), key=Linear(width, width), value=Linear(width, width)),
                              output=tree(dense=Linear(width, width), LayerNorm=nn.LayerNorm(width, 1e-12)))
        self.intermediate = tree(dense=Linear(width, 4 * width))
        self.output = tree(dense=Linear(4 * width, width), LayerNorm=nn.LayerNorm(width, 1e-12))

    def attend(self, x, mask):
        n, t, width = x.shape
        q, k, v = (layer(x).view(n, t, self.heads, -1).transpose(1, 2) for layer in self.attention["self"].values())
        scores = (q @ k.transpose(-2, -1) / math.sqrt(width // self.heads)).masked_fill(~mask[:, None, None], float("-inf"))
        return self.attention["output"]["dense"]((scores.softmax(-1) @ v).transpose(1, 2).reshape(n, t, width))

    def forward(self, x, mask):
        first, second = self.attention["output"]["LayerNorm"], self.output["LayerNorm"]

        def feed(y):
            return self.output["dense"](F.gelu(self.intermediate["dense"](y)))

        if self.norm_first:
            x = x + self.attend(first(x), mask)
            return x + feed(second(x))
        x = first(x + self.attend(x, mask))
        return second(x + feed(x))


class Bert(nn.Module):
    """BERT with Hugging Face's names, initialized in the order of the names."""

    def __init__(self, layers=12, heads=12, width=768, context=512, dropout=0.1, norm_first=False, classes=None):
        super().__init__()
        self.classes = classes
        embeddings = tree(word_embeddings=Table(VOCABULARY, width, normal), position_embeddings=Table(context, width, normal),
                          token_type_embeddings=Table(2, width, normal), LayerNorm=nn.LayerNorm(width, 1e-12))
        encoder = tree(layer=nn.ModuleList(BertBlock(width, heads, norm_first) for _ in range(layers)))
        if norm_first:
            encoder["LayerNorm"] = nn.LayerNorm(width, 1e-12)
        self.bert = tree(embeddings=embeddings, encoder=encoder)
        if classes:
            self.bert["pooler"] = tree(dense=Linear(width, width))
            self.classifier = Linear(width, classes)
        else:
            predictions = tree(transform=tree(dense=Linear(width, width), LayerNorm=nn.LayerNorm(width, 1e-12)))
            predictions.register_parameter("bias", nn.Parameter(torch.zeros(VOCABULARY)))
            self.cls = tree(predictions=predictions)

    def forward(self, tokens):
        embeddings, encoder = self.bert["embeddings"], self.bert["encoder"]
        words = embeddings["word_embeddings"].weight
        x = words[tokens] + embeddings["position_embeddings"].weight[:tokens.shape[1]] + embeddings["token_type_embeddings"].weight[0]
        x = embeddings["LayerNorm"](x)
        for block in encoder["layer"]:
            x = block(x, mask_of(tokens))
        if "LayerNorm" in encoder:
            x = encoder["LayerNorm"](x)
        if self.classes:
            return self.classifier(torch.tanh(self.bert["pooler"]["dense"](x[:, 0])))
        predictions = self.cls["predictions"]
        x = predictions["transform"]["LayerNorm"](F.gelu(predictions["transform"]["dense"](x)))
        return F.linear(x, words, predictions.bias)


SMALL_BERT = {"layers": 2, "heads": 2, "width": 8, "context": 9}
# The model, its options, whether the rows are padded texts with classes (otherwise, the outputs are tokens), and PyTorch's model.
CASES = [
    ("lstm_classifier", {"embedding_dim": 5, "hidden_size": 4}, True, LstmClassifier),
    ("lstm_classifier", {"embedding_dim": 5, "hidden_size": 4, "num_layers": 2, "pooling": "mean"}, True, LstmClassifier),
    ("lstm_classifier", {"embedding_dim": 5, "hidden_size": 4, "num_layers": 2, "bidirectional": False}, True, LstmClassifier),
    ("lstm_lm", {"hidden_size": 6}, False, LstmLm),
    ("lstm_lm", {"hidden_size": 6, "num_layers": 1, "embedding_dim": 4, "tie_weights": False}, False, LstmLm),
    ("bert", SMALL_BERT, True, lambda **options: Bert(**options, classes=CLASSES)),
    ("bert", {**SMALL_BERT, "norm_first": True}, True, lambda **options: Bert(**options, classes=CLASSES)),
    ("bert", SMALL_BERT, False, Bert),
]


def mask_of(tokens):
    """Returns which tokens are not padding; 0 is only padding."""
    return tokens != 0


def tokens_of(padded):
    tokens = torch.arange(len(LENGTHS) * LENGTHS[0]).view(len(LENGTHS), -1) * 7 % (VOCABULARY - 1) + 1
    for row, length in enumerate(LENGTHS if padded else []):
        tokens[row, length:] = 0
    return tokens


def describe(kind, options, padded, make):
    torch.manual_seed(SEED)
    model = make(**options)
    parameters = named(model.named_parameters(), 4)
    move(model)
    tokens = tokens_of(padded)
    output = model.eval()(tokens)
    (output * torch.arange(output.numel()).double().sin().float().view_as(output)).sum().backward()
    gradients = [{"name": name, "first": numbers(p.grad.flatten()[:4]), "norm": numbers(p.grad.norm())}
                 for name, p in model.named_parameters()]
    if kind == "bert" and not options.get("norm_first"):
        ask_hugging_face(model, tokens, output, options)
    print(f"{kind} {options}: {list(output.shape)}")
    return {"type": kind, "options": options, "classes": padded, "tokens": tokens.tolist(), "parameters": parameters,
            "output": numbers(output.detach()), "gradients": gradients}


def ask_hugging_face(model, tokens, output, options):
    try:
        from transformers import BertConfig, BertForMaskedLM, BertForSequenceClassification
    except ImportError:
        print("bert: transformers is not installed; its BERT was not asked")
        return
    config = BertConfig(vocab_size=VOCABULARY, max_position_embeddings=options["context"], hidden_size=options["width"],
                        num_hidden_layers=options["layers"], num_attention_heads=options["heads"], num_labels=CLASSES,
                        intermediate_size=4 * options["width"])
    theirs = (BertForSequenceClassification if model.classes else BertForMaskedLM)(config)
    missing, unexpected = theirs.load_state_dict(model.state_dict(), strict=False)
    assert not unexpected and all("decoder" in name or "position_ids" in name for name in missing), (missing, unexpected)
    difference = (theirs.eval()(tokens, attention_mask=mask_of(tokens)).logits - output).abs().max().item()
    assert difference < 1e-5, difference
    print(f"bert: the names are those of Hugging Face's BERT, its outputs differ by {difference:.1e}")


if __name__ == "__main__":
    save("text_models", {"seed": SEED, "vocabulary": VOCABULARY, "classes": CLASSES, "cases": [describe(*case) for case in CASES]})
