"""Layers of sequential models after torch.manual_seed: names, shapes and first values of each parameter; the output in training and
in evaluation, and the gradients of the input and of every parameter, after every parameter was shifted a little. The loss is the sum
of the outputs times sin(0), sin(1), ... Layers without a case here are in transformer_models.py.

Needs torch 2.11."""
import torch
from golden import move, named, numbers, ramp, save
from torch import nn
from torch.nn.utils import rnn

SEED = 42


class Permute(nn.Module):
    """torchvision.ops.Permute."""

    def __init__(self, dims):
        super().__init__()
        self.dims = dims

    def forward(self, x):
        return x.permute(self.dims)


class PositionalEmbedding(nn.Module):
    def __init__(self, rows, width):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(rows, width).normal_(0, 0.02))

    def forward(self, x):
        return x + self.weight[:x.shape[1]]


class Attention(nn.MultiheadAttention):
    """Self-attention, with a causal mask if `causal`."""

    def __init__(self, *args, causal=False, **options):
        super().__init__(*args, batch_first=True, **options)
        self.causal = causal

    def forward(self, x):
        mask = nn.Transformer.generate_square_subsequent_mask(x.shape[1]) if self.causal else None
        return super().forward(x, x, x, attn_mask=mask, is_causal=self.causal, need_weights=False)[0]


class Encoder(nn.TransformerEncoderLayer):
    def __init__(self, *args, causal=False, **options):
        super().__init__(*args, batch_first=True, **options)
        self.causal = causal

    def forward(self, x):
        mask = nn.Transformer.generate_square_subsequent_mask(x.shape[1]) if self.causal else None
        return super().forward(x, src_mask=mask, is_causal=self.causal)


def recurrent(kind):
    """Returns a subclass of a recurrent network that returns all outputs, or the final state of the top layer; with `packed`, of
    rows of the lengths LENGTHS."""

    class Recurrent(kind):
        def __init__(self, *args, last=False, packed=False, **options):
            super().__init__(*args, batch_first=True, **options)
            self.last, self.packed = last, packed

        def forward(self, x):
            inputs = rnn.pack_padded_sequence(x, LENGTHS, batch_first=True, enforce_sorted=False) if self.packed else x
            sequence, state = super().forward(inputs)
            if self.packed:
                sequence = rnn.pad_packed_sequence(sequence, batch_first=True, total_length=x.shape[1])[0]
            state = state[0] if isinstance(state, tuple) else state
            directions = 2 if self.bidirectional else 1
            return torch.cat(list(state[-directions:]), dim=1) if self.last else sequence

    return Recurrent


Rnn, Gru, Lstm = recurrent(nn.RNN), recurrent(nn.GRU), recurrent(nn.LSTM)


class Concat(nn.Module):
    def __init__(self, branches, dim):
        super().__init__()
        self.branches, self.dim = nn.ModuleList(nn.Sequential(*branch) for branch in branches), dim

    def forward(self, x):
        return torch.cat([branch(x) for branch in self.branches], dim=self.dim)


IMAGE, SEQUENCE = [4, 5, 6], [5, 8]
LENGTHS = torch.tensor([2, 4])
CONV = {"out_channels": 6, "kernel_size": 3, "stride": 2, "padding": 2, "dilation": 2, "groups": 2}
UP = {"out_channels": 6, "kernel_size": 3, "stride": 2, "padding": 1, "output_padding": 1, "groups": 2}
BRANCHES = [{"layers": [{"type": "conv2d", "out_channels": 3, "kernel_size": 1}, "relu"]},
            {"layers": [{"type": "conv2d", "out_channels": 2, "kernel_size": 3, "padding": 1}]}, {"layers": []}]
