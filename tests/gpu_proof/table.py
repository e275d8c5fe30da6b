"""The stages of a proof, in the order in which `next` runs them."""

from runner import Stage
from stages import cases, doctor, first_runs, goldens, parity, profile, resume, robustness, sanitizer, settings, speed

STAGES = [
    Stage("doctor", "the machine, the program, its libraries and the Python of the peers", doctor.checks),
    Stage("cases", "every test case with the tag [gpu], one process each", cases.checks),
    Stage("first_runs", "the quickstart, the CUDA graph of its step, and loader.num_workers=auto on synthetic ImageNet", first_runs.checks),
    Stage("profile", "synchronizations within steps, TF32 kernels and device rows of a profile", profile.checks),
    Stage("speed", "speed, memory and energy next to PyTorch, alternating, medians of five rounds", speed.checks),
    Stage("parity", "the losses of 20 steps on a GPU and on a CPU, for each family of models", parity.checks),
    Stage("robustness", "runs that lack memory, are killed, hang, or corrupt the CUDA context", robustness.checks),
    Stage("sanitizer", "compute-sanitizer on the program's own kernels", sanitizer.checks),
    Stage("resume", "verify-resume with and without deterministic kernels", resume.checks),
    Stage("settings", "plan, and bench over CUDA graphs, memory format and precision", settings.checks),
    Stage("goldens", "the other test cases of the engine, and published losses on MNIST", goldens.checks),
]


def stage_named(name):
    return next((stage for stage in STAGES if stage.name == name), None)
