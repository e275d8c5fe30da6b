"""Vision transformers, ConvNeXt, GPT-2 and a sequential network after torch.manual_seed: names, shapes and first values of each
parameter, and logits of a given input after every parameter was shifted a little (torchvision initializes some heads and block
scales to zero or nearly zero, which would hide the layers before them).

Compares with the GPT-2 of Hugging Face's transformers if it is installed. Also writes script.pt, a scripted module.

Needs torch 2.11, torchvision 0.26, numpy and pillow."""
import hashlib
import math

import torch
import torch.nn.functional as F
import torchvision
from golden import FOLDER, move, named, numbers, save
from torch import nn
from torchvision.models.vision_transformer import VisionTransformer

SEED = 42


def vit(width, depth, heads, patch):
    def make(shape, classes, dropout=0.0, attention_dropout=0.0, patch_size=patch):
        return VisionTransformer(shape[1], patch_size, depth, heads, width, 4 * width, dropout, attention_dropout, classes)
    return make


def convnext_tiny(shape, classes, **options):
    return torchvision.models.convnext_tiny(weights=None, num_classes=classes, **options)


class Conv1D(nn.Module):
    """GPT-2's linear layer: the weight is [in, out]."""

    def __init__(self, inputs, outputs, std=0.02):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(inputs, outputs).normal_(0, std))
        self.bias = nn.Parameter(torch.zeros(outputs))

    def forward(self, x):
        return x @ self.weight + self.bias


class Attention(nn.Module):
    def __init__(self, width, heads, std):
        super().__init__()
        self.heads = heads
        self.c_attn = Conv1D(width, 3 * width)
        self.c_proj = Conv1D(width, width, std)

    def forward(self, x):
        n, t, width = x.shape
        q, k, v = (part.view(n, t, self.heads, -1).transpose(1, 2) for part in self.c_attn(x).split(width, dim=2))
        scores = q @ k.transpose(-2, -1) / math.sqrt(width // self.heads)
        scores = scores.masked_fill(torch.ones(t, t).triu(1).bool(), float("-inf"))
        return self.c_proj((scores.softmax(-1) @ v).transpose(1, 2).reshape(n, t, width))


class Mlp(nn.Module):
    def __init__(self, width, std):
        super().__init__()
        self.c_fc = Conv1D(width, 4 * width)
        self.c_proj = Conv1D(4 * width, width, std)

    def forward(self, x):
        return self.c_proj(F.gelu(self.c_fc(x), approximate="tanh"))


class Block(nn.Module):
    def __init__(self, width, heads, std):
        super().__init__()
        self.ln_1 = nn.LayerNorm(width)
        self.attn = Attention(width, heads, std)
        self.ln_2 = nn.LayerNorm(width)
        self.mlp = Mlp(width, std)

    def forward(self, x):
        x = x + self.attn(self.ln_1(x))
        return x + self.mlp(self.ln_2(x))


class Table(nn.Module):
    def __init__(self, rows, width):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(rows, width).normal_(0, 0.02))


class Gpt(nn.Module):
    """GPT-2 with its parameter names, initialized in the order of the names; the output layer shares wte."""

    def __init__(self, shape, classes, layers=12, heads=12, width=768, context=1024, dropout=0.1):
        super().__init__()
        self.heads = heads
        self.wte, self.wpe = Table(classes, width), Table(context, width)
        self.h = nn.ModuleList(Block(width, heads, 0.02 / math.sqrt(2 * layers)) for _ in range(layers))
        self.ln_f = nn.LayerNorm(width)

    def forward(self, tokens):
        x = self.wte.weight[tokens] + self.wpe.weight[:tokens.shape[1]]
        for block in self.h:
            x = block(x)
        return self.ln_f(x) @ self.wte.weight.T


class Residual(nn.Module):
    def __init__(self, layers, shortcut):
        super().__init__()
        self.layers, self.shortcut = nn.Sequential(*layers), nn.Sequential(*shortcut)

    def forward(self, x):
        return self.layers(x) + self.shortcut(x)


def sequential(shape, classes, layers):
    """Returns a network with every layer type; tests/stages/transformers_test.cpp builds the same from `layers`."""
    return nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1, bias=False), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(3, 2, 1),
        Residual([nn.Conv2d(8, 8, 3, padding=2, dilation=2, groups=8), nn.GELU(), nn.Conv2d(8, 12, 1)], [nn.Conv2d(8, 12, 1)]),
        nn.AvgPool2d(2), nn.SiLU(), nn.LayerNorm([12, 2, 2]), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(12, 10), nn.Tanh(),
        nn.Dropout(0.5), nn.Linear(10, 6, bias=False), nn.Sigmoid(), nn.GELU("tanh"), nn.Linear(6, classes))


