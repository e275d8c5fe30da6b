"""Two steps of the task gan for each loss, with and without R1: a small DCGAN discriminator with SGD, and the images offset + ramp *
scale, where `scale`, one number for each image, stands for the generator. The penalty R1 is the gradient of autograd. Needs torch 2.11."""
import torch
import torch.nn.functional as F
from golden import move, numbers, ramp, save
from pixel_models import DcganDiscriminator

SEED, IMAGE, OPTIONS, STEPS = 1, [1, 28, 28], {"channels": 2}, 2
LOSSES = {
    "non_saturating": (lambda real, fake: F.softplus(-real).mean() + F.softplus(fake).mean(), lambda fake: F.softplus(-fake).mean()),
    "hinge": (lambda real, fake: F.relu(1 - real).mean() + F.relu(1 + fake).mean(), lambda fake: -fake.mean()),
}


def case(loss, r1_weight):
    torch.manual_seed(SEED)
    discriminator = DcganDiscriminator(IMAGE, 1, **OPTIONS)
    move(discriminator)
    optimizer = torch.optim.SGD(discriminator.parameters(), lr=0.01, momentum=0.9)
    of_discriminator, of_generator = LOSSES[loss]
    steps = []
    for step in range(STEPS):
        real = (ramp(IMAGE) * (step + 1)).cos().requires_grad_()
        scale = torch.tensor([0.5, -0.25]).view(2, 1, 1, 1).requires_grad_()
        fake = ramp(IMAGE) * scale + 0.1 * step
        scores = discriminator(real)
        value = of_discriminator(scores, discriminator(fake.detach()))
        penalty = torch.autograd.grad(scores.sum(), real, create_graph=True)[0].square().sum() / len(real)
        optimizer.zero_grad()
        (value + r1_weight / 2 * penalty).backward()
        optimizer.step()
        generated = of_generator(discriminator(fake))
        steps.append({"loss": numbers(generated.detach()), "gradient": numbers(torch.autograd.grad(generated, scale)[0].flatten())})
    weights = {name: numbers(tensor.detach().flatten()) for name, tensor in [*discriminator.named_parameters(), *discriminator.named_buffers()]}
    return {"loss": loss, "r1_weight": r1_weight, "steps": steps, "weights": weights}


if __name__ == "__main__":
    save("gan", {"seed": SEED, "image": IMAGE, "options": OPTIONS, "cases": [case(loss, r1) for loss in LOSSES for r1 in (0, 0.5)]})
