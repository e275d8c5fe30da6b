"""Models that torch.ao.quantization (eager mode, x86) converts to int8 after training: scales and zero points of the activations,
scales of the weights, and outputs. Convolutions are calibrated, linear layers dynamic. The weights are those of SEED, shifted a
little; the running averages of batch norms are sines. `trained` is a model in quantization-aware training: the outputs of three
batches, the gradients of the last one, the buffers after it, and the output in evaluation.

Needs torch 2.11."""
import copy
import warnings

import torch
from golden import move, numbers, ramp, save
from torch import nn
from torch.ao import quantization as q

SEED = 42
SHAPE = [1, 8, 8]
OBSERVERS = {"histogram": q.HistogramObserver, "min_max": q.MinMaxObserver}


def convolution(channels, **options):
    return {"type": "conv2d", "out_channels": channels, "kernel_size": 3, **options}


def network():
    """Returns the layers for `sequential`, and PyTorch's: those with calibration, then those without."""
    layers = [convolution(4, padding=1), "batch_norm2d", "relu", {"type": "max_pool2d", "kernel_size": 2},
              convolution(6, stride=2), "batch_norm2d", "relu", "flatten", {"type": "linear", "out_features": 5}, "relu", "linear"]
    return layers, [nn.Conv2d(1, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU(), nn.MaxPool2d(2),
                    nn.Conv2d(4, 6, 3, stride=2), nn.BatchNorm2d(6), nn.ReLU()], [nn.Flatten(), nn.Linear(6, 5), nn.ReLU(), nn.Linear(5, 3)]


def perceptron():
    layers = ["flatten", {"type": "linear", "out_features": 5}, "relu", {"type": "linear", "bias": False}]
    return layers, [], [nn.Flatten(), nn.Linear(64, 5), nn.ReLU(), nn.Linear(5, 3, bias=False)]


def calibration():
    """The third batch has another range than the first two, so the histograms are stretched."""
    return [ramp(SHAPE), ramp(SHAPE).mul(0.7).add(0.1), ramp(SHAPE).mul(1.5).sub(0.2)]


def params(module):
    return [float(module.scale), int(module.zero_point)]


def weight_scales(module):
    return module.weight().q_per_channel_scales().tolist()


def build(make):
    torch.manual_seed(SEED)
    layers, features, head = make()
    move(nn.Sequential(*features, *head))
    for norm in filter(lambda one: isinstance(one, nn.BatchNorm2d), features):
        norm.running_mean.copy_(torch.arange(norm.num_features).double().sin().div(10))
        norm.running_var.copy_(torch.arange(norm.num_features).double().cos().div(2).add(1))
    return layers, features, head


def describe(name, make, observer):
    layers, features, head = build(make)
    plain = nn.Sequential(*copy.deepcopy(features), *copy.deepcopy(head)).eval()
    features = nn.Sequential(*features).eval()
    case = {"name": name, "observer": observer, "layers": layers, "float32": numbers(plain(ramp(SHAPE)).detach())}
    if len(features):
        features = q.fuse_modules(features, [["0", "1", "2"], ["4", "5", "6"]])
    model = nn.Sequential(q.QuantStub(), features, q.DeQuantStub(), nn.Sequential(*head)).eval()
    if len(features):
        calibrated = q.QConfig(activation=OBSERVERS[observer].with_args(reduce_range=True), weight=q.default_per_channel_weight_observer)
        for part in model[:3]:
            part.qconfig = calibrated
        q.prepare(model, inplace=True)
        for batch in calibration():
            model(batch)
        q.convert(model, inplace=True)
        case["input"] = params(model[0])
        case["convolutions"] = [{"output": params(part), "weight": weight_scales(part)} for part in (model[1][0], model[1][4])]
    q.quantize_dynamic(model, {nn.Linear: q.per_channel_dynamic_qconfig}, inplace=True)
    case["linear"] = [weight_scales(part) for part in model[3] if hasattr(part, "weight")]
    case["outputs"] = [numbers(model(batch)) for batch in calibration()]
    print(f"{name} {observer}: {case['outputs'][0][0]}")
    return case


def train():
    """The first layers are fused as an int8 model fuses them; the linear layers round only their weights."""
    layers, features, head = build(network)
    features = q.fuse_modules_qat(nn.Sequential(*features).train(), [["0", "1", "2"], ["4", "5", "6"]])
    model = nn.Sequential(q.QuantStub(), features, q.DeQuantStub(), nn.Sequential(*head)).train()
    for part in model[:2]:
        part.qconfig = q.get_default_qat_qconfig("x86")
    for part in model[3]:
        part.qconfig = q.QConfig(activation=nn.Identity, weight=q.default_fused_per_channel_wt_fake_quant)
    q.prepare_qat(model, inplace=True)
    outputs = [model(batch) for batch in calibration()]
    (outputs[-1] * ramp(outputs[-1].shape[1:])).sum().backward()
    first, second = model[1][0], model[1][4]
    named_parameters = {"0.weight": first.weight, "0.bias": first.bias, "1.weight": first.bn.weight, "1.bias": first.bn.bias,
                        "4.weight": second.weight, "4.bias": second.bias, "5.weight": second.bn.weight, "5.bias": second.bn.bias,
                        "8.weight": model[3][1].weight, "8.bias": model[3][1].bias, "10.weight": model[3][3].weight,
                        "10.bias": model[3][3].bias}
    rounded = {"0.input.activation_post_process": model[0].activation_post_process,
               "0.weight_fake_quant": first.weight_fake_quant, "0.activation_post_process": first.activation_post_process,
               "4.weight_fake_quant": second.weight_fake_quant, "4.activation_post_process": second.activation_post_process,
               "8.weight_fake_quant": model[3][1].weight_fake_quant, "10.weight_fake_quant": model[3][3].weight_fake_quant}
    buffers = {"1.running_mean": first.bn.running_mean, "1.running_var": first.bn.running_var}
    for name, part in rounded.items():
        inner = part.activation_post_process
        for key, value in (("scale", part.scale), ("zero_point", part.zero_point), ("activation_post_process.min_val", inner.min_val),
                           ("activation_post_process.max_val", inner.max_val)):
            buffers[f"{name}.{key}"] = value.reshape(-1)
    gradients = {name: numbers(parameter.grad) for name, parameter in named_parameters.items()}
    evaluated = model.eval().apply(q.disable_observer)(ramp(SHAPE))
    print(f"trained: {outputs[-1][0].tolist()}, {evaluated[0].tolist()}")
    return {"layers": layers, "outputs": [numbers(one.detach()) for one in outputs], "gradients": gradients,
            "buffers": {name: numbers(value.detach()) for name, value in buffers.items()}, "evaluated": numbers(evaluated.detach())}


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    cases = [describe("network", network, observer) for observer in OBSERVERS] + [describe("perceptron", perceptron, "histogram")]
    save("quantized", {"seed": SEED, "input_shape": SHAPE, "cases": cases, "trained": [train()]})
