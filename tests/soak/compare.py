"""Compares two run folders: they are equal if weights, all other state, losses, epochs and batches are the same."""

import csv
import json
import re
import struct

PREFIX = struct.Struct("<8sIIQQ")  # the prefix of a container: magic, version, checksum, length of the file, length of the header
# Times, and the last values of the progress bar, which depend on the clock.
TIME = re.compile(r"(_s|_at|_ns|_ms)$|elapsed|seconds|time|wall|^progress_mark$|^shown_loss$")


def read_container(path):
    """Returns ({name: (dtype, shape, bytes)}, meta) of a part or a manifest."""
    data = path.read_bytes()
    magic, _, _, length, header_length = PREFIX.unpack_from(data)
    if magic != b"TCTLCKPT" or length != len(data):
        raise AssertionError(f"{path} has another length than its header says")
    header = json.loads(data[PREFIX.size:PREFIX.size + header_length])
    begin = -(-(PREFIX.size + header_length) // 64) * 64
    entries = {}
    for entry in header["entries"]:
        at = begin + entry["offset"]
        entries[entry["name"]] = (entry["dtype"], entry["shape"], data[at:at + entry["length"]])
    return entries, header["meta"]


def read_safetensors(path):
    data = path.read_bytes()
    length = struct.unpack_from("<Q", data)[0]
    header = json.loads(data[8:8 + length])
    header.pop("__metadata__", None)
    return {name: (one["dtype"], one["shape"], data[8 + length:][slice(*one["data_offsets"])]) for name, one in header.items()}


def read_part(path):
    """Returns the same of a rank's part, with the groups of tensors that the manifest stores in other files."""
    entries, meta = read_container(path)
    shared = read_container(path.parent / "manifest")[1].get("shared", []) if path.name == "rank_0.part" else []
    for group in shared:
        if "same_as" in group:
            found = {name.removeprefix(group["same_as"]): entry for name, entry in entries.items()
                     if name.startswith(group["same_as"])}
        else:
            found = read_safetensors(path.parent / group["file"])
        entries.update({group["group"] + name: entry for name, entry in found.items()})
    return entries, meta


def without_times(value):
    if isinstance(value, dict):
        return {key: without_times(item) for key, item in value.items() if not TIME.search(key)}
    return [without_times(item) for item in value] if isinstance(value, list) else value


def last_of(run_dir):
    """Returns the folder that checkpoints/last points to."""
    return (run_dir / "checkpoints/last").resolve(strict=True)


def step_of(checkpoint):
    return int(re.search(r"step=(\d+)$", checkpoint.name).group(1))


def committed(run_dir):
    """Returns the checkpoints with a manifest, oldest first."""
    found = [path for path in (run_dir / "checkpoints").glob("epoch=*-step=*") if (path / "manifest").is_file()]
    return sorted(found, key=lambda path: (step_of(path), path.name))


def history(run_dir, name, read):
    """Returns the lines of a file of the run folder, in the order of their last occurrence. A line that occurs again after a
    resume must be equal, also if the first one was moved to superseded/."""
    found = {}
    for key, line in read(run_dir / name):
        before = found.pop(key, line)
        if before != line:
            raise AssertionError(f"{name}: what was repeated differs: {before} then {line}")
        found[key] = line
    for path in sorted((run_dir / "superseded").glob(f"*/{name}")):
        for key, line in read(path):
            if found.get(key) != line:
                raise AssertionError(f"{name}: the superseded lines differ: {line} then {found.get(key)}")
    return list(found.values())


def read_steps(path):
    """Yields (key, line without times). A line that a kill has cut off is skipped: the resumed run writes it again, or it is
    missed."""
    for text in path.read_text().splitlines():
        try:
            line = without_times(json.loads(text))
        except ValueError:
            continue
        yield (line["type"], line["step"], line["epoch"]), line


def read_epochs(path):
    """Yields (epoch, row without the timing columns)."""
    with open(path, newline="") as file:
        table = list(csv.reader(file))
    names = table[0]
    for cells in table[1:]:
        if len(cells) == len(names):
            row = {name: cell for name, cell in zip(names, cells) if name in ("epoch", "step", "lr") or "/" in name}
            yield row["epoch"], row


def steps(run_dir):
    return history(run_dir, "metrics.jsonl", read_steps)


def epochs(run_dir):
    return history(run_dir, "epochs.csv", read_epochs)


def part_differences(mine, other, label):
    (my_entries, my_meta), (its_entries, its_meta) = read_part(mine), read_part(other)
    found = [f"{label} has {name} in one run only" for name in sorted(my_entries.keys() ^ its_entries.keys())]
    found += [f"{label}: {name} differs" for name in sorted(my_entries.keys() & its_entries.keys())
              if my_entries[name] != its_entries[name]]
    left, right = without_times(my_meta), without_times(its_meta)
    if left != right:
        keys = sorted(key for key in {*left, *right} if left.get(key) != right.get(key))
        found.append(f"{label}: what it says of {', '.join(keys)} differs: {[left.get(key) for key in keys]} "
                     f"and {[right.get(key) for key in keys]}"[:600])
    return found


def checkpoint_differences(run_dir, reference):
    mine, other = last_of(run_dir), last_of(reference)
    if mine.name != other.name:
        return [f"checkpoints/last is {mine.name} and {other.name}"]
    names = sorted(path.name for path in mine.glob("*.part"))
    if names != sorted(path.name for path in other.glob("*.part")) or not names:
        return [f"{mine.name} has the parts {names}, the other run has others"]
    found = [line for name in names for line in part_differences(mine / name, other / name, name)]
    for path in sorted((reference / "checkpoints").glob("*.safetensors")):
        ours = run_dir / "checkpoints" / path.name
        if not ours.is_file() or ours.read_bytes() != path.read_bytes():
            found.append(f"{path.name} differs or is not there")
    return found


def list_differences(mine, other, what):
    if mine == other:
        return []
    pairs = [f"{a} and {b}" for a, b in zip(mine, other) if a != b][:1] or ["one is the beginning of the other"]
    return [f"{what} differ ({len(mine)} and {len(other)} of them): {pairs[0]}"]


def differences(run_dir, reference):
    """Returns a sentence for each difference; none if the runs trained the same, bit for bit."""
    found = checkpoint_differences(run_dir, reference)
    found += list_differences(steps(run_dir), steps(reference), "lines of metrics.jsonl")
    found += list_differences(epochs(run_dir), epochs(reference), "rows of epochs.csv")
    mine, other = (json.loads((folder / "result.json").read_text()) for folder in (run_dir, reference))
    for key in ("verdict", "exit_code", "steps", "train", "val", "data_digest", "world_size"):
        if mine[key] != other[key]:
            found.append(f"result.json says of {key}: {mine[key]} and {other[key]}")
    return found
