"""Models whose output is an image after torch.manual_seed: names, shapes and first values of each parameter; the output in training
and in evaluation, and the gradient of each parameter (its first values and its norm), after every parameter was shifted a little. The
loss is the sum of the outputs times sin(0), sin(1), ...

The classes of U-Net are those of github.com/milesial/Pytorch-UNet, extended by the options. Needs torch 2.11."""
import torch
import torch.nn.functional as F
from golden import move, named, numbers, ramp, save
from torch import nn

SEED = 42


class DoubleConv(nn.Module):
    def __init__(self, inputs, outputs, inner=None, batch_norm=True):
        super().__init__()
        layers = []
        for before, after in ((inputs, inner or outputs), (inner or outputs, outputs)):
            layers += [nn.Conv2d(before, after, 3, padding=1, bias=not batch_norm), *[nn.BatchNorm2d(after)] * batch_norm, nn.ReLU()]
        self.double_conv = nn.Sequential(*layers)

    def forward(self, x):
        return self.double_conv(x)


class Down(nn.Module):
    def __init__(self, inputs, outputs, batch_norm):
        super().__init__()
        self.maxpool_conv = nn.Sequential(nn.MaxPool2d(2), DoubleConv(inputs, outputs, None, batch_norm))

    def forward(self, x):
        return self.maxpool_conv(x)


