"""Losses of 20 steps of each family of models on the GPU and on the CPU, from the same seed and data, in float32."""

import typing

import data_sets
from machine import ROOT
from outcomes import check, failed
from runner import Check

STEPS = 20
PIXELS = ["dataset.train.height=64", "dataset.train.width=64", "dataset.train.classes=10", "dataset.train.samples=1000", "optimizer.lr=0.01"]
# The tolerance is the largest relative difference of a loss in the 20 steps. Sums of floats are ordered differently on a GPU, and
# batch normalization over a few images enlarges the difference from step to step.
DENSE, NORMALIZED = 1e-3, 2e-2


class Family(typing.NamedTuple):
    name: str
    config: str
    tolerance: float
    overrides: list


def pictures(model, tolerance, options=""):
    return Family(model, "imagenet-sample/synthetic.yaml", tolerance, [*PIXELS, f"model={{type: {model}{options}}}"])


FAMILIES = [
    Family("linear", "mnist/linear.yaml", DENSE, []),
    Family("mlp", "mnist/ffn.yaml", DENSE, []),
    Family("lenet", "mnist/lenet.yaml", DENSE, []),
    Family("torchscript", "mnist/torchscript.yaml", DENSE, []),
    Family("mlp, regression", "tabular/regression.yaml", DENSE, []),
    Family("gpt", "text/gpt_tiny.yaml", DENSE, ["model.dropout=0"]),
    Family("sequential", "cifar10/layers/convmixer.yaml", NORMALIZED, []),
    Family("resnet_cifar", "cifar10/resnet_cifar.yaml", NORMALIZED, []),
    pictures("resnet18", NORMALIZED),
    pictures("resnet50", NORMALIZED),
    pictures("se_resnet50", NORMALIZED),
    pictures("mobilenet_v2", NORMALIZED, ", dropout: 0"),
    pictures("mobilenet_v3_small", NORMALIZED, ", dropout: 0"),
    pictures("efficientnet_b0", NORMALIZED, ", dropout: 0, stochastic_depth_prob: 0"),
    pictures("convnext_tiny", DENSE, ", stochastic_depth_prob: 0"),
    pictures("vit_tiny", DENSE),
]
REHEARSED = ("mlp", "gpt")


def prepare(context):
    """Makes the data of all families, and returns the environment of their runs."""
    data_sets.mnist(context)
    data_sets.cifar10(context)
    data_sets.generated(context, "houses", "text")
    script = ROOT / "tests/golden/torch/script.pt"
    return {"TRAINCTL_DATA": data_sets.folder(context), "TRAINCTL_SCRIPT": script, "TRAINCTL_SCRIPT_SHA256": data_sets.sha256(script)}


def losses(context, family, accelerator, environment):
    steps = 3 if context.quick else STEPS
    words = [*family.overrides, "++loader.batch_size=16", "++loader.num_workers=0", "++scheduler=constant", f"++trainer.max_steps={steps}",
             "++trainer.log_every_n_steps=1", "++trainer.limit_val_batches=1", "++trainer.float32_matmul_precision=highest",
             "++trainer.channels_last=false"]
    run = context.train(context.config(family.config), *words, accelerator=accelerator, environment=environment)
    assert run.done.code == 0, run.done.end
    return [step["train/loss"] for step in run.steps()], run.result["data_digest"]


def difference(one, other):
    """Returns the largest relative difference of two lists of losses, or infinity if a loss is not a finite number."""
    if len(one) != len(other) or not all(isinstance(loss, (int, float)) for loss in one + other):
        return float("inf")
    return max(abs(a - b) / max(abs(a), abs(b), 1e-6) for a, b in zip(one, other))


def compare(family):
    def run(context):
        environment = prepare(context)
        on_cpu, batches = losses(context, family, "cpu", environment)
        on_device, others = losses(context, family, context.accelerator, environment)
        if batches != others:
            return failed("the batches on the two devices differ", cpu=batches, device=others)
        largest = difference(on_cpu, on_device)
        return check(largest <= family.tolerance, f"the losses differ by {largest:.2g}, more than {family.tolerance:g}",
                     difference=largest, tolerance=family.tolerance, steps=len(on_cpu), losses={"cpu": on_cpu, context.device: on_device})

    return Check(family.name, run, 90)


def checks(context):
    return [compare(family) for family in FAMILIES if not context.quick or family.name in REHEARSED]
