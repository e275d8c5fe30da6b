"""Helpers for processes: which are alive, the last heartbeat of a rank, and waiting for a condition."""

import collections
import mmap
import os
import pathlib
import struct
import time

DEADLINE = 600  # a test that takes longer than this hangs
PHASES = ["startup", "train", "validate", "checkpoint", "shutdown", "load"]  # in the order of events::Phase
Beat = collections.namedtuple("Beat", "step phase")
STAMP = struct.Struct("=qi4xq")  # the layout of events::Heartbeat


def wait_for(what, condition, timeout=DEADLINE, pause=0.002):
    """Returns the value of `condition` as soon as it is true."""
    end = time.monotonic() + timeout
    while time.monotonic() < end:
        found = condition()
        if found:
            return found
        time.sleep(pause)
    raise AssertionError(f"waited {timeout} s for {what}")


def processes(*words):
    """Returns the living processes with one of the words in their environment or command line."""
    needles = [word.encode() for word in words]
    found = []
    for entry in pathlib.Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        try:
            text = (entry / "cmdline").read_bytes() + b"\0" + (entry / "environ").read_bytes()
            state = (entry / "stat").read_text().rsplit(")", 1)[1].split()[0]
        except OSError:
            continue
        if state not in "ZX" and any(needle in text for needle in needles):
            found.append(int(entry.name))
    return found


def environment_of(pid):
    try:
        return pathlib.Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:
        return []


def shared_memory():
    return set(os.listdir("/dev/shm")) if os.path.isdir("/dev/shm") else set()


def send(pid, number):
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        pass


class Pages:
    """Reads the last heartbeat of each rank of a job from the pages that the ranks share with their supervisor."""

    def __init__(self, pid):
        self.maps, self.read_at = [], time.monotonic()
        for link in sorted(pathlib.Path(f"/proc/{pid}/fd").iterdir(), key=lambda path: int(path.name)):
            try:
                if os.readlink(link).startswith("/memfd:trainctl-heartbeat"):
                    with open(link, "rb") as file:
                        self.maps.append(mmap.mmap(file.fileno(), STAMP.size, access=mmap.ACCESS_READ))
            except OSError:
                continue

    def beats(self):
        stamps = [STAMP.unpack(page[:STAMP.size]) for page in self.maps]
        return [Beat(step, PHASES[phase] if phase < len(PHASES) else "") for step, phase, when in stamps if when]
