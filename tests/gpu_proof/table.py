"""The stages of a proof, in the order in which `next` and `all` run them: what says most in few minutes comes first."""

from runner import Stage
from stages import cases, doctor, first_runs, goldens, parity, profile, resume, robustness, sanitizer, settings, speed

STAGES = [
    Stage("doctor", "the machine, the program, its libraries and the Python of the peers", doctor.checks),
    Stage("cases", "every test case with the tag [gpu], one process each", cases.checks),
    Stage("first_runs", "the quickstart, the CUDA graph of its step, and loader.num_workers=auto on synthetic ImageNet", first_runs.checks),
    Stage("speed", "speed, memory and energy next to PyTorch: the first round, without torch.compile", speed.checks),
    Stage("profile", "synchronizations within steps, TF32 kernels and device rows of a profile", profile.checks),
    Stage("parity", "the losses of 20 steps on a GPU and on a CPU, for each family of models", parity.checks),
    Stage("robustness", "runs that lack memory, are killed, hang, or corrupt the CUDA context", robustness.checks),
    Stage("resume", "verify-resume with and without deterministic kernels", resume.checks),
    Stage("settings", "plan, and bench over CUDA graphs, memory format and precision", settings.checks),
    Stage("sanitizer", "compute-sanitizer on the program's own kernels", sanitizer.checks),
    Stage("goldens", "the other test cases of the engine, and published losses on MNIST", goldens.checks),
    Stage("rounds", "the other rounds of the speed table, alternating, with torch.compile", speed.other_rounds),
]


def stage_named(name):
    return next((stage for stage in STAGES if stage.name == name), None)