class Up(nn.Module):
    def __init__(self, inputs, outputs, bilinear, batch_norm):
        super().__init__()
        if bilinear:
            self.up = nn.Upsample(scale_factor=2, mode="bilinear", align_corners=True)
            self.conv = DoubleConv(inputs, outputs, inputs // 2, batch_norm)
        else:
            self.up = nn.ConvTranspose2d(inputs, inputs // 2, 2, 2)
            self.conv = DoubleConv(inputs, outputs, None, batch_norm)

    def forward(self, below, skipped):
        x = self.up(below)
        rows, columns = skipped.shape[2] - x.shape[2], skipped.shape[3] - x.shape[3]
        x = F.pad(x, [columns // 2, columns - columns // 2, rows // 2, rows - rows // 2])
        return self.conv(torch.cat([skipped, x], dim=1))


class OutConv(nn.Module):
    def __init__(self, inputs, outputs):
        super().__init__()
        self.conv = nn.Conv2d(inputs, outputs, 1)

    def forward(self, x):
        return self.conv(x)


class Unet(nn.Module):
    def __init__(self, shape, classes, channels=64, depth=4, batch_norm=True, upsampling="transposed"):
        super().__init__()
        bilinear = upsampling == "bilinear"
        factor = 2 if bilinear else 1
        self.depth = depth
        self.inc = DoubleConv(shape[0], channels, None, batch_norm)
        for i in range(1, depth + 1):
            below = channels * 2 ** i // (factor if i == depth else 1)
            setattr(self, f"down{i}", Down(channels * 2 ** (i - 1), below, batch_norm))
        for i in range(1, depth + 1):
            inputs = channels * 2 ** (depth - i + 1)
            setattr(self, f"up{i}", Up(inputs, inputs // 2 // (1 if i == depth else factor), bilinear, batch_norm))
        self.outc = OutConv(channels, classes)

    def forward(self, x):
        levels = [self.inc(x)]
        for i in range(1, self.depth + 1):
            levels.append(getattr(self, f"down{i}")(levels[-1]))
        x = levels.pop()
        for i in range(1, self.depth + 1):
            x = getattr(self, f"up{i}")(x, levels.pop())
        return self.outc(x)


class Autoencoder(nn.Module):
    def __init__(self, shape, classes, channels=(32, 64), latent_dim=32):
        super().__init__()
        sizes, layers, decoder, before = [shape[1:]], [], [], shape[0]
        for after in channels:
            layers += [nn.Conv2d(before, after, 3, 2, 1), nn.ReLU()]
            sizes.append([(size + 1) // 2 for size in sizes[-1]])
            before = after
        smallest = [before, *sizes[-1]]
        values = torch.Size(smallest).numel()
        self.encoder = nn.Sequential(*layers, nn.Flatten(), nn.Linear(values, latent_dim))
        linear = nn.Linear(latent_dim, values)
        for after, size in zip([*channels[-2::-1], shape[0]], sizes[-2::-1]):
            decoder += [nn.ConvTranspose2d(before, after, 3, 2, 1, [1 - extent % 2 for extent in size]), nn.ReLU()]
            before = after
        self.decoder = nn.Sequential(linear, nn.ReLU(), nn.Unflatten(1, smallest), *decoder[:-1])

    def forward(self, x):
        return self.decoder(self.encoder(x))


def draw_dcgan(module):
    """The function weights_init of github.com/pytorch/examples."""
    if isinstance(module, (nn.Conv2d, nn.ConvTranspose2d)):
        nn.init.normal_(module.weight, 0, 0.02)
    elif isinstance(module, nn.BatchNorm2d):
        nn.init.normal_(module.weight, 1, 0.02)
        nn.init.zeros_(module.bias)


class DcganGenerator(nn.Module):
    """The Generator of github.com/pytorch/examples, also for other sizes: `image` is the shape of its outputs."""

    def __init__(self, shape, classes, image, channels=64):
        super().__init__()
        doublings, smallest = {28: (2, 7), 32: (3, 4), 64: (4, 4)}[image[1]]
        widths = [channels * 2 ** i for i in range(doublings)][::-1]
        layers = [nn.ConvTranspose2d(shape[0], widths[0], smallest, 1, 0, bias=False)]
        for before, after in zip(widths, [*widths[1:], image[0]]):
            layers += [nn.BatchNorm2d(before), nn.ReLU(True), nn.ConvTranspose2d(before, after, 4, 2, 1, bias=False)]
        self.main = nn.Sequential(*layers, nn.Tanh())
        self.apply(draw_dcgan)

    def forward(self, x):
        return self.main(x[:, :, None, None])


class DcganDiscriminator(nn.Module):
    """The Discriminator of github.com/pytorch/examples, also for other sizes, and without its sigmoid."""

    def __init__(self, shape, classes, channels=64, batch_norm=True):
        super().__init__()
        doublings, smallest = {28: (2, 7), 32: (3, 4), 64: (4, 4)}[shape[1]]
        before, layers = shape[0], []
        for i in range(doublings):
            after = channels * 2 ** i
            layers += [nn.Conv2d(before, after, 4, 2, 1, bias=False), *[nn.BatchNorm2d(after)] * (batch_norm and i > 0), nn.LeakyReLU(0.2, inplace=True)]
            before = after
        self.main = nn.Sequential(*layers, nn.Conv2d(before, classes, smallest, 1, 0, bias=False))
        self.apply(draw_dcgan)

    def forward(self, x):
        return self.main(x).flatten(1)


MODELS = {"unet": Unet, "autoencoder": Autoencoder, "dcgan_generator": DcganGenerator, "dcgan_discriminator": DcganDiscriminator}
# The model, its options, the shape of a sample and, if it is a generator, of its images.
CASES = [
    ("unet", {"channels": 4, "depth": 2}, [3, 8, 12]),
    ("unet", {"channels": 4, "depth": 2, "upsampling": "bilinear"}, [2, 9, 11]),
    ("unet", {"channels": 2, "depth": 3, "batch_norm": False}, [1, 10, 8]),
    ("autoencoder", {"channels": [4, 6], "latent_dim": 5}, [3, 8, 8]),
    ("autoencoder", {"channels": [3, 4, 5], "latent_dim": 2}, [1, 10, 7]),
    ("dcgan_generator", {"channels": 2}, [5], [1, 28, 28]),
    ("dcgan_generator", {"channels": 2}, [3], [3, 32, 32]),
    ("dcgan_generator", {"channels": 1}, [3], [1, 64, 64]),
    ("dcgan_discriminator", {"channels": 2}, [1, 28, 28]),
    ("dcgan_discriminator", {"channels": 2, "batch_norm": False}, [3, 32, 32]),
    ("dcgan_discriminator", {"channels": 1}, [1, 64, 64]),
]


def describe(kind, options, shape, image=None):
    classes = 3
    torch.manual_seed(SEED)
    made = {"image": image} if image else {}
    model = MODELS[kind](shape, classes, **options, **made)
    parameters, buffers = named(model.named_parameters(), 4), named(model.named_buffers())
    move(model)
    output = model(ramp(shape))
    (output * ramp(output.shape[1:])).sum().backward()
    gradients = [{"name": name, "first": numbers(p.grad.flatten()[:4]), "norm": numbers(p.grad.norm())}
                 for name, p in model.named_parameters()]
    evaluated = model.eval()(ramp(shape))
    print(f"{kind} {options}: {list(output.shape)}")
    return {"type": kind, "options": options, "input_shape": shape, **made, "classes": classes, "parameters": parameters, "buffers": buffers,
            "output": numbers(output.detach()), "gradients": gradients, "evaluated": numbers(evaluated.detach())}


if __name__ == "__main__":
    save("pixel_models", {"seed": SEED, "cases": [describe(*case) for case in CASES]})