LAYERS = [
    {"type": "conv2d", "out_channels": 8, "kernel_size": 3, "padding": 1, "bias": False}, "batch_norm2d", "relu",
    {"type": "max_pool2d", "kernel_size": 3, "stride": 2, "padding": 1},
    {"type": "residual",
     "layers": [{"type": "conv2d", "out_channels": 8, "kernel_size": 3, "padding": 2, "dilation": 2, "groups": 8}, "gelu",
                {"type": "conv2d", "out_channels": 12, "kernel_size": 1}],
     "shortcut": [{"type": "conv2d", "out_channels": 12, "kernel_size": 1}]},
    {"type": "avg_pool2d", "kernel_size": 2}, "silu", {"type": "layer_norm", "dims": 3}, "adaptive_avg_pool2d", "flatten",
    {"type": "linear", "out_features": 10}, "tanh", "dropout", {"type": "linear", "out_features": 6, "bias": False}, "sigmoid",
    {"type": "gelu", "approximate": "tanh"}, "linear"]


def bigram(shape, classes, layers):
    return nn.Sequential(nn.Embedding(classes, 5), nn.Linear(5, classes))


MODELS = {"vit_b_16": vit(768, 12, 12, 16), "vit_tiny": vit(192, 12, 3, 16), "convnext_tiny": convnext_tiny, "gpt": Gpt,
          "sequential": sequential, "bigram": bigram}
CASES = [
    ("vit_b_16", {}, [3, 32, 32], 3),
    ("vit_tiny", {"patch_size": 4}, [3, 12, 12], 4),
    ("vit_tiny", {"dropout": 0.1, "attention_dropout": 0.1}, [3, 32, 32], 2),
    ("convnext_tiny", {}, [3, 64, 64], 3),
    ("gpt", {"layers": 3, "heads": 4, "width": 32, "context": 16}, [11], 29),
    ("sequential", {"layers": LAYERS}, [3, 8, 8], 3),
    ("bigram", {"layers": [{"type": "embedding", "embedding_dim": 5}, "linear"]}, [6], 7),
]


def inputs_of(shape, classes):
    """Returns the input that the test builds too: sin(0), sin(1), ... in two rows; for tokens 0, 7, 14, ... modulo their number."""
    count = 2 * torch.Size(shape).numel()
    if len(shape) == 1:
        return (torch.arange(count) * 7 % classes).view(2, *shape)
    return torch.arange(count).double().sin().float().view(2, *shape)


def describe(kind, options, shape, classes):
    torch.manual_seed(SEED)
    model = MODELS[kind](shape, classes, **options)
    parameters, buffers = named(model.named_parameters(), 4), named(model.named_buffers())
    move(model)
    inputs = inputs_of(shape, classes)
    logits = model.eval()(inputs).detach()
    if kind == "gpt":
        ask_hugging_face(model, inputs, logits, options)
    print(f"{kind}: {sum(p.numel() for p in model.parameters())} parameters, logits {list(logits.shape)}")
    return {"type": "sequential" if kind == "bigram" else kind, "options": options, "input_shape": shape, "classes": classes,
            "tokens": len(shape) == 1, "parameters": parameters, "buffers": buffers, "logits": numbers(logits)}


def ask_hugging_face(model, tokens, logits, options):
    try:
        from transformers import GPT2Config, GPT2LMHeadModel
    except ImportError:
        print("gpt: transformers is not installed; its GPT-2 was not asked")
        return
    theirs = GPT2LMHeadModel(GPT2Config(vocab_size=len(model.wte.weight), n_positions=options["context"], n_embd=options["width"],
                                        n_layer=options["layers"], n_head=options["heads"]))
    missing, unexpected = theirs.transformer.load_state_dict(model.state_dict(), strict=False)
    assert not unexpected and all("attn" in name for name in missing), (missing, unexpected)
    difference = (theirs.eval()(tokens).logits - logits).abs().max().item()
    assert difference < 1e-5, difference
    print(f"gpt: the names are those of Hugging Face's GPT-2, its logits differ by {difference:.1e}")


class Scripted(nn.Module):
    """A small network with parameters, one of them frozen, and buffers, for tests of `torchscript`."""

    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(1, 4, 3, stride=2)
        self.norm = nn.BatchNorm2d(4)
        self.scale = nn.Parameter(torch.ones(1), requires_grad=False)
        self.head = nn.Linear(4, 10)

    def forward(self, x):
        x = torch.relu(self.norm(self.conv(x)))
        return self.head(F.dropout(x.mean([2, 3]), 0.1, self.training)) * self.scale


def script():
    torch.manual_seed(SEED)
    model = Scripted()
    path = FOLDER / "script.pt"
    torch.jit.save(torch.jit.script(model), str(path))
    inputs = inputs_of([1, 28, 28], 10)
    return {"sha256": hashlib.sha256(path.read_bytes()).hexdigest(), "input_shape": [1, 28, 28], "classes": 10,
            "parameters": [{"name": name, "trained": p.requires_grad} for name, p in model.named_parameters()],
            "buffers": [{"name": name} for name, _ in model.named_buffers()],
            "logits": numbers(model.eval()(inputs).detach())}


if __name__ == "__main__":
    save("transformers", {"torchvision": torchvision.__version__, "seed": SEED, "cases": [describe(*case) for case in CASES],
                          "script": script()})
