"""A profile of eager steps: what the host waits for, whether convolutions use TF32, and whether the device has rows."""

import json

from machine import SMALL
from outcomes import check, skipped
from runner import Check

# Calls that wait for the device, or may do so.
WAITS = ("cudaStreamSynchronize", "cudaDeviceSynchronize", "cuStreamSynchronize", "cuCtxSynchronize", "cudaMemcpy", "cudaMalloc", "cudaFree",
         "cudaHostAlloc", "cudaFreeHost")
EVENT_WAITS = ("cudaEventSynchronize", "cuEventSynchronize")  # bound how far the host runs ahead
LAUNCHES = ("cudaLaunchKernel", "cudaLaunchKernelExC", "cuLaunchKernel", "cuLaunchKernelEx", "cudaGraphLaunch")


def profiled(context, *overrides):
    """Returns the trace of five steps of ResNet-50 between two log points."""
    size = SMALL if context.quick else []
    run = context.train(context.config("imagenet-sample/synthetic.yaml"), *size, "trainer.max_steps=20", "++trainer.log_every_n_steps=1000",
                        *overrides, flags=["--profile=8,2,5"])
    assert run.done.code == 0, run.done.end
    return json.loads((run.folder / "profile/trace.json").read_text())["traceEvents"], run.folder


def waits_between_launches(events, calls=WAITS):
    """Returns {call: count} of the waits after the first and before the last kernel launch of a trace."""
    launches = [event["ts"] for event in events if event.get("name") in LAUNCHES]
    if not launches:
        return {}
    counted = {}
    for event in events:
        if event.get("name") in calls and min(launches) <= event["ts"] <= max(launches):
            counted[event["name"]] = counted.get(event["name"], 0) + 1
    return counted


def draining_waits(events):
    """Returns the number of waits for an event, between the first and the last launch, after which no launched kernel is left: the device
    is idle until the host launches the next one."""
    launches = {event.get("args", {}).get("correlation"): event["ts"] for event in events if event.get("name") in LAUNCHES}
    ends = [(launches[event["args"]["correlation"]], event["ts"] + event.get("dur", 0)) for event in events
            if event.get("cat") == "kernel" and event.get("args", {}).get("correlation") in launches]
    if not launches:
        return 0
    waits = [event["ts"] + event.get("dur", 0) for event in events
             if event.get("name") in EVENT_WAITS and min(launches.values()) <= event["ts"] <= max(launches.values())]
    return sum(not any(launched < end < finished for launched, finished in ends) for end in waits)


def kernels(events):
    return [event["name"] for event in events if event.get("cat") == "kernel"]


def waits(context):
    events, _ = profiled(context, "++trainer.cuda_graphs=false")
    found = waits_between_launches(events)
    rows = len(kernels(events))
    if context.device != "cuda":
        return check(events, "the trace is empty", events=len(events))
    drained = draining_waits(events)
    return check(not found and rows and not drained, f"waits: {found}; {drained} waits for events leave the device idle; {rows} rows of kernels", waits=found,
                 drained=drained, event_waits=waits_between_launches(events, EVENT_WAITS),
                 kernels=rows)


def graph_waits(context):
    if context.device != "cuda":
        return skipped("needs a GPU")
    events, _ = profiled(context, "++trainer.cuda_graphs=true", "++profiler.cuda_graphs=true")
    found, drained = waits_between_launches(events), draining_waits(events)
    replays = sum(event.get("name") == "cudaGraphLaunch" for event in events)
    return check(replays and not found and not drained, f"{replays} launches of graphs; waits: {found}; {drained} leave the device idle", replays=replays,
                 drained=drained, waits=found, event_waits=waits_between_launches(events, EVENT_WAITS),
                 kernels=len(kernels(events)))


def tf32(context):
    """With `highest`, no kernel may compute in TF32; with `high`, some do."""
    if context.device != "cuda":
        return skipped("needs a GPU")
    names = {}
    for precision in ("highest", "high"):
        events, _ = profiled(context, "++trainer.cuda_graphs=false", f"++trainer.float32_matmul_precision={precision}")
        names[precision] = sorted({name for name in kernels(events) if "tf32" in name.lower() or "s1688" in name})
    return check(not names["highest"] and names["high"], f"TF32 kernels with highest: {names['highest']}, with high: {names['high']}", **names)


def tables(context):
    _, folder = profiled(context)
    sizes = {name: (folder / "profile" / name).stat().st_size for name in ("operators.csv", "layers.csv", "operators.txt", "layers.txt")}
    return check(all(sizes.values()), f"a table is empty: {sizes}", **sizes)


def checks(_context):
    return [Check("waits within eager steps", waits, 90), Check("waits within CUDA graphs", graph_waits, 90), Check("TF32 kernels", tf32, 120),
            Check("tables", tables, 90)]
