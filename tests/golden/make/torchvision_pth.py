"""Trains a MobileNetV2 of torchvision 0.26 for a few steps, and writes its state dict with torch.save and its logits in
evaluation.

The tests build the pixels and the normalized inputs with the same formula.

Needs torch 2.11, torchvision 0.26, numpy and pillow."""
import torch
import torchvision
from golden import FOLDER, numbers, save

SEED = 11
FILE = "mobilenet_v2.pth"
OPTIONS = {"width_mult": 0.1}
CLASSES = 5
SHAPE = [4, 3, 40, 33]  # the shape of the inputs; an image file stores its pixels as H x W x C
MEAN, STD = 0.5, 0.25


def inputs():
    n, c, h, w = SHAPE
    i = torch.arange(n * c * h * w)
    pixels = (i * i // 97 + i * 5) % 256 * (1 + i // (c * h * w)) // n  # each image is brighter than the previous one
    return ((pixels.view(n, h, w, c).permute(0, 3, 1, 2).float() / 255 - MEAN) / STD).contiguous()


torch.manual_seed(SEED)
model = torchvision.models.mobilenet_v2(num_classes=CLASSES, **OPTIONS)
optimizer = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.5)
targets = (torch.arange(SHAPE[0]) % CLASSES).repeat(8)
for _ in range(60):
    optimizer.zero_grad()
    torch.nn.functional.cross_entropy(model(inputs().repeat(8, 1, 1, 1) + 0.5 * torch.randn(len(targets), *SHAPE[1:])), targets).backward()
    optimizer.step()
with torch.no_grad():
    logits = model.eval()(inputs())
print("logits\n", logits)
variances = torch.cat([b for name, b in model.named_buffers() if name.endswith("running_var")])
print("variances from", float(variances.min()), "to", float(variances.max()))
torch.save(model.state_dict(), FOLDER / FILE)
save("torchvision_pth", {"torchvision": torchvision.__version__, "cases": [
    {"file": FILE, "type": "mobilenet_v2", "options": OPTIONS, "classes": CLASSES, "input_shape": SHAPE, "mean": MEAN, "std": STD,
     "tensors": len(model.state_dict()), "logits": numbers(logits)}]})
