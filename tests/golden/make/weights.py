"""Small files of torch.save, and the tensors that PyTorch reads from them: the SHA-256 of each tensor's bytes, row by row.

Needs torch 2.11 and numpy."""
import argparse
import collections
import hashlib
import io
import pathlib
import struct
import zipfile
from collections import OrderedDict

import numpy
import torch
from golden import FOLDER, save

TYPES = {torch.float32: "F32", torch.float64: "F64", torch.float16: "F16", torch.bfloat16: "BF16", torch.int64: "I64",
         torch.int32: "I32", torch.int16: "I16", torch.int8: "I8", torch.uint8: "U8", torch.bool: "BOOL"}
rows = []


def describe(name, tensor):
    raw = bytes(tensor.detach().contiguous().flatten().view(torch.uint8).tolist()) if tensor.numel() else b""
    return {"name": name, "dtype": TYPES[tensor.dtype], "shape": list(tensor.shape), "sha256": hashlib.sha256(raw).hexdigest()}


def keep(file, content, tensors=None, **form):
    """Writes the file; `tensors` are the expected tensors, as PyTorch reads them, if they are not the content itself."""
    torch.save(content, FOLDER / file, **form)
    note(file, tensors or content)


def note(file, tensors, **more):
    rows.append({"file": file, **more, "tensors": [describe(name, tensor) for name, tensor in tensors.items()]})


def drawn(*shape):
    return torch.randn(*shape)


def layouts():
    base = torch.arange(24, dtype=torch.float32).view(4, 6)
    tied = drawn(3, 2)
    return OrderedDict([
        ("dense", base), ("transposed", base.t()), ("columns", base[:, 1:4]), ("steps", base.flatten()[1::5]),
        ("expanded", drawn(1, 3).expand(2, 3)), ("channels_last", drawn(2, 3, 2, 2).contiguous(memory_format=torch.channels_last)),
        ("scalar", torch.tensor(2.5)), ("empty", torch.zeros(0, 3)), ("tied.a", tied), ("tied.b", tied),
        ("parameter", torch.nn.Parameter(drawn(2))),
        *((name, drawn(3).mul(50).to(dtype)) for dtype, name in TYPES.items())])


def repacked(source, target, method, zip64=False):
    """Writes the same archive with another zip writer."""
    with zipfile.ZipFile(FOLDER / source) as old, zipfile.ZipFile(FOLDER / target, "w") as new:
        for entry in old.infolist():
            copy = zipfile.ZipInfo(entry.filename)
            copy.compress_type = method
            with new.open(copy, "w", force_zip64=zip64) as out:
                out.write(old.read(entry))


def with_zip64_directory(file):
    """Moves every 32-bit size and offset of the directory to its zip64 field, as in archives above 4 GiB."""
    raw = (FOLDER / file).read_bytes()
    with zipfile.ZipFile(io.BytesIO(raw)) as old:
        entries = old.infolist()
        start = old.start_dir
    directory = b""
    for entry in entries:
        extra = struct.pack("<HHQQQ", 1, 24, entry.file_size, entry.compress_size, entry.header_offset)
        name = entry.filename.encode()
        directory += struct.pack("<IHHHHHHIIIHHHHHII", 0x02014B50, 45, 45, 0, 0, 0, 0, entry.CRC, 2**32 - 1, 2**32 - 1, len(name),
                                 len(extra), 0, 0, 0, 0, 2**32 - 1) + name + extra
    end = start + len(directory)
    record = struct.pack("<IQHHIIQQQQ", 0x06064B50, 44, 45, 45, 0, 0, len(entries), len(entries), len(directory), start)
    locator = struct.pack("<IIQI", 0x07064B50, 0, end, 1)
    last = struct.pack("<IHHHHIIH", 0x06054B50, 0, 0, 2**16 - 1, 2**16 - 1, 2**32 - 1, 2**32 - 1, 0)
    (FOLDER / file).write_bytes(raw[:start] + directory + record + locator + last)


torch.manual_seed(5)
keep("layouts.pth", layouts())

# 28 x 28 pixels, 8 hidden units, 7 classes, with the parameter names of trainctl's mlp with hidden: [8].
mlp = OrderedDict([("fc1.weight", drawn(8, 784) * 0.05), ("fc1.bias", drawn(8) * 0.1), ("fc2.weight", drawn(7, 8)), ("fc2.bias", drawn(7))])
keep("mlp_7_classes.pth", mlp)

model = torch.nn.Sequential(OrderedDict([("conv", torch.nn.Conv2d(1, 2, 3)), ("bn", torch.nn.BatchNorm2d(2))]))
optimizer = torch.optim.Adam(model.parameters())
model(drawn(4, 1, 5, 5)).sum().backward()
optimizer.step()
keep("module.pth", model.state_dict())
lightning = {"epoch": 3, "global_step": 2**40, "pytorch-lightning_version": "2.2.0", "lr": 1e-3, "best": None, "done": True,
             "state_dict": OrderedDict((f"model.{name}", tensor) for name, tensor in model.state_dict().items()),
             "optimizer_states": [optimizer.state_dict()], "lr_schedulers": [], "seed": 2**80}
keep("lightning.ckpt", lightning, lightning["state_dict"])
timm = {"model": {f"module._orig_mod.{name}": tensor for name, tensor in model.state_dict().items()}, "epoch": 7, "arch": "tiny"}
keep("wrapped.pth", timm, timm["model"])

# timm.utils.CheckpointSaver writes this: the settings of the command line are an object.
settings = argparse.Namespace(model="tiny", lr=0.1, betas=(0.9, 0.95), output=pathlib.PurePosixPath("out"), seed=None,
                              sizes={3, 224}, counts=collections.defaultdict(int, a=1), metric=numpy.float64(71.5))
averaged = OrderedDict((name, tensor.double().mul(0.5).to(tensor.dtype)) for name, tensor in model.state_dict().items())
keep("timm.pth.tar", {"epoch": 4, "arch": "tiny", "state_dict": model.state_dict(), "optimizer": optimizer.state_dict(),
                      "version": 2, "args": settings, "amp_scaler": {"scale": 65536.0}, "metric": 71.5,
                      "state_dict_ema": averaged}, model.state_dict())
note("timm.pth.tar", averaged, section="state_dict_ema")

repacked("module.pth", "zip64.pth", zipfile.ZIP_STORED, zip64=True)
with_zip64_directory("zip64.pth")
note("zip64.pth", model.state_dict())

# The reader refuses these files.
torch.save(model.state_dict(), FOLDER / "old_format.pth", _use_new_zipfile_serialization=False)
torch.save(torch.nn.Linear(2, 2), FOLDER / "whole_model.pth")
torch.save(model.state_dict(), FOLDER / "protocol_4.pth", pickle_protocol=4)
torch.jit.save(torch.jit.script(torch.nn.Linear(1, 1)), FOLDER / "script.pth")
repacked("module.pth", "compressed.pth", zipfile.ZIP_DEFLATED)
save("weights", {"files": rows})