# The layer, its options, the shape of a sample, and a function that makes PyTorch's layer.
CASES = [
    ("conv1d", {"out_channels": 6, "kernel_size": 3}, [4, 9], lambda: nn.Conv1d(4, 6, 3)),
    ("conv1d", {**CONV, "bias": False}, [4, 9], lambda: nn.Conv1d(4, 6, 3, 2, 2, 2, 2, bias=False)),
    ("conv_transpose2d", {"out_channels": 3, "kernel_size": 2}, IMAGE, lambda: nn.ConvTranspose2d(4, 3, 2)),
    ("conv_transpose2d", UP, IMAGE, lambda: nn.ConvTranspose2d(4, 6, 3, 2, 1, 1, 2)),
    ("conv_transpose2d", {"out_channels": 3, "kernel_size": 2, "dilation": 3, "bias": False}, IMAGE,
     lambda: nn.ConvTranspose2d(4, 3, 2, dilation=3, bias=False)),
    ("group_norm", {"num_groups": 2}, IMAGE, lambda: nn.GroupNorm(2, 4)),
    ("group_norm", {"num_groups": 4, "eps": 0.01, "affine": False}, [8, 3], lambda: nn.GroupNorm(4, 8, 0.01, False)),
    ("instance_norm2d", {}, IMAGE, lambda: nn.InstanceNorm2d(4)),
    ("instance_norm2d", {"affine": True, "track_running_stats": True, "momentum": 0.3, "eps": 0.01}, IMAGE,
     lambda: nn.InstanceNorm2d(4, 0.01, 0.3, True, True)),
    ("rms_norm", {}, SEQUENCE, lambda: nn.RMSNorm(8)),
    ("rms_norm", {"dims": 3, "eps": 0.1}, IMAGE, lambda: nn.RMSNorm(IMAGE, 0.1)),
    ("rms_norm", {"elementwise_affine": False}, SEQUENCE, lambda: nn.RMSNorm(8, elementwise_affine=False)),
    ("leaky_relu", {}, [6], lambda: nn.LeakyReLU()),
    ("leaky_relu", {"negative_slope": 0.2}, [6], lambda: nn.LeakyReLU(0.2)),
    ("prelu", {}, IMAGE, lambda: nn.PReLU()),
    ("prelu", {"num_parameters": 4, "init": 0.1}, IMAGE, lambda: nn.PReLU(4, 0.1)),
    ("upsample", {"scale_factor": 2}, [1, 2, 3], lambda: nn.Upsample(scale_factor=2)),
    ("upsample", {"size": 5, "mode": "bilinear"}, [1, 2, 3], lambda: nn.Upsample(5, mode="bilinear")),
    ("upsample", {"scale_factor": 1.5, "mode": "bilinear", "align_corners": True}, [1, 3, 5],
     lambda: nn.Upsample(scale_factor=1.5, mode="bilinear", align_corners=True)),
    ("upsample", {"scale_factor": 2.4, "mode": "bilinear"}, [1, 2, 3], lambda: nn.Upsample(scale_factor=2.4, mode="bilinear")),
    ("adaptive_max_pool2d", {}, IMAGE, lambda: nn.AdaptiveMaxPool2d(1)),
    ("adaptive_max_pool2d", {"output_size": 3}, IMAGE, lambda: nn.AdaptiveMaxPool2d(3)),
    ("flatten", {"start_dim": 1, "end_dim": 2}, [2, 3, 4], lambda: nn.Flatten(1, 2)),
    ("flatten", {"start_dim": 2}, [2, 3, 4], lambda: nn.Flatten(2)),
    ("permute", {"dims": [0, 2, 1]}, [3, 4], lambda: Permute([0, 2, 1])),
    ("positional_embedding", {}, SEQUENCE, lambda: PositionalEmbedding(5, 8)),
    ("positional_embedding", {"num_embeddings": 7}, SEQUENCE, lambda: PositionalEmbedding(7, 8)),
    ("multihead_attention", {"num_heads": 2}, SEQUENCE, lambda: Attention(8, 2)),
    ("multihead_attention", {"num_heads": 4, "bias": False, "is_causal": True}, SEQUENCE,
     lambda: Attention(8, 4, bias=False, causal=True)),
    ("transformer_encoder_layer", {"nhead": 2, "dim_feedforward": 6, "dropout": 0}, SEQUENCE, lambda: Encoder(8, 2, 6, 0)),
    ("transformer_encoder_layer", {"nhead": 4, "dim_feedforward": 6, "dropout": 0, "activation": "gelu", "norm_first": True,
                                   "layer_norm_eps": 0.01, "bias": False, "is_causal": True}, SEQUENCE,
     lambda: Encoder(8, 4, 6, 0, "gelu", 0.01, norm_first=True, bias=False, causal=True)),
    ("rnn", {"hidden_size": 3}, SEQUENCE, lambda: Rnn(8, 3)),
    ("rnn", {"hidden_size": 3, "num_layers": 2, "bias": False, "nonlinearity": "relu", "bidirectional": True, "output": "last"}, SEQUENCE,
     lambda: Rnn(8, 3, 2, "relu", bias=False, bidirectional=True, last=True)),
    ("gru", {"hidden_size": 3, "num_layers": 2}, SEQUENCE, lambda: Gru(8, 3, 2)),
    ("gru", {"hidden_size": 3, "bidirectional": True, "output": "last"}, SEQUENCE,
     lambda: Gru(8, 3, bidirectional=True, last=True)),
    ("lstm", {"hidden_size": 3, "num_layers": 2, "bidirectional": True}, SEQUENCE, lambda: Lstm(8, 3, 2, bidirectional=True)),
    ("lstm", {"hidden_size": 3, "bias": False, "output": "last"}, SEQUENCE, lambda: Lstm(8, 3, bias=False, last=True)),
    ("rnn", {"hidden_size": 3, "num_layers": 2, "packed": True}, SEQUENCE, lambda: Rnn(8, 3, 2, packed=True)),
    ("gru", {"hidden_size": 3, "num_layers": 2, "bidirectional": True, "packed": True}, SEQUENCE,
     lambda: Gru(8, 3, 2, bidirectional=True, packed=True)),
    ("lstm", {"hidden_size": 3, "num_layers": 2, "packed": True, "output": "last"}, SEQUENCE,
     lambda: Lstm(8, 3, 2, packed=True, last=True)),
    ("lstm", {"hidden_size": 3, "num_layers": 2, "bidirectional": True, "packed": True, "output": "last"}, SEQUENCE,
     lambda: Lstm(8, 3, 2, bidirectional=True, packed=True, last=True)),
    ("concat", {"branches": BRANCHES}, IMAGE,
     lambda: Concat([[nn.Conv2d(4, 3, 1), nn.ReLU()], [nn.Conv2d(4, 2, 3, padding=1)], []], 1)),
    ("concat", {"branches": [{"layers": []}, {"layers": ["tanh"]}], "dim": 2}, SEQUENCE, lambda: Concat([[], [nn.Tanh()]], 2)),
]


def describe(kind, options, shape, make):
    torch.manual_seed(SEED)
    layer = make()
    parameters, buffers = named(layer.named_parameters(), 4), named(layer.named_buffers())
    move(layer)
    inputs = ramp(shape).requires_grad_()
    output = layer(inputs)
    (output * ramp(output.shape[1:])).sum().backward()
    gradients = {"input": numbers(inputs.grad), **{name: numbers(p.grad) for name, p in layer.named_parameters()}}
    evaluated = layer.eval()(inputs).detach()
    print(f"{kind} {options}: {list(output.shape)}")
    lengths = {"lengths": LENGTHS.tolist()} if options.get("packed") else {}
    return {"type": kind, "options": options, "input_shape": shape, **lengths, "parameters": parameters, "buffers": buffers,
            "output": numbers(output.detach()), "gradients": gradients, "evaluated": numbers(evaluated)}


if __name__ == "__main__":
    save("layers", {"seed": SEED, "cases": [describe(*case) for case in CASES]})
